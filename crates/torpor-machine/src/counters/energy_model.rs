// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The kernel's energy model, as debugfs shows it: `energy_model/DOMAIN/{cpus,flags}` and
//! `energy_model/DOMAIN/ps:KHZ/{frequency,power}` (`cs:KHZ` before Linux 5.10).

use crate::counters::path::{DomainAttr, StateAttr};
use crate::units::CpuId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// CPUs that change frequency together, and what each of their OPPs takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerfDomain {
    /// The folder's name: its first CPU's, as in `cpu0`; `pd0` before Linux 5.10.
    pub name: String,
    #[serde(with = "crate::counters::model::cpu_numbers")]
    pub cpus: Vec<CpuId>,
    pub power_unit: PowerUnit,
    /// Ascending in frequency.
    pub states: Vec<PerfState>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerfState {
    pub freq_khz: u32,
    /// One CPU, busy, in the domain's unit.
    pub power: u64,
}

/// Unit of a domain's powers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PowerUnit {
    Microwatt,
    #[default]
    Milliwatt,
    /// Comparable with each other, and with nothing else.
    Abstract,
}

/// `EM_PERF_DOMAIN_MICROWATTS` and `EM_PERF_DOMAIN_ARTIFICIAL` (include/linux/energy_model.h).
const FLAG_MICROWATTS: u64 = 1 << 0;
const FLAG_ARTIFICIAL: u64 = 1 << 2;

/// Parts found of each domain.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    domains: BTreeMap<String, Domain>,
}

#[derive(Debug, Default)]
struct Domain {
    cpus: Option<Vec<CpuId>>,
    unit: Option<PowerUnit>,
    /// By the folder's name.
    states: BTreeMap<String, (Option<u32>, Option<u64>)>,
}

impl Parts {
    pub(crate) fn is_empty(&self) -> bool {
        self.domains.values().all(|domain| domain.states.is_empty())
    }

    /// Takes a value of a domain, or says what is wrong with it.
    pub(crate) fn put_domain(
        &mut self,
        name: &str,
        attr: DomainAttr,
        value: &str,
    ) -> Result<(), String> {
        let domain = self.domains.entry(name.to_owned()).or_default();
        match attr {
            DomainAttr::Cpus => domain.cpus = Some(parse_cpus(value)?),
            DomainAttr::Flags => domain.unit = Some(parse_flags(value)?),
            // Linux 5.11 to 5.15 have this instead of the flags.
            DomainAttr::Units => {
                domain.unit = Some(match value {
                    "milliWatts" => PowerUnit::Milliwatt,
                    "bogoWatts" => PowerUnit::Abstract,
                    _ => return Err(format!("holds `{value}`, not milliWatts or bogoWatts")),
                });
            }
        }
        Ok(())
    }

    pub(crate) fn put_state(
        &mut self,
        name: &str,
        state: &str,
        attr: StateAttr,
        value: &str,
    ) -> Result<(), String> {
        let domain = self.domains.entry(name.to_owned()).or_default();
        let state = domain.states.entry(state.to_owned()).or_default();
        let bad = |max: u64| format!("holds `{value}`, not a number from 1 to {max}");
        match attr {
            StateAttr::Frequency => {
                let freq_khz = value.parse().ok().filter(|freq_khz| *freq_khz > 0);
                state.0 = Some(freq_khz.ok_or_else(|| bad(u32::MAX.into()))?);
            }
            StateAttr::Power => {
                let power = value.parse().ok().filter(|power| *power > 0);
                state.1 = Some(power.ok_or_else(|| bad(u64::MAX))?);
            }
        }
        Ok(())
    }

    /// The complete domains; `report` gets a reason for each incomplete one.
    pub(crate) fn finish(self, report: &mut impl FnMut(String, &str)) -> Vec<PerfDomain> {
        let mut domains = Vec::new();
        // A folder without OPPs is something else that has a file of the same name.
        for (name, domain) in self.domains.into_iter().filter(|(_, d)| !d.states.is_empty()) {
            let path = format!("energy_model/{name}");
            let Some(cpus) = domain.cpus else {
                report(format!("{path}/cpus"), "is missing: the domain is ignored");
                continue;
            };
            let mut states = Vec::new();
            for (folder, state) in domain.states {
                match state {
                    (Some(freq_khz), Some(power)) => states.push(PerfState { freq_khz, power }),
                    _ => report(format!("{path}/{folder}"), "lacks its frequency or its power"),
                }
            }
            states.sort_by_key(|state| state.freq_khz);
            states.dedup_by_key(|state| state.freq_khz);
            let power_unit = domain.unit.unwrap_or_default();
            domains.push(PerfDomain { name, cpus, power_unit, states });
        }
        domains
    }
}

fn parse_cpus(value: &str) -> Result<Vec<CpuId>, String> {
    let bad = || format!("holds `{value}`, not a list of CPUs such as 0-3,7");
    let mut cpus = Vec::new();
    for range in value.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let cpu = |text: &str| text.parse().ok().filter(|cpu| *cpu <= crate::counters::CPU_MAX);
        let range = cpu(first).zip(cpu(last)).filter(|(first, last)| first <= last);
        let (first, last) = range.ok_or_else(bad)?;
        cpus.extend((first..=last).map(CpuId));
    }
    if !cpus.is_sorted_by(|a, b| a < b) {
        return Err(bad());
    }
    Ok(cpus)
}

/// In Linux 5.16 to 5.19, none of which is maintained, the flag meant mW; since then it means uW.
fn parse_flags(value: &str) -> Result<PowerUnit, String> {
    let digits = value.strip_prefix("0x").unwrap_or(value);
    let flags =
        u64::from_str_radix(digits, 16).map_err(|_| format!("holds `{value}`, not flags"))?;
    Ok(match flags {
        _ if flags & FLAG_ARTIFICIAL != 0 => PowerUnit::Abstract,
        _ if flags & FLAG_MICROWATTS != 0 => PowerUnit::Microwatt,
        _ => PowerUnit::Abstract,
    })
}
