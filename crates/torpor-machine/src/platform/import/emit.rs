// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Writes an imported machine as TOML that a person can edit.

use super::ImportOptions;
use super::share::{Group, Latency, Machine, Sources, State, group};
use crate::platform::Scope;
use crate::toml::format_cpu_list;
use std::fmt::Write as _;

/// The output has no licence line: a machine's own numbers have no author.
pub(super) fn platform(options: &ImportOptions, machine: &Machine, notes: &[String]) -> String {
    let Machine { origin, sources, .. } = machine;
    let mut out = format!(
        "# Imported from {origin}, which does not know the power of an idle state: energy on this\n\
         # machine is not known. Where it was measured, add `power_mw` and `power_source`. Latencies are\n\
         # the advertised ones; `torpor platform measure` measures them in a recording.\n",
    );
    for note in notes {
        line(&mut out, format_args!("# Note: {note}."));
    }
    let titles = [options.title.as_deref(), machine.title.as_deref()];
    let title = titles.into_iter().flatten().find(|title| !title.trim().is_empty());
    let title = title.map_or_else(|| format!("Imported from {origin}"), str::to_owned);
    line(&mut out, format_args!("name = {}", quote(&options.name)));
    line(&mut out, format_args!("title = {}", quote(&title)));
    line(&mut out, format_args!("source = {}", quote(&sources.machine)));
    let hz = options.hz.map_or(250, |hz| hz.get());
    line(&mut out, format_args!("hz = {hz}"));
    let groups = group(&machine.cpus);
    for (group, name) in groups.iter().zip(names(&groups)) {
        cluster(&mut out, group, &name, sources);
    }
    out
}

fn cluster(out: &mut String, group: &Group, name: &str, sources: &Sources) {
    let cpu = &group.like;
    line(out, format_args!("\n[[cluster]]\nname = {}", quote(name)));
    line(out, format_args!("cpus = {}", quote(&format_cpu_list(&group.cpus))));
    line(out, format_args!("capacity = {}", cpu.capacity.unwrap_or(1024)));
    if cpu.capacity.is_some() {
        line(out, format_args!("capacity_source = {}", quote(&sources.capacity)));
    }
    line(out, format_args!("idle_state_source = {}", quote(&sources.idle_states)));
    if !cpu.opps.is_empty() {
        line(out, format_args!("opp_source = {}", quote(&sources.opps)));
    }
    if let Some(latency_ns) = cpu.clock_latency_ns {
        line(out, format_args!("clock_latency_ns = {latency_ns}"));
    }
    if cpu.opps.iter().any(|opp| opp.power_uw.is_some()) {
        line(out, format_args!("power_source = {}", quote(&sources.power)));
    }
    for state in &cpu.states {
        idle_state(out, state);
    }
    for opp in &cpu.opps {
        line(out, format_args!("\n[[cluster.opp]]\nfreq_khz = {}", opp.freq_khz));
        if let Some(power_uw) = opp.power_uw {
            line(out, format_args!("active_power_mw = {}", power_uw as f64 / 1e3));
        }
    }
}

fn idle_state(out: &mut String, state: &State) {
    line(out, format_args!("\n[[cluster.idle_state]]\nname = {}", quote(&state.name)));
    if !state.desc.is_empty() {
        line(out, format_args!("desc = {}", quote(&state.desc)));
    }
    if state.is_polling {
        line(out, format_args!("polling = true"));
    }
    match state.latency {
        Latency::Whole { us } => line(out, format_args!("latency_us = {us}")),
        Latency::Parts { entry_us, exit_us, wakeup_us } => {
            line(out, format_args!("entry_latency_us = {entry_us}"));
            line(out, format_args!("exit_latency_us = {exit_us}"));
            if let Some(wakeup_us) = wakeup_us {
                line(out, format_args!("wakeup_latency_us = {wakeup_us}"));
            }
        }
    }
    line(out, format_args!("target_residency_us = {}", state.residency_us));
    if state.is_disabled {
        line(out, format_args!("default_status = \"disabled\""));
    }
    match state.scope {
        Scope::Cpu => {}
        Scope::Core => line(out, format_args!("scope = \"core\"")),
        Scope::Cluster => line(out, format_args!("scope = \"cluster\"")),
        Scope::Package => line(out, format_args!("scope = \"package\"")),
    }
}

/// `little`, `mid` and `big` if the clusters' capacities differ, otherwise numbers.
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
