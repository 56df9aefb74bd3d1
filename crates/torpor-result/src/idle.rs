// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Counters of idle CPUs and the metrics computed from them, for replay and simulation alike.

use crate::RELATIVE_UNIT;
use crate::apart::Apart;
use crate::deep::DeepTimes;
use crate::latency::Latencies;
use crate::metric::Direction::{Higher, Lower, None as Neither};
use crate::metric::Place::{Cost, Delay, Depth, Line, Power, Sentence, Shadow, Wakeups};
use crate::metric::{Kind, Metric, metrics};
use crate::summed::summed;
use crate::work::Work;
use serde::{Deserialize, Serialize};
use torpor_machine::units::{Duration, Energy};

/// Counters of one idle state, named as in sysfs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateTotals {
    pub usage: u64,
    pub above: u64,
    pub below: u64,
    pub rejected: u64,
    pub time: Duration,
    /// Entries that the hardware demoted to a shallower state.
    pub demoted: u64,
    /// Time in this state by the hardware's counters.
    pub got_time: Duration,
}

summed! {
    /// Counters of one CPU.
    pub struct CpuTotals {
        pub states: Vec<StateTotals>,
        pub decisions: u64,
        /// Events that found the CPU asleep.
        pub wakeups: u64,
        pub tick_wakeups: u64,
        pub governor_timer_wakeups: u64,
        /// Timers that the governor started.
        pub governor_timer_starts: u64,
        pub poll_timeouts: u64,
        /// Interrupts during polling that did not end it; they count as wake-ups too.
        pub poll_interrupts: u64,
        /// Times of polling with a limit that the governor had set.
        pub own_poll_limits: u64,
        /// Reschedule interrupts saved by polling.
        pub ipis_saved: u64,
        /// Recorded idle spans in which the CPU was still busy with delayed work, or got new work
        /// before it was asleep.
        pub absorbed_spans: u64,
        /// Time that entries took which the driver refused; the CPU was awake.
        pub rejected_time: Duration,
        /// Entries for which the hardware entered a deeper state than the requested one.
        pub promoted: u64,
        /// Sleeps in a state that is disabled or slower than the latency limit.
        pub forbidden: u64,
        /// Delay of each event's work relative to the recording; 0 if it was not late.
        pub delays: Latencies,
        /// Delay of the last sleep's end relative to the recording.
        pub overrun: Duration,
        pub energy: Energy,
        pub latency: Latencies,
        /// Time that the policy took for each decision on this machine; empty unless requested.
        pub decision_times: Latencies,
        /// Decisions by the source of the sleep length.
        pub sources: [u64; 4],
        /// Intervals in the deepest state; kept only if a cluster's power depends on them.
        pub deep: Option<DeepTimes>,
    }
}

impl CpuTotals {
    pub fn new(states: usize) -> CpuTotals {
        CpuTotals { states: vec![StateTotals::default(); states], ..CpuTotals::default() }
    }

    pub fn idle_time(&self) -> Duration {
        self.states.iter().fold(Duration::ZERO, |sum, s| sum + s.time)
    }

    fn of_states(&self, field: fn(&StateTotals) -> u64) -> u64 {
        self.states.iter().map(field).sum()
    }
}

/// Sums of one run, from which all metrics are computed.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// Totals over all CPUs that were run.
    pub idle: CpuTotals,
    /// Sum of the lengths of the CPUs' runs, in ns.
    pub cpu_time_ns: i128,
    /// Time that each CPU spent in the deepest state that it may enter.
    pub deepest: Duration,
    /// Time over which power is averaged, for the machine and each part of it.
    pub span: Duration,
    /// Whether the power of the machine's idle states has been measured.
    pub has_power: bool,
    /// Energy that no CPU consumes by itself.
    pub apart: Apart,
    /// The least total energy, if computed: comparable with [`Sums::total`].
    pub oracle: Option<Energy>,
    /// Work of tasks, devices, clocks and the machine, in a simulation.
    pub work: Option<Work>,
}

impl Sums {
    pub(crate) fn sleeps(&self) -> u64 {
        self.idle.of_states(|s| s.usage)
    }

    /// Returns the idle energy of CPUs, clusters and package; where the machine's power is not
    /// known, that of the CPUs alone, in relative units.
    pub fn total(&self) -> Energy {
        let apart = if self.has_power { self.apart.energy() } else { Energy::ZERO };
        self.idle.energy + apart
    }

    fn idle_energy(&self) -> Option<Energy> {
        self.has_power.then(|| self.total())
    }

    /// Returns the mean power of a part of the energy.
    fn part_mw(&self, part: Option<Energy>) -> Option<f64> {
        part.filter(|_| self.has_power).map(|energy| power_mw(energy, self.span))
    }

    fn relative(&self, part: Energy, whole: Energy) -> Option<f64> {
        share(part.0 as f64, whole.0 as f64).filter(|_| !self.has_power)
    }

    fn of_sleeps(&self, count: u64) -> Option<f64> {
        share(count as f64, self.sleeps() as f64)
    }

    fn of_time(&self, time: Duration) -> Option<f64> {
        share(time.0 as f64, self.cpu_time_ns as f64)
    }
}

fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| 100.0 * part / whole)
}

pub(crate) fn count(n: u64) -> Option<f64> {
    Some(n as f64)
}

pub(crate) fn us(time: Option<Duration>) -> Option<f64> {
    time.map(Duration::as_us_f64)
}

fn ns(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.0 as f64)
}

/// Returns energy divided by time; 0 for no time.
pub fn power_mw(energy: Energy, time: Duration) -> f64 {
    if time <= Duration::ZERO { 0.0 } else { energy.as_uj_f64() * 1e6 / time.0 as f64 }
}

pub(crate) const COUNT: (Kind, &str) = (Kind::Count, "");
pub(crate) const SHARE: (Kind, &str) = (Kind::Share, "%");
pub(crate) const TIME: (Kind, &str) = (Kind::Time, "us");
pub(crate) const NANOSECONDS: (Kind, &str) = (Kind::Time, "ns");
pub(crate) const POWER: (Kind, &str) = (Kind::Power, "mW");
pub(crate) const ENERGY: (Kind, &str) = (Kind::Energy, "uJ");

/// Metrics of idle CPUs, in the order of the table.
pub static METRICS: &[Metric] = metrics! {
    wakeups leads(&[(Wakeups, 1)]):
        COUNT, Neither, "wake-ups", "Events that found the CPU asleep: interrupts, IPIs and \
        timers, without the tick.", |s| count(s.idle.wakeups);
    sleeps leads(&[(Line, 1), (Shadow, 8)]):
        COUNT, Lower, "sleeps", "Entries into any idle state (the sum of sysfs `usage`).",
        |s| count(s.sleeps());
    above_pct called("too deep sleeps")
        leads(&[(Sentence, 10), (Line, 2), (Shadow, 4), (Depth, 1)]):
        SHARE, Lower, "too deep", "Share of all sleeps shorter than the target \
        residency of their state while a shallower state was enabled: the kernel's rule for sysfs \
        `above`.", |s| s.of_sleeps(s.idle.of_states(|state| state.above));
    below_pct called("too shallow sleeps")
        leads(&[(Sentence, 11), (Line, 3), (Shadow, 5), (Depth, 2)]):
        SHARE, Lower, "too shallow", "Share of all sleeps that, less the exit \
        latency, reached the target residency of the next enabled deeper state: the kernel's rule \
        for sysfs `below`.", |s| s.of_sleeps(s.idle.of_states(|state| state.below));
    deepest_residency_pct: SHARE, Neither, "in deepest state", "Share of all CPU time spent in the \
        deepest state that the CPU may enter. A CPU's time goes from the first CPU's first idle \
        entry to the last CPU's last wake-up, without sleeps that the recording cuts.",
        |s| s.of_time(s.deepest);
    idle_residency_pct: SHARE, Neither, "in any state", "Share of all CPU time spent in idle \
        states, entry and exit latency included.", |s| s.of_time(s.idle.idle_time());
    latency_mean_us called("wake-up latency")
        leads(&[(Sentence, 14), (Line, 4), (Shadow, 6), (Delay, 1)]):
        TIME, Lower, "mean wake-up latency", "Time from the event until the CPU \
        runs: the rest of the entry latency, and the exit latency. Over all wake-ups.",
        |s| us(s.idle.latency.mean());
    latency_p50_us: TIME, Lower, "p50 wake-up latency", "The latency that half of the wake-ups do \
        not exceed, to 0.1 %.", |s| us(s.idle.latency.quantile(0.50));
    latency_p99_us leads(&[(Sentence, 13), (Delay, 2)]):
        TIME, Lower, "p99 wake-up latency", "The latency that 99 % of the wake-ups do \
        not exceed, to 0.1 %.", |s| us(s.idle.latency.quantile(0.99));
    latency_max_us: TIME, Lower, "max wake-up latency", "The longest wake-up latency.",
        |s| us(s.idle.latency.max());
    forbidden_sleeps optional: COUNT, Lower, "forbidden sleeps", "Sleeps in a state that was \
        disabled or whose exit latency is above the latency limit. The oracle is a lower bound \
        only for governors without any.", |s| count(s.idle.forbidden);
    idle_power_mw called("idle power")
        leads(&[(Cost, 2), (Sentence, 7), (Line, 5), (Shadow, 1), (Power, 2)]):
        POWER, Lower, "total idle power", "Power of idle CPUs, of clusters and of the \
        package, as far as the machine describes them: the sum of `cpu_idle_power_mw`, \
        `cluster_power_mw`, `shared_state_mw` and `package_mw`. It excludes CPUs at work. \
        `idle_energy_uj` over the time from the first CPU's first idle entry to the last CPU's \
        last wake-up, without sleeps that the recording cuts (mean of all CPUs); over the \
        simulated time in a simulation.", |s| s.part_mw(Some(s.total()));
    cpu_idle_power_mw optional: POWER, Lower, "idle power of CPUs", "The part of `idle_power_mw` \
        that the idle CPUs consume. Shown if there are other parts.",
        |s| s.part_mw((!s.apart.is_empty()).then_some(s.idle.energy));
    cluster_power_mw optional: POWER, Lower, "idle power of clusters", "The part of \
        `idle_power_mw` that clusters consume apart from their CPUs (caches, interconnect), unless \
        all CPUs of the cluster are in their deepest state. Summed over clusters.",
        |s| s.part_mw(s.apart.clusters);
    shared_state_mw optional: POWER, Lower, "idle power while waiting for others", "The part of \
        `idle_power_mw` that CPUs in a core's, cluster's or package's state consume in addition to \
        the state itself, while other CPUs keep it from being entered. Simulations only.",
        |s| s.part_mw(s.apart.shared);
    package_mw optional: POWER, Lower, "idle power of the package", "The part of `idle_power_mw` \
        that the package consumes apart from CPUs and clusters: its floor, and in simulations its \
        additional power while any CPU works or polls.", |s| s.part_mw(s.apart.package);
    idle_energy_uj sum called("idle energy"):
        ENERGY, Lower, "total idle energy", "Energy of all sleeps: the state's power \
        times residency, plus an overhead per sleep that makes the state break even with the next \
        shallower one at its target residency; plus the power of a busy CPU while it handles ticks \
        and governor's timers that woke it; plus the energy of clusters and package, as in \
        `idle_power_mw`.", |s| s.idle_energy().map(Energy::as_uj_f64);
    over_oracle_pct optional leads(&[(Sentence, 8), (Power, 3)]) over("idle_energy_uj")
        called("idle energy"):
        SHARE, Lower, "idle energy over oracle", "Excess of `idle_energy_uj` \
        over the cheapest decisions within the latency limit (the cheapest found, if no bound is \
        known), which know all idle spans: those of the recording, or in a simulation those of the \
        governor's own run.",
        |s| {
            let best = s.oracle?;
            share((s.idle_energy()? - best).0 as f64, best.0 as f64)
        };
    relative_idle_power_pct optional leads(&[(Cost, 3), (Shadow, 2), (Power, 4)]):
        SHARE, Lower, "relative idle power", "If idle power is \
        unknown: energy of all sleeps; 100 % is all CPU time in the shallowest state. Power falls \
        by equal steps; target residencies imply the transitions.",
        |s| s.relative(s.idle.energy, Energy(i128::from(RELATIVE_UNIT.0) * s.cpu_time_ns));
    relative_over_oracle_pct optional leads(&[(Sentence, 9), (Power, 5)])
        over("relative_idle_power_pct") called("relative energy"):
        SHARE, Lower, "relative energy over oracle", "As \
        `over_oracle_pct`, with the energy of `relative_idle_power_pct`.",
        |s| s.oracle.and_then(|best| s.relative(s.idle.energy - best, best));
    rejected_entries optional: COUNT, Lower, "rejected entries", "Attempts to enter an idle state \
        that the driver refused (the sum of sysfs `rejected`).",
        |s| count(s.idle.of_states(|state| state.rejected));
    rejected_time_pct optional: SHARE, Lower, "time of rejected entries", "Share of all CPU time \
        that `rejected_entries` took: neither in a state nor busy. In a simulation it is 100 % \
        together with `idle_residency_pct`, which includes polling, and `busy_pct`.",
        |s| s.of_time(s.idle.rejected_time);
    demoted_entries optional: COUNT, Neither, "demoted entries", "Entries for which the hardware \
        entered a shallower state than the one requested, on a platform with `demote_to`.",
        |s| count(s.idle.of_states(|state| state.demoted));
    promoted_entries optional: COUNT, Neither, "promoted entries", "Entries for which the hardware \
        entered a deeper state than the one requested, on a platform with `promote_to`.",
        |s| count(s.idle.promoted);
    tick_wakeups leads(&[(Wakeups, 2)]):
        COUNT, Lower, "tick wake-ups", "Sleeps ended only by the tick, which the \
        governor had kept.", |s| count(s.idle.tick_wakeups);
    governor_timer_wakeups optional: COUNT, Lower, "governor's timer wake-ups", "Sleeps ended only \
        by a timer of the governor itself.", |s| count(s.idle.governor_timer_wakeups);
    governor_timer_starts optional: COUNT, Lower, "governor's timers started", "Timers that the \
        governor itself started, most of which are cancelled before they expire. Each takes \
        `timer_start_us` of the platform.", |s| count(s.idle.governor_timer_starts);
    poll_timeouts optional: COUNT, Lower, "poll time-outs", "Sleeps in a polling state that ended \
        at the polling limit.", |s| count(s.idle.poll_timeouts);
    poll_interrupts optional: COUNT, Neither, "interrupts while polling", "Wake-ups without a task \
        during a polling state, which did not end it: one sleep can have several.",
        |s| count(s.idle.poll_interrupts);
    ipis_saved optional: COUNT, Higher, "reschedule IPIs saved", "Wake-ups by another CPU during a \
        polling state, which notices them without an interrupt. MWAIT states of x86 need no \
        interrupt either, but do not count.", |s| count(s.idle.ipis_saved);
    delay_total_us of_replay_only sum leads(&[(Shadow, 7)]):
        TIME, Lower, "delay carried", "Sum over wake-ups of the delay \
        with which work began, compared with the recording. Late work delays the next sleep; idle \
        time absorbs it.", |s| us(Some(s.idle.delays.total()));
    delay_mean_us of_replay_only: TIME, Lower, "mean delay per event", "`delay_total_us` for each \
        event of the recording, including those that found the CPU awake with delayed work.",
        |s| us(s.idle.delays.mean());
    delay_p99_us of_replay_only: TIME, Lower, "p99 delay per event", "The delay that 99 % of \
        those events do not exceed, to 0.1 %.", |s| us(s.idle.delays.quantile(0.99));
    absorbed_spans of_replay_only: COUNT, Neither, "sleeps absorbed", "Idle spans of the recording \
        in which the CPU was still busy with delayed work, or got new work before it was asleep.",
        |s| count(s.idle.absorbed_spans);
    decision_time_mean_ns of_replay_only optional: NANOSECONDS, Lower, "mean time per decision",
        "Time of the governor's own code on this machine for `select` and `reflect`, including the \
        calls. Measured with `--time-decisions`; differs from run to run.",
        |s| ns(s.idle.decision_times.mean());
    decision_time_p50_ns of_replay_only optional: NANOSECONDS, Lower, "p50 time per decision",
        "The time that half of the decisions do not exceed.",
        |s| ns(s.idle.decision_times.quantile(0.50));
    decision_time_p99_ns of_replay_only optional: NANOSECONDS, Lower, "p99 time per decision",
        "The time that 99 % of the decisions do not exceed.",
        |s| ns(s.idle.decision_times.quantile(0.99));
};
