// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Our `menu` and `teo` against the upstream files of Linux 6.1: the same decisions, call by call,
//! over random but legal sequences of calls.
//!
//! `TORPOR_SEED` repeats one sequence; `TORPOR_MIRROR_CALLS` sets how many select() calls to make.

mod support;

use std::path::Path;
use support::{Rng, catalog, kernel_sources};
use torpor_governor::{
    Catalog, CpuSetup, Governor, GovernorSpec, Inputs, Instance, Setup, StateDesc,
};
use torpor_units::{CpuId, Duration, Hz, Instant};

const CALLS: u64 = 10_000_000;
const CALLS_PER_SEQUENCE: u64 = 2_000;
const FIRST_SEED: u64 = 0x7045_0000;

#[test]
fn menu_decides_as_linux_6_1_does() {
    compare("menu");
}

#[test]
fn teo_decides_as_linux_6_1_does() {
    compare("teo");
}

/// The comparison can fail: another version of the governor is told apart.
#[test]
fn another_version_of_menu_and_teo_is_told_apart() {
    let Some(tree) = kernel_sources("6.12", "another version is told apart") else { return };
    for name in ["menu", "teo"] {
        let ours = resolve(name, Hz::H250);
        let theirs = resolve(&format!("{name}@{}", tree.display()), Hz::H250);
        assert!(told_apart(&ours, &theirs, 100), "{name} of 6.12 decides as {name} of 6.1");
    }
}

/// The comparison is sharp: a slip in any one of these places is told apart.
#[test]
fn a_slip_anywhere_is_told_apart() {
    let Some(tree) = kernel_sources("6.1", "slips are told apart") else { return };
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("slips");
    std::fs::create_dir_all(&dir).unwrap();
    let slips = [("menu", MENU_SLIPS), ("teo", TEO_SLIPS)];
    let mut unseen = Vec::new();
    for (name, slips) in slips {
        let builtin = Catalog::builtins().into_iter().find(|b| b.name == name).unwrap();
        let upstream = resolve(&format!("{name}@{}", tree.display()), Hz::H250);
        for (i, (sound, slip)) in slips.iter().enumerate() {
            assert_eq!(
                builtin.source.matches(sound).count(),
                1,
                "{name}.c must have one `{sound}`"
            );
            let path = dir.join(format!("{name}-{i}.c"));
            std::fs::write(&path, builtin.source.replace(sound, slip)).unwrap();
            let slipped = resolve(path.to_str().unwrap(), Hz::H250);
            if !told_apart(&slipped, &upstream, 2_000) {
                unseen.push(format!("{name}.c with `{slip}` for `{sound}`"));
            }
        }
    }
    assert!(unseen.is_empty(), "not told apart:\n{}", unseen.join("\n"));
}

const MENU_SLIPS: &[(&str, &str)] = &[
    ("ALIKE_VARIANCE_US2	400", "ALIKE_VARIANCE_US2	399"),
    ("ALIKE_MEAN2_RATIO	36", "ALIKE_MEAN2_RATIO	37"),
    ("NR_LENGTHS_MIN		6", "NR_LENGTHS_MIN		5"),
    ("9 * LONG_SLEEP_NS / 10", "LONG_SLEEP_NS"),
    ("menu->next_timer_ns > TICK_NSEC", "menu->next_timer_ns >= TICK_NSEC"),
    ("&& dev->poll_time_limit", ""),
    ("slept_ns > 2 * state", "slept_ns > state"),
    ("slept_ns < LONG_SLEEP_NS", "true"),
    ("next_timer_ns >= bound_ns", "next_timer_ns > bound_ns"),
    ("RATIO_ONE * NSEC_PER_USEC / 2,", "0,"),
    ("cutoff_us = sample.most - 1", "cutoff_us = sample.most - 2"),
    ("sample.least >= timer_us", "sample.least > timer_us"),
    ("deeper->exit_latency_ns <= latency_req_ns", "deeper->exit_latency_ns < latency_req_ns"),
    ("deeper->target_residency_ns <= menu->next", "deeper->target_residency_ns < menu->next"),
    ("deeper->target_residency_ns <= delta", "deeper->target_residency_ns < delta"),
    ("state->target_residency_ns > *predicted", "state->target_residency_ns >= *predicted"),
    ("state->exit_latency_ns > latency", "state->exit_latency_ns >= latency"),
    ("target_residency_ns > within_ns", "target_residency_ns >= within_ns"),
    ("} else if (!dev->last_residency_ns) {", "} else if (false) {"),
    ("1 + 10 * nr_iowait", "1 + 9 * nr_iowait"),
    ("timer_ns < drv->states[1]", "timer_ns <= drv->states[1]"),
    ("latency_req_ns < drv->states[1]", "latency_req_ns <= drv->states[1]"),
    ("\t\tdelta_tick_ns = 0;\n", ""),
    ("|| predicted_ns < TICK_NSEC)", "|| predicted_ns <= TICK_NSEC)"),
];

const TEO_SLIPS: &[(&str, &str)] = &[
    ("SLEEP_WEIGHT		1024", "SLEEP_WEIGHT		1023"),
    ("DECAY_SHIFT		3", "DECAY_SHIFT		4"),
    ("NR_RECENT		9", "NR_RECENT		8"),
    ("by_recent = shallower->recent > NR_RECENT / 2", "by_recent = false"),
    ("teo->sleep_ns >= teo->sleep_length_ns", "teo->sleep_ns > teo->sleep_length_ns"),
    ("slept_ns < exit_latency_ns ?", "slept_ns <= exit_latency_ns ?"),
    ("slept_ns - exit_latency_ns / 2", "slept_ns - exit_latency_ns"),
    ("residency_ns > teo->sleep_length_ns", "residency_ns >= teo->sleep_length_ns"),
    ("residency_ns <= slept_ns", "residency_ns < slept_ns"),
    ("sleep_ns >= TICK_NSEC", "sleep_ns > TICK_NSEC - 100000"),
    ("2 * shallower->intercepts > teo", "2 * shallower->intercepts >= teo"),
    ("2 * passed.recent > shallower", "2 * passed.recent >= shallower"),
    ("passed.intercepts > shallower->intercepts", "passed.intercepts > teo->total"),
    ("*choice = fits ? here : suitable", "*choice = here"),
    ("else if (enabled && suitable.idx == choice->idx)", "else if (enabled)"),
    (
        "target_residency_ns > choice.sleep_ns)\n\t\t\treturn",
        "target_residency_ns >= choice.sleep_ns)\n\t\t\treturn",
    ),
    (
        "target_residency_ns > choice.sleep_ns)\n\t\t\tbreak",
        "target_residency_ns >= choice.sleep_ns)\n\t\t\tbreak",
    ),
    ("exit_latency_ns <= latency_req_ns", "exit_latency_ns < latency_req_ns"),
    ("choice.idx = min(choice.idx, within_limit);", ""),
    ("\t\t\t*first = i;\n", ""),
    ("drv->states[i].target_residency_ns <= within_ns", "true"),
    ("target_residency_ns > delta_tick_ns", "target_residency_ns >= delta_tick_ns"),
    ("(mode == UTIL_STEP && teo_utilized", "(teo_utilized"),
    ("|| choice.sleep_ns < TICK_NSEC", "|| choice.sleep_ns <= TICK_NSEC"),
    ("dev->last_state_idx = -1;", ""),
    ("if (dev->poll_time_limit ||", "if (false ||"),
    ("teo->sleep_length_ns > TICK_NSEC))", "teo->sleep_length_ns > 0))"),
    ("\t\tdev->poll_time_limit = false;\n", ""),
];

/// What utilization does in the kernel that had it, where a tree of Linux 6.3 is at hand: no
/// Debian package holds one. TORPOR_LINUX_6_3 names it, with `:REV` for a git revision.
#[test]
fn teo_with_utilization_decides_as_linux_6_3_does() {
    let test = "teo,util_mode=step against Linux 6.3";
    let Ok(tree) = std::env::var("TORPOR_LINUX_6_3") else {
        eprintln!("not run: {test}: TORPOR_LINUX_6_3 names no kernel tree");
        return;
    };
    compare_with("teo,util_mode=step", &format!("teo@{tree}"));
}

fn told_apart(ours: &Governor, theirs: &Governor, sequences: u64) -> bool {
    let mut total = Tally::default();
    (0..sequences).any(|seed| run(ours, theirs, seed, &mut total, false).is_err())
}

fn resolve(spec: &str, hz: Hz) -> Governor {
    let spec: GovernorSpec = spec.parse().expect("the test's spec is sound");
    catalog().resolve(&spec, hz).unwrap_or_else(|e| panic!("{e}"))
}

fn compare(name: &str) {
    let Some(tree) = kernel_sources("6.1", &format!("{name} against Linux 6.1")) else { return };
    compare_with(name, &format!("{name}@{}", tree.display()));
}

fn compare_with(name: &str, upstream: &str) {
    let pairs: Vec<(Governor, Governor)> =
        Hz::ALL.iter().map(|hz| (resolve(name, *hz), resolve(upstream, *hz))).collect();
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{name}={text} is no number")))
    };
    let one_seed = number("TORPOR_SEED");
    let calls = number("TORPOR_MIRROR_CALLS").unwrap_or(CALLS);
    let mut total = Tally::default();
    let mut seed = one_seed.unwrap_or(FIRST_SEED);
    while total.selects < calls {
        let (ours, theirs) = &pairs[(seed % 4) as usize];
        if run(ours, theirs, seed, &mut total, false).is_err() {
            let story = run(ours, theirs, seed, &mut total, true).expect_err("it differs again");
            panic!("{name} differs; repeat with TORPOR_SEED={seed}\n{story}");
        }
        if one_seed.is_some() {
            break;
        }
        seed += 1;
    }
    println!("{name}: {total:?}");
    if one_seed.is_none() && calls >= CALLS {
        total.check_that_all_was_reached();
    }
}

/// What the sequences have met, so that a generator that misses a case is noticed.
#[derive(Debug, Default)]
struct Tally {
    selects: u64,
    tick_kept: u64,
    by_state: [u64; 10],
    tick_was_stopped: u64,
    got_tick: u64,
    rejected: u64,
    poll_time_outs: u64,
    negative_sleep_length: u64,
    latency_limited: u64,
    iowait: u64,
    utilized: u64,
    toggled: u64,
}

impl Tally {
    fn check_that_all_was_reached(&self) {
        assert!(self.by_state.iter().all(|n| *n > 1_000), "some state is hardly chosen: {self:?}");
        let counts = [
            self.tick_kept,
            self.selects - self.tick_kept,
            self.tick_was_stopped,
            self.got_tick,
            self.rejected,
            self.poll_time_outs,
            self.negative_sleep_length,
            self.latency_limited,
            self.iowait,
            self.utilized,
            self.toggled,
        ];
        assert!(counts.iter().all(|n| *n > 10_000), "some case is hardly met: {self:?}");
    }
}

/// Two instances in step, on CPUs of one table.
struct Pair<'a> {
    ours: Instance,
    theirs: Instance,
    states: &'a [StateDesc],
    disabled: Vec<bool>,
    rng: Rng,
    now: Instant,
    tick_stopped: bool,
    hz: Hz,
    /// The last calls, for the story of a difference; only kept when one is told.
    log: Option<Vec<String>>,
}

fn run(
    ours: &Governor,
    theirs: &Governor,
    seed: u64,
    total: &mut Tally,
    tell: bool,
) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let states = random_states(&mut rng);
    let setup = Setup { cpus: &[CpuSetup { cpu: CpuId(rng.below(3) as u32), states: &states }] };
    let mut pair = Pair {
        ours: ours.instantiate(&setup).expect("ours loads"),
        theirs: theirs.instantiate(&setup).expect("theirs loads"),
        states: &states,
        disabled: states.iter().map(|s| s.is_disabled).collect(),
        now: Instant(rng.magnitude(50)),
        tick_stopped: false,
        hz: ours.hz(),
        rng,
        log: tell.then(Vec::new),
    };
    let style = Style::random(&mut pair.rng);
    for _ in 0..CALLS_PER_SEQUENCE {
        pair.step(&style, total).map_err(|difference| {
            let log = pair.log.take().unwrap_or_default();
            let recent = log[log.len().saturating_sub(24)..].join("\n");
            format!(
                "states: {states:#?}\nat {} the last calls were\n{recent}\n{difference}",
                pair.hz
            )
        })?;
    }
    Ok(())
}

fn random_states(rng: &mut Rng) -> Vec<StateDesc> {
    let count = 2 + rng.below(9) as usize;
    let is_polling = rng.one_in(2);
    let (mut exit_ns, mut residency_ns) = (0, 0);
    // A step's size in bits: small steps crowd the states below a tick period, large ones reach
    // beyond it.
    let bits = 8 + rng.below(16);
    (0..count)
        .map(|i| {
            let first = i == 0;
            if !(first && (is_polling || rng.one_in(2))) {
                exit_ns += rng.magnitude(bits.min(20));
                residency_ns += rng.magnitude(bits);
            }
            // A break-even time below the exit latency exists, but is rare.
            if !rng.one_in(8) {
                residency_ns = residency_ns.max(exit_ns);
            }
            StateDesc {
                name: format!("S{i}"),
                exit_latency: Duration(exit_ns),
                target_residency: Duration(residency_ns),
                is_polling: is_polling && first,
                is_disabled: rng.one_in(12),
            }
        })
        .collect()
}

/// What a sequence is like as a whole; mixtures of everything would all be alike.
struct Style {
    sleep_bits: u64,
    timer_bits: u64,
    /// Sleeps in a row before the CPU has something to run, which restarts the tick.
    idle_visits: u64,
    /// Sleeps repeat one length, give or take.
    period_ns: Option<i64>,
    jitter_ns: u64,
    /// One sleep in so many does not.
    outliers: u64,
    /// No timer ends those sleeps.
    timer_least_ns: i64,
    limits: bool,
    iowait: bool,
    toggles: bool,
    extremes: bool,
}

impl Style {
    fn random(rng: &mut Rng) -> Style {
        let period_ns = rng.one_in(3).then(|| rng.magnitude(26));
        // Around where lengths stop being alike: 20 us, or a sixth of their mean.
        let part = rng.below(120) as i64;
        let jitter_ns = if rng.one_in(2) { 70_000 } else { period_ns.unwrap_or(0) * part / 100 };
        Style {
            sleep_bits: 10 + rng.below(24),
            timer_bits: 14 + rng.below(22),
            idle_visits: 1 + rng.below(30),
            period_ns,
            jitter_ns: jitter_ns as u64 + 1,
            outliers: [4, 8, 100][rng.below(3) as usize],
            timer_least_ns: if rng.one_in(2) { 3 * period_ns.unwrap_or(0) } else { 0 },
            limits: rng.one_in(3),
            iowait: rng.one_in(2),
            toggles: rng.one_in(3),
            extremes: rng.one_in(10),
        }
    }
}

impl Pair<'_> {
    fn step(&mut self, style: &Style, total: &mut Tally) -> Result<(), String> {
        if style.toggles && self.rng.one_in(50) {
            self.toggle();
            total.toggled += 1;
        }
        let inputs = self.random_inputs(style);
        let ours = self.ours.select(0, &inputs).map_err(|e| e.to_string())?;
        let theirs = self.theirs.select(0, &inputs).map_err(|e| e.to_string())?;
        self.note(|| format!("select {inputs} -> {theirs:?}"));
        if ours != theirs {
            return Err(format!("ours chose {ours:?}"));
        }
        total.selects += 1;
        total.by_state[ours.state as usize] += 1;
        total.tick_kept += u64::from(!ours.stop_tick);
        total.tick_was_stopped += u64::from(inputs.tick_stopped);
        total.negative_sleep_length += u64::from(inputs.sleep_length.is_negative());
        total.latency_limited += u64::from(inputs.latency_req != Duration::MAX);
        total.utilized += u64::from(inputs.util > 16);
        total.iowait += u64::from(inputs.nr_iowait > 0);

        // As the kernel: stopping needs a next event beyond the tick; once stopped it stays so
        // until the CPU leaves idle.
        self.tick_stopped |= ours.stop_tick && inputs.sleep_length > inputs.delta_next;
        self.sleep(style, &inputs, ours.state as usize, total);
        if self.tick_stopped && self.rng.one_in(style.idle_visits) {
            self.tick_stopped = false;
        }
        Ok(())
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(text());
        }
    }

    fn toggle(&mut self) {
        let state = self.rng.below(self.states.len() as u64) as usize;
        self.disabled[state] ^= true;
        for instance in [&mut self.ours, &mut self.theirs] {
            instance.set_state_disabled(0, state, self.disabled[state]);
        }
        let disabled = self.disabled[state];
        self.note(|| format!("state {state} disabled: {disabled}"));
    }

    fn random_inputs(&mut self, style: &Style) -> Inputs {
        let rng = &mut self.rng;
        let tick_ns = self.hz.tick().0;
        let mut sleep_length_ns = style.timer_least_ns + rng.magnitude(style.timer_bits);
        if rng.one_in(40) {
            sleep_length_ns = -rng.magnitude(18);
        } else if style.extremes && rng.one_in(4) {
            sleep_length_ns = i64::MAX - rng.magnitude(62);
        }
        // Near a boundary, where an off-by-one would show.
        if rng.one_in(if self.tick_stopped { 3 } else { 8 }) {
            let edge = match rng.below(3) {
                0 => tick_ns,
                _ => self.states[rng.below(self.states.len() as u64) as usize].target_residency.0,
            };
            sleep_length_ns = edge + rng.below(3) as i64 - 1;
        }
        // The tick, while it runs, bounds the next event; RCU and others keep it from stopping.
        let tick_in_ns = rng.below(tick_ns as u64) as i64 - if rng.one_in(50) { 2_000 } else { 0 };
        let delta_next_ns =
            if self.tick_stopped { sleep_length_ns } else { sleep_length_ns.min(tick_in_ns) };
        if rng.one_in(10) {
            sleep_length_ns = delta_next_ns;
        }
        let latency_req = if style.limits && rng.one_in(2) {
            let states = self.states.len() as u64;
            let latency = self.states[rng.below(states) as usize].exit_latency.0;
            match rng.below(4) {
                0 => Duration::ZERO,
                1 => Duration(rng.magnitude(24)),
                _ => Duration((latency + rng.below(3) as i64 - 1).max(0)),
            }
        } else {
            Duration::MAX
        };
        let nr_iowait = if style.iowait && rng.one_in(3) { 1 + rng.below(6) as u32 } else { 0 };
        Inputs {
            now: self.now,
            sleep_length: Duration(sleep_length_ns),
            delta_next: Duration(delta_next_ns),
            tick_stopped: self.tick_stopped,
            latency_req,
            nr_iowait,
            // Around a 64th of the capacity; the kernel of 6.1 asks for neither.
            util: if rng.one_in(2) { rng.below(40) } else { 0 },
            capacity: 1024,
        }
    }

    /// The sleep, and what the kernel tells the governor after it.
    fn sleep(&mut self, style: &Style, inputs: &Inputs, state: usize, total: &mut Tally) {
        // The driver refuses, or a task has become runnable: no sleep, no reflect().
        if self.rng.one_in(25) {
            total.rejected += 1;
            self.note(|| "rejected".to_owned());
            for instance in [&mut self.ours, &mut self.theirs] {
                instance.set_last_residency(0, Duration::ZERO);
            }
            self.now += Duration(self.rng.magnitude(14));
            return;
        }
        let mut slept_ns = match style.period_ns {
            Some(period_ns) if !self.rng.one_in(style.outliers) => {
                period_ns + self.rng.below(style.jitter_ns) as i64
            }
            _ => self.rng.magnitude(style.sleep_bits),
        };
        let next_ns = if self.tick_stopped { inputs.sleep_length.0 } else { inputs.delta_next.0 };
        let woken_by_timer = slept_ns >= next_ns;
        if woken_by_timer {
            slept_ns = next_ns.max(0) + self.rng.magnitude(12);
        }
        if style.extremes && self.rng.one_in(30) {
            slept_ns = self.rng.magnitude(53);
        }
        let got_tick = woken_by_timer && !self.tick_stopped && self.rng.one_in(2);
        // The polling state clears the flag when it is entered and sets it when it gives up.
        if self.states[state].is_polling {
            let gave_up = self.rng.one_in(4);
            total.poll_time_outs += u64::from(gave_up);
            for instance in [&mut self.ours, &mut self.theirs] {
                instance.set_poll_time_limit(0, gave_up);
            }
            self.note(|| format!("poll_time_limit {gave_up}"));
        }
        total.got_tick += u64::from(got_tick);
        let residency = Duration(
            slept_ns
                + self.rng.magnitude(self.states[state].exit_latency.0.max(1).ilog2() as u64 + 1),
        );
        // Now and then the clock and the measured residency fall on different sides of the timer.
        self.now += residency + Duration(self.rng.magnitude(12));
        self.note(|| format!("reflect {state} residency_ns={} got_tick={got_tick}", residency.0));
        for instance in [&mut self.ours, &mut self.theirs] {
            instance.set_last_residency(0, residency);
            instance.reflect(0, state as i32, self.now, got_tick).expect("reflect returns");
        }
        self.now += Duration(self.rng.magnitude(20));
    }
}
