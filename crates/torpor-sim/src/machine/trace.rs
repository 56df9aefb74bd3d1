// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Converts the events of a run to the tracepoints of a recording.

use torpor_machine::units::StateIdx;
use torpor_trace::{Function, Name};

/// Names after those of the tasks.
pub const TIMER_SYMBOLS: [&str; 2] = ["tick_nohz_handler", "hrtimer_wakeup"];

/// Addresses of functions and timers; any place in a kernel's memory does.
const FUNCTIONS: u64 = 0xffff_ffff_8110_0000;
const OTHER_FUNCTIONS: u64 = 0xffff_ffff_8120_0000;
const KERNEL_TIMERS: u64 = 0xffff_8881_0000_0000;

/// One of [`TIMER_SYMBOLS`], which follow the names of so many kinds of tasks.
pub(super) fn function(kinds: usize, which: usize) -> Function {
    let symbol = Name((kinds + which) as u32);
    Function { address: FUNCTIONS + 0x100 * which as u64, symbol: Some(symbol) }
}

pub(super) fn name_of(kind: usize) -> Name {
    Name(kind as u32)
}

pub(super) fn state(state: usize) -> StateIdx {
    StateIdx(state as i32)
}

/// State number of a CPU that leaves its state.
pub(super) fn state_none() -> StateIdx {
    StateIdx(-1)
}

pub(super) fn kernel_timer(id: u32) -> u64 {
    KERNEL_TIMERS + 0x100 * u64::from(id)
}

/// Function without a name here.
pub(super) fn other_function(id: u32) -> Function {
    Function { address: OTHER_FUNCTIONS + 0x100 * u64::from(id), symbol: None }
}
