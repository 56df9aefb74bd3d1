// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Determines the release whose kernel interface a governor uses, from its tree or its text.

use crate::config::without_comments;
use std::fmt;

/// A Linux release, such as 6.12.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    pub major: u8,
    pub minor: u8,
}

/// Default release of the kapi, as in its `linux/version.h`.
const KAPI: Release = Release { major: 6, minor: 12 };

/// Removed interfaces, with the last release that had each. They match as whole words.
const GONE: &[(&str, u8, u8)] = &[
    ("__get_cpu_var(", 3, 18),
    ("CPUIDLE_FLAG_TIME_VALID", 3, 19),
    ("cpuidle_unregister_governor(", 4, 13),
    ("CPUIDLE_DRIVER_STATE_START", 4, 13),
    ("tick_nohz_get_sleep_length()", 4, 16),
    ("get_iowait_load(", 4, 19),
    ("cpuidle_get_last_residency(", 5, 4),
    ("dev->last_residency", 5, 4),
    ("ktime_to_timespec(", 5, 5),
    ("pm_qos_request(", 5, 6),
    ("prandom_u32(", 6, 1),
    ("prandom_u32_max(", 6, 1),
    ("RCU_NONIDLE(", 6, 5),
];

/// New interfaces, with the first release of each.
const NEW: &[(&str, u8, u8)] = &[
    ("*stop_tick", 4, 17),
    ("tick_nohz_idle_got_tick(", 4, 17),
    ("exit_latency_ns", 5, 5),
    ("target_residency_ns", 5, 5),
    ("last_residency_ns", 5, 5),
];

impl Release {
    /// Returns the definition that selects the release in the kapi.
    pub(crate) fn define(self) -> String {
        let code = u32::from(self.major) << 16 | u32::from(self.minor) << 8;
        format!("#define TORPOR_LINUX {code}\n")
    }

    /// Reads `VERSION` and `PATCHLEVEL` of a kernel tree's Makefile.
    pub(crate) fn of_makefile(text: &str) -> Option<Release> {
        let number = |name: &str| {
            let mut values = text.lines().take(20).filter_map(|line| {
                let (key, value) = line.split_once('=')?;
                (key.trim() == name).then(|| value.trim().parse().ok())
            });
            values.next()?
        };
        Some(Release { major: number("VERSION")?, minor: number("PATCHLEVEL")? })
    }

    /// Returns the latest release, up to the kapi's default, that has all interfaces in a governor's
    /// text.
    ///
    /// A text with both removed and new interfaces tests the version itself; it gets the default.
    pub(crate) fn of_text(text: &str) -> Release {
        let code = without_comments(text);
        let release = |(_, major, minor): &(&str, u8, u8)| Release { major: *major, minor: *minor };
        let used = |table: &'static [(&str, u8, u8)]| {
            table.iter().filter(|(word, ..)| has_word(&code, word)).map(release)
        };
        let first = used(NEW).max();
        let mut last = used(GONE).min().unwrap_or(KAPI);
        // Up to 5.4 these two were in microseconds.
        if first.is_none_or(|f| f < Release { major: 5, minor: 5 })
            && has_word(&code, "cpuidle_governor_latency_req(")
            && (has_word(&code, "exit_latency") || has_word(&code, "target_residency"))
        {
            last = last.min(Release { major: 5, minor: 4 });
        }
        if calls_with_two(&code, "sched_cpu_util") {
            last = last.min(Release { major: 5, minor: 19 });
        }
        if first.is_some_and(|first| first > last) { KAPI } else { last.min(KAPI) }
    }
}

impl Default for Release {
    fn default() -> Release {
        KAPI
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

fn calls_with_two(code: &str, function: &str) -> bool {
    let start = format!("{function}(");
    let has_two = |rest: &str| {
        let mut depth = 0;
        for c in rest.chars() {
            match c {
                '(' => depth += 1,
                ')' if depth == 0 => return false,
                ')' => depth -= 1,
                ',' if depth == 0 => return true,
                _ => {}
            }
        }
        false
    };
    code.split(&start).skip(1).any(has_two)
}

/// Returns whether the code contains `word` and not only as a part of longer names.
pub(crate) fn has_word(code: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        let goes_on_before = word.starts_with(is_part) && before.ends_with(is_part);
        let goes_on_after = word.ends_with(is_part) && after.starts_with(is_part);
        !goes_on_before && !goes_on_after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(text: &str) -> String {
        Release::of_text(text).to_string()
    }

    #[test]
    fn a_makefile_names_its_release() {
        let text =
            "# SPDX-License-Identifier: GPL-2.0\nVERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\n";
        assert_eq!(Release::of_makefile(text).map(|r| r.to_string()).as_deref(), Some("7.3"));
        assert_eq!(Release::of_makefile("VERSION = 7\n"), None);
        assert_eq!(Release::of_makefile("obj-y += menu.o\n"), None);
        assert_eq!(Release::of_makefile("VERSION = x\nPATCHLEVEL = 3\n"), None);
    }

    #[test]
    fn release_follows_from_the_interfaces_used() {
        for (text, expected) in [
            ("int x;", "6.12"),
            ("data = &__get_cpu_var(menu_devices);", "3.18"),
            ("t = tick_nohz_get_sleep_length();", "4.16"),
            ("t = tick_nohz_get_sleep_length(&delta_next);", "6.12"),
            ("get_iowait_load(&nr, &load); int f(bool *stop_tick);", "4.19"),
            ("x = dev->last_residency_ns;", "6.12"),
            ("x = dev->last_residency;", "5.4"),
            ("s64 last_residency; int f(bool *stop_tick);", "6.12"),
            // The unit decides.
            ("x = cpuidle_governor_latency_req(cpu); s->exit_latency > x;", "5.4"),
            ("x = cpuidle_governor_latency_req(cpu); s->exit_latency_ns > x;", "6.12"),
            ("x = sched_cpu_util(cpu, max); y = s->exit_latency_ns;", "5.19"),
            ("x = sched_cpu_util(first(a, b)); y = s->exit_latency_ns;", "6.12"),
            ("/* pm_qos_request() was */ int x; // __get_cpu_var(x)\nint y;", "6.12"),
            // This one tests the version.
            ("#ifdef A\nthis = __get_cpu_var(x);\n#else\nf(bool *stop_tick)\n#endif", "6.12"),
            ("my_pm_qos_request(1);", "6.12"),
        ] {
            assert_eq!(release(text), expected, "{text}");
        }
    }
}
