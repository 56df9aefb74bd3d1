// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Timers in text, which has less than a recording: their identity, their flags, the clock.

use super::line::Line;
use crate::builder::Builder;
use crate::loss;
use crate::tracepoint::{Value, Values};

/// The tracepoints of timers, by what they name apart from the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    HrtimerExpires,
    WheelStarts,
    /// Also names its function.
    Function,
    /// Names the timer alone.
    Alone,
}

impl Role {
    pub(super) fn of(name: &str) -> Option<Role> {
        Some(match name {
            "hrtimer_expire_entry" => Role::HrtimerExpires,
            "timer_start" => Role::WheelStarts,
            "hrtimer_start" | "timer_expire_entry" => Role::Function,
            "hrtimer_cancel" | "hrtimer_expire_exit" | "timer_cancel" => Role::Alone,
            _ => return None,
        })
    }
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    /// Set by the header of `trace-cmd report`.
    pub is_trace_cmd: bool,
    /// A `timer_start` of this text has had other flags than all three.
    do_flags_differ: bool,
    expiries: u64,
    expiries_at_their_time: u64,
}

/// Deferrable, pinned and irq-safe.
const ALL_FLAGS: u64 = 0x0038_0000;

/// From the interrupt's reading of the clock to the event: microseconds, more in a guest. One less
/// is what a text's rounding takes off.
const EXPIRY_LAG_NS: std::ops::Range<i64> = -1_000..200_000;

impl Timers {
    /// Makes up for what the text lacks. False if the event is of no use without it.
    #[inline]
    pub(super) fn complete(
        &mut self,
        role: Role,
        line: &Line<'_>,
        values: &mut Values<'_>,
        out: &mut Builder,
    ) -> bool {
        match (role, values[2], values[4]) {
            (Role::HrtimerExpires, Some(Value::Number(now)), _) => {
                // Wrong ones wrap to anywhere, and seldom into the range.
                let lag_ns = line.time.ns.wrapping_sub(now) as i64;
                self.expiries = self.expiries.saturating_add(1);
                let is_at_its_time = u64::from(EXPIRY_LAG_NS.contains(&lag_ns));
                self.expiries_at_their_time =
                    self.expiries_at_their_time.saturating_add(is_at_its_time);
            }
            // trace-cmd and perf share the code that prints all flags for every timer.
            (Role::WheelStarts, _, Some(Value::Number(flags)))
                if self.is_trace_cmd || line.has_subsystem =>
            {
                if flags & ALL_FLAGS != ALL_FLAGS {
                    self.do_flags_differ = true;
                } else if !self.do_flags_differ {
                    values[4] = Some(Value::Number(flags & !ALL_FLAGS));
                    out.lose(&loss::TIMER_FLAGS_UNKNOWN, 1);
                }
            }
            _ => {}
        }
        values[0].is_some() || self.identify(role, line, values, out)
    }

    /// Kernels hide addresses in text (`(____ptrval____)`) until they have enough randomness to
    /// hash them. A function's timers on one CPU are then taken for one timer.
    ///
    /// FIDELITY(hidden-timers): of two such timers the later start hides the earlier; that one was
    /// cancelled goes unseen.
    #[cold]
    fn identify(
        &self,
        role: Role,
        line: &Line<'_>,
        values: &mut Values<'_>,
        out: &mut Builder,
    ) -> bool {
        out.lose(&loss::TIMERS_HIDDEN, 1);
        match (role, values[1]) {
            (Role::Alone, _) => false,
            (_, Some(Value::Function(function))) => {
                let cpu = u64::from(line.cpu).rotate_right(16);
                values[0] = Some(Value::Number(function.address ^ cpu));
                true
            }
            _ => false,
        }
    }

    /// The kernel's text does not name its clock. Where hrtimers expire at their own time, it is
    /// theirs, which is monotonic; else it is taken for the kernel's default.
    pub(super) fn tell_clock(&self, out: &mut Builder) {
        let nine_tenths = self.expiries.saturating_sub(self.expiries / 10);
        let is_theirs = self.expiries > 0 && self.expiries_at_their_time >= nine_tenths;
        if out.meta.clock.is_empty() {
            out.meta.clock = if is_theirs { "mono" } else { "local" }.to_owned();
        }
        out.align_hrtimers(is_theirs.then_some(0));
    }
}
