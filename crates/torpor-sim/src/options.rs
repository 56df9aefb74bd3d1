// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What a user can ask of a simulation.

use std::path::PathBuf;
use std::sync::Arc;
use torpor_engine::DisabledState;
use torpor_governor::{GovernorSpec, IoBoostSpec};
use torpor_platform::Platform;
use torpor_units::{Duration, Hz};

use crate::cpufreq::Cpufreq;
use crate::journal::Journal;
use crate::workload::Workload;

/// A simulation: every governor, under every frequency policy with every IO boost, on the same
/// workload, several seeds each.
#[derive(Clone, Debug)]
pub struct Request {
    pub workload: Workload,
    pub platform: Platform,
    pub governors: Vec<GovernorSpec>,
    pub options: Options,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub duration: Duration,
    /// The first seed, and how many: each governor meets all of them.
    pub seed: u64,
    pub seeds: u32,
    /// The simulated kernel's tick rate; the platform's own by default.
    pub hz: Option<Hz>,
    /// Frequency policies: each governor runs under all of them. The platform's own if there is
    /// none.
    pub cpufreq: Vec<Cpufreq>,
    /// IO boosts: each governor runs under each frequency policy with all of them. With none named,
    /// schedutil has the kernel's own, `iowait`, and nothing else has any.
    pub io_boosts: Vec<IoBoostSpec>,
    /// PM QoS limit on the exit latency of any chosen state.
    pub latency_limit: Option<Duration>,
    pub disabled_states: Vec<DisabledState>,
    /// Worker threads; one a core by default.
    pub threads: Option<usize>,
    /// Writes the first seed of the first column as a recording.
    pub trace: Option<PathBuf>,
    /// Replay each governor's idleness by the oracle, too; [`crate::run`] sets it where the oracle
    /// is among the governors.
    pub against_oracle: bool,
    /// Where finished runs are kept, and found again.
    pub journal: Option<Arc<Journal>>,
    /// Keep the busiest CPU's decisions of the first seed for the report's strip.
    pub strip: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            duration: Duration(10_000_000_000),
            seed: 1,
            seeds: 10,
            hz: None,
            cpufreq: Vec::new(),
            io_boosts: Vec::new(),
            latency_limit: None,
            disabled_states: Vec::new(),
            threads: None,
            trace: None,
            against_oracle: false,
            journal: None,
            strip: false,
        }
    }
}

/// Time that the kernel's own work takes on the biggest CPU at its highest frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overheads {
    /// Of an interrupt: the tick, a timer, a device.
    pub interrupt: Duration,
    pub context_switch: Duration,
    /// On the CPU that sends a reschedule IPI; where the machine is virtual, with the exit to the
    /// hypervisor.
    pub ipi_send: Duration,
    /// From the sending to the interrupt on the other CPU.
    pub ipi_delivery: Duration,
    /// On the CPU that receives it.
    pub ipi_handling: Duration,
}

impl Overheads {
    pub fn of(platform: &Platform) -> Overheads {
        let torpor_platform::Overheads {
            context_switch,
            ipi_send,
            ipi_delivery,
            ipi_handling,
            virt_exit,
        } = platform.overheads;
        Overheads {
            interrupt: platform.tick_handling,
            context_switch,
            ipi_send: ipi_send + virt_exit,
            ipi_delivery,
            ipi_handling,
        }
    }
}
