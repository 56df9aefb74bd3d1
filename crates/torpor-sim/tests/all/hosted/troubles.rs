// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Trees that are no kernel, that do not build, and that fail inside one.

use super::support::{change_file, kernel_sources, kernels, machine, start, task};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use torpor_machine::units::{CpuId, Duration, Hz, Instant};
use torpor_sim::kernel::{Attributes, Kernel, KernelError, TroubleKind};
use torpor_sim::machine::{Act, TaskId};

fn resolve(tree: &Path) -> Result<Kernel, KernelError> {
    kernels().resolve(&tree.display().to_string().parse().unwrap(), Hz::H250, &|_, _| {})
}

fn error(tree: &Path) -> String {
    resolve(tree).err().expect("it cannot be hosted").to_string()
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trees").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Linux 6.12 with one file changed.
fn changed(name: &str, file: &str, change: impl Fn(String) -> String) -> Option<PathBuf> {
    let tree = folder(name);
    change_file(&kernel_sources("6.12", name)?, &tree, file, change);
    Some(tree)
}

#[test]
fn tree_without_a_kernel_is_an_error() {
    let text = error(Path::new("/nowhere/linux"));
    assert!(text.contains("`/nowhere/linux`") && text.contains("hint:"), "{text}");
    let empty = folder("empty");
    assert!(error(&empty).contains("it has no Makefile"), "{}", error(&empty));
    fs::write(empty.join("Makefile"), "all:\n\techo\n").unwrap();
    assert!(error(&empty).contains("VERSION"), "{}", error(&empty));
    fs::write(empty.join("Makefile"), "VERSION = 5\nPATCHLEVEL = 10\nSUBLEVEL = 3\n").unwrap();
    let text = error(&empty);
    assert!(text.contains("5.10.3") && text.contains("6.1"), "{text}");
    assert!(text.contains("it has no kernel/sched/build_policy.c (since 5.18), "), "{text}");
    fs::write(empty.join("Makefile"), "VERSION = 6\nPATCHLEVEL = 12\n").unwrap();
    assert!(error(&empty).contains("no kernel/sched/core.c"), "{}", error(&empty));
}

#[test]
fn bad_tarball_or_revision_is_an_error() {
    let place = folder("damaged");
    let run = |program: &str, args: &[&str]| {
        let status = Command::new(program).current_dir(&place).args(args).status();
        assert!(status.expect("it starts").success(), "{program} {args:?}");
    };
    fs::create_dir(place.join("linux")).unwrap();
    let makefile = "VERSION = 6\nPATCHLEVEL = 12\n".to_owned() + &"# filler\n".repeat(9_000);
    fs::write(place.join("linux/Makefile"), makefile).unwrap();
    run("tar", &["-czf", "whole.tar.gz", "linux"]);
    let text = error(&place.join("whole.tar.gz"));
    assert!(text.contains("whole.tar.gz` is not a kernel tree: it has no kernel/sched"), "{text}");

    let whole = fs::read(place.join("whole.tar.gz")).unwrap();
    fs::write(place.join("cut.tar.gz"), &whole[..whole.len() / 2]).unwrap();
    let text = error(&place.join("cut.tar.gz"));
    assert!(text.contains("cut.tar.gz cannot be unpacked: ") && text.contains("hint:"), "{text}");
    fs::write(place.join("text.tar.gz"), "no tarball").unwrap();
    assert!(error(&place.join("text.tar.gz")).contains("cannot be unpacked"), "it is a text");

    run("git", &["init", "-q", "."]);
    run("git", &["add", "text.tar.gz"]);
    run("git", &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "none"]);
    let text = error(Path::new(&format!("{}:HEAD", place.display())));
    assert!(text.contains("no kernel at ") && text.contains("Makefile"), "{text}");
    let text = error(Path::new(&format!("{}:v9.9", place.display())));
    assert!(text.contains("git in "), "{text}");
}

#[test]
fn revision_ignores_git_filters_and_attributes() {
    let dir = folder("filtered");
    let (place, touched) = (dir.join("repo"), dir.join("touched"));
    fs::create_dir(&place).unwrap();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        let me = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        let output = command.arg("-C").arg(&place).args(me).args(args).output();
        let output = output.expect("git is on this machine");
        assert!(output.status.success(), "git {args:?}: {output:?}");
    };
    git(&["init", "-q"]);
    fs::write(place.join("Makefile"), "VERSION = 5\nPATCHLEVEL = 9\n").unwrap();
    fs::write(place.join(".gitattributes"), "* filter=any\nMakefile export-ignore\n").unwrap();
    git(&["add", "."]);
    git(&["commit", "-qm", "a tree"]);
    for kind in ["smudge", "process"] {
        git(&["config", &format!("filter.any.{kind}"), &format!("touch {}", touched.display())]);
        let spec = format!("{}:HEAD", place.display());
        let text = error(Path::new(&spec));
        assert!(text.contains("5.9.0"), "{text}");
        assert!(!touched.exists(), "{kind} ran");
    }
}

/// Its function is in the tree with a bad patch, so that no more is compiled.
#[test]
fn unknown_function_ends_a_run_that_reaches_it() {
    let Some(kernel) = with_bad_patch() else { return };
    assert_eq!(kernel.unknown_functions(), ["oom_killer_disable"]);
    let machine = machine("rk3399");
    let mut sim = start(&kernel, &machine, work);
    let ended = (0..40).find_map(|_| sim.add_task(task("unknown")).err());
    let ended = ended.or_else(|| sim.run(Instant(100_000_000), &mut |_| true).err());
    let trouble = ended.expect("one of so many tasks wakes on a busy CPU");
    assert_eq!(trouble.detail().kind, TroubleKind::Unreached);
    let text = trouble.to_string();
    assert!(
        text.contains("oom_killer_disable(), of mm/oom_kill.c, for which khost/src/"),
        "{text}"
    );
}

#[test]
fn unknown_variable_names_its_file_and_user() {
    let Some(tree) = changed("a missing variable", "lib/llist.c", |text| {
        let use_it = "\textern int watchdog_thresh;\n\tif (watchdog_thresh)\n\t\treturn head;\n";
        let place = "\tstruct llist_node *new_head = NULL;\n";
        text.replacen(place, &format!("{place}{use_it}"), 1)
    }) else {
        return;
    };
    let text = error(&tree);
    let line = text.lines().find(|line| line.starts_with("  watchdog_thresh")).expect(&text);
    assert!(line.contains("of kernel/watchdog.c, for which a line in khost/hosted.txt"), "{line}");
    assert!(line.ends_with("used in lib/llist.c, llist_reverse_order()"), "{line}");
}

#[test]
fn a_file_that_does_not_compile_is_named() {
    let Some(tree) = changed("a broken file", "lib/plist.c", |text| {
        format!("#include <linux/not_there.h>\n{text}")
    }) else {
        return;
    };
    let text = error(&tree);
    assert!(text.contains("lib/plist.c does not compile"), "{text}");
    assert!(text.contains("there is no header <linux/not_there.h>"), "{text}");
}

fn with_bad_patch() -> Option<Kernel> {
    static KERNEL: OnceLock<Option<Kernel>> = OnceLock::new();
    let compile = || Some(resolve(&make_bad_patch()?).unwrap_or_else(|e| panic!("{e}")));
    KERNEL.get_or_init(compile).clone()
}

pub fn tree_with_bad_patch() -> Option<PathBuf> {
    with_bad_patch().map(|kernel| PathBuf::from(kernel.name))
}

/// Patches the scheduler so that tasks of certain names make it fail: where a wake-up may preempt
/// the current task, where a woken task is queued (by an interrupt in an idle loop), and where
/// attributes are set.
fn make_bad_patch() -> Option<PathBuf> {
    let tree = changed("a bad patch", "kernel/sched/fair.c", |text| {
        let place = "static void check_preempt_wakeup_fair(struct rq *rq, struct task_struct *p, \
                     int wake_flags)\n{\n";
        let patch = "\tif (!strcmp(p->comm, \"fault\")) *(volatile int *)16 = 1;\n\
                     \tWARN(!strcmp(p->comm, \"warned\"), \"a test's %d\\n\", 42);\n\
                     \tBUG_ON(!strcmp(p->comm, \"bug\"));\n\
                     \twhile (!strcmp(p->comm, \"endless\")) cpu_relax();\n\
                     \tif (!strcmp(p->comm, \"unknown\")) {\n\t\textern _Bool oom_killer_disable(long timeout);\n\t\toom_killer_disable(1);\n\t}\n";
        assert!(text.contains(place), "6.12 has the function");
        let text = text.replacen(place, &format!("{place}{patch}"), 1);
        let place =
            "static void\nenqueue_task_fair(struct rq *rq, struct task_struct *p, int flags)\n{\n";
        let deep = "static int deep(int n);\nstatic int (*volatile deeper)(int) = deep;\n\
                    static int deep(int n)\n{\n\tvolatile char room[512];\n\n\
                    \troom[n % 512] = n;\n\treturn deeper(n + 1) + room[0];\n}\n\n";
        let patch =
            "\tif (is_idle_task(current) && in_hardirq() && !strcmp(p->comm, \"deep\")) deep(0);\n";
        assert!(text.contains(place), "6.12 has the function");
        text.replacen(place, &format!("{deep}{place}{patch}"), 1)
    })?;
    let whole = kernel_sources("6.12", "a bad patch")?;
    change_file(&whole, &tree, "kernel/sched/syscalls.c", |text| {
        let place =
            "int sched_setattr_nocheck(struct task_struct *p, const struct sched_attr *attr)\n{\n";
        let count = "#include <linux/stop_machine.h>\nstatic atomic_t counted;\n\
                     static int count(void *unused) { atomic_inc(&counted); return 0; }\n\
                     static void count_one(void *unused) { count(NULL); }\n";
        let patch = "\tif (!strcmp(p->comm, \"stops\") && current == p) {\n\
                     \t\tint before = atomic_read(&counted);\n\n\
                     \t\tstop_machine(count, NULL, cpu_online_mask);\n\
                     \t\tBUG_ON(atomic_read(&counted) != before + num_online_cpus());\n\
                     \t\tsmp_call_function(count_one, NULL, 1);\n\
                     \t\tBUG_ON(atomic_read(&counted) != before + 2 * num_online_cpus() - 1);\n\t}\n";
        assert!(text.contains(place), "6.12 has the function");
        text.replacen(place, &format!("{count}{place}{patch}"), 1)
    });
    Some(tree)
}

fn work(_: TaskId, now: Instant) -> Act {
    match now.0 % 3 {
        0 => Act::Sleep(now + Duration(1_000_001)),
        _ => Act::Run(Duration(500_000)),
    }
}

#[test]
fn failure_in_a_kernel_ends_only_its_run() {
    let Some(kernel) = with_bad_patch() else { return };
    let machine = machine("rk3399");
    let end = Instant(100_000_000);
    let ends = |name: &str| {
        let mut sim = start(&kernel, &machine, work);
        let ended = (0..40).find_map(|_| sim.add_task(task(name)).err());
        let ended = ended.or_else(|| sim.run(end, &mut |_| true).err());
        let trouble = ended.expect("one of so many tasks wakes on a busy CPU");
        let again = sim.run(Instant(2 * end.0), &mut |_| true);
        assert_eq!(again.err().as_ref(), Some(&trouble), "it is of no more use");
        trouble
    };
    let fault = ends("fault");
    assert_eq!(fault.detail().kind, TroubleKind::Signal { signo: libc::SIGSEGV, address: 16 });

    let warned = ends("warned");
    assert_eq!(warned.detail().kind, TroubleKind::Warn);
    let text = warned.to_string();
    assert!(text.contains("kernel/sched/fair.c:") && text.contains("a test's 42"), "{text}");
    assert!(text.contains("of simulated time"), "{text}");
    let trace = &warned.detail().backtrace;
    let at = trace.iter().position(|f| f == "check_preempt_wakeup_fair");
    assert_eq!(at.map(|at| trace[at + 1].as_str()), Some("wakeup_preempt"), "{trace:?}");

    let bug = ends("bug");
    assert_eq!(bug.detail().kind, TroubleKind::Bug);
    assert!(bug.to_string().contains("BUG: kernel/sched/fair.c:"), "{bug}");

    assert_eq!(ends("endless").detail().kind, TroubleKind::TimedOut);

    let deep = ends("deep");
    assert_eq!(deep.detail().kind, TroubleKind::StackOverflow);
    assert!(deep.to_string().contains("stacks of 16 KiB overflowed"), "{deep}");

    let mut other = start(&kernel, &machine, work);
    other.add_task(task("other")).unwrap();
    assert!(other.run(end, &mut |_| true).is_ok());
}

/// A CPU that waits for all others in a loop: those that sleep wake up for it, and sleep again,
/// within the call, and the hardware notices.
#[test]
fn stop_machine_waits_for_all_cpus() {
    let Some(kernel) = with_bad_patch() else { return };
    // By the advertised latencies no stop falls into a tick's handler. There, the stop ends a sleep
    // that the kernel has entered and counts, and the hardware has not.
    let machine = machine(
        "i5-10600k,C2_ACPI.measured_exit_latency_us=120,C3_ACPI.measured_exit_latency_us=1034",
    );
    let mut turn = 0;
    let work = move |task: TaskId, now: Instant| {
        if task.0 > 0 {
            return work(task, now);
        }
        turn += 1;
        match turn % 2 {
            0 => Act::Sleep(now + Duration(3_000_000)),
            _ => Act::Change(task, Attributes::default()),
        }
    };
    let mut sim = start(&kernel, &machine, work);
    sim.add_task(task("stops")).unwrap();
    for _ in 0..3 {
        sim.add_task(task("other")).unwrap();
    }
    sim.run(Instant(300_000_000), &mut |_| true).unwrap_or_else(|e| panic!("{e}"));
    let stats = sim.stats();
    for (cpu, stats) in stats.cpus.iter().enumerate() {
        let usage = sim.idle_usage(CpuId(cpu as u32)).unwrap();
        let kernels: u64 = usage.iter().map(|state| state.usage).sum();
        let ours: u64 = stats.entries.iter().sum();
        assert!(ours > 90, "cpu {cpu}: one for each time that all were stopped: {ours}");
        assert_eq!(ours, kernels, "cpu {cpu}");
    }
}
