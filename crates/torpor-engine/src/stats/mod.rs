// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Statistics of a recorded machine: states, wake-ups, tasks, interrupts, latency, tick.

mod ending;
mod latency;
mod outcome;
mod refill;

#[cfg(test)]
mod tests;

use crate::input::{TickFunction, TickGrid, tick_function};
use crate::model::{CpuModel, Verdict};
use crate::timeline::{Change, Fold, Moment, Run, Sleep, Timeline};
use crate::trace_info::TraceInfo;
pub(crate) use ending::Cause;
use ending::Ending;
pub use latency::{Latencies, Reading, measurement, reading};
pub use outcome::{
    CauseTime, InterruptStats, LatencyStats, LeftOut, LeftOutStats, Measurement, PlatformLines,
    RefillStats, RefillVerdict, StateStats, TaskStats, TickStats, TraceStats, VerdictCheck,
    VerdictSource, WakeupStats,
};
pub use refill::Bursts;
use std::collections::{BTreeMap, HashMap};
use torpor_machine::counters::{Delta, StateDelta};
use torpor_machine::platform::{Cluster, IdleState, Platform};
use torpor_machine::units::{CpuId, Duration, Instant, NSEC_PER_SEC, StateIdx};
use torpor_result::record::Head;
use torpor_trace::{Event, EventKind, InterruptCause, Name, Names, SoFar, Timer, Trace};

/// Counts while a recording is read.
#[derive(Default)]
pub struct Stats<'a> {
    platform: Option<&'a Platform>,
    /// Models of each cluster of the platform.
    models: Vec<CpuModel>,
    cpus: BTreeMap<CpuId, Cpu>,
    states: BTreeMap<(CpuId, usize), Counts>,
    wakeups: BTreeMap<Cause, Counts>,
    tasks: BTreeMap<Option<Name>, Task>,
    interrupts: BTreeMap<Cause, Interrupt>,
    latency: Latencies,
    /// Expiry of each armed hrtimer.
    armed: HashMap<Timer, Instant>,
    tick: Option<TickFunction>,
    is_tick_known: bool,
    /// The first part has the arrival of an IPI, so all that arrive are recorded.
    shows_ipis: bool,
    /// A `sched_wakeup` alone may be written by the woken CPU.
    has_wakings: bool,
    tick_stops: [u64; 2],
    cut_sleeps: u64,
    verdicts: VerdictCheck,
    /// Settled sleeps, if requested.
    log: Option<Vec<Ended>>,
}

/// A recorded sleep, and its cause.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub cpu: CpuId,
    pub state: usize,
    pub entry: Instant,
    pub exit: Instant,
    /// Time from the event that ended it to the exit, if the recording shows it.
    pub latency: Option<Duration>,
    pub(crate) cause: Cause,
    /// The task that ran first afterwards, and its name if known.
    pub ran: Option<Option<Name>>,
}

impl Ended {
    /// Returns the kind and the name of its cause, as in [`WakeupStats`].
    pub fn cause(&self, names: &Names) -> (&'static str, String) {
        spelled(self.cause, names)
    }
}

#[derive(Default)]
struct Cpu {
    /// What belongs to the sleep that is not settled.
    ending: Option<Ending>,
    /// An IPI was sent to it while it was awake, and has not arrived.
    is_called: bool,
    /// Interrupts that have not returned, the outermost first.
    handlers: Vec<(Cause, Instant)>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    count: u64,
    time_ns: i64,
    above: u64,
    below: u64,
    miss_above: u64,
    miss_below: u64,
    /// Too deep by the rule, without a `cpu_idle_miss` event.
    unexplained: u64,
}

#[derive(Clone, Copy, Default)]
struct Task {
    after_sleeps: Counts,
    switches: u64,
    run_ns: i64,
}

#[derive(Clone, Copy, Default)]
struct Interrupt {
    count: u64,
    returned: u64,
    handler_ns: i64,
}

impl Counts {
    fn add(&mut self, slept: Duration, verdict: Verdict, miss: Verdict) {
        self.count += 1;
        self.unexplained += u64::from(verdict == Verdict::Above && miss == Verdict::Fit);
        self.time_ns += slept.0;
        self.above += u64::from(verdict == Verdict::Above);
        self.below += u64::from(verdict == Verdict::Below);
        self.miss_above += u64::from(miss == Verdict::Above);
        self.miss_below += u64::from(miss == Verdict::Below);
    }

    /// Returns the counts above and below by the given source.
    fn wrong(&self, source: Option<VerdictSource>) -> (Option<u64>, Option<u64>) {
        match source {
            None => (None, None),
            Some(VerdictSource::CpuIdleMiss) => (Some(self.miss_above), Some(self.miss_below)),
            Some(VerdictSource::Platform) => (Some(self.above), Some(self.below)),
        }
    }
}

impl<'a> Stats<'a> {
    /// Starts counting. A platform names states and clusters, and judges sleeps if the recording
    /// has no `cpu_idle_miss`.
    pub fn new(platform: Option<&'a Platform>) -> Stats<'a> {
        let models = platform.map_or_else(Vec::new, |platform| {
            let of = |cluster| verdicts(platform, cluster);
            platform.clusters.iter().map(of).collect()
        });
        Stats { platform, models, ..Stats::default() }
    }

    /// Starts counting, and keeps the cause of each sleep's end.
    pub fn logging() -> Stats<'a> {
        Stats { log: Some(Vec::new()), ..Stats::new(None) }
    }

    /// Returns the sleeps of the recording with their causes.
    pub fn into_log(self) -> Vec<Ended> {
        self.log.unwrap_or_default()
    }

    fn observe(&mut self, moment: &Moment<'_>) {
        let Event { time, cpu: number, .. } = *moment.event;
        match moment.event.kind {
            EventKind::SchedWaking { .. } => self.has_wakings = true,
            EventKind::SchedSwitch { next_pid, next_comm, .. } if next_pid != 0 => {
                self.tasks.entry(next_comm).or_default().switches += 1;
            }
            EventKind::IpiSend { target_cpu, .. } if target_cpu != number => {
                let sleep = moment.timeline.sleep(target_cpu);
                self.cpu(target_cpu).is_called |= !sleep.is_some_and(|sleep| sleep.covers(time));
            }
            EventKind::TickStop { success } => self.tick_stops[usize::from(success)] += 1,
            EventKind::HrtimerStart { timer, expires, .. } => {
                self.armed.insert(timer, expires.get());
            }
            EventKind::HrtimerCancel { timer } => {
                self.armed.remove(&timer);
            }
            EventKind::HrtimerExpireEntry { timer, function, now } => {
                // The hardware was not armed for a timer that only its slack lets expire. Those
                // of other clock bases are years away.
                let now = now.get();
                let is_near = time.since(now).0.abs() < NSEC_PER_SEC;
                let due = self.armed.remove(&timer).filter(|&due| due <= now && is_near);
                let is_tick = self.tick.as_ref().is_some_and(|tick| tick.is(function));
                let cause = if is_tick { Cause::Tick } else { Cause::Timer(function) };
                self.with_sleep(moment, |ending, sleep| ending.hrtimer(sleep, cause, due));
            }
            EventKind::TimerExpireEntry { function, .. } => {
                let cause = Cause::Timer(function);
                self.with_sleep(moment, |ending, _| ending.wheel_timer(cause));
            }
            EventKind::CpuIdleMiss { below, .. } => {
                let miss = if below { Verdict::Below } else { Verdict::Above };
                self.with_sleep(moment, |ending, _| ending.miss = Some(miss));
            }
            EventKind::IrqEntry { irq, name } => {
                self.enter(moment, Cause::Irq(irq, name));
                // An arm64 kernel has an interrupt number for each kind of IPI and one name for
                // all; only the sender's event shows the purpose.
                if name.is_some_and(|name| moment.names.text(name) == "IPI") {
                    self.cpu(number).is_called = false;
                    self.with_sleep(moment, |ending, sleep| ending.is_ipi(sleep, irq));
                }
            }
            EventKind::IrqExit { .. } | EventKind::InterruptExit { .. } => {
                self.leave(moment);
            }
            EventKind::InterruptEntry { cause } => self.enter(moment, Cause::Ipi(cause)),
            EventKind::SoftirqExit { .. } => {
                self.with_sleep(moment, |ending, sleep| ending.softirq_ended(sleep, time));
            }
            _ => {}
        }
    }

    fn cpu(&mut self, number: CpuId) -> &mut Cpu {
        self.cpus.entry(number).or_default()
    }

    /// Updates what is known of the CPU's sleep: the current one, or the last one until a task has
    /// run.
    fn with_sleep(&mut self, moment: &Moment<'_>, see: impl FnOnce(&mut Ending, &Sleep)) {
        let cpu = moment.event.cpu;
        if let (Some(ending), Some(sleep)) = (&mut self.cpu(cpu).ending, moment.timeline.sleep(cpu))
        {
            see(ending, sleep);
        }
    }

    fn fall_asleep(&mut self, moment: &Moment<'_>) {
        let number = moment.event.cpu;
        let Some(&Sleep { state, .. }) = moment.timeline.sleep(number) else { return };
        let shows_polling = self.shows_ipis || self.polls(number, state);
        let cpu = self.cpu(number);
        let is_sent_before = std::mem::take(&mut cpu.is_called);
        cpu.ending = Some(Ending { is_sent_before, shows_polling, ..Ending::default() });
        // No CPU idles in an interrupt: remaining handlers have no recorded exit.
        cpu.handlers.clear();
    }

    /// Returns true if the state is known to poll.
    fn polls(&self, number: CpuId, state: StateIdx) -> bool {
        let cluster =
            |platform: &'a Platform| Some(&platform.clusters[platform.cluster_of(number)?]);
        let cluster = self.platform.and_then(cluster);
        let state = cluster.and_then(|cluster| cluster.idle_states.get(state.index()?));
        state.is_some_and(IdleState::is_polling)
    }

    fn enter(&mut self, moment: &Moment<'_>, cause: Cause) {
        let Event { time, cpu: number, .. } = *moment.event;
        self.interrupts.entry(cause).or_default().count += 1;
        let cpu = self.cpu(number);
        cpu.handlers.push((cause, time));
        cpu.is_called &= matches!(cause, Cause::Irq(..) | Cause::Ipi(InterruptCause::LocalTimer));
        self.with_sleep(moment, |ending, _| ending.interrupted(cause, time));
    }

    fn leave(&mut self, moment: &Moment<'_>) {
        let Event { time, cpu: number, .. } = *moment.event;
        let handlers = &mut self.cpu(number).handlers;
        let handler = handlers.pop();
        if handlers.is_empty() {
            self.with_sleep(moment, |ending, sleep| ending.interrupt_returned(sleep, time));
        }
        if let Some((cause, since)) = handler {
            let counted = self.interrupts.entry(cause).or_default();
            counted.returned += 1;
            counted.handler_ns += time.since(since).0;
        }
    }

    /// Counts a sleep about which all is known.
    fn settle(&mut self, sleep: &Sleep) {
        let Sleep { cpu: number, entry, ran, .. } = *sleep;
        let Some(ending) = self.cpu(number).ending.take() else { return };
        let (Some(state), Some(exit)) = (sleep.state.index(), sleep.exit) else {
            self.cut_sleeps += 1;
            return;
        };
        let (place, advertised) = self.place(number, state);
        let measured = match ending.latency(sleep, advertised) {
            Ok((CauseTime::Waking, _)) if !self.has_wakings => Err(LeftOut::Unknown),
            measured => measured,
        };
        self.latency.add(place, measured);
        let cause = ending.cause(sleep);
        if let Some(log) = &mut self.log {
            let known = measured.ok().filter(|(cause, _)| *cause != CauseTime::Interrupt);
            let latency = known.map(|(_, latency)| latency);
            log.push(Ended { cpu: number, state, entry, exit, latency, cause, ran });
        }
        let slept = exit.since(entry);
        let miss = ending.miss.unwrap_or(Verdict::Fit);
        let cluster = self.platform.and_then(|platform| platform.cluster_of(number));
        let model = cluster.map(|cluster| &self.models[cluster]);
        let verdict = match model.filter(|model| state < model.states.len()) {
            Some(model) => {
                let verdict = model.verdict(state, slept);
                self.verdicts.compared += 1;
                self.verdicts.agreeing += u64::from(verdict == miss);
                verdict
            }
            None => Verdict::Fit,
        };
        self.states.entry((number, state)).or_default().add(slept, verdict, miss);
        self.wakeups.entry(cause).or_default().add(slept, verdict, miss);
        if let Some(comm) = ran {
            self.tasks.entry(comm).or_default().after_sleeps.add(slept, verdict, miss);
        }
    }

    /// Returns the statistics of the recording that `trace` describes. `counters` is the growth of
    /// sysfs counters meanwhile.
    pub fn finish(mut self, path: &str, trace: &Trace, counters: Option<&Delta>) -> TraceStats {
        let source = match (trace.carries.cpu_idle_miss, self.platform) {
            (true, _) => Some(VerdictSource::CpuIdleMiss),
            (false, Some(_)) => Some(VerdictSource::Platform),
            (false, None) => None,
        };
        self.verdicts.rejected = counters.map_or(0, |delta| self.rejected(delta));
        self.verdicts.compared -= self.verdicts.rejected;
        let tick_stops = |index: usize| trace.carries.tick_stop.then_some(self.tick_stops[index]);
        TraceStats {
            head: Head::of("trace_stats"),
            trace: TraceInfo::new(path, trace),
            platform: self.platform.map(|platform| platform.name.clone()),
            verdict_source: source,
            verdicts: (trace.carries.cpu_idle_miss && self.verdicts.compared > 0)
                .then_some(self.verdicts),
            sleeps: self.states.values().map(|counts| counts.count).sum(),
            cut_sleeps: self.cut_sleeps,
            tick: TickStats {
                stopped: tick_stops(1),
                refused: tick_stops(0),
                wakeups: trace
                    .carries
                    .hrtimers
                    .then(|| self.wakeups.get(&Cause::Tick).map_or(0, |counts| counts.count)),
            },
            states: self.state_stats(source, counters),
            wakeups: self.wakeup_stats(source, &trace.names),
            tasks: self.task_stats(source, &trace.names),
            interrupts: self.interrupt_stats(&trace.names),
            latency: std::mem::take(&mut self.latency).rows(self.platform),
        }
    }

    /// Returns the number of sleeps that only the rule calls too deep and that the driver's
    /// refusals explain.
    fn rejected(&self, delta: &Delta) -> u64 {
        let of_cpus = delta.cpus.iter().flat_map(|cpu| cpu.states.iter().map(|s| (cpu.cpu, s)));
        let explained = of_cpus.map(|(cpu, state)| {
            let counts = self.states.get(&(cpu, state.index as usize));
            let unexplained = counts.map_or(0, |counts| counts.unexplained);
            unexplained.min(state.rejected.unwrap_or(0))
        });
        explained.sum()
    }

    fn state_stats(
        &self,
        source: Option<VerdictSource>,
        counters: Option<&Delta>,
    ) -> Vec<StateStats> {
        let of_cpus = counters.iter().flat_map(|delta| &delta.cpus);
        let counted: BTreeMap<(CpuId, usize), &StateDelta> = of_cpus
            .flat_map(|cpu| cpu.states.iter().map(|state| ((cpu.cpu, state.index as usize), state)))
            .collect();
        // A state that a driver always rejects was never entered.
        let mut states = self.states.clone();
        for (key, _) in counted.iter().filter(|(_, state)| state.rejected > Some(0)) {
            states.entry(*key).or_default();
        }
        let of = |(&(cpu, state), counts): (&(CpuId, usize), &Counts)| {
            let cluster = self.platform.and_then(|platform| {
                platform.cluster_of(cpu).map(|cluster| &platform.clusters[cluster])
            });
            let (above, below) = counts.wrong(source);
            StateStats {
                cpu: cpu.0,
                cluster: cluster.map(|cluster| cluster.name.clone()),
                state,
                name: cluster
                    .and_then(|cluster| cluster.idle_states.get(state))
                    .map(|state| state.name.clone()),
                usage: counts.count,
                time_ns: counts.time_ns,
                above,
                below,
                rejected: counted.get(&(cpu, state)).and_then(|counted| counted.rejected),
            }
        };
        states.iter().map(of).collect()
    }

    fn wakeup_stats(&self, source: Option<VerdictSource>, names: &Names) -> Vec<WakeupStats> {
        // Several functions or interrupts may share a name.
        let mut by_name: BTreeMap<(&'static str, String), Counts> = BTreeMap::new();
        for (&cause, counts) in &self.wakeups {
            let sum = by_name.entry(spelled(cause, names)).or_default();
            sum.count += counts.count;
            sum.time_ns += counts.time_ns;
            sum.above += counts.above;
            sum.below += counts.below;
            sum.miss_above += counts.miss_above;
            sum.miss_below += counts.miss_below;
        }
        let of = |((kind, name), counts): ((&'static str, String), Counts)| {
            let (above, below) = counts.wrong(source);
            let (count, slept_ns) = (counts.count, counts.time_ns);
            WakeupStats { kind, name, count, slept_ns, above, below }
        };
        let mut all: Vec<WakeupStats> = by_name.into_iter().map(of).collect();
        all.sort_by_key(|wakeup| std::cmp::Reverse(wakeup.count));
        all
    }

    fn task_stats(&self, source: Option<VerdictSource>, names: &Names) -> Vec<TaskStats> {
        let of = |(comm, task): (&Option<Name>, &Task)| {
            let (above, below) = task.after_sleeps.wrong(source);
            TaskStats {
                comm: comm.map_or("not known", |comm| names.text(comm)).to_owned(),
                wakeups: task.after_sleeps.count,
                switches: task.switches,
                run_ns: task.run_ns,
                above,
                below,
            }
        };
        let mut all: Vec<TaskStats> = self.tasks.iter().map(of).collect();
        all.sort_by(|a, b| {
            (b.wakeups, b.switches).cmp(&(a.wakeups, a.switches)).then(a.comm.cmp(&b.comm))
        });
        all
    }

    fn interrupt_stats(&self, names: &Names) -> Vec<InterruptStats> {
        let mut by_name: BTreeMap<(&'static str, String), Interrupt> = BTreeMap::new();
        for (&cause, counted) in &self.interrupts {
            let sum = by_name.entry(spelled(cause, names)).or_default();
            sum.count += counted.count;
            sum.returned += counted.returned;
            sum.handler_ns += counted.handler_ns;
        }
        let of = |((kind, name), counted): ((&'static str, String), Interrupt)| {
            let handler_ns = (counted.returned > 0).then_some(counted.handler_ns);
            InterruptStats { kind, name, count: counted.count, handler_ns }
        };
        let mut all: Vec<InterruptStats> = by_name.into_iter().map(of).collect();
        all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        all
    }
}

/// Returns the model of a cluster with all states enabled and no latency limit.
fn verdicts(platform: &Platform, cluster: &Cluster) -> CpuModel {
    let grid = TickGrid::new(platform.hz, Duration::ZERO);
    CpuModel::new(platform, cluster, grid, Duration::MAX, |_| false)
}

pub(crate) fn spelled(cause: Cause, names: &Names) -> (&'static str, String) {
    match cause {
        Cause::Timer(id) => match names.symbol(id) {
            Some(symbol) => ("timer", symbol.to_owned()),
            None => ("timer", format!("{:#x}", names.function_of(id).address)),
        },
        Cause::Tick => ("tick", "tick".to_owned()),
        Cause::Irq(irq, name) => {
            ("irq", name.map_or_else(|| format!("irq {irq}"), |name| names.text(name).to_owned()))
        }
        Cause::Ipi(cause) => match cause {
            InterruptCause::LocalTimer => ("timer", "local timer".into()),
            InterruptCause::Reschedule => ("ipi", "reschedule".into()),
            InterruptCause::CallFunction => ("ipi", "call function".into()),
            InterruptCause::IrqWork => ("ipi", "irq work".into()),
            InterruptCause::Other => ("ipi", "other".into()),
        },
        Cause::Waking => ("waking", "a task on another CPU".to_owned()),
        Cause::Poll => ("poll", "need_resched, no interrupt".to_owned()),
        Cause::Unknown => ("unknown", "not recorded".to_owned()),
    }
}

/// Returns true for the arrival of an IPI.
fn is_arrival(event: &Event, names: &Names) -> bool {
    match event.kind {
        EventKind::InterruptEntry { cause } => {
            !matches!(cause, InterruptCause::LocalTimer | InterruptCause::Other)
        }
        EventKind::IrqEntry { name, .. } => name.is_some_and(|name| names.text(name) == "IPI"),
        _ => false,
    }
}

impl Fold for Stats<'_> {
    fn part(&mut self, events: &[Event], so_far: &SoFar<'_>) {
        // The first part has a million events, or all of them.
        if !std::mem::replace(&mut self.is_tick_known, true) {
            self.tick = tick_function(events, so_far);
            self.shows_ipis = events.iter().any(|event| is_arrival(event, so_far.names));
        }
    }

    fn take(&mut self, moment: &Moment<'_>) {
        if let Some(sleep) = moment.change.settled() {
            self.settle(sleep);
        }
        let left = match moment.change {
            Change::Slept { lost, .. } => {
                self.fall_asleep(moment);
                lost
            }
            Change::Switched { left, .. } => left.filter(|run| run.pid != 0),
            Change::Woke { is_known } => {
                self.cut_sleeps += u64::from(!is_known);
                None
            }
            Change::None => None,
        };
        if let Some(Run { comm, since, .. }) = left {
            self.tasks.entry(comm).or_default().run_ns += moment.event.time.since(since).0;
        }
        self.observe(moment);
    }

    fn end(&mut self, timeline: &Timeline) {
        timeline.unsettled().for_each(|sleep| self.settle(sleep));
    }

    /// Returns the memory of the settled sleeps.
    fn held_bytes(&self) -> u64 {
        let ended = self.log.as_ref().map_or(0, Vec::capacity);
        ended.saturating_mul(size_of::<Ended>()) as u64
    }
}
