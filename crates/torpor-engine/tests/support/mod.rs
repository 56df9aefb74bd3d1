// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Small machines for worked examples.
// Each test file uses some of these.
#![allow(dead_code)]

use torpor_engine::input::{SleepSource, Span, TickGrid, WakeStamp};
use torpor_engine::model::CpuModel;
use torpor_governor::{Catalog, CpuSetup, Instance, Setup, StateDesc};
use torpor_machine::platform::{
    Cluster, IdleState, MeasuredLatency, Opp, Platform, PollLoop, Scope, Smt, StatePower,
};
use torpor_machine::units::{CpuId, Duration, Hz, Instant, Power};

pub(crate) fn state(
    name: &str,
    entry_us: i64,
    exit_us: i64,
    residency_us: i64,
    mw: f64,
) -> IdleState {
    IdleState {
        name: name.to_owned(),
        entry_latency: Duration::from_us(entry_us),
        exit_latency: Duration::from_us(exit_us),
        measured: MeasuredLatency::default(),
        latency: Duration::from_us(entry_us + exit_us),
        target_residency: Duration::from_us(residency_us),
        break_even: Duration::from_us(residency_us),
        poll_loop: (name == "POLL").then_some(PollLoop::PollIdle { relax: Duration::ZERO }),
        is_disabled: false,
        scope: Scope::Cpu,
        own: None,
        power: StatePower::Constant(Power::from_mw(mw)),
        energy_per_entry: None,
        refill: Duration::ZERO,
        rejects: None,
        demotion: None,
    }
}

fn cluster(states: Vec<IdleState>) -> Cluster {
    Cluster {
        name: "all".to_owned(),
        cpus: vec![CpuId(0)],
        capacity: 1024,
        opps: vec![Opp {
            freq_khz: 1_000_000,
            active_power: Some(Power::from_mw(100.0)),
            energy_model_power: None,
            static_power: Power::ZERO,
        }],
        clock: Default::default(),
        idle_states: states,
        smt: Smt::NONE,
        turbo: None,
    }
}

/// Returns WFI and a Pixel 6 LITTLE's c2, with round powers: 10 mW and 0.
pub(crate) fn two_state_cluster() -> Cluster {
    cluster(vec![state("WFI", 0, 1, 1, 10.0), state("c2", 70, 160, 2_000, 0.0)])
}

pub(crate) fn x86_cluster() -> Cluster {
    cluster(vec![
        state("POLL", 0, 0, 0, 4_000.0),
        state("C1", 0, 2, 2, 100.0),
        state("C1E", 0, 10, 20, 80.0),
        state("C6", 0, 85, 200, 10.0),
    ])
}

/// Returns states as `arm_poll_idle` makes them: WFI, which takes 1 us to leave, is announced with
/// the polling limit of 100 us.
pub(crate) fn arm_polling_cluster() -> Cluster {
    let event_stream = Some(Duration::from_us(100));
    let mut wfe = state("WFE", 0, 0, 0, 50.0);
    wfe.poll_loop = Some(PollLoop::ArmPollIdle { event_stream });
    let mut wfi = state("WFI", 0, 1, 1, 10.0);
    (wfi.latency, wfi.target_residency) = (Duration::from_us(100), Duration::from_us(100));
    cluster(vec![wfe, wfi])
}

pub(crate) fn model(cluster: &Cluster) -> CpuModel {
    let platform = Platform {
        name: "test".to_owned(),
        title: "test".to_owned(),
        sources: vec![],
        sha256: String::new(),
        hz: Hz::H250,
        tick_handling: Duration::from_us(5),
        timer_start: Duration(500),
        overheads: Default::default(),
        cpufreq_governor: Default::default(),
        io_devices: vec![],
        power_includes: vec![],
        power_missing: vec![],
        floor_power: Power::ZERO,
        awake_power: Power::ZERO,
        awake_rise: Duration::ZERO,
        has_idle_driver: true,
        limits: None,
        clusters: vec![cluster.clone()],
    };
    let grid = TickGrid::new(Hz::H250, Duration::ZERO);
    CpuModel::new(&platform, cluster, grid, Duration::MAX, |_| false)
}

pub(crate) fn two_state_cpu() -> CpuModel {
    model(&two_state_cluster())
}

pub(crate) fn x86_cpu() -> CpuModel {
    model(&x86_cluster())
}

/// Returns a built-in governor with its parameters, for one CPU like `model`.
pub(crate) fn instance(spec: &str, model: &CpuModel) -> Instance {
    let states: Vec<StateDesc> = model
        .states
        .iter()
        .enumerate()
        .map(|(i, s)| StateDesc {
            name: format!("S{i}"),
            exit_latency: s.latency,
            target_residency: s.target_residency,
            is_polling: s.is_polling,
            is_disabled: false,
        })
        .collect();
    let catalog = Catalog::new(Default::default());
    let governor = catalog.resolve(&spec.parse().unwrap(), Hz::H250).unwrap();
    let cpus = [CpuSetup::new(CpuId(0), &states)];
    governor.instantiate(&Setup { cpus: &cpus }).unwrap()
}

/// Returns spans from (idle µs, work µs) pairs; the only timer is the one at the wake-up.
pub(crate) fn spans(pairs: &[(i64, i64)]) -> Vec<Span> {
    let mut at = Instant(0);
    let mut spans = Vec::new();
    for &(idle_us, work_us) in pairs {
        let wake = at + Duration::from_us(idle_us);
        spans.push(Span {
            start: at,
            wake,
            resume: wake,
            next_hrtimer: wake,
            next_wheel: Instant::NEVER,
            freq_khz: 0,
            opp: 0,
            util: 0,
            source: SleepSource::TimerEvents,
            stamp: WakeStamp::ExitStamp,
            ends_visit: true,
            is_resched: false,
            nr_iowait: 0,
            nr_running: 0,
            rcu_holds_tick: false,
        });
        at = wake + Duration::from_us(work_us);
    }
    spans
}
