// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Common loads to evaluate idle governors: turbostat on an idle machine, idle_predict, periodic
//! threads.

use super::options::{Known, Line, Setting};
use super::toml::File;
use super::{count, positive};
use torpor_machine::toml::Report;

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
pub(super) fn turbostat(report: &mut Report<'_>, line: &Line) -> Option<File> {
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
    let max = rounds.map_or(String::new(), |n| format!("max = {}\n", n.saturating_mul(reads)));
    let interval_us = interval_s * 1e6;
    let file = File::new("turbostat", "turbostat on an idle machine: bursts of register reads")
        .source(format!("`{}`", line.whole))
        .source(format!(
            "{reads} inter-processor interrupts a CPU, one a register: ten were reported by Youquan \
             Song, LKML, 18 Oct 2012, of `turbostat -v` (--reads)"
        ))
        .source(format!(
            "chosen: {gap_us} us from one read to the next (--gap_us), one CPU 200 us after the \
             other, 300 us of work to add up and print"
        ));
    Some(file.table(&format!(
        "[[task]]\nname = \"turbostat\"\n\
         phase = [{{ run_us = 300 }}, {{ period_us = {interval_us} }}]\n\n\
         [[interrupt]]\nname = \"read\"\neach_cpu_us = 200\ninterval_us = {interval_us}\n\
         burst = {reads}\nburst_gap_us = {gap_us}\n{max}"
    )))
}

const IDLE_PREDICT: &[Known] = &[
    Known { names: &["threads", "t", "n"], takes_value: true },
    Known { names: &["loop", "l"], takes_value: true },
    Known { names: &["delay_us", "delay", "d"], takes_value: true },
];

/// Repeats a few equal sleeps, then one of a second.
pub(super) fn idle_predict(report: &mut Report<'_>, line: &Line) -> Option<File> {
    let (mut threads, mut loops, mut delay_us) = (8, 10, 20.0);
    for setting in &settings(report, line, IDLE_PREDICT) {
        match setting.key.as_str() {
            "threads" => threads = count(report, setting, 1, THREADS_MAX)?,
            "loop" => loops = count(report, setting, 2, LOOPS_MAX)?,
            _ => delay_us = positive(report, setting, 3.6e9)?,
        }
    }
    let file = File::new("idle_predict", "Short sleeps that say nothing of the next long one")
        .source(format!("`{}`", line.whole))
        .source("idle_predict of Youquan Song, LKML, 18 Oct 2012: N threads, (loop - 1) times usleep(delay), then sleep(1)")
        .source("chosen: 5 us of work between sleeps; threads start evenly over the first second");
    let stagger_us = (1e6 / threads as f64).floor();
    Some(file.table(&format!(
        "[[task]]\nname = \"thread\"\ncount = {threads}\nstagger_us = {stagger_us}\nphase = [\n    \
         {{ repeat = {}, do = [{{ run_us = 5 }}, {{ sleep_us = {delay_us} }}] }},\n    \
         {{ sleep_us = 1000000 }},\n]\n",
        loops - 1
    )))
}

const PERIODIC: &[Known] = &[
    Known { names: &["threads", "t"], takes_value: true },
    Known { names: &["hz", "f"], takes_value: true },
    Known { names: &["work_us", "w"], takes_value: true },
    Known { names: &["load"], takes_value: true },
];

/// Runs light periodic work, as in Doug Smythies' sweeps.
pub(super) fn periodic(report: &mut Report<'_>, line: &Line) -> Option<File> {
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
    let file = File::new("periodic", "Threads that work a little, periodically")
        .source(format!("`{}`", line.whole))
        .source("shape: Doug Smythies' periodic load on an idle server, LKML, 17 Sep 2022")
        .source(format!("{origin}; chosen: threads start 1 ms after one another"));
    Some(file.table(&format!(
        "[[task]]\nname = \"thread\"\ncount = {threads}\nstagger_us = 1000\n\
         phase = [{{ run_us = {work_us} }}, {{ period_us = {period_us} }}]\n"
    )))
}
