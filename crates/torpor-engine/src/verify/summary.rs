// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Results of a verification, computed from judged answers.

use super::judge::Judged;
use super::outcome::*;
use super::recorded::{Calls, LengthSource};
use super::walk::MachineCpu;
use super::{Candidate, VerifyOptions};
use crate::config_notes::config_notes;
use crate::input::EventToExit;
use crate::model::Verdict;
use crate::summary::late_exits;
use crate::trace_info::TraceInfo;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use torpor_machine::counters::{Delta, StateDelta};
use torpor_machine::platform::Platform;
use torpor_machine::units::{CpuId, Duration, Hz};
use torpor_result::record::Head;
use torpor_result::{Column, Comparison, Sample, Sampling, compare, elsewhere};
use torpor_trace::{EventKind, Trace};

pub(super) struct Parts<'a> {
    pub trace: TraceInfo,
    pub platform: &'a Platform,
    pub hz: Hz,
    pub events: &'a Trace,
    pub machine: &'a [MachineCpu],
    pub calls: &'a Calls,
    pub governors: &'a [Candidate],
    pub judged: &'a [Judged],
    pub tried: Vec<Tried>,
    pub options: &'a VerifyOptions,
    pub has_lengths: bool,
    pub sysfs: Option<Delta>,
    pub event_to_exit: EventToExit,
}

impl Fidelity {
    pub(super) fn new(parts: Parts<'_>) -> Fidelity {
        let order = ranking(parts.events, parts.governors, parts.judged);
        let describe = |&i: &usize| governor(&parts.governors[i], &parts.judged[i]);
        let governors: Vec<GovernorFidelity> = order.iter().map(describe).collect();
        let decisions = decisions(&parts);
        let kernel = recorded_release(parts.events);
        let verdict = verdict(&governors, &decisions, kernel);
        let names =
            |machine_cpu: &MachineCpu| machine_cpu.states.iter().map(|s| s.name.clone()).collect();
        Fidelity {
            head: Head::of("fidelity"),
            catalogue: elsewhere::FIDELITY,
            comparison: compared(&governors, decisions.compared),
            platform: parts.platform.name.clone(),
            hz: parts.hz.get(),
            states: parts.machine.first().map(names).unwrap_or_default(),
            notes: [
                notes(&parts, &decisions, &verdict),
                config_notes(parts.governors.iter().map(|candidate| &*candidate.governor)),
            ]
            .concat(),
            disagreements: parts.judged[order[0]].disagreements.clone(),
            counters: counters(&parts),
            event_to_exit: parts.event_to_exit,
            trace: parts.trace,
            decisions,
            verdict,
            governors,
            assumptions: parts.tried,
            options: parts.options.clone(),
        }
    }
}

/// Returns the governors, best first. Among equal ones, the release of the recorded kernel comes
/// first.
pub(super) fn ranking(trace: &Trace, governors: &[Candidate], judged: &[Judged]) -> Vec<usize> {
    let kernel = recorded_release(trace);
    let mut order: Vec<usize> = (0..judged.len()).collect();
    order.sort_by_key(|&i| {
        let Judged { agreeing, tick_agreeing, error, .. } = &judged[i];
        let own = fit(governors[i].governor.name(), kernel);
        (error.is_some(), Reverse((*agreeing, *tick_agreeing, own)))
    });
    order
}

/// Major and minor number of a kernel.
type Release = (u32, u32);

fn recorded_release(trace: &Trace) -> Option<Release> {
    release(trace.meta.kernel_release.as_deref()?)
}

fn release(text: &str) -> Option<Release> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Returns the first kernel with a governor of this name: `menu` and `teo` decide as in Linux 6.1,
/// and took this form in 5.0 and 5.1.
fn first_release(name: &str) -> Release {
    name.split_once('-').and_then(|(_, suffix)| release(suffix)).unwrap_or((5, 0))
}

/// Rates a governor's release against the kernel: the latest release that the kernel has is best.
fn fit(name: &str, kernel: Option<Release>) -> (bool, Option<Release>) {
    let first = first_release(name);
    let fits = kernel.is_some_and(|kernel| first <= kernel);
    (fits, fits.then_some(first))
}

/// Among governors that differ only in their release, keeps the recorded kernel's.
fn keep_own_releases(best: &mut Vec<String>, kernel: Option<Release>) {
    let all = best.clone();
    best.retain(|label| {
        let mut others = all.iter().filter(|other| family(other) == family(label));
        others.all(|other| fit(other, kernel) <= fit(label, kernel))
    });
}

/// Returns the family: that of `menu-6.12` and `menu@TREE,x=1` is `menu`; `./my-menu.c` is its own.
fn family(label: &str) -> &str {
    let name = label.split(['@', ',']).next().unwrap_or(label);
    let is_file = name.contains('/');
    name.split_once('-').filter(|_| !is_file).map_or(name, |(family, _)| family)
}

/// Share of the decisions for other than the commonest state that a governor must explain for its
/// recording to count as verified. Measured on 45 recordings of guests, 42 of them with governors
/// that choose by the idle states: docs/fidelity.md, "Verifying a recording".
const VERIFIED_RATIO: f64 = 0.85;

/// Returns true if enough decisions agree to show that the machine and the inputs are the recorded
/// ones.
fn is_verified(agreeing: u64, decisions: &DecisionsInfo) -> bool {
    let left = decisions.compared.saturating_sub(decisions.commonest);
    let explained = agreeing.saturating_sub(decisions.commonest);
    left > 0 && explained as f64 >= VERIFIED_RATIO * left as f64
}

/// Compares the other governors with the one that agrees best.
fn compared(governors: &[GovernorFidelity], decisions: u64) -> Comparison {
    let share = |part: u64, of: u64| (of > 0).then(|| 100.0 * part as f64 / of as f64);
    let columns: Vec<Column> = governors
        .iter()
        .map(|one| {
            let values = [
                ("agreement_pct", share(one.agreeing, decisions)),
                (
                    "history_agreement_pct",
                    one.agreeing_with_history.and_then(|n| share(n, decisions)),
                ),
                ("tick_agreement_pct", share(one.tick_agreeing, one.tick_decisions)),
            ];
            let values = values.map(|(key, value)| (key.to_owned(), value)).into();
            Column {
                label: one.governor.clone(),
                has_failed: one.error.is_some(),
                competes: true,
                samples: vec![Sample { number: 0, values }],
            }
        })
        .collect();
    compare(elsewhere::FIDELITY, &columns, Sampling::Exact)
}

fn governor(candidate: &Candidate, judged: &Judged) -> GovernorFidelity {
    let share = judged.agreeing as f64 / judged.decisions.max(1) as f64;
    GovernorFidelity {
        governor: candidate.governor.label().to_owned(),
        named: candidate.is_named,
        agreeing: judged.agreeing,
        agreeing_with_history: judged.agreeing_with_history,
        agreement: judged.error.is_none().then_some(share),
        tick_decisions: judged.tick_decisions,
        tick_agreeing: judged.tick_agreeing,
        confusion: judged
            .confusion
            .iter()
            .map(|(&(recorded, chosen), &count)| Confusion { recorded, chosen, count })
            .collect(),
        by_source: LengthSource::ALL
            .into_iter()
            .filter_map(|source| {
                let &(decisions, agreeing) = judged.by_source.get(&source)?;
                let class = source.class();
                Some(BySource { source: source.key(), class, decisions, agreeing })
            })
            .collect(),
        error: judged.error.clone(),
    }
}

fn verdict(
    governors: &[GovernorFidelity],
    decisions: &DecisionsInfo,
    kernel: Option<Release>,
) -> VerdictInfo {
    let alive: Vec<&GovernorFidelity> = governors.iter().filter(|g| g.error.is_none()).collect();
    let most = alive.first().map_or(0, |g| g.agreeing);
    // Agreement with the worse and with the better of two histories.
    let worse =
        |g: &GovernorFidelity| g.agreeing.min(g.agreeing_with_history.unwrap_or(g.agreeing));
    let better =
        |g: &GovernorFidelity| g.agreeing.max(g.agreeing_with_history.unwrap_or(g.agreeing));
    let sure = alive.first().map_or(0, |g| worse(g));
    let is_best = |g: &GovernorFidelity| g.agreeing == most || better(g) >= sure;
    let labels = |is_wanted: &dyn Fn(&GovernorFidelity) -> bool| -> Vec<String> {
        alive.iter().filter(|g| is_wanted(g)).map(|g| g.governor.clone()).collect()
    };
    let agreement =
        |wanted: &str| alive.iter().find(|g| g.governor == wanted).and_then(|g| g.agreement);
    let next = alive.iter().find(|g| !is_best(g)).map(|g| g.agreeing);
    let next_best = labels(&|g| !is_best(g) && Some(g.agreeing) == next);
    let mut best = labels(&is_best);
    let hangs_on_history = alive.iter().any(|g| is_best(g) && g.agreeing < most);
    if hangs_on_history {
        best.sort();
    }
    let is_control =
        |g: &GovernorFidelity| best.iter().all(|wanted| family(wanted) != family(&g.governor));
    let control = alive.iter().find(|g| is_control(g)).map(|g| g.governor.clone());
    keep_own_releases(&mut best, kernel);
    let hangs_on_history = hangs_on_history && best.len() > 1;
    let agreement_of_best = best.iter().filter_map(|label| agreement(label)).fold(0.0, f64::max);
    VerdictInfo {
        is_verified: is_verified(most, decisions),
        is_telling: most > decisions.commonest,
        hangs_on_history,
        agreement: agreement_of_best,
        next_agreement: next_best.first().and_then(|label| agreement(label)),
        next_best,
        control_agreement: control.as_deref().and_then(agreement),
        control,
        best,
    }
}

fn decisions(parts: &Parts<'_>) -> DecisionsInfo {
    let compared = &parts.calls.decisions[parts.calls.known_from..];
    let mut by_state: BTreeMap<usize, u64> = BTreeMap::new();
    for recorded in compared {
        *by_state.entry(recorded.state).or_default() += 1;
    }
    DecisionsInfo {
        compared: compared.len() as u64,
        hidden: compared.iter().filter(|recorded| recorded.entered.is_none()).count() as u64,
        before_reset: parts.calls.known_from as u64,
        resets: parts.calls.resets,
        commonest: by_state.values().copied().max().unwrap_or(0),
        probed: parts.has_lengths,
    }
}

fn counters(parts: &Parts<'_>) -> Vec<Counter> {
    let mut counters: BTreeMap<(CpuId, usize), Counter> = BTreeMap::new();
    for machine_cpu in parts.machine {
        for (state, description) in machine_cpu.states.iter().enumerate() {
            let counter = Counter {
                cpu: machine_cpu.cpu.0,
                state,
                name: description.name.clone(),
                usage: 0,
                time_us: 0,
                above: 0,
                below: 0,
                miss_above: 0,
                miss_below: 0,
                sysfs: None,
            };
            counters.insert((machine_cpu.cpu, state), counter);
        }
    }
    let mut slept: BTreeMap<(CpuId, usize), Duration> = BTreeMap::new();
    for recorded in &parts.calls.decisions {
        if let Some(reflected) = recorded.reflected {
            if let Some(counter) = counters.get_mut(&(recorded.cpu, reflected.state)) {
                let slept = slept.entry((recorded.cpu, reflected.state)).or_default();
                *slept += reflected.residency;
                counter.usage += 1;
                counter.time_us = (slept.0 / 1_000) as u64;
                counter.above += u64::from(reflected.verdict == Verdict::Above);
                counter.below += u64::from(reflected.verdict == Verdict::Below);
            }
        }
    }
    for event in &parts.events.events {
        if let EventKind::CpuIdleMiss { state, below } = event.kind {
            if let Some(state) = state.index() {
                if let Some(counter) = counters.get_mut(&(event.cpu, state)) {
                    counter.miss_above += u64::from(!below);
                    counter.miss_below += u64::from(below);
                }
            }
        }
    }
    for cpu in parts.sysfs.iter().flat_map(|delta| &delta.cpus) {
        for grown in &cpu.states {
            if let Some(counter) = counters.get_mut(&(cpu.cpu, grown.index as usize)) {
                let &StateDelta { usage, time_us, above, below, rejected, .. } = grown;
                counter.sysfs = Some(SysfsCounts { usage, time_us, above, below, rejected });
            }
        }
    }
    counters.into_values().collect()
}

/// Lead of the best governor over the control below which the recording hardly distinguishes them.
const CLOSE: f64 = 0.02;

fn notes(parts: &Parts<'_>, decisions: &DecisionsInfo, verdict: &VerdictInfo) -> Vec<String> {
    let mut notes = Vec::new();
    let control = verdict.control.as_deref().zip(verdict.control_agreement);
    if let Some((name, _)) = control.filter(|(_, share)| verdict.agreement - share < CLOSE) {
        let share = 100.0 * decisions.commonest as f64 / decisions.compared.max(1) as f64;
        notes.push(format!(
            "{name}, of another family, does nearly as well: {share:.0} % of the decisions are for \
             one state, and this recording says little about which governor it was"
        ));
    }
    if decisions.resets == 0 {
        notes.push(
            "the governor was not reset during the recording, so its first decisions depend on an \
             unknown history: `torpor record --reset-governor` avoids this"
                .to_owned(),
        );
    }
    let agreeing = || parts.tried.iter().map(|tried| tried.agreeing);
    if agreeing().min() != agreeing().max() {
        notes.push(
            "the assumptions were fitted to this recording, so part of the agreement is owed to \
             them; a probe on tick_nohz_get_sleep_length makes them needless"
                .to_owned(),
        );
    }
    if parts.platform.hz != parts.hz {
        notes.push(format!(
            "the recording ticks at {} Hz, platform `{}` at {}; the recording's rate was taken",
            parts.hz.get(),
            parts.platform.name,
            parts.platform.hz.get()
        ));
    }
    if !parts.options.probes {
        notes.push("answers of probes were left aside, as asked".to_owned());
    }
    notes.extend(late_exits(parts.event_to_exit));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(compared: u64, commonest: u64) -> DecisionsInfo {
        let (hidden, before_reset, resets, probed) = (0, 0, 0, false);
        DecisionsInfo { compared, hidden, before_reset, resets, commonest, probed }
    }

    fn did(governor: &str, agreeing: u64, agreeing_with_history: Option<u64>) -> GovernorFidelity {
        GovernorFidelity {
            governor: governor.to_owned(),
            named: false,
            agreeing,
            agreeing_with_history,
            agreement: Some(agreeing as f64 / 921.0),
            tick_decisions: 0,
            tick_agreeing: 0,
            confusion: Vec::new(),
            by_source: Vec::new(),
            error: None,
        }
    }

    #[test]
    fn unknown_history_prevents_a_ranking() {
        // A guest of Linux 6.1 whose menu was not reset.
        let met = [
            did("menu-6.12", 920, Some(918)),
            did("menu", 915, Some(921)),
            did("teo", 700, Some(705)),
        ];
        let found = verdict(&met, &counted(921, 600), None);
        assert_eq!(found.best, ["menu", "menu-6.12"]);
        assert!(found.hangs_on_history && found.is_telling);
        assert_eq!(
            (found.next_best, found.next_agreement),
            (vec!["teo".to_owned()], met[2].agreement)
        );
        // If it was reset in the recording, its history is known and one governor is better.
        let reset = [did("menu-6.12", 920, None), did("menu", 915, None)];
        let found = verdict(&reset, &counted(921, 600), None);
        assert_eq!((found.best, found.hangs_on_history), (vec!["menu-6.12".to_owned()], false));
        assert_eq!(found.next_best, ["menu"]);
    }

    #[test]
    fn the_recorded_release_decides_between_equals() {
        let met = [did("menu-6.12", 920, Some(920)), did("menu", 920, Some(919))];
        let best = |kernel: &str| verdict(&met, &counted(921, 600), release(kernel)).best;
        assert_eq!(best("6.1.0-56-cloud-amd64"), ["menu"]);
        assert_eq!(best("6.12.117+deb12-cloud-amd64"), ["menu-6.12"]);
        let mut teos = ["teo", "teo-6.6", "teo-6.12", "deepest"].map(str::to_owned).to_vec();
        keep_own_releases(&mut teos, Some((6, 8)));
        assert_eq!(teos, ["teo-6.6", "deepest"]);
        // A single one is the nearest, whatever the kernel.
        let alone = [did("menu-6.12", 920, None), did("menu", 900, None)];
        assert_eq!(verdict(&alone, &counted(921, 600), Some((6, 1))).best, ["menu-6.12"]);
    }

    #[test]
    fn one_state_distinguishes_no_governor() {
        let all = [did("deepest", 921, Some(921)), did("menu", 921, Some(921))];
        let found = verdict(&all, &counted(921, 921), None);
        assert!(!found.is_telling && !found.hangs_on_history && !found.is_verified);
        assert_eq!(found.best, ["deepest", "menu"]);
    }

    #[test]
    fn controls_belong_to_no_best_family() {
        let tied = [did("teo", 921, None), did("menu-3.7", 921, None), did("menu", 900, None)];
        assert_eq!(verdict(&tied, &counted(921, 600), None).control, None);
        let more = [&tied[..], &[did("ladder", 800, None)]].concat();
        let found = verdict(&more, &counted(921, 600), None);
        assert_eq!((found.control.as_deref(), found.is_verified), (Some("ladder"), true));
    }

    #[test]
    fn family_name_omits_release_and_tree() {
        for label in ["menu", "menu-6.12", "menu@../linux-6.12", "menu@6.12,x=1"] {
            assert_eq!(family(label), "menu");
        }
        assert_eq!(family("./my-menu.c,x=1"), "./my-menu.c");
    }

    /// The commonest state alone explains 600 of 921, which leaves 321.
    #[test]
    fn verified_means_beyond_the_commonest_state() {
        for (agreeing, wanted) in [(600, false), (872, false), (873, true), (921, true)] {
            let found = verdict(&[did("menu", agreeing, None)], &counted(921, 600), None);
            assert_eq!(found.is_verified, wanted, "{agreeing}");
        }
    }
}
