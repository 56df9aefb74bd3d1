// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What a user can ask of a replay.

use std::collections::BTreeMap;
use std::path::PathBuf;
use torpor_governor::GovernorSpec;
use torpor_platform::Platform;
use torpor_units::{CpuId, Duration, Hz};

/// A replay: every governor on every recording, on one machine.
#[derive(Clone, Debug)]
pub struct Request {
    pub traces: Vec<PathBuf>,
    pub platform: Platform,
    pub governors: Vec<GovernorSpec>,
    pub options: Options,
}

#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The replayed kernel's tick rate; the platform's own by default.
    pub hz: Option<Hz>,
    /// PM QoS limit on the exit latency of any chosen state.
    pub latency_limit: Option<Duration>,
    pub disabled_states: Vec<DisabledState>,
    /// The machine of the recording: its exit latencies place the wake-up events.
    pub recorded_on: Option<Platform>,
    /// Only these CPUs of the recording.
    pub cpus: Option<Vec<CpuId>>,
    /// Only this part of the recording, from its first event on; sleeps that it cuts are left out.
    pub from: Option<Duration>,
    pub to: Option<Duration>,
    /// Which platform CPU stands in for a CPU of the recording; itself by default. Several may
    /// share one: each then runs as if it were alone there.
    pub cpu_map: BTreeMap<CpuId, CpuId>,
    /// Worker threads; one a core by default.
    pub threads: Option<usize>,
    /// Keep every decision.
    pub decisions: bool,
    /// Keep the busiest CPU's decisions for the report's strip.
    pub strip: bool,
}

/// A state switched off, on one platform CPU or on all (sysfs `disable`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DisabledState {
    pub cpu: Option<CpuId>,
    pub state: usize,
}

/// Told how far the work is; asked whether to go on.
pub trait Progress: Sync {
    fn advance(&self, what: &str, done: u64, total: u64);
    fn cancelled(&self) -> bool;
}

/// Threads for so many that a user wants, 0 for one a core. More than a few a core help nothing,
/// and no result depends on their number.
pub fn worker_threads(wanted: Option<usize>) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    wanted.unwrap_or(0).min(4 * cores)
}

/// Nobody watches.
pub struct Unwatched;

impl Progress for Unwatched {
    fn advance(&self, _: &str, _: u64, _: u64) {}
    fn cancelled(&self) -> bool {
        false
    }
}

/// The name that asks for the oracle in place of a governor.
pub const ORACLE: &str = "oracle";
