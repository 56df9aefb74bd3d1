// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Builds a snapshot from pairs of path and value; all readers use it.

use crate::counters::energy_model;
use crate::counters::error::Failure;
use crate::counters::path::{Fact, Key};
use crate::counters::{Cpu, Machine, Problem, Snapshot, State};
use crate::units::CpuId;
use std::collections::{BTreeMap, BTreeSet};

/// A sysfs value is one page at most.
pub(crate) const VALUE_BYTES_MAX: usize = 4096;
/// Longest part of a bad value that an error shows.
const SHOWN_CHARS_MAX: usize = 40;

#[derive(Debug, Default)]
pub(crate) struct Builder {
    machine: Machine,
    governor_ro: Option<String>,
    cpus: BTreeMap<CpuId, Cpu>,
    states: BTreeMap<(CpuId, u32), State>,
    policies: BTreeMap<u32, Policy>,
    energy_model: energy_model::Parts,
    problems: Vec<Problem>,
    notes: Vec<String>,
    conflict: Option<Failure>,
    is_cpu_assumed: bool,
}

#[derive(Debug, Default)]
struct Policy {
    cpus: Option<String>,
    freqs: Option<(String, String)>,
}

impl Builder {
    /// Takes a value. `path` is for errors.
    pub(crate) fn put(&mut self, key: Key<'_>, path: &str, value: &[u8]) {
        let value = clean(value);
        match key {
            Key::State { cpu, state, attr } => {
                self.is_cpu_assumed |= cpu.is_none();
                self.put_state(cpu.unwrap_or_default(), state, attr, &value);
            }
            Key::Cpu { cpu, attr } => self.put_cpu(cpu, attr, path, value),
            Key::Cpuidle { attr: "current_driver" } => {
                set(&mut self.machine.driver, value, path, &mut self.conflict);
            }
            Key::Cpuidle { attr: "current_governor" } => {
                set(&mut self.machine.governor, value, path, &mut self.conflict);
            }
            Key::Cpuidle { .. } => {
                set(&mut self.governor_ro, value, path, &mut self.conflict);
            }
            Key::Policy { policy, attr } => {
                let policy = self.policies.entry(policy).or_default();
                match attr {
                    "related_cpus" => set(&mut policy.cpus, value, path, &mut self.conflict),
                    _ => policy.freqs = Some((tail_of(path).to_owned(), value)),
                }
            }
            Key::PerfDomain { domain, attr } => {
                let put = self.energy_model.put_domain(domain, attr, &value);
                put.unwrap_or_else(|reason| self.problem(path, reason));
            }
            Key::PerfState { domain, state, attr } => {
                let put = self.energy_model.put_state(domain, state, attr, &value);
                put.unwrap_or_else(|reason| self.problem(path, reason));
            }
            Key::Fact(fact) => self.put_fact(fact, path, value),
            Key::OutOfRange => self.problem(path, "is beyond what any kernel numbers".to_owned()),
        }
    }

    /// Adds a CPU whose folder may be empty.
    pub(crate) fn see_cpu(&mut self, cpu: CpuId) {
        self.cpus.entry(cpu).or_insert_with(|| Cpu { cpu, ..Cpu::default() });
    }

    pub(crate) fn problem(&mut self, path: &str, reason: String) {
        self.problems.push(Problem { path: tail_of(path).to_owned(), reason });
    }

    pub(crate) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    pub(crate) fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }

    pub(crate) fn has_states(&self) -> bool {
        !self.states.is_empty()
    }

    pub(crate) fn has_energy_model(&self) -> bool {
        !self.energy_model.is_empty()
    }

    fn put_state(&mut self, cpu: CpuId, index: u32, attr: &str, value: &str) {
        self.see_cpu(cpu);
        let path = format!("{cpu}/cpuidle/state{index}/{attr}");
        let state =
            self.states.entry((cpu, index)).or_insert_with(|| State { index, ..State::default() });
        let (problems, conflict) = (&mut self.problems, &mut self.conflict);
        let mut bad = |reason| problems.push(Problem { path: path.clone(), reason });
        let counter = match attr {
            "name" | "desc" | "default_status" if value.is_empty() => return bad(empty()),
            "name" => return set(&mut state.name, value.to_owned(), &path, conflict),
            "desc" => return set(&mut state.desc, value.to_owned(), &path, conflict),
            "default_status" => {
                if !["enabled", "disabled"].contains(&value) {
                    return bad(format!("holds `{}`, not enabled or disabled", shown(value)));
                }
                return set(&mut state.default_status, value.to_owned(), &path, conflict);
            }
            "latency" | "residency" => {
                let field = match attr {
                    "latency" => &mut state.latency_us,
                    _ => &mut state.residency_us,
                };
                return match parse_number(value, u32::MAX) {
                    Ok(number) => set(field, number, &path, conflict),
                    Err(reason) => bad(reason),
                };
            }
            "usage" => &mut state.usage,
            "time" => &mut state.time_us,
            "above" => &mut state.above,
            "below" => &mut state.below,
            "rejected" => &mut state.rejected,
            "disable" => &mut state.disable,
            "s2idle/usage" => &mut state.s2idle_usage,
            "s2idle/time" => &mut state.s2idle_time_us,
            "power" => return,
            _ => return bad("is not a file that this version of Torpor knows".to_owned()),
        };
        match parse_number(value, u64::MAX) {
            Ok(number) => set(counter, number, &path, conflict),
            Err(reason) => bad(reason),
        }
    }

    fn put_cpu(&mut self, id: CpuId, attr: &str, path: &str, value: String) {
        self.see_cpu(id);
        let cpu = self.cpus.get_mut(&id).expect("seen above");
        match attr {
            "driver" => set(&mut cpu.driver, value, path, &mut self.conflict),
            "online" => match value.as_str() {
                "0" | "1" => set(&mut cpu.is_online, value == "1", path, &mut self.conflict),
                _ => self.problem(path, format!("holds `{}`, not 0 or 1", shown(&value))),
            },
            "cache/index2/size" => set(&mut cpu.cache_size, value, path, &mut self.conflict),
            "cpufreq/scaling_driver" => {
                set(&mut cpu.scaling_driver, value, path, &mut self.conflict);
            }
            "acpi_cppc/highest_perf" | "cpu_capacity" | "cpufreq/cpuinfo_max_freq" => {
                let field = match attr {
                    "acpi_cppc/highest_perf" => &mut cpu.highest_perf,
                    "cpu_capacity" => &mut cpu.capacity,
                    _ => &mut cpu.freq_max_khz,
                };
                match parse_number(&value, u32::MAX) {
                    Ok(number) => set(field, number, path, &mut self.conflict),
                    Err(reason) => self.problem(path, reason),
                }
            }
            _ => match parse_freqs(&value) {
                Ok(freqs_khz) => cpu.freqs_khz = freqs_khz,
                Err(reason) => self.problem(path, reason),
            },
        }
    }

    fn put_fact(&mut self, fact: Fact, path: &str, value: String) {
        let machine = &mut self.machine;
        match fact {
            Fact::KernelRelease => {
                set(&mut machine.kernel_release, value, path, &mut self.conflict);
            }
            Fact::BootId => set(&mut machine.boot_id, value, path, &mut self.conflict),
            Fact::Uptime => match parse_uptime(&value) {
                Some(uptime_ns) => machine.uptime_ns = Some(uptime_ns),
                None => {
                    self.problem(path, format!("holds `{}`, not seconds", shown(&value)));
                }
            },
        }
    }

    /// Returns the snapshot; it needs idle states at least.
    pub(crate) fn finish(self) -> Result<Snapshot, Failure> {
        if self.states.is_empty() && self.conflict.is_none() {
            return Err(no_states(self.machine.driver.as_deref()));
        }
        self.finish_any()
    }

    /// Returns the snapshot, with or without idle states.
    pub(crate) fn finish_any(mut self) -> Result<Snapshot, Failure> {
        if let Some(conflict) = self.conflict {
            return Err(conflict);
        }
        let mut report = |path, reason: &str| {
            self.problems.push(Problem { path, reason: reason.to_owned() });
        };
        let energy_model = self.energy_model.finish(&mut report);
        for ((cpu, _), state) in self.states {
            self.cpus.get_mut(&cpu).expect("a state's CPU is seen").states.push(state);
        }
        for policy in self.policies.into_values() {
            let Some((path, text)) = policy.freqs else { continue };
            let freqs_khz = match parse_freqs(&text) {
                Ok(freqs_khz) => freqs_khz,
                Err(reason) => {
                    self.problems.push(Problem { path, reason });
                    continue;
                }
            };
            // The kernel separates `related_cpus` by blanks.
            for word in policy.cpus.as_deref().unwrap_or_default().split_whitespace() {
                let cpu = word.parse().ok().and_then(|cpu| self.cpus.get_mut(&CpuId(cpu)));
                if let Some(cpu) = cpu.filter(|cpu| cpu.freqs_khz.is_empty()) {
                    cpu.freqs_khz.clone_from(&freqs_khz);
                }
            }
        }
        if self.is_cpu_assumed {
            self.notes.push("its paths name no CPU: taken as CPU 0's".to_owned());
        }
        self.machine.governor = self.machine.governor.or(self.governor_ro);
        let drivers: BTreeSet<&str> =
            self.cpus.values().filter_map(|cpu| cpu.driver.as_deref()).collect();
        if self.machine.driver.is_none() && !drivers.is_empty() {
            self.machine.driver = Some(drivers.into_iter().collect::<Vec<_>>().join(", "));
        }
        self.problems.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Snapshot {
            machine: self.machine,
            cpus: self.cpus.into_values().collect(),
            energy_model,
            problems: self.problems,
            notes: self.notes,
        })
    }
}

/// Sets a value once: two dumps in one file must not be mixed.
fn set<T: PartialEq + std::fmt::Display>(
    field: &mut Option<T>,
    value: T,
    path: &str,
    conflict: &mut Option<Failure>,
) {
    match field {
        None => *field = Some(value),
        Some(first) if *first == value => {}
        Some(first) => {
            conflict.get_or_insert_with(|| {
                Failure::new(
                    format!("`{}` is given as {first} and as {value}", tail_of(path)),
                    "there seem to be two dumps in it: save each as a file of its own",
                )
            });
        }
    }
}

fn no_states(driver: Option<&str>) -> Failure {
    let driver = match driver {
        Some(driver) => format!("cpuidle/current_driver says `{driver}`"),
        None => "there is no cpuidle/current_driver either".to_owned(),
    };
    Failure::new(
        format!("no CPU in it has idle states (cpu*/cpuidle/state*); {driver}"),
        "most virtual machines have no cpuidle driver: use the host's /sys/devices/system/cpu or \
         a copy of it; where a command takes `-p`, `torpor platform list` lists others",
    )
}

/// The part of a path below `/sys/devices/system/cpu`, for errors.
fn tail_of(path: &str) -> &str {
    let below = path.rsplit_once("system/cpu/").map_or(path, |(_, tail)| tail);
    below.trim_start_matches("./")
}

/// Trims blanks, and the NUL bytes with which `tar` fills the page that sysfs claims as size.
fn clean(value: &[u8]) -> String {
    let value = &value[..value.len().min(VALUE_BYTES_MAX)];
    let text = String::from_utf8_lossy(value);
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    clean.trim().to_owned()
}

fn empty() -> String {
    "is empty".to_owned()
}

fn parse_number<T: std::str::FromStr + std::fmt::Display>(
    value: &str,
    max: T,
) -> Result<T, String> {
    if value.is_empty() {
        return Err(empty());
    }
    // `parse` alone would take `+1`.
    let is_plain = value.bytes().all(|b| b.is_ascii_digit());
    value
        .parse()
        .ok()
        .filter(|_| is_plain)
        .ok_or_else(|| format!("holds `{}`, not a number from 0 to {max}", shown(value)))
}

fn parse_freqs(value: &str) -> Result<Vec<u32>, String> {
    let mut freqs_khz = Vec::new();
    for word in value.split_whitespace() {
        match word.parse() {
            Ok(freq_khz) if freq_khz > 0 => freqs_khz.push(freq_khz),
            _ => return Err(format!("holds `{}`, not a frequency in kHz", shown(word))),
        }
    }
    freqs_khz.sort_unstable();
    freqs_khz.dedup();
    Ok(freqs_khz)
}

/// `123.45 67.89`: seconds since boot, with two decimals.
fn parse_uptime(value: &str) -> Option<i64> {
    let (seconds, hundredths) = value.split_whitespace().next()?.split_once('.')?;
    let hundredths = Some(hundredths).filter(|digits| digits.len() == 2)?;
    let seconds: i64 = parse_number(seconds, i64::MAX).ok()?;
    let hundredths: i64 = parse_number(hundredths, 99).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(hundredths.checked_mul(10_000_000)?)
}

pub(crate) fn shown(value: &str) -> String {
    let mut shown: String = value.chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < value.len() {
        shown.push('…');
    }
    shown
}
