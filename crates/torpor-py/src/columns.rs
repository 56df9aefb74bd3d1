// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The small tables of a result, laid out from its JSON, so that the two cannot disagree.

use arrow_array::builder::{Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, Field, Schema};
use serde_json::Value;
use std::sync::Arc;

/// A metric with one of these endings is a measure, any other a count.
const MEASURES: [&str; 6] = ["_pct", "_us", "_ns", "_mw", "_uj", "_ratio"];

/// Columns in the making: a name, and its values so far.
struct Columns {
    columns: Vec<(String, Column)>,
}

enum Column {
    Text(StringBuilder),
    Count(Int64Builder),
    Measure(Float64Builder),
}

impl Column {
    /// Appends a value; one of another kind, or none, is null: not known.
    fn push(&mut self, value: &Value) {
        match self {
            Column::Text(column) => column.append_option(value.as_str()),
            // The engine may write a count as 12 or as 12.0.
            Column::Count(column) => column
                .append_option(value.as_i64().or_else(|| value.as_f64().map(|v| v.round() as i64))),
            Column::Measure(column) => column.append_option(value.as_f64()),
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Column::Text(mut column) => Arc::new(column.finish()),
            Column::Count(mut column) => Arc::new(column.finish()),
            Column::Measure(mut column) => Arc::new(column.finish()),
        }
    }
}

fn text() -> Column {
    Column::Text(StringBuilder::new())
}

fn count() -> Column {
    Column::Count(Int64Builder::new())
}

fn measure() -> Column {
    Column::Measure(Float64Builder::new())
}

impl Columns {
    fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Column)>) -> Columns {
        Columns { columns: columns.into_iter().map(|(n, c)| (n.to_owned(), c)).collect() }
    }

    fn push_row<'a>(&mut self, values: impl IntoIterator<Item = &'a Value>) {
        let mut values = values.into_iter();
        for (name, column) in &mut self.columns {
            column.push(values.next().unwrap_or_else(|| panic!("a row without `{name}`")));
        }
    }

    fn finish(self) -> Result<RecordBatch, ArrowError> {
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = self
            .columns
            .into_iter()
            .map(|(name, column)| {
                let array = column.finish();
                (Field::new(name, array.data_type().clone(), true), array)
            })
            .unzip();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
    }
}

/// One row a trace and governor, one column a metric of the catalogue.
pub fn summary(result: &Value) -> Result<RecordBatch, ArrowError> {
    let keys: Vec<&str> =
        items(&result["catalogue"]).iter().filter_map(|m| m["key"].as_str()).collect();
    let head = ["trace", "platform", "governor", "kind", "error"].map(|name| (name, text()));
    let metrics = keys.iter().map(|&key| {
        (key, if MEASURES.iter().any(|m| key.ends_with(m)) { measure() } else { count() })
    });
    let mut columns = Columns::new(head.into_iter().chain(metrics));
    for (trace, run) in runs(result) {
        let head =
            [trace, &result["platform"]["name"], &run["governor"], &run["kind"], &run["error"]];
        columns.push_row(head.into_iter().chain(keys.iter().map(|&key| &run["metrics"][key])));
    }
    columns.finish()
}

/// One row a trace, governor, cluster and idle state.
pub fn states(result: &Value) -> Result<RecordBatch, ArrowError> {
    let counts = ["usage", "above", "below", "rejected", "time_ns"];
    let mut columns = Columns::new(
        ["trace", "governor", "cluster"]
            .map(|name| (name, text()))
            .into_iter()
            .chain([("state", count()), ("name", text())])
            .chain(counts.map(|name| (name, count()))),
    );
    for (trace, run) in runs(result) {
        for cluster in items(&run["clusters"]) {
            for state in items(&cluster["states"]) {
                let head =
                    [trace, &run["governor"], &cluster["name"], &state["index"], &state["name"]];
                columns.push_row(head.into_iter().chain(counts.iter().map(|&key| &state[key])));
            }
        }
    }
    columns.finish()
}

/// One row a bucket of a governor's wake-up latencies.
pub fn latency(result: &Value) -> Result<RecordBatch, ArrowError> {
    let mut columns = Columns::new([
        ("trace", text()),
        ("governor", text()),
        ("upper_bound_ns", count()),
        ("count", count()),
    ]);
    for (trace, run) in runs(result) {
        for bucket in items(&run["latency"]["histogram"]) {
            columns.push_row([trace, &run["governor"], &bucket[0], &bucket[1]]);
        }
    }
    columns.finish()
}

/// Every run with the path of its trace.
fn runs(result: &Value) -> impl Iterator<Item = (&Value, &Value)> {
    items(&result["traces"])
        .iter()
        .flat_map(|t| items(&t["runs"]).iter().map(move |run| (&t["trace"]["path"], run)))
}

/// The items of a list; what is no list has none.
fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
