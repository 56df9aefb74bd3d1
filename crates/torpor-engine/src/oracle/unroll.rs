// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Collects the choices of a path from its last step backwards, with equal laps written once.

use super::stretch::Alike;
use super::{NO_STEP, REPEAT, Repeat, Search};
use crate::policy::{Choice, Choices};

impl Search<'_> {
    pub(super) fn choices(&self, last: u32) -> Choices {
        let mut choices = Choices::default();
        let mut at = last;
        while at != NO_STEP {
            let step = self.steps[at as usize];
            if step.choice.state == REPEAT {
                at = self.unroll(&self.repeats[step.before as usize], &mut choices);
            } else {
                choices.push(&[step.choice], 1);
                at = step.before;
            }
        }
        choices.reverse();
        choices
    }

    /// Adds the choices of equal laps, last first. Returns the step before them.
    fn unroll(&self, repeat: &Repeat, choices: &mut Choices) -> u32 {
        let (alike, mut index, mut left) = (&repeat.alike, repeat.index, repeat.laps);
        // Going back through the paths reaches a cycle.
        let mut laps: Vec<(usize, Vec<Choice>)> = Vec::new();
        while left > 0 {
            if let Some(first) = laps.iter().position(|(met, _)| *met == index) {
                let circle = laps[first..].iter().rev().flat_map(|(_, own)| own.iter().copied());
                let circle: Vec<Choice> = circle.collect();
                let length = (laps.len() - first) as i64;
                choices.push(&circle, (left / length) as u64);
                left %= length;
                laps.clear();
                continue;
            }
            let (own, earlier) = self.lap(alike, index);
            own.iter().rev().for_each(|&choice| choices.push(&[choice], 1));
            laps.push((index, own));
            left -= 1;
            index = earlier;
        }
        alike.step(index)
    }

    /// Returns the choices of the lap that led to this path, and the path of the lap before.
    fn lap(&self, alike: &Alike, index: usize) -> (Vec<Choice>, usize) {
        let (mut own, mut at) = (Vec::new(), alike.step(index));
        let earlier = loop {
            if let Some(earlier) = alike.earlier(at) {
                break earlier;
            }
            own.push(self.steps[at as usize].choice);
            at = self.steps[at as usize].before;
        };
        own.reverse();
        (own, earlier)
    }
}
