// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `teo` with `util_mode=`: worked examples, and properties on any machine.

use crate::support::{Rng, resolve, server_states, state};
use torpor_governor::{CpuSetup, Inputs, Instance, Setup, StateDesc};
use torpor_machine::units::{CpuId, Duration, Hz, Instant};

const MS: i64 = 1_000_000;

fn teo(mode: &str, states: &[StateDesc]) -> Instance {
    let governor = resolve(&format!("teo,util_mode={mode}"), Hz::H250);
    governor.instantiate(&Setup { cpus: &[CpuSetup::new(CpuId(0), states)] }).unwrap()
}

/// A timer at `timer_ns`, the tick (250 Hz) at `tick_ns`, `util` of 1024.
fn inputs(timer_ns: i64, tick_ns: i64, util: u64) -> Inputs {
    Inputs {
        now: Instant(1_000 * MS),
        sleep_length: Duration(timer_ns),
        delta_next: Duration(tick_ns.min(timer_ns)),
        util,
        ..Inputs::default()
    }
}

fn choice(instance: &mut Instance, inputs: &Inputs) -> (i32, bool) {
    let selection = instance.select(0, inputs).unwrap();
    (selection.state, selection.stop_tick)
}

/// The first decision has learnt nothing, so it follows the timer alone.
fn first_choice(mode: &str, states: &[StateDesc], inputs: &Inputs) -> (i32, bool) {
    choice(&mut teo(mode, states), inputs)
}

#[test]
fn utilized_is_above_a_64th_of_the_capacity() {
    // C6 pays off from 600 us; the timer is 20 ms away, beyond the 4 ms of a tick: C6, no tick.
    let server = server_states();
    for mode in ["off", "shallowest", "step", "gradual"] {
        assert_eq!(first_choice(mode, &server, &inputs(20 * MS, 3 * MS, 16)), (3, true), "{mode}");
    }
    // 17 > 1024 >> 6. gradual: 3 * (1024 - 17) / 1024 = 2.95.
    let utilized = inputs(20 * MS, 3 * MS, 17);
    assert_eq!(first_choice("off", &server, &utilized), (3, true));
    assert_eq!(first_choice("step", &server, &utilized), (2, true));
    assert_eq!(first_choice("gradual", &server, &utilized), (2, true));
    // The first enabled state polls, which keeps the tick.
    assert_eq!(first_choice("shallowest", &server, &utilized), (0, false));
    // On a CPU of capacity 160 the threshold is 2.
    let little = |util| Inputs { capacity: 160, ..inputs(20 * MS, 3 * MS, util) };
    assert_eq!(first_choice("step", &server, &little(2)), (3, true));
    assert_eq!(first_choice("step", &server, &little(3)), (2, true));
}

#[test]
fn the_shift_can_be_changed_while_running() {
    let server = server_states();
    let mut instance = teo("step", &server);
    let half = inputs(20 * MS, 3 * MS, 512);
    assert_eq!(choice(&mut instance, &half), (2, true));
    instance.set_param("util_shift", "1").unwrap();
    assert_eq!(choice(&mut instance, &half), (3, true), "512 is not above 1024 >> 1");
    instance.set_param("util_shift", "99").unwrap();
    assert_eq!(choice(&mut instance, &inputs(20 * MS, 3 * MS, 1)), (2, true), "1 is above 0");
    instance.set_param("util_mode", "off\n").unwrap();
    assert_eq!(instance.param("util_mode").as_deref(), Some("off"));
    assert_eq!(choice(&mut instance, &half), (3, true));
    assert!(!instance.statics_changed(), "a parameter is no state that CPUs share");
    let error = instance.set_param("util_mode", "deep").unwrap_err().to_string();
    assert!(
        error.contains(
            "`deep` is not a value for util_mode: expected off, shallowest, v2, v3, v4, step or gradual"
        ),
        "{error}"
    );
    assert_eq!(instance.param("util_mode").as_deref(), Some("off"));
}

#[test]
fn step_goes_to_a_state_that_pays_off() {
    // The last sleep, of 920 us with the timer in 5 ms, was an intercept in C's bin; so C is
    // expected to fit again, for the middle of its bin, 950 us. B needs 2 ms, as a table need not
    // be in order: the step passes it by and ends at A.
    let states = [
        state("A", 1, 1, false),
        state("B", 10, 2_000, false),
        state("C", 20, 900, false),
        state("D", 30, 1_000, false),
    ];
    for (mode, idx) in [("off", 2), ("step", 0)] {
        let mut instance = teo(mode, &states);
        choice(&mut instance, &inputs(5 * MS, 3 * MS, 0));
        instance.set_last_residency(0, Duration::from_us(920));
        instance.reflect(0, 3, Instant(1_000 * MS + 920_000), false).unwrap();
        assert_eq!(choice(&mut instance, &inputs(5 * MS, 3 * MS, 100)), (idx, false), "{mode}");
    }
}

#[test]
fn step_skips_disabled_states_and_polling() {
    let mut server = server_states();
    let utilized = |timer_ns| inputs(timer_ns, 3 * MS, 100);
    server[2].is_disabled = true;
    assert_eq!(first_choice("step", &server, &utilized(20 * MS)), (1, true));
    // C1 is the candidate, and only POLL is shallower.
    assert_eq!(first_choice("step", &server, &utilized(100_000)), (1, false));
    server[1].is_disabled = true;
    assert_eq!(first_choice("step", &server, &utilized(20 * MS)), (3, true));
}

#[test]
fn v2_steps_once_even_without_benefit() {
    // As above: B would need 2 ms of the 950 us that are expected, and v2 steps to it.
    let states = [
        state("A", 1, 1, false),
        state("B", 10, 2_000, false),
        state("C", 20, 900, false),
        state("D", 30, 1_000, false),
    ];
    let mut instance = teo("v2", &states);
    choice(&mut instance, &inputs(5 * MS, 3 * MS, 0));
    instance.set_last_residency(0, Duration::from_us(920));
    instance.reflect(0, 3, Instant(1_000 * MS + 920_000), false).unwrap();
    assert_eq!(choice(&mut instance, &inputs(5 * MS, 3 * MS, 100)), (1, false));
    // If the next state is disabled it does not step; the merged form tries the one after it.
    let mut server = server_states();
    server[2].is_disabled = true;
    let utilized = inputs(20 * MS, 3 * MS, 100);
    assert_eq!(first_choice("v2", &server, &utilized), (3, true));
    assert_eq!(first_choice("step", &server, &utilized), (1, true));
}

#[test]
fn each_posting_steps_as_posted() {
    let server = server_states();
    // From C6 (20 ms) v2 steps to C1E; v3 and v4 touch state 1 alone, and POLL is not for them.
    let deep = inputs(20 * MS, 3 * MS, 100);
    let shallow = inputs(10_000, 3 * MS, 100);
    for (mode, from_c6, from_c1) in [("v2", 2, 0), ("v3", 3, 1), ("v4", 3, 1), ("step", 2, 1)] {
        assert_eq!(first_choice(mode, &server, &deep).0, from_c6, "{mode}");
        assert_eq!(first_choice(mode, &server, &shallow).0, from_c1, "{mode}");
        // Without polling, state 0 is the step from state 1.
        let phone =
            [state("WFI", 1, 1, false), state("C1", 9, 9, false), state("C2", 50, 90, false)];
        assert_eq!(first_choice(mode, &phone, &inputs(50_000, 3 * MS, 100)).0, 0, "{mode}");
        // Two states: only v2 would poll.
        let two = first_choice(mode, &server[..2], &inputs(20 * MS, 3 * MS, 100)).0;
        assert_eq!(two, i32::from(mode != "v2"), "{mode}");
        assert_eq!(first_choice(mode, &server, &inputs(20 * MS, 3 * MS, 16)).0, 3, "{mode}");
    }
}

#[test]
fn shallower_of_two_states_is_taken_first() {
    let phone = [state("WFI", 1, 1, false), state("off", 1_200, 4_488, false)];
    // Utilized for 18 ms of sleep: WFI, and the tick stops, since the timer is beyond it.
    assert_eq!(first_choice("step", &phone, &inputs(18 * MS, 3 * MS, 17)), (0, true));
    assert_eq!(first_choice("step", &phone, &inputs(18 * MS, 3 * MS, 16)), (1, true));
    assert_eq!(first_choice("step", &phone, &inputs(2 * MS, 3 * MS, 17)), (0, false));

    // POLL and C1 that pays off from 2 us. With the timer in 5 ms, beyond a tick, the tick is
    // stopped, and C1 stays.
    let pair = &server_states()[..2];
    assert_eq!(first_choice("step", pair, &inputs(5 * MS, 500, 17)), (1, true));
    // With a timer in 1 us, before C1 pays off, utilization does not matter: it polls, even with
    // the tick stopped.
    assert_eq!(first_choice("step", pair, &inputs(1_000, 500, 17)), (0, false));
    let stopped = Inputs { tick_stopped: true, ..inputs(1_000, 1_000, 17) };
    for mode in ["off", "step", "shallowest"] {
        assert_eq!(first_choice(mode, pair, &stopped), (0, true), "{mode}");
    }
}

/// State 0 is then the choice, whatever the CPU has been doing. Needs no kernel's source to notice
/// a step that looks at utilization first.
#[test]
fn timer_before_state_1_overrules_utilization() {
    let mut met = 0;
    for seed in 0..4_000 {
        let mut rng = Rng::new(seed);
        let count = if rng.one_in(2) { 2 } else { 3 + rng.below(8) as i64 };
        let polls = rng.one_in(2);
        let residency_us = 2 + rng.magnitude(13);
        let states: Vec<StateDesc> = (0..count)
            .map(|i| state(&format!("S{i}"), i, i * residency_us, polls && i == 0))
            .collect();
        let timer_ns = rng.below(residency_us as u64 * 1_000) as i64;
        let asked = Inputs {
            tick_stopped: rng.one_in(2),
            util: rng.below(64),
            ..inputs(timer_ns, rng.below(4_000_000) as i64, 0)
        };
        let off = first_choice("off", &states, &asked);
        assert_eq!(off.0, 0);
        for mode in ["shallowest", "v2", "v4", "step", "gradual"] {
            assert_eq!(first_choice(mode, &states, &asked), off, "seed {seed}, {mode}, {asked}");
        }
        met += u64::from(count == 2 && polls && asked.tick_stopped && asked.util > 16);
    }
    assert!(met > 200, "the odd shape is met {met} times only");
}

#[test]
fn gradual_scales_the_index_by_free_capacity() {
    let five: Vec<StateDesc> =
        (0..5).map(|i| state(&format!("S{i}"), i * 10, i * 100, false)).collect();
    // The candidate is S4. 4 * (1024 - util) / 1024: 256 free quarters.
    for (util, idx) in [(16, 4), (256, 3), (257, 2), (512, 2), (768, 1), (769, 0), (2_000, 0)] {
        assert_eq!(first_choice("gradual", &five, &inputs(20 * MS, 3 * MS, util)).0, idx, "{util}");
    }
    // From a disabled state on down; if all there are, then up.
    let mut some = five.clone();
    some[2].is_disabled = true;
    assert_eq!(first_choice("gradual", &some, &inputs(20 * MS, 3 * MS, 512)).0, 1);
    some[0].is_disabled = true;
    some[1].is_disabled = true;
    assert_eq!(first_choice("gradual", &some, &inputs(20 * MS, 3 * MS, 512)).0, 3);
    // POLL is never selected, however busy the CPU is.
    assert_eq!(first_choice("gradual", &server_states(), &inputs(20 * MS, 3 * MS, 1_024)).0, 1);
}

/// Four sleeps of 100 us under a timer at 20 ms: intercepts in C1E's bin (20 to 600 us). All counts
/// then point to C1E, so it is selected although the timer would allow C6.
fn after_four_intercepts(mode: &str, util: u64) -> (i32, bool) {
    let server = server_states();
    let mut instance = teo(mode, &server);
    let mut now = Instant(1_000 * MS);
    for _ in 0..4 {
        let asleep = Inputs { now, ..inputs(20 * MS, 3 * MS, util) };
        let (state, _) = choice(&mut instance, &asleep);
        now += Duration::from_us(100);
        instance.set_last_residency(0, Duration::from_us(100));
        instance.reflect(0, state, now, false).unwrap();
    }
    choice(&mut instance, &Inputs { now, ..inputs(20 * MS, 3 * MS, 0) })
}

#[test]
fn shallowest_ignores_utilized_sleeps() {
    // Learnt in each mode while not utilized: C1E, and the tick stays for 310 us of sleep.
    for mode in ["off", "shallowest", "step", "gradual"] {
        assert_eq!(after_four_intercepts(mode, 0), (2, false), "{mode}");
    }
    // From utilized sleeps the final form learns, the first one did not.
    for mode in ["step", "v4"] {
        assert_eq!(after_four_intercepts(mode, 100), (2, false), "{mode}");
    }
    for mode in ["shallowest", "v2", "v3"] {
        assert_eq!(after_four_intercepts(mode, 100), (3, true), "{mode}");
    }
}

#[test]
fn shallowest_with_all_states_disabled_takes_state_0() {
    let mut server = server_states();
    server.iter_mut().for_each(|s| s.is_disabled = true);
    assert_eq!(first_choice("shallowest", &server, &inputs(20 * MS, 3 * MS, 100)), (0, false));
}

/// `off` and another mode, shown the same of every sleep, so that both have learnt the same.
#[test]
fn utilization_only_ever_makes_it_shallower() {
    for mode in ["step", "gradual"] {
        let mut deviated = 0;
        for seed in 0..300 {
            deviated += compare_with_off(mode, seed);
        }
        assert!(deviated > 10_000, "{mode} deviated from off {deviated} times only");
    }
}

fn compare_with_off(mode: &str, seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let count = if rng.one_in(3) { 2 } else { 3 + rng.below(6) as usize };
    let polls = rng.one_in(2);
    let (mut exit, mut residency) = (0, 0);
    let states: Vec<StateDesc> = (0..count)
        .map(|i| {
            exit += rng.below(50) as i64;
            residency += rng.below(1 << (2 * i)) as i64;
            let mut state = state(&format!("S{i}"), exit, residency.max(exit), polls && i == 0);
            state.is_disabled = rng.one_in(8);
            state
        })
        .collect();
    let (mut off, mut util_aware) = (teo("off", &states), teo(mode, &states));
    let mut now = Instant(0);
    let mut deviated = 0;
    for _ in 0..400 {
        let timer_ns = rng.magnitude(25);
        let asked = Inputs {
            now,
            tick_stopped: rng.one_in(3),
            util: rng.below(64),
            ..inputs(timer_ns, rng.below(4_000_000) as i64, 0)
        };
        let ((plain, plain_stop), (aware, aware_stop)) =
            (choice(&mut off, &asked), choice(&mut util_aware, &asked));
        let case = format!("seed {seed}, {mode}, {asked}, {states:?}: off {plain}, {aware}");
        if asked.util <= 16 {
            assert_eq!((plain, plain_stop), (aware, aware_stop), "not utilized: {case}");
        }
        let is_polling = |idx: i32| states[idx as usize].is_polling;
        // With two states the final form does not look at what it has learnt, which is the one case
        // of "deeper" than polling.
        let shortcut = mode == "step" && count == 2 && asked.util > 16;
        assert!((shortcut && is_polling(plain)) || aware <= plain, "deeper: {case}");
        assert!(!is_polling(aware) || is_polling(plain), "polls: {case}");
        assert!(shortcut || plain_stop == aware_stop, "another tick: {case}");
        assert!(aware == plain || !states[aware as usize].is_disabled, "a disabled state: {case}");
        deviated += u64::from(aware != plain);
        let slept = Duration(rng.magnitude(25).min(timer_ns));
        now += slept;
        for instance in [&mut off, &mut util_aware] {
            instance.set_last_residency(0, slept);
            instance.reflect(0, plain, now, false).unwrap();
        }
    }
    deviated
}
