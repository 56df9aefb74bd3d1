// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Interrupts of devices, of the workload's sources, and of calls from another CPU.

use crate::kernel::abi::{IRQ_CALL, IRQ_RESCHEDULE};
use torpor_machine::units::{Duration, Instant};
use torpor_trace::InterruptCause;

/// An interrupt that its CPU has not handled yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Irq {
    pub at: Instant,
    pub line: Line,
}

/// The cause of an interrupt.
#[derive(Clone, Copy, Debug)]
pub(super) enum Line {
    /// A source of the workload, by index, with the time that its handler takes.
    Source { source: usize, handling: Duration },
    /// A device has served requests.
    Device { device: usize },
    /// Another CPU had a device's interrupt, and hands the completions over.
    Completion { device: usize },
    /// A task calls a function on this CPU, which takes this long.
    Call { task: u32, handling: Duration },
    /// The request of a scripted task is done.
    Script { task: u32 },
}

/// The first device's interrupt number in a recording; sources come before.
const DEVICE_IRQ: u32 = 64;
/// x86's `CALL_FUNCTION_SINGLE_VECTOR`.
const CALL_IRQ: u32 = 251;

impl Line {
    pub(super) fn number(self) -> u32 {
        match self {
            Line::Source { source, .. } => source as u32,
            Line::Device { device } | Line::Completion { device } => DEVICE_IRQ + device as u32,
            Line::Script { .. } => DEVICE_IRQ,
            Line::Call { .. } => CALL_IRQ,
        }
    }
}

/// Returns the reason for which one CPU interrupts another; none for a timer or a device.
pub(super) fn cause_of(bits: u32) -> Option<InterruptCause> {
    match bits {
        _ if bits & IRQ_CALL != 0 => Some(InterruptCause::CallFunction),
        _ if bits & IRQ_RESCHEDULE != 0 => Some(InterruptCause::Reschedule),
        _ => None,
    }
}
