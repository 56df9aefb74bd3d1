// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `menu-3.7` and `menu-3.8`: worked examples, and the effect of each of the four changes.

use crate::support::{Rng, resolve, state};
use torpor_governor::{CpuSetup, Inputs, Instance, Selection, Setup, StateDesc};
use torpor_machine::units::{CpuId, Duration, Hz, Instant};

const SECOND: Duration = Duration::from_us(1_000_000);

/// A CPU under one governor. No state takes time to leave unless a test says so, so that lengths
/// are learnt as they are.
struct Lone {
    menu: Instance,
    now: Instant,
}

impl Lone {
    fn with_states(spec: &str, states: &[StateDesc]) -> Lone {
        let governor = resolve(spec, Hz::H250);
        let cpus = [CpuSetup::new(CpuId(0), states)];
        Lone { menu: governor.instantiate(&Setup { cpus: &cpus }).unwrap(), now: Instant(0) }
    }

    fn new(spec: &str) -> Lone {
        let states =
            [state("WFI", 0, 0, false), state("C2", 0, 185, false), state("C3", 0, 2_000, false)];
        Lone::with_states(spec, &states)
    }

    fn select(&mut self, sleep_length: Duration) -> Selection {
        let inputs = Inputs {
            now: self.now,
            sleep_length,
            delta_next: sleep_length.min(Duration::from_us(4_000)),
            ..Inputs::default()
        };
        self.menu.select(0, &inputs).unwrap()
    }

    fn wake(&mut self, choice: Selection, slept_us: i64) {
        self.now += Duration::from_us(slept_us);
        self.menu.set_last_residency(0, Duration::from_us(slept_us));
        self.menu.reflect(0, choice.state, self.now, false).unwrap();
    }

    /// Sleeps with a timer in a second.
    fn sleep_all(&mut self, lengths_us: &[i64]) {
        for &slept_us in lengths_us {
            let choice = self.select(SECOND);
            self.wake(choice, slept_us);
        }
    }

    /// When the governor's timer expires, from now.
    fn timer_us(&self) -> Option<i64> {
        self.menu.next_timer(0).map(|at| at.since(self.now).0 / 1_000)
    }
}

const EXAMPLE_US: [i64; 8] = [200, 180, 210, 10_000, 30, 1_000, 170, 200];

#[test]
fn worked_example_stays_below_200() {
    // All eight: mean 11990/8 = 1498, deviation 3222: not alike; 10000 is farthest off.
    // Seven: 1990/7 = 284, deviation 297; 1000 is 716 off, 30 only 254.
    // Six: 990/6 = 165, deviation int_sqrt(22950/6 = 3825) = 61, more than 20 and than a sixth of
    // 165; 30 is 135 off, 210 only 45.
    // Five: 960/5 = 192, deviation int_sqrt(1080/5 = 216) = 14: alike.
    let mut menu = Lone::new("menu-3.8,typical_interval=2");
    menu.sleep_all(&EXAMPLE_US);
    // 192 us are enough for C2 (185), and the timer shows the prediction: 2 * (192 + 60).
    assert_eq!(menu.select(SECOND).state, 1);
    assert_eq!(menu.timer_us(), Some(504));
}

#[test]
fn menu_3_8_finds_no_pattern_in_example() {
    // As above down to six lengths, which are not alike; fewer are not looked at. The ratio
    // decides: eight sleeps that were nothing compared to a second leave 8192 * (7/8)^8 = 2814 and
    // a bit of 8192: a third of a second.
    for detector in [0, 1] {
        let mut menu = Lone::new(&format!("menu-3.8,typical_interval={detector}"));
        menu.sleep_all(&EXAMPLE_US);
        assert_eq!(menu.select(SECOND).state, 2, "detector {detector}");
        assert_eq!(menu.timer_us(), None, "detector {detector}: no state is beyond the prediction");
    }
}

#[test]
fn only_menu_3_8_sees_through_long_outliers() {
    // With 190 for the 30, what remains without 10000 and 1000 is 200 180 210 190 170 200: mean
    // 1150/6 = 191, deviation int_sqrt(1086/6 = 181) = 13.
    let lengths_us = EXAMPLE_US.map(|us| if us == 30 { 190 } else { us });
    let mut menu = Lone::new("menu-3.8");
    menu.sleep_all(&lengths_us);
    assert_eq!(menu.select(SECOND).state, 1);
    assert_eq!(menu.timer_us(), Some(2 * (191 + 60)));

    for spec in ["menu-3.8,typical_interval=0", "menu-3.7"] {
        let mut menu = Lone::new(spec);
        menu.sleep_all(&lengths_us);
        assert_eq!(menu.select(SECOND).state, 2, "{spec}");
    }
}

#[test]
fn repeat_timer_needs_a_four_times_farther_timer() {
    // A pattern of 100 us keeps out C2; 2 * (100 + 60) = 320 us, four times which is 1280 us.
    let armed = |params: &str, timer_us: i64| {
        let mut menu = Lone::new(&format!("menu-3.8{params}"));
        menu.sleep_all(&[100; 8]);
        assert_eq!(menu.select(Duration::from_us(timer_us)).state, 0);
        menu.timer_us()
    };
    assert_eq!(armed("", 1_280), None);
    assert_eq!(armed("", 1_281), Some(320));
    assert_eq!(armed(",repeat_timer=0", 1_281), None);
    // Beyond 30 ms the general timer steps in.
    assert_eq!(armed(",repeat_timer=0", 30_000), None);
    assert_eq!(armed(",repeat_timer=0", 30_001), Some(320));
    assert_eq!(armed(",repeat_timer=0,perfect_cstate_ms=31", 30_001), None);
    assert_eq!(armed(",repeat_timer=0,general_timer=0", 30_001), None);
}

#[test]
fn the_timer_is_cancelled_on_wake_up() {
    let mut menu = Lone::new("menu-3.8");
    menu.sleep_all(&[100; 8]);
    let choice = menu.select(SECOND);
    assert!(menu.timer_us().is_some());
    menu.wake(choice, 100);
    assert_eq!(menu.timer_us(), None);
    // A given-up entry leaves it armed until the next select() or the governor's end.
    menu.select(SECOND);
    menu.menu.disable(0).unwrap();
    assert_eq!(menu.timer_us(), None);
}

#[test]
fn general_timer_resets_the_ratio() {
    // Sleeps far too short for their timer, and no pattern in them.
    let short_us = [10, 300, 20, 500, 5, 250, 40, 400].repeat(12);
    let mut menu = Lone::new("menu-3.8");
    menu.sleep_all(&short_us);
    let choice = menu.select(SECOND);
    let timer_us = menu.timer_us().expect("the prediction is short, the timer far");
    assert_eq!(choice.state, 0, "{timer_us}");
    menu.now += Duration::from_us(timer_us);
    menu.menu.fire_timer(0, menu.now).unwrap();
    menu.menu.set_last_residency(0, Duration::from_us(timer_us));
    menu.menu.reflect(0, choice.state, menu.now, false).unwrap();
    // The ratio is 1 again, less an eighth for this sleep: 0.875 s.
    assert_eq!(menu.select(SECOND).state, 2);

    let mut menu = Lone::new("menu-3.8,general_timer=0");
    menu.sleep_all(&short_us);
    let choice = menu.select(SECOND);
    assert_eq!((choice.state, menu.timer_us()), (0, None));
    menu.wake(choice, timer_us);
    assert_eq!(menu.select(SECOND).state, 0, "without the timer's callback nothing changes");
}

#[test]
fn aborted_entry_is_a_length_of_0() {
    // Seven lengths of 100 us and a 0: mean 87, deviation 33. Leaving out the longest leaves out
    // all seven at once, and a lone 0 is alike: the prediction is 0, the timer 2 * (0 + 60) us.
    let given_up = |params: &str| {
        let mut menu = Lone::new(&format!("menu-3.8{params}"));
        menu.sleep_all(&[100; 8]);
        menu.select(SECOND);
        menu.menu.set_last_residency(0, Duration::ZERO);
        menu.select(SECOND);
        menu.timer_us()
    };
    assert_eq!(given_up(""), Some(120));
    assert_eq!(given_up(",zero_residency=0"), Some(320));
    // 3.7's detector just finds that they are no longer alike: 0.3 s by the ratio, no timer.
    assert_eq!(given_up(",typical_interval=0"), None);
    assert_eq!(given_up(",typical_interval=0,zero_residency=0"), Some(320));
}

#[test]
fn load_and_io_waiters_lower_the_latency_limit() {
    let states = [state("WFI", 0, 0, false), state("C2", 10, 20, false)];
    let choice = |load_avg: u64, nr_iowait: u32| {
        let mut menu = Lone::with_states("menu-3.7", &states);
        menu.sleep_all(&[109; 8]);
        let inputs = Inputs { sleep_length: SECOND, load_avg, nr_iowait, ..Inputs::default() };
        menu.menu.select(0, &inputs).unwrap().state
    };
    // 109 us are predicted, and C2 takes 10 to leave: up to ten times that may pass.
    assert_eq!(choice(0, 0), 1);
    // A task that always runs (1024, half a unit of load) makes the multiplier 1 + 2 * 5.
    assert_eq!(choice(1_024, 0), 0);
    // Four tenths: 820 in eleven fractional bits; 1 + 2 * 4.
    assert_eq!(choice(820, 0), 1);
    assert_eq!(choice(0, 1), 0);
}

/// With the four changes switched off nothing of them is left.
#[test]
fn menu_3_8_without_changes_equals_3_7() {
    let off = "menu-3.8,typical_interval=0,repeat_timer=0,general_timer=0,zero_residency=0";
    let states = crate::support::server_states();
    let (mut differs, mut deep) = ([0; 5], 0);
    for seed in 0..200 {
        let with = |spec: &str| Lone::with_states(spec, &states);
        let mut rng = Rng::new(seed);
        let mut old = with("menu-3.7");
        // Each change alone makes a difference to some of these choices.
        let mut others = [
            with(off),
            with("menu-3.8,repeat_timer=0,general_timer=0,zero_residency=0"),
            with("menu-3.8,typical_interval=0,general_timer=0,zero_residency=0"),
            with("menu-3.8,typical_interval=0,repeat_timer=0,zero_residency=0"),
            with("menu-3.8,typical_interval=0,repeat_timer=0,general_timer=0"),
        ];
        let (bits, period_us) = (8 + rng.below(20), rng.magnitude(12));
        for _ in 0..1_000 {
            let inputs = Inputs {
                sleep_length: Duration(rng.magnitude(36) - 10),
                nr_iowait: rng.below(8).saturating_sub(6) as u32,
                load_avg: rng.below(3) * rng.below(2_048),
                latency_req: Duration::from_us(if rng.one_in(9) { 50 } else { 1 << 30 }),
                ..Inputs::default()
            };
            let slept_us = if rng.one_in(8) { rng.magnitude(bits) } else { period_us };
            let gave_up = rng.one_in(30);
            let mut expected = 0;
            for (i, menu) in [&mut old].into_iter().chain(&mut others).enumerate() {
                let choice = menu.menu.select(0, &Inputs { now: menu.now, ..inputs }).unwrap();
                if i == 0 {
                    expected = choice.state;
                    deep += u64::from(choice.state == 3);
                } else if choice.state != expected {
                    differs[i - 1] += 1;
                }
                if gave_up {
                    menu.menu.set_last_residency(0, Duration::ZERO);
                    continue;
                }
                let timer_us = menu.timer_us().filter(|us| *us < slept_us);
                if timer_us.is_some() {
                    let at = menu.menu.next_timer(0).unwrap();
                    menu.menu.fire_timer(0, at).unwrap();
                }
                menu.wake(choice, timer_us.unwrap_or(slept_us));
            }
        }
    }
    println!("deep {deep}, differences {differs:?}");
    assert_eq!(differs[0], 0);
    assert!(differs[1..].iter().all(|n| *n > 100) && deep > 1_000, "{deep} {differs:?}");
}
