// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One image has all of Torpor's policies, and decides as the kernel does without them.

use super::support::{
    MS, US, change_file, compile, kernel_sources, kernels, linux_6_12, machine, start, task,
};
use std::fs;
use std::path::Path;
use torpor_governor::{Catalog, CatalogOptions};
use torpor_machine::units::{CpuId, Duration, Hz, Instant};
use torpor_sim::kernel::{DEFAULT_KERNEL, Kernel, Kernels, KernelsOptions};
use torpor_sim::machine::{Act, Stats, TaskId};

fn catalog() -> Catalog {
    Catalog::new(CatalogOptions::default())
}

/// Linux 6.12 without one of the places that calls of an IO boost go into.
fn without_places(test: &str) -> Option<Kernel> {
    let whole = kernel_sources("6.12", test)?;
    let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trees/without places");
    let _ = fs::remove_dir_all(&tree);
    fs::create_dir_all(&tree).unwrap();
    change_file(&whole, &tree, "kernel/sched/Makefile", |text| {
        text.replace("obj-y += fair.o", "obj-y += fair.o # alone")
    });
    Some(compile(&tree))
}

/// A second of tasks that wait for IO, sleep and compute, with the kernel's own counters.
fn run(kernel: &Kernel) -> (Stats, Vec<Vec<torpor_sim::kernel::Usage>>) {
    let mut turn = 0;
    let work = move |task: TaskId, now: Instant| {
        turn += 1;
        match (task.0 + turn) % 4 {
            0 => Act::Io(Duration(150 * US)),
            1 => Act::Run(Duration(90 * US + task.0 as i64 * MS)),
            2 => Act::Sleep(now + Duration(3 * MS)),
            _ => Act::Run(Duration(20 * US)),
        }
    };
    let machine = machine("pixel6");
    let mut sim = start(kernel, &machine, work);
    for name in ["reader", "writer", "worker"] {
        sim.add_task(task(name)).unwrap();
    }
    sim.run(Instant(1_000 * MS), &mut |_| true).unwrap_or_else(|e| panic!("{e}"));
    let usage = (0..8).map(|cpu| sim.idle_usage(CpuId(cpu)).unwrap()).collect();
    (sim.stats(), usage)
}

#[test]
#[ignore = "slow: compiles a kernel; `make test-long`"]
fn policies_that_are_not_chosen_change_nothing() {
    let test = "an unchanged kernel";
    let Some(unchanged) = without_places(test) else { return };
    let image = linux_6_12(test).unwrap();
    assert!(image.image_bytes() != unchanged.image_bytes());
    let (stats, usage) = run(&image);
    assert!(stats.tasks[0].wakeups > 200, "{stats:?}");
    assert_eq!((stats, usage), run(&unchanged));

    let boosted =
        kernels().with_io_boost(&image, &catalog(), &"per-task".parse().unwrap(), &|_, _| {});
    assert_ne!(run(&boosted.unwrap()), run(&unchanged), "a chosen one has a say");
    let error =
        kernels().with_io_boost(&unchanged, &catalog(), &"per-task".parse().unwrap(), &|_, _| {});
    let error = error.err().expect("its scheduler has no place for it").to_string();
    assert!(error.contains("cannot call an IO boost"), "{error}");
    assert!(error.contains("kernel/sched/Makefile"), "{error}");
}

#[test]
fn policies_by_name_need_no_compiler() {
    let Some(kernel) = linux_6_12("policies of an image") else { return };
    let compiler = Some("/nowhere/cc".into());
    let cache = tempfile::tempdir().unwrap();
    let cache_dir = Some(cache.path().join("cache"));
    let kernels = Kernels::new(KernelsOptions { compiler, cache_dir, stop: None });
    for name in Catalog::builtin_names() {
        let chosen =
            kernels.with_governor(&kernel, &catalog(), &name.parse().unwrap(), &|_, _| {}).unwrap();
        chosen.boot(&machine("rk3399").hardware).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    for name in Catalog::ioboost_names() {
        let chosen =
            kernels.with_io_boost(&kernel, &catalog(), &name.parse().unwrap(), &|_, _| {}).unwrap();
        chosen.boot(&machine("rk3399").hardware).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let file = format!("{}/../../governors/cpuidle/deepest.c", env!("CARGO_MANIFEST_DIR"));
    let error = kernels.with_governor(&kernel, &catalog(), &file.parse().unwrap(), &|_, _| {});
    assert!(error.err().expect("a file is compiled").to_string().contains("no C compiler"));
}

#[test]
fn parameters_select_one_of_two_equal_names() {
    let Some(kernel) = linux_6_12("two governors of one name") else { return };
    let with = |spec: &str| {
        kernels().with_governor(&kernel, &catalog(), &spec.parse().unwrap(), &|_, _| {}).unwrap()
    };
    let own = Some(format!("teo@{}", kernel.release));
    assert_eq!(with("teo").own_governor(), own);
    assert_eq!(with("teo,nonesuch=1").own_governor(), own);
    let ours = with("teo,util_mode=shallowest,util_shift=4");
    assert_eq!((ours.own_governor(), ours.governor.is_foreign), (None, true));
    assert_ne!(run(&ours), run(&with("teo")));
    assert!(!with("haltpoll,guest_halt_poll_ns=1000").governor.is_foreign);
    let refused = match with("teo,util_mode=nonesuch").boot(&machine("rk3399").hardware) {
        Ok(_) => panic!("it has no such mode"),
        Err(error) => error.to_string(),
    };
    assert!(refused.contains("`nonesuch` is not a value for teo.util_mode"), "{refused}");
}

#[test]
fn shipped_image_needs_no_source_and_no_compiler() {
    let test = "a shipped image";
    let cache = tempfile::tempdir().unwrap();
    let cache_dir = Some(cache.path().join("cache"));
    let compiler = Some("/nowhere/cc".into());
    let kernels = Kernels::new(KernelsOptions { compiler, cache_dir, stop: None });
    let spec = DEFAULT_KERNEL.parse().unwrap();
    let Ok(shipped) = kernels.resolve(&spec, Hz::H250, &|_, _| {}) else {
        eprintln!("not run: {test}: `make kernel` has made none");
        return;
    };
    assert!(kernels.has(&spec, Hz::H250).unwrap());
    let Some(compiled) = linux_6_12(test) else { return };
    assert_eq!(shipped.source_sha256, compiled.source_sha256);
    assert_eq!(shipped.id(), compiled.id());
    assert_eq!(shipped.policies(), compiled.policies());
    assert_eq!(run(&shipped), run(&compiled));
}
