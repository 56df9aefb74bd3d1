// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A machine's own sysfs, or a saved copy of it, turned into a platform file.
//!
//! `tree` reads single files, `cpu` one CPU's share, this file puts CPUs together into clusters,
//! and `emit` writes the TOML. What comes out has been read back by [`crate::from_toml`].

mod cpu;
mod emit;
mod tree;

use crate::PlatformError;
use cpu::SysfsCpu;
use std::collections::BTreeMap;
use std::path::Path;
use torpor_units::{CpuId, Hz};
use tree::{Failure, Tree};

/// What sysfs does not say.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// The platform's name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// The machine in words, for example the CPU's model name.
    pub title: Option<String>,
    /// `CONFIG_HZ` of its kernel. Without it, 250, and a note.
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

/// Imports `/sys/devices/system/cpu` of this machine, or a directory that holds a copy of it.
///
/// Imperfect trees are met with notes where a sensible reading exists (offline CPUs, no
/// frequencies), and with an error where the idle states themselves are not there or not sound.
pub fn import_sysfs(root: &Path, options: &ImportOptions) -> Result<Imported, PlatformError> {
    let mut notes = Vec::new();
    let toml = import(root, options, &mut notes).map_err(|failure| PlatformError::Import {
        root: root.to_owned(),
        reason: failure.reason,
        hint: failure.hint,
    })?;
    Ok(Imported { toml, notes })
}

fn import(
    root: &Path,
    options: &ImportOptions,
    notes: &mut Vec<String>,
) -> Result<String, Failure> {
    let tree = Tree::open(root)?;
    let driver = tree.text("cpuidle/current_driver")?;
    let mut cpus = BTreeMap::new();
    let mut without_states = Vec::new();
    for id in tree.cpus()? {
        match cpu::read(&tree, id, notes)? {
            Some(cpu) => drop(cpus.insert(id, cpu)),
            None => without_states.push(id),
        }
    }
    if cpus.is_empty() {
        return Err(no_states_at_all(driver.as_deref()));
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
    if options.hz.is_none() {
        notes.push("sysfs does not tell the tick rate: 250 is assumed".to_owned());
    }
    let groups = group(cpus);
    let toml = emit::platform(options, driver.as_deref(), &groups, notes);
    match crate::from_toml("the imported platform", &toml) {
        Ok(_) => Ok(toml),
        Err(error) => Err(Failure {
            reason: format!("what is in it does not make a platform\n{error}"),
            hint: "if the machine really says so, write the file by hand from `cpuidle/state*`"
                .to_owned(),
        }),
    }
}

fn no_states_at_all(driver: Option<&str>) -> Failure {
    let driver = match driver {
        Some(driver) => format!("cpuidle/current_driver says `{driver}`"),
        None => "there is no cpuidle/current_driver either".to_owned(),
    };
    Failure {
        reason: format!("no CPU in it has idle states (cpu*/cpuidle/state*); {driver}"),
        hint: "most virtual machines have no cpuidle driver; import on the machine itself, or \
               copy its /sys/devices/system/cpu here and import the copy"
            .to_owned(),
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
