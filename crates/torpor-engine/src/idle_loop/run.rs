// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A replay: one CPU's idle loop on its way through a recording.

use super::{DECISIONS_A_LOOK, IdleCpu, Pending};
use crate::decision::Observer;
use crate::input::Span;
use crate::model::CpuModel;
use crate::policy::Policy;
use crate::totals::CpuTotals;
use torpor_governor::Fault;
use torpor_machine::units::{Duration, Instant};

/// One CPU on its way through its recorded spans.
///
/// Work is conserved: the events of the recording stay where they were, the work of each takes
/// as long as it took, and a CPU that resumes later than recorded starts its next sleep later,
/// until idle time has absorbed the delay.
pub struct CpuRun<'a> {
    cpu: IdleCpu<'a>,
    spans: &'a [Span],
    next: usize,
}

impl<'a> CpuRun<'a> {
    pub fn new(model: &'a CpuModel, spans: &'a [Span], slot: usize) -> CpuRun<'a> {
        let start = spans.first().map_or(Instant(0), |s| s.start);
        CpuRun { cpu: IdleCpu::new(model, slot, start), spans, next: 0 }
    }

    /// Sums up.
    pub fn close(self) -> CpuTotals {
        let (now, end) = (self.cpu.now, self.spans.last().map(|span| span.resume));
        let overrun = end.map_or(Duration::ZERO, |end| now.since(end).max(Duration::ZERO));
        CpuTotals { overrun, ..self.cpu.close() }
    }

    /// When this CPU decides next; `None` when its recording is used up.
    pub fn next_decision(&mut self) -> Option<Instant> {
        self.skip_absorbed();
        (self.next < self.spans.len()).then_some(self.cpu.now)
    }

    /// Asks the policy and enters the state. `None` at the end of the recording.
    #[inline]
    pub fn begin<P: Policy>(&mut self, policy: &mut P) -> Result<Option<Pending>, Fault> {
        self.skip_absorbed();
        let Some(span) = self.spans.get(self.next) else { return Ok(None) };
        self.cpu.span = self.next as u32;
        let mut pending = self.cpu.begin(span, policy)?;
        if P::POLLS_ON && self.cpu.model.states[pending.state].is_polling {
            // A copy, so that the current one may stay in registers: what is stored by the byte and
            // loaded by the word costs more than all else here.
            let mut polls_on = pending;
            self.pass_interrupts(&mut polls_on);
            pending = polls_on;
        }
        Ok(Some(pending))
    }

    /// Interrupts that bring no task are handled while the CPU polls, and polling goes on.
    #[cold]
    fn pass_interrupts(&mut self, pending: &mut Pending) {
        let mut wake = self.spans[self.next].wake;
        while wake <= self.cpu.give_up {
            let span = &self.spans[self.next];
            let Some(following) = self.spans.get(self.next + 1) else { break };
            if span.ends_visit || span.is_resched {
                break;
            }
            self.cpu.tally.resumed(wake.since(span.resume));
            let handled = wake + following.start.since(span.resume);
            self.next += 1;
            wake = following.wake.max(handled);
            self.cpu.poll_on(pending, handled, wake);
        }
    }

    /// Wakes up, accounts for the sleep and tells the policy.
    #[inline]
    pub fn finish<P: Policy, O: Observer>(
        &mut self,
        pending: &Pending,
        policy: &mut P,
        observer: &mut O,
    ) -> Result<(), Fault> {
        if self.cpu.finish(&self.spans[self.next], pending, policy, observer)? {
            self.leave(self.cpu.now);
        }
        Ok(())
    }

    /// Runs the CPU to the end of its recording.
    pub fn run<P: Policy, O: Observer>(
        &mut self,
        policy: &mut P,
        observer: &mut O,
    ) -> Result<(), Fault> {
        self.run_while(policy, observer, &mut |_| true).map(|_| ())
    }

    /// Runs the CPU to the end of its recording, or until `goes_on`, which is asked now and then
    /// with the spans done, says no; whether it came to the end. One span may take any number of
    /// decisions.
    pub fn run_while<P: Policy, O: Observer>(
        &mut self,
        policy: &mut P,
        observer: &mut O,
        goes_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<bool, Fault> {
        loop {
            for _ in 0..DECISIONS_A_LOOK {
                let Some(pending) = self.begin(policy)? else { return Ok(true) };
                self.finish(&pending, policy, observer)?;
            }
            if !goes_on(self.next) {
                return Ok(false);
            }
        }
    }

    /// Spans whose event came before the CPU had finished its earlier work: no sleep at all.
    #[inline]
    fn skip_absorbed(&mut self) {
        while let Some(span) = self.spans.get(self.next) {
            if self.cpu.now <= span.wake {
                return;
            }
            self.absorb();
        }
    }

    #[cold]
    fn absorb(&mut self) {
        self.cpu.tally.absorbed();
        self.leave(self.cpu.now);
    }

    /// The work of the current span's event begins at `resume`; on to the next span.
    #[inline(always)]
    fn leave(&mut self, resume: Instant) {
        let span = &self.spans[self.next];
        self.cpu.tally.resumed(resume.passed_since(span.resume));
        self.next += 1;
        if let Some(following) = self.spans.get(self.next) {
            self.cpu.now = resume + following.start.passed_since(span.resume);
            self.cpu.idle_entry = self.cpu.now;
        }
        if span.ends_visit {
            self.cpu.tick_stopped = false;
        }
    }
}
