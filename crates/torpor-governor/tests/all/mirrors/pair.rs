// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Runs two governors through one random valid sequence of calls.

use super::Mirror;
use crate::support::Rng;
use torpor_governor::{CpuSetup, Governor, Inputs, Instance, ParamType, Release, Setup, StateDesc};
use torpor_machine::units::{CpuId, Duration, Hz, Instant};

const CALLS_PER_SEQUENCE: u64 = 2_000;

/// Coverage of the sequences.
#[derive(Debug, Default)]
pub struct Tally {
    pub selects: u64,
    tick_kept: u64,
    by_state: [u64; 10],
    tick_was_stopped: u64,
    got_tick: u64,
    rejected: u64,
    poll_time_outs: u64,
    negative_sleep_length: u64,
    /// Negative sleep lengths were left out: see [`Pair::timers_wrap`].
    timers_wrap: bool,
    latency_limited: u64,
    iowait: u64,
    utilized: u64,
    toggled: u64,
    demoted: u64,
}

impl Tally {
    pub fn check_coverage(&self, mirror: &Mirror) {
        let reached = &self.by_state[..mirror.reach];
        let least = self.selects / 10_000;
        assert!(reached.iter().all(|n| *n > least), "some state is hardly chosen: {self:?}");
        let counts = [
            // Before 4.17, when timers wrapped, governors did not decide on the tick.
            if mirror.keeps_tick && !self.timers_wrap { self.tick_kept } else { u64::MAX },
            self.selects - self.tick_kept,
            self.tick_was_stopped,
            self.got_tick,
            self.rejected,
            self.poll_time_outs,
            if self.timers_wrap { u64::MAX } else { self.negative_sleep_length },
            self.latency_limited,
            self.iowait,
            self.utilized,
            self.toggled,
            self.demoted,
        ];
        assert!(counts.iter().all(|n| *n > 10 * least), "some case is hardly met: {self:?}");
    }
}

/// Two instances with the same CPU.
struct Pair<'a> {
    ours: Instance,
    theirs: Instance,
    states: &'a [StateDesc],
    disabled: Vec<bool>,
    rng: Rng,
    now: Instant,
    tick_stopped: bool,
    /// Governors since 5.4 store state in the device.
    compares_devices: bool,
    /// Kernels before 4.17 misread a timer that has passed or is more than 71 minutes away; our
    /// mirrors of them do not.
    timers_wrap: bool,
    /// Parameters that both have; a mirror may have more, whose defaults keep it a mirror.
    shared_params: Vec<(String, ParamType)>,
    hz: Hz,
    /// The last calls, to be printed with a difference.
    log: Option<Vec<String>>,
}

/// Runs one sequence; the error describes the difference, with `logs` also the last calls.
pub fn run(
    ours: &Governor,
    theirs: &Governor,
    seed: u64,
    total: &mut Tally,
    logs: bool,
) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let states = random_states(&mut rng);
    let setup = Setup { cpus: &[CpuSetup::new(CpuId(rng.below(3) as u32), &states)] };
    let mut pair = Pair {
        ours: ours.instantiate(&setup).expect("ours loads"),
        theirs: theirs.instantiate(&setup).expect("theirs loads"),
        states: &states,
        disabled: states.iter().map(|s| s.is_disabled).collect(),
        now: Instant(rng.magnitude(50)),
        tick_stopped: false,
        timers_wrap: theirs.release() < Release { major: 4, minor: 17 },
        compares_devices: theirs.release() >= Release { major: 5, minor: 4 },
        shared_params: ours
            .params()
            .iter()
            .filter(|mine| theirs.params().iter().any(|p| p.name == mine.name))
            .map(|p| (p.name.clone(), p.kind))
            .collect(),
        hz: ours.hz(),
        rng,
        log: logs.then(Vec::new),
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
    // Some governors treat machines with two states, such as many phones and all guests,
    // differently.
    let count = if rng.one_in(4) { 2 } else { 2 + rng.below(9) as usize };
    let is_polling = rng.one_in(2);
    let (mut exit_ns, mut residency_ns) = (0, 0);
    // A step's size in bits: small steps crowd the states below a tick period, large ones reach
    // beyond it.
    let bits = 8 + rng.below(16);
    (0..count)
        .map(|i| {
            let first = i == 0;
            // A polling state with a latency is odd, and legal.
            let is_free = first && if is_polling { !rng.one_in(16) } else { rng.one_in(2) };
            if !is_free {
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

/// Properties of a sequence as a whole, so that sequences differ from each other.
struct Style {
    sleep_bits: u64,
    timer_bits: u64,
    /// Sleeps in a row before the CPU has something to run, which restarts the tick.
    idle_visits: u64,
    /// Typical length of sleeps.
    period_ns: Option<i64>,
    jitter_ns: u64,
    /// One sleep in this many has another length.
    outliers: u64,
    /// Minimum timer distance, so that no timer ends the typical sleeps.
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
        let timers = (self.ours.next_timer(0), self.theirs.next_timer(0));
        if timers.0 != timers.1 {
            return Err(format!(
                "the governor's own timer: ours {:?}, theirs {:?}",
                timers.0, timers.1
            ));
        }
        total.selects += 1;
        total.by_state[ours.state as usize] += 1;
        total.tick_kept += u64::from(!ours.stop_tick);
        total.tick_was_stopped += u64::from(inputs.tick_stopped);
        total.timers_wrap |= self.timers_wrap;
        total.negative_sleep_length += u64::from(inputs.sleep_length.is_negative());
        total.latency_limited += u64::from(inputs.latency_req != Duration::MAX);
        total.utilized += u64::from(inputs.util > 16);
        total.iowait += u64::from(inputs.nr_iowait > 0);
        self.compare_devices()?;

        // As the kernel: stopping needs a next event beyond the tick; once stopped it stays so
        // until the CPU leaves idle.
        self.tick_stopped |= ours.stop_tick && inputs.sleep_length > inputs.delta_next;
        // A driver may enter a shallower state than the requested one.
        let mut entered = ours.state as usize;
        if entered > 0 && self.rng.one_in(60) {
            entered = self.rng.below(ours.state as u64) as usize;
            total.demoted += 1;
        }
        self.sleep(style, &inputs, entered, total);
        self.compare_devices()?;
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

    /// Compares everything that governors may change besides their own data.
    fn compare_devices(&self) -> Result<(), String> {
        let of = |instance: &Instance| {
            (instance.last_state_idx(0), instance.poll_limit_ns(0), instance.poll_time_limit(0))
        };
        let (ours, theirs) = (of(&self.ours), of(&self.theirs));
        if ours == theirs || !self.compares_devices {
            return Ok(());
        }
        Err(format!("(last state, polling limit, gave up): ours has {ours:?}, theirs {theirs:?}"))
    }

    fn toggle(&mut self) {
        match self.rng.below(8) {
            0 => return self.replug(),
            1..3 if !self.shared_params.is_empty() => return self.set_param(),
            _ => {}
        }
        let state = self.rng.below(self.states.len() as u64) as usize;
        self.disabled[state] ^= true;
        for instance in [&mut self.ours, &mut self.theirs] {
            instance.set_state_disabled(0, state, self.disabled[state]);
        }
        let disabled = self.disabled[state];
        self.note(|| format!("state {state} disabled: {disabled}"));
    }

    /// Disables and enables the CPU; the device keeps its fields unless the governor clears them.
    fn replug(&mut self) {
        self.note(|| "disable, enable".to_owned());
        for instance in [&mut self.ours, &mut self.theirs] {
            instance.disable(0).expect("disable returns");
            instance.enable(0).expect("enable succeeds");
        }
    }

    fn set_param(&mut self) {
        let (name, kind) =
            &self.shared_params[self.rng.below(self.shared_params.len() as u64) as usize];
        let value = match kind {
            ParamType::Bool => self.rng.below(2).to_string(),
            _ if self.rng.one_in(2) => self.rng.below(5).to_string(),
            _ => self.rng.magnitude(24).to_string(),
        };
        for instance in [&mut self.ours, &mut self.theirs] {
            instance.set_param(name, &value).expect("both have the parameter");
        }
        let text = format!("{name}={value}");
        self.note(|| text);
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
        let mut delta_next_ns =
            if self.tick_stopped { sleep_length_ns } else { sleep_length_ns.min(tick_in_ns) };
        if rng.one_in(10) {
            sleep_length_ns = delta_next_ns;
        }
        if self.timers_wrap {
            let most_ns = i64::from(u32::MAX) * 1_000;
            sleep_length_ns = sleep_length_ns.clamp(0, most_ns);
            delta_next_ns = delta_next_ns.clamp(0, most_ns);
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
            // Used only before 3.16: up to four tasks that always run.
            load_avg: if style.iowait { rng.below(4 * 1024) } else { 0 },
        }
    }

    /// Sleeps, and calls the governor after it.
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
            for instance in [&mut self.ours, &mut self.theirs] {
                // As cpuidle_poll_time() does.
                if instance.poll_limit_ns(0) == 0 {
                    instance.set_poll_limit_ns(0, self.hz.tick().0 as u64 / 16);
                }
            }
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
