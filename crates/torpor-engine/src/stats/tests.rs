// SPDX-License-Identifier: MIT OR GPL-2.0-only

use super::*;
use crate::timeline::Folding;
use torpor_machine::counters::CpuDelta;
use torpor_trace::{Carries, Function, FunctionId, Timer};

const TIMER: Timer = Timer(7);

struct Recording {
    names: Names,
    events: Vec<Event>,
}

impl Recording {
    fn new() -> Recording {
        Recording { names: Names::default(), events: Vec::new() }
    }

    fn push(&mut self, time_us: i64, cpu: u32, kind: EventKind) {
        self.events.push(Event { time: Instant(time_us * 1_000), cpu: CpuId(cpu), kind });
    }

    fn function(&mut self, symbol: Option<&str>) -> FunctionId {
        let symbol = symbol.map(|text| self.names.intern(text));
        self.names.function(Function { address: 1, symbol }).unwrap()
    }

    fn enter(&mut self, time_us: i64, cpu: u32, state: i32) {
        self.push(time_us, cpu, EventKind::CpuIdle { state: StateIdx(state) });
    }

    fn exit(&mut self, time_us: i64, cpu: u32) {
        self.enter(time_us, cpu, -1);
    }

    fn run(&mut self, time_us: i64, cpu: u32, pid: i32, comm: &str) {
        let next_comm = Some(self.names.intern(comm));
        let prev_state = torpor_trace::PrevState::Runnable;
        let kind = EventKind::SchedSwitch { prev_pid: 0, prev_state, next_pid: pid, next_comm };
        self.push(time_us, cpu, kind);
    }

    fn stats(self, platform: Option<&Platform>, carries: Carries) -> TraceStats {
        self.counted(platform, carries, None)
    }

    fn counted(
        self,
        platform: Option<&Platform>,
        carries: Carries,
        counters: Option<&Delta>,
    ) -> TraceStats {
        let Recording { names, events } = self;
        let trace = Trace { names, events, carries, ..Trace::default() };
        Folding::whole(&trace, Stats::new(platform)).finish("a recording", &trace, counters)
    }

    /// Arms the timer of a CPU, lets the CPU sleep from 100 on, and handles the timer at `fires`.
    fn timed(&mut self, due_us: i64, exit_us: i64, fires_us: i64) {
        let function = self.function(None);
        let expires = Instant(due_us * 1_000).into();
        let start =
            EventKind::HrtimerStart { timer: TIMER, function, expires, softexpires: expires };
        self.push(0, 0, start);
        self.enter(100, 0, 1);
        let (cause, now) = (InterruptCause::LocalTimer, Instant(fires_us * 1_000).into());
        self.push(fires_us, 0, EventKind::InterruptEntry { cause });
        self.push(fires_us, 0, EventKind::HrtimerExpireEntry { timer: TIMER, function, now });
        self.push(fires_us + 2, 0, EventKind::InterruptExit { cause });
        self.exit(exit_us, 0);
    }

    /// Has CPU 0 send an IPI to CPU 1, which handles it.
    fn ipi(&mut self, at_us: i64) {
        let cause = InterruptCause::Reschedule;
        self.push(at_us, 0, EventKind::IpiSend { target_cpu: CpuId(1), cause });
    }

    fn handle_ipi(&mut self, at_us: i64) {
        let cause = InterruptCause::Reschedule;
        self.push(at_us, 1, EventKind::InterruptEntry { cause });
        self.push(at_us + 1, 1, EventKind::InterruptExit { cause });
    }

    fn measured(mut self, platform: Option<&Platform>) -> Measurement {
        self.events.sort_by_key(|event| event.time);
        let trace = Trace { names: self.names, events: self.events, ..Trace::default() };
        let read = Folding::whole(&trace, reading(platform));
        let info = TraceInfo::new("some/recording.dat", &Trace::default());
        measurement(platform, vec![(info, read)])
    }
}

fn only<T>(mut all: Vec<T>) -> T {
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn interrupt_is_the_cause_task_the_reason() {
    let mut made = Recording::new();
    let name = Some(made.names.intern("eth0"));
    made.enter(0, 0, 1);
    made.exit(50, 0);
    made.push(51, 0, EventKind::IrqEntry { irq: 11, name });
    made.push(55, 0, EventKind::IrqExit { irq: 11 });
    // A second interrupt has nothing to do with the sleep.
    made.push(56, 0, EventKind::IrqEntry { irq: 12, name: None });
    made.push(57, 0, EventKind::IrqExit { irq: 12 });
    made.run(60, 0, 42, "cat");
    made.run(90, 0, 0, "swapper/0");
    let stats = made.stats(None, Carries::default());
    let wakeup = only(stats.wakeups);
    assert_eq!((wakeup.kind, &*wakeup.name, wakeup.count), ("irq", "eth0", 1));
    assert_eq!((wakeup.slept_ns, wakeup.above), (50_000, None));
    let task = only(stats.tasks);
    assert_eq!((&*task.comm, task.wakeups, task.switches, task.run_ns), ("cat", 1, 1, 30_000));
    let counted: Vec<_> = stats.interrupts.iter().map(|i| (&*i.name, i.handler_ns)).collect();
    assert_eq!(counted, [("eth0", Some(4_000)), ("irq 12", Some(1_000))]);
}

#[test]
fn first_expired_timer_explains_the_interrupt() {
    let mut made = Recording::new();
    let function = made.function(Some("hrtimer_wakeup"));
    let expires = Instant(40_000).into();
    made.push(
        0,
        0,
        EventKind::HrtimerStart { timer: TIMER, function, expires, softexpires: expires },
    );
    made.enter(5, 0, 1);
    made.exit(45, 0);
    let cause = InterruptCause::LocalTimer;
    made.push(46, 0, EventKind::InterruptEntry { cause });
    let now = Instant(46_000).into();
    made.push(46, 0, EventKind::HrtimerExpireEntry { timer: TIMER, function, now });
    made.push(47, 0, EventKind::InterruptExit { cause });
    let stats = made.stats(None, Carries::default());
    let wakeup = only(stats.wakeups);
    assert_eq!((wakeup.kind, &*wakeup.name), ("timer", "hrtimer_wakeup"));
    // Due at 40, awake at 45.
    let latency = only(stats.latency);
    assert_eq!((latency.state, latency.count, latency.p50_ns), (1, 1, 5_000));
}

#[test]
fn latency_starts_at_another_cpus_waking() {
    let mut made = Recording::new();
    made.enter(0, 1, 2);
    made.push(100, 0, EventKind::SchedWaking { pid: 9, target_cpu: CpuId(1) });
    made.exit(130, 1);
    made.run(131, 1, 9, "worker");
    let stats = made.stats(None, Carries::default());
    assert_eq!(only(stats.wakeups).kind, "waking");
    let latency = only(stats.latency);
    assert_eq!((latency.cause, latency.p50_ns), (CauseTime::Waking, 30_000));
}

/// Without IPI events, an IPI may have woken the CPU. The arrival of one shows that all are recorded.
#[test]
fn polling_is_no_cause_without_proof() {
    let kinds = |has_ipis: bool, platform: Option<&Platform>, state| {
        let mut made = Recording::new();
        if has_ipis {
            made.handle_ipi(0);
        }
        made.enter(10, 1, state);
        made.push(100, 0, EventKind::SchedWaking { pid: 9, target_cpu: CpuId(1) });
        made.exit(130, 1);
        made.run(131, 1, 9, "worker");
        only(made.stats(platform, Carries::default()).wakeups).kind
    };
    let i5 = torpor_machine::platform::resolve("i5-10600k").unwrap();
    assert_eq!((kinds(false, None, 0), kinds(true, None, 0)), ("waking", "poll"));
    assert_eq!((kinds(false, Some(&i5), 0), kinds(false, Some(&i5), 1)), ("poll", "waking"));
}

#[test]
fn sender_names_the_purpose_of_an_arm64_ipi() {
    let mut made = Recording::new();
    let name = Some(made.names.intern("IPI"));
    made.enter(0, 1, 0);
    let cause = InterruptCause::CallFunction;
    made.push(10, 0, EventKind::IpiSend { target_cpu: CpuId(1), cause });
    made.exit(11, 1);
    made.push(12, 1, EventKind::IrqEntry { irq: 2, name });
    made.push(13, 1, EventKind::IrqExit { irq: 2 });
    let stats = made.stats(None, Carries::default());
    let wakeup = only(stats.wakeups);
    assert_eq!((wakeup.kind, &*wakeup.name), ("ipi", "call function"));
    let latency = only(stats.latency);
    assert_eq!((latency.cause, latency.p50_ns), (CauseTime::Ipi, 1_000));
    assert_eq!(stats.tick.wakeups, None);
}

#[test]
fn kernels_verdict_comes_before_the_platforms() {
    let sleep = |made: &mut Recording, from: i64, to: i64, state| {
        made.enter(from, 0, state);
        made.exit(to, 0);
    };
    let platform = Platform::resolve("pixel6").unwrap();
    let make = || {
        let mut made = Recording::new();
        sleep(&mut made, 0, 10, 1);
        made.push(10, 0, EventKind::CpuIdleMiss { state: StateIdx(1), below: false });
        sleep(&mut made, 20, 50_020, 0);
        sleep(&mut made, 60_000, 100_000, 1);
        made
    };
    let wrong = |stats: TraceStats| -> Vec<(usize, Option<u64>, Option<u64>)> {
        stats.states.iter().map(|s| (s.state, s.above, s.below)).collect()
    };
    let none = wrong(make().stats(None, Carries::default()));
    assert_eq!(none, [(0, None, None), (1, None, None)]);
    // The kernel recorded one verdict; the platform's table gives two.
    let carries = Carries { cpu_idle_miss: true, ..Carries::default() };
    let stats = make().stats(Some(&platform), carries);
    assert_eq!(stats.verdicts, Some(VerdictCheck { compared: 3, agreeing: 2, rejected: 0 }));
    // The driver refused one entry: the short sleep without a kernel's verdict.
    let refused = Delta {
        elapsed_ns: None,
        clock: None,
        is_since_boot: false,
        cpus: vec![CpuDelta {
            cpu: CpuId(0),
            states: vec![StateDelta { index: 1, rejected: Some(1), ..StateDelta::default() }],
        }],
        notes: Vec::new(),
    };
    let mut made = make();
    sleep(&mut made, 110_000, 110_005, 1);
    let counted = made.counted(Some(&platform), carries, Some(&refused)).verdicts;
    assert_eq!(counted, Some(VerdictCheck { compared: 3, agreeing: 2, rejected: 1 }));
    let kernels = wrong(stats);
    assert_eq!(kernels, [(0, Some(0), Some(0)), (1, Some(1), Some(0))]);
    let platforms = wrong(make().stats(Some(&platform), Carries::default()));
    assert_eq!(platforms, [(0, Some(0), Some(1)), (1, Some(1), Some(0))]);
}

#[test]
fn cut_sleep_is_counted_separately() {
    let mut made = Recording::new();
    made.exit(1, 0);
    made.enter(2, 0, 0);
    made.exit(3, 0);
    made.enter(4, 0, 0);
    let stats = made.stats(None, Carries::default());
    assert_eq!((stats.sleeps, stats.cut_sleeps), (1, 2));
}

fn measured(made: Recording) -> Vec<(CauseTime, i64)> {
    made.measured(None).latency.iter().map(|row| (row.cause, row.p50_ns)).collect()
}

fn left_out(made: Recording, platform: Option<&Platform>) -> LeftOut {
    let result = made.measured(platform);
    assert_eq!((result.latency.len(), result.lines.len()), (0, 0));
    only(result.left_out).reason
}

#[test]
fn hardware_may_wake_before_its_timer() {
    let mut made = Recording::new();
    made.timed(500, 490, 501);
    assert_eq!(measured(made), [(CauseTime::Timer, -10_000)]);
    // Its slack lets a timer expire in another's interrupt before it is due.
    let mut made = Recording::new();
    made.timed(500, 490, 491);
    assert_eq!(left_out(made, None), LeftOut::Unknown);
}

#[test]
fn handler_inside_the_state_is_not_counted() {
    let mut made = Recording::new();
    // Due at 500, handled from 503 to 505, out at 506.
    made.timed(500, 506, 503);
    assert_eq!(measured(made), [(CauseTime::Timer, 4_000)]);
}

#[test]
fn interrupt_entry_only_bounds_the_latency() {
    let mut made = Recording::new();
    made.enter(100, 0, 1);
    made.exit(300, 0);
    made.push(302, 0, EventKind::IrqEntry { irq: 11, name: None });
    made.push(305, 0, EventKind::IrqExit { irq: 11 });
    let result = made.measured(None);
    assert_eq!(only(result.latency).cause, CauseTime::Interrupt);
    assert_eq!(result.lines.len(), 0);
}

#[test]
fn two_pending_causes_show_no_latency() {
    let mut made = Recording::new();
    made.timed(500, 510, 511);
    // CPU 1 wakes CPU 0 meanwhile.
    let cause = InterruptCause::Reschedule;
    made.push(505, 1, EventKind::IpiSend { target_cpu: CpuId(0), cause });
    assert_eq!(left_out(made, None), LeftOut::SeveralCauses);
    // A second interrupt came at an unknown time.
    let mut made = Recording::new();
    made.timed(500, 510, 511);
    made.push(514, 0, EventKind::IrqEntry { irq: 11, name: None });
    assert_eq!(left_out(made, None), LeftOut::SeveralCauses);
}

#[test]
fn ipi_before_the_entry_shows_no_latency() {
    let mut made = Recording::new();
    made.ipi(99);
    made.enter(100, 1, 1);
    made.exit(103, 1);
    made.handle_ipi(104);
    assert_eq!(left_out(made, None), LeftOut::BeforeEntry);
}

#[test]
fn a_cause_while_entering_shows_no_latency() {
    let mut made = Recording::new();
    made.enter(100, 1, 1);
    made.ipi(110);
    made.exit(300, 1);
    made.handle_ipi(301);
    let platform = Platform::resolve("pixel6").unwrap();
    assert_eq!(left_out(made, Some(&platform)), LeftOut::DuringEntry);
}

#[test]
fn median_of_ipis_becomes_a_platforms_line() {
    let platform = Platform::resolve("pixel6").unwrap();
    let mut made = Recording::new();
    for n in 0..20 {
        let begin = 10_000 * n;
        made.enter(begin, 1, 1);
        made.ipi(begin + 5_000);
        made.exit(begin + 5_080 + n, 1);
        made.handle_ipi(begin + 5_200);
    }
    let result = made.measured(Some(&platform));
    let row = only(result.latency);
    let state = &platform.clusters[0].idle_states[1];
    assert_eq!((row.name, row.advertised_ns), (Some(state.name.clone()), Some(state.latency.0)));
    assert_eq!((row.count, row.min_ns, row.mean_ns), (20, 80_000, 89_500));
    assert_eq!((row.p10_ns, row.p50_ns, row.p90_ns, row.p99_ns), (81_000, 89_000, 97_000, 99_000));
    let line = only(result.lines);
    assert_eq!(line.toml[0], "measured_exit_latency_us = 89");
    assert!(line.toml[2].contains("[80, 82, 84, 86, 88, 90, 92, 94, 96, 98]"), "{line:?}");
    assert!(line.toml[1].contains("20 wake-ups by IPI in recording.dat"), "{line:?}");
}

/// Adds a sleep of CPU 6 and a burst of the task 7 after it; returns when the task waits again.
fn burst(made: &mut Recording, at_us: i64, state: i32, (idle_us, work_us): (i64, i64)) -> i64 {
    let switch = |made: &mut Recording, at_us: i64, prev_pid, next_pid| {
        let (prev_state, next_comm) = (torpor_trace::PrevState::Sleeping, None);
        let kind = EventKind::SchedSwitch { prev_pid, prev_state, next_pid, next_comm };
        made.push(at_us, 6, kind);
    };
    let wakes_us = at_us + idle_us;
    made.enter(at_us, 6, state);
    made.exit(wakes_us, 6);
    made.push(wakes_us, 6, EventKind::IrqEntry { irq: 1, name: None });
    switch(made, wakes_us, 0, 7);
    switch(made, wakes_us + work_us, 7, 0);
    wakes_us + work_us
}

#[test]
fn refill_is_what_matched_bursts_differ_by() {
    let platform = torpor_machine::platform::resolve("pixel6").unwrap();
    let mut made = Recording::new();
    made.push(0, 6, EventKind::CpuFrequency { freq_khz: 1_401_000 });
    let mut now_us = burst(&mut made, 0, 0, (50_000, 100));
    for round in 0..24 {
        // Work varies, and longer sleeps have longer work after them: only the same sleeps match.
        let work_us = 100 + 10 * (round % 4);
        now_us = burst(&mut made, now_us, 0, (2_000, work_us));
        now_us = burst(&mut made, now_us, 1, (2_400, work_us + 30));
        now_us = burst(&mut made, now_us, 1, (5_000, work_us + 300));
    }
    // At another frequency all takes its own time.
    made.push(now_us, 6, EventKind::CpuFrequency { freq_khz: 2_802_000 });
    now_us = burst(&mut made, now_us, 1, (2_000, 900));
    // A request came in the burst.
    made.push(now_us + 2_050, 6, EventKind::IrqEntry { irq: 1, name: None });
    burst(&mut made, now_us, 0, (2_000, 300));
    let refill = only(made.measured(Some(&platform)).refill);
    assert_eq!((&*refill.cluster, refill.name.as_deref()), ("big", Some("c2")));
    assert_eq!((refill.bursts, refill.pairs), (49, 24));
    // 30 us at half the frequency.
    assert_eq!(refill.refill_ns, Some(15_000));
    assert!(refill.low_ns >= Some(10_000) && refill.high_ns <= Some(20_000), "{refill:?}");
    assert_eq!(refill.verdict, RefillVerdict::Measured);
}
