// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Programs of tasks, step by step.

use super::call::SPIN;
use super::task::{Blocked, State, work_of};
use super::{Machine, Sink};
use crate::error::{Halt, Stuck};
use crate::workload::{Draw, Op, TransferKind};
use torpor_machine::units::Duration;

/// So many steps in no time are a loop that never ends.
const STEPS_AT_ONCE_MAX: u32 = 100_000;
/// So many of the tasks in a deadlock are named.
const NAMED: usize = 5;

impl<'a, S: Sink> Machine<'a, S> {
    /// Goes through the program of the CPU's task until it uses time or leaves the CPU.
    pub(super) fn advance(&mut self, number: usize, id: u32) -> Result<(), Halt> {
        loop {
            let world = &mut self.world;
            let workload = world.plan.workload;
            world.steps += 1;
            let now = world.now;
            let task = &mut world.tasks[id as usize];
            let program = &workload.tasks[task.kind].program;
            if task.last_step != now {
                (task.last_step, task.steps_at_once) = (now, 0);
            }
            task.steps_at_once += 1;
            if task.steps_at_once > STEPS_AT_ONCE_MAX {
                let reason = "it goes round and round, and no time passes";
                return Err(world.stuck(id, reason).into());
            }
            let Some(step) = program.get(task.step) else {
                let totals = &mut world.kinds[task.kind];
                totals.passes += 1;
                totals.pass_time.record(now.since(task.pass_began));
                task.pass_began = now;
                task.passes = task.passes.saturating_sub(1);
                if task.passes == 0 {
                    self.leave(id, State::Dead);
                    return self.check_deadlock().map_err(Halt::from);
                }
                task.step = 0;
                continue;
            };
            match &step.op {
                Op::Run(draw) => {
                    task.work = work_of(drawn(&mut task.streams, draw));
                    task.step += 1;
                    if task.work > 0 {
                        return Ok(());
                    }
                }
                Op::Goto(step) => task.step = *step,
                Op::IoWork { device, work, asleep } => {
                    let ratio = world.plan.devices[*device].work_ratio;
                    let slept = std::mem::take(&mut task.slept_for_io);
                    let work = if slept { *work + *asleep } else { *work };
                    task.work = work_of(Duration((work.0 as f64 * ratio) as i64));
                    task.step += 1;
                    if task.work > 0 {
                        return Ok(());
                    }
                }
                Op::Sleep(draw) => {
                    let mut length = drawn(&mut task.streams, draw);
                    task.step += 1;
                    if let Some(activity) = workload.tasks[task.kind].activity {
                        length = world.runs[activity].scale(length, now);
                    }
                    self.sleep_until(id, now + length);
                    return Ok(());
                }
                Op::Until(at) => {
                    task.step += 1;
                    if now < *at {
                        self.sleep_until(id, *at);
                        return Ok(());
                    }
                    task.called = *at;
                    let kind = task.kind;
                    world.kinds[kind].missed += 1;
                }
                Op::Period(period) => {
                    task.step += 1;
                    task.next_period += *period;
                    let late = now.since(task.next_period);
                    if late.is_negative() {
                        let until = task.next_period;
                        self.sleep_until(id, until);
                        return Ok(());
                    }
                    task.called = task.next_period;
                    if late > Duration::ZERO {
                        let kind = task.kind;
                        let skipped = late.0 / period.0;
                        task.next_period += Duration(skipped * period.0);
                        world.kinds[kind].missed += 1 + skipped as u64;
                    }
                }
                Op::Wait { channel, count, not_before, at_least } => {
                    let channel = *channel + task.group;
                    let held = &mut world.channels[channel];
                    task.step += 1;
                    if held.waiters.is_empty() && held.held >= *count {
                        // It is late for what came before.
                        task.called = held.take(*count).unwrap_or(task.called);
                        let until = (*not_before).max(now + *at_least);
                        if now < until {
                            self.sleep_until(id, until);
                            return Ok(());
                        }
                        continue;
                    }
                    held.waiters.push_back(id);
                    let blocked = Blocked::Channel { channel, count: *count };
                    return self.wait_for_others(id, blocked);
                }
                Op::Await { channel, release } => {
                    task.step += 1;
                    // On the list before the mutex is free, so that no signal is missed.
                    world.channels[*channel].waiters.push_back(id);
                    if let Some(mutex) = release {
                        self.post(*mutex, 1, now, false);
                    }
                    let blocked = Blocked::Channel { channel: *channel, count: 0 };
                    return self.wait_for_others(id, blocked);
                }
                Op::Notify { channel, all } => {
                    task.step += 1;
                    self.notify(*channel, *all);
                }
                Op::Timer { timer, period, is_absolute } => {
                    task.step += 1;
                    let next = task.timers[*timer] + *period;
                    task.timers[*timer] = next;
                    if now < next {
                        self.sleep_until(id, next);
                        return Ok(());
                    }
                    if !is_absolute {
                        task.timers[*timer] = now;
                    }
                    let kind = task.kind;
                    world.kinds[kind].missed += 1;
                }
                Op::Wake { channel, count, sync } => {
                    let channel = *channel + task.group;
                    task.step += 1;
                    self.post(channel, *count, now, *sync);
                }
                Op::Barrier(barrier) => {
                    task.step += 1;
                    let there = &mut world.barriers[*barrier];
                    if there.len() as u32 + 1 < workload.barriers[*barrier].parties {
                        there.push(id);
                        return self.wait_for_others(id, Blocked::Barrier(*barrier));
                    }
                    for other in std::mem::take(there) {
                        self.wake(other, now, false);
                    }
                }
                Op::IoFill { iodepth, runtime, number_ios, wait } => {
                    let is_over = runtime.is_some_and(|r| now.since(task.started) >= r)
                        || number_ios.is_some_and(|n| task.ios_submitted >= n);
                    if is_over && task.io_depth == 0 {
                        self.leave(id, State::Dead);
                        return self.check_deadlock().map_err(Halt::from);
                    }
                    let is_full = is_over || task.io_depth >= *iodepth;
                    task.step = if is_full { *wait } else { task.step + 1 };
                }
                Op::IoSubmit { device, stream, transfer, mix, next } => {
                    task.step = *next;
                    task.io_depth += 1;
                    let mut transfer = *transfer;
                    if let Some(mix) = mix {
                        let is_read = task.streams[mix.stream].unit() < mix.reads;
                        transfer.kind =
                            if is_read { TransferKind::Read } else { TransferKind::Write };
                    }
                    task.ios_submitted += u64::from(transfer.kind.is_asked_for());
                    world.submit(number, id, *device, *stream, transfer);
                }
                Op::IoEvery { count, next } => {
                    let is_turn = task.ios_taken % count == 0;
                    task.step = if is_turn { task.step + 1 } else { *next };
                }
                Op::IoBegin { runtime, number_ios, end } => {
                    let is_over = runtime.is_some_and(|r| now.since(task.started) >= r)
                        || number_ios.is_some_and(|n| task.ios_submitted >= n);
                    task.io_began = now;
                    task.step = if is_over { *end } else { task.step + 1 };
                }
                Op::IoLookup { mix, cache, stream, write, hit } => {
                    task.io_began = now;
                    let is_write =
                        mix.is_some_and(|mix| task.streams[mix.stream].unit() >= mix.reads);
                    let in_order = write == hit;
                    let is_hit = !is_write
                        && cache.is_some_and(|cache| {
                            let seen = task.ios_submitted;
                            if in_order {
                                return cache.kept == cache.blocks && seen >= cache.blocks;
                            }
                            let draw = task.streams[*stream].unit();
                            let is_hit = draw < cache.hit_ratio(world.cached[task.kind], seen);
                            let more = world.cached[task.kind] + u64::from(!is_hit);
                            world.cached[task.kind] = more.min(cache.kept);
                            is_hit
                        });
                    task.step = match (is_write, is_hit) {
                        (true, _) => *write,
                        (_, true) => *hit,
                        _ => task.step + 1,
                    };
                }
                Op::IoHit => {
                    task.step += 1;
                    task.ios_submitted += 1;
                    task.ios_taken += 1;
                    let totals = &mut world.kinds[task.kind];
                    totals.ios += 1;
                    totals.io_latency.record(now.since(task.io_began));
                }
                Op::IoPace { period, next: step } => {
                    task.step = *step;
                    let next = task.timers[0] + *period;
                    task.timers[0] = next;
                    if now < next {
                        self.sleep_until(id, next);
                        return Ok(());
                    }
                }
                Op::IoWait(wait) => {
                    let Some((submitted, kind)) = task.io_done.pop_front() else {
                        task.slept_for_io = true;
                        self.leave(id, State::Blocked(Blocked::Io(*wait)));
                        return Ok(());
                    };
                    task.step += 1;
                    task.io_depth -= 1;
                    if kind.is_asked_for() {
                        task.ios_taken += 1;
                        let totals = &mut world.kinds[task.kind];
                        totals.ios += 1;
                        totals.io_latency.record(now.since(submitted));
                    }
                }
                Op::FlowBegin(flow) => {
                    let (group, called) = (task.group, task.called);
                    task.step += 1;
                    world.flows[*flow].begin(group, id, called);
                }
                Op::FlowEnd(flow) => {
                    let group = task.group;
                    let Some(took) = world.flows[*flow].end(group, id, now, &workload.flows[*flow])
                    else {
                        let reason = "it ends a flow that has not begun";
                        return Err(world.stuck(id, reason).into());
                    };
                    world.tasks[id as usize].step += 1;
                    self.hint(*flow, took);
                }
                Op::Call { cpu, handling, asleep } => {
                    let handling = drawn(&mut task.streams, handling);
                    task.step += 1;
                    if *cpu == number {
                        task.work = work_of(handling);
                    } else if world.plan.topology.online.contains(*cpu) {
                        task.work = if *asleep { 0 } else { SPIN };
                        world.call(id, *cpu, handling);
                        if *asleep {
                            self.leave(id, State::Blocked(Blocked::Call));
                            return Ok(());
                        }
                    }
                    if world.tasks[id as usize].work > 0 {
                        return Ok(());
                    }
                }
                Op::Spawn { task: kind, count } => {
                    task.step += 1;
                    self.spawn(*kind, *count, Some(number))?;
                }
                Op::LoopBegin { times, end } => {
                    if *times == 0 {
                        task.step = *end;
                    } else {
                        task.loops.push(*times);
                        task.step += 1;
                    }
                }
                Op::LoopEnd { begin } => {
                    let left = task.loops.last_mut().expect("a loop that ends has begun");
                    *left -= 1;
                    if *left > 0 {
                        task.step = *begin;
                    } else {
                        task.loops.pop();
                        task.step += 1;
                    }
                }
            }
            // The kernel does first what the program has asked of it.
            if self.stops(id) {
                return Ok(());
            }
        }
    }

    fn wait_for_others(&mut self, id: u32, blocked: Blocked) -> Result<(), Halt> {
        self.world.under_way -= 1;
        self.leave(id, State::Blocked(blocked));
        self.check_deadlock().map_err(Halt::from)
    }

    /// Tasks wait for one another, and nothing is left that could wake any of them.
    fn check_deadlock(&mut self) -> Result<(), Stuck> {
        let has_interrupts = self.has_interrupts();
        let world = &mut self.world;
        if world.under_way > 0 || world.live == 0 || has_interrupts || world.help_may_come() {
            return Ok(());
        }
        let waits = |id: &usize| world.tasks[*id].state != State::Dead;
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
        let reason = format!("deadlock: nothing is left that could wake {list}{rest}");
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

fn drawn(streams: &mut [crate::workload::Stream], draw: &Draw) -> Duration {
    draw.dist.draw(&mut streams[draw.stream])
}
