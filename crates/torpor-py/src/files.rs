// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Output files for Python that appear whole or not at all.

use crate::errors::value_error;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A file that appears under its name once it is whole. A context manager: it commits at its end,
/// and leaves the old file after an exception.
#[pyclass(frozen, module = "torpor._engine")]
pub struct WholeFile {
    path: PathBuf,
    file: Mutex<Option<torpor_machine::units::WholeFile>>,
}

impl WholeFile {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut torpor_machine::units::WholeFile) -> std::io::Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            let open = file.as_mut().ok_or_else(|| value_error("the file is closed"))?;
            act(open).map_err(|error| os_error(&self.path, error))
        })
    }
}

#[pymethods]
impl WholeFile {
    #[new]
    fn new(path: PathBuf) -> PyResult<WholeFile> {
        let file = torpor_machine::units::WholeFile::create(&path)
            .map_err(|error| os_error(&path, error))?;
        Ok(WholeFile { path, file: Mutex::new(Some(file)) })
    }

    fn write(&self, py: Python<'_>, data: &[u8]) -> PyResult<usize> {
        self.with(py, |file| file.write_all(data))?;
        Ok(data.len())
    }

    fn tell(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |file| file.stream_position())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Option<&Bound<'_, PyAny>>,
        exc_value: Option<&Bound<'_, PyAny>>,
        traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let _ = (exc_value, traceback);
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
        match file {
            Some(file) if exc_type.is_none() => {
                py.detach(|| file.commit()).map_err(|error| os_error(&self.path, error))
            }
            _ => Ok(()),
        }
    }
}

/// Adds errno and file name, so that Python raises `PermissionError`, `FileNotFoundError`...
pub(crate) fn os_error(path: &Path, error: std::io::Error) -> PyErr {
    let text = error.to_string();
    let strerror = text.split(" (os error").next().unwrap_or_default().to_owned();
    PyOSError::new_err((error.raw_os_error(), strerror, path.as_os_str().to_owned()))
}
