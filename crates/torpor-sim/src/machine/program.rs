// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Programs of tasks, step by step.

use super::call::SPIN;
use super::task::{Blocked, State, Task, work_of};
use super::{Machine, Sink};
use crate::error::{Halt, Stuck};
use crate::workload::{Draw, Op};
use torpor_machine::units::{Duration, Instant};

/// Steps without a change of time after which a loop counts as endless.
const STEPS_AT_ONCE_MAX: u32 = 100_000;
/// Most tasks that the report of a deadlock names.
const NAMED: usize = 5;

/// Whether a program continues after a step, or its task has to compute or leave the CPU.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Continue,
    Stop,
}

impl<'a, S: Sink> Machine<'a, S> {
    /// Runs the program of the CPU's task until the task computes or leaves the CPU.
    pub(super) fn run_program(&mut self, cpu: usize, id: u32) -> Result<(), Halt> {
        let workload = self.world.plan.workload;
        loop {
            self.count_step(id)?;
            if self.awaits_section(id) {
                return Ok(());
            }
            let task = self.task(id);
            let Some(step) = workload.tasks[task.kind].program.get(task.step) else {
                if self.end_pass(id) {
                    return self.exit(id);
                }
                continue;
            };
            task.step += 1;
            let next = self.perform(cpu, id, &step.op)?;
            // The kernel acts on this step before the program continues.
            if next == Next::Stop || self.stops(id) {
                return Ok(());
            }
        }
    }

    /// Whether a task whose next pass is to begin sleeps until a section of it does.
    fn awaits_section(&mut self, id: u32) -> bool {
        let world = &mut self.world;
        let task = &mut world.tasks[id as usize];
        let during = &world.plan.workload.tasks[task.kind].during;
        let Some(during) = during.as_ref().filter(|_| task.step == 0) else { return false };
        let begins = during.after(world.now, Duration::ZERO);
        if begins <= world.now {
            return false;
        }
        // Its periods are counted from there, too.
        (task.pass_began, task.next_period) = (begins, begins);
        task.timers.fill(begins);
        self.sleep_until(id, begins);
        true
    }

    pub(super) fn task(&mut self, id: u32) -> &mut Task {
        &mut self.world.tasks[id as usize]
    }

    /// Counts a step; too many without a change of time are an error.
    fn count_step(&mut self, id: u32) -> Result<(), Stuck> {
        let now = self.world.now;
        self.world.steps += 1;
        let task = self.task(id);
        if task.last_step != now {
            (task.last_step, task.steps_at_once) = (now, 0);
        }
        task.steps_at_once += 1;
        if task.steps_at_once > STEPS_AT_ONCE_MAX {
            return Err(self.world.stuck(id, "endless loop: no time passes"));
        }
        Ok(())
    }

    /// Counts a pass through the program; true after the last one.
    fn end_pass(&mut self, id: u32) -> bool {
        let world = &mut self.world;
        let task = &mut world.tasks[id as usize];
        let totals = &mut world.kinds[task.kind];
        totals.passes += 1;
        totals.pass_time.record(world.now.since(task.pass_began));
        task.pass_began = world.now;
        task.passes = task.passes.saturating_sub(1);
        task.step = 0;
        task.passes == 0
    }

    /// Performs a step; the task is already at the following one.
    #[inline]
    fn perform(&mut self, cpu: usize, id: u32, op: &'a Op) -> Result<Next, Halt> {
        let now = self.world.now;
        Ok(match op {
            Op::Run(draw) => {
                let task = self.task(id);
                task.work = work_of(drawn(task, draw));
                self.compute(id)
            }
            Op::Goto(step) => self.jump(id, *step),
            Op::Sleep(draw) => self.sleep(id, draw),
            Op::Until(at) => self.until(id, *at),
            Op::Period(period) => self.period(id, *period),
            Op::Timer { timer, period, is_absolute } => {
                self.timer(id, *timer, *period, *is_absolute)
            }
            Op::Wait { channel, count, not_before, at_least } => {
                let channel = *channel + self.task(id).group;
                let earliest = (*not_before).max(now + *at_least);
                self.wait(id, channel, *count, earliest)?
            }
            Op::Await { channel, release } => self.await_signal(id, *channel, *release)?,
            Op::Notify { channel, all } => {
                self.notify(*channel, *all);
                Next::Continue
            }
            Op::Wake { channel, count, sync } => {
                let channel = *channel + self.task(id).group;
                self.post(channel, *count, now, *sync);
                Next::Continue
            }
            Op::Barrier(barrier) => self.barrier(id, *barrier)?,
            Op::FlowBegin(flow) => {
                let Task { group, called, .. } = *self.task(id);
                self.world.flows[*flow].begin(group, id, called);
                Next::Continue
            }
            Op::FlowEnd(flow) => self.end_flow(id, *flow)?,
            Op::Call { cpu: other, handling, asleep } => {
                self.call_function(cpu, id, (*other, handling), *asleep)
            }
            Op::Spawn { task, count } => {
                self.spawn(*task, *count, Some(cpu))?;
                Next::Continue
            }
            Op::LoopBegin { times: 0, end } => self.jump(id, *end),
            Op::LoopBegin { times, .. } => {
                self.task(id).loops.push(*times);
                Next::Continue
            }
            Op::LoopEnd { begin } => self.end_loop(id, *begin),
            io => self.perform_io(cpu, id, io)?,
        })
    }

    pub(super) fn jump(&mut self, id: u32, step: usize) -> Next {
        self.task(id).step = step;
        Next::Continue
    }

    /// Stops a program whose task has work to do.
    pub(super) fn compute(&mut self, id: u32) -> Next {
        if self.task(id).work > 0 { Next::Stop } else { Next::Continue }
    }

    fn sleep(&mut self, id: u32, draw: &Draw) -> Next {
        let world = &mut self.world;
        let task = &mut world.tasks[id as usize];
        let mut length = drawn(task, draw);
        if let Some(activity) = world.plan.workload.tasks[task.kind].activity {
            length = world.runs[activity].scale(length, world.now);
        }
        let until = world.now + length;
        self.sleep_until(id, until);
        Next::Stop
    }

    fn until(&mut self, id: u32, at: Instant) -> Next {
        if self.world.now < at {
            self.sleep_until(id, at);
            return Next::Stop;
        }
        self.task(id).called = at;
        self.missed(id, 1);
        Next::Continue
    }

    fn period(&mut self, id: u32, period: Duration) -> Next {
        let now = self.world.now;
        let task = self.task(id);
        task.next_period += period;
        let due = task.next_period;
        let late = now.since(due);
        if late.is_negative() {
            self.sleep_until(id, due);
            return Next::Stop;
        }
        task.called = due;
        if late > Duration::ZERO {
            let skipped = late.0 / period.0;
            task.next_period += Duration(skipped * period.0);
            self.missed(id, 1 + skipped as u64);
        }
        Next::Continue
    }

    fn timer(&mut self, id: u32, timer: usize, period: Duration, is_absolute: bool) -> Next {
        let now = self.world.now;
        let expires = &mut self.task(id).timers[timer];
        *expires += period;
        let due = *expires;
        if now < due {
            self.sleep_until(id, due);
            return Next::Stop;
        }
        if !is_absolute {
            *expires = now;
        }
        self.missed(id, 1);
        Next::Continue
    }

    /// Counts periods that a task was late for.
    fn missed(&mut self, id: u32, periods: u64) {
        let kind = self.task(id).kind;
        self.world.kinds[kind].missed += periods;
    }

    /// Takes `count` from a channel at `earliest`, or waits until it holds as many.
    fn wait(
        &mut self,
        id: u32,
        channel: usize,
        count: u64,
        earliest: Instant,
    ) -> Result<Next, Halt> {
        let world = &mut self.world;
        let state = &mut world.channels[channel];
        if !state.waiters.is_empty() || state.held < count {
            state.waiters.push_back(id);
            return self.block(id, Blocked::Channel { channel, count });
        }
        let task = &mut world.tasks[id as usize];
        // The task is late for an event that was kept.
        task.called = state.take(count).unwrap_or(task.called);
        if world.now < earliest {
            self.sleep_until(id, earliest);
            return Ok(Next::Stop);
        }
        Ok(Next::Continue)
    }

    fn await_signal(
        &mut self,
        id: u32,
        channel: usize,
        release: Option<usize>,
    ) -> Result<Next, Halt> {
        // Queued before the mutex is free, so that no signal is lost.
        self.world.channels[channel].waiters.push_back(id);
        if let Some(mutex) = release {
            let now = self.world.now;
            self.post(mutex, 1, now, false);
        }
        self.block(id, Blocked::Channel { channel, count: 0 })
    }

    fn barrier(&mut self, id: u32, barrier: usize) -> Result<Next, Halt> {
        let now = self.world.now;
        let parties = self.world.plan.workload.barriers[barrier].parties;
        let waiting = &mut self.world.barriers[barrier];
        if waiting.len() as u32 + 1 < parties {
            waiting.push(id);
            return self.block(id, Blocked::Barrier(barrier));
        }
        for other in std::mem::take(waiting) {
            self.wake(other, now, false);
        }
        Ok(Next::Continue)
    }

    fn end_flow(&mut self, id: u32, flow: usize) -> Result<Next, Halt> {
        let world = &mut self.world;
        let group = world.tasks[id as usize].group;
        let model = &world.plan.workload.flows[flow];
        let Some(took) = world.flows[flow].end(group, id, world.now, model) else {
            world.tasks[id as usize].step -= 1;
            return Err(world.stuck(id, "it ends a flow that has not begun").into());
        };
        self.hint(flow, took);
        Ok(Next::Continue)
    }

    /// Runs a function on `other`, which takes `handling` there; the caller sleeps or spins.
    fn call_function(
        &mut self,
        cpu: usize,
        id: u32,
        (other, handling): (usize, &Draw),
        asleep: bool,
    ) -> Next {
        let task = self.task(id);
        let handling = drawn(task, handling);
        if other == cpu {
            task.work = work_of(handling);
        } else if self.world.plan.topology.online.contains(other) {
            self.task(id).work = if asleep { 0 } else { SPIN };
            self.world.call(id, other, handling);
            if asleep {
                self.leave(id, State::Blocked(Blocked::Call));
                return Next::Stop;
            }
        }
        self.compute(id)
    }

    fn end_loop(&mut self, id: u32, begin: usize) -> Next {
        let task = self.task(id);
        let left = task.loops.last_mut().expect("a loop that ends has begun");
        *left -= 1;
        if *left > 0 {
            task.step = begin;
        } else {
            task.loops.pop();
        }
        Next::Continue
    }

    pub(super) fn exit(&mut self, id: u32) -> Result<(), Halt> {
        self.leave(id, State::Dead);
        self.check_deadlock().map_err(Halt::from)
    }

    /// Blocks a task until another one wakes it.
    fn block(&mut self, id: u32, blocked: Blocked) -> Result<Next, Halt> {
        self.world.under_way -= 1;
        self.leave(id, State::Blocked(blocked));
        self.check_deadlock()?;
        Ok(Next::Stop)
    }

    /// Fails if all tasks wait for one another and nothing else can wake them.
    fn check_deadlock(&mut self) -> Result<(), Stuck> {
        let has_interrupts = self.has_interrupts();
        let world = &mut self.world;
        if world.under_way > 0 || world.live == 0 || has_interrupts || world.help_may_come() {
            return Ok(());
        }
        let kinds = &world.plan.workload.tasks;
        let waits = |id: &usize| {
            let task = &world.tasks[*id];
            task.state != State::Dead && kinds[task.kind].completes_for().is_none()
        };
        let waiting: Vec<usize> = (0..world.tasks.len()).filter(waits).collect();
        let named: Vec<String> = waiting
            .iter()
            .take(NAMED)
            .map(|&id| {
                let task = &world.tasks[id];
                let kind = &world.plan.workload.tasks[task.kind];
                let what = match task.state {
                    State::Blocked(Blocked::Channel { channel, .. }) => {
                        format!("channel `{}`", world.plan.workload.channels[channel].name)
                    }
                    State::Blocked(Blocked::Barrier(barrier)) => {
                        format!("barrier `{}`", world.plan.workload.barriers[barrier].name)
                    }
                    _ => "nothing".to_owned(),
                };
                format!("`{}` ({}) on {what}", kind.name, task.instance)
            })
            .collect();
        let more = waiting.len().saturating_sub(NAMED);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        let list = named.join(", ");
        let reason = format!("deadlock: nothing can wake {list}{rest}");
        let mut stuck = world.stuck(waiting[0] as u32, reason);
        // Its next step follows the one it waits in.
        let task = &world.tasks[waiting[0]];
        let program = &world.plan.workload.tasks[task.kind].program;
        if let Some(step) = task.step.checked_sub(1).and_then(|s| program.get(s)) {
            stuck.place = step.place.clone();
        }
        Err(stuck)
    }
}

pub(super) fn drawn(task: &mut Task, draw: &Draw) -> Duration {
    draw.dist.draw(&mut task.streams[draw.stream])
}
