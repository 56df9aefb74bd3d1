// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Helpers of this crate's tests.
#![allow(dead_code)] // Test programs use different parts.

pub mod dat;
pub mod dat_sample;
pub mod events;
pub mod made;
pub mod perf;
pub mod proto;
pub mod sound;

use std::path::{Path, PathBuf};
use torpor_trace::{EventKind, Name, Trace};

/// Returns a recording next to the project, or prints that the test did not run.
pub fn shared_trace(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("../shared/traces").join(name);
    if path.exists() {
        return Some(path);
    }
    println!("not run: ../shared/traces is absent");
    None
}

/// Returns a recording of this crate.
pub fn own_trace(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

pub fn loss(trace: &Trace, key: &str) -> u64 {
    trace.losses.iter().find(|loss| loss.key == key).map_or(0, |loss| loss.count)
}

pub fn losses(trace: &Trace) -> Vec<(&str, u64)> {
    trace.losses.iter().map(|loss| (loss.key.as_str(), loss.count)).collect()
}

pub fn count(trace: &Trace, is_it: impl Fn(&EventKind) -> bool) -> usize {
    trace.events.iter().filter(|event| is_it(&event.kind)).count()
}

pub fn kinds(trace: &Trace) -> Vec<EventKind> {
    trace.events.iter().map(|event| event.kind).collect()
}

/// Returns the events with their names, timers and functions spelled out: traces number theirs
/// differently, and text has no address for a function with a symbol.
pub fn spelled(trace: &Trace) -> Vec<String> {
    let names = &trace.names;
    let spell = |name: Option<Name>| name.map(|name| names.text(name).to_owned());
    let spelled = trace.events.iter().map(|event| {
        let mut kind = event.kind;
        let timer = kind.timer_mut().map(std::mem::take);
        let timer = timer.map(|timer| names.timer_address(timer));
        let function = kind.function_mut().map(std::mem::take);
        let name = match &mut kind {
            EventKind::SchedSwitch { next_comm: name, .. } | EventKind::IrqEntry { name, .. } => {
                spell(name.take())
            }
            EventKind::Marker { text } => spell(Some(std::mem::replace(text, Name(0)))),
            _ => function.map(|id| match names.symbol(id) {
                Some(symbol) => symbol.to_owned(),
                None => format!("{:#x}", names.function_of(id).address),
            }),
        };
        format!("{} {} {kind:?} {timer:x?} {name:?}", event.time.0, event.cpu.0)
    });
    spelled.collect()
}
