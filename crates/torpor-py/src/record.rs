// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A result of any kind as the engine holds it; JSON and Arrow tables are views of it.

use crate::errors::{EngineError, value_error};
use crate::table::Table;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::{Arc, OnceLock};
use torpor_machine::units::UnknownName;
use torpor_result::tables::of_kind;

/// Deeper nesting is an error, as in serde's reader of JSON: a list may contain itself.
pub(crate) const DEPTH_MAX: u32 = 128;

/// Origin of a result.
trait Source: Send + Sync {
    fn text(&self) -> serde_json::Result<String>;
    fn value(&self) -> serde_json::Result<Value>;
}

/// An outcome of the engine, or data of Python's.
struct Data<T>(Arc<T>);

impl<T: Serialize + Send + Sync> Source for Data<T> {
    fn text(&self) -> serde_json::Result<String> {
        serde_json::to_string(&*self.0)
    }

    fn value(&self) -> serde_json::Result<Value> {
        serde_json::to_value(&*self.0)
    }
}

/// JSON text, such as a file's.
struct Text(String);

impl Source for Text {
    fn text(&self) -> serde_json::Result<String> {
        Ok(self.0.clone())
    }

    fn value(&self) -> serde_json::Result<Value> {
        serde_json::from_str(&self.0)
    }
}

/// A result of any kind: of JSON text, of plain data, or from a run.
#[pyclass(frozen, module = "torpor._engine")]
pub struct Record {
    source: Box<dyn Source>,
    /// Made when the first table is.
    value: OnceLock<Value>,
}

impl Record {
    fn of(source: impl Source + 'static) -> Record {
        Record { source: Box::new(source), value: OnceLock::new() }
    }

    pub(crate) fn of_outcome<T: Serialize + Send + Sync + 'static>(outcome: &Arc<T>) -> Record {
        Record::of(Data(Arc::clone(outcome)))
    }

    fn value(&self) -> PyResult<&Value> {
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let value = self.source.value().map_err(value_error)?;
        Ok(self.value.get_or_init(|| value))
    }
}

#[pymethods]
impl Record {
    /// Takes JSON text, or a dictionary of plain data.
    #[new]
    fn new(result: &Bound<'_, PyAny>) -> PyResult<Record> {
        match result.cast::<PyString>() {
            Ok(text) => Ok(Record::of(Text(text.to_str()?.to_owned()))),
            Err(_) => Ok(Record::of(Data(Arc::new(plain(result, 0)?)))),
        }
    }

    /// The whole result as JSON text, without decisions.
    fn json(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.source.text())
            .map_err(|error| EngineError::new_err(format!("write the result as JSON: {error}")))
    }

    /// The table `name` of the result.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        py.detach(|| {
            let result = self.value()?;
            let kind = result["kind"].as_str().unwrap_or_default();
            let table = of_kind(kind).find(|table| table.name == name).ok_or_else(|| {
                let known = of_kind(kind).map(|table| table.name);
                value_error(UnknownName::new("table", name, known, ""))
            })?;
            let laid_out = table.batch(result).map(Table::new);
            laid_out.map_err(|error| EngineError::new_err(format!("table `{name}`: {error}")))
        })
    }
}

/// Returns Python's plain data as JSON has it; NaN and infinity are null.
pub(crate) fn plain(data: &Bound<'_, PyAny>, depth: u32) -> PyResult<Value> {
    if depth > DEPTH_MAX {
        return Err(value_error(format!("a result is nested more than {DEPTH_MAX} levels deep")));
    }
    if data.is_none() {
        Ok(Value::Null)
    } else if let Ok(text) = data.cast::<PyString>() {
        Ok(text.to_str()?.into())
    } else if let Ok(truth) = data.cast::<PyBool>() {
        Ok(truth.is_true().into())
    } else if let Ok(number) = data.cast::<PyFloat>() {
        Ok(number.value().into())
    } else if data.is_instance_of::<PyInt>() {
        match data.extract::<i64>() {
            Ok(number) => Ok(number.into()),
            Err(_) => Ok(data.extract::<f64>().map_err(value_error)?.into()),
        }
    } else if let Ok(fields) = data.cast::<PyDict>() {
        let mut map = Map::new();
        for (key, value) in fields {
            map.insert(key.str()?.to_str()?.to_owned(), plain(&value, depth + 1)?);
        }
        Ok(map.into())
    } else if data.is_instance_of::<PyList>() || data.is_instance_of::<PyTuple>() {
        data.try_iter()?.map(|item| plain(&item?, depth + 1)).collect()
    } else {
        let kind = data.get_type();
        Err(PyTypeError::new_err(format!("a result holds plain data, not {}", kind.name()?)))
    }
}
