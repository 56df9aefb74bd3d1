// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Idle governors of the tree, of other trees and of files in a hosted Linux 6.12.

use super::support::{
    MS, US, kernel_file, kernel_sources, kernels, linux_6_12, machine, start, task,
};
use std::fs;
use std::path::Path;
use torpor_governor::{Catalog, CatalogOptions};
use torpor_machine::units::{Duration, Instant};
use torpor_sim::kernel::{Kernel, KernelError};
use torpor_sim::machine::{Act, Stats, TaskId};

fn with(kernel: &Kernel, governor: &str) -> Result<Kernel, KernelError> {
    let catalog = Catalog::new(CatalogOptions::default());
    kernels().with_governor(kernel, &catalog, &governor.parse().unwrap(), &|_, _| {})
}

/// A second of a task that sleeps for times that come again and again.
fn run(kernel: &Kernel, governor: &str) -> Stats {
    let kernel = with(kernel, governor).unwrap_or_else(|e| panic!("{e}"));
    let mut turn = 0;
    let work = move |_: TaskId, now: Instant| {
        turn += 1;
        match turn % 2 {
            0 => Act::Run(Duration(50 * US)),
            _ => Act::Sleep(now + Duration([300 * US, MS, 20 * US, 9 * MS][turn / 2 % 4])),
        }
    };
    let machine = machine("i5-10600k");
    let mut sim = start(&kernel, &machine, work);
    sim.add_task(task("sleeper")).unwrap();
    sim.run(Instant(1_000 * MS), &mut |_| true).unwrap_or_else(|e| panic!("{governor}: {e}"));
    sim.stats()
}

fn error(kernel: &Kernel, governor: &str) -> String {
    match with(kernel, governor).and_then(|kernel| kernel.boot(&machine("rk3399").hardware)) {
        Ok(_) => panic!("{governor} cannot be used"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn tree_file_decides_as_that_kernels_own() {
    let Some(kernel) = linux_6_12("governors of a tree") else { return };
    let tree = kernel_sources("6.12", "governors of a tree").unwrap();
    for name in ["ladder", "menu", "teo", "haltpoll"] {
        let foreign = format!("{name}@{}", tree.display());
        let [own, foreign] = [name, &foreign].map(|governor| run(&kernel, governor));
        assert_eq!(own, foreign, "{name}");
    }
    assert_ne!(run(&kernel, "menu"), run(&kernel, "teo"));
}

#[test]
fn our_governors_run_and_references_hold() {
    let Some(kernel) = linux_6_12("our governors in a kernel") else { return };
    for name in Catalog::builtin_names() {
        assert!(run(&kernel, name).tasks[0].wakeups > 200, "{name}");
    }
    let entries = |governor: &str| {
        let cpus = run(&kernel, governor).cpus;
        let sum = |state: usize| cpus.iter().map(|cpu| cpu.entries[state]).sum::<u64>();
        let deepest = cpus[0].entries.len() - 1;
        (sum(0), sum(deepest), cpus.iter().flat_map(|cpu| &cpu.entries).sum::<u64>())
    };
    let (shallow, _, all) = entries("shallowest");
    assert_eq!(shallow, all);
    let (_, deep, all) = entries("deepest");
    assert_eq!(deep, all);
}

#[test]
#[ignore = "slow: compiles many governors; `make test-long`"]
fn governors_of_other_releases_run() {
    let Some(kernel) = linux_6_12("governors of other releases") else { return };
    for release in ["5.10", "6.1", "7.3"] {
        let Some(tree) = kernel_sources(release, "governors of another release") else { continue };
        for name in ["ladder", "menu", "teo"] {
            let stats = run(&kernel, &format!("{name}@{}", tree.display()));
            assert!(stats.tasks[0].wakeups > 200, "{name} of {release}");
        }
    }
    let Some(old) = kernel_file("menu-69a37bea.c", "a governor that is too old") else { return };
    let text = error(&kernel, old.to_str().unwrap());
    assert!(text.contains("does not compile in kernel") && text.contains("6.12."), "{text}");
    assert!(text.contains("function __get_cpu_var()"), "{text}");
}

#[test]
fn parameters_are_the_kernels_module_parameters() {
    let Some(kernel) = linux_6_12("parameters of governors") else { return };
    let limit = |ns: &str| run(&kernel, &format!("haltpoll,guest_halt_poll_ns={ns}"));
    assert_ne!(limit("1000"), limit("2000000"));
    let text = error(&kernel, "haltpoll,nonesuch=1");
    assert!(text.contains("no parameter haltpoll.nonesuch"), "{text}");
    assert!(text.contains("guest_halt_poll_grow_start"), "{text}");
    let text = error(&kernel, "haltpoll,guest_halt_poll_ns=much");
    assert!(text.contains("`much` is not a value for haltpoll.guest_halt_poll_ns"), "{text}");
    assert!(error(&kernel, "menu,x=1").contains("the governor has none"));
    assert!(error(&kernel, "menu,CONFIG_SMP=n").contains("CONFIG_SMP is set by the kernel"));
}

/// A user's file may use the kernel's names, or break.
#[test]
fn users_file_may_use_any_symbol() {
    let Some(kernel) = linux_6_12("a governor of one's own") else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("own governors");
    fs::create_dir_all(&folder).unwrap();
    let shallowest =
        Catalog::builtins().unwrap().into_iter().find(|b| b.name == "shallowest").unwrap();
    let file = |name: &str, before: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, format!("{before}\n{text}")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    // Names of a kernel's function and of a kernel's governor.
    let clash = "int update_rq_clock(void); int update_rq_clock(void) { return 1; }";
    let named = shallowest.source.replace("\"shallowest\"", "\"menu\"");
    let path = file("a name,with - all.c", clash, &named);
    assert_eq!(run(&kernel, &path), run(&kernel, "shallowest"));

    let text = error(&kernel, &file("header.c", "#include <linux/nothing.h>", shallowest.source));
    assert!(text.contains("it has no header <linux/nothing.h>"), "{text}");
    let call = "int nothing(void); int used; static int __init call(void) { return nothing(); } \
                ";
    let call = format!("#include <linux/init.h>\n{call}\nlate_initcall(call);");
    let text = error(&kernel, &file("symbol.c", &call, shallowest.source));
    assert!(text.contains("it has no function nothing()"), "{text}");
    let text = error(&kernel, &file("syntax.c", "int 1;", shallowest.source));
    assert!(text.contains("syntax.c:1:5: error:"), "{text}");
    let text = error(&kernel, &file("none.c", "", "int nothing;\n"));
    assert!(text.contains("none registers no idle governor"), "{text}");
    let hangs = shallowest.source.replace("int idx = 0;", "int idx = 0; for (;;) cpu_relax();");
    let text = error(&kernel, &file("hangs.c", "#include <asm/processor.h>", &hangs));
    assert!(text.contains("did not return"), "{text}");
}
