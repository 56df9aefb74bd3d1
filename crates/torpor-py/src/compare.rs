// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Functions of the result model, for measurements made in Python.

use crate::errors::value_error;
use crate::plain::Plain;
use crate::record::plain;
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use torpor_result::interval::{self, Cluster};
use torpor_result::{Column, Comparison, Info, Sampling, elsewhere, metric, number};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    metrics: Vec<Info>,
    columns: Vec<Column>,
    sampling: Sampling,
}

/// Compares columns. `table` has `metrics`, `columns` and `sampling`.
#[pyfunction]
pub(crate) fn compare(table: &Bound<'_, PyAny>) -> PyResult<Plain<Comparison>> {
    let table: Table = serde_json::from_value(plain(table, 0)?).map_err(value_error)?;
    Ok(Plain(torpor_result::compare(&table.metrics, &table.columns, table.sampling)))
}

/// Returns the second share minus the first. A share is the hits and tries of each CPU and
/// round.
#[pyfunction]
pub(crate) fn compare_shares(first: Vec<Cluster>, second: Vec<Cluster>) -> Plain<Value> {
    Plain(json!(interval::shares(&first, &second)))
}

/// Corrects the p-values of several tests by Holm's method.
#[pyfunction]
pub(crate) fn holm(chances: Vec<f64>) -> Vec<f64> {
    interval::holm(&chances)
}

/// Returns a value as text.
#[pyfunction]
pub(crate) fn format_number(value: f64) -> String {
    number::value(value)
}

/// The metrics of each kind of comparison.
#[pyfunction]
pub(crate) fn metrics() -> Plain<Value> {
    Plain(json!({
        "replay": metric::of_replay(),
        "simulation": metric::of_simulation(),
        "fidelity": elsewhere::FIDELITY,
        "ab": elsewhere::AB,
    }))
}
