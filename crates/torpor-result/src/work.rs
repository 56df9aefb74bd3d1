// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Counters of a simulation besides those of idle CPUs, and the metrics computed from them.

use crate::idle::{COUNT, ENERGY, POWER, SHARE, TIME, count, power_mw, us};
use crate::latency::{Latencies, LatencyHistogram};
use crate::metric::Direction::{Higher, Lower, None as Neither};
use crate::metric::{Info, Kind, Metric, Place, Values, info, metrics};
use crate::summed::summed;
use torpor_machine::units::{Duration, Energy};

impl crate::summed::Summed for LatencyHistogram {
    fn add(&mut self, other: &LatencyHistogram) {
        LatencyHistogram::add(self, other);
    }
}

summed! {
    /// Counters of all tasks of a kind, including those that have ended.
    pub struct TaskTotals {
        pub started: u64,
        pub ended: u64,
        pub cpu_time: Duration,
        pub wakeups: u64,
        /// Time from the event that caused a wake-up until the task runs.
        pub latency: LatencyHistogram,
        /// Passes through the program, and the time of each.
        pub passes: u64,
        pub pass_time: LatencyHistogram,
        /// Requests whose results the tasks received, and the time since their submission.
        pub ios: u64,
        pub io_latency: LatencyHistogram,
        /// Periods that began while the task was still busy.
        pub missed: u64,
        pub migrations: u64,
        pub preemptions: u64,
    }
}

summed! {
    /// Counters of a control group, with those of the groups in it: its `cpu.stat`.
    pub struct CgroupTotals {
        pub cpu_time: Duration,
        pub periods: u64,
        pub throttled: u64,
        /// Time in which a CPU had its tasks wait for quota, summed over CPUs.
        pub throttled_time: Duration,
        pub bursts: u64,
        pub burst_time: Duration,
    }
}

impl CgroupTotals {
    /// Subtracts earlier counters of the same group.
    pub fn subtract(&mut self, earlier: &CgroupTotals) {
        self.cpu_time -= earlier.cpu_time;
        self.periods -= earlier.periods;
        self.throttled -= earlier.throttled;
        self.throttled_time -= earlier.throttled_time;
        self.bursts -= earlier.bursts;
        self.burst_time -= earlier.burst_time;
    }
}

/// Work of the whole machine over one run; `None` means unknown.
#[derive(Clone, Debug, Default)]
pub struct Work {
    pub span: Duration,
    /// Totals of all tasks.
    pub tasks: TaskTotals,
    /// Busy time of all CPUs: tasks, interrupts and switches.
    pub busy: Duration,
    /// Time with a request under way, of the busiest device.
    pub device_busy: Option<Duration>,
    /// Total energy.
    pub energy: Option<Energy>,
    pub frequency: Frequency,
    /// Time after the kernel ejected the sched_ext scheduler, if it did.
    pub ejected: Option<Duration>,
    /// Times of flows through several tasks, such as frames; late ones missed their deadline.
    pub flow_time: LatencyHistogram,
    /// Flows with a deadline.
    pub flows_ended: u64,
    pub flows_late: u64,
    pub ipis: u64,
    pub timer_programmings: u64,
    /// Energy lost in sleeps that a shallower, or a deeper, state would have made cheaper.
    pub lost_too_deep: Option<Energy>,
    pub lost_too_shallow: Option<Energy>,
}

/// Mean frequencies of clocks over runs; `None` if an OPP is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Frequency {
    /// Mean over all time and all CPUs.
    pub mean_khz: Option<f64>,
    /// Mean over the time that CPUs were busy; `None` if they never were.
    pub busy_khz: Option<f64>,
    pub transitions_per_s: Option<f64>,
    /// Share of time, over all CPUs, below the requested frequency: because of the package's power,
    /// and because of the number of active cores. `None` on a machine without such limits.
    pub power_limited_pct: Option<f64>,
    pub turbo_limited_pct: Option<f64>,
}

/// Metric of tasks or flows of one name.
pub struct NamedMetric<T: 'static> {
    pub info: Info,
    pub of: fn(&T, Duration) -> Option<f64>,
}

/// Flows of one name: the ended ones, and the number of late ones.
pub struct Flows {
    pub time: Latencies,
    /// `None` without a deadline.
    pub late: Option<u64>,
}

impl Work {
    fn per_s(&self, count: u64) -> Option<f64> {
        per_s(count, self.span)
    }

    fn share_of_span(&self, time: Duration) -> f64 {
        100.0 * time.0 as f64 / self.span.0 as f64
    }

    fn mw(&self, energy: Option<Energy>) -> Option<f64> {
        energy.map(|energy| power_mw(energy, self.span))
    }

    /// Returns the work if it has requests to a device.
    fn with_io(&self) -> Option<&Work> {
        Some(self).filter(|work| work.tasks.ios > 0)
    }
}

pub(crate) const RATE: (Kind, &str) = (Kind::Rate, "1/s");
const FREQUENCY: (Kind, &str) = (Kind::Frequency, "kHz");
/// A store refuses a count that has a fraction.
const RATIO: (Kind, &str) = (Kind::Figure, "");

/// Metrics of a simulation, in the order of the table; those of idle CPUs follow.
pub static METRICS: &[Metric] = metrics! {
    throughput leads(&[(Place::Sentence, 3), (Place::Work, 3)]):
        RATE, Higher, "passes", "Passes of all tasks through their programs, per second.",
        |s| s.work.as_ref().and_then(|w| w.per_s(w.tasks.passes));
    task_latency_mean_us: TIME, Lower, "mean task wake-up latency", "Time from the event that \
        wakes a task until the task runs: the idle state's latency, interrupt and IPI, and the \
        wait for a CPU. Over all wake-ups of all tasks.",
        |s| us(s.work.as_ref()?.tasks.latency.latencies().mean());
    task_latency_p99_us leads(&[(Place::Sentence, 12), (Place::Delay, 3)]):
        TIME, Lower, "p99 task wake-up latency", "The latency that 99 % of the \
        tasks' wake-ups do not exceed, to 0.1 %.",
        |s| us(s.work.as_ref()?.tasks.latency.latencies().quantile(0.99));
    task_latency_max_us: TIME, Lower, "max task wake-up latency", "The longest wake-up latency of \
        a task.", |s| us(s.work.as_ref()?.tasks.latency.latencies().max());
    missed_periods optional leads(&[(Place::Work, 5)]):
        COUNT, Lower, "missed periods", "Periods of a task at whose start it \
        was still busy: missed frames, for a renderer.", |s| count(s.work.as_ref()?.tasks.missed);
    flow_mean_us optional: TIME, Lower, "mean flow time", "From the start of a flow to its end, \
        such as a frame's, through all tasks that take part in it. Over all flows that have ended.",
        |s| us(s.work.as_ref()?.flow_time.latencies().mean());
    flow_p50_us optional: TIME, Lower, "p50 flow time", "The time that half of the flows do not \
        exceed, to 0.1 %.", |s| us(s.work.as_ref()?.flow_time.latencies().quantile(0.50));
    flow_p90_us optional: TIME, Lower, "p90 flow time", "The time that 90 % of the flows do not \
        exceed, to 0.1 %.", |s| us(s.work.as_ref()?.flow_time.latencies().quantile(0.90));
    flow_p99_us optional leads(&[(Place::Work, 4)]):
        TIME, Lower, "p99 flow time", "The time that 99 % of the flows do not \
        exceed, to 0.1 %.", |s| us(s.work.as_ref()?.flow_time.latencies().quantile(0.99));
    flow_p999_us optional: TIME, Lower, "p99.9 flow time", "The time that 99.9 % of the flows do \
        not exceed, to 0.1 %.", |s| us(s.work.as_ref()?.flow_time.latencies().quantile(0.999));
    flow_max_us optional: TIME, Lower, "max flow time", "The longest time from the start of a \
        flow to its end.", |s| us(s.work.as_ref()?.flow_time.latencies().max());
    flow_late_pct optional: SHARE, Lower, "flows late", "Share of ended flows with a deadline that \
        missed it: jank, for frames.",
        |s| {
            let work = s.work.as_ref().filter(|work| work.flows_ended > 0)?;
            Some(100.0 * work.flows_late as f64 / work.flows_ended as f64)
        };
    iops optional leads(&[(Place::Sentence, 2), (Place::Work, 1)]):
        RATE, Higher, "IO", "Requests to devices whose results were reaped by tasks, \
        per second.", |s| s.work.as_ref()?.with_io().and_then(|w| w.per_s(w.tasks.ios));
    io_latency_mean_us optional: TIME, Lower, "mean IO latency", "Time from a request's \
        submission until its task reaps the result (fio's `clat`): device, interrupt, wake-up and \
        the wait for a CPU. Over all \
        requests.", |s| us(s.work.as_ref()?.tasks.io_latency.latencies().mean());
    io_latency_p50_us optional: TIME, Lower, "p50 IO latency", "The latency that half of the \
        requests do not exceed, to 0.1 %.",
        |s| us(s.work.as_ref()?.tasks.io_latency.latencies().quantile(0.50));
    io_latency_p99_us optional leads(&[(Place::Work, 2)]):
        TIME, Lower, "p99 IO latency", "The latency that 99 % of the \
        requests do not exceed, to 0.1 %.",
        |s| us(s.work.as_ref()?.tasks.io_latency.latencies().quantile(0.99));
    io_latency_max_us optional: TIME, Lower, "max IO latency", "The longest latency of a request.",
        |s| us(s.work.as_ref()?.tasks.io_latency.latencies().max());
    device_util_pct optional: SHARE, Neither, "IO device busy", "Share of time with a request in \
        flight, as iostat's `%util`; of the busiest device.",
        |s| {
            let work = s.work.as_ref()?.with_io()?;
            work.device_busy.map(|busy| work.share_of_span(busy))
        };
    cpu_per_io_us optional: TIME, Lower, "CPU time per IO", "Time of all CPUs with tasks, \
        interrupts and switches, for each request in `iops`.",
        |s| s.work.as_ref()?.with_io().map(|w| w.busy.as_us_f64() / w.tasks.ios as f64);
    sleeps_per_io optional: RATIO, Neither, "sleeps per IO", "Entries into any idle state, of all \
        CPUs, for each request in `iops`: 1 if an IO wakes only the CPU of its task.",
        |s| {
            let ios = s.work.as_ref()?.with_io()?.tasks.ios;
            Some(s.sleeps() as f64 / ios as f64)
        };
    busy_pct: SHARE, Neither, "CPUs busy", "Share of all CPU time with tasks, interrupts and \
        switches; without ticks that woke an idle CPU.",
        |s| s.work.as_ref().map(|w| 100.0 * w.busy.0 as f64 / s.cpu_time_ns as f64);
    power_mw leads(&[(Place::Cost, 1), (Place::Sentence, 4), (Place::Power, 1)]):
        POWER, Lower, "power", "`idle_power_mw`, and the power of CPUs at work and of \
        offline CPUs.", |s| s.work.as_ref().and_then(|w| w.mw(w.energy));
    energy_uj sum: ENERGY, Lower, "energy", "`power_mw` over the simulated time.",
        |s| {
            s.work.as_ref()?.energy.map(Energy::as_uj_f64)
        };
    freq_khz optional: FREQUENCY, Neither, "frequency", "Mean frequency of the CPUs' clocks, over \
        all time and all CPUs. Unknown if the machine's OPPs are.",
        |s| s.work.as_ref()?.frequency.mean_khz;
    freq_busy_khz optional: FREQUENCY, Neither, "busy frequency", "The same over the time that \
        CPUs were busy.", |s| s.work.as_ref()?.frequency.busy_khz;
    freq_transitions_per_s optional: RATE, Neither, "frequency changes", "Frequency changes of all \
        clocks, per second.", |s| s.work.as_ref()?.frequency.transitions_per_s;
    power_limited_pct optional: SHARE, Lower, "limited by power", "Share of all CPU time in which \
        the hardware held a clock below the frequency that the kernel had requested, because of \
        `power_limit` of the platform.", |s| s.work.as_ref()?.frequency.power_limited_pct;
    turbo_limited_pct optional: SHARE, Lower, "limited by active cores", "The same because of \
        `turbo_khz`.", |s| s.work.as_ref()?.frequency.turbo_limited_pct;
    ejected_pct optional: SHARE, Lower, "without its scheduler", "Share of the time after the \
        kernel ejected the sched_ext scheduler: the fair class has the tasks then, so the other \
        metrics are not the scheduler's.", |s| {
            let work = s.work.as_ref()?;
            work.ejected.map(|time| work.share_of_span(time))
        };
    ipis: COUNT, Lower, "reschedule IPIs", "Interrupts sent to make another CPU check its \
        runqueue.", |s| count(s.work.as_ref()?.ipis);
    timer_programmings_per_s: RATE, Lower, "timer programmings", "Times that a CPU's clock event \
        device was set to its next expiry, of all CPUs, per second. In a virtual machine each of \
        them is an exit.", |s| s.work.as_ref().and_then(|w| w.per_s(w.timer_programmings));
    migrations: COUNT, Neither, "migrations", "Migrations of tasks to another CPU.",
        |s| count(s.work.as_ref()?.tasks.migrations);
    preemptions: COUNT, Neither, "preemptions", "Tasks that were preempted with work left.",
        |s| count(s.work.as_ref()?.tasks.preemptions);
    over_oracle_mw optional: POWER, Lower, "idle power over oracle", "`over_oracle_pct` as power.",
        |s| s.work.as_ref()?.mw(s.oracle.map(|best| s.total() - best));
    lost_too_deep_mw optional: POWER, Lower, "lost by too deep sleeps", "Excess power of sleeps \
        over the cheapest state for their length, if that was shallower.",
        |s| s.work.as_ref().and_then(|w| w.mw(w.lost_too_deep));
    lost_too_shallow_mw optional: POWER, Lower, "lost by too shallow sleeps", "Excess power of \
        sleeps over the cheapest state for their length, if that was deeper. Sleeps that a tick \
        cut short count as short: neither metric includes what longer ones would have saved.",
        |s| s.work.as_ref().and_then(|w| w.mw(w.lost_too_shallow));
};

const fn named<T>(
    key: &'static str,
    title: &'static str,
    kind: (Kind, &'static str),
    direction: crate::metric::Direction,
    of: fn(&T, Duration) -> Option<f64>,
) -> NamedMetric<T> {
    // A task without requests has no rows about a device.
    NamedMetric { info: info(key, title, kind, direction, "").optional(), of }
}

/// Metrics of each kind of task, in the order of its table.
pub static TASK_METRICS: [NamedMetric<TaskTotals>; 10] = [
    named("passes_per_s", "passes", RATE, Higher, |t, span| per_s(t.passes, span)),
    named("cpu_time_pct", "CPU time", SHARE, Neither, |t, span| {
        Some(100.0 * t.cpu_time.0 as f64 / span.0 as f64)
    }),
    named("pass_time_mean_us", "pass time, mean", TIME, Lower, |t, _| {
        us(t.pass_time.latencies().mean())
    }),
    named("pass_time_p99_us", "pass time, p99", TIME, Lower, |t, _| {
        us(t.pass_time.latencies().quantile(0.99))
    }),
    named("missed_per_s", "missed periods", RATE, Lower, |t, span| per_s(t.missed, span)),
    named("latency_mean_us", "mean wake-up latency", TIME, Lower, |t, _| {
        us(t.latency.latencies().mean())
    }),
    named("latency_p99_us", "p99 wake-up latency", TIME, Lower, |t, _| {
        us(t.latency.latencies().quantile(0.99))
    }),
    named("ios_per_s", "IO", RATE, Higher, |t, span| per_s(t.ios, span)),
    named("io_latency_mean_us", "mean IO latency", TIME, Lower, |t, _| {
        us(t.io_latency.latencies().mean())
    }),
    named("io_latency_p99_us", "p99 IO latency", TIME, Lower, |t, _| {
        us(t.io_latency.latencies().quantile(0.99))
    }),
];

/// Metrics of each flow.
pub static FLOW_METRICS: [NamedMetric<Flows>; 7] = [
    named("flows_per_s", "ended", RATE, Higher, |f, span| per_s(f.time.count(), span)),
    named("flow_mean_us", "mean", TIME, Lower, |f, _| us(f.time.mean())),
    named("flow_p50_us", "p50", TIME, Lower, |f, _| us(f.time.quantile(0.50))),
    named("flow_p99_us", "p99", TIME, Lower, |f, _| us(f.time.quantile(0.99))),
    named("flow_p999_us", "p99.9", TIME, Lower, |f, _| us(f.time.quantile(0.999))),
    named("flow_max_us", "max", TIME, Lower, |f, _| us(f.time.max())),
    named("flow_late_pct", "late", SHARE, Lower, |f, _| {
        let ended = f.time.count();
        f.late.filter(|_| ended > 0).map(|late| 100.0 * late as f64 / ended as f64)
    }),
];

/// Metrics of each control group.
pub static CGROUP_METRICS: [NamedMetric<CgroupTotals>; 4] = [
    named("cgroup_cpu_time_pct", "CPU time", SHARE, Neither, |g, span| {
        Some(100.0 * g.cpu_time.0 as f64 / span.0 as f64)
    }),
    named("cgroup_periods_per_s", "quota periods", RATE, Neither, |g, span| {
        (g.periods > 0).then(|| per_s(g.periods, span)).flatten()
    }),
    named("cgroup_throttled_pct", "throttled periods", SHARE, Lower, |g, _| {
        (g.periods > 0).then(|| 100.0 * g.throttled as f64 / g.periods as f64)
    }),
    named("cgroup_throttled_time_pct", "throttled time", SHARE, Lower, |g, span| {
        (g.periods > 0).then(|| 100.0 * g.throttled_time.0 as f64 / span.0 as f64)
    }),
];

fn per_s(count: u64, span: Duration) -> Option<f64> {
    Some(count as f64 * 1e9 / span.0 as f64)
}

/// The values of one kind of task over one run.
pub fn of_tasks(totals: &TaskTotals, span: Duration) -> Values {
    TASK_METRICS.iter().map(|m| (m.info.key(), (m.of)(totals, span))).collect()
}

/// Returns the metrics of a kind of task.
pub fn task_catalogue() -> Vec<Info> {
    TASK_METRICS.iter().map(|m| m.info.clone()).collect()
}

/// The values of flows of one name over one run.
pub fn of_flows(flows: &Flows, span: Duration) -> Values {
    FLOW_METRICS.iter().map(|m| (m.info.key(), (m.of)(flows, span))).collect()
}

pub fn flow_catalogue() -> Vec<Info> {
    FLOW_METRICS.iter().map(|m| m.info.clone()).collect()
}

/// The values of one control group over one run.
pub fn of_cgroups(totals: &CgroupTotals, span: Duration) -> Values {
    CGROUP_METRICS.iter().map(|m| (m.info.key(), (m.of)(totals, span))).collect()
}

pub fn cgroup_catalogue() -> Vec<Info> {
    CGROUP_METRICS.iter().map(|m| m.info.clone()).collect()
}
