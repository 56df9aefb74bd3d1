// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The decisions of a replay as Arrow columns: too many for the JSON that other tables are made of.
//!
//! Columns are nullable throughout: null is what is not known. Texts that repeat in every row are
//! dictionaries.

use crate::decision_columns;
use arrow_array::builder::{
    BooleanBuilder, Int32Builder, Int64Builder, StringDictionaryBuilder, UInt32Builder,
};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, Field, Schema};
use std::sync::Arc;
use torpor_engine::model::{SleepEnd, Verdict};
use torpor_engine::outcome::{Outcome, RunOutcome};
use torpor_engine::stats::Ended;
use torpor_machine::units::Duration;
use torpor_trace::Names;

type Table = Result<RecordBatch, ArrowError>;

/// One row a decision, in order of trace, governor, CPU and time.
pub(crate) fn decisions(outcome: &Outcome) -> Table {
    let mut trace_path = StringDictionaryBuilder::<Int32Type>::new();
    let mut governor = StringDictionaryBuilder::<Int32Type>::new();
    let mut cpu = UInt32Builder::new();
    let mut time_ns = Int64Builder::new();
    let mut state = Int32Builder::new();
    let mut stop_tick = BooleanBuilder::new();
    let mut tick_stopped_before = BooleanBuilder::new();
    let mut sleep_length_ns = Int64Builder::new();
    let mut source = StringDictionaryBuilder::<Int32Type>::new();
    let mut residency_ns = Int64Builder::new();
    let mut latency_ns = Int64Builder::new();
    let mut verdict = StringDictionaryBuilder::<Int32Type>::new();
    let mut wake = StringDictionaryBuilder::<Int32Type>::new();
    let kept = outcome.traces.iter().flat_map(|t| &t.decisions);
    for ((path, run), decisions) in runs(outcome).zip(kept) {
        for decision in decisions {
            trace_path.append_value(path);
            governor.append_value(&run.governor);
            cpu.append_value(run.cpus[decision.slot].cpu);
            time_ns.append_value(decision.from.0);
            state.append_value(i32::from(decision.state));
            stop_tick.append_value(decision.stop_tick);
            tick_stopped_before.append_value(decision.tick_was_stopped);
            let bound = Some(decision.sleep_length).filter(|&length| length != Duration::MAX);
            sleep_length_ns.append_option(bound.map(Duration::ns));
            source.append_value(decision.source.key());
            residency_ns.append_value(decision.resume.since(decision.from).ns());
            latency_ns.append_option(decision.latency.map(Duration::ns));
            verdict.append_value(match decision.verdict {
                Verdict::Fit => "fit",
                Verdict::Above => "above",
                Verdict::Below => "below",
            });
            wake.append_value(match decision.end {
                SleepEnd::Event => "event",
                SleepEnd::Tick => "tick",
                SleepEnd::GovernorTimer => "governor_timer",
                SleepEnd::PollTimeout => "poll_timeout",
            });
        }
    }
    let all = outcome.traces.iter().flat_map(|t| &t.decisions).flatten();
    let has_power = outcome.platform.has_power;
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("trace", Arc::new(trace_path.finish())),
        ("governor", Arc::new(governor.finish())),
        ("cpu", Arc::new(cpu.finish())),
        ("time_ns", Arc::new(time_ns.finish())),
        ("state", Arc::new(state.finish())),
        ("stop_tick", Arc::new(stop_tick.finish())),
        ("tick_stopped_before", Arc::new(tick_stopped_before.finish())),
        ("sleep_length_ns", Arc::new(sleep_length_ns.finish())),
        ("source", Arc::new(source.finish())),
        ("residency_ns", Arc::new(residency_ns.finish())),
        ("latency_ns", Arc::new(latency_ns.finish())),
        ("outcome", Arc::new(verdict.finish())),
        ("wake", Arc::new(wake.finish())),
    ];
    columns.extend(decision_columns::columns(all, has_power));
    batch(columns)
}

/// One row a recorded sleep, in order of time.
pub(crate) fn sleeps(mut sleeps: Vec<Ended>, names: &Names) -> Table {
    sleeps.sort_by_key(|sleep| (sleep.entry, sleep.cpu));
    let mut cpu = UInt32Builder::new();
    let mut time_ns = Int64Builder::new();
    let mut state = Int32Builder::new();
    let mut residency_ns = Int64Builder::new();
    let mut kind = StringDictionaryBuilder::<Int32Type>::new();
    let mut name = StringDictionaryBuilder::<Int32Type>::new();
    let mut latency_ns = Int64Builder::new();
    let mut task = StringDictionaryBuilder::<Int32Type>::new();
    for sleep in &sleeps {
        let (ended_by, named) = sleep.cause(names);
        cpu.append_value(sleep.cpu.0);
        time_ns.append_value(sleep.entry.0);
        state.append_value(sleep.state as i32);
        residency_ns.append_value(sleep.exit.since(sleep.entry).ns());
        kind.append_value(ended_by);
        name.append_option(Some(named).filter(|named| !named.is_empty()));
        latency_ns.append_option(sleep.latency.map(|latency| latency.ns()));
        task.append_option(sleep.ran.flatten().map(|comm| names.text(comm)));
    }
    batch(vec![
        ("cpu", Arc::new(cpu.finish())),
        ("time_ns", Arc::new(time_ns.finish())),
        ("state", Arc::new(state.finish())),
        ("residency_ns", Arc::new(residency_ns.finish())),
        ("kind", Arc::new(kind.finish())),
        ("name", Arc::new(name.finish())),
        ("latency_ns", Arc::new(latency_ns.finish())),
        ("task", Arc::new(task.finish())),
    ])
}

/// Every run with the path of its trace.
fn runs(outcome: &Outcome) -> impl Iterator<Item = (&str, &RunOutcome)> {
    outcome.traces.iter().flat_map(|t| t.runs.iter().map(|run| (t.trace.path.as_str(), run)))
}

pub(crate) fn batch(columns: Vec<(&str, ArrayRef)>) -> Table {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns
        .into_iter()
        .map(|(name, array)| {
            let mut field = Field::new(name, array.data_type().clone(), true);
            let units = [("_ns", "ns"), ("_uj", "uJ"), ("_us", "us")];
            if let Some((_, unit)) = units.iter().find(|(ending, _)| name.ends_with(ending)) {
                field = field.with_metadata([("unit".to_owned(), (*unit).to_owned())].into());
            }
            (field, array)
        })
        .unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}
