// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A boosted task moves to a bigger CPU, and what becomes of it there.

use crate::support::{big_little, boosted, count};
use torpor_platform::Platform;

/// Migrations and requests of a reader in 4 s. The device's interrupts go to `irq`, or to where
/// each request came from.
fn reader(governor: &str, boost: &str, irq: Option<u32>) -> (u64, u64) {
    let platform = Platform::resolve("rk3399").unwrap();
    let irq = irq.map(|cpu| format!("cpu = \"{cpu}\"")).unwrap_or_default();
    let workload = format!(
        "[[task]]\nname = \"reader\"\nphase = [{{ run_us = 3 }}, {{ io = \"d\" }}]\n\
         [[device]]\nname = \"d\"\nservice_us = {{ dist = \"gamma\", mean = 100, sd = 30 }}\n{irq}"
    );
    let mut request = boosted(platform, &workload, boost, 4_000);
    request.governors = vec![governor.parse().unwrap()];
    let counted = count(&request).unwrap();
    (counted.kinds[0].migrations, counted.kinds[0].ios)
}

/// The device interrupts CPU 0, where the reader is, too, and all goes well until it is boosted off
/// to a big CPU. CPU 0 has nothing left to do then but to take interrupts. Under menu it goes into
/// a state that takes longer to leave than the device takes to serve: each request waits for that
/// and for an IPI to the big CPU. So the boost does not pay, the level falls, the reader goes home,
/// where it pays again. Without any boost the reader gets more.
#[test]
fn a_reader_goes_to_and_fro_if_its_interrupts_stay_behind() {
    let (moves, ios) = reader("menu", "per-task", Some(0));
    let (no_moves, more) = reader("menu", "none", Some(0));
    assert!(moves > 30 && no_moves == 0, "{moves} {no_moves}");
    assert!(3 * more > 4 * ios, "{ios} {more}");

    // Either is enough: interrupts that follow, or an idle state that is left at once.
    let (follow, ios) = reader("menu", "per-task", None);
    assert!(follow < moves / 3 && ios > more, "{follow} {ios} {more}");
    let (shallow, ios) = reader("shallowest", "per-task", Some(0));
    assert!(shallow <= 3 && ios > reader("shallowest", "none", Some(0)).1, "{shallow} {ios}");

    // A boost that says nothing about placement leaves it where it is.
    let (stays, ios) = reader("menu", "iowait", Some(0));
    assert!(stays == 0 && ios > more, "{stays} {ios}");
}

/// How long each CPU of the big-little machine was busy in the second half of 4 s, in ms, with a task
/// of a little work and one that is kept on either little CPU: `run_us` of every 10 ms, and in
/// the first half so much that the free task, which starts as one of much work, does not fit there.
fn busy_ms(boost: &str, run_us: [u32; 2]) -> [i64; 4] {
    let kept = |cpu: usize| {
        let phases = [1950, run_us[cpu]].map(|us| {
            format!("{{ repeat = 200, do = [{{ run_us = {us} }}, {{ period_us = 10000 }}] }}")
        });
        format!(
            "[[task]]\nname = \"kept{cpu}\"\ncpus = \"{cpu}\"\nrepeat = 1\nphase = [{}]\n",
            phases.join(", ")
        )
    };
    // It wakes up while they sleep.
    let free = "[[task]]\nname = \"free\"\nstart_us = 9000\n\
                phase = [{ run_us = 20 }, { period_us = 10000 }]\n";
    let workload = format!("{}{}{free}", kept(0), kept(1));
    let until = |ms: i64| {
        let counted = count(&boosted(big_little(), &workload, boost, ms)).unwrap();
        let busy = |cpu: usize| counted.cpus[cpu].busy_at.iter().map(|d| d.0).sum::<i64>() / 1_000;
        [busy(0), busy(1), busy(2), busy(3)]
    };
    let (half, all) = (until(2_000), until(4_000));
    [0, 1, 2, 3].map(|cpu| (all[cpu] - half[cpu]) / 1_000)
}

fn fixed(params: &str) -> String {
    format!("{}/tests/ioboost/fixed.c,{params}", env!("CARGO_MANIFEST_DIR"))
}

/// A boost of 120 asks for 150, and 128 is what a little CPU has at its lower OPP: the others' 100
/// take 0.156 mW for each 1024th of utilization then, and not 0.078, 7.8 mW more. That is more than
/// the task's own few take on a big CPU (0.39 each). But the boost counts with and without the
/// task, on each CPU of the domain: it costs nothing, and a little CPU is the cheaper one.
#[test]
fn a_tasks_boost_counts_in_a_domain_before_the_task_does() {
    let [_, _, big, other] = busy_ms(&fixed("task_util=120"), [500, 500]);
    assert!(big + other < 5, "{big} {other}");
}

/// A least performance that all CPUs have costs nothing where frequencies are up already.
#[test]
fn a_least_performance_sets_the_frequency_above_a_clamp_and_counts_in_estimates() {
    // 2 GHz are 256 of a little CPU: 200 ask for the higher OPP, whatever `uclamp_max` says.
    let capped = |params: &str| {
        let workload = "[[task]]\nname = \"t\"\ncount = 4\nuclamp_max = 20\ncpus = \"0-1\"\n\
                        phase = [{ run_us = 300 }, { sleep_us = 3000 }]\n";
        let counted = count(&boosted(big_little(), workload, &fixed(params), 2_000)).unwrap();
        let at = &counted.domains[0].time_at;
        (at[0].0 / 1_000_000, at[1].0 / 1_000_000)
    };
    let (low, high) = capped("cpu_util=200");
    assert!(low > 1_990 && high < 10, "a boost is under the clamp: {low} {high}");
    let (low, high) = capped("least_perf=200");
    assert!(low < 10 && high > 1_990, "{low} {high}");
}
