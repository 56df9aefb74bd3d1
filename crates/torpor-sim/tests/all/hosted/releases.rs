// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Other releases, tick rates and forms of a name than those that all other tests run.

use super::support::{MS, compile, kernel_sources, kernels, machine, pinned, start, task};
use std::path::Path;
use std::process::Command;
use torpor_engine::decision::Unobserved;
use torpor_machine::units::{Duration, Hz, Instant};
use torpor_sim::kernel::{DEFAULT_KERNEL, Kernel};
use torpor_sim::machine::{Act, Machine, TaskId};

fn resolve(name: &str, hz: Hz) -> Kernel {
    let spec = name.parse().unwrap();
    kernels().resolve(&spec, hz, &|_, _| {}).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn linux_6_1_starts_places_and_sleeps() {
    starts_places_and_sleeps("6.1");
}

#[test]
#[ignore = "slow: compiles a kernel; `make test-long`"]
fn linux_7_2_starts_places_and_sleeps() {
    starts_places_and_sleeps("7.2");
}

#[test]
#[ignore = "slow: compiles a kernel; `make test-long`"]
fn linux_7_3_starts_places_and_sleeps() {
    starts_places_and_sleeps("7.3");
}

/// A task that sleeps 1 ms and one that never does, with the frequencies of the release's own
/// schedutil.
fn starts_places_and_sleeps(release: &str) {
    let Some(tree) = kernel_sources(release, "another hosted release") else { return };
    let kernel = compile(&tree);
    assert!(kernel.release.to_string().starts_with(&format!("{release}.")));
    let mut asleep = false;
    let work = move |task: TaskId, now: Instant| {
        if task.0 == 0 {
            asleep = !asleep;
            if asleep {
                return Act::Sleep(now + Duration(MS));
            }
        }
        Act::Run(Duration(MS / 100))
    };
    let machine = machine("pixel6");
    let mut sim = start(&kernel, &machine, work);
    sim.add_task(task("sleeper")).unwrap();
    sim.add_task(task("busy")).unwrap();
    sim.run(Instant(2_000 * MS), &mut |_| true).unwrap_or_else(|e| panic!("{e}"));
    let stats = sim.stats();
    assert!(stats.tasks[0].wakeups > 1_000, "{stats:?}");
    let big: i64 = stats.cpus[6..].iter().map(|cpu| cpu.busy.0).sum();
    assert!(big > 1_500 * MS, "the busy task is too big for a little CPU: {stats:?}");
}

// All other tests run at 250 Hz; 300 Hz has a tick of no whole number of nanoseconds.
#[test]
fn busy_cpu_ticks_at_hz() {
    [Hz::H300, Hz::H1000].into_iter().for_each(ticks_at);
}

/// A busy CPU is interrupted by its tick alone.
fn ticks_at(hz: Hz) {
    if kernel_sources("6.12", "hosted tick rates").is_none() {
        return;
    }
    // Images of all rates ship.
    let kernel = resolve(DEFAULT_KERNEL, hz);
    let work = |_: TaskId, _: Instant| Act::Run(Duration(10_000 * MS));
    let machine = machine("i5-10600k");
    let mut sim = start(&kernel, &machine, work);
    let setup = pinned("busy", 3);
    sim.add_task(setup).unwrap();
    let events = |sim: &mut Machine<'_, Unobserved>, until| {
        sim.run(Instant(until), &mut |_| true).unwrap_or_else(|e| panic!("{e}"));
        sim.stats().events
    };
    let first = events(&mut sim, 1_000 * MS);
    let second = events(&mut sim, 2_000 * MS) - first;
    // Other work: the balancing that ticks ask an idle CPU for.
    let ticks = u64::from(hz.get());
    assert!((ticks..6 * ticks).contains(&second), "{second} events at {hz:?}");
}

#[test]
#[ignore = "slow: compiles two kernels; `make test-long`"]
fn a_tarball_and_a_revision_are_kernels_too() {
    let Some(tree) = kernel_sources("6.12", "a hosted kernel from a tarball and from git") else {
        return;
    };
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packed");
    std::fs::create_dir_all(&place).unwrap();
    let run = |program: &str, args: &[&str]| {
        let status = Command::new(program)
            .args(args)
            .env("GIT_AUTHOR_DATE", "2024-11-17T00:00:00Z")
            .env("GIT_COMMITTER_DATE", "2024-11-17T00:00:00Z")
            .status()
            .unwrap_or_else(|e| panic!("{program}: {e}"));
        assert!(status.success(), "{program} {args:?}");
    };
    let (tarball, git) = (place.join("linux.tar"), place.join("linux.git"));
    if !tarball.exists() {
        let (parent, name) = (tree.parent().unwrap(), tree.file_name().unwrap());
        let [parent, name] = [parent.as_os_str(), name].map(|s| s.to_str().unwrap());
        let half = place.join("half.tar");
        run("tar", &["-C", parent, "--exclude=arch", "-cf", half.to_str().unwrap(), name]);
        std::fs::rename(half, &tarball).unwrap();
    }
    if !git.exists() {
        let half = place.join("half.git");
        let _ = std::fs::remove_dir_all(&half);
        let folders = [
            &*format!("--git-dir={}", half.display()),
            &format!("--work-tree={}", tree.display()),
            "-c",
            "core.bare=false",
        ];
        let me = ["-c", "user.name=test", "-c", "user.email=test@example.org"];
        run("git", &["init", "-q", "--bare", half.to_str().unwrap()]);
        let wanted = ["Makefile", "drivers/base", "drivers/cpufreq", "drivers/cpuidle", "include"];
        let more = ["io_uring", "kernel", "lib", "mm"];
        run("git", &[&folders[..], &["add", "-f", "--"], &wanted, &more].concat());
        run("git", &[&folders[..], &me, &["commit", "-qm", "6.12"]].concat());
        std::fs::rename(half, &git).unwrap();
    }
    for name in [tarball.display().to_string(), format!("{}:HEAD", git.display())] {
        let kernel = resolve(&name, Hz::H250);
        assert_eq!((kernel.release.major, kernel.release.minor), (6, 12), "{name}");
        assert!(kernel.boot(&machine("rk3399").hardware).is_ok(), "{name}");
        let said = match kernels().resolve(
            &format!("{name}:nothing").parse().unwrap(),
            Hz::H250,
            &|_, _| {},
        ) {
            Ok(_) => panic!("{name}:nothing is no kernel"),
            Err(error) => error.to_string(),
        };
        assert!(said.contains("git in"), "{said}");
    }
}
