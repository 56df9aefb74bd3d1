// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Rounds of polling in which nothing else is worth a try, as one step of the search.
//!
//! Polling gives up after some microseconds, so a tick has hundreds of rounds. After the first of
//! them an earlier path has begun each sleep for less, as [`Sooner`](super::sooner::Sooner) states,
//! and polling takes more power than any state, so this holds until a sleep no longer settles before
//! the tick or the event. Up to there the path is neither queued nor compared. It waits in each tick
//! once, as [`Stretch`](super::Stretch) compares ticks. Its ending is known at once, and drops paths that
//! can become no better.

use super::crossing::{Crossing, Queue};
use super::relaxed::Asleep;
use super::{Path, Search, Step};
use crate::model::SleepEnd;
use crate::policy::Choice;
use torpor_machine::units::Duration;

impl Search<'_> {
    /// Adds what polling leads to.
    pub(super) fn poll_on(
        &mut self,
        mut path: Path,
        mut choice: Choice,
        asleep: &Asleep,
        crossing: &mut Crossing<'_>,
        queue: &mut Queue,
    ) {
        let (model, opp) = (self.model, crossing.span.opp);
        let only = self.only_polls(&path, self.jiffy, crossing).max(Duration::ZERO);
        let until = (path.now + only).min(self.jiffy + model.tick.hz.tick());
        let first = self.steps.len();
        loop {
            let round = asleep.from(model, path.now);
            let residency = round.resume.since(path.now);
            if round.end != SleepEnd::PollTimeout || round.resume >= until {
                let before = self.steps.len();
                self.follow(path, choice, (&round, residency), crossing, queue);
                if self.steps.len() == before {
                    self.steps.truncate(first);
                }
                return;
            }
            path.now = round.resume;
            path.energy += model.costs.sleep(opp, asleep.state, residency);
            self.steps.push(Step { before: path.step, choice });
            path.step = self.steps.len() as u32 - 1;
            choice.stop_tick = false;
        }
    }
}
