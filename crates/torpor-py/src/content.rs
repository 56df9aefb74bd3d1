// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What platforms and workloads hold, as plain Python values and back.

use crate::errors::{platform_error, sim_error, value_error};
use crate::record::DEPTH_MAX;
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyString};
use torpor_machine::platform;
use torpor_machine::toml::{Content, Document, Item, Value};
use torpor_sim::workload;

/// The content of a machine, with the numbers after its name.
#[pyfunction]
pub(crate) fn platform_content<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
    to_python(py, &platform::document(name).map_err(platform_error)?.content)
}

/// The content of a workload, with the numbers after its name.
#[pyfunction]
pub(crate) fn workload_content<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
    to_python(py, &workload::document(name).map_err(sim_error)?.content)
}

/// The TOML text of a machine with this content.
#[pyfunction]
pub(crate) fn platform_text(content: &Bound<'_, PyDict>) -> PyResult<String> {
    let document = Document::of("the platform", "", of_python(content)?);
    platform::from_document(&document).map_err(platform_error)?;
    Ok(document.to_toml().into_owned())
}

pub(crate) fn to_python<'py>(py: Python<'py>, content: &Content) -> PyResult<Bound<'py, PyDict>> {
    let made = PyDict::new(py);
    for entry in &content.entries {
        made.set_item(&entry.key, item_to_python(py, &entry.item)?)?;
    }
    Ok(made)
}

fn item_to_python<'py>(py: Python<'py>, item: &Item) -> PyResult<Bound<'py, PyAny>> {
    match &item.value {
        Value::Text(text) | Value::Date(text) => text.into_bound_py_any(py),
        Value::Number(text) => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(number), _) => number.into_bound_py_any(py),
            (_, number) => number.unwrap_or(f64::NAN).into_bound_py_any(py),
        },
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::Array(items) => {
            let items = items.iter().map(|item| item_to_python(py, item));
            PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_bound_py_any(py)
        }
        Value::Table(content) => to_python(py, content)?.into_bound_py_any(py),
    }
}

pub(crate) fn of_python(made: &Bound<'_, PyDict>) -> PyResult<Content> {
    table_of_python(made, 0)
}

fn table_of_python(made: &Bound<'_, PyDict>, depth: u32) -> PyResult<Content> {
    let mut content = Content::default();
    for (key, value) in made {
        content.set(&key.extract::<String>()?, item_of_python(&value, depth + 1)?);
    }
    Ok(content)
}

fn item_of_python(value: &Bound<'_, PyAny>, depth: u32) -> PyResult<Item> {
    if depth > DEPTH_MAX {
        return Err(value_error(format!("a value is nested more than {DEPTH_MAX} levels deep")));
    }
    if let Ok(table) = value.cast::<PyDict>() {
        return Ok(table_of_python(table, depth)?.into());
    }
    if let Ok(items) = value.cast::<PyList>() {
        let items = items.iter().map(|item| item_of_python(&item, depth + 1));
        return Ok(items.collect::<PyResult<Vec<Item>>>()?.into());
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(text.extract::<String>()?.into());
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(value.is_true().into());
    }
    match (value.extract::<i64>(), value.extract::<f64>()) {
        (Ok(number), _) => Ok(number.into()),
        (_, Ok(number)) => Ok(number.into()),
        _ => Err(value_error(format!("`{value}`: expected a text, a number, a list or a dict"))),
    }
}
