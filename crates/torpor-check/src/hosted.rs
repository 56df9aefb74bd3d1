// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Runs the same sequences through [`Instance`], without sanitizers and in this process. Checks
//! that the driver's idle loop matches the hosted one, and shows what the sanitizers cost.

use crate::block::{Step, flag, op};
use crate::generate;
use crate::sequence::Sequence;
use torpor_governor::{
    CpuSetup, Governor, GovernorError, Inputs, Instance, Selection, Setup, StateDesc,
};
use torpor_machine::units::{CpuId, Duration, Hz, Instant};

const POLL_MIN_NS: i64 = 10_000;

/// Runs the sequence of a seed; `answer` gets each decision. A fault ends it early.
pub fn hosted(
    governor: &Governor,
    seed: u64,
    answer: &mut dyn FnMut(i32, bool),
) -> Result<(), GovernorError> {
    let sequence = generate::sequence(seed, governor.hz(), 1);
    let tables: Vec<Vec<StateDesc>> =
        sequence.cpus.iter().map(|cpu| table(&sequence, cpu.disabled_mask)).collect();
    let cpus: Vec<CpuSetup<'_>> = (sequence.cpus.iter().zip(&tables))
        .map(|(cpu, states)| CpuSetup::new(CpuId(cpu.cpu_id), states))
        .collect();
    let mut host = Host {
        instance: governor.instantiate(&Setup { cpus: &cpus })?,
        sequence: &sequence,
        hz: governor.hz(),
        cpus: (sequence.cpus.iter())
            .map(|cpu| Cpu {
                clock_ns: sequence.clock_ns,
                tick_stopped: false,
                disabled: cpu.disabled_mask,
            })
            .collect(),
    };
    for step in &sequence.steps {
        let slot = usize::from(step.cpu);
        host.cpus[slot].clock_ns = host.cpus[slot].clock_ns.wrapping_add(step.gap_ns);
        match step.op {
            op::TOGGLE => host.toggle(slot, step.arg),
            // An instance enables a CPU on that CPU only: another sequence than this one.
            op::REPLUG => return Ok(()),
            _ => {
                let Ok(chosen) = host.idle(slot, step) else { return Ok(()) };
                answer(chosen.state, chosen.stop_tick);
            }
        }
    }
    Ok(())
}

fn table(sequence: &Sequence, disabled: u32) -> Vec<StateDesc> {
    (sequence.states.iter().enumerate())
        .map(|(i, state)| StateDesc {
            name: format!("S{i}"),
            exit_latency: Duration(state.exit_latency_ns),
            target_residency: Duration(state.target_residency_ns),
            is_polling: state.is_polling != 0,
            is_disabled: disabled >> i & 1 != 0,
        })
        .collect()
}

struct Cpu {
    clock_ns: u64,
    tick_stopped: bool,
    disabled: u32,
}

struct Host<'a> {
    instance: Instance,
    sequence: &'a Sequence,
    hz: Hz,
    cpus: Vec<Cpu>,
}

impl Host<'_> {
    fn toggle(&mut self, slot: usize, state: u8) {
        let cpu = &mut self.cpus[slot];
        cpu.disabled ^= 1 << state;
        let disabled = cpu.disabled >> state & 1 != 0;
        self.instance.set_state_disabled(slot, state.into(), disabled);
        self.instance.set_poll_limit_ns(slot, 0);
    }

    fn idle(&mut self, slot: usize, step: &Step) -> Result<Selection, torpor_governor::Fault> {
        let has = |bit: u8| step.flags & bit != 0;
        let cpu = &mut self.cpus[slot];
        let mut sleep_length_ns = step.sleep_length_ns;
        let mut event_ns = sleep_length_ns.min(step.event_ns);
        if cpu.tick_stopped && !has(flag::EARLY_EVENT) {
            event_ns = sleep_length_ns;
        }
        if has(flag::TICK_HELD) {
            sleep_length_ns = event_ns;
        }
        let inputs = Inputs {
            now: Instant(cpu.clock_ns as i64),
            sleep_length: Duration(sleep_length_ns),
            delta_next: Duration(event_ns),
            tick_stopped: cpu.tick_stopped,
            latency_req: Duration(step.latency_req_ns),
            nr_iowait: step.nr_iowait,
            util: step.util.into(),
            capacity: step.capacity.into(),
            load_avg: 0,
        };
        let chosen = self.instance.select(slot, &inputs)?;
        cpu.tick_stopped |= chosen.stop_tick && sleep_length_ns > event_ns;
        if has(flag::REJECT) {
            self.instance.set_last_residency(slot, Duration::ZERO);
        } else {
            self.sleep(slot, step, chosen.state as usize, event_ns)?;
        }
        if has(flag::BUSY_AFTER) {
            self.cpus[slot].tick_stopped = false;
        }
        Ok(chosen)
    }

    fn sleep(
        &mut self,
        slot: usize,
        step: &Step,
        chosen: usize,
        event_ns: i64,
    ) -> Result<(), torpor_governor::Fault> {
        let has = |bit: u8| step.flags & bit != 0;
        let states = &self.sequence.states;
        let disabled = self.cpus[slot].disabled;
        let shallower = |i: &usize| disabled >> i & 1 == 0 && states[*i].exit_latency_ns > 0;
        let entered = match has(flag::SHALLOWER) {
            true => (0..chosen).rev().find(shallower).unwrap_or(chosen),
            false => chosen,
        };
        let until_event_ns = event_ns.max(0) as u64 + u64::from(step.late_ns);
        let slept_ns = if states[entered].is_polling != 0 {
            let limit_ns = self.poll_limit_ns(slot);
            self.instance.set_poll_time_limit(slot, has(flag::POLL_TIMEOUT));
            match has(flag::POLL_TIMEOUT) {
                true => limit_ns + u64::from(step.late_ns),
                false => step.residency_ns.min(limit_ns),
            }
        } else {
            step.residency_ns.min(until_event_ns)
        };
        let cpu = &mut self.cpus[slot];
        let got_tick = has(flag::GOT_TICK) && !cpu.tick_stopped && slept_ns as i64 >= event_ns;
        self.instance.set_last_residency(slot, Duration(slept_ns as i64));
        cpu.clock_ns = cpu.clock_ns.wrapping_add(slept_ns).wrapping_add(step.lag_ns.into());
        self.instance.reflect(slot, entered as i32, Instant(cpu.clock_ns as i64), got_tick)
    }

    /// Returns the kernel's cpuidle_poll_time().
    fn poll_limit_ns(&mut self, slot: usize) -> u64 {
        let known_ns = self.instance.poll_limit_ns(slot);
        if known_ns != 0 {
            return known_ns;
        }
        let disabled = self.cpus[slot].disabled;
        let most_ns = self.hz.tick().0 / 16;
        let timed =
            self.sequence.states.iter().enumerate().skip(1).find(|(i, state)| {
                disabled >> i & 1 == 0 && state.target_residency_ns >= POLL_MIN_NS
            });
        let limit_ns = timed.map_or(most_ns, |(_, s)| s.target_residency_ns.min(most_ns)) as u64;
        self.instance.set_poll_limit_ns(slot, limit_ns);
        limit_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Answer;
    use crate::driver::{Driver, HARNESS, How};
    use torpor_governor::{Build, Catalog, CatalogOptions};

    /// Two idle loops must give the same decisions.
    #[test]
    fn driver_and_host_give_equal_answers() {
        let cache = std::env::temp_dir().join(format!("torpor-hosted-{}", std::process::id()));
        let options = CatalogOptions { cache_dir: Some(cache.clone()), ..Default::default() };
        let catalog = Catalog::new(options);
        let mut compared = 0;
        for name in ["menu", "teo", "deepest"] {
            let spec = name.parse().expect("a name");
            let governor = catalog.resolve(&spec, Hz::H250).expect("it is built in");
            let program = catalog.program(&spec, Hz::H250, &HARNESS, Build::Plain);
            let mut driver = Driver::new(program.expect("it compiles"), &[]).expect("memory");
            for seed in 0..300 {
                let mut answers = Vec::new();
                hosted(&governor, seed, &mut |state, stop| answers.push((state, stop)))
                    .expect("it loads");
                let sequence = generate::sequence(seed, Hz::H250, 1);
                driver.run(&sequence, How::default()).expect("the driver runs");
                let is_idle = |(step, _): &(&Step, &Answer)| step.op == op::IDLE;
                let drivers: Vec<(i32, bool)> = (sequence.steps.iter().zip(driver.answers()))
                    .filter(is_idle)
                    .map(|(_, a)| (a.state, a.stop_tick != 0))
                    .take(answers.len())
                    .collect();
                assert_eq!(answers, drivers, "{name}, seed {seed}");
                compared += answers.len();
            }
        }
        assert!(compared > 200_000, "only {compared} decisions were compared");
        std::fs::remove_dir_all(cache).expect("the cache was made above");
    }
}
