// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A task's phases, flattened into steps, and the names they speak of.

use super::read::{dist, dist_or_zero, from_us};
use super::{DeviceRef, Draw, Flow, Hint, IoWait, Op, Step, fio};
use std::collections::HashMap;
use torpor_toml::{Finding, Report, Table, closest};
use torpor_units::Instant;

/// Loops in loops beyond this are an error.
const DEPTH_MAX: usize = 16;

/// The keys of which a phase has exactly one.
const VERBS: [&str; 13] = [
    "run_us",
    "sleep_us",
    "until_us",
    "period_us",
    "wait",
    "wake",
    "barrier",
    "io",
    "spawn",
    "call",
    "begin",
    "end",
    "repeat",
];

pub(super) struct Program {
    pub steps: Vec<Step>,
    pub draws: usize,
    pub depth: usize,
}

/// A channel, and where it is first waited on and woken.
struct Channel {
    name: String,
    waited: Option<Finding>,
    woken: Option<Finding>,
    /// How many of them there are: one a group of the tasks that use it.
    groups: usize,
    /// Where tasks in another number of groups use it.
    uneven: Option<Finding>,
}

/// Names in their order, each with its number.
#[derive(Default)]
pub(super) struct Index {
    pub names: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Index {
    pub(super) fn of(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// Of two that are alike, the first keeps the name.
    fn add(&mut self, name: &str) -> usize {
        self.names.push(name.to_owned());
        let number = self.names.len() - 1;
        self.numbers.entry(name.to_owned()).or_insert(number);
        number
    }

    fn of_or_add(&mut self, name: &str) -> usize {
        self.of(name).unwrap_or_else(|| self.add(name))
    }
}

/// What the file's names stand for.
#[derive(Default)]
pub(super) struct Names {
    tasks: Index,
    /// The workload's own devices, then those of elsewhere.
    devices: Index,
    /// Where each of those of elsewhere is first named.
    named_devices: Vec<Finding>,
    channels: Vec<Channel>,
    channel_index: HashMap<String, usize>,
    pub barriers: Index,
    flows: Index,
    activities: Index,
    /// Where each flow is first begun, and ended.
    flow_ends: Vec<[Option<Finding>; 2]>,
    /// Into how many groups fall the tasks, or the interrupts, that are being read.
    pub groups: usize,
}

impl Names {
    pub(super) fn declare_tasks(&mut self, report: &mut Report, tables: &[Table], jobs: &[Table]) {
        self.tasks = declare(report, tables.iter().chain(jobs));
    }

    pub(super) fn declare_activities(&mut self, report: &mut Report, tables: &[Table]) {
        self.activities = declare(report, tables.iter());
    }

    /// The activity that a task or an interrupt names, if it names one.
    pub(super) fn activity(&self, report: &mut Report, at: &Table) -> Option<usize> {
        let name = at.text("activity")?;
        find(report, at, "activity", name, &self.activities, "activity")
    }

    pub(super) fn declare_devices(&mut self, report: &mut Report, tables: &[Table]) {
        self.devices = declare(report, tables.iter());
    }

    pub(super) fn task(
        &self,
        report: &mut Report,
        at: &Table,
        key: &str,
        name: &str,
    ) -> Option<usize> {
        find(report, at, key, name, &self.tasks, "task")
    }

    /// A device of the workload's, or else the machine's.
    pub(super) fn device(&mut self, at: &Table, key: &str, name: &str) -> usize {
        if let Some(known) = self.devices.of(name) {
            return known;
        }
        self.named_devices.push(at.finding(key, "there is no device of this name".to_owned()));
        self.devices.add(name)
    }

    /// The devices of elsewhere.
    pub(super) fn named_devices(&mut self, origin: &str, text: &str) -> Vec<DeviceRef> {
        let findings = std::mem::take(&mut self.named_devices);
        let names = self.devices.names.split_off(self.devices.names.len() - findings.len());
        let named = names.into_iter().zip(findings);
        named.map(|(name, finding)| DeviceRef::named(name, finding, origin, text)).collect()
    }

    fn channel(&mut self, at: &Table, key: &str, name: &str) -> usize {
        if let Some(&known) = self.channel_index.get(name) {
            let (groups, channel) = (self.groups, &mut self.channels[known]);
            if channel.groups != groups {
                let message = format!(
                    "{groups} of this channel are needed here, {} elsewhere",
                    channel.groups
                );
                channel.uneven.get_or_insert_with(|| at.finding(key, message));
            }
            return known;
        }
        self.channels.push(Channel {
            name: name.to_owned(),
            waited: None,
            woken: None,
            groups: self.groups,
            uneven: None,
        });
        self.channel_index.insert(name.to_owned(), self.channels.len() - 1);
        self.channels.len() - 1
    }

    fn waited(&mut self, at: &Table, name: &str) -> usize {
        let index = self.channel(at, "wait", name);
        let message = "nobody wakes this channel".to_owned();
        self.channels[index].waited.get_or_insert_with(|| at.finding("wait", message));
        index
    }

    pub(super) fn woken(&mut self, at: &Table, key: &str, name: &str) -> usize {
        let index = self.channel(at, key, name);
        let message = "nobody waits on this channel".to_owned();
        self.channels[index].woken.get_or_insert_with(|| at.finding(key, message));
        index
    }

    /// Every channel must have someone at both ends, group by group.
    pub(super) fn check_channels(&mut self, report: &mut Report) {
        let names: Vec<String> = self.channels.iter().map(|c| c.name.clone()).collect();
        for channel in &mut self.channels {
            let finding = match (&channel.waited, &channel.woken) {
                (Some(_), None) => channel.waited.take(),
                (None, Some(_)) => channel.woken.take(),
                _ => None,
            };
            if let Some(finding) = finding {
                let others = names.iter().filter(|n| **n != channel.name).map(String::as_str);
                let hint = closest(&channel.name, others)
                    .map(|near| format!("did you mean `{near}`?"))
                    .or(Some("a channel needs a `wait` and a `wake` of the same name".into()));
                report.push(Finding { hint, ..finding });
            }
            if let Some(finding) = channel.uneven.take() {
                let allowed = "as many groups (`count` / `group`) on both ends of a channel";
                report.push(Finding { allowed: Some(allowed.to_owned()), ..finding });
            }
        }
    }

    /// The deadlines of flows.
    pub(super) fn declare_flows(&mut self, report: &mut Report, tables: &[Table]) {
        for table in tables {
            let Some(name) = table.text("name") else { continue };
            if self.flows.of(name).is_some() {
                let message = "this name is already used".to_owned();
                report.push(table.finding("name", message));
            }
            self.flows.of_or_add(name);
            self.flow_ends.resize_with(self.flows.names.len(), || [const { None }; 2]);
        }
    }

    /// A flow that a task begins, or ends.
    fn flow(&mut self, at: &Table, verb: &str, name: &str) -> usize {
        let flow = self.flows.of_or_add(name);
        if flow == self.flow_ends.len() {
            self.flow_ends.push([const { None }; 2]);
        }
        let (which, message) = match verb {
            "begin" => (0, "nobody ends this flow"),
            _ => (1, "nobody begins this flow"),
        };
        self.flow_ends[flow][which].get_or_insert_with(|| at.finding(verb, message.to_owned()));
        flow
    }

    /// Every flow must have both ends.
    pub(super) fn flows(&mut self, report: &mut Report, tables: &[Table]) -> Vec<Flow> {
        for (flow, ends) in self.flow_ends.iter_mut().enumerate() {
            let [begin, end] = std::mem::take(ends);
            let finding = match (begin, end) {
                (Some(begin), None) => begin,
                (None, Some(end)) => end,
                (None, None) => {
                    let is_it = |t: &&Table| t.text("name") == Some(&self.flows.names[flow]);
                    let Some(table) = tables.iter().find(is_it) else { continue };
                    table.finding("name", "no task begins or ends this flow".to_owned())
                }
                _ => continue,
            };
            let others = self.flows.names.iter().filter(|n| **n != self.flows.names[flow]);
            let near = closest(&self.flows.names[flow], others.map(String::as_str));
            let hint = near
                .map(|near| format!("did you mean `{near}`?"))
                .or(Some("a flow needs a `begin` and an `end` of the same name".into()));
            report.push(Finding { hint, ..finding });
        }
        let flow = |name: &String| {
            let table = tables.iter().find(|table| table.text("name") == Some(name));
            let time = |key| table.and_then(|table| table.number(key)).map(from_us);
            if let Some(table) = table
                && table.has("deadline_after_late_us")
                && !table.has("deadline_us")
            {
                let message = "it requires `deadline_us`".to_owned();
                report.push(table.finding("deadline_after_late_us", message));
            }
            Flow {
                name: name.clone(),
                deadline: time("deadline_us"),
                deadline_after_late: time("deadline_after_late_us"),
                hint: table.and_then(|table| self.hint(report, table)),
            }
        };
        self.flows.names.iter().map(flow).collect()
    }

    /// The hint session of a flow.
    fn hint(&self, report: &mut Report, table: &Table) -> Option<Hint> {
        let boosts = table.texts("boosts");
        if table.has("target_us") == boosts.is_empty() {
            let (key, other) = match boosts.is_empty() {
                true => ("target_us", "boosts"),
                false => ("boosts", "target_us"),
            };
            report.push(table.finding(key, format!("it requires `{other}`")));
            return None;
        }
        let target = table.number("target_us").map(from_us)?;
        let task = |name: &String| self.task(report, table, "boosts", name);
        let tasks = boosts.iter().map(task).collect::<Option<Vec<usize>>>()?;
        Some(Hint { target, tasks })
    }

    /// All channels, those of one name in the order of their groups, and where each name's begin.
    pub(super) fn channels(&self) -> (Vec<super::Channel>, Vec<usize>) {
        let (mut channels, mut begins) = (Vec::new(), Vec::new());
        for channel in &self.channels {
            begins.push(channels.len());
            channels.extend((0..channel.groups).map(|group| super::Channel {
                name: match channel.groups {
                    1 => channel.name.clone(),
                    _ => format!("{}#{group}", channel.name),
                },
                held: 0,
            }));
        }
        (channels, begins)
    }
}

fn declare<'a>(report: &mut Report, tables: impl Iterator<Item = &'a Table>) -> Index {
    let mut names = Index::default();
    for table in tables {
        let name = table.text("name").unwrap_or_default();
        if !name.is_empty() && names.of(name).is_some() {
            report.push(table.finding("name", "this name is already used".into()));
        }
        names.add(name);
    }
    names
}

fn find(
    report: &mut Report,
    at: &Table,
    key: &str,
    name: &str,
    known: &Index,
    what: &str,
) -> Option<usize> {
    let found = known.of(name);
    if found.is_none() {
        let mut finding = at.finding(key, format!("there is no {what} of this name"));
        let list = known.names.join(", ");
        finding.allowed = Some(if list.is_empty() { format!("no {what} is given") } else { list });
        finding.hint = closest(name, known.names.iter().map(String::as_str))
            .map(|near| format!("did you mean `{near}`?"));
        report.push(finding);
    }
    found
}

/// A task's phases as one list of steps.
pub(super) fn flatten(report: &mut Report, task: &Table, names: &mut Names) -> Program {
    let mut program = Program { steps: Vec::new(), draws: 0, depth: 0 };
    let phases = task.tables("phase");
    if phases.is_empty() && task.field("phase").is_some_and(|f| f.raw.starts_with('[')) {
        report.push(task.finding("phase", "a task has at least one phase".to_owned()));
    }
    program.add_all(report, phases, "phase", 1, names);
    program
}

impl Program {
    fn add_all(
        &mut self,
        report: &mut Report,
        phases: &[Table],
        path: &str,
        depth: usize,
        names: &mut Names,
    ) {
        for (index, table) in phases.iter().enumerate() {
            self.add(report, table, format!("{path}[{index}]"), depth, names);
        }
    }

    fn add(
        &mut self,
        report: &mut Report,
        table: &Table,
        place: String,
        depth: usize,
        names: &mut Names,
    ) {
        let verbs: Vec<&str> = VERBS.into_iter().filter(|verb| table.has(verb)).collect();
        let [verb] = verbs[..] else {
            let (key, message) = match verbs.get(1) {
                Some(second) => (*second, format!("`{}` is also given", verbs[0])),
                None => ("", "this phase does nothing".to_owned()),
            };
            let mut finding = table.finding(key, message);
            finding.key = finding.key.trim_end_matches('.').to_owned();
            finding.allowed = Some(format!("one of {} a phase", VERBS.join(", ")));
            return report.push(finding);
        };
        let extras: [(&str, &[&str]); 9] = [
            ("count", &["wait", "wake", "spawn"]),
            ("not_before_us", &["wait"]),
            ("at_least_us", &["wait"]),
            ("sync", &["wake"]),
            ("bs", &["io"]),
            ("rw", &["io"]),
            ("handling_us", &["call"]),
            ("asleep", &["call"]),
            ("do", &["repeat"]),
        ];
        for (extra, beside) in extras {
            if table.has(extra) && !beside.contains(&verb) {
                let mut finding = table.finding(extra, format!("not allowed with `{verb}`"));
                finding.allowed = Some(format!("together with {}", beside.join(", ")));
                report.push(finding);
            }
        }
        if verb == "repeat" {
            return self.add_loop(report, table, place, depth, names);
        }
        if verb == "io" {
            return self.add_io(report, table, place, names);
        }
        if verb == "call" {
            return self.add_calls(report, table, place);
        }
        if let Some(op) = self.op(report, table, verb, names) {
            self.steps.push(Step { op, place });
        }
    }

    fn add_loop(
        &mut self,
        report: &mut Report,
        table: &Table,
        place: String,
        depth: usize,
        names: &mut Names,
    ) {
        if table.tables("do").is_empty() {
            let mut finding = table.finding("do", "there is nothing to repeat".to_owned());
            finding.allowed = Some("phases: `do = [{ run_us = 5 }, …]`".to_owned());
            return report.push(finding);
        }
        if depth > DEPTH_MAX {
            let message = format!("more than {DEPTH_MAX} loops inside one another");
            return report.push(table.finding("repeat", message));
        }
        self.depth = self.depth.max(depth);
        let times = table.number("repeat").unwrap_or(1.0) as u64;
        let begin = self.steps.len();
        self.steps.push(Step { op: Op::LoopBegin { times, end: 0 }, place: place.clone() });
        self.add_all(report, table.tables("do"), &format!("{place}.do"), depth + 1, names);
        self.steps.push(Step { op: Op::LoopEnd { begin: begin + 1 }, place });
        let end = self.steps.len();
        self.steps[begin].op = Op::LoopBegin { times, end };
    }

    /// A request, and the wait for it, in the uninterruptible sleep that `read()` has.
    fn add_io(&mut self, report: &mut Report, table: &Table, place: String, names: &mut Names) {
        let (Some(name), Some(transfer)) = (table.text("io"), fio::transfer(report, table)) else {
            return;
        };
        let (device, stream, next) =
            (names.device(table, "io", name), self.draws, self.steps.len() + 1);
        self.draws += 1;
        let op = Op::IoSubmit { device, stream, transfer, mix: None, next };
        self.steps.push(Step { op, place: place.clone() });
        self.steps.push(Step { op: Op::IoWait(IoWait::IoSchedule), place });
    }

    fn add_calls(&mut self, report: &mut Report, table: &Table, place: String) {
        let Some(dist) = dist_or_zero(report, table, "handling_us") else { return };
        let asleep = table.bool("asleep").unwrap_or(false);
        for cpu in table.cpus("call").unwrap_or_default() {
            let handling = Draw { dist: dist.clone(), stream: self.draws };
            self.draws += 1;
            let op = Op::Call { cpu: cpu.index(), handling, asleep };
            self.steps.push(Step { op, place: place.clone() });
        }
    }

    fn op(
        &mut self,
        report: &mut Report,
        table: &Table,
        verb: &str,
        names: &mut Names,
    ) -> Option<Op> {
        let count = table.number("count").unwrap_or(1.0);
        if count == 0.0 {
            report.push(table.finding("count", "this does nothing".to_owned()));
        }
        Some(match verb {
            "run_us" => Op::Run(self.draw(report, table, verb)?),
            "sleep_us" => Op::Sleep(self.draw(report, table, verb)?),
            "until_us" => Op::Until(Instant(0) + from_us(table.number(verb)?)),
            "period_us" => {
                let period = from_us(table.number(verb)?);
                if period.0 == 0 {
                    report.push(table.finding(verb, "a period of no length".to_owned()));
                }
                Op::Period(period)
            }
            "wait" => {
                let channel = names.waited(table, table.text(verb)?);
                let time = |key| from_us(table.number(key).unwrap_or(0.0));
                let not_before = Instant(0) + time("not_before_us");
                let at_least = time("at_least_us");
                Op::Wait { channel, count: count as u64, not_before, at_least }
            }
            "wake" => {
                let channel = names.woken(table, verb, table.text(verb)?);
                let sync = table.bool("sync").unwrap_or(false);
                Op::Wake { channel, count: count as u64, sync }
            }
            "begin" => Op::FlowBegin(names.flow(table, verb, table.text(verb)?)),
            "end" => Op::FlowEnd(names.flow(table, verb, table.text(verb)?)),
            "barrier" => Op::Barrier(names.barriers.of_or_add(table.text(verb)?)),
            _ => {
                let task = names.task(report, table, verb, table.text(verb)?)?;
                Op::Spawn { task, count: count as u32 }
            }
        })
    }

    fn draw(&mut self, report: &mut Report, table: &Table, key: &str) -> Option<Draw> {
        let stream = self.draws;
        self.draws += 1;
        Some(Draw { dist: dist(report, table, key)?, stream })
    }
}
