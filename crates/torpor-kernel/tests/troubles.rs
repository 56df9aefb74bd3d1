// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What is no kernel, what does not build, and what goes wrong inside one.

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use support::{kernel_sources, kernels, machine, start, task};
use torpor_kernel::{Kernel, KernelError, Step, TaskId, TroubleKind};
use torpor_units::{Duration, Hz, Instant};

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

/// Linux 6.12 with one file changed, in a tree of links.
fn changed(name: &str, file: &str, change: impl Fn(String) -> String) -> Option<PathBuf> {
    let whole = kernel_sources("6.12", name)?;
    let tree = folder(name);
    let (mut from, mut to) = (whole, tree.clone());
    for part in Path::new(file).components() {
        for entry in fs::read_dir(&from).unwrap().flatten() {
            if entry.file_name() != part.as_os_str() {
                symlink(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
        (from, to) = (from.join(part), to.join(part));
        if from.is_dir() {
            fs::create_dir(&to).unwrap();
        }
    }
    fs::write(to, change(fs::read_to_string(from).unwrap())).unwrap();
    Some(tree)
}

#[test]
fn what_is_no_kernel_is_said() {
    let text = error(Path::new("/nowhere/linux"));
    assert!(text.contains("`/nowhere/linux`") && text.contains("hint:"), "{text}");
    let empty = folder("empty");
    assert!(error(&empty).contains("it has no Makefile"), "{}", error(&empty));
    fs::write(empty.join("Makefile"), "all:\n\techo\n").unwrap();
    assert!(error(&empty).contains("VERSION"), "{}", error(&empty));
    fs::write(empty.join("Makefile"), "VERSION = 5\nPATCHLEVEL = 10\nSUBLEVEL = 3\n").unwrap();
    let text = error(&empty);
    assert!(text.contains("5.10.3") && text.contains("6.1"), "{text}");
    fs::write(empty.join("Makefile"), "VERSION = 6\nPATCHLEVEL = 12\n").unwrap();
    assert!(error(&empty).contains("no kernel/sched/core.c"), "{}", error(&empty));
}

#[test]
fn a_symbol_that_nobody_has_is_named_with_its_user() {
    let Some(tree) = changed("a missing symbol", "lib/llist.c", |text| {
        let call = "\textern void not_hosted(void);\n\tnot_hosted();\n";
        text.replacen(
            "\tstruct llist_node *new_head = NULL;\n",
            &format!("{call}\tstruct llist_node *new_head = NULL;\n"),
            1,
        )
    }) else {
        return;
    };
    let text = error(&tree);
    assert!(text.contains("not_hosted (lib/llist.c, llist_reverse_order())"), "{text}");
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

/// Where the scheduler first looks whether a task is preempted by one that wakes: tasks of two names
/// meet with what a bad patch may do.
fn with_bad_patch() -> Option<Kernel> {
    let tree = changed("a bad patch", "kernel/sched/fair.c", |text| {
        let place = "static void check_preempt_wakeup_fair(struct rq *rq, struct task_struct *p, \
                     int wake_flags)\n{\n";
        let patch = "\tif (!strcmp(p->comm, \"fault\")) *(volatile int *)16 = 1;\n\
                     \tWARN(!strcmp(p->comm, \"warned\"), \"a test's %d\\n\", 42);\n\
                     \tBUG_ON(!strcmp(p->comm, \"bug\"));\n\
                     \twhile (!strcmp(p->comm, \"endless\")) cpu_relax();\n";
        assert!(text.contains(place), "6.12 has the function");
        text.replacen(place, &format!("{place}{patch}"), 1)
    })?;
    Some(resolve(&tree).unwrap_or_else(|e| panic!("{e}")))
}

fn work(_: TaskId, now: Instant) -> Step {
    match now.0 % 3 {
        0 => Step::Sleep(now + Duration(1_000_001)),
        _ => Step::Run(Duration(500_000)),
    }
}

#[test]
fn what_goes_wrong_inside_ends_that_run_alone() {
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

    let mut other = start(&kernel, &machine, work);
    other.add_task(task("other")).unwrap();
    assert!(other.run(end, &mut |_| true).is_ok());
}
