// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Functions of the result model, for measurements made in Python.

use crate::errors::value_error;
use crate::plain::Plain;
use crate::record::plain;
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use torpor_result::interval::{self, Cluster};
use torpor_result::{Column, Comparison, Info, Sampling, metric, number};

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

/// Moments of a sample that is not kept.
#[pyclass(module = "torpor._engine")]
#[derive(Default)]
pub(crate) struct Moments(interval::Moments);

#[pymethods]
impl Moments {
    /// Begins with values, from which it computes more exactly than by adding them.
    #[new]
    #[pyo3(signature = (values = Vec::new()))]
    fn new(values: Vec<f64>) -> Moments {
        if values.is_empty() { Moments::default() } else { Moments((&values[..]).into()) }
    }

    fn add(&mut self, value: f64) {
        self.0.add(value);
    }

    #[getter]
    fn count(&self) -> usize {
        self.0.count
    }

    /// The mean, and the ends of Student's 95 % interval of it if there are two values.
    fn interval(&self) -> (f64, Option<f64>, Option<f64>) {
        let found = self.0.interval();
        (self.0.mean, found.map(|i| i.low), found.map(|i| i.high))
    }
}

/// Returns half of Student's 95 % interval of an estimate with this standard error.
#[pyfunction]
pub(crate) fn half_width(error: f64, freedom: usize) -> f64 {
    interval::half_width(error, freedom)
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
    Plain(metric::catalogues())
}
