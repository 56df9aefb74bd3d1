// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Drives a cpuidle governor with random and adversarial legal calls, finds every breach and
//! shrinks it to the shortest sequence of calls that shows it.
//!
//! A governor becomes two programs: one under AddressSanitizer and UndefinedBehaviorSanitizer, one
//! built as in a kernel. Rust generates ([`generate`](mod@generate)), judges and shrinks sequences;
//! the programs only make the calls, through shared memory. A crash of a program is a finding, and
//! the program is started again.
//!
//! [`KINDS`] defines the breaches. To add one: an entry there, a small governor that has it in
//! `tests/bad/`, and its expected minimum in `tests/all/bad_governors.rs`.

#![warn(unreachable_pub)]

mod block;
mod driver;
mod generate;
mod hosted;
mod judge;
mod kinds;
mod report;
mod rng;
mod sequence;
mod shrink;
mod words;

pub use hosted::hosted;
pub use kinds::{KINDS, Kind, KindInfo, Rule, SLOW_NS};
pub use report::{CallRow, CpuRow, Finding, Report, StateRow, Timing};

use driver::{Driver, HARNESS, How};
use judge::{Breach, Judge};
use std::path::PathBuf;
use std::process::ExitStatus;
use torpor_governor::{Build, Catalog, GovernorError, GovernorSpec};
use torpor_machine::units::Hz;

/// Crashes after which the search ends; each costs a start.
const CRASHES_MAX: u64 = 64;
/// Weight of an endless call among the crashes, as waiting for it takes longer.
const ENDLESS_WEIGHT: u64 = 16;
/// One sequence in this many also runs in the plain program.
const PLAIN_EVERY: u64 = 4;
/// Number of decisions that are timed.
const TIMED_DECISIONS: u64 = 20_000;

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Sequence `i` has the seed `seed + i`.
    pub seed: u64,
    /// Least number of decisions; whole sequences are run, at least one.
    pub decisions: u64,
    pub hz: Hz,
}

impl Default for Options {
    fn default() -> Options {
        Options { seed: 1, decisions: 1_000_000, hz: Hz::H250 }
    }
}

/// Errors of a check.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error(transparent)]
    Governor(#[from] GovernorError),

    #[error("no memory to share with the driver: {0}")]
    Memory(std::io::Error),

    #[error("start {}: {source}", path.display())]
    Start { path: PathBuf, source: std::io::Error },

    #[error("the governor cannot be driven: {reason}")]
    Refused { reason: String },

    #[error(
        "governor `{governor}` has slept for {limit_s} s in {call}, where no kernel code may sleep"
    )]
    Sleeps { governor: String, call: &'static str, limit_s: u64 },

    #[error("interrupted")]
    Interrupted,

    #[error("governor `{governor}` has ended its program in {call}: {status}\n{said}")]
    Driver { governor: String, call: &'static str, status: ExitStatus, said: String },
}

/// Checks one governor. `progress` gets the number of decisions so far; it returns false to end the
/// search.
pub fn check(
    catalog: &Catalog,
    spec: &GovernorSpec,
    options: &Options,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Report, CheckError> {
    let program = |build| catalog.program(spec, options.hz, &HARNESS, build);
    let sanitized = program(Build::Sanitized)?;
    let plain = program(Build::Plain)?;
    // Only a loaded governor knows the types of its parameters. One without parameters may fail to
    // load: that is a finding.
    let loaded = catalog.resolve(spec, options.hz);
    let percpu_bytes = loaded.as_ref().ok().map(|governor| governor.percpu_bytes());
    let params = match spec.params() {
        [] => Vec::new(),
        _ => loaded?.stored_params(),
    };
    let source_sha256 = sanitized.source_sha256.clone();
    let judge = Judge::new(Driver::new(sanitized, &params)?, Driver::new(plain, &params)?);
    // A table that the governor's own kernel never offers is not legal.
    let states_min = if catalog.asks_about_one_state(spec)? { 1 } else { 2 };
    let mut hunt = Hunt { judge, options, states_min, counts: Vec::new(), first: Vec::new() };
    let (decisions, sequences, ended_early) = hunt.run(progress)?;
    let timing = if hunt.first.iter().any(|(_, b)| b.crash.is_some()) {
        // Times are meaningless if the governor corrupts something.
        None
    } else {
        hunt.time()?
    };
    Ok(Report {
        governor: spec.to_string(),
        source_sha256,
        hz: options.hz.get(),
        seed: options.seed,
        decisions,
        sequences,
        ended_early,
        timing,
        percpu_bytes,
        findings: hunt.findings()?,
    })
}

struct Hunt<'a> {
    judge: Judge,
    options: &'a Options,
    states_min: usize,
    counts: Vec<(Kind, u64)>,
    /// The first breach of each kind and signature, with the seed of its sequence.
    first: Vec<(u64, Breach)>,
}

impl Hunt<'_> {
    fn run(
        &mut self,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(u64, u64, Option<String>), CheckError> {
        let (mut decisions, mut sequences, mut crashes) = (0, 0, 0);
        while decisions < self.options.decisions.max(1) {
            let seed = self.options.seed.wrapping_add(sequences);
            let crash = self.sequence(seed, sequences % PLAIN_EVERY == 0)?;
            decisions += self.judge.answers.iter().filter(|a| a.state >= 0).count() as u64;
            sequences += 1;
            if !progress(decisions) {
                return Ok((decisions, sequences, Some("it was interrupted".to_owned())));
            }
            crashes += match crash {
                None => 0,
                Some(Kind::Endless) => ENDLESS_WEIGHT,
                Some(_) => 1,
            };
            if crashes >= CRASHES_MAX {
                let why = "the governor has ended its program too often".to_owned();
                return Ok((decisions, sequences, Some(why)));
            }
        }
        Ok((decisions, sequences, None))
    }

    /// Runs one sequence. Returns the kind of crash, if any.
    fn sequence(&mut self, seed: u64, in_plain: bool) -> Result<Option<Kind>, CheckError> {
        let sequence = generate::sequence(seed, self.options.hz, self.states_min);
        let counts = &mut self.counts;
        let mut count = |kind: Kind, by: u64| match counts.iter_mut().find(|(k, _)| *k == kind) {
            Some((_, n)) => *n += by,
            None => counts.push((kind, by)),
        };
        let mut found = self.judge.run(&sequence, How::default(), &mut count)?;
        let crash = found.iter().find(|breach| breach.crash.is_some()).map(|breach| breach.kind);
        if crash.is_none() && sequence.cpus.len() > 1 {
            let leak = self.judge.leak(&sequence, How::default())?;
            leak.iter().for_each(|_| count(Kind::Leak, 1));
            found.extend(leak);
        }
        if crash.is_none() && in_plain {
            let other = self.judge.build_matters(&sequence, How::default())?;
            other.iter().for_each(|_| count(Kind::Uninitialised, 1));
            found.extend(other);
        }
        for breach in found {
            let is_same = |b: &Breach| b.kind == breach.kind && b.signature == breach.signature;
            if !self.first.iter().any(|(_, b)| is_same(b)) {
                self.first.push((seed, breach));
            }
        }
        Ok(crash)
    }

    fn time(&mut self) -> Result<Option<Timing>, CheckError> {
        let mut all = Vec::new();
        let wanted = TIMED_DECISIONS.min(self.options.decisions) as usize;
        for i in 0.. {
            if all.len() >= wanted.max(1) || i > TIMED_DECISIONS {
                break;
            }
            let seed = self.options.seed.wrapping_add(i);
            let sequence = generate::sequence(seed, self.options.hz, self.states_min);
            let times = self.judge.times_ns(&sequence)?;
            let worst = times.iter().enumerate().max_by_key(|(_, t)| **t);
            if let Some((step, time_ns)) = worst.filter(|(_, t)| u64::from(**t) > SLOW_NS) {
                match self.counts.iter_mut().find(|(k, _)| *k == Kind::Slow) {
                    Some((_, n)) => *n += 1,
                    None => self.counts.push((Kind::Slow, 1)),
                }
                if !self.first.iter().any(|(_, b)| b.kind == Kind::Slow) {
                    let time_ns = (*time_ns).into();
                    self.first.push((seed, Breach { time_ns, ..Breach::new(Kind::Slow, step) }));
                }
            }
            let is_decision = |i: usize| sequence.steps[i].op == block::op::IDLE;
            all.extend(times.iter().enumerate().filter(|(i, _)| is_decision(*i)).map(|(_, t)| *t));
        }
        all.sort_unstable();
        let Some(last) = all.len().checked_sub(1) else { return Ok(None) };
        Ok(Some(Timing {
            decisions: all.len() as u64,
            p50_ns: all[last / 2],
            p99_ns: all[last * 99 / 100],
            worst_ns: all[last],
        }))
    }

    /// Shrinks each breach.
    fn findings(mut self) -> Result<Vec<Finding>, CheckError> {
        let mut findings = Vec::new();
        let first = std::mem::take(&mut self.first);
        for (seed, breach) in first {
            let whole = generate::sequence(seed, self.options.hz, self.states_min);
            let judge = &mut self.judge;
            let (kind, signature) = (breach.kind, breach.signature.as_str());
            // A breach that cannot be repeated, such as a slow decision on a busy machine, is not
            // reported: nobody could work on it.
            if judge.shows(&whole, kind, signature)?.is_none() {
                continue;
            }
            let least = self.states_min;
            let small = shrink::shrink(whole, breach.step, &mut |s| {
                Ok(s.states.len() >= least && judge.shows(s, kind, signature)?.is_some())
            })?;
            let Some(again) = judge.shows(&small, kind, signature)? else { continue };
            let count = self.counts.iter().find(|(k, _)| *k == kind).map_or(1, |(_, n)| *n);
            findings.push(Finding::new(judge, &small, &again, count, seed)?);
        }
        findings.sort_by_key(|finding| finding.kind);
        Ok(findings)
    }
}
