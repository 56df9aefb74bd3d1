// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Verifying a recording.
mod cpu;
pub mod forcing;
pub mod recorded;
mod tick;
pub mod walk;

pub fn calls(trace: &torpor_trace::Trace, seats: &[walk::Seat], uses_probes: bool) -> recorded::Calls {
    let tick = crate::input::tick_function(trace).expect("tick");
    walk::Walk::new(trace, tick, seats, uses_probes).run()
}
