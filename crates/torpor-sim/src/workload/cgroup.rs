// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Control groups: their names, and values of the kernel's own files for each.
//!
//! FIDELITY(sim-cgroups): tasks are born in their groups, and only the scheduler's controller exists.

use super::names::Names;
use crate::kernel::Write;
use torpor_machine::toml::{Finding, Report, Table};

const MOUNT_POINT: &str = "/sys/fs/cgroup";
/// The longest path and the longest value that a hosted kernel takes.
const PATH_MAX: usize = 200;
/// Bounds of a quota's period, and the least quota, in us (`max_cfs_quota_period`).
const PERIODS_US: std::ops::RangeInclusive<u64> = 1_000..=1_000_000;
const QUOTA_MIN_US: u64 = 1_000;

/// A control group of the scheduler's controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// From the root of the hierarchy: `system.slice/web`.
    pub path: String,
    /// Files, such as `cpu.weight`, and what is written to them, in this order.
    pub files: Vec<(&'static str, String)>,
}

impl Cgroup {
    /// Returns the groups above it, the outermost first.
    fn above(path: &str) -> impl Iterator<Item = &str> {
        path.match_indices('/').map(|(at, _)| &path[..at])
    }

    /// Returns what is written to its files at the start.
    pub(crate) fn writes(&self) -> impl Iterator<Item = Write> {
        let file = |name| format!("{MOUNT_POINT}/{}/{name}", self.path);
        self.files.iter().map(move |(name, value)| Write::new(file(name), value))
    }

    /// Adds groups to others. Groups of one path are one; the first's values hold. Returns the
    /// index of each added group.
    pub(super) fn join(groups: &mut Vec<Cgroup>, added: &[Cgroup]) -> Vec<usize> {
        let index = |group: &Cgroup| match groups.iter().position(|own| own.path == group.path) {
            Some(known) => known,
            None => {
                groups.push(group.clone());
                groups.len() - 1
            }
        };
        added.iter().map(index).collect()
    }
}

/// Reads all groups, with those above them that have no table of their own.
pub(super) fn read(report: &mut Report, tables: &[Table], names: &mut Names) -> Vec<Cgroup> {
    let mut groups: Vec<Cgroup> = Vec::new();
    let mut place = |path: &str| match groups.iter().position(|group| group.path == path) {
        Some(known) => known,
        None => {
            groups.push(Cgroup { path: path.to_owned(), files: Vec::new() });
            groups.len() - 1
        }
    };
    let mut all_files = Vec::new();
    for table in tables {
        let Some(path) = table.text("name") else { continue };
        check_path(report, table, path);
        Cgroup::above(path).for_each(|above| {
            place(above);
        });
        all_files.push((place(path), files(report, table)));
    }
    for (index, files) in all_files {
        groups[index].files = files;
    }
    names.declare_cgroups(report, tables, &groups);
    groups
}

fn check_path(report: &mut Report, table: &Table, path: &str) {
    let fits = |part: &str| {
        let is_plain = |c: char| c.is_ascii_graphic();
        !part.is_empty() && part != "." && part != ".." && part.chars().all(is_plain)
    };
    if path.len() > PATH_MAX || !path.split('/').all(fits) {
        let mut finding = table.finding("name", "this is not a path of a control group".to_owned());
        finding.allowed = Some(format!(
            "names without blanks with `/` between them, at most {PATH_MAX} bytes in all"
        ));
        finding.hint = Some("paths begin below the root: `system.slice/web`".to_owned());
        report.push(finding);
    }
}

/// Returns the files of a group that have values.
fn files(report: &mut Report, table: &Table) -> Vec<(&'static str, String)> {
    let mut files = Vec::new();
    if let Some(weight) = table.number("cpu_weight") {
        if weight < 1.0 {
            refuse(report, table, "cpu_weight", "there is no such weight", "1 to 10000");
        }
        files.push(("cpu.weight", format!("{weight:.0}")));
    }
    if let Some(idle) = table.bool("cpu_idle") {
        if idle && table.has("cpu_weight") {
            let allowed = "one of both: an idle group has the lowest weight";
            refuse(report, table, "cpu_idle", "`cpu_weight` is also given", allowed);
        }
        files.push(("cpu.idle", u8::from(idle).to_string()));
    }
    if let Some(max) = table.text("cpu_max") {
        check_max(report, table, max);
        files.push(("cpu.max", max.to_owned()));
    }
    if let Some(burst) = table.number("cpu_max_burst_us") {
        if !table.has("cpu_max") {
            let message = "there is no quota to exceed";
            refuse(report, table, "cpu_max_burst_us", message, "with `cpu_max`");
        }
        files.push(("cpu.max.burst", format!("{burst:.0}")));
    }
    // A minimum above the maximum is legal: the kernel caps it.
    for (key, file) in [("cpu_uclamp_min", "cpu.uclamp.min"), ("cpu_uclamp_max", "cpu.uclamp.max")]
    {
        files.extend(table.number(key).map(|percent| (file, format!("{percent:.2}"))));
    }
    files
}

/// Checks `cpu_max` as the kernel does: a quota and, after a blank, its period, both in us.
fn check_max(report: &mut Report, table: &Table, max: &str) {
    let mut words = max.split_whitespace();
    let quota = words.next().unwrap_or_default();
    let period = words.next().map_or(Some(100_000), |period| period.parse().ok());
    let is_quota = quota == "max" || quota.parse().is_ok_and(|us: u64| us >= QUOTA_MIN_US);
    let is_period = period.is_some_and(|us| PERIODS_US.contains(&us));
    if !is_quota || !is_period || words.next().is_some() {
        let allowed = "\"QUOTA PERIOD\" in us, such as \"50000 100000\" for half a CPU: a quota \
                       from 1000 or `max`, and a period of 1000 to 1000000 (default 100000)";
        refuse(report, table, "cpu_max", "the kernel takes no such quota", allowed);
    }
}

fn refuse(report: &mut Report, table: &Table, key: &str, message: &str, allowed: &str) {
    let finding = table.finding(key, message.to_owned());
    report.push(Finding { allowed: Some(allowed.to_owned()), ..finding });
}
