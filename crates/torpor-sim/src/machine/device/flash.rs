// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Inside a drive: dies by address, the channels they share, and the write buffer.

use super::{DeviceState, Due, Job, Request};
use crate::workload::TransferKind;
use torpor_machine::platform::Flash;
use torpor_machine::units::{Duration, Instant};

impl DeviceState {
    /// A device with dies learns of a request.
    pub(super) fn take(&mut self, flash: &Flash, request: Request, at: Instant) {
        match request.kind {
            TransferKind::Read | TransferKind::ReadAhead => {
                self.queue(flash, request.die, Job::Read(request), at)
            }
            TransferKind::Write | TransferKind::WriteBack => {
                self.stalled.push_back((request, at));
                self.fill(flash, at);
            }
            TransferKind::Flush => {
                let dies = self.dies.len() as u32;
                self.flushes.push((request, dies));
                (0..dies).for_each(|die| self.queue(flash, die, Job::Flush(request), at));
            }
        }
    }

    /// Writes go into the buffer, as far as it fits; one alone always does.
    fn fill(&mut self, flash: &Flash, now: Instant) {
        while let Some(&(request, at)) = self.stalled.front() {
            let kib = u64::from(request.kib);
            if self.buffered_kib > 0 && self.buffered_kib + kib > u64::from(flash.buffer_kib) {
                return;
            }
            self.stalled.pop_front();
            self.buffered_kib += kib;
            self.push(at.max(now) + request.service, Due::Served(request));
        }
    }

    fn queue(&mut self, flash: &Flash, die: u32, job: Job, at: Instant) {
        self.dies[die as usize].jobs.push_back((job, at));
        if !self.dies[die as usize].is_busy {
            self.next_job(flash, die, at);
        }
    }

    /// The die is free, and does what has waited longest.
    fn next_job(&mut self, flash: &Flash, die: u32, now: Instant) {
        let it = die as usize;
        self.dies[it].is_busy = false;
        while let Some((job, at)) = self.dies[it].jobs.pop_front() {
            let from = at.max(now);
            match job {
                Job::Read(request) => self.push(from + request.service, Due::Sensed(request)),
                Job::Program { kib } => {
                    self.push(from + flash.program, Due::Programmed { die, kib });
                }
                Job::Flush(request) => {
                    let waiting = self.flushes.iter().position(|(flush, _)| *flush == request);
                    let waiting = waiting.expect("a flush waits for its last die");
                    self.flushes[waiting].1 -= 1;
                    if self.flushes[waiting].1 == 0 {
                        self.flushes.swap_remove(waiting);
                        self.push(from + request.service, Due::Served(request));
                    }
                    continue;
                }
            }
            self.dies[it].is_busy = true;
            return;
        }
    }

    /// The die holds what it has read until that is out.
    pub(super) fn sensed(&mut self, flash: &Flash, request: Request, now: Instant) {
        let channels = self.channels.len();
        let free = &mut self.channels[request.die as usize % channels];
        let at = now.max(*free) + Duration(flash.channel_per_kib.0 * i64::from(request.kib));
        *free = at;
        self.push(at, Due::Served(request));
    }

    pub(super) fn programmed(&mut self, flash: &Flash, die: u32, kib: u32, now: Instant) {
        self.buffered_kib -= u64::from(kib);
        self.fill(flash, now);
        self.next_job(flash, die, now);
    }

    /// A request is done, as its host sees it.
    pub(super) fn leaves(&mut self, flash: &Flash, request: Request, now: Instant) {
        match request.kind {
            TransferKind::Read | TransferKind::ReadAhead => self.next_job(flash, request.die, now),
            TransferKind::Write | TransferKind::WriteBack => {
                let job = Job::Program { kib: request.kib };
                self.queue(flash, request.die, job, now);
            }
            TransferKind::Flush => {}
        }
    }
}
