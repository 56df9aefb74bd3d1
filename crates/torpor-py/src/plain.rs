// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Data of the engine as Python's plain data, the same as its JSON has.

use crate::errors::value_error;
use pyo3::prelude::*;
use serde::Serialize;

/// Becomes dictionaries, lists, texts and numbers when it is returned to Python.
pub(crate) struct Plain<T>(pub(crate) T);

impl<'py, T: Serialize> IntoPyObject<'py> for Plain<T> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = serde_json::to_string(&self.0).map_err(value_error)?;
        // By way of JSON, so that keys, order and missing numbers are those of a file.
        py.import("json")?.call_method1("loads", (text,))
    }
}
