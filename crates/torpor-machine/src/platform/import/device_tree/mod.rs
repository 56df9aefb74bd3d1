// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Device trees: `source` compiles a `.dts`, `blob` reads a `.dtb` into a `tree`, `opp` and `idle`
//! take a CPU's share, and this file puts the CPUs together as the kernel would.

mod blob;
mod idle;
mod opp;
mod source;
mod tree;

use super::share::{Machine, Share, Sources, group, scaled_capacity};
use super::{Failure, energy, note_once};
use crate::counters::PerfDomain;
use crate::platform::Scope;
use crate::units::CpuId;
use std::collections::BTreeMap;
use std::path::Path;
use tree::Node;

/// Whether the file is one of these, by its name or by its first bytes.
pub(super) fn is_device_tree(path: &Path, head: &[u8]) -> bool {
    source::is_source(path) || head.starts_with(&blob::MAGIC)
}

/// The file as a blob, compiled if it is none.
pub(super) fn load(path: &Path) -> Result<Vec<u8>, Failure> {
    if source::is_source(path) { source::compile(path) } else { source::load(path) }
}

/// `name` is what the machine's sources call the blob's file.
pub(super) fn read(
    name: &str,
    bytes: &[u8],
    model: &[PerfDomain],
    notes: &mut Vec<String>,
) -> Result<Machine, Failure> {
    let tree = blob::read(bytes)?;
    let root = tree.root().ok_or_else(|| no_cpus("it is empty"))?;
    let cpus_node = root.child("cpus").ok_or_else(|| no_cpus("it has no node `/cpus`"))?;
    let nodes: Vec<Node<'_>> = cpus_node.children().filter(|node| is_cpu(*node)).collect();
    let present: Vec<Node<'_>> = nodes.iter().copied().filter(|node| node.is_available()).collect();
    if present.is_empty() {
        return Err(no_cpus("`/cpus` has no CPU that is switched on"));
    }
    if present.len() < nodes.len() {
        let off = nodes.len().saturating_sub(present.len());
        notes.push(format!("{off} of the CPUs are disabled in the tree: left out"));
    }

    let mut cpus = BTreeMap::new();
    for (number, cpu) in (0..).zip(&present) {
        let table = opp::read(policy_cpu(&present, *cpu)?, notes)?;
        let share = Share {
            domain: domain_of(cpus_node, *cpu)?,
            states: [vec![idle::wfi()], idle::own(*cpu)?].concat(),
            capacity: None,
            opps: table.opps,
            clock_latency_ns: table.clock_latency_ns,
        };
        cpus.insert(CpuId(number), share);
    }
    let texts = [root.texts("model"), root.texts("compatible")].concat();
    let title = texts.first().map(|text| (*text).to_owned());
    let mut machine = Machine { origin: "a device tree", title, cpus, sources: sources(name) };
    energy::merge(&mut machine, model, notes)?;
    set_capacities(&present, &mut machine.cpus, notes)?;
    add_domain_states(&present, &mut machine.cpus, notes)?;
    check_states(&present, &machine.cpus)?;
    tell(&machine.cpus, notes);
    Ok(machine)
}

fn sources(name: &str) -> Sources {
    Sources {
        machine: format!("device tree {name}: cpus, cpu-map"),
        capacity: format!(
            "device tree {name}: capacity-dmips-mhz times the highest frequency, of 1024 for the \
             biggest, as drivers/base/arch_topology.c has it"
        ),
        idle_states: format!(
            "device tree {name}: idle-states; WFI: drivers/cpuidle/cpuidle-psci.c, which gives \
             state 0 a latency and a residency of 1 us"
        ),
        opps: format!("device tree {name}: operating-points-v2"),
        power: format!(
            "device tree {name}: opp-microwatt, or else dynamic-power-coefficient * V^2 * f, as \
             dev_pm_opp_calc_power() of drivers/opp/of.c has it"
        ),
    }
}

/// Returns the CPU by which the kernel reads a frequency domain's table, `policy->cpu`: the first of
/// those with the same table that is `opp-shared`, or has the same clock. Its
/// `dynamic-power-coefficient` counts for all of them.
fn policy_cpu<'t>(cpus: &[Node<'t>], cpu: Node<'t>) -> Result<Node<'t>, Failure> {
    let Some(table) = cpu.target("operating-points-v2")? else { return Ok(cpu) };
    let clock = |cpu: Node<'t>| {
        let domains = ["clocks", "performance-domains", "qcom,freq-domain"];
        domains.map(|property| cpu.bytes(property))
    };
    let is_clocked = clock(cpu).iter().any(Option::is_some);
    for first in cpus.iter().copied() {
        let is_shared = table.has("opp-shared") || (is_clocked && clock(first) == clock(cpu));
        if is_shared && first.target("operating-points-v2")? == Some(table) {
            return Ok(first);
        }
    }
    Ok(cpu)
}

/// As `of_get_next_cpu_node()`.
fn is_cpu(node: Node<'_>) -> bool {
    node.name() == "cpu" || node.texts("device_type").first() == Some(&"cpu")
}

/// `topology_normalize_cpu_scale()`. With partial information all CPUs are alike to the kernel.
fn set_capacities(
    nodes: &[Node<'_>],
    cpus: &mut BTreeMap<CpuId, Share>,
    notes: &mut Vec<String>,
) -> Result<(), Failure> {
    const KEY: &str = "capacity-dmips-mhz";
    let mut dmips = Vec::new();
    for node in nodes {
        match node.u32(KEY)? {
            Some(0) => return Err(node.failure(KEY, "is 0", "1 to 4294967295")),
            found => dmips.extend(found),
        }
    }
    if dmips.len() < nodes.len() {
        if !dmips.is_empty() {
            notes.push(format!("not all CPUs have `{KEY}`: the kernel then treats all as equal"));
        }
        return Ok(());
    }
    let highest = |cpu: &Share| cpu.opps.last().map(|opp| opp.freq_khz);
    let freqs_khz: Option<Vec<u32>> = cpus.values().map(highest).collect();
    let freqs_khz = freqs_khz.unwrap_or_else(|| {
        notes.push(
            "not all CPUs have OPPs: capacities are `capacity-dmips-mhz` alone, as if all had the \
             same highest frequency"
                .to_owned(),
        );
        vec![1; dmips.len()]
    });
    let dmips = dmips.into_iter().zip(freqs_khz);
    let work: Vec<u64> =
        dmips.map(|(dmips, khz)| u64::from(dmips).saturating_mul(khz.into())).collect();
    let biggest = work.iter().copied().max().unwrap_or(1);
    for (cpu, work) in cpus.values_mut().zip(work) {
        cpu.capacity = Some(scaled_capacity(work, biggest));
    }
    Ok(())
}

/// Distinguishes CPUs with the same numbers: by their cluster in `cpu-map`, and their frequency
/// domain.
fn domain_of(cpus_node: Node<'_>, cpu: Node<'_>) -> Result<Option<String>, Failure> {
    let mut parts = Vec::new();
    for property in ["operating-points-v2", "performance-domains"] {
        parts.extend(cpu.target(property)?.map(Node::path));
    }
    if let Some(map) = cpus_node.child("cpu-map") {
        let mut open: Vec<Node<'_>> = map.children().collect();
        while let Some(node) = open.pop() {
            for place in node.children() {
                match place.target("cpu")? {
                    Some(found) if found == cpu => parts.push(node.path()),
                    _ => open.push(place),
                }
            }
        }
    }
    Ok((!parts.is_empty()).then(|| parts.join(" ")))
}

/// FIDELITY(domain-idle-state): the states of the domains around a CPU follow its own, and
/// are off: no governor selects them.
fn add_domain_states(
    nodes: &[Node<'_>],
    cpus: &mut BTreeMap<CpuId, Share>,
    notes: &mut Vec<String>,
) -> Result<(), Failure> {
    let mut chains = Vec::new();
    for node in nodes {
        chains.push(idle::domains(*node)?);
    }
    let clusters = group(cpus);
    let cluster_of = |cpu: CpuId| clusters.iter().position(|group| group.cpus.contains(&cpu));
    let ids: Vec<CpuId> = cpus.keys().copied().collect();
    for (id, chain) in ids.iter().zip(&chains) {
        for domain in chain {
            let inside = ids.iter().zip(&chains).filter(|(_, chain)| chain.contains(domain));
            let mut inside = inside.map(|(id, _)| cluster_of(*id));
            let first = inside.next();
            let scope = match inside.all(|cluster| Some(cluster) == first) {
                true => Scope::Cluster,
                false => Scope::Package,
            };
            let Some(share) = cpus.get_mut(id) else { continue };
            for mut state in idle::of_domain(*domain, scope)? {
                // The domain sleeps only while the CPU does: its latency is no less than the CPU's.
                if let Some(above) = share.states.last() {
                    state.residency_us = state.residency_us.max(above.residency_us);
                    if state.latency.governor_us() < above.latency.governor_us() {
                        state.latency = above.latency;
                    }
                }
                state.is_disabled = true;
                let note = format!(
                    "`{}` belongs to a power domain: the kernel enters it by itself, when the \
                     domain's last CPU is in its deepest state and none is due back within {} us; \
                     a wake-up from it takes up to {} us. No governor selects it, so it is \
                     disabled here, and no result includes its savings and delays; \
                     `--enable-state {}` lets governors select it, as a state of each CPU",
                    state.name,
                    state.residency_us,
                    state.latency.governor_us(),
                    state.name
                );
                note_once(notes, note);
                share.states.push(state);
            }
        }
    }
    Ok(())
}

/// States must not get shallower: a governor takes the order for the depth.
fn check_states(nodes: &[Node<'_>], cpus: &BTreeMap<CpuId, Share>) -> Result<(), Failure> {
    for (node, share) in nodes.iter().zip(cpus.values()) {
        for pair in share.states.windows(2) {
            let (above, state) = (&pair[0], &pair[1]);
            let values = [
                ("min-residency-us", above.residency_us.into(), state.residency_us.into()),
                ("latency", above.latency.governor_us(), state.latency.governor_us()),
            ];
            for (what, shallower, deeper) in values {
                if deeper < shallower {
                    let found = format!(
                        "has `{}` with a {what} of {deeper} us after `{}` with {shallower} us",
                        state.name, above.name
                    );
                    let allowed = "states ordered by depth, none of their times falling";
                    return Err(node.failure("cpu-idle-states", &found, allowed));
                }
            }
        }
    }
    Ok(())
}

/// Notes what a device tree does not contain.
fn tell(cpus: &BTreeMap<CpuId, Share>, notes: &mut Vec<String>) {
    if cpus.values().all(|cpu| cpu.states.len() == 1) {
        notes.push(
            "the tree has no idle states, only WFI; a driver may have states of its own".into(),
        );
    }
    if cpus.values().all(|cpu| cpu.opps.is_empty()) {
        notes.push("the tree has no OPPs (firmware may have them): the platform has none".into());
    }
    if group(cpus).len() > 1 {
        notes.push(
            "CPUs are numbered in the order of their nodes; Linux gives number 0 to the one it \
             boots on"
                .to_owned(),
        );
    }
}

fn no_cpus(reason: &str) -> Failure {
    Failure {
        reason: reason.to_owned(),
        hint: "give a whole machine's tree: a board's .dts, or the .dtsi of its chip".to_owned(),
    }
}
