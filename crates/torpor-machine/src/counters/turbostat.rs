// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Logs of turbostat: idle states as requested, by the kernel's counters, and as got.
//!
//! turbostat prints a table an interval: a line a CPU, after a line of sums whose CPU is `-`. A
//! column has a role by its name. Of a state C1, `C1` is how often it was requested, `C1%` its
//! share of time, and in newer versions `C1-` and `C1+` are too deep and too shallow. `CPU%c1`,
//! `Pkg%pc2` and `Pk%pc10` are the hardware's counters. Which columns there are depends on the
//! machine and on `--show`.
//!
//! ```text
//! cpu0: C1: MWAIT 0x00
//! CPU  Busy%  Bzy_MHz  POLL  C1   POLL%  C1%    CPU%c1  CPU%c6  Pkg%pc2
//! -    4.06   1562     5     300  0.10   13.90  30.00   65.00   16.63
//! 0    4.00   1816     5     200  0.20   15.80  30.00   65.00   16.62
//! 4    4.20   1509     0     100  0.00   12.00  30.00
//! ```
//!
//! Columns of a core or a package are in the line of its first CPU alone. They are the last ones.

use crate::counters::error::Failure;
use crate::counters::text::{Unread, unquoted};
use crate::counters::{CPU_MAX, StateDelta};
use serde::Serialize;
use std::collections::BTreeMap;

/// All intervals of a log, together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Log {
    pub driver: Option<String>,
    pub governor: Option<String>,
    pub intervals: usize,
    /// Length of all intervals together.
    pub elapsed_ns: Option<i64>,
    /// True if the first interval's length is the mean of the others', as its begin is unknown.
    pub is_first_assumed: bool,
    /// Ascending by CPU.
    pub cpus: Vec<CpuLog>,
    /// The hardware's counters of the whole machine.
    pub got: Vec<Got>,
    /// `desc` of each state, where the log begins with them.
    pub descs: Vec<Option<String>>,
    /// Notes on how this was read; one sentence each.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CpuLog {
    pub cpu: u32,
    pub states: Vec<StateDelta>,
    /// Share of time in each state, 0 to 1.
    pub shares: Vec<Option<f64>>,
    /// Counters of its core, in the line of the core's first CPU.
    pub got: Vec<Got>,
}

/// Share of time by a counter of the hardware.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Got {
    pub counter: String,
    pub percent: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Cpu,
    /// Seconds since 1970 at the end of the interval. `usec` is no length of an interval: it is the
    /// time that turbostat took to read the counters.
    Time,
    Usage(usize),
    Above(usize),
    Below(usize),
    Share(usize),
    Got,
    /// A measure or a number of the topology.
    Other,
}

/// Columns of shares that are no idle state.
const NO_STATES: [&str; 4] = ["Busy", "CPUGFX", "PKG_", "RAM_"];
/// Columns without an idle state whose names could be words of prose.
const PLAIN: [&str; 13] = [
    "Package", "Node", "Die", "Core", "L3", "APIC", "X2APIC", "usec", "IPC", "IRQ", "NMI", "SMI",
    "CPU",
];
/// Ends of the names of other columns.
const ENDS: [&str; 6] = ["MHz", "Watt", "Tmp", "Thr", "Cnt", "RPS"];
const COLUMN_BYTES_MAX: usize = 32;
/// Columns of a table, and lines about the machine: ten times those of a large one.
const COLUMNS_MAX: usize = 1024;
const NAMED_MAX: usize = 1024;
/// Counters of a core; the others are of a module, a package or the whole machine.
const OF_CORE: &str = "CPU%c";

/// A table's first line.
#[derive(Debug)]
struct Header {
    names: Vec<String>,
    roles: Vec<Role>,
    states: Vec<String>,
    cpu_at: Option<usize>,
    /// Columns that the line of every CPU has.
    width_min: usize,
}

/// A line below a header.
enum Row<'a> {
    Whole(Option<u32>, Vec<&'a str>),
    /// A line of numbers that lacks columns of its CPU.
    Short(usize),
    Other,
}

/// Cells of a line; between tabs one may be empty.
fn cells(line: &str) -> Vec<&str> {
    let by_tabs: Vec<&str> = line.split('\t').map(str::trim).collect();
    let is_table =
        by_tabs.len() > 1 && by_tabs.iter().all(|cell| !cell.contains(char::is_whitespace));
    if is_table { by_tabs } else { line.split_whitespace().collect() }
}

/// The state that a column counts, if its name has the form.
fn state_of(name: &str) -> &str {
    name.strip_suffix(['%', '+', '-']).unwrap_or(name)
}

/// `POLL`, `C1`, `C1E`, `C2ACPI`: states that need no column of shares to be recognised.
fn is_state_name(name: &str) -> bool {
    let is_word = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
    name == "POLL"
        || name
            .strip_prefix('C')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) && is_word(rest))
}

/// `CPU%c1`, `Mod%c6`, `Pkg%pc2`, `Pk%pc10`, `SYS%LPI`
fn is_got(name: &str) -> bool {
    let Some((_, state)) = name.split_once('%') else { return false };
    let number = state.strip_prefix('p').unwrap_or(state).strip_prefix('c');
    state == "LPI" || number.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

impl Header {
    fn parse(line: &str) -> Option<Header> {
        let names = columns(line)?;
        let has = |name: &str| names.contains(&name);
        if !has("CPU") && !(has("Busy%") && has("Bzy_MHz")) {
            return None;
        }
        let mut states: Vec<String> = Vec::new();
        for name in &names {
            let state = state_of(name);
            let is_share = |name: &&str| name.strip_suffix('%') == Some(state);
            let is_state = is_state_name(state)
                || names.iter().any(|name| is_share(name)) && !NO_STATES.contains(&state);
            if is_state && !state.is_empty() && !states.iter().any(|known| known == state) {
                states.push(state.to_owned());
            }
        }
        let roles: Vec<Role> = names.iter().map(|name| role(name, &states)).collect();
        let is_idle = |role: &Role| !matches!(role, Role::Cpu | Role::Time | Role::Other);
        if !has("Busy%") && !roles.iter().any(is_idle) {
            return None;
        }
        let of_cpu = |role: &Role| !matches!(role, Role::Time | Role::Got | Role::Other);
        let width_min = roles.iter().rposition(of_cpu).map_or(1, |last| last.saturating_add(1));
        Some(Header {
            cpu_at: roles.iter().position(|role| *role == Role::Cpu),
            names: names.into_iter().map(str::to_owned).collect(),
            roles,
            states,
            width_min,
        })
    }

    /// Checks a line's cells against the columns: text of a mail around a table is no row.
    fn row<'a>(&self, line: &'a str) -> Row<'a> {
        let cells = cells(line);
        let filled = cells.iter().filter(|cell| !cell.is_empty()).count();
        let odd = cells.iter().filter(|cell| !is_cell(cell)).count();
        // A damaged cell or two are no reason to drop a row.
        if filled == 0 || odd.saturating_mul(4) > filled || cells.len() > self.names.len() {
            return Row::Other;
        }
        let cpu = match self.cpu_at.map(|at| cells.get(at)) {
            Some(None) => return Row::Short(cells.len()),
            None | Some(Some(&"-")) => None,
            Some(Some(cell)) => match cell.parse() {
                Ok(cpu) if cpu <= CPU_MAX => Some(cpu),
                _ => return Row::Other,
            },
        };
        match cells.len() {
            length if length < self.width_min => Row::Short(length),
            _ => Row::Whole(cpu, cells),
        }
    }
}

fn role(name: &str, states: &[String]) -> Role {
    let of = |name: &str| states.iter().position(|state| state == name);
    let with = |suffix: char| name.strip_suffix(suffix).and_then(of);
    match name {
        "CPU" => Role::Cpu,
        "Time_Of_Day_Seconds" => Role::Time,
        name if is_got(name) => Role::Got,
        name => of(name)
            .map(Role::Usage)
            .or_else(|| with('%').map(Role::Share))
            .or_else(|| with('-').map(Role::Above))
            .or_else(|| with('+').map(Role::Below))
            .unwrap_or(Role::Other),
    }
}

/// The names of columns in a line that holds nothing else.
fn columns(line: &str) -> Option<Vec<&str>> {
    let names = cells(line);
    let is_name = |name: &&str| {
        let is_allowed =
            |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'%' | b'+' | b'-');
        name.len() <= COLUMN_BYTES_MAX
            && name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.bytes().all(is_allowed)
    };
    let is_known = |name: &&&str| {
        PLAIN.contains(name)
            || name.contains(['%', '_'])
            || ENDS.iter().any(|end| name.ends_with(end))
            || is_state_name(state_of(name))
    };
    let known = names.iter().filter(is_known).count();
    // A user adds some of any name with `--add`.
    let is_header = (1..=COLUMNS_MAX).contains(&names.len())
        && names.iter().all(is_name)
        && known.saturating_mul(4) >= names.len().saturating_mul(3);
    is_header.then_some(names)
}

/// A number, or what turbostat prints for none: `-`, `-nan`, `***.**`.
fn is_cell(cell: &&str) -> bool {
    cell.is_empty()
        || cell.parse::<f64>().is_ok()
        || cell.starts_with("0x")
        || cell.bytes().all(|byte| matches!(byte, b'-' | b'*' | b'.'))
}

fn number(cell: &str) -> Option<f64> {
    cell.parse().ok().filter(|value: &f64| value.is_finite() && value.abs() < 9.2e18)
}

fn count(cell: &str) -> Option<u64> {
    cell.parse().ok().filter(|count| *count <= i64::MAX as u64)
}

/// Sum and number of values.
#[derive(Clone, Copy, Debug, Default)]
struct Mean(f64, u32);

impl Mean {
    fn add(&mut self, value: f64) {
        *self = Mean(self.0 + value, self.1.saturating_add(1));
    }

    fn value(self) -> Option<f64> {
        (self.1 > 0).then(|| self.0 / f64::from(self.1))
    }
}

/// Sums of the lines of a CPU, or of the whole machine.
#[derive(Debug, Default)]
struct Sums {
    usage: Vec<Option<u64>>,
    above: Vec<Option<u64>>,
    below: Vec<Option<u64>>,
    percents: Vec<Mean>,
    /// In the order of the columns.
    got: Vec<(String, Mean)>,
}

impl Sums {
    fn new(states: usize) -> Sums {
        let none = || vec![None; states];
        let percents = vec![Mean::default(); states];
        Sums { usage: none(), above: none(), below: none(), percents, got: Vec::new() }
    }

    fn add(&mut self, header: &Header, cells: &[&str]) {
        let add = |counts: &mut [Option<u64>], state: usize, cell: &str| {
            if let (Some(sum), Some(count)) = (counts.get_mut(state), count(cell)) {
                *sum = Some(sum.unwrap_or(0).saturating_add(count));
            }
        };
        for ((name, role), cell) in header.names.iter().zip(&header.roles).zip(cells) {
            match *role {
                Role::Usage(state) => add(&mut self.usage, state, cell),
                Role::Above(state) => add(&mut self.above, state, cell),
                Role::Below(state) => add(&mut self.below, state, cell),
                Role::Share(state) => {
                    if let (Some(mean), Some(percent)) =
                        (self.percents.get_mut(state), number(cell))
                    {
                        mean.add(percent);
                    }
                }
                Role::Got => self.add_got(name, cell),
                Role::Cpu | Role::Time | Role::Other => {}
            }
        }
    }

    fn add_got(&mut self, name: &str, cell: &str) {
        let Some(percent) = number(cell) else { return };
        match self.got.iter_mut().find(|(known, _)| known == name) {
            Some((_, mean)) => mean.add(percent),
            None => self.got.push((name.to_owned(), Mean(percent, 1))),
        }
    }

    fn got(&self) -> Vec<Got> {
        let of = |(counter, mean): &(String, Mean)| {
            Some(Got { counter: counter.clone(), percent: mean.value()? })
        };
        self.got.iter().filter_map(of).collect()
    }
}

/// One run of turbostat. Several may be in a file.
#[derive(Debug, Default)]
struct Run {
    /// Times of day of the lines of each CPU; of all is first.
    times_s: BTreeMap<Option<u32>, Vec<Option<f64>>>,
    /// A command's run ends with its length.
    lengths_s: Vec<f64>,
}

impl Run {
    fn intervals(&self) -> usize {
        self.times_s.values().next().map_or(0, Vec::len)
    }

    /// Returns the length of all intervals, and whether the first was assumed.
    fn length_s(&self) -> Option<(f64, bool)> {
        let count = self.intervals();
        if count == 0 {
            return Some((0.0, false));
        }
        if self.lengths_s.len() == count {
            return Some((self.lengths_s.iter().sum(), false));
        }
        let times: Vec<f64> =
            self.times_s.values().next()?.iter().copied().collect::<Option<_>>()?;
        let is_ascending = times.is_sorted_by(|a, b| a < b);
        let (first, last) = (times.first()?, times.last()?);
        let between = count.checked_sub(1).filter(|between| *between > 0 && is_ascending)?;
        Some(((last - first) / between as f64 * count as f64, true))
    }
}

#[derive(Default)]
struct Reader {
    header: Option<Header>,
    header_line: usize,
    runs: Vec<Run>,
    cpus: BTreeMap<u32, Sums>,
    whole: Option<Sums>,
    /// States in the kernel's order, with their `desc`.
    named: Vec<(String, String)>,
    driver: Option<String>,
    governor: Option<String>,
    unread: Unread,
    /// The first row that lacks columns: its line, and how many it has.
    short: Option<(usize, usize)>,
}

/// Returns whether a text has a table of turbostat.
pub(crate) fn is_log(text: &str) -> bool {
    let may_be = |line: &&str| line.contains("CPU") || line.contains("Bzy_MHz");
    text.lines().filter(may_be).any(|line| Header::parse(unquoted(line)).is_some())
}

/// Reads a log.
///
/// # Errors
/// If it has no lines of CPUs or no idle states, or if its lines were broken.
pub(crate) fn read(text: &str) -> Result<Log, Failure> {
    let mut reader = Reader::default();
    for (number, line) in text.lines().enumerate() {
        reader.line(number.saturating_add(1), unquoted(line))?;
    }
    reader.finish()
}

const WRAPPED: &str = "a mail program broke its lines: attach the log as a file, or join each \
                       line with its rest";

impl Reader {
    fn line(&mut self, number: usize, line: &str) -> Result<(), Failure> {
        if let Some(found) = Header::parse(line) {
            return self.header(number, found);
        }
        if self.header_line.saturating_add(1) == number && columns(line).is_some() {
            return Err(Failure::new(
                format!(
                    "line {number} holds more columns of the table of line {}",
                    self.header_line
                ),
                WRAPPED,
            ));
        }
        if line.starts_with("turbostat version") {
            self.runs.push(Run::default());
        } else if let Some(length_s) = line.strip_suffix(" sec").and_then(self::number) {
            self.run().lengths_s.push(length_s);
        } else if let Some((path, value)) = line.split_once(": ").filter(|_| self.banner(line)) {
            let value = Some(value.trim().to_owned());
            match path {
                path if path.ends_with("cpuidle/current_driver") => self.driver = value,
                path if path.contains("cpuidle/current_governor") => self.governor = value,
                _ => {}
            }
        } else if self.header.is_some() {
            self.row(number, line);
        }
        Ok(())
    }

    fn run(&mut self) -> &mut Run {
        if self.runs.is_empty() {
            self.runs.push(Run::default());
        }
        self.runs.last_mut().expect("one was pushed")
    }

    /// Reads a line about the machine: a file of sysfs, or `cpu0: C2_ACPI: ACPI FFH MWAIT 0x30`.
    fn banner(&mut self, line: &str) -> bool {
        if line.starts_with("/sys/") {
            return true;
        }
        let mut parts = line.splitn(3, ": ");
        let (Some(cpu), Some(name), Some(desc)) = (parts.next(), parts.next(), parts.next()) else {
            return false;
        };
        let is_cpu = cpu.strip_prefix("cpu").is_some_and(|digits| digits.parse::<u32>().is_ok());
        let name = name.replace('_', "");
        if is_cpu
            && self.named.len() < NAMED_MAX
            && !self.named.iter().any(|(known, _)| *known == name)
        {
            self.named.push((name, desc.trim().to_owned()));
        }
        is_cpu
    }

    fn header(&mut self, number: usize, found: Header) -> Result<(), Failure> {
        if let Some(before) = &self.header {
            if before.states != found.states {
                let (found, expected) = (found.states.join(", "), before.states.join(", "));
                return Err(Failure::new(
                    format!(
                        "line {number}: other idle states than before: {found}, expected {expected}"
                    ),
                    "save each machine's log as a file of its own",
                ));
            }
        }
        (self.header, self.header_line) = (Some(found), number);
        Ok(())
    }

    fn row(&mut self, number: usize, line: &str) {
        let Some(header) = &self.header else { return };
        let (cpu, cells) = match header.row(line) {
            Row::Whole(cpu, cells) => (cpu, cells),
            Row::Short(count) => {
                self.short.get_or_insert((number, count));
                return self.unread.line(number.saturating_sub(1), line);
            }
            Row::Other if line.is_empty() => return,
            Row::Other => return self.unread.line(number.saturating_sub(1), line),
        };
        let sums = match cpu {
            Some(cpu) => self.cpus.entry(cpu).or_insert_with(|| Sums::new(header.states.len())),
            None => self.whole.get_or_insert_with(|| Sums::new(header.states.len())),
        };
        sums.add(header, &cells);
        let time_at = header.roles.iter().position(|role| *role == Role::Time);
        let time_s = time_at.and_then(|at| cells.get(at)).and_then(|cell| self::number(cell));
        self.run().times_s.entry(cpu).or_default().push(time_s);
    }

    fn finish(self) -> Result<Log, Failure> {
        let header = self.header.as_ref().expect("a log has a header");
        let width = header.names.len();
        if self.cpus.is_empty() {
            return Err(match self.short {
                Some((line, count)) => Failure::new(
                    format!("line {line} has {count} of the table's {width} columns"),
                    WRAPPED,
                ),
                None => Failure::new(
                    "a log of turbostat without a line of a CPU: expected a column `CPU`",
                    "run `turbostat` without --Summary",
                ),
            });
        }
        if header.states.is_empty() {
            return Err(Failure::new(
                "a log of turbostat without idle states: expected columns such as `C1` and `C1%`",
                "run `turbostat --show CPU,sysfs`, or without --show",
            ));
        }
        let lengths: Option<Vec<(f64, bool)>> = self.runs.iter().map(Run::length_s).collect();
        let elapsed_s = lengths.as_ref().map(|runs| runs.iter().map(|(length, _)| length).sum());
        let elapsed_ns = elapsed_s.map(|s: f64| s * 1e9).filter(|ns| (0.0..9.2e18).contains(ns));
        let is_first_assumed = lengths.iter().flatten().any(|(_, is_assumed)| *is_assumed);
        let (states, indices, descs) = self.states(&header.states);
        let cpu = |(cpu, sums): (&u32, &Sums)| cpu_log(*cpu, sums, states, &indices, elapsed_ns);
        Ok(Log {
            intervals: self.runs.iter().map(Run::intervals).sum(),
            elapsed_ns: elapsed_ns.map(|ns| ns.round() as i64),
            is_first_assumed,
            cpus: self.cpus.iter().map(cpu).collect(),
            got: self.got(),
            descs,
            driver: self.driver,
            governor: self.governor,
            notes: self.unread.note("a row of the table").into_iter().collect(),
        })
    }

    /// Returns the hardware's counters of the whole machine. Where the line of sums is missing, a
    /// package's are those of its first CPU.
    fn got(&self) -> Vec<Got> {
        let is_wider = |got: &Got| !got.counter.starts_with(OF_CORE);
        let of_first =
            || self.cpus.values().map(|sums| sums.got().into_iter().filter(is_wider).collect());
        match &self.whole {
            Some(sums) => sums.got(),
            None => of_first().find(|got: &Vec<Got>| !got.is_empty()).unwrap_or_default(),
        }
    }

    /// Returns the states with the kernel's indices and `desc`. Without a banner, the columns'
    /// order stands for them.
    fn states<'a>(&self, states: &'a [String]) -> (&'a [String], Vec<usize>, Vec<Option<String>>) {
        let named: Vec<&(String, String)> = self
            .named
            .iter()
            .filter(|(name, _)| is_state_name(name) || states.contains(name))
            .collect();
        let at = |state: &String| named.iter().position(|(name, _)| name == state);
        let indices = states.iter().map(at).collect::<Option<Vec<usize>>>();
        let desc = |state: &String| Some(named[at(state)?].1.clone());
        let descs = states.iter().map(desc).collect();
        (states, indices.unwrap_or_else(|| (0..states.len()).collect()), descs)
    }
}

fn cpu_log(
    cpu: u32,
    sums: &Sums,
    states: &[String],
    indices: &[usize],
    elapsed_ns: Option<f64>,
) -> CpuLog {
    let shares: Vec<Option<f64>> =
        sums.percents.iter().map(|mean| mean.value().map(|percent| percent / 100.0)).collect();
    let state = |(place, name): (usize, &String)| {
        let time_us = shares[place].zip(elapsed_ns).map(|(share, ns)| share * ns / 1e3);
        StateDelta {
            index: u32::try_from(indices[place]).unwrap_or(u32::MAX),
            name: name.clone(),
            usage: sums.usage[place],
            time_us: time_us.filter(|us| (0.0..9.2e18).contains(us)).map(|us| us.round() as u64),
            above: sums.above[place],
            below: sums.below[place],
            ..StateDelta::default()
        }
    };
    let states = states.iter().enumerate().map(state).collect();
    let is_of_core = |got: &Got| got.counter.starts_with(OF_CORE);
    CpuLog { cpu, states, shares, got: sums.got().into_iter().filter(is_of_core).collect() }
}
