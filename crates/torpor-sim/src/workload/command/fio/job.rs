// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Makes a `[[fio]]` table of the options of a job.

use super::super::options::Setting;
use super::super::{count, fit, positive};
use super::names::{NOT_SIMULATED, SIMULATED, WITHOUT_MEANING, first};
use torpor_machine::toml::{Content, Item, Report};
use torpor_machine::units::closest;

/// Engines of fio, with the simulated one that submits and waits alike.
const ENGINES: &[(&str, &str)] = &[
    ("psync", "psync"),
    ("sync", "psync"),
    ("vsync", "psync"),
    ("pvsync", "psync"),
    ("pvsync2", "psync"),
    ("libaio", "libaio"),
    ("io_uring", "io_uring"),
];

const DIRECTIONS: [&str; 7] =
    ["read", "write", "randread", "randwrite", "rw", "readwrite", "randrw"];

/// One job as `[[fio]]` has it.
#[derive(Default)]
pub(super) struct Job {
    name: String,
    /// Its keys, without name and start.
    keys: Content,
    pub(super) start_s: f64,
    pub(super) runtime_s: Option<f64>,
    pub(super) waits_for_previous: bool,
    pub(super) notes: Vec<String>,
    pub(super) without_meaning: Vec<String>,
    pub(super) not_simulated: Vec<String>,
}

impl Job {
    pub(super) fn of(report: &mut Report<'_>, name: &str, settings: &[Setting]) -> Option<Job> {
        let mut job = Job { name: fit(name), ..Job::default() };
        let known = job.simulated(report, settings);
        let get = |key: &str| known.iter().find(|(k, _)| *k == key).map(|(_, setting)| *setting);
        let is_direct = get("direct").is_some_and(is_on)
            || get("buffered").is_some_and(|setting| setting.value.as_deref() == Some("0"));
        let engine = job.engine(report, get("ioengine"))?;
        if engine == "libaio" && !is_direct {
            job.notes.push(format!(
                "job `{}`: libaio without `direct=1` waits for each request in io_submit(), as psync does",
                job.name
            ));
        }
        job.device(get("filename"), get("directory"));
        job.set("ioengine", engine, get("ioengine"));
        if !is_direct {
            job.keys.set("direct", false);
        }
        job.direction(report, get("rw"), get("rwmixread"), get("rwmixwrite"))?;
        let bytes = match get("bs") {
            Some(setting) => size(report, setting)?,
            None => 4096,
        };
        job.set("bs", bytes.to_string(), get("bs"));
        job.depth(report, get("iodepth"), engine)?;
        if !is_direct {
            job.goes_through_the_page_cache(report, get("rw"), get("size"))?;
        }
        if let Some(setting) = get("numjobs") {
            let number = count(report, setting, 1, 1_000_000)?;
            job.set("numjobs", number, Some(setting));
        }
        if let Some(setting) = get("thinktime") {
            let us = time_s(report, setting, 1e-6)? * 1e6;
            job.set("thinktime_us", us, Some(setting));
        }
        if let Some(setting) = get("cpus_allowed") {
            let cpus = setting.value.as_deref().unwrap_or("");
            job.set("cpus_allowed", cpus, Some(setting));
        }
        if let Some(setting) = get("fsync") {
            let every = count(report, setting, 0, 1_000_000)?;
            job.set("fsync", every, Some(setting));
        }
        job.rate(report, get("rate"), get("rate_iops"), bytes)?;
        job.end(
            report,
            [get("runtime"), get("time_based"), get("number_ios")],
            [get("io_size"), get("size")],
            bytes,
        )?;
        if let Some(setting) = get("startdelay") {
            job.start_s = time_s(report, setting, 1.0)?;
        }
        job.waits_for_previous = get("stonewall").is_some_and(is_on);
        Some(job)
    }

    /// Returns the simulated options by fio's first name for each; the last setting wins.
    fn simulated<'a>(
        &mut self,
        report: &mut Report<'_>,
        settings: &'a [Setting],
    ) -> Vec<(&'static str, &'a Setting)> {
        let mut known: Vec<(&'static str, &Setting)> = Vec::new();
        for setting in settings {
            let is_in = |names: &str| names.split(' ').any(|name| name == setting.key);
            let names = |names: &&str| names.split('=').any(|name| name == setting.key);
            if let Some(name) = SIMULATED.split(' ').find(names).map(first) {
                known.retain(|(key, _)| *key != name);
                known.push((name, setting));
            } else if is_in(WITHOUT_MEANING) {
                self.without_meaning.push(setting.key.clone());
            } else if is_in(NOT_SIMULATED) {
                self.not_simulated.push(setting.key.clone());
            } else {
                self.unknown(report, setting);
            }
        }
        known
    }

    fn unknown(&self, report: &mut Report<'_>, setting: &Setting) {
        let simulated = || SIMULATED.split(' ').map(first);
        let others = WITHOUT_MEANING.split(' ').chain(NOT_SIMULATED.split(' '));
        let near = closest(&setting.key, simulated().chain(others));
        let all = simulated().collect::<Vec<_>>().join(", ");
        let mut finding = setting.finding("no option of fio's that is known here", Some(all));
        finding.hint = near.map(|near| format!("did you mean `{near}`?"));
        report.push(finding);
    }

    fn engine(&self, report: &mut Report<'_>, set: Option<&Setting>) -> Option<&'static str> {
        let Some(setting) = set else { return Some("psync") };
        let value = setting.value.as_deref().unwrap_or("");
        let found = ENGINES.iter().find(|(name, _)| *name == value).map(|(_, like)| *like);
        if found.is_none() {
            let all: Vec<&str> = ENGINES.iter().map(|(name, _)| *name).collect();
            let message = "this engine is not simulated";
            report.push(setting.finding(message, Some(all.join(", "))));
        }
        found
    }

    /// Sets the device of a file of `/dev` by its kind; other files have theirs from the machine.
    fn device(&mut self, filename: Option<&Setting>, directory: Option<&Setting>) {
        let value = |set: Option<&Setting>| set.and_then(|s| s.value.clone()).unwrap_or_default();
        let (mut file, directory) = (value(filename), value(directory));
        let base = file.strip_prefix("/dev/").map(|name| name.rsplit('/').next().unwrap_or(name));
        let device = match base {
            Some(name) if name.starts_with("nvme") => "nvme",
            Some(name) if name.starts_with("mmcblk") => {
                self.notes
                    .push(format!("`{file}` is taken for `emmc`; for a card, write `filename=sd`"));
                "emmc"
            }
            Some(name) if name.starts_with("sd") => {
                self.notes.push(format!("`{file}` is taken for `ufs`"));
                "ufs"
            }
            _ => {
                if file.is_empty() {
                    // fio's own name of a job's file.
                    file = format!("{}.0.0", self.name);
                }
                if !directory.is_empty() && !file.starts_with('/') {
                    file = format!("{}/{file}", directory.trim_end_matches('/'));
                }
                return self.set("filename", file, filename);
            }
        };
        self.set("device", device, filename);
    }

    fn direction(
        &mut self,
        report: &mut Report<'_>,
        rw: Option<&Setting>,
        reads: Option<&Setting>,
        writes: Option<&Setting>,
    ) -> Option<()> {
        // fio reads sequentially by default.
        let direction = match rw {
            None => "read",
            Some(setting) => {
                let value = setting.value.as_deref().unwrap_or("");
                let Some(known) = DIRECTIONS.iter().find(|d| **d == value) else {
                    let message = "this is not simulated";
                    report.push(setting.finding(message, Some(DIRECTIONS.join(", "))));
                    return None;
                };
                known
            }
        };
        self.set("rw", direction, rw);
        if matches!(direction, "rw" | "readwrite" | "randrw") {
            let reads = match (reads, writes) {
                (Some(setting), _) => count(report, setting, 0, 100)?,
                (None, Some(setting)) => 100 - count(report, setting, 0, 100)?,
                (None, None) => 50,
            };
            self.keys.set("rwmixread", reads);
        }
        Some(())
    }

    /// Notes the limits of buffered IO, and sets the size of the file. A share of a device as size
    /// only ends the job.
    fn goes_through_the_page_cache(
        &mut self,
        report: &mut Report<'_>,
        rw: Option<&Setting>,
        file: Option<&Setting>,
    ) -> Option<()> {
        let rw = rw.and_then(|setting| setting.value.as_deref()).unwrap_or("read");
        let reads = match rw {
            "read" => "reads are read ahead, 128 KiB at a time",
            "rw" | "readwrite" => "reads are taken for random ones, each from the device",
            _ => "no block is there before it is read",
        };
        let writes = "writes are copied, and not written back but for an fsync";
        let what = match rw {
            "write" | "randwrite" => writes.to_owned(),
            "read" | "randread" => reads.to_owned(),
            _ => format!("{reads}; {writes}"),
        };
        self.notes.push(format!(
            "job `{}` goes through the page cache (`direct=0`), which begins empty: {what}",
            self.name
        ));
        let is_share = |s: &&Setting| s.value.as_ref().is_some_and(|v| v.ends_with('%'));
        if let Some(setting) = file.filter(|s| !is_share(s)) {
            let mib = (size(report, setting)? >> 20).clamp(1, 1_000_000_000);
            self.set("size_mib", mib, Some(setting));
            self.notes.push(format!(
                "job `{}`: memory is taken to hold the {mib} MiB of its file",
                self.name
            ));
        }
        Some(())
    }

    fn depth(
        &mut self,
        report: &mut Report<'_>,
        set: Option<&Setting>,
        engine: &str,
    ) -> Option<()> {
        let Some(setting) = set else { return Some(()) };
        let depth = count(report, setting, 1, 32_768)?;
        if engine == "psync" && depth > 1 {
            self.notes.push(format!("`iodepth={depth}` counts as 1: the engine is synchronous"));
        } else {
            self.set("iodepth", depth, Some(setting));
        }
        Some(())
    }

    /// Sets the rate of requests; one in bytes is converted.
    fn rate(
        &mut self,
        report: &mut Report<'_>,
        bytes_s: Option<&Setting>,
        iops: Option<&Setting>,
        bs: u64,
    ) -> Option<()> {
        let rate = match (iops, bytes_s) {
            (Some(setting), _) => positive(report, setting, 1e7)?,
            (None, Some(setting)) => size(report, setting)? as f64 / bs as f64,
            (None, None) => return Some(()),
        };
        self.set("rate_iops", rate, iops.or(bytes_s));
        Some(())
    }

    /// Sets the end of the job; `time_based` ignores sizes.
    fn end(
        &mut self,
        report: &mut Report<'_>,
        [runtime, time_based, number_ios]: [Option<&Setting>; 3],
        sizes: [Option<&Setting>; 2],
        bs: u64,
    ) -> Option<()> {
        if let Some(setting) = runtime {
            let runtime_s = time_s(report, setting, 1.0)?;
            self.runtime_s = Some(runtime_s);
            self.set("runtime", runtime_s, Some(setting));
        }
        let mut ios: Option<u64> = None;
        if let Some(setting) = number_ios {
            ios = Some(count(report, setting, 1, 1_000_000_000_000)?);
        }
        let is_share = |s: &&Setting| s.value.as_ref().is_some_and(|v| v.ends_with('%'));
        if !time_based.is_some_and(is_on) {
            if let Some(setting) = sizes.into_iter().flatten().next() {
                if is_share(&setting) {
                    self.notes.push(format!(
                        "`{}={}` of a device: without end",
                        setting.key,
                        setting.value.as_deref().unwrap_or("")
                    ));
                } else {
                    let of_size = (size(report, setting)? / bs).max(1);
                    ios = Some(ios.map_or(of_size, |ios| ios.min(of_size)));
                }
            }
        }
        if let Some(ios) = ios {
            self.keys.set("number_ios", ios.min(1_000_000_000_000));
        }
        Some(())
    }

    /// Sets a key, at the place of the value of the option that says so.
    fn set(&mut self, key: &str, item: impl Into<Item>, by: Option<&Setting>) {
        let item = item.into();
        self.keys.set(
            key,
            match by {
                Some(setting) => item.at(setting.value_span(), &*setting.key),
                None => item,
            },
        );
    }

    /// Returns the table; `number` makes the name unique.
    pub(super) fn table(self, number: usize) -> Content {
        let name = if number > 1 { format!("{}.{number}", self.name) } else { self.name };
        let mut table = Content::default().with("name", name);
        table.entries.extend(self.keys.entries);
        table.maybe("startdelay", (self.start_s > 0.0).then_some(self.start_s))
    }
}

/// Whether a flag is set; one without a value is.
fn is_on(setting: &Setting) -> bool {
    setting.value.as_deref() != Some("0")
}

/// Splits a number from its unit, as in `4k`.
fn parts(text: &str) -> Option<(f64, String)> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].to_ascii_lowercase();
    Some((digits.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0)?, unit))
}

/// Reads a size; of several (`4k,8k`: reads, writes, trims), the first. Units are powers of 1024.
fn size(report: &mut Report<'_>, setting: &Setting) -> Option<u64> {
    let first = setting.value.as_deref().unwrap_or("").split(',').next().unwrap_or("");
    let bytes = parts(first).and_then(|(number, unit)| {
        let shift = match unit.trim_end_matches("ib").trim_end_matches('b').trim_end_matches('i') {
            "" => 0,
            "k" => 10,
            "m" => 20,
            "g" => 30,
            "t" => 40,
            _ => return None,
        };
        Some(
            (number * f64::from(1u32 << (shift / 2)) * f64::from(1u32 << (shift - shift / 2)))
                as u64,
        )
    });
    let bytes = bytes.filter(|bytes| *bytes > 0);
    if bytes.is_none() {
        report.push(setting.finding("not a size", Some("such as 4k, 1m or 8g".to_owned())));
    }
    bytes
}

/// Reads a time in s; `default_s` is the unit if there is none.
fn time_s(report: &mut Report<'_>, setting: &Setting, default_s: f64) -> Option<f64> {
    let time = parts(setting.value.as_deref().unwrap_or("")).and_then(|(number, unit)| {
        let unit_s = match unit.as_str() {
            "" => default_s,
            "us" | "usec" => 1e-6,
            "ms" | "msec" => 1e-3,
            "s" | "sec" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        Some(number * unit_s)
    });
    let time = time.filter(|s| (0.0..=3600.0).contains(s));
    if time.is_none() {
        let allowed = "such as 30s, 500ms or 20us, up to an hour".to_owned();
        report.push(setting.finding("not a time", Some(allowed)));
    }
    time
}
