// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The tables of a result as Arrow columns.
//!
//! Columns are nullable throughout: null is what is not known. Texts that repeat in every row of
//! the decisions are dictionaries there.

use arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int32Builder, Int64Builder, StringBuilder,
    StringDictionaryBuilder, UInt32Builder, UInt64Builder,
};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, Field, Schema};
use std::sync::Arc;
use torpor_engine::model::{SleepEnd, Verdict};
use torpor_engine::outcome::{Outcome, RunOutcome};
use torpor_units::Duration;

/// A metric with one of these endings is a measure, any other a count.
const MEASURES: [&str; 4] = ["_pct", "_us", "_mw", "_uj"];

type Table = Result<RecordBatch, ArrowError>;

/// One row a trace and governor, one column a metric of the catalogue.
pub fn summary(outcome: &Outcome) -> Table {
    let mut trace_path = StringBuilder::new();
    let mut platform = StringBuilder::new();
    let mut governor = StringBuilder::new();
    let mut kind = StringBuilder::new();
    let mut error = StringBuilder::new();
    for (path, run) in runs(outcome) {
        trace_path.append_value(path);
        platform.append_value(&outcome.platform.name);
        governor.append_value(&run.governor);
        kind.append_value(run.kind);
        error.append_option(run.error.as_deref());
    }
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("trace", Arc::new(trace_path.finish())),
        ("platform", Arc::new(platform.finish())),
        ("governor", Arc::new(governor.finish())),
        ("kind", Arc::new(kind.finish())),
        ("error", Arc::new(error.finish())),
    ];
    for metric in outcome.catalogue {
        let values = runs(outcome).map(|(_, run)| run.metrics.get(metric.key).copied().flatten());
        columns.push((metric.key, metric_column(metric.key, values)));
    }
    batch(columns)
}

fn metric_column(key: &str, values: impl Iterator<Item = Option<f64>>) -> ArrayRef {
    if MEASURES.iter().any(|ending| key.ends_with(ending)) {
        let mut column = Float64Builder::new();
        values.for_each(|value| column.append_option(value));
        Arc::new(column.finish())
    } else {
        let mut column = Int64Builder::new();
        values.for_each(|value| column.append_option(value.map(|v| v.round() as i64)));
        Arc::new(column.finish())
    }
}

/// One row a trace, governor, CPU and idle state.
pub fn states(outcome: &Outcome) -> Table {
    let mut trace_path = StringBuilder::new();
    let mut governor = StringBuilder::new();
    let mut cluster_name = StringBuilder::new();
    let mut cpu_number = UInt32Builder::new();
    let mut state_index = Int32Builder::new();
    let mut state_name = StringBuilder::new();
    let mut usage = UInt64Builder::new();
    let mut above = UInt64Builder::new();
    let mut below = UInt64Builder::new();
    let mut rejected = UInt64Builder::new();
    let mut time_ns = Int64Builder::new();
    for (path, run) in runs(outcome) {
        for cpu in &run.cpus {
            for state in &cpu.states {
                trace_path.append_value(path);
                governor.append_value(&run.governor);
                cluster_name.append_value(&cpu.cluster);
                cpu_number.append_value(cpu.cpu.0);
                state_index.append_value(state.index as i32);
                state_name.append_value(&state.name);
                usage.append_value(state.usage);
                above.append_value(state.above);
                below.append_value(state.below);
                rejected.append_value(state.rejected);
                time_ns.append_value(state.time_ns);
            }
        }
    }
    batch(vec![
        ("trace", Arc::new(trace_path.finish())),
        ("governor", Arc::new(governor.finish())),
        ("cluster", Arc::new(cluster_name.finish())),
        ("cpu", Arc::new(cpu_number.finish())),
        ("state", Arc::new(state_index.finish())),
        ("name", Arc::new(state_name.finish())),
        ("usage", Arc::new(usage.finish())),
        ("above", Arc::new(above.finish())),
        ("below", Arc::new(below.finish())),
        ("rejected", Arc::new(rejected.finish())),
        ("time_ns", Arc::new(time_ns.finish())),
    ])
}

/// One row a bucket of a governor's wake-up latencies.
pub fn latency(outcome: &Outcome) -> Table {
    let mut trace_path = StringBuilder::new();
    let mut governor = StringBuilder::new();
    let mut upper_bound_ns = UInt64Builder::new();
    let mut count = UInt64Builder::new();
    for (path, run) in runs(outcome) {
        for &(bound, wakeups) in &run.latency.histogram {
            trace_path.append_value(path);
            governor.append_value(&run.governor);
            upper_bound_ns.append_value(bound);
            count.append_value(wakeups);
        }
    }
    batch(vec![
        ("trace", Arc::new(trace_path.finish())),
        ("governor", Arc::new(governor.finish())),
        ("upper_bound_ns", Arc::new(upper_bound_ns.finish())),
        ("count", Arc::new(count.finish())),
    ])
}

/// One row a decision, in order of trace, governor, CPU and time.
pub fn decisions(outcome: &Outcome) -> Table {
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
    for (path, run) in runs(outcome) {
        for decision in &run.decisions {
            trace_path.append_value(path);
            governor.append_value(&run.governor);
            cpu.append_value(run.cpus[decision.slot].cpu.0);
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
    batch(vec![
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
    ])
}

/// Every run with the path of its trace.
fn runs(outcome: &Outcome) -> impl Iterator<Item = (&str, &RunOutcome)> {
    outcome.traces.iter().flat_map(|t| t.runs.iter().map(|run| (t.trace.path.as_str(), run)))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Table {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns
        .into_iter()
        .map(|(name, array)| (Field::new(name, array.data_type().clone(), true), array))
        .unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}
