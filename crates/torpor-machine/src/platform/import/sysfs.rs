// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! sysfs: each CPU's idle states, capacity and frequencies, from a snapshot.

use super::share::{Latency, Machine, Opp, Share, Sources, State, scaled_capacity};
use super::{Failure, energy, note_once};
use crate::counters::{Cpu, PerfDomain, Snapshot};
use crate::platform::Scope;
use crate::units::CpuId;
use std::collections::BTreeMap;

/// The machine of a snapshot, with every CPU from 0 on.
pub(super) fn read(
    snapshot: &Snapshot,
    model: &[PerfDomain],
    notes: &mut Vec<String>,
) -> Result<Machine, Failure> {
    // A platform needs no counters, and `read_cpu` reports missing files of states.
    for problem in snapshot.problems.iter().filter(|problem| !problem.path.contains("/cpuidle/")) {
        notes.push(format!("`{}` {}: ignored", problem.path, problem.reason));
    }
    let mut cpus = BTreeMap::new();
    let mut without_states = Vec::new();
    for cpu in &snapshot.cpus {
        match read_cpu(snapshot, cpu, notes)? {
            Some(share) => drop(cpus.insert(cpu.cpu, share)),
            None => without_states.push(cpu.cpu),
        }
    }
    let capacity_source = set_capacities(snapshot, &mut cpus, notes)?;
    fill_gaps(&mut cpus, &without_states, notes);
    tell_refused(snapshot, notes);
    if cpus.values().any(|cpu| cpu.states[0].is_polling) {
        notes.push("state 0 is taken to poll, because its name is POLL".to_owned());
    }
    let driver = snapshot.machine.driver.as_deref().unwrap_or("not known");
    let mut machine = Machine {
        origin: "sysfs",
        title: snapshot.machine.title.clone(),
        cpus,
        sources: sources(driver, capacity_source),
    };
    energy::merge(&mut machine, model, notes)?;
    if machine.cpus.values().all(|cpu| cpu.opps.is_empty()) {
        notes.push(
            "no scaling_available_frequencies in it (some drivers, such as intel_pstate, have \
             none): the platform has no OPPs"
                .to_owned(),
        );
    }
    Ok(machine)
}

fn sources(driver: &str, capacity: &str) -> Sources {
    Sources {
        machine: "sysfs of the machine: cpu*".to_owned(),
        capacity: format!("sysfs of the machine: {capacity}"),
        idle_states: format!("sysfs of the machine: cpu*/cpuidle, driver {driver}"),
        opps: "sysfs of the machine: cpufreq, scaling_available_frequencies".to_owned(),
        // sysfs has none; with an energy model, its own source is here.
        power: String::new(),
    }
}

/// `None` if the CPU has no idle states, as offline CPUs and CPUs without a driver have none.
///
/// A snapshot keeps what it can of a damaged tree; a platform wants all of it.
fn read_cpu(
    snapshot: &Snapshot,
    cpu: &Cpu,
    notes: &mut Vec<String>,
) -> Result<Option<Share>, Failure> {
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
    for attr in ["cpu_capacity", HIGHEST_PERF, "cpufreq/scaling_available_frequencies"] {
        refuse_problem(snapshot, &format!("{}/{attr}", cpu.cpu))?;
    }
    let opp = |&freq_khz: &u32| Opp { freq_khz, power_uw: None };
    Ok(Some(Share {
        domain: None,
        states,
        capacity: cpu.capacity,
        opps: cpu.freqs_khz.iter().map(opp).collect(),
        clock_latency_ns: None,
    }))
}

fn read_state(
    snapshot: &Snapshot,
    folder: &str,
    state: &crate::counters::State,
    notes: &mut Vec<String>,
) -> Result<State, Failure> {
    refuse_problem(snapshot, &format!("{folder}/name"))?;
    let name = state.name.clone().ok_or_else(|| Failure {
        reason: format!("`{folder}/name` is not there, or empty"),
        hint: "copy the whole tree: `cp -rL` follows its links".to_owned(),
    })?;
    let is_off_now = state.is_off();
    // Kernels before 5.6 do not show the default; the current setting is the best guess.
    let is_disabled = match state.default_status.as_deref() {
        Some(status) => status == "disabled",
        None => is_off_now,
    };
    if is_off_now != is_disabled {
        let (now, default) = if is_off_now { ("off", "on") } else { ("on", "off") };
        let note =
            format!("{name} is switched {now} at the moment; its default, {default}, is kept");
        note_once(notes, note);
    }
    Ok(State {
        desc: state.desc.clone().unwrap_or_default(),
        latency: Latency::Whole {
            us: needed(snapshot, &format!("{folder}/latency"), state.latency_us)?,
        },
        residency_us: needed(snapshot, &format!("{folder}/residency"), state.residency_us)?,
        is_disabled,
        // sysfs does not show `CPUIDLE_FLAG_POLLING`; `cpuidle_poll_state_init()` gives this name.
        is_polling: name == "POLL",
        scope: Scope::Cpu,
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

const HIGHEST_PERF: &str = "acpi_cppc/highest_perf";

/// Finds capacities as the kernel does, and returns their source: `cpu_capacity`, or else the
/// performance that firmware gives each CPU.
fn set_capacities(
    snapshot: &Snapshot,
    cpus: &mut BTreeMap<CpuId, Share>,
    notes: &mut Vec<String>,
) -> Result<&'static str, Failure> {
    if cpus.values().all(|cpu| cpu.capacity.is_none()) && has_kinds(snapshot, notes) {
        for (id, cpu) in cpus.iter_mut() {
            cpu.capacity = snapshot.cpu(*id).and_then(|cpu| cpu.highest_perf);
        }
        notes.push(format!(
            "no cpu_capacity in it: capacities are `{HIGHEST_PERF}`, of 1024 for the highest, as \
             intel_pstate sets them on hybrid machines without SMT since Linux 6.12, and \
             drivers/base/arch_topology.c on others"
        ));
        scale_capacities(cpus, HIGHEST_PERF, notes)?;
        return Ok("cpu*/acpi_cppc/highest_perf, of 1024 for the highest");
    }
    scale_capacities(cpus, "cpu_capacity", notes)?;
    Ok("cpu*/cpu_capacity")
}

/// Returns whether the CPUs are of several kinds whose performance firmware gives. Notes CPUs that
/// differ without such numbers.
fn has_kinds(snapshot: &Snapshot, notes: &mut Vec<String>) -> bool {
    let cpus = || snapshot.cpus.iter().filter(|cpu| !cpu.states.is_empty());
    let differs = |differ: &dyn Fn(&Cpu, &Cpu) -> bool| {
        cpus().zip(cpus().skip(1)).any(|(one, other)| differ(one, other))
    };
    let caches = differs(&|one, other| one.cache_size != other.cache_size);
    let speeds = differs(&|one, other| one.freq_max_khz != other.freq_max_khz);
    // amd-pstate ranks cores by it, and cores of one kind with the same caches have favored ones:
    // to the kernel they have the same capacity.
    let is_kind = (caches || cpus().any(|cpu| cpu.cache_size.is_none()))
        && !cpus().any(|cpu| cpu.scaling_driver.as_ref().is_some_and(|d| d.starts_with("amd")));
    let is_known = cpus().all(|cpu| cpu.highest_perf.is_some_and(|perf| perf > 0));
    if is_known && is_kind && differs(&|one, other| one.highest_perf != other.highest_perf) {
        return true;
    }
    if caches || speeds {
        let what = [(speeds, "cpuinfo_max_freq"), (caches, "the size of L2")];
        let what: Vec<&str> =
            what.into_iter().filter_map(|(is, what)| is.then_some(what)).collect();
        notes.push(format!(
            "the CPUs differ in {}, and nothing in it gives their capacities: all are taken as \
             equal",
            what.join(" and ")
        ));
    }
    false
}

/// Notes states that the driver has refused every time.
fn tell_refused(snapshot: &Snapshot, notes: &mut Vec<String>) {
    let mut refused: BTreeMap<String, u64> = BTreeMap::new();
    for state in snapshot.cpus.iter().flat_map(|cpu| &cpu.states) {
        let sum = refused.entry(state.label()).or_default();
        *sum = sum.saturating_add(state.only_refused().unwrap_or(0));
    }
    for (name, times) in refused.into_iter().filter(|(_, times)| *times > 0) {
        notes.push(format!(
            "the machine refused `{name}` each of the {times} times it was selected; here it can \
             be entered, unless `--disable-state` names it"
        ));
    }
}

/// Brings the biggest CPU to 1024, which is what the rest of Torpor counts in.
fn scale_capacities(
    cpus: &mut BTreeMap<CpuId, Share>,
    file: &str,
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
                reason: format!("`{id}/{file}` holds 0"),
                hint: "a CPU without capacity does no work; remove the file if it is wrong".into(),
            });
        }
        cpu.capacity = Some(scaled_capacity(capacity.into(), biggest.into()));
    }
    if biggest != 1024 && file == "cpu_capacity" {
        notes.push(format!("the biggest cpu_capacity is {biggest}: all are scaled to 1024"));
    }
    Ok(())
}

/// The model needs every CPU from 0 on. One without states is treated like its neighbour.
fn fill_gaps(cpus: &mut BTreeMap<CpuId, Share>, silent: &[CpuId], notes: &mut Vec<String>) {
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
            crate::toml::format_cpu_list(&filled)
        ));
    }
}
