// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Teacher forcing: a governor gets the recorded governor's calls. Its answers are compared with
//! the recorded ones and then dropped: it learns the outcomes of the recorded answers.

use super::recorded::{Calls, LengthSource, Recorded, Step};
use super::walk::MachineCpu;
use crate::idle_loop::DECISIONS_PER_CHECK;
use crate::options::Progress;
use crate::policy::{Policy, Reflection};
use torpor_governor::{
    CpuSetup, Governor, GovernorError, Inputs, Instance, NoAnswer, Pulse, Selection, Setup,
};
use torpor_machine::units::Duration;

/// A governor's answer to one recorded call.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Answer {
    pub selection: Selection,
    pub inputs: Inputs,
    pub source: LengthSource,
}

/// Returns a governor's answers in the order of the recorded decisions, from a process of its own
/// if the governor requires it.
///
/// With `has_history` the governor has seen the whole recording before. If cancelled, returns the
/// first answers only.
pub(super) fn force(
    governor: &Governor,
    calls: &Calls,
    machine: &[MachineCpu],
    has_history: bool,
    progress: &dyn Progress,
) -> Result<Vec<Answer>, GovernorError> {
    if !governor.runs_apart() {
        return force_here(governor, calls, machine, has_history, progress);
    }
    let there = |_: &Pulse| {
        force_here(governor, calls, machine, has_history, progress).map_err(|e| e.to_string())
    };
    let goes_on = &mut |_| !progress.cancelled();
    match torpor_governor::apart(&[governor.policy_label().clone()], goes_on, there) {
        Ok(answers) => answers.map_err(GovernorError::Other),
        Err(NoAnswer::Died(error)) => Err(error),
        Err(NoAnswer::Interrupted) => Ok(Vec::new()),
    }
}

fn force_here(
    governor: &Governor,
    calls: &Calls,
    machine: &[MachineCpu],
    has_history: bool,
    progress: &dyn Progress,
) -> Result<Vec<Answer>, GovernorError> {
    let mut instance = instantiate(governor, machine)?;
    for slot in 0..machine.len() {
        // FIDELITY(unknown-history): the CPU has slept before the recording for an unknown time. 0
        // would mean that it had just aborted an entry.
        instance.set_last_residency(slot, Duration(1));
    }
    if has_history {
        play(&mut instance, calls, machine, progress)?;
    }
    play(&mut instance, calls, machine, progress)
}

fn play(
    instance: &mut Instance,
    calls: &Calls,
    machine: &[MachineCpu],
    progress: &dyn Progress,
) -> Result<Vec<Answer>, GovernorError> {
    let mut answers: Vec<Answer> = Vec::with_capacity(calls.decisions.len());
    for (number, step) in calls.steps.iter().enumerate() {
        if number % DECISIONS_PER_CHECK == 0 && progress.cancelled() {
            break;
        }
        match *step {
            Step::Ask(index) => {
                let recorded = &calls.decisions[index];
                let answer = ask(instance, recorded, &machine[recorded.slot])?;
                match answers.get_mut(index) {
                    // Called again after a reset.
                    Some(earlier) => *earlier = answer,
                    None => answers.push(answer),
                }
                if recorded.entered.is_none() {
                    instance.gave_up(recorded.slot);
                }
            }
            Step::Reflect(index) => {
                let recorded = &calls.decisions[index];
                reflect(instance, recorded, &machine[recorded.slot])?;
            }
            Step::Reset => {
                for slot in 0..machine.len() {
                    instance.disable(slot)?;
                    instance.enable(slot)?;
                }
            }
        }
    }
    Ok(answers)
}

fn ask(
    instance: &mut Instance,
    recorded: &Recorded,
    machine_cpu: &MachineCpu,
) -> Result<Answer, GovernorError> {
    let asked = &recorded.asked;
    let mut select = |went_on| -> Result<Answer, GovernorError> {
        let (sleep_length, source) = asked.sleep_length(went_on);
        let model = &machine_cpu.model;
        let inputs = asked.inputs(sleep_length, model.latency_limit, model.capacity);
        let selection = instance.select(recorded.slot, &inputs)?;
        Ok(Answer { selection, inputs, source })
    };
    let answer = select(false)?;
    // FIDELITY(asked-twice): a governor learns from its last call once, so the second call changes
    // only the answer. One that did not ask for the sleep length gives the same answer again.
    if answer.selection.stop_tick && answer.selection.asked_sleep_length && asked.is_undecided() {
        return select(true);
    }
    Ok(answer)
}

fn reflect(
    instance: &mut Instance,
    recorded: &Recorded,
    machine_cpu: &MachineCpu,
) -> Result<(), GovernorError> {
    let Some(reflected) = &recorded.reflected else { return Ok(()) };
    // FIDELITY(own-timers): it expires when due, not when the recording shows it.
    if instance.next_timer(recorded.slot).is_some_and(|at| at <= reflected.clock) {
        instance.fire_timer(recorded.slot, reflected.clock)?;
    }
    let timed_out = reflected.is_polling.then(|| {
        // The governor may have set its own limit. A waking task also ends polling, and the loop
        // may check the time so seldom that it gives up late. FIDELITY(poll-end): no event shows
        // which it was.
        !reflected.ran_task
            && reflected.between
                >= instance.poll_limit(recorded.slot, machine_cpu.model.default_poll_limit)
    });
    let reflection = Reflection {
        state: reflected.state as i32,
        residency: reflected.residency,
        poll_timed_out: timed_out,
        now: reflected.clock,
        got_tick: reflected.got_tick,
    };
    Ok(Policy::reflect(instance, recorded.slot, &reflection)?)
}

fn instantiate(governor: &Governor, machine: &[MachineCpu]) -> Result<Instance, GovernorError> {
    let cpus: Vec<CpuSetup<'_>> = machine
        .iter()
        .map(|machine_cpu| CpuSetup {
            cpu: machine_cpu.cpu,
            states: &machine_cpu.states,
            capacity: u64::from(machine_cpu.model.capacity),
        })
        .collect();
    governor.instantiate(&Setup { cpus: &cpus })
}
