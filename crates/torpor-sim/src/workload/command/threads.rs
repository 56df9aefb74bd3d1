// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Common loads to evaluate idle governors: turbostat on an idle machine, idle_predict, periodic
//! threads.

use super::options::{Known, Line, Setting};
use super::{count, phase, positive, task, within, workload};
use torpor_machine::toml::{Content, Report};

const THREADS_MAX: u64 = 1_000_000;
const LOOPS_MAX: u64 = 1_000_000_000_000;

/// Returns the options of a line; other words are reported.
fn settings(report: &mut Report<'_>, line: &Line, known: &[Known]) -> Vec<Setting> {
    let (settings, others) = line.options(report, 1, known);
    if let Some(other) = others.first() {
        report.push(line.finding(Some(other), "this is not an option", &[]));
    }
    settings
}

const TURBOSTAT: &[Known] = &[
    Known { names: &["interval", "i"], takes_value: true },
    Known { names: &["num_iterations", "n"], takes_value: true },
    Known { names: &["reads"], takes_value: true },
    Known { names: &["gap_us"], takes_value: true },
    Known {
        names: &["verbose", "v", "quiet", "q", "debug", "d", "Summary", "S"],
        takes_value: false,
    },
];

/// Reads registers of each CPU every interval, with one IPI per read.
pub(super) fn turbostat(report: &mut Report<'_>, line: &Line) -> Option<Content> {
    let (mut interval_s, mut rounds, mut reads, mut gap_us) = (5.0, None, 10, 150.0);
    for setting in &settings(report, line, TURBOSTAT) {
        match setting.key.as_str() {
            "interval" => interval_s = positive(report, setting, 3600.0)?,
            "num_iterations" => rounds = Some(count(report, setting, 1, 1_000_000)?),
            "reads" => reads = count(report, setting, 1, 10_000)?,
            "gap_us" => gap_us = positive(report, setting, 1e6)?,
            _ => {}
        }
    }
    let interval_us = interval_s * 1e6;
    let read = task("read")
        .with("each_cpu_us", 200u32)
        .with("interval_us", interval_us)
        .with("burst", reads)
        .with("burst_gap_us", gap_us)
        .maybe("max", rounds.map(|n| n.saturating_mul(reads)));
    let phases = vec![phase("run_us", 300u32), phase("period_us", interval_us)];
    let title = "turbostat on an idle machine: bursts of register reads";
    let reported = format!(
        "{reads} inter-processor interrupts a CPU, one a register: ten were reported by Youquan \
         Song, LKML, 18 Oct 2012, of `turbostat -v` (--reads)"
    );
    let chosen = format!(
        "chosen: {gap_us} us from one read to the next (--gap_us), one CPU 200 us after the \
         other, 300 us of work to add up and print"
    );
    let content = workload("turbostat", title, &[&format!("`{}`", line.whole), &reported, &chosen]);
    Some(
        content
            .with("task", vec![task("turbostat").with("phase", phases)])
            .with("interrupt", vec![read]),
    )
}

const IDLE_PREDICT: &[Known] = &[
    Known { names: &["threads", "t", "n"], takes_value: true },
    Known { names: &["loop", "l"], takes_value: true },
    Known { names: &["delay_us", "delay", "d"], takes_value: true },
];

/// Repeats a few equal sleeps, then one of a second.
pub(super) fn idle_predict(report: &mut Report<'_>, line: &Line) -> Option<Content> {
    let (mut threads, mut loops, mut delay_us) = (8, 10, 20.0);
    for setting in &settings(report, line, IDLE_PREDICT) {
        match setting.key.as_str() {
            "threads" => threads = count(report, setting, 1, THREADS_MAX)?,
            "loop" => loops = count(report, setting, 2, LOOPS_MAX)?,
            _ => delay_us = within(report, setting, 0.0, 3.6e9)?,
        }
    }
    let short = vec![phase("run_us", 5u32), phase("sleep_us", delay_us)];
    let phases =
        vec![phase("repeat", loops - 1).with("do", short), phase("sleep_us", 1_000_000u32)];
    let thread = task("thread")
        .with("count", threads)
        .with("stagger_us", (1e6 / threads as f64).floor())
        .with("phase", phases);
    let sources = [
        &*format!("`{}`", line.whole),
        "idle_predict of Youquan Song, LKML, 18 Oct 2012: N threads, (loop - 1) times \
         usleep(delay), then sleep(1)",
        "chosen: 5 us of work between sleeps; threads start evenly over the first second",
    ];
    let title = "Short sleeps that say nothing of the next long one";
    Some(workload("idle_predict", title, &sources).with("task", vec![thread]))
}

const PERIODIC: &[Known] = &[
    Known { names: &["threads", "t"], takes_value: true },
    Known { names: &["hz", "f"], takes_value: true },
    Known { names: &["work_us", "w"], takes_value: true },
    Known { names: &["load"], takes_value: true },
];

/// Runs light periodic work, as in Doug Smythies' sweeps.
pub(super) fn periodic(report: &mut Report<'_>, line: &Line) -> Option<Content> {
    let (mut threads, mut hz, mut work_us) = (1, 73.0, None);
    let mut load_pct = None;
    for setting in &settings(report, line, PERIODIC) {
        match setting.key.as_str() {
            "threads" => threads = count(report, setting, 1, THREADS_MAX)?,
            "hz" => hz = positive(report, setting, 1e6)?,
            "load" => load_pct = Some(positive(report, setting, 100.0)?),
            _ => work_us = Some(positive(report, setting, 3.6e9)?),
        }
    }
    let period_us = 1e6 / hz;
    let (work_us, origin) = match (work_us, load_pct) {
        (Some(us), _) => (us, format!("{us} us of work a period: --work_us")),
        (None, Some(pct)) => (period_us * pct / 100.0, format!("work: --load {pct} % of a period")),
        (None, None) => (300.0, "chosen: 300 us of work a period (--work_us, --load)".to_owned()),
    };
    let thread = task("thread")
        .with("count", threads)
        .with("stagger_us", 1000u32)
        .with("phase", vec![phase("run_us", work_us), phase("period_us", period_us)]);
    let sources = [
        &*format!("`{}`", line.whole),
        "shape: Doug Smythies' periodic load on an idle server, LKML, 17 Sep 2022",
        &format!("{origin}; chosen: threads start 1 ms after one another"),
    ];
    let title = "Threads that work a little, periodically";
    Some(workload("periodic", title, &sources).with("task", vec![thread]))
}
