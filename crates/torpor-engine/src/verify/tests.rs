// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One rule per test, on event lists that are checked by hand. Times are in µs, the tick is at 250
//! Hz with its phase at 0, and the machine is POLL 0/0, C1 2/2, C1E 10/20, C6 85/200.

use super::assumptions::Assumptions;
use super::recorded::{Asked, Calls, Hold, LengthSource, Recorded, Step};
use super::walk::{MachineCpu, Walk};
use super::{VerifyOptions, forcing, iowait};
use crate::input::{TickFunction, TickGrid};
use crate::options::Unwatched;
use crate::testing;
use std::num::NonZeroU64;
use torpor_governor::{Catalog, StateDesc};
use torpor_machine::units::{CpuId, Duration, Hz, Instant, StateIdx};
use torpor_trace::{Event, EventKind, Function, FunctionId, PrevState, Probe, Slim, Timer, Trace};

const TICK: FunctionId = FunctionId(0);
const TASK: FunctionId = FunctionId(1);
/// The tick's timer of each CPU, and a task's.
const TICK_TIMERS: [Timer; 2] = [Timer(10), Timer(11)];
const TIMER: Timer = Timer(20);

#[derive(Default)]
struct Script {
    trace: Trace,
}

impl Script {
    fn new() -> Script {
        let mut script = Script::default();
        script.trace.meta.cpu_count = 2;
        script.trace.meta.clock = "mono".to_owned();
        script.trace.meta.kernel_release = Some("6.12.1".to_owned());
        for (id, address) in [(TICK, 1), (TASK, 2)] {
            let function = Function { address, symbol: None };
            assert_eq!(script.trace.names.function(function), Some(id));
        }
        script
    }

    fn on(&mut self, cpu: u32, us: f64, kind: EventKind) -> &mut Script {
        let time = Instant((us * 1_000.0).round() as i64);
        self.trace.events.push(Event { time, cpu: CpuId(cpu), kind });
        self
    }

    fn at(&mut self, us: f64, kind: EventKind) -> &mut Script {
        self.on(0, us, kind)
    }

    fn idle(&mut self, us: f64) -> &mut Script {
        self.at(us, switch(7, 0))
    }

    fn task(&mut self, us: f64) -> &mut Script {
        self.at(us, switch(0, 7))
    }

    fn enter(&mut self, us: f64, state: i32) -> &mut Script {
        self.at(us, EventKind::CpuIdle { state: StateIdx(state) })
    }

    fn exit(&mut self, us: f64) -> &mut Script {
        self.enter(us, -1)
    }

    fn tick_starts(&mut self, us: f64, expires_us: f64) -> &mut Script {
        self.at(us, start(TICK_TIMERS[0], TICK, expires_us))
    }

    /// Adds the tick's interrupt, which arms the tick for the next period.
    fn tick(&mut self, us: f64) -> &mut Script {
        let now = Slim::new(Instant((us * 1_000.0) as i64));
        let timer = TICK_TIMERS[0];
        let next = (us / 4_000.0).floor() * 4_000.0 + 4_000.0;
        self.at(us, EventKind::HrtimerExpireEntry { timer, function: TICK, now })
            .at(us + 1.0, EventKind::HrtimerExpireExit { timer })
            .tick_starts(us + 2.0, next)
    }

    fn timer(&mut self, us: f64, expires_us: f64) -> &mut Script {
        self.at(us, start(TIMER, TASK, expires_us))
    }

    fn probe(&mut self, us: f64, probe: Probe, value: i64) -> &mut Script {
        self.at(us, EventKind::Probed { probe, value: value.into() })
    }

    fn marker(&mut self, us: f64, text: &str) -> &mut Script {
        let text = self.trace.names.intern(text);
        self.at(us, EventKind::Marker { text })
    }

    fn calls(&self) -> Calls {
        self.calls_assuming(Assumptions::DEFAULT)
    }

    fn calls_assuming(&self, assumptions: Assumptions) -> Calls {
        let grid = TickGrid::new(Hz::H250, Duration::ZERO);
        let tick = TickFunction::new(TICK, grid);
        let options = VerifyOptions { probes: true, fit: true, ..Default::default() };
        Walk::new(&self.trace, tick, &machine(), assumptions, &options).run()
    }

    fn only(&self) -> Recorded {
        let calls = self.calls();
        assert_eq!(calls.decisions.len(), 1);
        calls.decisions[0]
    }
}

pub(super) fn machine() -> Vec<MachineCpu> {
    let cluster = testing::x86_cluster();
    let model = testing::model(&cluster);
    let describe = |s: &torpor_machine::platform::IdleState| StateDesc {
        name: s.name.clone(),
        exit_latency: s.latency,
        target_residency: s.target_residency,
        is_polling: s.is_polling(),
        is_disabled: false,
    };
    let states: Vec<StateDesc> = cluster.idle_states.iter().map(describe).collect();
    let machine_cpu =
        |cpu| MachineCpu { cpu: CpuId(cpu), model: model.clone(), states: states.clone() };
    vec![machine_cpu(0), machine_cpu(1)]
}

fn switch(prev_pid: i32, next_pid: i32) -> EventKind {
    let prev_state = PrevState::DiskSleep;
    EventKind::SchedSwitch { prev_pid, prev_state, next_pid, next_comm: None }
}

fn start(timer: Timer, function: FunctionId, expires_us: f64) -> EventKind {
    let expires = Instant((expires_us * 1_000.0) as i64).into();
    EventKind::HrtimerStart { timer, function, expires, softexpires: Instant(0).into() }
}

fn us(duration: Duration) -> f64 {
    duration.as_us_f64()
}

fn sleep_length(asked: &Asked) -> (f64, LengthSource) {
    let (length, source) = asked.sleep_length(false);
    (us(length), source)
}

#[test]
fn sleep_length_starts_at_idle_entry() {
    let mut script = Script::new();
    script.tick_starts(1.0, 4_000.0).timer(2.0, 9_000.0).idle(1_000.0).enter(1_005.0, 3);
    let asked = script.only().asked;
    // 0.8 us after the switch, not at the event.
    assert_eq!(asked.idle_entry, Instant(1_000_800));
    assert_eq!(sleep_length(&asked), (7_999.2, LengthSource::Timers));
    assert_eq!(us(asked.delta_next()), 2_999.2);
}

#[test]
fn interrupts_in_the_idle_loop_renew_entry_time() {
    let mut script = Script::new();
    script.tick_starts(1.0, 4_000.0).timer(2.0, 9_000.0).idle(3_000.0).enter(3_005.0, 1);
    script.tick(4_000.5).at(4_010.0, EventKind::SoftirqExit { vec: 7 });
    script.exit(4_030.0).enter(4_036.0, 3);
    let calls = script.calls();
    // 0.7 us after the last event of the interrupt, not after the sleep.
    assert_eq!(calls.decisions[1].asked.idle_entry, Instant(4_010_700));
    assert_eq!(us(calls.decisions[1].asked.delta_next()), 3_989.3);
    assert!(calls.decisions[0].reflected.unwrap().got_tick);
}

#[test]
fn polling_that_times_out_renews_nothing() {
    let mut script = Script::new();
    // C1E is the first state with 10 us or more of residency: polling is limited to its 20 us.
    script.tick_starts(1.0, 4_000.0).idle(1_000.0).enter(1_005.0, 0).exit(1_026.0);
    script.enter(1_030.0, 1);
    let calls = script.calls();
    let reflected = calls.decisions[0].reflected.unwrap();
    assert!(reflected.is_polling && reflected.between == Duration::from_us(21));
    assert_eq!(us(reflected.residency), 20.35, "21 us between the events, less 0.65");
    assert_eq!(calls.decisions[1].asked.idle_entry, Instant(1_000_800));
    // The governor was asked again after the polling, by its local clock.
    assert_eq!(calls.decisions[1].asked.clock, Instant(1_026_000));
}

#[test]
fn wheel_timer_within_a_tick_keeps_the_tick() {
    let mut script = Script::new();
    // An expiry shows its jiffy: 100 began at 400 ms.
    let (timer, now_jiffies) = (Timer(30), Slim::new(100));
    let expired = EventKind::TimerExpireEntry { timer, function: TASK, now_jiffies };
    let wheel = |due| EventKind::TimerStart {
        timer: Timer(31),
        function: TASK,
        expires_jiffies: Slim::new(due - 1),
        bucket_expiry_jiffies: NonZeroU64::new(due).map(Slim::new),
        flags: 0,
    };
    let base = 400_000.0;
    script.at(base + 10.0, expired).tick_starts(base + 11.0, base + 4_000.0);
    script.timer(base + 12.0, base + 2_500.0).at(base + 13.0, wheel(101));
    script.idle(base + 1_000.0).enter(base + 1_005.0, 1).exit(base + 1_100.0);
    script.task(base + 1_101.0).at(base + 1_102.0, EventKind::TimerCancel { timer: Timer(31) });
    script.at(base + 1_103.0, wheel(102)).idle(base + 1_200.0).enter(base + 1_205.0, 1);
    let calls = script.calls();
    let near = &calls.decisions[0].asked;
    assert_eq!(near.next_wheel, Instant(404_000_000));
    // To the next programmed event, which here is the hrtimer.
    assert_eq!(sleep_length(near), (1_499.2, LengthSource::Tick));
    let far = &calls.decisions[1].asked;
    assert_eq!(sleep_length(far), (1_299.2, LengthSource::Timers));
}

#[test]
fn stopped_tick_shows_the_next_timer() {
    let mut script = Script::new();
    script.at(900.0, EventKind::SoftirqRaise { vec: 9 }).tick_starts(901.0, 4_000.0);
    script.idle(1_000.0).at(1_002.0, EventKind::TickStop { success: true });
    script.tick_starts(1_003.0, 80_000.0).enter(1_005.0, 3);
    let asked = script.only().asked;
    assert!(!asked.tick_was_stopped && asked.tick_is_stopped);
    assert_eq!(asked.hold, Hold::Stopped, "whatever the softirq says");
    assert_eq!(sleep_length(&asked), (78_999.2, LengthSource::StoppedTick));
    assert_eq!(us(asked.delta_next()), 2_999.2, "the tick was armed when the governor was asked");
}

#[test]
fn rcu_holds_the_tick_after_its_softirq() {
    let held = |raised_us: f64, assumptions| {
        let mut script = Script::new();
        script.at(raised_us, EventKind::SoftirqRaise { vec: 9 }).tick_starts(20_001.0, 24_000.0);
        script.timer(20_002.0, 50_000.0).idle(21_000.0).enter(21_000.0, 1);
        sleep_length(&script.calls_assuming(assumptions).decisions[0].asked).1
    };
    assert_eq!(held(8_501.0, Assumptions::DEFAULT), LengthSource::Rcu);
    assert_eq!(held(8_499.0, Assumptions::DEFAULT), LengthSource::Timers);
    let without = Assumptions { rcu_stand_in: false, ..Assumptions::DEFAULT };
    assert_eq!(held(20_000.0, without), LengthSource::Timers);
}

/// The governor asks for deep sleep with the tick stopped, but the tick continues: the sleep length
/// must have been the time to the tick, for which `menu` chooses a shallower state.
#[test]
fn tick_that_went_on_was_held() {
    let mut script = Script::new();
    script.tick_starts(1.0, 4_000.0).timer(2.0, 900_000.0);
    script.idle(3_900.0).enter(3_905.0, 2).exit(3_990.0).task(3_995.0);
    let calls = script.calls();
    let catalog = Catalog::new(Default::default());
    let menu = catalog.resolve(&"menu-6.12".parse().unwrap(), Hz::H250).unwrap();
    let answer = forcing::force(&menu, &calls, &machine(), false, &Unwatched).unwrap()[0];
    assert_eq!(answer.source, LengthSource::TickWentOn);
    assert_eq!(us(answer.inputs.sleep_length), 99.2);
}

#[test]
fn restarted_tick_restarts_the_idle_loop() {
    let mut script = Script::new();
    script.tick_starts(1.0, 4_000.0).timer(2.0, 90_000.0).idle(1_000.0);
    script.at(1_002.0, EventKind::TickStop { success: true }).tick_starts(1_003.0, 80_000.0);
    script.enter(1_005.0, 3).exit(6_000.0);
    script.at(6_001.0, EventKind::HrtimerCancel { timer: TICK_TIMERS[0] });
    script.tick_starts(6_002.0, 8_000.0).enter(6_008.0, 3);
    let asked = script.calls().decisions[1].asked;
    assert!(!asked.tick_was_stopped && !asked.tick_is_stopped);
    assert_eq!(asked.idle_entry, Instant(6_002_800));
    assert_eq!(us(asked.delta_next()), 1_997.2);
}

#[test]
fn tick_is_reported_once_after_the_interrupts() {
    let mut script = Script::new();
    script.tick_starts(1.0, 4_000.0).idle(3_000.0).enter(3_005.0, 1);
    // The handler runs after the exit event if interrupts are off in the sleep.
    script.exit(4_001.0).tick(4_002.0).enter(4_010.0, 1).exit(5_000.0).task(5_001.0);
    let reflected: Vec<_> = script.calls().decisions.iter().map(|d| d.reflected.unwrap()).collect();
    assert!(reflected[0].got_tick && !reflected[1].got_tick);
    assert_eq!(reflected[0].clock, Instant(4_004_000), "the handler's last event");
    assert_eq!(reflected[1].clock, Instant(5_000_000));
}

#[test]
fn probed_sleep_length_gives_the_entry_time() {
    let mut script = Script::new();
    script.tick_starts(1.0, 4_000.0).timer(2.0, 1_500.0).idle(1_000.0);
    script.probe(1_003.0, Probe::SleepLength, 498_300).enter(1_005.0, 1);
    let asked = script.only().asked;
    assert_eq!(sleep_length(&asked), (498.3, LengthSource::Probe));
    assert_eq!(asked.idle_entry, Instant(1_001_700), "1500 us less 498.3");
    assert_eq!(us(asked.delta_next()), 498.3);
}

#[test]
fn select_without_entry_is_dropped() {
    let mut script = Script::new();
    script.tick_starts(1.0, 4_000.0).idle(1_000.0).probe(1_003.0, Probe::Select, 2);
    script.task(1_005.0).idle(1_500.0).probe(1_503.0, Probe::Select, 1).enter(1_505.0, 1);
    // No select: the idle loop went to sleep without one.
    script.exit(1_600.0).task(1_601.0).idle(1_700.0).enter(1_705.0, 1).exit(1_800.0);
    let calls = script.calls();
    let seen: Vec<_> = calls.decisions.iter().map(|d| (d.state, d.entered.is_some())).collect();
    assert_eq!(seen, [(2, false), (1, true)]);
    assert_eq!(calls.steps, [Step::Ask(0), Step::Ask(1), Step::Reflect(1)]);
}

#[test]
fn a_reset_forgets_and_asks_sleeping_cpus_anew() {
    let mut script = Script::new();
    script.tick_starts(1.0, 4_000.0).on(1, 1.0, start(TICK_TIMERS[1], TICK, 4_000.0));
    script.idle(100.0).enter(105.0, 1).exit(200.0).task(201.0);
    script.on(1, 300.0, switch(8, 0)).on(1, 305.0, EventKind::CpuIdle { state: StateIdx(3) });
    script.marker(400.0, "RESET\n").idle(500.0).enter(505.0, 1).exit(600.0);
    let calls = script.calls();
    assert_eq!((calls.resets, calls.known_from), (1, 2));
    let steps =
        [Step::Ask(0), Step::Reflect(0), Step::Ask(1), Step::Reset, Step::Ask(1), Step::Ask(2)];
    assert_eq!(calls.steps[..6], steps);
}

#[test]
fn io_waiters_count_on_their_last_cpu() {
    let mut script = Script::new();
    script.tick_starts(1.0, 4_000.0).idle(100.0).enter(105.0, 1).exit(200.0);
    // The waker runs elsewhere.
    script.on(1, 210.0, EventKind::BlockedReason { pid: 7, io_wait: true });
    script.task(220.0).at(300.0, switch(9, 0)).enter(305.0, 1).exit(400.0);
    script.on(1, 410.0, EventKind::BlockedReason { pid: 9, io_wait: false });
    let mut calls = script.calls();
    script.trace.event_counts.insert("sched_blocked_reason".to_owned(), 2);
    iowait::fill(&script.trace, &mut calls);
    let counts: Vec<_> = calls.decisions.iter().map(|d| d.asked.nr_iowait).collect();
    assert_eq!(counts, [1, 0]);
}
