// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A recording may hold any events in any order.

use super::assumptions::Assumptions;
use super::recorded::Step;
use super::tests::machine;
use super::walk::Walk;
use super::{VerifyOptions, forcing, iowait, judge, util};
use crate::input::{TickFunction, TickGrid};
use crate::options::Unwatched;
use proptest::prelude::*;
use torpor_governor::Catalog;
use torpor_machine::units::{CpuId, Duration, Hz, Instant, StateIdx};
use torpor_trace::{Event, EventKind, Function, FunctionId, PrevState, Probe, Slim, Timer, Trace};

fn timer() -> impl Strategy<Value = Timer> {
    (1u32..4).prop_map(Timer)
}

fn function() -> impl Strategy<Value = FunctionId> {
    (1u16..3).prop_map(FunctionId)
}

/// Extreme values and small ones, of both signs.
fn number() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), -5i64..10, 0i64..20_000_000]
}

fn probe() -> impl Strategy<Value = Probe> {
    prop_oneof![
        Just(Probe::Select),
        Just(Probe::Reflect),
        Just(Probe::SleepLength),
        Just(Probe::NextEvent),
        Just(Probe::RcuNeedsCpu),
        Just(Probe::IdleEnter),
        Just(Probe::IrqExit),
    ]
}

fn kind() -> impl Strategy<Value = EventKind> {
    let expires = || number().prop_map(|ns| Slim::new(Instant(ns.max(0))));
    prop_oneof![
        4 => (-1i32..4).prop_map(|state| EventKind::CpuIdle { state: StateIdx(state) }),
        3 => (0i32..2, 0i32..2).prop_map(|(prev_pid, next_pid)| EventKind::SchedSwitch {
            prev_pid,
            prev_state: PrevState::DiskSleep,
            next_pid,
            next_comm: None,
        }),
        2 => (timer(), function(), expires()).prop_map(|(timer, function, expires)| {
            EventKind::HrtimerStart { timer, function, expires, softexpires: expires }
        }),
        1 => timer().prop_map(|timer| EventKind::HrtimerCancel { timer }),
        1 => (timer(), function(), expires()).prop_map(|(timer, function, now)| {
            EventKind::HrtimerExpireEntry { timer, function, now }
        }),
        1 => (timer(), any::<u64>(), any::<u32>()).prop_map(|(timer, due, flags)| {
            EventKind::TimerStart {
                timer,
                function: FunctionId(3),
                expires_jiffies: due.into(),
                bucket_expiry_jiffies: None,
                flags,
            }
        }),
        1 => (timer(), 0u64..100).prop_map(|(timer, now)| {
            EventKind::TimerExpireEntry { timer, function: FunctionId(3), now_jiffies: now.into() }
        }),
        1 => any::<bool>().prop_map(|success| EventKind::TickStop { success }),
        1 => (0u32..10).prop_map(|vec| EventKind::SoftirqRaise { vec }),
        2 => (probe(), number())
            .prop_map(|(probe, value)| EventKind::Probed { probe, value: value.into() }),
        1 => (0i32..2, any::<bool>())
            .prop_map(|(pid, io_wait)| EventKind::BlockedReason { pid, io_wait }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Nothing panics, every sleep is reflected once and after its select, and only known decisions
    /// are judged.
    #[test]
    fn all_events_give_legal_calls(
        events in prop::collection::vec((0u32..2, 0i64..3_000_000, kind()), 0..120),
        use_probes: bool,
        reset_at in prop::option::of(0i64..50_000_000),
    ) {
        let mut trace = Trace::default();
        trace.meta.cpu_count = 2;
        trace.meta.clock = "mono".to_owned();
        for address in 0..4 {
            trace.names.function(Function { address, symbol: None }).unwrap();
        }
        let mut now = 0;
        for (cpu, wait, kind) in events {
            now += wait;
            trace.events.push(Event { time: Instant(now), cpu: CpuId(cpu), kind });
        }
        let tick = TickFunction::new(FunctionId(1), TickGrid::new(Hz::H250, Duration::ZERO));
        let reset_at = reset_at.map(Instant);
        let options = VerifyOptions { probes: use_probes, fit: true, reset_at, ..VerifyOptions::default() };
        let machine = machine();
        let mut calls = Walk::new(&trace, tick, &machine, Assumptions::DEFAULT, &options).run();
        util::fill(&trace, &machine, &mut calls);
        iowait::fill(&trace, &mut calls);

        let mut reflected = vec![false; calls.decisions.len()];
        let mut asked = 0;
        for step in &calls.steps {
            match *step {
                Step::Ask(decision) => asked = asked.max(decision + 1),
                Step::Reflect(decision) => {
                    prop_assert!(decision < asked && !reflected[decision]);
                    reflected[decision] = true;
                }
                Step::Reset => {}
            }
        }
        prop_assert_eq!(asked, calls.decisions.len());
        for name in ["menu-6.12", "teo-6.12", "menu-3.8", "ladder"] {
            let governor = Catalog::new(Default::default());
            let governor = governor.resolve(&name.parse().unwrap(), Hz::H250).unwrap();
            let answers = forcing::force(&governor, &calls, &machine, false, &Unwatched);
            prop_assert!(answers.is_ok(), "{}: {}", name, answers.unwrap_err());
            let judged = judge::judge(&calls, &machine, answers, 3);
            let known = calls.decisions.len() - calls.known_from;
            prop_assert_eq!(judged.decisions, known as u64);
            prop_assert_eq!(judged.confusion.values().sum::<u64>(), judged.decisions);
        }
    }
}
