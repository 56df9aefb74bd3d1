// SPDX-License-Identifier: MIT OR GPL-2.0-only

use super::*;
use torpor_machine::counters::CpuDelta;
use torpor_trace::{Carries, Function};

const TIMER: u64 = 7;

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
        let mut stats = Stats::new(platform);
        let so_far = SoFar { names: &self.names, carries, cpu_count: 2 };
        stats.events(self.events, &so_far);
        let trace = Trace { names: self.names, carries, ..Trace::default() };
        stats.finish("a recording", &trace, counters)
    }
}

fn only<T>(mut all: Vec<T>) -> T {
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn interrupt_is_the_cause_and_its_task_the_reason() {
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
    let function = Function { address: 1, symbol: Some(made.names.intern("hrtimer_wakeup")) };
    let expires = Instant(40_000);
    made.push(
        0,
        0,
        EventKind::HrtimerStart { timer: TIMER, function, expires, softexpires: expires },
    );
    made.enter(5, 0, 1);
    made.exit(45, 0);
    let cause = InterruptCause::LocalTimer;
    made.push(46, 0, EventKind::InterruptEntry { cause });
    let now = Instant(46_000);
    made.push(46, 0, EventKind::HrtimerExpireEntry { timer: TIMER, function, now });
    made.push(47, 0, EventKind::InterruptExit { cause });
    let stats = made.stats(None, Carries::default());
    let wakeup = only(stats.wakeups);
    assert_eq!((wakeup.kind, &*wakeup.name), ("timer", "hrtimer_wakeup"));
    // Due at 40, awake at 45.
    let latency = only(stats.latency);
    assert_eq!((latency.state, latency.count, latency.max_ns), (1, 1, 5_000));
}

#[test]
fn latency_starts_at_another_cpus_waking() {
    let mut made = Recording::new();
    made.enter(0, 1, 2);
    made.push(100, 0, EventKind::SchedWaking { pid: 9, target_cpu: CpuId(1) });
    made.exit(130, 1);
    made.run(131, 1, 9, "worker");
    // Polling ends without an interrupt.
    let stats = made.stats(None, Carries::default());
    assert_eq!(only(stats.wakeups).kind, "poll");
    assert_eq!(only(stats.latency).p50_ns, 30_000);
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
    assert_eq!(only(stats.latency).max_ns, 1_000);
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
fn a_sleep_that_the_edge_cuts_is_counted_apart() {
    let mut made = Recording::new();
    made.exit(1, 0);
    made.enter(2, 0, 0);
    made.exit(3, 0);
    made.enter(4, 0, 0);
    let stats = made.stats(None, Carries::default());
    assert_eq!((stats.sleeps, stats.cut_sleeps), (1, 2));
}
