// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Writes an imported machine as TOML that a person can go on with.

use super::{Group, ImportOptions};
use crate::format_cpu_list;
use std::fmt::Write as _;

/// The machine's own numbers are nobody's work: no licence line in what comes out.
pub(super) fn platform(
    options: &ImportOptions,
    driver: Option<&str>,
    groups: &[Group],
    notes: &[String],
) -> String {
    let driver = driver.unwrap_or("not known");
    let mut out = String::from(
        "# Imported from sysfs, which does not know the power of an idle state: energy on this\n\
         # machine is not known. Where it was measured, add `power_mw` and `power_source`.\n",
    );
    for note in notes {
        line(&mut out, format_args!("# Note: {note}."));
    }
    let title = options.title.as_deref().filter(|title| !title.trim().is_empty());
    line(&mut out, format_args!("name = {}", quote(&options.name)));
    line(&mut out, format_args!("title = {}", quote(title.unwrap_or("Imported from sysfs"))));
    line(&mut out, format_args!("source = \"sysfs of the machine: cpu*\""));
    let hz = options.hz.map_or(250, |hz| hz.get());
    line(&mut out, format_args!("hz = {hz}"));
    for (group, name) in groups.iter().zip(names(groups)) {
        cluster(&mut out, group, &name, driver);
    }
    out
}

fn cluster(out: &mut String, group: &Group, name: &str, driver: &str) {
    let cpu = &group.like;
    line(out, format_args!("\n[[cluster]]\nname = {}", quote(name)));
    line(out, format_args!("cpus = {}", quote(&format_cpu_list(&group.cpus))));
    line(out, format_args!("capacity = {}", cpu.capacity.unwrap_or(1024)));
    if cpu.capacity.is_some() {
        line(out, format_args!("capacity_source = \"sysfs of the machine: cpu*/cpu_capacity\""));
    }
    let source = format!("sysfs of the machine: cpu*/cpuidle, driver {driver}");
    line(out, format_args!("idle_state_source = {}", quote(&source)));
    if !cpu.freqs_khz.is_empty() {
        let source = "sysfs of the machine: cpufreq, scaling_available_frequencies";
        line(out, format_args!("opp_source = {}", quote(source)));
    }
    for state in &cpu.states {
        line(out, format_args!("\n[[cluster.idle_state]]\nname = {}", quote(&state.name)));
        if !state.desc.is_empty() {
            line(out, format_args!("desc = {}", quote(&state.desc)));
        }
        if state.is_polling() {
            line(out, format_args!("polling = true"));
        }
        line(out, format_args!("latency_us = {}", state.latency_us));
        line(out, format_args!("target_residency_us = {}", state.residency_us));
        if state.is_disabled {
            line(out, format_args!("default_status = \"disabled\""));
        }
    }
    for freq_khz in &cpu.freqs_khz {
        line(out, format_args!("\n[[cluster.opp]]\nfreq_khz = {freq_khz}"));
    }
}

/// `little`, `mid` and `big` where capacities tell clusters apart, otherwise numbers.
fn names(groups: &[Group]) -> Vec<String> {
    let mut capacities: Vec<u32> = groups.iter().filter_map(|group| group.like.capacity).collect();
    capacities.sort_unstable();
    capacities.dedup();
    let known: &[&str] = match groups.len() {
        1 => return vec!["cpus".to_owned()],
        2 => &["little", "big"],
        3 => &["little", "mid", "big"],
        _ => &[],
    };
    let name = |(number, group): (usize, &Group)| {
        let rank = group.like.capacity.and_then(|c| capacities.binary_search(&c).ok());
        match rank {
            Some(rank) if capacities.len() == known.len() => known[rank].to_owned(),
            _ => format!("cluster{number}"),
        }
    };
    groups.iter().enumerate().map(name).collect()
}

/// A TOML basic string; JSON's escapes are all among TOML's. DEL alone TOML forbids in the raw.
fn quote(text: &str) -> String {
    let text: String = text.chars().filter(|&c| c != '\u{7f}').collect();
    serde_json::to_string(&text).expect("a string can be written as JSON")
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("strings take all text");
}
