// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `cat /sys/devices/system/cpu/cpu*/cpuidle/state*/*`: values without their names.
//!
//! A state's files are sorted by name, and the set of files depends only on the kernel. Each set is a
//! pattern of numbers and words; the dump is read if exactly one pattern fits all lines. CPUs are in
//! the order of a shell, cpu10 before cpu2.

use crate::counters::builder::{Builder, shown};
use crate::counters::error::Failure;
use crate::counters::path::Key;
use crate::units::CpuId;

/// The files of a state in today's kernels.
const FILES: [&str; 12] = [
    "above",
    "below",
    "default_status",
    "desc",
    "disable",
    "latency",
    "name",
    "power",
    "rejected",
    "residency",
    "time",
    "usage",
];

/// The files that older kernels lack, the latest addition first.
const ADDED: [&str; 4] = ["rejected", "default_status", "above", "below"];

/// Numbers of [`ADDED`] that a kernel can lack; `above` and `below` came together.
const LACKING: [usize; 4] = [0, 1, 2, 4];

const HINT: &str = "record it with the files' names: \
                    grep . /sys/devices/system/cpu/cpu*/cpuidle/state*/*";

/// Reads the values, or says why they cannot be distinguished.
pub(crate) fn read(text: &str, builder: &mut Builder) -> Result<(), Failure> {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        // Messages of `cat` about the folder `s2idle` may be among the values.
        .filter(|line| !line.is_empty() && !line.starts_with("cat: "))
        .collect();
    let of_kernel = |count: usize| -> Vec<&str> {
        FILES.into_iter().filter(|file| !ADDED[..count].contains(file)).collect()
    };
    let mut fitting: Vec<Vec<&str>> =
        LACKING.into_iter().map(of_kernel).filter(|files| fits(&lines, files)).collect();
    let (Some(files), true) = (fitting.pop(), fitting.is_empty()) else {
        return Err(doubt(&lines));
    };
    let states: Vec<&[&str]> = lines.chunks(files.len()).collect();
    let position = |file| files.iter().position(|f| *f == file).expect("every kernel has it");
    let (name, latency) = (position("name"), position("latency"));
    // A CPU begins with the state that the first CPU began with.
    let first = [states[0][name], states[0][latency]];
    let starts_cpu = |state: &&&[&str]| [state[name], state[latency]] == first;
    let order = shell_order(states.iter().filter(starts_cpu).count());
    let (mut cpus, mut cpu, mut index) = (order.into_iter(), CpuId(0), 0);
    for state in &states {
        if starts_cpu(&state) {
            (cpu, index) = (cpus.next().expect("one a start"), 0);
        }
        if index > crate::counters::STATE_MAX {
            return Err(Failure::new(
                format!("{cpu} would have more than {} states", crate::counters::STATE_MAX + 1),
                HINT,
            ));
        }
        for (attr, value) in files.iter().zip(*state) {
            let key = Key::State { cpu: Some(cpu), state: index, attr };
            builder.put(key, "", value.as_bytes());
        }
        index = index.saturating_add(1);
    }
    builder.note(
        "its values have no names: identified by their order, assuming CPUs are numbered without \
         a gap"
            .to_owned(),
    );
    Ok(())
}

fn fits(lines: &[&str], files: &[&str]) -> bool {
    let fits = |(line, file): (&&str, &&str)| match *file {
        "default_status" => matches!(*line, "enabled" | "disabled"),
        // A name that is a number would leave doubt.
        "name" | "desc" => !is_number(line) && !matches!(*line, "enabled" | "disabled"),
        _ => is_number(line),
    };
    !lines.is_empty()
        && lines.len().checked_rem(files.len()) == Some(0)
        && lines.iter().zip(files.iter().cycle()).all(fits)
}

fn is_number(line: &str) -> bool {
    !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit())
}

/// CPUs in the order of a shell: `cpu0 cpu1 cpu10 cpu11 … cpu2 …`.
fn shell_order(count: usize) -> Vec<CpuId> {
    let count = count.min((crate::counters::CPU_MAX as usize).saturating_add(1)) as u32;
    let mut cpus: Vec<CpuId> = (0..count).map(CpuId).collect();
    cpus.sort_by_cached_key(|cpu| cpu.0.to_string());
    cpus
}

fn doubt(lines: &[&str]) -> Failure {
    if lines.iter().take(5).any(|line| line.contains("PowerTOP")) {
        return Failure::new(
            "a report of PowerTOP holds shares of time and mean lengths, and counts nothing",
            "compare two of `torpor snapshot`, or of `grep . \
             /sys/devices/system/cpu/cpu*/cpuidle/state*/*`, before and after",
        );
    }
    let found = match lines.first() {
        None => "it is empty".to_owned(),
        Some(_) if lines.iter().all(|line| is_number(line)) => {
            format!("it contains {} numbers, but not what they count", lines.len())
        }
        Some(first) => format!(
            "it is not a dump that Torpor knows: neither paths and values, nor all files of each \
             state in a row, nor an archive, nor a saved snapshot (it begins with `{}`)",
            shown(first)
        ),
    };
    Failure::new(found, HINT)
}
