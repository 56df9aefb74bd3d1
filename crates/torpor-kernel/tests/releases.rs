// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Other releases than the one that all other tests run.

mod support;

use support::{MS, compile, kernel_sources, machine, start, task};
use torpor_kernel::{Step, TaskId};
use torpor_units::{Duration, Instant};

/// A task that sleeps 1 ms and one that never does, with the frequencies of 6.1's own schedutil.
#[test]
fn linux_6_1_starts_places_and_sleeps() {
    let Some(tree) = kernel_sources("6.1", "a hosted Linux 6.1") else { return };
    let kernel = compile(&tree);
    assert_eq!((kernel.release.major, kernel.release.minor), (6, 1));
    let mut asleep = false;
    let work = move |task: TaskId, now: Instant| {
        if task.0 == 0 {
            asleep = !asleep;
            if asleep {
                return Step::Sleep(now + Duration(MS));
            }
        }
        Step::Run(Duration(MS / 20))
    };
    let mut sim = start(&kernel, &machine("pixel6"), work);
    sim.add_task(task("sleeper")).unwrap();
    sim.add_task(task("busy")).unwrap();
    sim.run(Instant(2_000 * MS), &mut |_| true).unwrap_or_else(|e| panic!("{e}"));
    let stats = sim.stats();
    assert!(stats.tasks[0].wakeups > 1_000, "{stats:?}");
    let big: i64 = stats.cpus[6..].iter().map(|cpu| cpu.busy.0).sum();
    assert!(big > 1_500 * MS, "the busy task is too big for a little CPU: {stats:?}");
}
