// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The polling state: its loop, and the limit that governors see.

use super::from_us;
use crate::platform::{IdleState, PollLoop};
use crate::toml::{Report, Table};
use crate::units::Duration;

/// `pause` takes up to 140 cycles on Skylake and later (Intel 64 and IA-32 Architectures
/// Optimization Reference Manual), here of 3 GHz. Other processors relax for less.
const RELAX_DEFAULT: Duration = Duration(47);
/// `ARCH_TIMER_EVT_STREAM_PERIOD_US` (include/clocksource/arm_arch_timer.h).
const EVENT_STREAM_DEFAULT: Duration = Duration::from_us(100);
/// `DEFAULT_POLL_LIMIT_US` of the driver as posted (linux-pm, 2 Apr 2024, "arm64: cpuidle: Add
/// arm_poll_idle").
const POLL_LIMIT_DEFAULT: Duration = Duration::from_us(100);

/// The keys that belong to one driver only.
const OWN_KEYS: [(&str, &str); 4] = [
    ("relax_ns", "poll_idle"),
    ("event_stream_us", "arm_poll_idle"),
    ("poll_limit_us", "arm_poll_idle"),
    ("wfet", "arm_poll_idle"),
];

pub(super) fn build(report: &mut Report, index: usize, state: &Table) -> Option<PollLoop> {
    let asked = state.bool("polling");
    let driver = match state.text("driver") {
        Some(_) if asked == Some(false) => {
            report.reject(
                state,
                "driver",
                "`polling` is false",
                "a driver for a polling state only",
            );
            return None;
        }
        None if asked == Some(true) => Some("poll_idle"),
        named => named,
    };
    for (key, owner) in OWN_KEYS {
        if state.has(key) && driver != Some(owner) {
            let message = match driver {
                Some(other) => format!("`{other}` has no such key"),
                None => "the state does not poll".to_owned(),
            };
            report.reject(state, key, message, format!("together with `driver = \"{owner}\"`"));
        }
    }
    let driver = driver?;
    if index > 0 {
        let key = if state.has("driver") { "driver" } else { "polling" };
        report.reject(
            state,
            key,
            format!("state {index} polls"),
            "a polling state at index 0 only, as the kernel has it",
        );
    }
    Some(match driver {
        "arm_poll_idle" => PollLoop::ArmPollIdle { event_stream: event_stream(report, state) },
        _ => PollLoop::PollIdle {
            relax: state.number("relax_ns").map_or(RELAX_DEFAULT, |ns| from_us(ns / 1e3)),
        },
    })
}

/// Period of the event stream that ends a wait in `wfe`; none if the CPUs have `wfet`. A driver
/// does not load without either.
fn event_stream(report: &mut Report, state: &Table) -> Option<Duration> {
    let period = state.number("event_stream_us").map(from_us);
    let has_wfet = state.bool("wfet") == Some(true);
    let message = match period {
        Some(_) if has_wfet => "`wfet` ends each wait, and no event stream".to_owned(),
        Some(Duration::ZERO) => "without an event stream a CPU could wait for ever".to_owned(),
        _ => return if has_wfet { None } else { Some(period.unwrap_or(EVENT_STREAM_DEFAULT)) },
    };
    report.reject(
        state,
        "event_stream_us",
        message,
        "a period above 0, or `wfet = true` without one",
    );
    None
}

/// `arm_poll_idle` gives its next state the polling limit for latency and target residency, so
/// that `cpuidle_poll_time()` finds it there.
pub(super) fn set_limit(report: &mut Report, tables: &[Table], states: &mut [Option<IdleState>]) {
    let (Some(table), Some(Some(polling))) = (tables.first(), states.first()) else { return };
    if !matches!(polling.poll_loop, Some(PollLoop::ArmPollIdle { .. })) {
        return;
    }
    let limit = table.number("poll_limit_us").map_or(POLL_LIMIT_DEFAULT, from_us);
    match states.get_mut(1) {
        Some(Some(next)) => (next.latency, next.target_residency) = (limit, limit),
        Some(None) => return,
        None => {
            let message = "no state follows for when polling ends".to_owned();
            return report.reject(
                table,
                "driver",
                message,
                "`arm_poll_idle` with a deeper state, `WFI`",
            );
        }
    }
    if let (Some(Some(deeper)), Some(deeper_table)) = (states.get(2), tables.get(2)) {
        if deeper.target_residency < limit || deeper.latency < limit {
            let key = if table.has("poll_limit_us") { "poll_limit_us" } else { "driver" };
            let name = deeper_table.text("name").unwrap_or("?");
            let (residency, latency) = (deeper.target_residency, deeper.latency);
            let most = residency.min(latency).as_us_f64();
            let message = format!(
                "a polling limit of {} us makes state 1 deeper than `{name}`",
                limit.as_us_f64()
            );
            report.reject(
                table,
                key,
                message,
                format!("`poll_limit_us` up to {most}, as `{name}` has it"),
            );
        }
    }
}
