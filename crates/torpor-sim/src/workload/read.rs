// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Workload files: from keys to the model, with every mistake told at its place.

use super::keys::WORKLOAD;
use super::program::{self, Names};
use super::{Arrivals, Barrier, Device, Dist, Effect, Interrupt, TaskKind, Workload};
use crate::error::SimError;
use sha2::{Digest, Sha256};
use torpor_toml::{Finding, Report, Table};
use torpor_units::{CpuId, Duration};

const TASKS_MAX_DEFAULT: f64 = 20_000.0;
const WEIGHT_DEFAULT: f64 = 1024.0;

/// Reads the text of a workload file. `origin` names it in errors.
pub fn from_toml(origin: &str, text: &str) -> Result<Workload, SimError> {
    torpor_toml::read(text, &WORKLOAD, |report, file| build(report, file, text))
        .map_err(|problems| SimError::Workload { origin: origin.to_owned(), problems })
}

/// The schema as published in `workloads/workload.schema.json`.
pub fn json_schema() -> String {
    torpor_toml::json_schema(&WORKLOAD, "Torpor workload")
}

fn build(report: &mut Report, file: &Table, text: &str) -> Option<Workload> {
    let mut names = Names::default();
    names.declare_tasks(report, file.tables("task"));
    names.declare_devices(report, file.tables("device"));
    if file.tables("task").is_empty() && file.field("task").is_some_and(|f| f.raw.starts_with('['))
    {
        report.push(file.finding("task", "a workload has at least one task".to_owned()));
    }
    let tasks: Vec<Option<TaskKind>> =
        file.tables("task").iter().map(|table| task(report, table, &mut names)).collect();
    let interrupts: Vec<Option<Interrupt>> =
        file.tables("interrupt").iter().map(|table| interrupt(report, table, &mut names)).collect();
    let devices: Vec<Option<Device>> =
        file.tables("device").iter().map(|table| device(report, table)).collect();
    names.check_channels(report);

    let tasks: Vec<TaskKind> = tasks.into_iter().collect::<Option<_>>()?;
    let barriers = names.barriers.iter().enumerate().map(|(index, name)| Barrier {
        name: name.clone(),
        parties: tasks.iter().filter(|t| t.meets(index)).map(|t| t.count).sum(),
    });
    Some(Workload {
        name: file.text("name")?.to_owned(),
        title: file.text("title")?.to_owned(),
        sources: file.texts("source").to_vec(),
        sha256: Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect(),
        tasks_max: file.number("tasks_max").unwrap_or(TASKS_MAX_DEFAULT) as usize,
        barriers: barriers.collect(),
        tasks,
        interrupts: interrupts.into_iter().collect::<Option<_>>()?,
        devices: devices.into_iter().collect::<Option<_>>()?,
        channels: names.channels(),
    })
}

fn task(report: &mut Report, table: &Table, names: &mut Names) -> Option<TaskKind> {
    if table.number("weight").is_some_and(|weight| weight < 3.0) {
        let mut finding = table.finding("weight", "lighter than any task of a kernel".to_owned());
        finding.allowed = Some("3 (nice 19 of the idle policy) to 88761 (nice -20)".to_owned());
        report.push(finding);
    }
    let program = program::flatten(report, table, names);
    Some(TaskKind {
        name: table.text("name")?.to_owned(),
        count: table.number("count").unwrap_or(1.0) as u32,
        cpus: table.cpus("cpus").map(<[CpuId]>::to_vec),
        start: from_us(table.number("start_us").unwrap_or(0.0)),
        stagger: from_us(table.number("stagger_us").unwrap_or(0.0)),
        timer_slack: from_us(table.number("timer_slack_us").unwrap_or(0.0)),
        weight: table.number("weight").unwrap_or(WEIGHT_DEFAULT) as u32,
        repeat: table.number("repeat").map(|n| n as u64),
        draws: program.draws,
        depth: program.depth,
        timers: 0,
        program: program.steps,
    })
}

fn interrupt(report: &mut Report, table: &Table, names: &mut Names) -> Option<Interrupt> {
    let arrivals = arrivals(report, table);
    let burst_gap = dist_or_zero(report, table, "burst_gap_us");
    let handling = dist_or_zero(report, table, "handling_us");
    if let (Some(_), Some(_)) = (table.text("wake"), table.text("spawn")) {
        report.push(table.finding("spawn", "`wake` stands here, too".to_owned()));
    }
    if table.has("count") && !table.has("wake") && !table.has("spawn") {
        report.push(table.finding("count", "there is nothing here to count".to_owned()));
    }
    let count = table.number("count").unwrap_or(1.0);
    let effect = match (table.text("wake"), table.text("spawn")) {
        (Some(name), _) => {
            Effect::Wake { channel: names.woken(table, "wake", name), count: count as u64 }
        }
        (None, Some(name)) => {
            let task = names.task(report, table, "spawn", name)?;
            Effect::Spawn { task, count: count as u32 }
        }
        (None, None) => Effect::Nothing,
    };
    Some(Interrupt {
        name: table.text("name")?.to_owned(),
        cpus: table.cpus("cpus").map_or_else(|| vec![CpuId(0)], <[CpuId]>::to_vec),
        arrivals: arrivals?,
        burst: table.number("burst").unwrap_or(1.0).max(1.0) as u32,
        burst_gap: burst_gap?,
        start: from_us(table.number("start_us").unwrap_or(0.0)),
        max: table.number("max").map(|n| n as u64),
        handling: handling?,
        effect,
    })
}

/// When interrupts come: `interval_us` and what goes with it, or `at_us`.
fn arrivals(report: &mut Report, table: &Table) -> Option<Arrivals> {
    if !table.has("at_us") {
        if !table.has("interval_us") {
            let message = "it is not said when they come".to_owned();
            let mut finding = table.finding("interval_us", message);
            finding.allowed = Some("`interval_us` or `at_us`".to_owned());
            report.push(finding);
        }
        let interval = dist(report, table, "interval_us")?;
        if interval.is_zero() {
            let message = "interrupts without end at once".to_owned();
            let mut finding = table.finding("interval_us", message);
            finding.allowed = Some("an interval above 0".to_owned());
            report.push(finding);
        }
        return Some(Arrivals::Apart(interval));
    }
    for key in ["interval_us", "burst", "burst_gap_us", "start_us", "max"] {
        if table.has(key) {
            report.push(table.finding(key, "`at_us` says all of when they come".to_owned()));
        }
    }
    let times = table.numbers("at_us")?;
    if times.is_empty() {
        report.push(table.finding("at_us", "interrupts that never come".to_owned()));
    }
    if let Some(back) = times.windows(2).position(|pair| pair[1] < pair[0]) {
        let message = format!("time runs backwards: {} after {}", times[back + 1], times[back]);
        report.push(table.finding("at_us", message));
    }
    Some(Arrivals::At(times.iter().copied().map(from_us).collect()))
}

fn device(report: &mut Report, table: &Table) -> Option<Device> {
    let service = dist(report, table, "service_us");
    if table.cpus("cpu").is_some_and(|cpus| cpus.len() != 1) {
        let mut finding = table.finding("cpu", "more than one CPU".to_owned());
        finding.allowed = Some("one CPU in a string, such as \"0\"".to_owned());
        report.push(finding);
    }
    if table.number("servers") == Some(0.0) {
        report.push(table.finding("servers", "a device that never serves".to_owned()));
    }
    Some(Device {
        name: table.text("name")?.to_owned(),
        service: service?,
        servers: table.number("servers").unwrap_or(1.0) as u32,
        cpu: table.cpus("cpu").and_then(|cpus| cpus.first().copied()),
    })
}

fn dist_or_zero(report: &mut Report, table: &Table, key: &str) -> Option<Dist> {
    if table.has(key) { dist(report, table, key) } else { Some(Dist::Constant(Duration::ZERO)) }
}

/// A distribution: a number, or a table.
pub(super) fn dist(report: &mut Report, table: &Table, key: &str) -> Option<Dist> {
    if let Some(us) = table.number(key) {
        return Some(Dist::Constant(from_us(us)));
    }
    let inner = table.tables(key).first()?;
    let name = inner.text("dist")?;
    let needed: &[&str] = match name {
        "uniform" => &["min", "max"],
        "exponential" => &["mean"],
        "empirical" => &["values"],
        _ => &["mean", "sd"],
    };
    let mut is_sound = true;
    let mut complain = |report: &mut Report, key: &str, message: String| {
        let allowed = Some(format!("{name} takes {}", needed.join(" and ")));
        report.push(Finding { allowed, ..inner.finding(key, message) });
        is_sound = false;
    };
    for key in ["mean", "sd", "min", "max", "values", "weights"] {
        let is_taken = needed.contains(&key) || (name == "empirical" && key == "weights");
        if inner.has(key) && !is_taken {
            complain(report, key, "this distribution does not have it".to_owned());
        } else if !inner.has(key) && needed.contains(&key) {
            complain(report, key, "this key is missing".to_owned());
        }
    }
    for key in ["mean", "sd"] {
        if inner.number(key) == Some(0.0) {
            complain(report, key, "a distribution without width or place".to_owned());
        }
    }
    let (values, weights) = (inner.numbers("values"), inner.numbers("weights"));
    if let Some(values) = values {
        if values.is_empty() {
            complain(report, "values", "there is nothing to draw from".to_owned());
        }
        if let Some(weights) = weights
            && (weights.len() != values.len() || weights.iter().sum::<f64>() <= 0.0)
        {
            complain(report, "weights", format!("{} values", values.len()));
        }
    }
    let number = |key| inner.number(key).unwrap_or(0.0) * 1e3;
    if name == "uniform" && number("min") > number("max") {
        complain(report, "max", "this is below `min`".to_owned());
    }
    if !is_sound {
        return None;
    }
    Some(match name {
        "uniform" => Dist::Uniform { min: number("min"), max: number("max") },
        "exponential" => Dist::Exponential { mean: number("mean") },
        "lognormal" => Dist::log_normal(number("mean"), number("sd")),
        "gamma" => Dist::gamma(number("mean"), number("sd")),
        _ => {
            let values: Vec<f64> = values?.iter().map(|us| us * 1e3).collect();
            let equal = vec![1.0; values.len()];
            Dist::empirical(&values, weights.unwrap_or(&equal))
        }
    })
}

pub(super) fn from_us(us: f64) -> Duration {
    Duration((us * 1e3).round() as i64)
}
