// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Devices: from a request to its completion, as the block layer takes it there (`blk-mq.c`).
//!
//! A request gets a tag of its hardware queue, or waits for one; the device works on as many as its
//! parallelism or its dies allow, in FIFO order, and all data passes its one link. The completion
//! interrupt goes to the queue's CPU, and the rest of the completion, which frees the tag and wakes
//! the task, to the submitting CPU, if the two differ in cache or capacity.
//!
//! FIDELITY(io-device): a submitter without a tag continues; the kernel puts a submitter to sleep.
//! The device has one queue for all hardware queues, and there is no IO scheduler. A die finishes
//! what it programs before it reads. A flush waits for what dies have to program, and for no other
//! request. What a thread raises as a softirq, it does itself.

mod flash;
mod kthread;

use super::events::Source;
use super::irq::Line;
use super::task::{Blocked, State};
use super::world::World;
use super::{Machine, Sink};
use crate::error::Halt;
use crate::random::{Stream, StreamName};
use crate::workload::{Device, Transfer, TransferKind};
use flash::{Die, Part, Split, Step};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use torpor_machine::platform::Completion;
use torpor_machine::units::{Duration, Instant};
use torpor_result::LatencyHistogram;

/// From a command to the interrupt that answers it, chosen: command, response and the gaps between
/// are at most 160 clocks on an MMC bus (JESD84-B51), 3.2 us at 50 MHz.
const ANSWER: Duration = Duration(3_200);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Request {
    task: u32,
    /// CPU that submitted it, and its hardware queue.
    cpu: u32,
    queue: u32,
    submitted: Instant,
    /// Time of the device for it, and then on the link.
    service: Duration,
    transfer: Duration,
    kind: TransferKind,
    kib: u32,
    /// Die of its first address.
    die: u32,
    /// Commands whose answers have not been handled.
    commands: u32,
}

/// Event of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// It is ready for the link.
    Ready(Request),
    Served(Request),
    /// It has answered a command.
    Answered(Request),
    Part(Part, Step),
    /// The IPI that takes completions to a CPU arrives there.
    Handed(usize),
}

/// A device with its requests.
pub(super) struct DeviceState {
    due: BinaryHeap<Reverse<(Instant, u64, Due)>>,
    sequence: u64,
    serving: u32,
    dies: Vec<Die>,
    /// Time from which each channel is free, and the link.
    channels: Vec<Instant>,
    link: Instant,
    /// Contents of the buffer, and writes that wait for space in it.
    buffered_kib: u64,
    stalled: VecDeque<(Part, Instant)>,
    split: Split,
    /// Queued requests, with the times of their arrival.
    waiting: VecDeque<(Request, Instant)>,
    queues: Vec<HardwareQueue>,
    by_cpu: Vec<CpuSide>,
    in_flight: i64,
    /// Time when the last request was served.
    idle_since: Instant,
    /// Whether background work is due when it becomes idle, and the end of such work.
    is_dirty: bool,
    busy_until: Instant,
    own_work: Stream,
    counted_to: Instant,
    pub totals: DeviceTotals,
}

#[derive(Clone, Default)]
struct HardwareQueue {
    tags_used: u32,
    /// Requests without a tag.
    held: VecDeque<Request>,
}

/// Work that a device has for a CPU.
#[derive(Clone)]
struct CpuSide {
    /// Served or answered, and the interrupt is not handled yet; with when they were.
    served: VecDeque<(Request, Instant)>,
    /// Handed over by the CPU that had the interrupt.
    handed: VecDeque<(Request, Instant)>,
    /// Left to the kernel thread.
    left: VecDeque<(Request, Instant)>,
    /// The thread, while it sleeps, and whether it has slept since the last request.
    sleeper: Option<u32>,
    has_slept: bool,
    /// The handler runs until then, and takes what comes meanwhile along.
    handles_until: Instant,
}

/// Counters of a device.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct DeviceTotals {
    /// Requests completed.
    pub requests: u64,
    /// Part of that time in which the device worked on them.
    pub service: Duration,
    /// Time with a request under way.
    pub busy: Duration,
    /// Requests under way, summed over time: their number times how long.
    pub queue_time: i128,
    /// From a request's submission to its completion by the kernel.
    pub response: LatencyHistogram,
}

impl DeviceTotals {
    /// Adds another's counts.
    pub(super) fn add(&mut self, other: &DeviceTotals) {
        self.requests += other.requests;
        self.service += other.service;
        self.busy += other.busy;
        self.queue_time += other.queue_time;
        self.response.add(&other.response);
    }
}

pub(super) fn devices(devices: &[Device], cpus: usize, seed: u64) -> Vec<DeviceState> {
    let side = CpuSide {
        served: VecDeque::new(),
        handed: VecDeque::new(),
        left: VecDeque::new(),
        sleeper: None,
        has_slept: false,
        handles_until: Instant(0),
    };
    let make = |device: &Device| DeviceState {
        due: BinaryHeap::new(),
        sequence: 0,
        serving: 0,
        dies: vec![Die::default(); device.flash.as_ref().map_or(0, |f| f.dies as usize)],
        channels: vec![Instant(0); device.flash.as_ref().map_or(0, |f| f.channels as usize)],
        link: Instant(0),
        buffered_kib: 0,
        stalled: VecDeque::new(),
        split: Split::default(),
        waiting: VecDeque::new(),
        queues: vec![HardwareQueue::default(); device.queues(cpus)],
        by_cpu: vec![side.clone(); cpus],
        in_flight: 0,
        idle_since: Instant(0),
        is_dirty: false,
        busy_until: Instant(0),
        own_work: StreamName::new(seed).text("device").text(&device.name).stream(),
        counted_to: Instant(0),
        totals: DeviceTotals::default(),
    };
    devices.iter().map(make).collect()
}

impl World<'_> {
    /// A request of the task that runs on this CPU.
    pub(super) fn submit(
        &mut self,
        number: usize,
        task: u32,
        device: usize,
        stream: usize,
        transfer: Transfer,
    ) {
        let model = &self.plan.devices[device];
        let asker = &mut self.tasks[task as usize];
        let (service, link) = model.service(transfer, &mut asker.streams[stream]);
        let kib = transfer.bytes.div_ceil(1024);
        let die = match &model.flash {
            None => 0,
            Some(flash) if transfer.in_order => {
                let first = asker.next_stripe;
                asker.next_stripe += u64::from(flash::stripes(kib));
                (first % u64::from(flash.dies)) as u32
            }
            Some(flash) => (asker.streams[stream].unit() * f64::from(flash.dies)) as u32,
        };
        let state = &mut self.devices[device];
        state.count_to(self.now);
        state.in_flight += 1;
        let queue = number * state.queues.len() / self.plan.topology.cpus;
        let request = Request {
            task,
            cpu: number as u32,
            queue: queue as u32,
            submitted: self.now,
            service,
            transfer: link,
            kind: transfer.kind,
            kib,
            die,
            commands: model.interrupts_per_io - 1,
        };
        let hardware = &mut state.queues[queue];
        if hardware.tags_used < model.queue_depth {
            hardware.tags_used += 1;
            self.issue(device, request, self.now);
        } else {
            hardware.held.push_back(request);
        }
    }

    fn issue(&mut self, device: usize, request: Request, at: Instant) {
        let model = &self.plan.devices[device];
        let state = &mut self.devices[device];
        let at = state.awake_at(model, at);
        state.is_dirty |= request.kind.writes();
        self.command(device, request, at);
    }

    /// The driver sends the next command of a request; with the last one, the device begins.
    fn command(&mut self, device: usize, request: Request, at: Instant) {
        let model = &self.plan.devices[device];
        let state = &mut self.devices[device];
        if request.commands > 0 {
            state.push(at + ANSWER, Due::Answered(request));
        }
        if request.commands > 1 {
            return self.plan_device(device);
        }
        let request = Request { commands: 0, ..request };
        if let Some(flash) = &model.flash {
            state.serving += 1;
            state.take(flash, request, at);
        } else if state.serving < model.parallelism {
            state.serve(request, at);
        } else {
            state.waiting.push_back((request, at));
        }
        self.plan_device(device);
    }

    /// Returns the CPU to interrupt, if no interrupt is on its way there that finds this, too.
    fn reports(&mut self, device: usize, request: Request) -> Option<usize> {
        let cpu = self.plan.devices[device].irq_cpu_of(request.queue as usize, self.plan.topology);
        let side = &mut self.devices[device].by_cpu[cpu];
        side.served.push_back((request, self.now));
        (side.served.len() == 1).then_some(cpu)
    }

    /// `blk_mq_complete_need_ipi()`.
    fn completes_here(&self, number: usize, submitter: usize) -> bool {
        let topology = self.plan.topology;
        number == submitter
            || (topology.shares_cache(number, submitter)
                && topology.capacity[number] == topology.capacity[submitter])
    }

    fn plan_device(&mut self, device: usize) {
        let first = self.devices[device].due.peek();
        let at = first.map_or(Instant::NEVER, |Reverse((at, _, _))| *at);
        self.queue.set(Source::Device.nth(device), at);
    }
}

impl<'a, S: Sink> Machine<'a, S> {
    pub(super) fn device_due(&mut self, device: usize) -> Result<(), Halt> {
        let world = &mut self.world;
        let now = world.now;
        let plan = world.plan;
        let state = &mut world.devices[device];
        let Reverse((_, _, due)) = state.due.pop().expect("a device that is due has something");
        let line = Line::Device { device };
        let (cpu, line) = match due {
            Due::Part(part, step) => {
                let flash = plan.devices[device].flash.as_ref().expect("it has dies");
                state.proceed(flash, part, step, now);
                world.plan_device(device);
                return Ok(());
            }
            Due::Ready(request) => {
                let at = state.cross_link(request.transfer, now);
                state.push(at, Due::Served(request));
                world.plan_device(device);
                return Ok(());
            }
            Due::Handed(cpu) => (Some(cpu), Line::Completion { device }),
            Due::Answered(request) => (world.reports(device, request), line),
            Due::Served(request) => {
                state.serving -= 1;
                state.totals.service += request.service + request.transfer;
                if let Some((next, at)) = state.waiting.pop_front() {
                    state.serve(next, at.max(now));
                }
                (world.reports(device, request), line)
            }
        };
        world.plan_device(device);
        if let Some(cpu) = cpu {
            self.interrupt(cpu, line);
        }
        Ok(())
    }

    /// The driver's handler: takes all that the device has served for this CPU, and completes it or
    /// leaves it to a thread.
    pub(super) fn handle_device(&mut self, number: usize, device: usize) {
        let world = &mut self.world;
        let (plan, now) = (world.plan, world.now);
        let Device { completion, irq, softirq, .. } = plan.devices[device];
        if world.devices[device].by_cpu[number].handles_until <= now {
            let is_threaded = completion == Completion::Threaded;
            let irq = if is_threaded { Duration::ZERO } else { irq };
            self.hold_up(plan.overheads.interrupt + irq);
        }
        loop {
            let world = &mut self.world;
            let served = world.devices[device].by_cpu[number].served.pop_front();
            let Some((request, at)) = served else { break };
            let submitter = request.cpu as usize;
            if request.commands > 0 {
                self.answered(number, device, request);
            } else if completion != Completion::Irq {
                self.leave_to_kthread(number, device, (request, at));
            } else if world.completes_here(number, submitter) {
                self.hold_up(softirq);
                self.complete(number, device, request, at);
            } else if self.hand_over(submitter, device, (request, at)) {
                self.hold_up(plan.overheads.ipi_send);
            }
        }
        let held_until = self.held_until(number);
        self.world.devices[device].by_cpu[number].handles_until = held_until;
    }

    /// Sends the next command when the handler is done.
    fn answered(&mut self, number: usize, device: usize, request: Request) {
        let commands = request.commands - 1;
        if commands > 0 {
            let at = self.held_until(number);
            self.world.command(device, Request { commands, ..request }, at);
        }
    }

    /// An IPI to the CPU that submitted; false if one is on its way.
    fn hand_over(&mut self, to: usize, device: usize, what: (Request, Instant)) -> bool {
        let world = &mut self.world;
        let handed = &mut world.devices[device].by_cpu[to].handed;
        handed.push_back(what);
        if handed.len() > 1 {
            return false;
        }
        let at = world.now + world.plan.overheads.ipi_delivery;
        world.devices[device].push(at, Due::Handed(to));
        world.plan_device(device);
        true
    }

    /// Completions that another CPU had the interrupt of.
    pub(super) fn handle_completions(&mut self, number: usize, device: usize) {
        let plan = self.world.plan;
        self.hold_up(plan.overheads.interrupt);
        loop {
            let handed = self.world.devices[device].by_cpu[number].handed.pop_front();
            let Some((request, at)) = handed else { return };
            self.hold_up(plan.devices[device].softirq);
            self.complete(number, device, request, at);
        }
    }

    /// The request is over: its tag is free, its task has a result. `at` is when the device was
    /// done with it.
    fn complete(&mut self, number: usize, device: usize, request: Request, at: Instant) {
        let held_until = self.held_until(number);
        let world = &mut self.world;
        let now = world.now;
        let free_at = held_until.max(now);
        let state = &mut world.devices[device];
        state.count_to(now);
        state.in_flight -= 1;
        if state.in_flight == 0 {
            state.idle_since = at;
        }
        state.totals.requests += 1;
        state.totals.response.record(now.since(request.submitted));
        let hardware = &mut state.queues[request.queue as usize];
        match hardware.held.pop_front() {
            Some(next) => world.issue(device, next, free_at),
            None => hardware.tags_used -= 1,
        }
        let task = &mut world.tasks[request.task as usize];
        task.io_done.push_back((request.submitted, request.kind));
        if matches!(task.state, State::Blocked(Blocked::Io(_))) {
            self.wake(request.task, at, false);
        }
    }
}

impl DeviceState {
    fn push(&mut self, at: Instant, due: Due) {
        self.sequence += 1;
        self.due.push(Reverse((at, self.sequence, due)));
    }

    /// When the device can start a request that it receives at `at`. A device that was idle after
    /// writes may be doing background work, which must end first.
    fn awake_at(&mut self, model: &Device, at: Instant) -> Instant {
        if let Some((after, length)) = &model.idle {
            if self.is_dirty && self.serving == 0 && at.since(self.idle_since) >= *after {
                self.is_dirty = false;
                self.busy_until = self.idle_since + *after + length.draw(&mut self.own_work);
            }
        }
        at.max(self.busy_until)
    }

    fn serve(&mut self, request: Request, at: Instant) {
        self.serving += 1;
        let is_without_data = request.transfer == Duration::ZERO;
        let due = if is_without_data { Due::Served(request) } else { Due::Ready(request) };
        self.push(at + request.service, due);
    }

    /// Takes the link as soon as it is free. Returns the time when the transfer ends.
    fn cross_link(&mut self, transfer: Duration, now: Instant) -> Instant {
        if transfer == Duration::ZERO {
            return now;
        }
        self.link = now.max(self.link) + transfer;
        self.link
    }

    /// Brings the totals over time up to now.
    pub(super) fn count_to(&mut self, now: Instant) {
        let time = now.since(self.counted_to);
        self.counted_to = now;
        if self.in_flight > 0 {
            self.totals.busy += time;
            self.totals.queue_time += i128::from(self.in_flight) * i128::from(time.0);
        }
    }
}
