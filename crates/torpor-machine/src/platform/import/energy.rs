// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Energy model of the running kernel: perf domains, and the power of their OPPs.

use super::Failure;
use super::share::{Machine, Opp, Share};
use crate::counters::{PerfDomain, PowerUnit};
use std::collections::BTreeMap;

/// Its numbers replace the device tree's, because a driver may know better.
pub(super) fn merge(
    machine: &mut Machine,
    domains: &[PerfDomain],
    notes: &mut Vec<String>,
) -> Result<(), Failure> {
    if domains.is_empty() {
        return Ok(());
    }
    for domain in domains {
        let of = format!("the energy model of {}", domain.name);
        let shares = machine.cpus.iter_mut().filter(|(cpu, _)| domain.cpus.contains(cpu));
        let mut shares: Vec<&mut Share> = shares.map(|(_, share)| share).collect();
        if shares.len() < domain.cpus.len() {
            return Err(Failure {
                reason: format!(
                    "{of} is for CPU {}, and not all of these are in the machine",
                    crate::toml::format_cpu_list(&domain.cpus)
                ),
                hint: "give the energy model of the same machine".to_owned(),
            });
        }
        let Some(unit_per_uw) = unit_per_uw(domain.power_unit) else {
            notes.push(format!("{of} uses abstract units: it provides no power"));
            continue;
        };
        for share in &mut shares {
            add(share, domain, unit_per_uw);
        }
    }
    machine.sources.opps =
        format!("{}; debugfs of the machine: energy_model", machine.sources.opps);
    machine.sources.power =
        "debugfs of the machine: energy_model, what the kernel takes a busy CPU \
                             to draw"
            .to_owned();
    Ok(())
}

fn unit_per_uw(unit: PowerUnit) -> Option<u64> {
    match unit {
        PowerUnit::Microwatt => Some(1),
        PowerUnit::Milliwatt => Some(1000),
        PowerUnit::Abstract => None,
    }
}

fn add(share: &mut Share, domain: &PerfDomain, unit_per_uw: u64) {
    let known = std::mem::take(&mut share.opps).into_iter();
    let mut opps: BTreeMap<u32, Opp> = known.map(|opp| (opp.freq_khz, opp)).collect();
    for state in &domain.states {
        let power_uw = Some(state.power.saturating_mul(unit_per_uw));
        opps.insert(state.freq_khz, Opp { freq_khz: state.freq_khz, power_uw });
    }
    share.opps = opps.into_values().collect();
    share.domain.get_or_insert_with(|| domain.name.clone());
}
