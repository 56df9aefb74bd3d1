// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Shrinks a sequence that shows a breach: fewer steps, CPUs and states, then rounder numbers.

use crate::CheckError;
use crate::block::{Step, op};
use crate::sequence::{Sequence, plain_step};

/// Most runs for one finding. A plain breach needs some hundreds.
const RUNS_MAX: u32 = 6_000;

/// Returns true if a sequence still shows the breach.
pub(crate) type Test<'a> = dyn FnMut(&Sequence) -> Result<bool, CheckError> + 'a;

/// Returns the smallest sequence found. `last` is the step that showed the breach.
pub(crate) fn shrink(
    sequence: Sequence,
    last: usize,
    test: &mut Test<'_>,
) -> Result<Sequence, CheckError> {
    let mut shrinker = Shrinker { best: sequence, test, runs: 0 };
    let end = (last + 1).min(shrinker.best.steps.len());
    shrinker.attempt(|s| s.steps.truncate(end))?;
    loop {
        let before = shrinker.best.clone();
        shrinker.drop_steps()?;
        shrinker.disable_at_the_start()?;
        shrinker.drop_cpus()?;
        shrinker.drop_states()?;
        shrinker.plainer_machine()?;
        shrinker.plainer_steps()?;
        if shrinker.best == before || shrinker.runs >= RUNS_MAX {
            return Ok(shrinker.best);
        }
    }
}

struct Shrinker<'a, 'b> {
    best: Sequence,
    test: &'a mut Test<'b>,
    runs: u32,
}

impl Shrinker<'_, '_> {
    /// Keeps the change if the breach is still there.
    fn attempt(&mut self, change: impl FnOnce(&mut Sequence)) -> Result<bool, CheckError> {
        let mut smaller = self.best.clone();
        change(&mut smaller);
        if smaller == self.best || !is_legal(&smaller) || self.runs >= RUNS_MAX {
            return Ok(false);
        }
        self.runs += 1;
        if (self.test)(&smaller)? {
            self.best = smaller;
            return Ok(true);
        }
        Ok(false)
    }

    /// Cuts out runs of steps, long ones first.
    fn drop_steps(&mut self) -> Result<(), CheckError> {
        let mut width = self.best.steps.len().next_power_of_two() / 2;
        while width > 0 {
            let mut end = self.best.steps.len();
            while end > 0 {
                let start = end.saturating_sub(width);
                self.attempt(|s| drop(s.steps.drain(start..end)))?;
                end = start.min(self.best.steps.len());
            }
            width /= 2;
        }
        Ok(())
    }

    /// Moves a state's disabling to the start of the sequence.
    fn disable_at_the_start(&mut self) -> Result<(), CheckError> {
        for i in (0..self.best.steps.len()).rev() {
            let step = self.best.steps[i];
            if step.op == op::TOGGLE {
                self.attempt(|s| {
                    s.steps.remove(i);
                    s.cpus[usize::from(step.cpu)].disabled_mask ^= 1 << step.arg;
                })?;
            }
        }
        Ok(())
    }

    fn drop_cpus(&mut self) -> Result<(), CheckError> {
        for cpu in (0..self.best.cpus.len()).rev() {
            if self.best.cpus.len() > 1 && !self.attempt(|s| remove_cpu(s, cpu, false))? {
                self.attempt(|s| remove_cpu(s, cpu, true))?;
            }
        }
        Ok(())
    }

    fn drop_states(&mut self) -> Result<(), CheckError> {
        for state in (0..self.best.states.len()).rev() {
            if self.best.states.len() > 1 {
                self.attempt(|s| remove_state(s, state))?;
            }
        }
        Ok(())
    }

    fn plainer_machine(&mut self) -> Result<(), CheckError> {
        self.attempt(|s| s.clock_ns = 0)?;
        self.plainer(|s| &mut s.clock_ns)?;
        for cpu in 0..self.best.cpus.len() {
            self.attempt(|s| s.cpus[cpu].disabled_mask = 0)?;
            for state in 0..self.best.states.len() {
                self.attempt(|s| s.cpus[cpu].disabled_mask &= !(1 << state))?;
            }
            self.attempt(|s| s.cpus[cpu].cpu_id = cpu as u32)?;
            self.least_cpu_id(cpu)?;
        }
        for state in 0..self.best.states.len() {
            self.attempt(|s| s.states[state].is_polling = 0)?;
            // Deeper states move along to stay legal.
            self.attempt(|s| {
                let by_ns = s.states[state].exit_latency_ns - before(s, state).0;
                s.states[state..].iter_mut().for_each(|t| t.exit_latency_ns -= by_ns);
            })?;
            self.attempt(|s| {
                let by_ns = s.states[state].target_residency_ns - before(s, state).1;
                s.states[state..].iter_mut().for_each(|t| t.target_residency_ns -= by_ns);
            })?;
            self.attempt(|s| {
                s.states[state].target_residency_ns = s.states[state].exit_latency_ns
            })?;
            self.plainer(|s| &mut s.states[state].exit_latency_ns)?;
            self.plainer(|s| &mut s.states[state].target_residency_ns)?;
        }
        Ok(())
    }

    /// Bisects the CPU number: if a table is too small for it, it is too small for every larger
    /// one. Tries powers of two first, as a sanitizer detects best the places right after a table.
    fn least_cpu_id(&mut self, cpu: usize) -> Result<(), CheckError> {
        for id in (0..13).map(|bit| 1 << bit) {
            if id < self.best.cpus[cpu].cpu_id && self.attempt(|s| s.cpus[cpu].cpu_id = id)? {
                return Ok(());
            }
        }
        let mut too_small = 0;
        while self.best.cpus[cpu].cpu_id - too_small > 1 {
            let middle = (too_small + self.best.cpus[cpu].cpu_id) / 2;
            if !self.attempt(|s| s.cpus[cpu].cpu_id = middle)? {
                too_small = middle;
            }
        }
        Ok(())
    }

    fn plainer_steps(&mut self) -> Result<(), CheckError> {
        for i in 0..self.best.steps.len() {
            if self.best.steps[i].op != op::IDLE {
                self.attempt(|s| s.steps[i].flags = 0)?;
                self.attempt(|s| s.steps[i].arg = 0)?;
                continue;
            }
            self.attempt(|s| s.steps[i] = plain_step(s.steps[i].cpu))?;
            for bit in 0..8 {
                self.attempt(|s| s.steps[i].flags &= !(1 << bit))?;
            }
            let plain = plain_step(0);
            self.attempt(|s| s.steps[i].gap_ns = 0)?;
            self.attempt(|s| s.steps[i].late_ns = 0)?;
            self.attempt(|s| s.steps[i].lag_ns = 0)?;
            self.attempt(|s| s.steps[i].nr_iowait = 0)?;
            self.attempt(|s| s.steps[i].util = 0)?;
            self.attempt(|s| s.steps[i].latency_req_ns = plain.latency_req_ns)?;
            self.attempt(|s| s.steps[i].sleep_length_ns = plain.sleep_length_ns)?;
            self.attempt(|s| s.steps[i].event_ns = plain.event_ns)?;
            if !self.attempt(|s| s.steps[i].residency_ns = plain.residency_ns)?
                && self.best.steps[i].residency_ns != plain.residency_ns
            {
                self.attempt(|s| s.steps[i].residency_ns = 0)?;
            }
            self.plainer(move |s| &mut s.steps[i].sleep_length_ns)?;
            self.plainer(move |s| &mut s.steps[i].event_ns)?;
            self.plainer(move |s| &mut s.steps[i].latency_req_ns)?;
            self.plainer(move |s| &mut s.steps[i].residency_ns)?;
            self.plainer(move |s| &mut s.steps[i].nr_iowait)?;
        }
        Ok(())
    }

    /// Tries a rounder number in one place.
    fn plainer<T: Number>(
        &mut self,
        place: impl Fn(&mut Sequence) -> &mut T,
    ) -> Result<(), CheckError> {
        for plainer in rounder(place(&mut self.best.clone()).get()) {
            if self.attempt(|s| *place(s) = T::from(plainer))? {
                break;
            }
        }
        Ok(())
    }
}

/// Numbers that shrink towards round values.
trait Number {
    fn get(&self) -> i128;
    fn from(value: i128) -> Self;
}

macro_rules! number {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn get(&self) -> i128 {
                *self as i128
            }
            fn from(value: i128) -> $type {
                value.clamp(<$type>::MIN as i128, <$type>::MAX as i128) as $type
            }
        }
    )*};
}

number!(i64 u64 u32);

/// Returns rounder numbers, the roundest first: one digit, then more, downwards and upwards.
fn rounder(value: i128) -> Vec<i128> {
    let (sign, size) = (value.signum(), value.abs());
    let mut candidates = Vec::new();
    // Whole units first: 1 us, 10 us, 1 ms.
    let mut power = 1;
    while power <= size / 10 {
        power *= 10;
    }
    for digits in 0..3 {
        let unit = (power / 10_i128.pow(digits)).max(1);
        let down = size / unit * unit;
        candidates.extend([down, down + unit].map(|v| v * sign));
    }
    candidates.dedup();
    // Only rounder numbers: otherwise shrinking never ends.
    candidates.retain(|c| digits(*c) < digits(value));
    candidates
}

/// Returns the number of digits, without trailing zeros.
fn digits(mut value: i128) -> u32 {
    while value != 0 && value % 10 == 0 {
        value /= 10;
    }
    let mut count = 0;
    while value != 0 {
        value /= 10;
        count += 1;
    }
    count
}

/// Returns the least latency and residency of a state.
fn before(sequence: &Sequence, state: usize) -> (i64, i64) {
    match state.checked_sub(1) {
        Some(i) => (sequence.states[i].exit_latency_ns, sequence.states[i].target_residency_ns),
        None => (0, 0),
    }
}

/// Returns true if a driver's table can look like this.
fn is_legal(sequence: &Sequence) -> bool {
    let rises = (0..sequence.states.len()).all(|i| {
        let (exit_ns, residency_ns) = before(sequence, i);
        let state = &sequence.states[i];
        state.exit_latency_ns >= exit_ns && state.target_residency_ns >= residency_ns
    });
    let distinct = (0..sequence.cpus.len())
        .all(|i| sequence.cpus[..i].iter().all(|c| c.cpu_id != sequence.cpus[i].cpu_id));
    rises && distinct && sequence.steps.iter().all(|step| step.latency_req_ns >= 0)
}

/// Removes a CPU; its steps go with it or move to the first one.
fn remove_cpu(sequence: &mut Sequence, cpu: usize, keep_steps: bool) {
    let moved = |place: u8| match usize::from(place) {
        i if i == cpu => 0,
        i if i > cpu => place - 1,
        _ => place,
    };
    if !keep_steps {
        sequence.steps.retain(|step| usize::from(step.cpu) != cpu);
    }
    sequence.cpus.remove(cpu);
    for step in &mut sequence.steps {
        step.cpu = moved(step.cpu);
        if step.op == op::REPLUG {
            step.arg = moved(step.arg >> 4) << 4 | step.arg & 15;
        }
    }
}

fn remove_state(sequence: &mut Sequence, state: usize) {
    sequence.states.remove(state);
    for cpu in &mut sequence.cpus {
        let below = cpu.disabled_mask & ((1 << state) - 1);
        cpu.disabled_mask = below | (cpu.disabled_mask >> (state + 1)) << state;
    }
    let is_of_state = |step: &Step| step.op == op::TOGGLE && usize::from(step.arg) == state;
    sequence.steps.retain(|step| !is_of_state(step));
    for step in &mut sequence.steps {
        if step.op == op::TOGGLE && usize::from(step.arg) > state {
            step.arg -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate;
    use torpor_machine::units::Hz;

    /// Shrinks with a test that runs no driver.
    fn shrunk(seed: u64, test: impl Fn(&Sequence) -> bool) -> Sequence {
        let sequence = generate::sequence(seed, Hz::H250, 1);
        assert!(test(&sequence), "seed {seed} must show it");
        let last = sequence.steps.len() - 1;
        shrink(sequence, last, &mut |s| Ok(test(s))).expect("the test never fails")
    }

    #[test]
    fn shrinking_keeps_two_distant_steps() {
        let is_limited = |s: &Step| s.op == op::IDLE && s.latency_req_ns == 0;
        let seed = (0..200).find(|seed| {
            let steps = generate::sequence(*seed, Hz::H250, 1).steps;
            steps.len() > 100 && steps.iter().filter(|s| is_limited(s)).count() >= 2
        });
        let seed = seed.expect("limits of 0 are frequent");
        let found = shrunk(seed, |s| s.steps.iter().filter(|s| is_limited(s)).count() >= 2);
        assert_eq!((found.steps.len(), found.cpus.len(), found.states.len()), (2, 1, 1));
        assert_eq!(found.steps[0], Step { latency_req_ns: 0, ..plain_step(0) });
    }

    #[test]
    fn removing_a_state_renumbers_later_ones() {
        let seed = (0..200).find(|seed| generate::sequence(*seed, Hz::H250, 1).states.len() >= 4);
        let mut sequence = generate::sequence(seed.expect("most tables are longer"), Hz::H250, 1);
        sequence.cpus[0].disabled_mask = 0b1101;
        let toggle = |arg| Step { op: op::TOGGLE, arg, ..plain_step(0) };
        sequence.steps = vec![toggle(0), toggle(1), toggle(3)];
        remove_state(&mut sequence, 1);
        assert_eq!(sequence.cpus[0].disabled_mask & 7, 0b111);
        assert_eq!(sequence.steps, [toggle(0), toggle(2)]);
    }

    #[test]
    fn numbers_become_round() {
        assert_eq!(rounder(123_456)[..2], [100_000, 200_000]);
        assert!(rounder(100_000).is_empty() && rounder(0).is_empty());
        assert_eq!(rounder(-37)[0], -30);
    }
}
