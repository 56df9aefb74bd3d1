// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Differences between two snapshots, and what prevents computing them.

use crate::counters::model::only_refused;
use crate::counters::{Cpu, Snapshot, State};
use crate::units::CpuId;
use serde::Serialize;
use std::collections::BTreeMap;

/// Counts of one interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Delta {
    /// `None` if the snapshots have no common clock.
    pub elapsed_ns: Option<i64>,
    /// The clock: `monotonic`, `uptime` or `wall`.
    pub clock: Option<&'static str>,
    /// Counted from 0: the machine was booted since `before`, or there is no `before`.
    pub is_since_boot: bool,
    /// CPUs that can be compared, ascending.
    pub cpus: Vec<CpuDelta>,
    pub notes: Vec<Note>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CpuDelta {
    #[serde(serialize_with = "cpu_number")]
    pub cpu: CpuId,
    pub states: Vec<StateDelta>,
}

/// A count is `None` if a snapshot lacks it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StateDelta {
    pub index: u32,
    pub name: String,
    pub latency_us: Option<u32>,
    pub residency_us: Option<u32>,
    /// Switched off in `after`.
    pub is_off: bool,
    pub usage: Option<u64>,
    pub time_us: Option<u64>,
    pub above: Option<u64>,
    pub below: Option<u64>,
    pub rejected: Option<u64>,
}

/// Note that a reader of the counts must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    pub kind: NoteKind,
    /// Empty if it holds for the machine.
    #[serde(serialize_with = "cpu_numbers")]
    pub cpus: Vec<CpuId>,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    Rebooted,
    /// Another governor or kernel at the end.
    Changed,
    CpuVanished,
    CpuAppeared,
    /// Another state table: these are not the same counters.
    TableChanged,
    WentBack,
    Wrapped,
    StateVanished,
    StateAppeared,
    NoValue,
    SwitchedOff,
    /// A state was selected, and the driver refused it every time.
    OnlyRefused,
    /// A state was switched on or off on the way.
    Switched,
}

/// Movement of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Forward(u64),
    /// Over the end of 32 or 64 bits.
    Wrapped(u64),
    Back,
}

impl Change {
    /// The way from one value to the next. Over half of the range backwards is a wrap forwards.
    pub fn between(before: u64, after: u64) -> Change {
        const HALF_32: u64 = 1 << 31;
        const WHOLE_32: u64 = 1 << 32;
        const HALF_64: u64 = 1 << 63;
        if let Some(way) = after.checked_sub(before) {
            Change::Forward(way)
        } else if before >= HALF_64 && after < HALF_64 {
            Change::Wrapped(after.wrapping_sub(before))
        } else if (HALF_32..WHOLE_32).contains(&before) && after < HALF_32 {
            Change::Wrapped(after.wrapping_sub(before) % WHOLE_32)
        } else {
            Change::Back
        }
    }
}

/// Each counter with its name in sysfs.
type Counter = (&'static str, fn(&State) -> Option<u64>, fn(&mut StateDelta) -> &mut Option<u64>);
const COUNTERS: [Counter; 5] = [
    ("usage", |s| s.usage, |d| &mut d.usage),
    ("time", |s| s.time_us, |d| &mut d.time_us),
    ("above", |s| s.above, |d| &mut d.above),
    ("below", |s| s.below, |d| &mut d.below),
    ("rejected", |s| s.rejected, |d| &mut d.rejected),
];

pub fn delta(before: &Snapshot, after: &Snapshot) -> Delta {
    let mut notes = Notes::default();
    let (old, new) = (&before.machine, &after.machine);
    let is_other_boot = matches!((&old.boot_id, &new.boot_id), (Some(a), Some(b)) if a != b);
    let (elapsed_ns, clock) = elapsed(before, after);
    let is_clock_back = elapsed_ns.is_some_and(|ns| ns < 0) && clock != Some("wall");
    for (what, old, new) in [
        ("governor", &old.governor, &new.governor),
        ("driver", &old.driver, &new.driver),
        ("kernel", &old.kernel_release, &new.kernel_release),
    ] {
        if let (Some(old), Some(new)) = (old, new) {
            if old != new {
                notes.add(
                    NoteKind::Changed,
                    None,
                    format!("the {what} changed from {old} to {new}"),
                );
            }
        }
    }
    if is_other_boot || is_clock_back {
        let text = "the machine was booted in between: all is counted since then";
        notes.add(NoteKind::Rebooted, None, text.to_owned());
        return counted_since_boot(after, notes);
    }
    let mut cpus = Vec::new();
    for cpu in before.cpus.iter().filter(|cpu| !cpu.states.is_empty()) {
        match after.cpu(cpu.cpu).filter(|cpu| !cpu.states.is_empty()) {
            Some(now) => cpus.extend(cpu_delta(cpu, now, &mut notes)),
            None => notes.add(
                NoteKind::CpuVanished,
                Some(cpu.cpu),
                "is not in the later snapshot (offline?): left out".to_owned(),
            ),
        }
    }
    for cpu in after.cpus.iter().filter(|cpu| !cpu.states.is_empty()) {
        if before.cpu(cpu.cpu).is_none_or(|cpu| cpu.states.is_empty()) {
            let text = "is not in the earlier snapshot (came online since?): left out";
            notes.add(NoteKind::CpuAppeared, Some(cpu.cpu), text.to_owned());
        }
    }
    tell_refused(&cpus, &mut notes);
    let elapsed_ns = elapsed_ns.filter(|ns| *ns > 0);
    let clock = clock.filter(|_| elapsed_ns.is_some());
    Delta { elapsed_ns, clock, is_since_boot: false, cpus, notes: notes.0 }
}

/// Returns the counts of one snapshot since the machine was booted, or the driver registered.
pub fn since_boot(snapshot: &Snapshot) -> Delta {
    counted_since_boot(snapshot, Notes::default())
}

fn counted_since_boot(after: &Snapshot, mut notes: Notes) -> Delta {
    let mut cpus = Vec::new();
    for cpu in after.cpus.iter().filter(|cpu| !cpu.states.is_empty()) {
        let mut zero = cpu.clone();
        for state in &mut zero.states {
            for counter in [
                &mut state.usage,
                &mut state.time_us,
                &mut state.above,
                &mut state.below,
                &mut state.rejected,
            ] {
                *counter = counter.map(|_| 0);
            }
        }
        cpus.extend(cpu_delta(&zero, cpu, &mut notes));
    }
    tell_refused(&cpus, &mut notes);
    let (elapsed_ns, clock) = match (after.machine.monotonic_ns, after.machine.uptime_ns) {
        (Some(ns), _) => (Some(ns), Some("monotonic")),
        (None, Some(ns)) => (Some(ns), Some("uptime")),
        _ => (None, None),
    };
    Delta { elapsed_ns, clock, is_since_boot: true, cpus, notes: notes.0 }
}

/// By the best clock that both have.
fn elapsed(before: &Snapshot, after: &Snapshot) -> (Option<i64>, Option<&'static str>) {
    let (old, new) = (&before.machine, &after.machine);
    [
        ("monotonic", old.monotonic_ns, new.monotonic_ns),
        ("uptime", old.uptime_ns, new.uptime_ns),
        ("wall", old.taken_at_ns, new.taken_at_ns),
    ]
    .into_iter()
    .find_map(|(clock, old, new)| Some((new?.checked_sub(old?), Some(clock))))
    .unwrap_or_default()
}

/// Returns `None`, and adds a note, if the two do not count the same thing.
fn cpu_delta(before: &Cpu, after: &Cpu, notes: &mut Notes) -> Option<CpuDelta> {
    let cpu = Some(before.cpu);
    let old: BTreeMap<u32, &State> = before.states.iter().map(|s| (s.index, s)).collect();
    let pairs: Vec<(&State, &State)> =
        after.states.iter().filter_map(|new| Some((*old.get(&new.index)?, new))).collect();
    if let Some((old, new)) = pairs.iter().find(|(old, new)| !is_same_state(old, new)) {
        let (index, old, new) = (old.index, words(old), words(new));
        let text = format!("state {index} was {old} and is {new}: another table, left out");
        notes.add(NoteKind::TableChanged, cpu, text);
        return None;
    }
    // After a driver is registered again, most counters are smaller; a counter that wraps does so
    // alone.
    let (mut moved, mut wrapped) = (0, Vec::new());
    for (old, new) in &pairs {
        for (name, value, _) in &COUNTERS {
            let (Some(before), Some(after)) = (value(old), value(new)) else { continue };
            moved = usize::saturating_add(moved, usize::from(before != 0));
            match Change::between(before, after) {
                Change::Forward(_) => {}
                Change::Wrapped(_) => wrapped.push((new.index, *name)),
                Change::Back => {
                    let text = format!(
                        "{name} of state {} went back from {before} to {after} (driver registered \
                         anew?): left out",
                        new.index
                    );
                    notes.add(NoteKind::WentBack, cpu, text);
                    return None;
                }
            }
        }
    }
    if wrapped.len() > moved / 2 {
        let text = "most counters went back (was the driver registered again?): left out";
        notes.add(NoteKind::WentBack, cpu, text.to_owned());
        return None;
    }
    for (index, name) in wrapped {
        let text = format!("{name} of state {index} ran over its end and is counted on");
        notes.add(NoteKind::Wrapped, cpu, text);
    }
    tell_states(before, after, notes);
    let mut states: Vec<StateDelta> =
        pairs.into_iter().map(|(old, new)| state_delta(cpu, old, new, notes)).collect();
    tell_missing(before.cpu, &mut states, notes);
    Some(CpuDelta { cpu: before.cpu, states })
}

fn tell_states(before: &Cpu, after: &Cpu, notes: &mut Notes) {
    let has = |cpu: &Cpu, index| cpu.states.iter().any(|state| state.index == index);
    for state in before.states.iter().filter(|state| !has(after, state.index)) {
        let text = format!("state {} is not in the later snapshot: left out", words(state));
        notes.add(NoteKind::StateVanished, Some(before.cpu), text);
    }
    for state in after.states.iter().filter(|state| !has(before, state.index)) {
        let text = format!("state {} is not in the earlier snapshot: left out", words(state));
        notes.add(NoteKind::StateAppeared, Some(before.cpu), text);
    }
}

/// Notes each state that the driver refused every time, once for all of its CPUs.
fn tell_refused(cpus: &[CpuDelta], notes: &mut Notes) {
    let mut refused: BTreeMap<&str, (Vec<CpuId>, u64)> = BTreeMap::new();
    for cpu in cpus {
        for state in &cpu.states {
            let Some(times) = only_refused(state.usage, state.rejected) else { continue };
            let (cpus, sum) = refused.entry(&state.name).or_default();
            cpus.push(cpu.cpu);
            *sum = sum.saturating_add(times);
        }
    }
    for (name, (cpus, times)) in refused {
        let text = format!(
            "state {name} was selected and refused {times} times, and never entered: neither \
             `time` nor `usage` counts what these attempts took"
        );
        notes.0.push(Note { kind: NoteKind::OnlyRefused, cpus, text });
    }
}

/// Counters that one of the snapshots lacks, each with the states it is lacking of.
fn tell_missing(cpu: CpuId, states: &mut [StateDelta], notes: &mut Notes) {
    let mut missing: BTreeMap<Vec<u32>, Vec<&str>> = BTreeMap::new();
    for (name, _, field) in COUNTERS {
        let lacking = states.iter_mut().filter_map(|s| field(s).is_none().then_some(s.index));
        missing.entry(lacking.collect()).or_default().push(name);
    }
    for (lacking, names) in missing.into_iter().filter(|(lacking, _)| !lacking.is_empty()) {
        let indices: Vec<String> = lacking.iter().map(u32::to_string).collect();
        let which = match lacking.len() == states.len() {
            true => String::new(),
            false => format!(" for state {}", indices.join(", ")),
        };
        let text = format!("no value of {}{which}", names.join(", "));
        notes.add(NoteKind::NoValue, Some(cpu), text);
    }
}

fn state_delta(cpu: Option<CpuId>, old: &State, new: &State, notes: &mut Notes) -> StateDelta {
    let mut delta = StateDelta {
        index: new.index,
        name: new.name.clone().unwrap_or_else(|| old.label()),
        latency_us: new.latency_us.or(old.latency_us),
        residency_us: new.residency_us.or(old.residency_us),
        is_off: new.is_off(),
        ..StateDelta::default()
    };
    for (_, value, field) in COUNTERS {
        let (Some(before), Some(after)) = (value(old), value(new)) else { continue };
        match Change::between(before, after) {
            Change::Forward(count) | Change::Wrapped(count) => *field(&mut delta) = Some(count),
            Change::Back => unreachable!("a CPU with such a counter is left out"),
        }
    }
    match (old.is_off(), new.is_off()) {
        (false, false) => {}
        (true, true) => {
            let text = format!("state {} is switched off", delta.name);
            notes.add(NoteKind::SwitchedOff, cpu, text);
        }
        (_, is_off) => {
            let way = if is_off { "off" } else { "on" };
            let text = format!("state {} was switched {way} in between", delta.name);
            notes.add(NoteKind::Switched, cpu, text);
        }
    }
    delta
}

/// Unknown is no difference.
fn is_same_state(old: &State, new: &State) -> bool {
    fn is_same<T: PartialEq>(old: &Option<T>, new: &Option<T>) -> bool {
        old.is_none() || new.is_none() || old == new
    }
    is_same(&old.name, &new.name)
        && is_same(&old.latency_us, &new.latency_us)
        && is_same(&old.residency_us, &new.residency_us)
}

fn words(state: &State) -> String {
    let number = |number: Option<u32>| number.map_or("?".to_owned(), |number| number.to_string());
    let (latency, residency) = (number(state.latency_us), number(state.residency_us));
    format!("{} ({latency}/{residency} µs)", state.label())
}

/// One note a matter, with all CPUs that it holds for.
#[derive(Default)]
struct Notes(Vec<Note>);

impl Notes {
    fn add(&mut self, kind: NoteKind, cpu: Option<CpuId>, text: String) {
        let place = self.0.iter().position(|note| note.kind == kind && note.text == text);
        match place.and_then(|place| self.0.get_mut(place)) {
            Some(note) => note.cpus.extend(cpu),
            None => self.0.push(Note { kind, cpus: cpu.into_iter().collect(), text }),
        }
    }
}

fn cpu_number<S: serde::Serializer>(cpu: &CpuId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(cpu.0)
}

fn cpu_numbers<S: serde::Serializer>(cpus: &[CpuId], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(cpus.iter().map(|cpu| cpu.0))
}
