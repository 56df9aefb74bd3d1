// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Steps of programs that do IO.

use super::program::Next;
use super::task::{Blocked, State, Task, work_of};
use super::{Machine, Sink};
use crate::error::Halt;
use crate::workload::{Cache, IoWait, Mix, Op, Transfer, TransferKind};
use torpor_machine::units::{Duration, Instant};

impl<'a, S: Sink> Machine<'a, S> {
    pub(super) fn perform_io(&mut self, cpu: usize, id: u32, op: &'a Op) -> Result<Next, Halt> {
        let now = self.world.now;
        Ok(match op {
            Op::KthreadTake { device } => self.kthread_takes(cpu, id, *device),
            Op::KthreadComplete { device } => {
                self.kthread_completes(cpu, *device);
                Next::Continue
            }
            Op::IoWork { device, work, asleep } => self.io_work(id, *device, *work, *asleep),
            Op::IoFill { iodepth, runtime, number_ios, wait } => {
                let task = self.task(id);
                let is_over = is_over(task, now, *runtime, *number_ios);
                if is_over && task.io_depth == 0 {
                    self.exit(id)?;
                    return Ok(Next::Stop);
                }
                if is_over || task.io_depth >= *iodepth {
                    task.step = *wait;
                }
                Next::Continue
            }
            Op::IoSubmit { device, stream, transfer, mix, next } => {
                let transfer = self.io_transfer(id, *transfer, *mix);
                self.world.submit(cpu, id, *device, *stream, transfer);
                self.jump(id, *next)
            }
            Op::IoEvery { count, next } => match self.task(id).ios_taken % count {
                0 => Next::Continue,
                _ => self.jump(id, *next),
            },
            Op::IoBegin { runtime, number_ios, end } => {
                let task = self.task(id);
                task.io_began = now;
                if is_over(task, now, *runtime, *number_ios) {
                    task.step = *end;
                }
                Next::Continue
            }
            Op::IoLookup { mix, cache, stream, write, hit } => {
                self.io_lookup(id, (*mix, *cache, *stream), *write, *hit)
            }
            Op::IoHit => {
                let task = self.task(id);
                task.ios_submitted += 1;
                let began = task.io_began;
                self.io_done(id, began);
                Next::Continue
            }
            Op::IoPace { period, next } => {
                let task = self.task(id);
                task.step = *next;
                task.timers[0] += *period;
                let due = task.timers[0];
                if due <= now {
                    return Ok(Next::Continue);
                }
                self.sleep_until(id, due);
                Next::Stop
            }
            Op::IoWait(wait) => self.io_wait(id, *wait),
            _ => unreachable!("this step does no IO"),
        })
    }

    /// Gives a job the CPU time of an IO, with more if it slept for the result.
    fn io_work(&mut self, id: u32, device: usize, work: Duration, asleep: Duration) -> Next {
        let ratio = self.world.plan.devices[device].work_ratio;
        let task = self.task(id);
        let slept = std::mem::take(&mut task.slept_for_io);
        let work = if slept { work + asleep } else { work };
        task.work = work_of(Duration((work.0 as f64 * ratio) as i64));
        self.compute(id)
    }

    /// Counts a request that is submitted, and draws its direction where reads and writes mix.
    fn io_transfer(&mut self, id: u32, mut transfer: Transfer, mix: Option<Mix>) -> Transfer {
        let task = self.task(id);
        task.io_depth += 1;
        if let Some(mix) = mix {
            let is_read = task.streams[mix.stream].unit() < mix.reads;
            transfer.kind = if is_read { TransferKind::Read } else { TransferKind::Write };
        }
        task.ios_submitted += u64::from(transfer.kind.is_asked_for());
        transfer
    }

    /// Looks for a block in the page cache.
    fn io_lookup(
        &mut self,
        id: u32,
        (mix, cache, stream): (Option<Mix>, Option<Cache>, usize),
        write: usize,
        hit: usize,
    ) -> Next {
        let world = &mut self.world;
        let task = &mut world.tasks[id as usize];
        task.io_began = world.now;
        if mix.is_some_and(|mix| task.streams[mix.stream].unit() >= mix.reads) {
            task.step = write;
            return Next::Continue;
        }
        let Some(cache) = cache else { return Next::Continue };
        let (seen, in_order) = (task.ios_submitted, write == hit);
        let is_hit = if in_order {
            seen >= cache.blocks
        } else {
            let held = &mut world.cached[task.kind];
            let is_hit = task.streams[stream].unit() < cache.hit_ratio(*held, seen);
            *held = (*held + u64::from(!is_hit)).min(cache.blocks);
            is_hit
        };
        if is_hit {
            task.step = hit;
        }
        Next::Continue
    }

    /// Takes a request's result, or sleeps until there is one.
    fn io_wait(&mut self, id: u32, wait: IoWait) -> Next {
        let task = self.task(id);
        let Some((submitted, kind)) = task.io_done.pop_front() else {
            task.slept_for_io = true;
            task.step -= 1;
            self.leave(id, State::Blocked(Blocked::Io(wait)));
            return Next::Stop;
        };
        task.io_depth -= 1;
        if kind.is_asked_for() {
            self.io_done(id, submitted);
        }
        Next::Continue
    }

    fn io_done(&mut self, id: u32, submitted: Instant) {
        let world = &mut self.world;
        let task = &mut world.tasks[id as usize];
        task.ios_taken += 1;
        let totals = &mut world.kinds[task.kind];
        totals.ios += 1;
        totals.io_latency.record(world.now.since(submitted));
    }
}

/// Whether a job has reached its runtime or its number of requests.
fn is_over(task: &Task, now: Instant, runtime: Option<Duration>, number_ios: Option<u64>) -> bool {
    runtime.is_some_and(|runtime| now.since(task.started) >= runtime)
        || number_ios.is_some_and(|number| task.ios_submitted >= number)
}
