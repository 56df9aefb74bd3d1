// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Compares a governor's answers with the recorded ones.

use super::forcing::Answer;
use super::outcome::Disagreement;
use super::recorded::{Calls, Hold, LengthSource, Recorded};
use super::walk::MachineCpu;
use std::collections::BTreeMap;
use torpor_governor::GovernorError;

/// Agreement of one governor.
#[derive(Clone, Debug, Default)]
pub(super) struct Judged {
    pub decisions: u64,
    pub agreeing: u64,
    /// The same after the recording itself as history, if the real history is unknown.
    pub agreeing_with_history: Option<u64>,
    /// Decisions with the tick running before, and those that agree on stopping it.
    pub tick_decisions: u64,
    pub tick_agreeing: u64,
    /// By (recorded state, chosen state).
    pub confusion: BTreeMap<(usize, usize), u64>,
    /// Decisions and agreeing ones by the source of the sleep length.
    pub by_source: BTreeMap<LengthSource, (u64, u64)>,
    pub disagreements: Vec<Disagreement>,
    pub error: Option<String>,
}

/// Judges the decisions of a governor with a known history; keeps the first disagreements.
pub(super) fn judge(
    calls: &Calls,
    machine: &[MachineCpu],
    answers: Result<Vec<Answer>, GovernorError>,
    keep: usize,
) -> Judged {
    let mut judged = Judged::default();
    let answers = match answers {
        Ok(answers) => answers,
        Err(error) => return Judged { error: Some(error.to_string()), ..judged },
    };
    for (number, (recorded, answer)) in calls.decisions.iter().zip(&answers).enumerate() {
        if number < calls.known_from {
            continue;
        }
        let chosen = answer.selection.state as usize;
        let is_equal = chosen == recorded.state;
        judged.decisions += 1;
        judged.agreeing += u64::from(is_equal);
        *judged.confusion.entry((recorded.state, chosen)).or_default() += 1;
        let source = judged.by_source.entry(answer.source).or_default();
        source.0 += 1;
        source.1 += u64::from(is_equal);
        if recorded.entered.is_some() && !recorded.asked.tick_was_stopped {
            judged.tick_decisions += 1;
            let is_stopped = stops_tick(recorded, answer);
            judged.tick_agreeing += u64::from(is_stopped == recorded.asked.tick_is_stopped);
        }
        if !is_equal && judged.disagreements.len() < keep {
            let machine_cpu = &machine[recorded.slot];
            judged.disagreements.push(Disagreement::new(number, recorded, answer, machine_cpu));
        }
    }
    judged
}

/// Returns true if the tick would be stopped after this answer.
fn stops_tick(recorded: &Recorded, answer: &Answer) -> bool {
    let asked = &recorded.asked;
    let is_held = matches!(asked.hold, Hold::Probed(true) | Hold::StandIn(true))
        || answer.source == LengthSource::TickWentOn
        || (asked.hold != Hold::Stopped && asked.next_wheel <= asked.jiffy + asked.tick_period);
    answer.selection.stop_tick && !is_held
}
