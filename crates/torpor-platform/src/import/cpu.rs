// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One CPU's share of a snapshot: idle states, capacity, frequencies.

use super::Failure;
use std::collections::BTreeMap;
use torpor_counters::{Cpu, Snapshot, State};
use torpor_units::CpuId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SysfsCpu {
    pub states: Vec<SysfsState>,
    /// `None` where the kernel has no `cpu_capacity`: all CPUs are alike to it.
    pub capacity: Option<u32>,
    /// Ascending.
    pub freqs_khz: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SysfsState {
    pub name: String,
    pub desc: String,
    pub latency_us: u32,
    pub residency_us: u32,
    pub is_disabled: bool,
}

impl SysfsState {
    /// sysfs does not show `CPUIDLE_FLAG_POLLING`; `cpuidle_poll_state_init()` gives this name.
    pub fn is_polling(&self) -> bool {
        self.name == "POLL"
    }
}

/// `None` if the CPU has no idle states, as offline CPUs and CPUs without a driver have none.
///
/// A snapshot keeps what it can of a damaged tree; a platform wants all of it.
pub(super) fn read(
    snapshot: &Snapshot,
    cpu: &Cpu,
    notes: &mut Vec<String>,
) -> Result<Option<SysfsCpu>, Failure> {
    let folder = format!("{}/cpuidle", cpu.cpu);
    let Some(deepest) = cpu.states.last() else {
        return Ok(None);
    };
    // A hole would shift the index of every deeper state.
    if let Some((missing, _)) = (0..).zip(&cpu.states).find(|(index, state)| *index != state.index)
    {
        return Err(Failure {
            reason: format!("`{folder}` has state{} but not state{missing}", deepest.index),
            hint: "copy the whole tree; the kernel numbers states without a hole".to_owned(),
        });
    }
    let mut states = Vec::new();
    for state in &cpu.states {
        states.push(read_state(snapshot, &format!("{folder}/state{}", state.index), state, notes)?);
    }
    for attr in ["cpu_capacity", "cpufreq/scaling_available_frequencies"] {
        refuse_problem(snapshot, &format!("{}/{attr}", cpu.cpu))?;
    }
    Ok(Some(SysfsCpu { states, capacity: cpu.capacity, freqs_khz: cpu.freqs_khz.clone() }))
}

fn read_state(
    snapshot: &Snapshot,
    folder: &str,
    state: &State,
    notes: &mut Vec<String>,
) -> Result<SysfsState, Failure> {
    let name = state.name.clone().ok_or_else(|| Failure {
        reason: format!("`{folder}/name` is not there, or empty"),
        hint: "copy the whole tree: `cp -rL` follows its links".to_owned(),
    })?;
    let is_off_now = state.is_off();
    // Kernels before 5.6 do not tell their default; what is set now is the best there is.
    let is_disabled = match state.default_status.as_deref() {
        Some(status) => status == "disabled",
        None => is_off_now,
    };
    if is_off_now != is_disabled {
        let (now, default) = if is_off_now { ("off", "on") } else { ("on", "off") };
        let note =
            format!("{name} is switched {now} at the moment; its default, {default}, is kept");
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    Ok(SysfsState {
        desc: state.desc.clone().unwrap_or_default(),
        latency_us: needed(snapshot, &format!("{folder}/latency"), state.latency_us)?,
        residency_us: needed(snapshot, &format!("{folder}/residency"), state.residency_us)?,
        is_disabled,
        name,
    })
}

fn needed(snapshot: &Snapshot, path: &str, value: Option<u32>) -> Result<u32, Failure> {
    refuse_problem(snapshot, path)?;
    value.ok_or_else(|| Failure {
        reason: format!("`{path}` is not there"),
        hint: "copy the whole tree: `cp -rL` follows its links".to_owned(),
    })
}

fn refuse_problem(snapshot: &Snapshot, path: &str) -> Result<(), Failure> {
    match snapshot.problem_at(path) {
        None => Ok(()),
        Some(problem) => Err(Failure {
            reason: format!("`{path}` {}", problem.reason),
            hint: "a saved copy may be damaged; correct the file, or remove it if it is of no use"
                .to_owned(),
        }),
    }
}

/// Brings the biggest CPU to 1024, which is what the rest of Torpor counts in.
pub(super) fn scale_capacities(
    cpus: &mut BTreeMap<CpuId, SysfsCpu>,
    notes: &mut Vec<String>,
) -> Result<(), Failure> {
    let biggest = cpus.values().filter_map(|cpu| cpu.capacity).max();
    let Some(biggest) = biggest else {
        return Ok(());
    };
    for (id, cpu) in cpus.iter_mut() {
        let capacity = cpu.capacity.unwrap_or(biggest);
        if capacity == 0 {
            return Err(Failure {
                reason: format!("`{id}/cpu_capacity` holds 0"),
                hint: "a CPU without capacity does no work; remove the file if it is wrong".into(),
            });
        }
        let scaled = u64::from(capacity) * 1024 / u64::from(biggest);
        cpu.capacity = Some((scaled as u32).max(1));
    }
    if biggest != 1024 {
        notes.push(format!("the biggest cpu_capacity is {biggest}: all are scaled to 1024"));
    }
    Ok(())
}
