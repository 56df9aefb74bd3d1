// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Names in a workload file: tasks, devices, channels, flows, activities.

use super::read::from_us;
use super::section::During;
use super::{Cgroup, DeviceRef, Flow, Hint, section};
use std::collections::HashMap;
use torpor_machine::toml::{Document, Finding, Report, Table};
use torpor_machine::units::{Duration, closest};

/// The use of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sort {
    Channel,
    /// A channel that holds one from the beginning.
    Mutex,
    /// A channel that keeps no wake-up.
    Condition,
}

impl Sort {
    /// Messages if nothing wakes it, and if nothing waits on it.
    fn messages(self) -> [&'static str; 2] {
        match self {
            Sort::Channel => {
                ["no task or interrupt wakes this channel", "no task waits on this channel"]
            }
            Sort::Mutex => ["this mutex is never unlocked", "this mutex is never locked"],
            Sort::Condition => ["nothing wakes those that wait for this", "no task waits for this"],
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Sort::Channel => "a channel needs a `wait` and a `wake` of the same name",
            Sort::Mutex => "a mutex needs a `lock` and an `unlock`",
            Sort::Condition => {
                "a condition needs one task that waits for it, and one that wakes it"
            }
        }
    }
}

/// A channel, and where it is first waited on and woken.
struct Channel {
    sort: Sort,
    name: String,
    waited: Option<Finding>,
    woken: Option<Finding>,
    /// Number of instances: one a group of the tasks that use it.
    groups: usize,
    /// Finding if tasks in another number of groups use it.
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

    /// The first of two that are alike keeps the name.
    fn add(&mut self, name: &str) -> usize {
        self.names.push(name.to_owned());
        let number = self.names.len() - 1;
        self.numbers.entry(name.to_owned()).or_insert(number);
        number
    }

    pub(super) fn of_or_add(&mut self, name: &str) -> usize {
        self.of(name).unwrap_or_else(|| self.add(name))
    }
}

/// Names of a file, with their numbers.
#[derive(Default)]
pub(super) struct Names {
    tasks: Index,
    /// The workload's own devices, then those that it does not define.
    devices: Index,
    /// First mention of each device that is defined elsewhere, and whether it is a file.
    named_devices: Vec<(Finding, bool)>,
    channels: Vec<Channel>,
    channel_index: HashMap<(Sort, String), usize>,
    pub barriers: Index,
    flows: Index,
    activities: Index,
    cgroups: Index,
    /// First begin, and first end, of each flow.
    flow_ends: Vec<[Option<Finding>; 2]>,
    /// Number of groups of the tasks or interrupts that are being read.
    pub groups: usize,
    sections: Index,
    /// Begin and end of each section.
    section_spans: Vec<(Duration, Duration)>,
}

impl Names {
    pub(super) fn declare_tasks(&mut self, report: &mut Report, tables: &[Table], jobs: &[Table]) {
        self.tasks = declare(report, tables.iter().chain(jobs));
    }

    pub(super) fn declare_activities(&mut self, report: &mut Report, tables: &[Table]) {
        self.activities = declare(report, tables.iter());
    }

    /// Returns the activity of a task or an interrupt, if it names one.
    pub(super) fn activity(&self, report: &mut Report, at: &Table) -> Option<usize> {
        let name = at.text("activity")?;
        find(report, at, "activity", name, &self.activities, "activity")
    }

    pub(super) fn declare_sections(&mut self, report: &mut Report, tables: &[Table]) {
        self.sections = declare(report, tables.iter());
        self.section_spans = section::read(report, tables);
    }

    /// Returns the sections of a task or an interrupt, if it names some.
    pub(super) fn during(&self, report: &mut Report, at: &Table) -> Option<During> {
        let names = at.texts("during").iter();
        let numbers: Vec<usize> = names
            .filter_map(|name| find(report, at, "during", name, &self.sections, "section"))
            .collect();
        During::new(&self.section_spans, &numbers)
    }

    /// Declares groups by their paths; some have no table.
    pub(super) fn declare_cgroups(
        &mut self,
        report: &mut Report,
        tables: &[Table],
        groups: &[Cgroup],
    ) {
        declare(report, tables.iter());
        for group in groups {
            self.cgroups.add(&group.path);
        }
    }

    /// Returns the control group of a task, if it names one.
    pub(super) fn cgroup(&self, report: &mut Report, at: &Table) -> Option<usize> {
        let name = at.text("cgroup")?;
        find(report, at, "cgroup", name, &self.cgroups, "cgroup")
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

    /// Returns a device of the workload, or else of the machine.
    pub(super) fn device(&mut self, at: &Table, key: &str, name: &str) -> usize {
        self.elsewhere(at, key, name, false)
    }

    /// Returns the device of a file, which is known with the machine.
    pub(super) fn file(&mut self, at: &Table, key: &str, name: &str) -> usize {
        self.elsewhere(at, key, name, true)
    }

    fn elsewhere(&mut self, at: &Table, key: &str, name: &str, is_file: bool) -> usize {
        if let Some(known) = self.devices.of(name) {
            return known;
        }
        let finding = at.finding(key, "there is no device of this name".to_owned());
        self.named_devices.push((finding, is_file));
        self.devices.add(name)
    }

    /// Returns the devices that the workload does not define.
    pub(super) fn named_devices(&mut self, document: &Document) -> Vec<DeviceRef> {
        let findings = std::mem::take(&mut self.named_devices);
        let names = self.devices.names.split_off(self.devices.names.len() - findings.len());
        let named = names.into_iter().zip(findings);
        let named = named.map(|(name, (at, is_file))| DeviceRef::Named {
            name,
            is_file,
            unknown: DeviceRef::unknown(at, &document.text),
            origin: document.origin.clone(),
        });
        named.collect()
    }

    fn channel(&mut self, sort: Sort, at: &Table, key: &str, name: &str) -> usize {
        let id = (sort, name.to_owned());
        if let Some(&known) = self.channel_index.get(&id) {
            let (groups, channel) = (self.groups, &mut self.channels[known]);
            if channel.groups != groups {
                let message = format!(
                    "the number of groups differs: {groups} here, {} elsewhere",
                    channel.groups
                );
                channel.uneven.get_or_insert_with(|| at.finding(key, message));
            }
            return known;
        }
        self.channels.push(Channel {
            sort,
            name: name.to_owned(),
            waited: None,
            woken: None,
            groups: self.groups,
            uneven: None,
        });
        self.channel_index.insert(id, self.channels.len() - 1);
        self.channels.len() - 1
    }

    pub(super) fn waited(&mut self, sort: Sort, at: &Table, key: &str, name: &str) -> usize {
        let index = self.channel(sort, at, key, name);
        let finding = || at.finding(key, sort.messages()[0].to_owned());
        self.channels[index].waited.get_or_insert_with(finding);
        index
    }

    pub(super) fn woken(&mut self, sort: Sort, at: &Table, key: &str, name: &str) -> usize {
        let index = self.channel(sort, at, key, name);
        let finding = || at.finding(key, sort.messages()[1].to_owned());
        self.channels[index].woken.get_or_insert_with(finding);
        index
    }

    /// Reports channels that are never waited on or never woken, and those with uneven groups.
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
                    .or(Some(channel.sort.hint().to_owned()));
                report.push(Finding { hint, ..finding });
            }
            if let Some(finding) = channel.uneven.take() {
                let allowed = "as many groups (`count` / `group`) on both ends of a channel";
                report.push(Finding { allowed: Some(allowed.to_owned()), ..finding });
            }
        }
    }

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
    pub(super) fn flow(&mut self, at: &Table, verb: &str, name: &str) -> usize {
        let flow = self.flows.of_or_add(name);
        if flow == self.flow_ends.len() {
            self.flow_ends.push([const { None }; 2]);
        }
        let (which, message) = match verb {
            "begin" => (0, "no task ends this flow"),
            _ => (1, "no task begins this flow"),
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
            if let Some(table) = table {
                if table.has("deadline_after_late_us") && !table.has("deadline_us") {
                    let message = "it requires `deadline_us`".to_owned();
                    report.push(table.finding("deadline_after_late_us", message));
                }
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
                held: u64::from(channel.sort == Sort::Mutex),
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
