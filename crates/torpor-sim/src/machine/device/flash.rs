// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Inside a drive: dies by address, the channels they share, and the write buffer.

use super::{DeviceState, Due, Request};
use crate::workload::TransferKind;
use std::collections::VecDeque;
use torpor_machine::platform::Flash;
use torpor_machine::units::{Duration, Instant};

/// Size of what a die reads or programs at a time. Chosen: a page of 16 KiB on each of two planes;
/// no data sheet of the devices that ship says.
const STRIPE_KIB: u32 = 32;

/// The part of a request that one die has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    die: u32,
    kib: u32,
    /// Its request, until that is served.
    slot: u32,
}

/// Events of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// Its die has read it; the channel is next.
    Sensed,
    /// It is ready for the link: out of its die, or the buffer has space.
    Ready,
    /// The buffer has it.
    Stored,
    Programmed,
}

#[derive(Clone, Default)]
pub(super) struct Die {
    is_busy: bool,
    jobs: VecDeque<(Part, Job, Instant)>,
}

#[derive(Clone, Copy)]
enum Job {
    Read,
    Program,
    /// All before it are done.
    Flush,
}

/// Requests in parts, with the number of parts that each waits for.
#[derive(Default)]
pub(super) struct Split {
    slots: Vec<(Request, u32)>,
    free: Vec<u32>,
}

impl Split {
    fn insert(&mut self, request: Request, parts: u32) -> u32 {
        let Some(slot) = self.free.pop() else {
            self.slots.push((request, parts));
            return self.slots.len() as u32 - 1;
        };
        self.slots[slot as usize] = (request, parts);
        slot
    }

    fn request(&self, part: Part) -> Request {
        self.slots[part.slot as usize].0
    }

    /// Counts a part as done. Returns whether it is the last of its request.
    fn is_last(&mut self, part: Part) -> bool {
        let left = &mut self.slots[part.slot as usize].1;
        *left -= 1;
        let is_last = *left == 0;
        if is_last {
            self.free.push(part.slot);
        }
        is_last
    }
}

/// Returns the number of stripes that a transfer takes.
pub(super) fn stripes(kib: u32) -> u32 {
    kib.div_ceil(STRIPE_KIB)
}

impl DeviceState {
    /// A device with dies receives a request, and splits it.
    pub(super) fn take(&mut self, flash: &Flash, request: Request, at: Instant) {
        let is_flush = request.kind == TransferKind::Flush;
        let parts = if is_flush { flash.dies } else { stripes(request.kib) };
        let slot = self.split.insert(request, parts);
        for nth in 0..parts {
            let die = (request.die + nth) % flash.dies;
            let kib = request.kib.saturating_sub(nth * STRIPE_KIB).min(STRIPE_KIB);
            let part = Part { die, kib, slot };
            match request.kind {
                TransferKind::Read | TransferKind::ReadAhead => {
                    self.queue(flash, part, Job::Read, at);
                }
                TransferKind::Write | TransferKind::WriteBack => self.stalled.push_back((part, at)),
                TransferKind::Flush => self.queue(flash, part, Job::Flush, at),
            }
        }
        self.fill(flash, at);
    }

    /// Writes go into the buffer, as far as it has space for their parts; one alone always fits.
    fn fill(&mut self, flash: &Flash, now: Instant) {
        while let Some(&(part, at)) = self.stalled.front() {
            let kib = u64::from(part.kib);
            if self.buffered_kib > 0 && self.buffered_kib + kib > u64::from(flash.buffer_kib) {
                return;
            }
            self.stalled.pop_front();
            self.buffered_kib += kib;
            let service = self.split.request(part).service;
            self.push(at.max(now) + service, Due::Part(part, Step::Ready));
        }
    }

    fn queue(&mut self, flash: &Flash, part: Part, job: Job, at: Instant) {
        let die = &mut self.dies[part.die as usize];
        die.jobs.push_back((part, job, at));
        if !die.is_busy {
            self.next_job(flash, part.die, at);
        }
    }

    /// The die is free, and does what has waited longest.
    fn next_job(&mut self, flash: &Flash, die: u32, now: Instant) {
        let it = die as usize;
        self.dies[it].is_busy = false;
        while let Some((part, job, at)) = self.dies[it].jobs.pop_front() {
            let from = at.max(now);
            let (time, step) = match job {
                Job::Read => (self.split.request(part).service, Step::Sensed),
                Job::Program => (flash.program, Step::Programmed),
                Job::Flush => {
                    let request = self.split.request(part);
                    if self.split.is_last(part) {
                        self.push(from + request.service, Due::Served(request));
                    }
                    continue;
                }
            };
            self.push(from + time, Due::Part(part, step));
            self.dies[it].is_busy = true;
            return;
        }
    }

    pub(super) fn proceed(&mut self, flash: &Flash, part: Part, step: Step, now: Instant) {
        match step {
            Step::Sensed => {
                // The die holds what it has read until that is out.
                let channels = self.channels.len();
                let free = &mut self.channels[part.die as usize % channels];
                *free = now.max(*free) + Duration(flash.channel_per_kib.0 * i64::from(part.kib));
                let at = *free;
                self.push(at, Due::Part(part, Step::Ready));
            }
            Step::Ready => {
                let request = self.split.request(part);
                if !request.kind.writes() {
                    self.next_job(flash, part.die, now);
                }
                let share = i128::from(part.kib) * i128::from(request.transfer.0);
                let share = Duration((share / i128::from(request.kib)) as i64);
                let at = self.cross_link(share, now);
                if request.kind.writes() {
                    self.push(at, Due::Part(part, Step::Stored));
                }
                if self.split.is_last(part) {
                    self.push(at, Due::Served(request));
                }
            }
            Step::Stored => self.queue(flash, part, Job::Program, now),
            Step::Programmed => {
                self.buffered_kib -= u64::from(part.kib);
                self.fill(flash, now);
                self.next_job(flash, part.die, now);
            }
        }
    }
}
