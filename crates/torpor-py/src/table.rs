// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Arrow tables: over the C stream interface without a copy, and in files.

use crate::errors::{EngineError, value_error};
use crate::files::os_error;
use crate::panics::quietly;
use crate::plain::Plain;
use arrow_array::cast::AsArray;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchReader,
    StringArray, TypedDictionaryArray,
};
use arrow_ipc::reader::{FileReader, read_footer_length};
use arrow_ipc::root_as_footer;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, FieldRef, SchemaRef};
use arrow_select::concat::concat_batches;
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyIterator, PyList, PyString};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::ffi::CStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use torpor_machine::units::{WholeFile, open_regular};
use torpor_result::tables::{TABLES, of_kind};

/// The names that the Arrow PyCapsule interface prescribes.
const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";

/// An Arrow IPC file ends with the length of its footer and a magic number.
const ARROW_TRAILER_BYTES: usize = 10;

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
    /// Names of the columns, in order.
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
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref())
            .map_err(|error| EngineError::new_err(format!("hand out a table: {error}")))?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }

    /// The Arrow C stream. `requested_schema` is ignored, as the interface allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        stream(py, RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema()))
    }

    /// A `polars.DataFrame`, without a copy.
    ///
    /// Raises ImportError where polars is not installed.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("polars")?.getattr("DataFrame")?.call1((slf,))
    }

    /// A `pandas.DataFrame`: by pandas itself from 3.0 on, before that by pyarrow.
    ///
    /// Raises ImportError where pandas is not installed.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let frame = slf.py().import("pandas")?.getattr("DataFrame")?;
        if frame.hasattr("from_arrow")? {
            return frame.call_method1("from_arrow", (slf,));
        }
        slf.py().import("pyarrow")?.call_method1("table", (slf,))?.call_method0("to_pandas")
    }

    /// Units by column; columns without a unit are left out.
    #[getter]
    fn units(&self) -> BTreeMap<String, String> {
        let schema = self.batch.schema();
        let unit =
            |field: &FieldRef| Some((field.name().clone(), field.metadata().get("unit")?.clone()));
        schema.fields().iter().filter_map(unit).collect()
    }

    /// The columns as lists of Python values, by name. None stands for null.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for (field, array) in self.batch.schema().fields().iter().zip(self.batch.columns()) {
            columns.set_item(field.name(), values(py, array)?)?;
        }
        Ok(columns)
    }

    /// The rows as dicts, which `pandas.DataFrame` takes; `to_pandas` is faster.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let columns = self.to_dict(py)?;
        let rows = PyList::empty(py);
        for number in 0..self.batch.num_rows() {
            let row = PyDict::new(py);
            for (name, values) in &columns {
                row.set_item(name, values.get_item(number)?)?;
            }
            rows.append(row)?;
        }
        rows.try_iter()
    }

    /// Returns the bytes of the table as a Parquet file.
    fn to_parquet<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let made = py.detach(|| {
            let mut out = Vec::new();
            write_parquet(&mut out, self.batch.schema(), [Ok(self.batch.clone())]).map(|()| out)
        });
        let bytes = made.map_err(|e| EngineError::new_err(format!("lay out a table: {e}")))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Writes Parquet, or Arrow IPC if `path` ends in `.arrow`.
    ///
    /// Raises OSError if the file cannot be written.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| write_batches(&path, self.batch.schema(), [Ok(self.batch.clone())]))
    }
}

/// Returns a stream of batches, which are made when they are read.
pub(crate) fn stream<'py>(
    py: Python<'py>,
    batches: impl RecordBatchReader + Send + 'static,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), STREAM)
}

/// Writes Arrow IPC if `path` ends in `.arrow`, else Parquet.
pub(crate) fn write_batches(
    path: &Path,
    schema: SchemaRef,
    batches: impl IntoIterator<Item = Result<RecordBatch, ArrowError>>,
) -> PyResult<()> {
    let mut file = create(path)?;
    let is_arrow = path.extension() == Some("arrow".as_ref());
    let written = if is_arrow {
        write_ipc(&mut file, &schema, batches).map_err(|error| match error {
            ArrowError::IoError(_, error) => os_error(path, error),
            error => failed(path, error),
        })
    } else {
        write_parquet(&mut file, schema, batches).map_err(|error| match error {
            ParquetError::External(cause) => from_cause(path, cause),
            error => failed(path, error),
        })
    };
    written.and_then(|()| file.commit().map_err(|error| os_error(path, error)))
}

fn write_parquet(
    file: &mut (impl Write + Send),
    schema: SchemaRef,
    batches: impl IntoIterator<Item = Result<RecordBatch, ArrowError>>,
) -> Result<(), ParquetError> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = ArrowWriter::try_new(file, schema, Some(properties))?;
    batches.into_iter().try_for_each(|batch| writer.write(&batch?))?;
    writer.close().map(|_| ())
}

fn write_ipc(
    file: &mut WholeFile,
    schema: &SchemaRef,
    batches: impl IntoIterator<Item = Result<RecordBatch, ArrowError>>,
) -> Result<(), ArrowError> {
    let mut writer = FileWriter::try_new(file, schema)?;
    batches.into_iter().try_for_each(|batch| writer.write(&batch?))?;
    writer.finish()
}

/// The tables of a kind of result.
#[pyfunction]
pub(crate) fn table_names(kind: &str) -> Vec<&'static str> {
    of_kind(kind).map(|table| table.name).collect()
}

/// Every table of every kind of result.
#[pyfunction]
pub(crate) fn tables() -> Plain<Value> {
    let column = |(name, kind, unit)| json!({"name": name, "type": kind, "unit": unit});
    let all = TABLES.iter().map(|table| {
        json!({
            "kind": table.kind,
            "name": table.name,
            "row": table.row,
            "has_metrics": table.has_metrics,
            "columns": table.columns().map(column).collect::<Vec<_>>(),
        })
    });
    Plain(all.collect())
}

/// A table from a Parquet or Arrow IPC file.
#[pyfunction]
pub(crate) fn read_table(py: Python<'_>, path: PathBuf) -> PyResult<Table> {
    py.detach(|| {
        let file = open_regular(&path).map_err(|error| os_error(&path, error))?;
        let is_arrow = path.extension() == Some("arrow".as_ref());
        let read = without_panic(|| match is_arrow {
            true => {
                lies_within(&file)?;
                joined(FileReader::try_new(file, None)?)
            }
            false => joined(ParquetRecordBatchReaderBuilder::try_new(file)?.build()?),
        });
        read.map_err(|error| value_error(format!("`{}` is not a table: {error}", path.display())))
    })
}

/// Refuses an Arrow IPC file whose footer names more bytes than the file has: the reader allocates
/// them before it reads.
fn lies_within(mut file: &File) -> Result<(), ArrowError> {
    let invalid = |what: String| ArrowError::ParseError(what);
    let bytes = file.metadata()?.len();
    let mut trailer = [0; ARROW_TRAILER_BYTES];
    file.seek(SeekFrom::Start(bytes.saturating_sub(ARROW_TRAILER_BYTES as u64)))?;
    file.read_exact(&mut trailer)?;
    let footer_bytes = read_footer_length(trailer)? as u64;
    let footer_at = bytes.checked_sub(footer_bytes + ARROW_TRAILER_BYTES as u64);
    let footer_at = footer_at.ok_or_else(|| {
        invalid(format!("its footer has {footer_bytes} bytes and the file {bytes}"))
    })?;
    file.seek(SeekFrom::Start(footer_at))?;
    let mut footer = Vec::new();
    file.take(footer_bytes).read_to_end(&mut footer)?;
    let footer = root_as_footer(&footer).map_err(|error| invalid(error.to_string()))?;
    let blocks = footer.dictionaries().into_iter().chain(footer.recordBatches()).flatten();
    let mut free_bytes = footer_at;
    for block in blocks {
        let named = u64::try_from(block.metaDataLength())
            .ok()
            .zip(u64::try_from(block.bodyLength()).ok())
            .and_then(|(metadata, body)| metadata.checked_add(body));
        free_bytes = named.and_then(|named| free_bytes.checked_sub(named)).ok_or_else(|| {
            invalid(format!("its blocks have more bytes than the {footer_at} before its footer"))
        })?;
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(())
}

/// A table from the bytes of a Parquet file: all columns, or those of these names that it has.
#[pyfunction]
#[pyo3(signature = (data, columns = None))]
pub(crate) fn parse_parquet(
    py: Python<'_>,
    data: PyBackedBytes,
    columns: Option<Vec<String>>,
) -> PyResult<Table> {
    let data = Bytes::from_owner(data);
    py.detach(|| {
        let read = without_panic(|| {
            let mut reader = ParquetRecordBatchReaderBuilder::try_new(data)?;
            if let Some(names) = &columns {
                let names = names.iter().map(String::as_str);
                let mask = ProjectionMask::columns(reader.parquet_schema(), names);
                reader = reader.with_projection(mask);
            }
            joined(reader.build()?)
        });
        read.map_err(|error| value_error(format!("not a table: {error}")))
    })
}

/// A table with the columns of `like` and the values that `read` returns of each name, which are
/// texts, whole numbers or numbers.
#[pyfunction]
pub(crate) fn filled_table(like: &Bound<'_, Table>, read: &Bound<'_, PyAny>) -> PyResult<Table> {
    let schema = like.get().batch.schema();
    let column = |field: &FieldRef| -> PyResult<ArrayRef> {
        let values = read.call1((field.name(),))?;
        Ok(match field.data_type() {
            DataType::Utf8 => Arc::new(StringArray::from(values.extract::<Vec<Option<String>>>()?)),
            DataType::Int64 => Arc::new(Int64Array::from_iter(
                values
                    .extract::<Vec<Option<Whole>>>()?
                    .into_iter()
                    .map(|cell| cell.map(Whole::number)),
            )),
            _ => Arc::new(Float64Array::from(values.extract::<Vec<Option<f64>>>()?)),
        })
    };
    let columns = schema.fields().iter().map(column).collect::<PyResult<Vec<_>>>()?;
    RecordBatch::try_new(schema, columns)
        .map(Table::new)
        .map_err(|error| EngineError::new_err(format!("fill a table: {error}")))
}

/// A whole number, which JSON may write with a point.
#[derive(FromPyObject)]
enum Whole {
    Int(i64),
    Float(f64),
}

impl Whole {
    fn number(self) -> i64 {
        match self {
            Whole::Int(number) => number,
            Whole::Float(number) => number.round() as i64,
        }
    }
}

/// Reads a damaged file as an error: the libraries that decode tables assert some of what a file
/// says.
fn without_panic(read: impl FnOnce() -> Result<Table, ArrowError>) -> Result<Table, ArrowError> {
    quietly(read)
        .unwrap_or_else(|| Err(ArrowError::ParseError("its content contradicts itself".to_owned())))
}

fn joined(
    batches: impl Iterator<Item = Result<RecordBatch, ArrowError>>,
) -> Result<Table, ArrowError> {
    let batches = batches.collect::<Result<Vec<RecordBatch>, ArrowError>>()?;
    let schema = batches.first().map(RecordBatch::schema);
    let schema = schema.unwrap_or_else(|| Arc::new(arrow_schema::Schema::empty()));
    concat_batches(&schema, &batches).map(Table::new)
}

/// A column of one of the types that our tables have.
fn values<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Bound<'py, PyList>> {
    match array.data_type() {
        DataType::Utf8 => texts(py, array.as_string::<i32>()),
        DataType::Boolean => PyList::new(py, array.as_boolean()),
        DataType::UInt16 => PyList::new(py, array.as_primitive::<UInt16Type>()),
        DataType::UInt32 => PyList::new(py, array.as_primitive::<UInt32Type>()),
        DataType::UInt64 => PyList::new(py, array.as_primitive::<UInt64Type>()),
        DataType::Int32 => PyList::new(py, array.as_primitive::<Int32Type>()),
        DataType::Int64 => PyList::new(py, array.as_primitive::<Int64Type>()),
        DataType::Float64 => PyList::new(py, array.as_primitive::<Float64Type>()),
        other => match dictionary(array) {
            Some(texts) => PyList::new(py, texts),
            None => Err(EngineError::new_err(format!(
                "a column of type {other} is none of Torpor's\nhint: read the table with polars or \
             pyarrow"
            ))),
        },
    }
}

/// Texts, which repeat: equal ones are one object.
fn texts<'py>(py: Python<'py>, array: &StringArray) -> PyResult<Bound<'py, PyList>> {
    let mut known: HashMap<&str, Bound<'py, PyString>> = HashMap::new();
    let mut object = |text| known.entry(text).or_insert_with(|| PyString::new(py, text)).clone();
    PyList::new(py, array.iter().map(|cell| cell.map(&mut object)))
}

/// A column of texts that repeat.
fn dictionary(array: &ArrayRef) -> Option<TypedDictionaryArray<'_, Int32Type, StringArray>> {
    array.as_dictionary_opt::<Int32Type>()?.downcast_dict::<StringArray>()
}

fn create(path: &Path) -> PyResult<WholeFile> {
    WholeFile::create(path).map_err(|error| os_error(path, error))
}

/// An error of the file that a library wrapped, and another one's.
fn from_cause(path: &Path, cause: Box<dyn std::error::Error + Send + Sync>) -> PyErr {
    match cause.downcast::<std::io::Error>() {
        Ok(error) => os_error(path, *error),
        Err(error) => failed(path, error),
    }
}

fn failed(path: &Path, error: impl std::fmt::Display) -> PyErr {
    EngineError::new_err(format!("write table `{}`: {error}", path.display()))
}
