// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Workload files: from keys to the model, with every error reported at its line.

use super::attributes::{Clamp, is_realtime, policy_of};
use super::keys::WORKLOAD;
use super::names::{Names, Sort};
use super::program;
use super::{
    Activity, Arrivals, Barrier, Change, Device, DeviceRef, Effect, Interrupt, List, TaskKind,
    Workload, cgroup, change, device, fio,
};
use crate::error::SimError;
use crate::kernel::Policy;
use crate::random::Dist;
use torpor_machine::toml::{Document, Problem, Report, Table};
use torpor_machine::units::{CpuId, Duration};

pub(super) const WEIGHT_DEFAULT: f64 = 1024.0;

/// Slack of an ordinary task's timers, as the kernel's first task has it.
pub(super) const TIMER_SLACK_US: f64 = 50.0;

/// Reads the text of a workload file. `origin` names it in errors.
pub fn from_toml(origin: &str, text: &str) -> Result<Workload, SimError> {
    from_document(&parse(origin, text)?)
}

pub(super) fn parse(origin: &str, text: &str) -> Result<Document, SimError> {
    Document::parse(origin, text).map_err(|problems| invalid(origin, problems))
}

/// Reads a workload from what a file, a command line or a recording holds.
pub fn from_document(document: &Document) -> Result<Workload, SimError> {
    document
        .read(&WORKLOAD, |report, file| build(report, file, document))
        .map_err(|problems| invalid(&document.origin, problems))
}

/// Reads a text in another language than TOML. What `read` reports is the error; it returns `None`
/// only after a report.
pub(super) fn reported<T>(
    origin: &str,
    text: &str,
    read: impl FnOnce(&mut Report<'_>) -> Option<T>,
) -> Result<T, SimError> {
    let mut report = Report::new(text);
    let found = read(&mut report);
    let problems = report.finish();
    match found {
        Some(found) if problems.is_empty() => Ok(found),
        _ => Err(invalid(origin, problems)),
    }
}

fn invalid(origin: &str, problems: Vec<Problem>) -> SimError {
    SimError::Workload { origin: origin.to_owned(), problems }
}

/// Returns the JSON Schema of workload files, for editors.
pub fn json_schema() -> String {
    torpor_machine::toml::json_schema(&WORKLOAD, "Torpor workload")
}

fn build(report: &mut Report, file: &Table, document: &Document) -> Option<Workload> {
    let mut names = Names::default();
    names.declare_tasks(report, file.tables("task"), file.tables("fio"));
    names.declare_devices(report, file.tables("device"));
    names.declare_flows(report, file.tables("flow"));
    names.declare_activities(report, file.tables("activity"));
    names.declare_sections(report, file.tables("section"));
    let cgroups = cgroup::read(report, file.tables("cgroup"), &mut names);
    // A key that is not a list has already been reported.
    let is_empty = |key| file.field(key).is_none_or(|field| field.is_empty_array);
    if is_empty("task") && is_empty("fio") {
        let mut finding = file.finding("task", "a workload has at least one task".to_owned());
        finding.allowed = Some("`[[task]]` or `[[fio]]`".to_owned());
        report.push(finding);
    }
    let mut tasks: Vec<Option<TaskKind>> =
        file.tables("task").iter().map(|table| task(report, table, &mut names)).collect();
    tasks.extend(file.tables("fio").iter().map(|table| fio::read(report, table, &mut names)));
    names.groups = 1;
    let interrupts: Vec<Option<Interrupt>> =
        file.tables("interrupt").iter().map(|table| interrupt(report, table, &mut names)).collect();
    let devices: Vec<Option<Device>> =
        file.tables("device").iter().map(|table| device::read(report, table)).collect();
    names.check_channels(report);
    let flows = names.flows(report, file.tables("flow"));
    let activities: Vec<Option<Activity>> =
        file.tables("activity").iter().map(|table| activity(report, table)).collect();
    let changes: Vec<Option<Change>> =
        file.tables("change").iter().map(|table| change::read(report, table, &names)).collect();
    let devices: Option<Vec<Device>> = devices.into_iter().collect();
    let named = names.named_devices(document);

    let mut tasks: Vec<TaskKind> = tasks.into_iter().collect::<Option<_>>()?;
    let mut interrupts: Vec<Interrupt> = interrupts.into_iter().collect::<Option<_>>()?;
    let (channels, begins) = names.channels();
    for step in tasks.iter_mut().flat_map(|task| &mut task.program) {
        step.op.change(|list, index| {
            if list == List::Channels {
                *index = begins[*index];
            }
        });
    }
    for interrupt in &mut interrupts {
        if let Effect::Wake { channel, .. } = &mut interrupt.effect {
            *channel = begins[*channel];
        }
    }
    if tasks.iter().any(|task| task.each_cpu && !task.barriers().is_empty()) {
        let message = "a task with `each_cpu` cannot have a barrier";
        report.push(file.finding("task", message.to_owned()));
    }
    Some(Workload {
        name: file.text("name")?.to_owned(),
        title: file.text("title")?.to_owned(),
        sources: file.texts("source").to_vec(),
        sha256: document.sha256(),
        barriers: Barrier::all(&names.barriers.names, &tasks),
        tasks,
        interrupts,
        devices: devices?.into_iter().map(DeviceRef::Own).chain(named).collect(),
        channels,
        flows,
        activities: activities.into_iter().collect::<Option<_>>()?,
        cgroups,
        changes: changes.into_iter().collect::<Option<_>>()?,
        notes: file.texts("note").to_vec(),
    })
}

fn task(report: &mut Report, table: &Table, names: &mut Names) -> Option<TaskKind> {
    if table.number("weight").is_some_and(|weight| weight < 3.0) {
        let mut finding = table.finding("weight", "below the lowest weight of a task".to_owned());
        finding.allowed = Some("3 (nice 19 of the idle policy) to 88761 (nice -20)".to_owned());
        report.push(finding);
    }
    let count = table.number("count").unwrap_or(1.0) as u64;
    let group = table.number("group").map_or(count, |n| n as u64);
    if table.has("group") && (group == 0 || count % group != 0) {
        let message = format!("{count} tasks cannot be divided into groups of this size");
        let mut finding = table.finding("group", message);
        finding.allowed = Some("a divisor of `count`".to_owned());
        report.push(finding);
    }
    names.groups = count.checked_div(group).map_or(1, |groups| groups.max(1) as usize);
    let program = program::flatten(report, table, names);
    let policy = policy(report, table);
    Some(TaskKind {
        name: table.text("name")?.to_owned(),
        count: count as u32,
        groups: names.groups,
        cpus: table.cpus("cpus").map(<[CpuId]>::to_vec),
        each_cpu: each_cpu(report, table),
        parent_cpu: parent_cpu(table),
        start: from_us(table.number("start_us").unwrap_or(0.0)),
        stagger: from_us(table.number("stagger_us").unwrap_or(0.0)),
        policy,
        clamp: clamp(report, table),
        timer_slack: timer_slack(table, policy),
        slice: slice(report, table),
        weight: table.number("weight").unwrap_or(WEIGHT_DEFAULT) as u32,
        activity: names.activity(report, table),
        during: names.during(report, table),
        cgroup: names.cgroup(report, table),
        repeat: table.number("repeat").map(|n| n as u64),
        draws: program.draws,
        depth: program.depth,
        timers: program.timers.names.len(),
        program: program.steps,
    })
}

/// Returns the slack that the kernel gives the timers of a task of this policy.
fn timer_slack(table: &Table, policy: Policy) -> Duration {
    match policy {
        Policy::Fifo(_) | Policy::RoundRobin(_) => Duration::ZERO,
        _ => from_us(table.number("timer_slack_us").unwrap_or(TIMER_SLACK_US)),
    }
}

/// Reads `policy` and `rt_priority`, of which the realtime policies need both and others one.
fn policy(report: &mut Report, table: &Table) -> Policy {
    let given = table.text("policy").unwrap_or("normal");
    let priority = table.number("rt_priority").map_or(0, |n| n as u32);
    if is_realtime(given) != (priority > 0) {
        let message = format!("the policy `{given}` does not go with the priority {priority}");
        let at = if table.has("rt_priority") { "rt_priority" } else { "policy" };
        let mut finding = table.finding(at, message);
        finding.allowed =
            Some("1 to 99 with the policies fifo and rr, none with others".to_owned());
        report.push(finding);
    }
    policy_of(given, priority)
}

/// Reads `slice_us`, in the range that the kernel keeps slices in.
fn slice(report: &mut Report, table: &Table) -> Duration {
    let slice = table.number("slice_us");
    if slice.is_some_and(|us| !(100.0..=100_000.0).contains(&us)) {
        let mut finding = table.finding("slice_us", "the kernel has no such slice".to_owned());
        finding.allowed = Some("100 to 100000".to_owned());
        report.push(finding);
    }
    from_us(slice.unwrap_or(0.0))
}

fn activity(report: &mut Report, table: &Table) -> Option<Activity> {
    if table.number("mean_us") == Some(0.0) {
        let mut finding = table.finding("mean_us", "a run cannot have no length".to_owned());
        finding.allowed = Some("more than 0".to_owned());
        report.push(finding);
    }
    Some(Activity {
        name: table.text("name")?.to_owned(),
        mean_ns: table.number("mean_us")? * 1e3,
        sd: table.number("sd")?,
    })
}

/// Reads `each_cpu`, which excludes a count and CPUs.
fn each_cpu(report: &mut Report, table: &Table) -> bool {
    let each_cpu = table.bool("each_cpu").unwrap_or(false);
    for key in ["cpus", "count", "group"] {
        if each_cpu && table.has(key) {
            let message = "not allowed with `each_cpu`, which makes one task per CPU".to_owned();
            report.push(table.finding(key, message));
        }
    }
    each_cpu
}

pub(super) fn clamp(report: &mut Report, table: &Table) -> Clamp {
    let value = |key, default: u16| table.number(key).map_or(default, |n| n as u16);
    let is_realtime = table.number("rt_priority").is_some_and(|priority| priority > 0.0);
    let Clamp { min, max } = if is_realtime { Clamp::REALTIME } else { Clamp::NONE };
    let clamp = Clamp { min: value("uclamp_min", min), max: value("uclamp_max", max) };
    if clamp.min > clamp.max {
        let message = format!("this is below `uclamp_min`, {}", clamp.min);
        let mut finding = table.finding("uclamp_max", message);
        finding.allowed = Some(format!("{} to 1024", clamp.min));
        report.push(finding);
    }
    clamp
}

fn interrupt(report: &mut Report, table: &Table, names: &mut Names) -> Option<Interrupt> {
    let arrivals = arrivals(report, table);
    let burst_gap = dist_or_zero(report, table, "burst_gap_us");
    let handling = dist_or_zero(report, table, "handling_us");
    if let (Some(_), Some(_)) = (table.text("wake"), table.text("spawn")) {
        report.push(table.finding("spawn", "`wake` is also given".to_owned()));
    }
    if table.has("count") && !table.has("wake") && !table.has("spawn") {
        report
            .push(table.finding("count", "nothing to count without `wake` or `spawn`".to_owned()));
    }
    let count = table.number("count").unwrap_or(1.0);
    let effect = match (table.text("wake"), table.text("spawn")) {
        (Some(name), _) => Effect::Wake {
            channel: names.woken(Sort::Channel, table, "wake", name),
            count: count as u64,
        },
        (None, Some(name)) => {
            let task = names.task(report, table, "spawn", name)?;
            Effect::Spawn { task, count: count as u32 }
        }
        (None, None) => Effect::Nothing,
    };
    if table.has("during") && table.has("at_us") {
        report.push(table.finding("during", "`at_us` has all its times".to_owned()));
    }
    let each_cpu = table.number("each_cpu_us").map(from_us);
    if each_cpu.is_some() && table.has("cpus") {
        report.push(table.finding("cpus", "`each_cpu_us` applies to all CPUs".to_owned()));
    }
    Some(Interrupt {
        each_cpu,
        name: table.text("name")?.to_owned(),
        cpus: table.cpus("cpus").map_or_else(|| vec![CpuId(0)], <[CpuId]>::to_vec),
        arrivals: arrivals?,
        activity: names.activity(report, table),
        during: names.during(report, table),
        burst: table.number("burst").unwrap_or(1.0).max(1.0) as u32,
        burst_gap: burst_gap?,
        start: from_us(table.number("start_us").unwrap_or(0.0)),
        max: table.number("max").map(|n| n as u64),
        handling: handling?,
        effect,
    })
}

/// Reads `at_us`, or `interval_us` and its companions.
fn arrivals(report: &mut Report, table: &Table) -> Option<Arrivals> {
    if !table.has("at_us") {
        if !table.has("interval_us") {
            let message = "an interrupt needs its times".to_owned();
            let mut finding = table.finding("interval_us", message);
            finding.allowed = Some("`interval_us` or `at_us`".to_owned());
            report.push(finding);
        }
        let interval = dist(report, table, "interval_us")?;
        if interval.is_zero() {
            let message = "the interval is zero".to_owned();
            let mut finding = table.finding("interval_us", message);
            finding.allowed = Some("an interval above 0".to_owned());
            report.push(finding);
        }
        return Some(Arrivals::Apart(interval));
    }
    for key in ["interval_us", "burst", "burst_gap_us", "start_us", "max"] {
        if table.has(key) {
            report.push(table.finding(key, "not allowed with `at_us`".to_owned()));
        }
    }
    let times = table.numbers("at_us")?;
    if times.is_empty() {
        report.push(table.finding("at_us", "the list is empty".to_owned()));
    }
    if let Some(back) = times.windows(2).position(|pair| pair[1] < pair[0]) {
        let message = format!("time runs backwards: {} after {}", times[back + 1], times[back]);
        report.push(table.finding("at_us", message));
    }
    Some(Arrivals::At(times.iter().copied().map(from_us).collect()))
}

pub(super) fn dist_or_zero(report: &mut Report, table: &Table, key: &str) -> Option<Dist> {
    if table.has(key) { dist(report, table, key) } else { Some(Dist::Constant(Duration::ZERO)) }
}

/// A distribution: a number, or a table.
pub(super) fn dist(report: &mut Report, table: &Table, key: &str) -> Option<Dist> {
    table.distribution(report, key).map(|distribution| Dist::from(&distribution))
}

pub(super) fn parent_cpu(table: &Table) -> Option<CpuId> {
    table.number("parent_cpu").map(|cpu| CpuId(cpu as u32))
}

pub(super) fn from_us(us: f64) -> Duration {
    Duration((us * 1e3).round() as i64)
}
