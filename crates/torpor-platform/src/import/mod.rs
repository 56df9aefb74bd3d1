// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What sysfs shows of a machine, in whatever form it was saved, turned into a platform file.
//!
//! [`torpor_counters`] reads it, `cpu` takes one CPU's share, this file puts CPUs together into
//! clusters, and `emit` writes the TOML. What comes out has been read back by
//! [`crate::from_toml`].

mod cpu;
mod emit;

use crate::PlatformError;
use cpu::SysfsCpu;
use std::collections::BTreeMap;
use std::path::Path;
use torpor_counters::{CountersError, Snapshot};
use torpor_units::{CpuId, Hz};

/// What sysfs does not say.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// The platform's name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// The machine in words. Without it, the CPU's model name, if the snapshot has it.
    pub title: Option<String>,
    /// `CONFIG_HZ` of its kernel. Without it, what the snapshot says; otherwise 250, and a note.
    pub hz: Option<Hz>,
}

/// A platform file, and what its reader should know about how it came to be.
#[derive(Clone, Debug)]
pub struct Imported {
    pub toml: String,
    /// One sentence each; also in the file, as comments.
    pub notes: Vec<String>,
}

/// CPUs with the same idle states, capacity and frequencies.
struct Group {
    cpus: Vec<CpuId>,
    like: SysfsCpu,
}

/// Why what was read does not make a platform.
struct Failure {
    reason: String,
    hint: String,
}

/// Imports `/sys/devices/system/cpu` of this machine, or any dump of one that
/// [`torpor_counters::read`] reads.
///
/// Imperfect trees are met with notes where a sensible reading exists (offline CPUs, no
/// frequencies), and with an error where the idle states themselves are not there or not sound.
pub fn import_sysfs(root: &Path, options: &ImportOptions) -> Result<Imported, PlatformError> {
    let snapshot =
        torpor_counters::read(root).map_err(|CountersError { name, reason, hint }| {
            PlatformError::Import { root: name.into(), reason, hint }
        })?;
    import_snapshot(root, &snapshot, options)
}

/// Imports what a snapshot holds; `root` is what errors call it.
pub fn import_snapshot(
    root: &Path,
    snapshot: &Snapshot,
    options: &ImportOptions,
) -> Result<Imported, PlatformError> {
    let mut notes = snapshot.notes.clone();
    let toml = import(snapshot, options, &mut notes).map_err(|failure| PlatformError::Import {
        root: root.to_owned(),
        reason: failure.reason,
        hint: failure.hint,
    })?;
    Ok(Imported { toml, notes })
}

fn import(
    snapshot: &Snapshot,
    options: &ImportOptions,
    notes: &mut Vec<String>,
) -> Result<String, Failure> {
    // Counters are none of a platform's; what each CPU needs, it asks for itself.
    for problem in snapshot.problems.iter().filter(|problem| !problem.path.contains("/cpuidle/")) {
        notes.push(format!("`{}` {}: passed over", problem.path, problem.reason));
    }
    let mut cpus = BTreeMap::new();
    let mut without_states = Vec::new();
    for cpu in &snapshot.cpus {
        match cpu::read(snapshot, cpu, notes)? {
            Some(share) => drop(cpus.insert(cpu.cpu, share)),
            None => without_states.push(cpu.cpu),
        }
    }
    fill_gaps(&mut cpus, &without_states, notes);
    cpu::scale_capacities(&mut cpus, notes)?;
    if cpus.values().all(|cpu| cpu.freqs_khz.is_empty()) {
        notes.push(
            "no scaling_available_frequencies in it (some drivers, such as intel_pstate, have \
             none): the platform has no OPPs"
                .to_owned(),
        );
    }
    if cpus.values().any(|cpu| cpu.states[0].is_polling()) {
        notes.push("state 0 is taken to poll, because its name is POLL".to_owned());
    }
    // A snapshot may hold the kernel's configuration; a rate that no kernel has is no rate.
    let hz = options.hz.or(snapshot.machine.hz.and_then(Hz::from_u32));
    if hz.is_none() {
        notes.push("sysfs does not tell the tick rate: 250 is assumed".to_owned());
    }
    let title = options.title.clone().or(snapshot.machine.title.clone());
    let options = ImportOptions { hz, title, ..options.clone() };
    let groups = group(cpus);
    let toml = emit::platform(&options, snapshot.machine.driver.as_deref(), &groups, notes);
    match crate::from_toml("the imported platform", &toml) {
        Ok(_) => Ok(toml),
        Err(error) => Err(Failure {
            reason: format!("what is in it does not make a platform\n{error}"),
            hint: "if the machine really says so, write the file by hand from `cpuidle/state*`"
                .to_owned(),
        }),
    }
}

/// The model wants every CPU from 0 on. One that shows no states is counted as its neighbour.
fn fill_gaps(cpus: &mut BTreeMap<CpuId, SysfsCpu>, silent: &[CpuId], notes: &mut Vec<String>) {
    let last = cpus.keys().chain(silent).max().map_or(0, |cpu| cpu.0);
    let mut neighbour = cpus.values().next().expect("at least one CPU has states").clone();
    let mut filled = Vec::new();
    for id in (0..=last).map(CpuId) {
        match cpus.get(&id) {
            Some(cpu) => neighbour = cpu.clone(),
            None => {
                filled.push(id);
                cpus.insert(id, neighbour.clone());
            }
        }
    }
    if !filled.is_empty() {
        notes.push(format!(
            "CPU {} shows no idle states (offline or absent): counted as its neighbour",
            crate::format_cpu_list(&filled)
        ));
    }
}

/// In the order of each group's first CPU.
fn group(cpus: BTreeMap<CpuId, SysfsCpu>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (id, cpu) in cpus {
        match groups.iter_mut().find(|group| group.like == cpu) {
            Some(group) => group.cpus.push(id),
            None => groups.push(Group { cpus: vec![id], like: cpu }),
        }
    }
    groups
}
