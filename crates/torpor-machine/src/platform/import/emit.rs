// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Describes an imported machine as a platform file does.

use super::ImportOptions;
use super::share::{Group, Latency, Machine, Opp, Sources, State, group};
use crate::platform::Scope;
use crate::toml::{Content, format_cpu_list};

/// It has no licence line: a machine's own numbers have no author.
pub(super) fn platform(options: &ImportOptions, machine: &Machine, notes: &[String]) -> Content {
    let Machine { origin, sources, .. } = machine;
    let titles = [options.title.as_deref(), machine.title.as_deref()];
    let title = titles.into_iter().flatten().find(|title| !title.trim().is_empty());
    let title = title.map_or_else(|| format!("Imported from {origin}"), str::to_owned);
    let mut content = Content::default()
        .comment(format!(
            "Imported from {origin}, which does not know the power of an idle state: energy on this"
        ))
        .comment(
            "machine is not known. Where it was measured, add `power_mw` and `power_source`. \
             Latencies are",
        )
        .comment("the advertised ones; `torpor platform measure` measures them in a recording.");
    for note in notes {
        content = content.comment(format!("Note: {note}."));
    }
    content = content
        .with("name", &*options.name)
        .with("title", title)
        .with("source", &*sources.machine)
        .with("hz", options.hz.map_or(250, |hz| hz.get()));
    let groups = group(&machine.cpus);
    for (group, name) in groups.iter().zip(names(&groups)) {
        content.push("cluster", cluster(group, name, sources));
    }
    content
}

fn cluster(group: &Group, name: String, sources: &Sources) -> Content {
    let cpu = &group.like;
    let has_power = cpu.opps.iter().any(|opp| opp.power_uw.is_some());
    let opp = |opp: &Opp| {
        let power_mw = opp.power_uw.map(|power_uw| power_uw as f64 / 1e3);
        Content::default().with("freq_khz", opp.freq_khz).maybe("active_power_mw", power_mw)
    };
    let opps: Vec<Content> = cpu.opps.iter().map(opp).collect();
    Content::default()
        .with("name", name)
        .with("cpus", format_cpu_list(&group.cpus))
        .with("capacity", cpu.capacity.unwrap_or(1024))
        .maybe("capacity_source", cpu.capacity.map(|_| &*sources.capacity))
        .with("idle_state_source", &*sources.idle_states)
        .maybe("opp_source", (!opps.is_empty()).then_some(&*sources.opps))
        .maybe("clock_latency_ns", cpu.clock_latency_ns)
        .maybe("power_source", has_power.then_some(&*sources.power))
        .maybe("opp", (!opps.is_empty()).then_some(opps))
        .with("idle_state", cpu.states.iter().map(idle_state).collect::<Vec<_>>())
}

fn idle_state(state: &State) -> Content {
    let mut content = Content::default()
        .with("name", &*state.name)
        .maybe("desc", (!state.desc.is_empty()).then_some(&*state.desc))
        .maybe("polling", state.is_polling.then_some(true));
    content = match state.latency {
        Latency::Whole { us } => content.with("latency_us", us),
        Latency::Parts { entry_us, exit_us, wakeup_us } => content
            .with("entry_latency_us", entry_us)
            .with("exit_latency_us", exit_us)
            .maybe("wakeup_latency_us", wakeup_us),
    };
    let scope = match state.scope {
        Scope::Cpu => None,
        Scope::Core => Some("core"),
        Scope::Cluster => Some("cluster"),
        Scope::Package => Some("package"),
    };
    content
        .with("target_residency_us", state.residency_us)
        .maybe("default_status", state.is_disabled.then_some("disabled"))
        .maybe("scope", scope)
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
