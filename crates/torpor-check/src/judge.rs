// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Runs a sequence and finds its breaches.

use crate::CheckError;
use crate::block::{Answer, op};
use crate::driver::{Crash, Driver, How};
use crate::kinds::{Decision, KINDS, Kind, SLOW_NS};
use crate::sequence::Sequence;

/// Repetitions of each decision; the least time counts.
pub(crate) const REPEATS: usize = 7;

/// One breach in one run.
#[derive(Clone, Debug)]
pub(crate) struct Breach {
    pub kind: Kind,
    /// Distinguishes findings of a `kind`.
    pub signature: String,
    /// The step that shows it; 0 for a crash in enable() before the first step.
    pub step: usize,
    pub crash: Option<Crash>,
    /// The other answer, for a leak or an answer that depends on the build.
    pub otherwise: Option<(i32, bool)>,
    /// Duration of the call, if that is the breach.
    pub time_ns: u64,
}

impl Breach {
    pub(crate) fn new(kind: Kind, step: usize) -> Breach {
        Breach { kind, signature: String::new(), step, crash: None, otherwise: None, time_ns: 0 }
    }
}

/// The two programs of a governor.
pub(crate) struct Judge {
    pub sanitized: Driver,
    pub plain: Driver,
    pub answers: Vec<Answer>,
    /// The same decisions without the other CPUs, or in the other program.
    others: Vec<Answer>,
}

impl Judge {
    pub(crate) fn new(sanitized: Driver, plain: Driver) -> Judge {
        Judge { sanitized, plain, answers: Vec::new(), others: Vec::new() }
    }

    /// Runs under the sanitizers. Counts the breaches of each kind in `count` and returns the first
    /// of each. The answers stay in `answers`, up to a crash.
    pub(crate) fn run(
        &mut self,
        sequence: &Sequence,
        how: How,
        count: &mut dyn FnMut(Kind, u64),
    ) -> Result<Vec<Breach>, CheckError> {
        let ran = self.sanitized.run(sequence, how)?;
        self.answers.clear();
        self.answers.extend_from_slice(self.sanitized.answers());
        let whole = ran.steps - usize::from(ran.crash.is_some() && ran.steps > 0);
        let mut found = self.broken_rules(sequence, whole, count);
        if let Some(crash) = ran.crash {
            let kind = crash.kind;
            count(kind, 1);
            found.push(Breach {
                signature: crash.signature.clone(),
                crash: Some(crash),
                ..Breach::new(kind, ran.steps.saturating_sub(1))
            });
        }
        Ok(found)
    }

    fn broken_rules(
        &mut self,
        sequence: &Sequence,
        steps: usize,
        count: &mut dyn FnMut(Kind, u64),
    ) -> Vec<Breach> {
        let mut found: Vec<Breach> = Vec::new();
        for i in 0..steps {
            let decision = Decision {
                states: &sequence.states,
                step: &sequence.steps[i],
                answer: &self.answers[i],
            };
            let is_asked = decision.step.op == op::IDLE && decision.answer.has_run != 0;
            for info in KINDS {
                let Some(rule) = info.rule else { continue };
                if !(is_asked || info.kind == Kind::Bug) || !rule(&decision) {
                    continue;
                }
                count(info.kind, 1);
                if found.iter().all(|breach| breach.kind != info.kind) {
                    found.push(Breach::new(info.kind, i));
                }
            }
        }
        for breach in &mut found {
            if breach.kind == Kind::Bug {
                breach.signature = format!("WARN at {}", self.sanitized.warning());
            }
        }
        found
    }

    /// Returns a breach if a CPU answers differently without the other CPUs' calls. Call
    /// [`Judge::run`] first.
    pub(crate) fn leak(
        &mut self,
        sequence: &Sequence,
        how: How,
    ) -> Result<Option<Breach>, CheckError> {
        for cpu in 0..sequence.cpus.len() as u8 {
            let alone = sequence.only_cpu(cpu);
            let ran = self.sanitized.run(&alone, how)?;
            self.others.clear();
            self.others.extend_from_slice(self.sanitized.answers());
            if ran.crash.is_some() {
                self.others.pop();
            }
            let of_cpu = |i: &usize| sequence.steps[*i].cpu == cpu;
            let steps = (0..self.answers.len()).filter(of_cpu);
            if let Some(breach) = differs(&self.answers, steps, &self.others, Kind::Leak) {
                return Ok(Some(breach));
            }
        }
        Ok(None)
    }

    /// Returns a breach if the plain program answers differently. Call [`Judge::run`] first.
    pub(crate) fn build_matters(
        &mut self,
        sequence: &Sequence,
        how: How,
    ) -> Result<Option<Breach>, CheckError> {
        let ran = self.plain.run(sequence, how)?;
        if ran.crash.is_some() {
            // A crash of the plain program would have ended the sanitized one, too.
            return Ok(Some(Breach::new(Kind::Uninitialised, ran.steps.saturating_sub(1))));
        }
        self.others.clear();
        self.others.extend_from_slice(self.plain.answers());
        Ok(differs(&self.answers, 0..self.answers.len(), &self.others, Kind::Uninitialised))
    }

    /// Returns the least time of each step over some repetitions, in the plain program.
    pub(crate) fn times_ns(&mut self, sequence: &Sequence) -> Result<Vec<u32>, CheckError> {
        let how = How { is_timed: true, is_isolated: false };
        let mut least: Vec<u32> = vec![u32::MAX; sequence.steps.len()];
        for _ in 0..REPEATS {
            let ran = self.plain.run(sequence, how)?;
            if ran.crash.is_some() {
                return Ok(Vec::new());
            }
            let timer_ns = self.plain.timer_ns();
            for (least, answer) in least.iter_mut().zip(self.plain.answers()) {
                *least = (*least).min(answer.time_ns.saturating_sub(timer_ns));
            }
            least.truncate(ran.steps);
        }
        Ok(least)
    }

    pub(crate) fn slow(&mut self, sequence: &Sequence) -> Result<Option<Breach>, CheckError> {
        let times = self.times_ns(sequence)?;
        let slowest = times.iter().enumerate().max_by_key(|(_, time_ns)| **time_ns);
        Ok(slowest.filter(|(_, time_ns)| u64::from(**time_ns) > SLOW_NS).map(|(i, time_ns)| {
            Breach { time_ns: (*time_ns).into(), ..Breach::new(Kind::Slow, i) }
        }))
    }

    /// Looks for a finding again, in a smaller sequence.
    pub(crate) fn shows(
        &mut self,
        sequence: &Sequence,
        kind: Kind,
        signature: &str,
    ) -> Result<Option<Breach>, CheckError> {
        let is_crash = KINDS.iter().any(|k| k.kind == kind && k.rule.is_none())
            && !matches!(kind, Kind::Leak | Kind::Uninitialised | Kind::Slow)
            || kind == Kind::Bug;
        let how = How { is_isolated: is_crash, is_timed: false };
        if kind == Kind::Slow {
            return self.slow(sequence);
        }
        let found = self.run(sequence, how, &mut |_, _| {})?;
        match kind {
            Kind::Leak if found.iter().all(|b| b.crash.is_none()) => self.leak(sequence, how),
            Kind::Uninitialised if found.iter().all(|b| b.crash.is_none()) => {
                self.build_matters(sequence, how)
            }
            _ => Ok(found.into_iter().find(|b| b.kind == kind && b.signature == signature)),
        }
    }
}

/// Returns the first of `steps` with different answers.
fn differs(
    answers: &[Answer],
    steps: impl Iterator<Item = usize>,
    others: &[Answer],
    kind: Kind,
) -> Option<Breach> {
    let choice = |a: &Answer| (a.state, a.stop_tick != 0);
    steps
        .zip(others)
        .find(|(i, other)| choice(&answers[*i]) != choice(other))
        .map(|(i, other)| Breach { otherwise: Some(choice(other)), ..Breach::new(kind, i) })
}
