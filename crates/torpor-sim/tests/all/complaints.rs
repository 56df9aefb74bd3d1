// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The seven complaints about a boost of the CPU (docs/concepts/io-boost.md), each with schedutil's
//! own boost, `iowait`, compared to `per-task`, and where it helps compared to no boost at all.

use crate::support::{boosted, count, count_seed, platform};
use torpor_machine::platform::Platform;
use torpor_machine::units::Duration;
use torpor_sim::machine::Counted;

fn run(platform: &Platform, workload: &str, boost: &str, ms: i64) -> Counted {
    count(&boosted(platform.clone(), workload, boost, ms))
        .unwrap_or_else(|e| panic!("{boost}: {e}"))
}

/// Clocks of two CPUs, each of 200 to 2000 MHz, one for each capacity.
fn clocks(capacities: &[u32]) -> Platform {
    let cluster = |(n, capacity): (usize, &u32)| {
        let (first, last) = (2 * n, 2 * n + 1);
        let opps: String =
            (1..=10).map(|step| format!("{{ freq_khz = {} }}, ", step * 200_000)).collect();
        format!(
            r#"
[[cluster]]
name = "c{n}"
cpus = "{first}-{last}"
capacity = {capacity}
idle_state_source = "made up"
opp_source = "made up"
fast_switch = true
opp = [{opps}]
idle_state = [{{ name = "WFI", exit_latency_us = 1, target_residency_us = 1 }}]
"#
        )
    };
    let clusters: String = capacities.iter().enumerate().map(cluster).collect();
    platform(&format!("name = \"m\"\ntitle = \"m\"\nsource = \"made up\"\nhz = 250\n{clusters}"))
}

/// Mean over the time with work.
fn busy_mhz(platform: &Platform, counted: &Counted) -> f64 {
    let (mut cycles, mut time) = (0.0, 0.0);
    for cluster in &platform.clusters {
        for cpu in &cluster.cpus {
            for (opp, busy) in counted.cpus[cpu.index()].busy_at.iter().enumerate() {
                cycles += busy.0 as f64 * f64::from(cluster.opps[opp].freq_khz) / 1e3;
                time += busy.0 as f64;
            }
        }
    }
    cycles / time
}

fn ios(counted: &Counted) -> u64 {
    counted.kinds.iter().map(|kind| kind.ios).sum()
}

fn task_time(counted: &Counted, cpus: std::ops::Range<usize>) -> i64 {
    cpus.map(|cpu| counted.cpus[cpu].task_time.0).sum()
}

/// 32 requests under way at a device that takes 200 us for each, one after another: 5000 a second,
/// for which the CPU's lowest frequency is more than enough. `iowait` sees 5000 wake-ups from IO.
/// `per-task` tries level 1, gets no more for it, and falls back.
#[test]
fn iowait_boosts_without_gain_in_throughput() {
    let platform = clocks(&[1024]);
    let workload = "[[fio]]\nname = \"r\"\ndevice = \"d\"\nioengine = \"io_uring\"\niodepth = 32\n\
                    [[device]]\nname = \"d\"\nservice_us = 200\n";
    let of = |boost| {
        let counted = run(&platform, workload, boost, 2_000);
        assert!((9_990..=10_000).contains(&ios(&counted)), "{boost}: {}", ios(&counted));
        busy_mhz(&platform, &counted)
    };
    let (plain, iowait, per_task) = (of("none"), of("iowait"), of("per-task"));
    assert!(plain < 220.0 && iowait > 1_500.0 && per_task < 330.0, "{plain} {iowait} {per_task}");
}

/// A reader stays on CPU 0 and is boosted to 2 GHz, where the little cluster takes 0.47 mW for a
/// unit of work, the big one at 1 GHz 0.20. What else runs is better off on the big one as long as
/// that boost lasts. The estimate with `iowait` takes the little cluster for one at 900 MHz and
/// 0.09 mW, so it keeps sending work there. With `per-task` it knows while the reader runs.
#[test]
fn eas_ignores_the_iowait_boost() {
    let cluster = |name: &str, cpus: &str, capacity: u32, opps: &str| {
        format!(
            r#"
[[cluster]]
name = "{name}"
cpus = "{cpus}"
capacity = {capacity}
idle_state_source = "made up"
opp_source = "made up"
power_source = "made up"
opp = [{opps}]
idle_state = [{{ name = "WFI", exit_latency_us = 1, target_residency_us = 1, power_mw = 5 }}]
"#
        )
    };
    let little = "{ freq_khz = 900000, active_power_mw = 10 }, \
                  { freq_khz = 1400000, active_power_mw = 40 }, \
                  { freq_khz = 2000000, active_power_mw = 120 }";
    let big = "{ freq_khz = 1000000, active_power_mw = 100 }, \
               { freq_khz = 2000000, active_power_mw = 900 }";
    let (little, big) = (cluster("little", "0-1", 256, little), cluster("big", "2-3", 1024, big));
    let head = "name = \"m\"\ntitle = \"m\"\nsource = \"made up\"\nhz = 250\n";
    let platform = platform(&format!("{head}{little}{big}"));
    let workload = "[[task]]\nname = \"reader\"\ncpus = \"0\"\n\
                    phase = [{ run_us = 12 }, { io = \"d\" }]\n\
                    [[task]]\nname = \"other\"\nphase = [{ run_us = 40 }, { period_us = 1000 }]\n\
                    [[device]]\nname = \"d\"\nservice_us = 100\n";
    let of = |boost| {
        let counted = run(&platform, workload, boost, 4_000);
        let fast = counted.domains[0].time_at[2].0 as f64 / counted.span.0 as f64;
        (fast, task_time(&counted, 2..4) as f64 / counted.kinds[1].cpu_time.0 as f64)
    };
    let ((fast, big), (also_fast, more)) = (of("iowait"), of("per-task"));
    assert!(fast > 0.5 && also_fast > 0.5, "the little cluster is boosted: {fast} {also_fast}");
    assert!(big < 0.02 && more > 0.15, "of the other task's time on the big ones: {big} {more}");
}

/// 400 waits a second for a device that takes 2.5 ms each: 100 us shorter work is 4 % at best. But
/// each tick of 4 ms has one wake-up, so `iowait` boosts it as much as a reader with twenty times
/// the waits. `per-task` asks for 1000 a second to begin.
#[test]
fn infrequent_waits_look_like_heavy_io() {
    let platform = clocks(&[1024]);
    let of = |boost, service_us: u32| {
        let workload = format!(
            "[[fio]]\nname = \"r\"\ndevice = \"d\"\n[[device]]\nname = \"d\"\n\
             service_us = {service_us}\n"
        );
        let counted = run(&platform, &workload, boost, 2_000);
        (ios(&counted), busy_mhz(&platform, &counted))
    };
    let ((few, rare), (many, heavy)) = (of("iowait", 2_500), of("iowait", 100));
    assert!(20 * few < many && rare > 0.6 * heavy, "{few} {rare} {many} {heavy}");
    assert!(few as f64 <= 1.04 * of("none", 2_500).0 as f64, "for nothing");
    let ((_, rare), (_, heavy)) = (of("per-task", 2_500), of("per-task", 100));
    assert!(rare < 220.0 && heavy > 3.0 * rare, "{rare} {heavy}");
}

/// A reader has little utilization, so it is placed on a little CPU. `iowait` makes that as fast
/// as it gets, and there it ends. With `per-task` the task does not fit there any more.
#[test]
fn iowait_boost_does_not_migrate_the_task_up() {
    let mut platform = Platform::resolve("rk3399").unwrap();
    platform.clusters.iter_mut().for_each(|cluster| cluster.clock.has_fast_switch = true);
    let workload = "[[fio]]\nname = \"r\"\ndevice = \"nvme\"\n";
    // How soon it moves, and how often back, is chance: 0.23 to 0.8 of its time in single runs.
    const SEEDS: u64 = 8;
    let of = |boost| {
        let request = boosted(platform.clone(), workload, boost, 4_000);
        let (mut done, mut big, mut all) = (0, 0, 0);
        for seed in 1..=SEEDS {
            let counted = count_seed(&request, seed).unwrap_or_else(|e| panic!("{boost}: {e}"));
            done += ios(&counted);
            big += task_time(&counted, 4..6);
            all += task_time(&counted, 0..6);
        }
        (done, big as f64 / all as f64)
    };
    let ((ios, big), (more, bigger)) = (of("iowait"), of("per-task"));
    assert!(big < 0.01 && bigger > 0.35, "{big} {bigger}");
    // Half of its time on a big CPU takes about as much from it as the boost gives.
    assert!(more as f64 > 0.9 * ios as f64, "{more} {ios}");
}

/// A reader on CPU 0 that has to move: after 4 s another task is woken up there and keeps it for
/// some time, so the next wake-up puts the reader on CPU 2, which has a clock of its own. Both CPUs
/// fit the highest level, 816 and a quarter, or that would have moved it before.
const MOVED: &str = r#"
[[task]]
name = "reader"
start_us = 2000000
cpus = "0,2"
phase = [{ run_us = 3 }, { io = "d" }]
[[task]]
name = "other"
cpus = "0"
repeat = 1
phase = [
    { repeat = 90, do = [{ run_us = 5 }, { sleep_us = 20000 }] },
    { until_us = 4000000 },
    { run_us = 500 },
]
[[device]]
name = "d"
service_us = 100
"#;

/// Returns the time of each cluster at each OPP in the first milliseconds after the move.
fn after_the_move(boost: &str, ms: i64) -> [Vec<Duration>; 2] {
    let mut request = boosted(clocks(&[1022, 1024]), MOVED, boost, ms);
    request.options.warm_up = Duration::from_us(4_000_000);
    let counted = count(&request).unwrap_or_else(|e| panic!("{boost}: {e}"));
    assert_eq!(counted.kinds[0].migrations, 1, "{boost}");
    [0, 1].map(|cluster| counted.domains[cluster].time_at.clone())
}

fn above_the_lowest(time_at: &[Duration]) -> Duration {
    time_at[1..].iter().fold(Duration::ZERO, |sum, time| sum + *time)
}

/// No task left on CPU 0 waits for IO or needs more than the lowest frequency. But the boost there
/// halves only at an update, and an idle CPU has none: it stays fast for two ticks and more. With
/// an update per rate limit of 1 ms the boost would be gone in 4 ms. With `per-task` the boost
/// leaves with the task: the first update of the other task finds none. (`per-task-v2` keeps its
/// boost on the CPU for a while, so it lingers.)
#[test]
fn iowait_boost_lingers_on_the_old_cpu() {
    let [left, _] = after_the_move("none", 50);
    assert_eq!(above_the_lowest(&left), Duration::ZERO, "the other task needs no more");
    let lingers = |boost| above_the_lowest(&after_the_move(boost, 50)[0]);
    let (iowait, per_task) = (lingers("iowait"), lingers("per-task"));
    let v2 = lingers("per-task-v2");
    assert!(iowait > Duration::from_us(8_000), "{iowait}");
    // Until the other task's first tick.
    assert!(per_task < Duration::from_us(4_100), "{per_task}");
    assert!(v2 >= Duration::from_us(4_000), "{v2}");
}

/// On CPU 2 the boost starts at an eighth and doubles once per rate limit of 1 ms, so it needs more
/// than two of those to recover. With `per-task` the first update there requests the full boost.
#[test]
fn iowait_boost_restarts_on_the_new_cpu() {
    let [_, gone_to] = after_the_move("none", 10);
    assert_eq!(above_the_lowest(&gone_to), Duration::ZERO, "the task alone asks for no more");
    // 1400 MHz are a boost of more than half.
    let slow = |boost| {
        let [_, gone_to] = after_the_move(boost, 10);
        gone_to[..6].iter().fold(Duration::ZERO, |sum, time| sum + *time)
    };
    let (iowait, per_task) = (slow("iowait"), slow("per-task"));
    assert!(iowait > Duration::from_us(2_000), "{iowait}");
    // The first update comes before the boost counts, and the next a rate limit later.
    assert!(per_task < Duration::from_us(1_200), "{per_task}");
}

/// Another governor, and schedutil again, have hooks of their own.
#[test]
fn no_boost_survives_a_change_of_governor() {
    let platform = clocks(&[1024]);
    let workload = "[[fio]]\nname = \"r\"\ndevice = \"d\"\n[[device]]\nname = \"d\"\nservice_us = 100\n\
                    [[change]]\nat = \"500ms\"\nscaling_governor = \"powersave\"\n\
                    [[change]]\nat = \"600ms\"\nscaling_governor = \"schedutil\"\n";
    let of = |boost| busy_mhz(&platform, &run(&platform, workload, boost, 2_000));
    let (none, iowait) = (of("none"), of("iowait"));
    assert!(none < 250.0 && iowait > 2.0 * none, "{none} {iowait}");
}

/// Tasks that wait for IO each 12 ms, three ticks: none is worth a boost, and one alone gets hardly
/// any, as the tick that passes without a wake-up ends it. Eight of them wake up each 1.5 ms.
#[test]
fn iowait_of_unrelated_tasks_adds_up() {
    let platform = clocks(&[1024]);
    let of = |boost, tasks: u32| {
        let workload = format!(
            "[[task]]\nname = \"t\"\ncount = {tasks}\ncpus = \"0\"\nphase = [{{ run_us = 20 }}, \
             {{ io = \"d\" }}, {{ sleep_us = {{ dist = \"exponential\", mean = 12000 }} }}]\n\
             [[device]]\nname = \"d\"\nservice_us = 100\n"
        );
        busy_mhz(&platform, &run(&platform, &workload, boost, 2_000))
    };
    let (one, eight) = (of("iowait", 1), of("iowait", 8));
    assert!(one < 500.0 && eight > 2.5 * one, "{one} {eight}");
    let (one, eight) = (of("per-task", 1), of("per-task", 8));
    assert!(one < 220.0 && eight < 220.0, "{one} {eight}");
}
