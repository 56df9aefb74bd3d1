// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Torpor's own format: a snapshot as JSON; equal snapshots give equal bytes.

use crate::counters::error::Failure;
use crate::counters::{CPU_MAX, STATE_MAX, Snapshot};
use crate::units::CpuId;
use serde::{Deserialize, Serialize};

const FORMAT: &str = "torpor snapshot";
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved<T> {
    format: String,
    version: u32,
    snapshot: T,
}

/// Read before the rest: another version may have other keys.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

/// The snapshot as a file's text.
pub fn to_json(snapshot: &Snapshot) -> String {
    let saved = Saved { format: FORMAT.to_owned(), version: VERSION, snapshot };
    serde_json::to_string_pretty(&saved).expect("a snapshot has no keys that JSON lacks") + "\n"
}

pub(crate) fn is_saved(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"{")
}

pub(crate) fn from_json(bytes: &[u8]) -> Result<Snapshot, Failure> {
    let broken = |error: serde_json::Error| {
        Failure::new(
            format!("it is not a saved snapshot: {error}"),
            "the file is damaged, or its copy was cut short; `torpor snapshot -o FILE` writes one",
        )
    };
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(broken)?;
    if value.get("torpor").is_some()
        && !value.get("format").is_some_and(|format| format.is_string())
    {
        return Err(Failure::new(
            "it is the JSON of one of Torpor's results, not counters".to_owned(),
            "`torpor diff` compares two dumps of sysfs; `torpor snapshot -o FILE` takes one",
        ));
    }
    let head: Head = serde_json::from_value(value).map_err(broken)?;
    if head.format != FORMAT || head.version != VERSION {
        return Err(Failure::new(
            format!("it is `{}` version {}", head.format, head.version),
            format!("this version of Torpor reads `{FORMAT}` version {VERSION}"),
        ));
    }
    let saved: Saved<Snapshot> = serde_json::from_slice(bytes).map_err(broken)?;
    check(&saved.snapshot)?;
    Ok(saved.snapshot)
}

/// Checks what the other readers guarantee by construction.
fn check(snapshot: &Snapshot) -> Result<(), Failure> {
    let bad =
        |what: String| Err(Failure::new(what, "the file was changed by hand; take a new snapshot"));
    if snapshot.cpus.iter().all(|cpu| cpu.states.is_empty()) {
        return bad("no CPU in it has idle states".to_owned());
    }
    if !snapshot.cpus.is_sorted_by(|a, b| a.cpu < b.cpu) {
        return bad("its CPUs do not ascend".to_owned());
    }
    for cpu in &snapshot.cpus {
        if cpu.cpu > CpuId(CPU_MAX) {
            return bad(format!("{} is beyond the kernel's largest, {CPU_MAX}", cpu.cpu));
        }
        if !cpu.states.is_sorted_by(|a, b| a.index < b.index) {
            return bad(format!("the states of {} do not ascend", cpu.cpu));
        }
        if let Some(state) = cpu.states.iter().find(|state| state.index > STATE_MAX) {
            return bad(format!("state {} of {} is beyond {STATE_MAX}", state.index, cpu.cpu));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_result_is_not_called_damaged() {
        let result = br#"{"torpor": {"version": "0.1.0"}, "platform": {}, "traces": []}"#;
        let Err(failure) = from_json(result) else { panic!("it is no snapshot") };
        let text = format!("{failure:?}");
        assert!(text.contains("one of Torpor's results"), "{text}");
        assert!(!text.contains("damaged"), "{text}");
    }
}
