// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Tables leave as Arrow: over the C stream interface without a copy, or into a file.

use crate::errors::EngineError;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::CStr;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The names that the Arrow PyCapsule interface prescribes.
const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";

/// A table of a result. Hand it to `polars.DataFrame`, `pyarrow.table` or
/// `pandas.DataFrame.from_arrow`: they read it in place.
#[pyclass(frozen, module = "torpor._engine")]
pub struct Table {
    batch: RecordBatch,
}

impl Table {
    pub fn new(batch: RecordBatch) -> Table {
        Table { batch }
    }
}

#[pymethods]
impl Table {
    /// Names of the columns, in order; the unit is a name's last part.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|f| f.name().clone()).collect()
    }

    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __repr__(&self) -> String {
        let names = self.column_names().join(", ");
        format!("<torpor Table: {} rows of {names}>", self.batch.num_rows())
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref()).map_err(failed)?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }

    /// The Arrow C stream. `requested_schema` is a wish that the interface lets a producer decline.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let schema = self.batch.schema();
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], schema);
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, STREAM)
    }

    /// Writes Parquet, or Arrow IPC if `path` ends in `.arrow`.
    ///
    /// Raises OSError if the file cannot be written.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| match path.extension().and_then(|e| e.to_str()) {
            Some("arrow") => self.write_ipc(&path),
            _ => self.write_parquet(&path),
        })
    }
}

impl Table {
    fn write_parquet(&self, path: &Path) -> PyResult<()> {
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let mut file = create(path)?;
        let mut writer = ArrowWriter::try_new(&mut file, self.batch.schema(), Some(properties))
            .map_err(failed)?;
        writer.write(&self.batch).map_err(failed)?;
        writer.close().map_err(failed)?;
        file.flush().map_err(|error| os_error(path, error))
    }

    fn write_ipc(&self, path: &Path) -> PyResult<()> {
        let mut file = create(path)?;
        let mut writer = arrow_ipc::writer::FileWriter::try_new(&mut file, &self.batch.schema())
            .map_err(failed)?;
        writer.write(&self.batch).map_err(failed)?;
        writer.finish().map_err(failed)?;
        drop(writer);
        file.flush().map_err(|error| os_error(path, error))
    }
}

fn create(path: &Path) -> PyResult<BufWriter<File>> {
    Ok(BufWriter::new(File::create(path).map_err(|error| os_error(path, error))?))
}

/// With errno and file name, so that Python makes it a `PermissionError`, a `FileNotFoundError`...
fn os_error(path: &Path, error: std::io::Error) -> PyErr {
    let text = error.to_string();
    let strerror = text.split(" (os error").next().unwrap_or_default().to_owned();
    PyOSError::new_err((error.raw_os_error(), strerror, path.display().to_string()))
}

fn failed(error: impl std::fmt::Display) -> PyErr {
    EngineError::new_err(format!("write table: {error}"))
}
