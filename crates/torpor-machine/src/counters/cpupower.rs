// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The output of `cpupower idle-info`: the counters of sysfs under other names.
//!
//! ```text
//! CPUidle driver: acpi_idle
//! CPUidle governor: menu
//! analyzing CPU 12:
//!
//! Number of idle states: 2
//! Available idle states: POLL C1
//! POLL:
//! Flags/Description: CPUIDLE CORE POLL IDLE
//! Latency: 0
//! Residency: 0
//! Usage: 946
//! Duration: 56142
//! C1 (DISABLED) :
//! ...
//! ```
//!
//! It has neither `above` nor `below`.

use crate::counters::STATE_MAX;
use crate::counters::builder::Builder;
use crate::counters::path::Key;
use crate::counters::text::{Unread, unquoted};
use crate::units::CpuId;

/// The names of sysfs for those of cpupower.
const ATTRS: [(&str, &str); 5] = [
    ("Flags/Description", "desc"),
    ("Latency", "latency"),
    ("Residency", "residency"),
    ("Usage", "usage"),
    ("Duration", "time"),
];

pub(crate) fn is_idle_info(text: &str) -> bool {
    text.lines().any(|line| unquoted(line).starts_with("Number of idle states:"))
}

pub(crate) fn read(text: &str, builder: &mut Builder) -> Unread {
    let mut unread = Unread::default();
    let mut cpu = None;
    // The next state's index, and that of the state whose values follow.
    let (mut next, mut state) = (0, None);
    let mut names: Vec<&str> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = unquoted(line);
        let Some((key, value)) = line.split_once(':').map(|(k, v)| (k.trim(), v.trim())) else {
            if !line.is_empty() {
                unread.line(number, line);
            }
            continue;
        };
        let attr = ATTRS.iter().find(|(theirs, _)| *theirs == key);
        let (name, is_off) = match key.strip_suffix("(DISABLED)") {
            Some(name) => (name.trim(), true),
            None => (key, false),
        };
        if let Some(digits) = key.strip_prefix("analyzing CPU ") {
            cpu = digits.parse().ok().map(CpuId);
            (next, state) = (0, None);
        } else if key == "Available idle states" {
            names = value.split_whitespace().collect();
        } else if let (Some((_, attr)), Some(state)) = (attr, state) {
            builder.put(Key::State { cpu, state, attr }, line, value.as_bytes());
        } else if value.is_empty() && names.contains(&name) && next <= STATE_MAX {
            builder.put(Key::State { cpu, state: next, attr: "name" }, line, name.as_bytes());
            let off = if is_off { "1" } else { "0" };
            builder.put(Key::State { cpu, state: next, attr: "disable" }, line, off.as_bytes());
            (state, next) = (Some(next), next.saturating_add(1));
        } else if key == "CPUidle driver" {
            builder.put(Key::Cpuidle { attr: "current_driver" }, key, value.as_bytes());
        } else if key == "CPUidle governor" {
            builder.put(Key::Cpuidle { attr: "current_governor" }, key, value.as_bytes());
        } else if key != "Number of idle states" {
            unread.line(number, line);
        }
    }
    unread
}
