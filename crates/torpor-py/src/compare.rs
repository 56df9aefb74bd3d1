// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Functions of the result model, for measurements made in Python.

use crate::errors::value_error;
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::json;
use torpor_result::interval::{self, Cluster};
use torpor_result::{Column, Info, Sampling, elsewhere, metric, number};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    metrics: Vec<Info>,
    columns: Vec<Column>,
    sampling: Sampling,
}

/// Compares columns. `table` is JSON with `metrics`, `columns` and `sampling`; so is the result.
#[pyfunction]
pub(crate) fn compare(table: &str) -> PyResult<String> {
    let table: Table = serde_json::from_str(table).map_err(value_error)?;
    let found = torpor_result::compare(&table.metrics, &table.columns, table.sampling);
    serde_json::to_string(&found).map_err(value_error)
}

/// Returns the second share minus the first, as JSON. A share is the hits and tries of each CPU and
/// round.
#[pyfunction]
pub(crate) fn compare_shares(first: Vec<Cluster>, second: Vec<Cluster>) -> String {
    json!(interval::shares(&first, &second)).to_string()
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

/// The metrics of each kind of comparison, as JSON.
#[pyfunction]
pub(crate) fn metrics() -> String {
    json!({
        "replay": metric::of_replay(),
        "simulation": metric::of_simulation(),
        "fidelity": elsewhere::FIDELITY,
        "ab": elsewhere::AB,
    })
    .to_string()
}
