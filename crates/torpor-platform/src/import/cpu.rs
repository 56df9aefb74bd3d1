// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One CPU's share of sysfs: idle states, capacity, frequencies.

use super::tree::{Failure, Tree};
use std::collections::BTreeMap;
use torpor_toml::parse_cpu_list;
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
pub(super) fn read(
    tree: &Tree,
    cpu: CpuId,
    notes: &mut Vec<String>,
) -> Result<Option<SysfsCpu>, Failure> {
    let folder = format!("{cpu}/cpuidle");
    let numbers = tree.numbered(&folder, "state")?;
    if numbers.is_empty() {
        return Ok(None);
    }
    // A hole would shift the index of every deeper state.
    if let Some((missing, _)) = (0..).zip(&numbers).find(|(expected, found)| expected != *found) {
        return Err(Failure {
            reason: format!(
                "`{folder}` has state{} but not state{missing}",
                numbers[numbers.len() - 1]
            ),
            hint: "copy the whole tree; the kernel numbers states without a hole".to_owned(),
        });
    }
    let mut states = Vec::new();
    for number in numbers {
        states.push(read_state(tree, &format!("{folder}/state{number}"), notes)?);
    }
    let capacity_path = format!("{cpu}/cpu_capacity");
    let capacity = match tree.text(&capacity_path)? {
        Some(_) => Some(tree.number(&capacity_path)?),
        None => None,
    };
    Ok(Some(SysfsCpu { states, capacity, freqs_khz: read_freqs(tree, cpu)? }))
}

/// `driver/` beside the states and `s2idle/` in them say nothing about a governor's choice, and
/// `power` holds no power: it reads 0 or 4294967295 on every machine.
fn read_state(tree: &Tree, folder: &str, notes: &mut Vec<String>) -> Result<SysfsState, Failure> {
    let name = tree.text(&format!("{folder}/name"))?.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| Failure {
        reason: format!("`{folder}/name` is not there, or empty"),
        hint: "copy the whole tree: `cp -rL` follows its links".to_owned(),
    })?;
    let is_off_now = tree.text(&format!("{folder}/disable"))?.is_some_and(|text| text != "0");
    let is_disabled = match tree.text(&format!("{folder}/default_status"))?.as_deref() {
        Some("disabled") => true,
        Some(_) => false,
        // Kernels before 5.6 do not tell; what is set now is the best there is.
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
        desc: tree.text(&format!("{folder}/desc"))?.unwrap_or_default(),
        latency_us: tree.number(&format!("{folder}/latency"))?,
        residency_us: tree.number(&format!("{folder}/residency"))?,
        is_disabled,
        name,
    })
}

/// From the CPU's own `cpufreq` link, or from the policy that names it: copies may lack links.
fn read_freqs(tree: &Tree, cpu: CpuId) -> Result<Vec<u32>, Failure> {
    const LIST: &str = "scaling_available_frequencies";
    let mut path = format!("{cpu}/cpufreq/{LIST}");
    let mut text = tree.text(&path)?;
    if text.is_none() {
        for policy in tree.numbered("cpufreq", "policy")? {
            let related = tree.text(&format!("cpufreq/policy{policy}/related_cpus"))?;
            // `related_cpus` separates by blanks where `cpus` files do it by commas.
            let related =
                related.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(",");
            if parse_cpu_list(&related).is_ok_and(|cpus| cpus.contains(&cpu)) {
                path = format!("cpufreq/policy{policy}/{LIST}");
                text = tree.text(&path)?;
            }
        }
    }
    let mut freqs_khz = Vec::new();
    for word in text.unwrap_or_default().split_whitespace() {
        match word.parse() {
            Ok(freq_khz) if freq_khz > 0 => freqs_khz.push(freq_khz),
            _ => {
                return Err(Failure {
                    reason: format!("`{path}` holds `{word}`, not a frequency in kHz"),
                    hint: "a saved copy may be damaged; remove the file to import without OPPs"
                        .into(),
                });
            }
        }
    }
    freqs_khz.sort_unstable();
    freqs_khz.dedup();
    Ok(freqs_khz)
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
