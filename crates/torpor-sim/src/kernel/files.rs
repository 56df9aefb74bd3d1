// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Writes to files of a hosted kernel: sysfs, procfs, debugfs, devices.

use crate::kernel::hardware::Hardware;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use torpor_machine::units::closest;

/// Folder of the frequency policies, and of a governor that all of them share.
const CPUFREQ: &str = "/sys/devices/system/cpu/cpufreq/";
const CPU: &str = "/sys/devices/system/cpu/cpu";
pub(crate) const LATENCY_FILE: &str = "/dev/cpu_dma_latency";
/// Files to name in an error.
const NEAR_MAX: usize = 5;

/// A line to write to a file, as `PATH=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// A path, which may have `*` in a component; `kernel.NAME` as sysctl has it, `MODULE.NAME` as a
    /// kernel's command line has it; or the last component alone, of all files that differ from each
    /// other by numbers.
    pub file: String,
    pub value: String,
}

impl Write {
    pub(crate) fn new(file: impl Into<String>, value: impl fmt::Display) -> Write {
        Write { file: file.into(), value: value.to_string() }
    }
}

impl FromStr for Write {
    type Err = String;

    fn from_str(text: &str) -> Result<Write, String> {
        match text.split_once('=') {
            Some((file, value)) if !file.is_empty() => Ok(Write::new(file, value)),
            _ => Err(format!("`{text}` is no write: expected PATH=VALUE")),
        }
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.file, self.value)
    }
}

/// Writable files of a running kernel: each has a number, and one or several paths.
#[derive(Debug, Default)]
pub(crate) struct Files {
    files: Vec<(String, u32)>,
}

/// A write whose file has been found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub file: u32,
    pub path: String,
    pub value: String,
}

impl Files {
    pub(crate) fn add(&mut self, path: String, number: u32) {
        self.files.push((path, number));
    }

    fn number(&self, path: &str) -> Option<u32> {
        self.files.iter().find(|(known, _)| known == path).map(|(_, number)| *number)
    }

    /// Returns the writes that a machine's own settings are.
    pub(crate) fn of_settings(&self, hardware: &Hardware) -> Result<Vec<Found>, String> {
        let mut found = Vec::new();
        if self.files.iter().any(|(path, _)| path.starts_with(&format!("{CPUFREQ}policy"))) {
            found.extend(self.tunables(hardware)?);
        }
        let mut put = |path: String, value: String| {
            if let Some(file) = self.number(&path) {
                found.push(Found { file, path, value });
            }
        };
        for (cpu, cluster) in hardware.cluster_of.iter().enumerate() {
            if let Some(khz) = hardware.cpufreq.set_khz.get(*cluster) {
                put(format!("{CPUFREQ}policy{cpu}/scaling_setspeed"), khz.to_string());
            }
        }
        for (cpu, off) in hardware.states_off.iter().enumerate() {
            for state in (0..16).filter(|state| off >> state & 1 == 1) {
                put(format!("{CPU}{cpu}/cpuidle/state{state}/disable"), "1".to_owned());
            }
        }
        if let Some(limit) = hardware.latency_limit {
            put(LATENCY_FILE.to_owned(), us(limit).to_string());
        }
        for (cpu, limit) in &hardware.cpu_latency_limits {
            // 0 stands for no limit there, and `n/a` for one that only polling meets.
            let value = match us(*limit) {
                0 => "n/a".to_owned(),
                us => us.to_string(),
            };
            put(format!("{CPU}{}/power/pm_qos_resume_latency_us", cpu.index()), value);
        }
        Ok(found)
    }

    /// Returns the writes to the files of the frequency governor, whatever its name is.
    fn tunables(&self, hardware: &Hardware) -> Result<Vec<Found>, String> {
        let of_governor = |path: &str, name: &str| {
            let (folder, file) = path.strip_prefix(CPUFREQ)?.split_once('/')?;
            (!folder.starts_with("policy") && file == name).then_some(())
        };
        let find = |(name, value): &(String, String)| {
            let is_it = |(path, _): &&(String, u32)| of_governor(path, name).is_some();
            let (path, file) = self.files.iter().find(is_it).ok_or_else(|| {
                let in_folder = |(path, _): &&(String, u32)| {
                    let inside = path.strip_prefix(CPUFREQ).and_then(|rest| rest.split_once('/'));
                    inside.is_some_and(|(folder, _)| !folder.starts_with("policy"))
                };
                let known: Vec<&str> =
                    self.files.iter().filter(in_folder).map(|(path, _)| last(path)).collect();
                match known.is_empty() {
                    true => format!("its frequency governor has no files, and no {name}"),
                    false => format!(
                        "its frequency governor has no {name}: expected one of {}",
                        known.join(", ")
                    ),
                }
            })?;
            Ok(Found { file: *file, path: path.clone(), value: value.clone() })
        };
        hardware.cpufreq.tunables.iter().map(find).collect()
    }

    /// Returns the files that a write names.
    pub(crate) fn find(&self, write: &Write) -> Result<Vec<Found>, String> {
        let found = |(path, file): &(String, u32)| Found {
            file: *file,
            path: path.clone(),
            value: write.value.clone(),
        };
        let name = write.file.as_str();
        let wanted: Vec<&(String, u32)> = match name.contains('/') {
            // A control group may have a pattern's characters in its name.
            true => match self.files.iter().find(|(path, _)| path == name) {
                Some(exact) => vec![exact],
                None => self.files.iter().filter(|(path, _)| matches(name, path)).collect(),
            },
            false => self.of_short(name)?,
        };
        if wanted.is_empty() {
            return Err(self.unknown(name));
        }
        let mut seen = BTreeSet::new();
        Ok(wanted.into_iter().filter(|(_, file)| seen.insert(*file)).map(found).collect())
    }

    /// Returns the files of a name without slashes: `kernel.NAME`, `MODULE.NAME`, or a last component.
    fn of_short(&self, name: &str) -> Result<Vec<&(String, u32)>, String> {
        let long = name.split_once('.').map(|(module, param)| {
            [
                format!("/proc/sys/{}", name.replace('.', "/")),
                format!("/sys/module/{module}/parameters/{param}"),
            ]
        });
        if let Some(long) = long {
            return Ok(self.files.iter().filter(|(path, _)| long.contains(path)).collect());
        }
        let mut seen = BTreeSet::new();
        let all = self.files.iter().filter(|(path, _)| last(path) == name);
        let all: Vec<&(String, u32)> = all.filter(|(_, file)| seen.insert(*file)).collect();
        let kinds: BTreeSet<String> = all.iter().map(|(path, _)| without_numbers(path)).collect();
        match kinds.len() {
            0 | 1 => Ok(all),
            _ => Err(format!(
                "several kinds of files are called {name}\nexpected the path of one: {}",
                kinds.into_iter().collect::<Vec<_>>().join(", ")
            )),
        }
    }

    fn unknown(&self, name: &str) -> String {
        let kinds: BTreeSet<String> =
            self.files.iter().map(|(path, _)| without_numbers(path)).collect();
        let mut left: Vec<&str> = kinds.iter().map(String::as_str).collect();
        let mut near = Vec::new();
        while near.len() < NEAR_MAX {
            // Names that end alike are nearer than paths that begin alike.
            let ends = left.iter().map(|path| last(path));
            let Some(best) = closest(last(name), ends) else { break };
            let Some(at) = left.iter().position(|path| last(path) == best) else { break };
            near.push(left.remove(at));
        }
        match near.is_empty() {
            true => format!("the kernel has no file {name} to write: expected one of {}", {
                left.join(", ")
            }),
            false => {
                format!("the kernel has no file {name} to write: did you mean {}?", near.join(", "))
            }
        }
    }
}

/// Returns whole microseconds, below the value for no limit.
fn us(duration: torpor_machine::units::Duration) -> i64 {
    (duration.0 / 1_000).clamp(0, i64::from(i32::MAX - 1))
}

fn last(path: &str) -> &str {
    path.rsplit(['/', '.']).next().unwrap_or(path)
}

/// Replaces each number by `N`.
fn without_numbers(path: &str) -> String {
    let mut kind = String::new();
    for c in path.chars() {
        match c.is_ascii_digit() {
            true if kind.ends_with('N') => {}
            true => kind.push('N'),
            false => kind.push(c),
        }
    }
    kind
}

/// Whether a path has a shell's pattern, in which `*` stands for anything within a component.
fn matches(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some((before, after)) => path.strip_prefix(before).is_some_and(|rest| {
            let end = rest.find('/').unwrap_or(rest.len());
            (0..=end).any(|skip| rest.is_char_boundary(skip) && matches(after, &rest[skip..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Files {
        let paths = [
            "/sys/devices/system/cpu/cpu0/cpuidle/state0/disable",
            "/sys/devices/system/cpu/cpu1/cpuidle/state0/disable",
            "/sys/devices/system/cpu/cpu12/cpuidle/state1/disable",
            "/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq",
            "/proc/sys/kernel/sched_energy_aware",
            "/sys/module/haltpoll/parameters/guest_halt_poll_ns",
            "/sys/kernel/debug/sched/features",
            "/sys/module/other/parameters/features",
        ];
        let mut files = Files::default();
        paths.iter().zip(1..).for_each(|(path, number)| files.add((*path).to_owned(), number));
        files.add("/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq".to_owned(), 4);
        files
    }

    fn numbers(file: &str) -> Vec<u32> {
        files().find(&Write::new(file, 1)).unwrap().iter().map(|found| found.file).collect()
    }

    #[test]
    fn names_find_their_files() {
        assert_eq!(numbers("/sys/devices/system/cpu/cpu*/cpuidle/state0/disable"), [1, 2]);
        assert_eq!(numbers("disable"), [1, 2, 3]);
        assert_eq!(numbers("scaling_max_freq"), [4]);
        assert_eq!(numbers("/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq"), [4]);
        assert_eq!(numbers("kernel.sched_energy_aware"), [5]);
        assert_eq!(numbers("haltpoll.guest_halt_poll_ns"), [6]);
    }

    #[test]
    fn unknown_file_names_the_nearest() {
        let error = |file| files().find(&Write::new(file, 1)).unwrap_err();
        let near = error("scaling_max_frequency");
        assert!(
            near.contains("/sys/devices/system/cpu/cpufreq/policyN/scaling_max_freq"),
            "{near}"
        );
        assert!(error("kernel.sched_enery_aware").contains("/proc/sys/kernel/sched_energy_aware"));
        assert!(error("features").contains("several kinds"));
    }

    #[test]
    fn an_exact_path_is_no_pattern() {
        let mut files = Files::default();
        for (number, group) in ["web*", "web1"].into_iter().enumerate() {
            files.add(format!("/sys/fs/cgroup/{group}/cpu.weight"), number as u32);
        }
        let write = Write::new("/sys/fs/cgroup/web*/cpu.weight", 300);
        let found = files.find(&write).unwrap();
        assert_eq!(found.iter().map(|found| found.file).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn write_is_a_path_and_a_value() {
        assert_eq!("a/b=c=d".parse(), Ok(Write::new("a/b", "c=d")));
        assert!("a/b".parse::<Write>().is_err() && "=1".parse::<Write>().is_err());
    }
}
