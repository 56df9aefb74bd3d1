// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Completes timers in text, which lacks their identity, their flags and the clock.

use super::line::Line;
use crate::builder::Builder;
use crate::loss;
use crate::tracepoint::{Value, Values};

/// The tracepoints of timers, by the facts they have besides the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    HrtimerExpires,
    WheelStarts,
    /// The function.
    Function,
    /// None.
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
    /// True if times count from the recording's start.
    pub is_relative: bool,
    /// True after a `timer_start` without [`ALL_FLAGS`].
    do_flags_differ: bool,
    expiries: u64,
    expiries_on_time: u64,
}

/// Deferrable, pinned and irq-safe.
const ALL_FLAGS: u64 = 0x0038_0000;

/// Delay from the interrupt's reading of the clock to the event: microseconds, more in a guest. The
/// text's rounding takes off up to 1 us.
const EXPIRY_LAG_NS: std::ops::Range<i64> = -1_000..200_000;

impl Timers {
    /// Completes the values of a timer's event. False if the timer cannot be identified.
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
                // A wrong time may wrap, but seldom into the range.
                let lag_ns = line.time.ns.wrapping_sub(now) as i64;
                self.expiries = self.expiries.saturating_add(1);
                let is_on_time = u64::from(EXPIRY_LAG_NS.contains(&lag_ns));
                self.expiries_on_time = self.expiries_on_time.saturating_add(is_on_time);
            }
            // trace-cmd and perf share code that prints all flags for every timer.
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

    /// Identifies a hidden timer by its function and CPU. Kernels hide addresses in text
    /// (`(____ptrval____)`) until they have enough randomness to hash them.
    ///
    /// FIDELITY(hidden-timers): of two such timers the later start hides the earlier one, and
    /// cancellations are missing.
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

    /// Names the clock, which the kernel's text does not: `mono` if hrtimers expire at their own
    /// times, else the kernel's default, `local`, unless times are relative.
    pub(super) fn set_clock(&self, out: &mut Builder) {
        let nine_tenths = self.expiries.saturating_sub(self.expiries / 10);
        let is_monotonic = self.expiries > 0 && self.expiries_on_time >= nine_tenths;
        if out.meta.clock.is_empty() {
            let other = if self.is_relative { "unknown" } else { "local" };
            out.meta.clock = if is_monotonic { "mono" } else { other }.to_owned();
        }
        out.align_hrtimers(is_monotonic.then_some(0));
    }
}
