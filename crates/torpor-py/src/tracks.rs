// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A replay's choices as tracks next to the recording, for the viewer of Perfetto.

use crate::errors::{EngineError, engine_error};
use pyo3::prelude::*;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use torpor_engine::Unwatched;
use torpor_engine::decision::Decision;
use torpor_engine::model::Verdict;
use torpor_engine::outcome::{RunOutcome, TraceOutcome};
use torpor_machine::units::open_regular;
use torpor_trace::{Slice, Track};

/// Writes the recording of `outcome`, and after it what each governor chose.
pub(crate) fn write(outcome: &TraceOutcome, out: &Path) -> PyResult<()> {
    let path = Path::new(&outcome.trace.path);
    let groups: Vec<(String, Vec<Track>)> = outcome
        .runs
        .iter()
        .zip(&outcome.decisions)
        .map(|(run, decisions)| (format!("torpor: {}", run.governor), tracks(run, decisions)))
        .collect();
    let failed =
        |error: std::io::Error| EngineError::new_err(format!("write `{}`: {error}", out.display()));
    let mut file = BufWriter::new(File::create(out).map_err(failed)?);
    if !copied(path, &outcome.trace.format, &mut file).map_err(failed)? {
        let trace = torpor_engine::whole(path, &Unwatched).map_err(engine_error)?;
        torpor_trace::write_perfetto(&trace, &mut file).map_err(failed)?;
    }
    torpor_trace::write_tracks(&mut file, &outcome.trace.clock, &groups).map_err(failed)?;
    file.flush().map_err(failed)
}

/// Copies a Perfetto recording as a whole; further packets may follow any trace.
fn copied(path: &Path, format: &str, out: &mut impl Write) -> std::io::Result<bool> {
    if format != "perfetto" || path == Path::new("-") {
        return Ok(false);
    }
    let Ok(mut file) = open_regular(path) else { return Ok(false) };
    let mut first = [0];
    // A packed one starts with another byte than a packet's tag.
    if std::io::Read::read(&mut file, &mut first)? == 0 || first != [0x0a] {
        return Ok(false);
    }
    out.write_all(&first)?;
    std::io::copy(&mut file, out).map(|_| true)
}

/// A track a CPU: each sleep by its state and what was wrong with it, inside it the latency.
fn tracks(run: &RunOutcome, decisions: &[Decision]) -> Vec<Track> {
    let mut tracks: Vec<Track> = run
        .cpus
        .iter()
        .map(|cpu| Track { name: format!("CPU {}", cpu.cpu), slices: Vec::new() })
        .collect();
    for decision in decisions {
        let Some(track) = tracks.get_mut(decision.slot) else { continue };
        let names = &run.cpus[decision.slot].states;
        let index = usize::from(decision.state);
        let state = names.get(index).map_or("", |state| state.name.as_str());
        let wrong = match decision.verdict {
            Verdict::Fit => "",
            Verdict::Above => " too deep",
            Verdict::Below => " too shallow",
        };
        let (from, to) = (decision.from, decision.resume);
        track.slices.push(Slice { from, to, name: format!("{index} {state}{wrong}") });
        if let Some(latency) = decision.latency.filter(|latency| latency.0 > 0) {
            let name = format!("latency {:.1} us", latency.0 as f64 / 1e3);
            track.slices.push(Slice { from: decision.event.max(from), to, name });
        }
    }
    tracks
}
