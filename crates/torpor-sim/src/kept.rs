// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A session's runs and its journal: what decides a run, and whether it was run before.

use crate::columns::Column;
use crate::error::Halt;
use crate::options::{Options, Request};
use crate::session::Session;
use crate::summary::SeedRun;
use torpor_machine::units::Instant;
use torpor_result::Given;

impl Session<'_> {
    /// Returns the journal's key of a column, without the seed; none without a journal.
    pub(crate) fn keys(&self) -> Vec<String> {
        let Request { workload, platform, options, .. } = self.request;
        let Some(journal) = &options.journal else { return Vec::new() };
        // The column's own options are written separately, and options without effect are omitted.
        let shared = Options {
            seed: 0,
            seeds: 0,
            cpufreq: Vec::new(),
            io_boosts: Vec::new(),
            kernels: Vec::new(),
            enabled_states: Vec::new(),
            threads: None,
            isolate: None,
            trace: None,
            journal: None,
            strip: false,
            given: Given::new(),
            ..options.clone()
        };
        let shared = format!("{workload:?} {platform:?} {:?} {shared:?}", self.hz);
        let of_column = |column: &Column| {
            let Column { kernel, cpufreq, io_boost, .. } = column;
            let own =
                format!("{cpufreq:?} {:?} {:?} {io_boost:?}", kernel.governor, kernel.io_boost);
            journal.key(&[shared.as_bytes(), own.as_bytes(), kernel.id().as_bytes()])
        };
        self.columns.iter().map(of_column).collect()
    }

    /// A run that was finished before, or else run, and kept.
    pub(crate) fn kept_run(
        &self,
        keys: &[String],
        column: usize,
        seed: u64,
        goes_on: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<SeedRun, Halt> {
        let Some(journal) = &self.request.options.journal else {
            return self.seed_run(column, seed, goes_on);
        };
        let key = journal.key(&[keys[column].as_bytes(), &seed.to_le_bytes()]);
        if let Some(counted) = journal.get(&key) {
            return Ok(Ok(counted));
        }
        let run = self.seed_run(column, seed, goes_on)?;
        if let Ok(counted) = &run {
            journal.put(&key, counted);
        }
        Ok(run)
    }
}
