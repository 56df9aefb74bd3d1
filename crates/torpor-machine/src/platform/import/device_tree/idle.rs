// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Idle states: a CPU's own, as `dt_init_idle_driver()` finds them, and those of the power domains
//! around it.

use super::super::Failure;
use super::super::share::{Latency, State};
use super::tree::Node;
use crate::platform::Scope;

/// `CPUIDLE_NAME_LEN` and `CPUIDLE_DESC_LEN`, without the NUL.
const NAME_CHARS_MAX: usize = 15;
const DESC_CHARS_MAX: usize = 31;
/// More than a CPU, its cluster, its socket and the system; a chain beyond it goes in a circle.
const DOMAINS_MAX: usize = 8;

/// The drivers that take their states from a device tree all begin with this one.
pub(super) fn wfi() -> State {
    State {
        name: "WFI".to_owned(),
        desc: "ARM WFI".to_owned(),
        latency: Latency::Whole { us: 1 },
        residency_us: 1,
        is_disabled: false,
        is_polling: false,
        scope: Scope::Cpu,
    }
}

/// The states that a CPU requests by itself. `of_get_cpu_state_node()` looks at its power domain
/// first.
pub(super) fn own(cpu: Node<'_>) -> Result<Vec<State>, Failure> {
    let mut nodes = match cpu.target("power-domains")? {
        Some(domain) => domain.targets("domain-idle-states")?,
        None => Vec::new(),
    };
    if nodes.is_empty() {
        nodes = cpu.targets("cpu-idle-states")?;
    }
    let available = nodes.into_iter().filter(|node| node.is_available());
    available.map(|node| read(node, &["arm,idle-state", "riscv,idle-state"], own_scope)).collect()
}

/// The power domains around the CPU's own, from the inside.
pub(super) fn domains(cpu: Node<'_>) -> Result<Vec<Node<'_>>, Failure> {
    let Some(own) = cpu.target("power-domains")? else {
        return Ok(Vec::new());
    };
    let mut domains = Vec::new();
    let mut inner = own;
    while let Some(outer) = inner.target("power-domains")? {
        if domains.len() == DOMAINS_MAX {
            let found = format!("leads through more than {DOMAINS_MAX} domains");
            return Err(own.failure("power-domains", &found, "a chain that ends"));
        }
        domains.push(outer);
        inner = outer;
    }
    Ok(domains)
}

/// The states of a power domain that holds several CPUs.
pub(super) fn of_domain(domain: Node<'_>, scope: Scope) -> Result<Vec<State>, Failure> {
    let nodes = domain.targets("domain-idle-states")?;
    let available = nodes.into_iter().filter(|node| node.is_available());
    available.map(|node| read(node, &["domain-idle-state"], |_| Ok(scope))).collect()
}

fn read(
    node: Node<'_>,
    compatible: &[&str],
    scope: impl Fn(Node<'_>) -> Result<Scope, Failure>,
) -> Result<State, Failure> {
    let found = node.texts("compatible");
    if !found.iter().any(|text| compatible.contains(text)) {
        let found = format!("is `{}`", found.join("`, `"));
        let allowed = format!("`{}`", compatible.join("` or `"));
        return Err(node.failure("compatible", &found, &allowed));
    }
    let wakeup_us = node.u32("wakeup-latency-us")?;
    let (entry, exit) = (node.u32("entry-latency-us")?, node.u32("exit-latency-us")?);
    let latency = match (wakeup_us, entry, exit) {
        (Some(us), None, None) => Latency::Whole { us },
        _ => Latency::Parts {
            entry_us: node.needed("entry-latency-us", entry)?,
            exit_us: node.needed("exit-latency-us", exit)?,
            wakeup_us,
        },
    };
    let desc = node.texts("idle-state-name").first().copied().unwrap_or(node.name());
    Ok(State {
        name: cut(node.name(), NAME_CHARS_MAX),
        desc: cut(desc, DESC_CHARS_MAX),
        latency,
        residency_us: node.needed("min-residency-us", node.u32("min-residency-us")?)?,
        is_disabled: false,
        is_polling: false,
        scope: scope(node)?,
    })
}

/// PSCI (Arm DEN 0022, `CPU_SUSPEND`, `power_state`): in the original format bits 24 and 25 are the
/// power level, 0 for a core and 1 for a cluster. The extended format, marked by bit 30 in a
/// powerdown state, has no level.
fn own_scope(node: Node<'_>) -> Result<Scope, Failure> {
    const EXTENDED: u32 = 1 << 30;
    let parameter = node.u32("arm,psci-suspend-param")?.unwrap_or(0);
    let level = if parameter & EXTENDED == 0 { parameter >> 24 & 3 } else { 0 };
    Ok(match level {
        0 => Scope::Cpu,
        1 => Scope::Cluster,
        _ => Scope::Package,
    })
}

/// The kernel copies as much as there is space for.
fn cut(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).collect()
}
