// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Changes while the load runs: writes to files of the kernel, and new attributes of tasks.

use super::names::Names;
use crate::kernel::Write;
use torpor_machine::shape;
use torpor_machine::toml::{Kind, Report, Shape, Table};
use torpor_machine::units::{CpuId, Duration, parse_duration};

const CPU: &str = "/sys/devices/system/cpu/cpu";
/// Weight and clamps have the limits of a task's.
const KHZ: Kind = Kind::Integer { max: 1e8 };
const LIMIT_US: Kind = Kind::Integer { max: 2e9 };

pub(super) static CHANGE: Shape = shape! {
    optional at: Kind::Text, "The time of the change, or of the first one: `2s`. Default: that of \
        `every`.";
    optional every: Kind::Text, "The time from one change to the next: `500ms`. Default: it comes \
        once.";
    optional write: Kind::Texts, "`PATH=VALUE`: what is written to files of the kernel, as with \
        option `writes`.";
    optional cpus: Kind::Cpus, "CPUs of the keys below. Default: all.";
    optional scaling_max_freq_khz: KHZ, "Upper limit of their frequency.";
    optional scaling_min_freq_khz: KHZ, "Lower limit of their frequency.";
    optional scaling_governor: Kind::Word, "Their cpufreq governor.";
    optional pm_qos_resume_latency_us: LIMIT_US, "Limit of their idle states' exit latency; 0, as \
        in the kernel, for none.";
    optional online: Kind::Bool, "Whether they are online. CPU 0 always is.";
    optional disable: Kind::Numbers { max: 9.0 }, "Their idle states, by index, that are disabled \
        from then on.";
    optional enable: Kind::Numbers { max: 9.0 }, "Their idle states that are enabled again.";
    optional cpu_dma_latency_us: LIMIT_US, "Limit of the exit latency on all CPUs.";
    optional task: Kind::Word, "Tasks that get new attributes, by `sched_setattr()`: those alive.";
    optional uclamp_min: Kind::Integer { max: 1024.0 }, "With `task`: its new clamp.";
    optional uclamp_max: Kind::Integer { max: 1024.0 }, "With `task`: its new clamp.";
    optional weight: Kind::Integer { max: 88_761.0 }, "With `task`: its new load weight.";
    optional affinity: Kind::Cpus, "With `task`: its new CPUs.";
};

/// A change at a time, or every so often.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub at: Duration,
    pub every: Option<Duration>,
    pub writes: Vec<Write>,
    pub task: Option<TaskChange>,
}

/// New attributes of the tasks of some kinds.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskChange {
    pub kinds: Vec<usize>,
    pub uclamp_min: Option<u16>,
    pub uclamp_max: Option<u16>,
    pub weight: Option<u32>,
    pub affinity: Option<Vec<CpuId>>,
}

pub(super) fn read(report: &mut Report, table: &Table, names: &Names) -> Option<Change> {
    let every = time(report, table, "every");
    let at = time(report, table, "at").or(every);
    if at.is_none() {
        let mut finding = table.finding("at", "a change needs a time".to_owned());
        finding.allowed = Some("`at` or `every`".to_owned());
        report.push(finding);
    }
    if every == Some(Duration::ZERO) {
        report.push(table.finding("every", "the time is zero".to_owned()));
    }
    let mut writes = written(report, table);
    writes.extend(of_cpus(table));
    if let Some(us) = table.number("cpu_dma_latency_us") {
        writes.push(Write::new("/dev/cpu_dma_latency", us));
    }
    let task = match table.text("task") {
        Some(name) => Some(TaskChange {
            kinds: vec![names.task(report, table, "task", name)?],
            uclamp_min: table.number("uclamp_min").map(|n| n as u16),
            uclamp_max: table.number("uclamp_max").map(|n| n as u16),
            weight: table.number("weight").map(|n| n as u32),
            affinity: table.cpus("affinity").map(<[CpuId]>::to_vec),
        }),
        None => None,
    };
    for key in ["uclamp_min", "uclamp_max", "weight", "affinity"] {
        if table.has(key) && task.is_none() {
            report.push(table.finding(key, "it is of a `task`, which is not named".to_owned()));
        }
    }
    if writes.is_empty() && task.is_none() {
        let mut finding = table.finding("write", "it changes nothing".to_owned());
        finding.allowed = Some("`write`, `task`, or a key such as `scaling_governor`".to_owned());
        report.push(finding);
    }
    Some(Change { at: at?, every, writes, task })
}

fn time(report: &mut Report, table: &Table, key: &str) -> Option<Duration> {
    let text = table.text(key)?;
    match parse_duration(text) {
        Ok(time) if time >= Duration::ZERO => Some(time),
        _ => {
            let mut finding = table.finding(key, format!("`{text}` is no time"));
            finding.allowed = Some("a number with its unit, such as 2s or 500ms".to_owned());
            report.push(finding);
            None
        }
    }
}

fn written(report: &mut Report, table: &Table) -> Vec<Write> {
    let mut writes = Vec::new();
    for text in table.texts("write") {
        match text.parse::<Write>() {
            Ok(write) => writes.push(write),
            Err(error) => report.push(table.finding("write", error)),
        }
    }
    writes
}

/// The keys of CPUs, as writes to the files of each.
fn of_cpus(table: &Table) -> Vec<Write> {
    let cpus: Vec<String> = match table.cpus("cpus") {
        Some(cpus) => cpus.iter().map(|cpu| cpu.0.to_string()).collect(),
        None => vec!["*".to_owned()],
    };
    let mut files: Vec<(String, String)> = Vec::new();
    let number = |key| table.number(key).map(|n| n.to_string());
    let named = [
        ("cpufreq/scaling_max_freq", number("scaling_max_freq_khz")),
        ("cpufreq/scaling_min_freq", number("scaling_min_freq_khz")),
        ("cpufreq/scaling_governor", table.text("scaling_governor").map(str::to_owned)),
        ("power/pm_qos_resume_latency_us", number("pm_qos_resume_latency_us")),
        ("online", table.bool("online").map(|on| u8::from(on).to_string())),
    ];
    files.extend(named.into_iter().filter_map(|(file, value)| Some((file.to_owned(), value?))));
    for (key, value) in [("disable", "1"), ("enable", "0")] {
        for state in table.numbers(key).unwrap_or_default() {
            files.push((format!("cpuidle/state{state}/disable"), value.to_owned()));
        }
    }
    let of_file = |(file, value): &(String, String)| -> Vec<Write> {
        cpus.iter().map(|cpu| Write::new(format!("{CPU}{cpu}/{file}"), value)).collect()
    };
    files.iter().flat_map(of_file).collect()
}
