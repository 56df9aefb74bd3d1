// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Idle spans as Arrow, a batch at a time: a recording has more of them than memory for a table.

use crate::columns::batch;
use crate::decision_columns::cause;
use crate::errors::{EngineError, engine_error, platform_error, value_error};
use crate::result::read;
use crate::table::{Table, write_batches};
use crate::watch::watched;
use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use torpor_engine::model::Verdict;
use torpor_engine::spans::{Spanned, SpannedCpu, bound::bounds};
use torpor_engine::{Options, Request, spans_of};
use torpor_machine::platform::Platform;
use torpor_machine::units::{Duration, parse_duration};

/// Rows of a batch.
const ROWS: usize = 65_536;

/// The idle spans of recordings on a machine; see `torpor.spans`.
#[pyclass(frozen, module = "torpor._engine")]
pub struct Spans(Arc<All>);

struct All {
    traces: Vec<Spanned>,
    states: usize,
}

/// Rows of one CPU: trace, CPU, and the first and the last row.
type Part = (usize, usize, usize, usize);

impl All {
    fn parts(&self) -> Vec<Part> {
        let cpus = self.traces.iter().enumerate().flat_map(|(t, trace)| {
            trace.cpus.iter().enumerate().map(move |(c, cpu)| (t, c, cpu.input.spans.len()))
        });
        cpus.flat_map(|(t, c, count)| {
            (0..count).step_by(ROWS).map(move |from| (t, c, from, count.min(from + ROWS)))
        })
        .collect()
    }

    fn batch(&self, (trace, cpu, from, to): Part) -> Result<RecordBatch, ArrowError> {
        let trace = &self.traces[trace];
        rows(trace, &trace.cpus[cpu], self.states, from..to)
    }

    fn schema(&self) -> Result<SchemaRef, ArrowError> {
        let cpu = self.traces.iter().find_map(|t| Some((t, t.cpus.first()?)));
        let (trace, cpu) = cpu.expect("a recording without spans is refused");
        Ok(rows(trace, cpu, self.states, 0..0)?.schema())
    }
}

/// Columns of whole numbers, in their order.
const INTS: [&str; 15] = [
    "cpu",
    "span",
    "time_ns",
    "sleep_length_ns",
    "to_tick_ns",
    "busy_ns",
    "last_ns",
    "last2_ns",
    "last3_ns",
    "util",
    "nr_iowait",
    "nr_running",
    "freq_khz",
    "length_ns",
    "best_state",
];

/// Columns that are being filled, a row a span.
struct Columns {
    trace: StringBuilder,
    ints: [Int64Builder; INTS.len()],
    source: StringBuilder,
    cause: StringBuilder,
    brings_task: BooleanBuilder,
    states: Vec<StateColumns>,
}

/// Cost of one idle state in a span.
#[derive(Default)]
struct StateColumns {
    energy_uj: Float64Builder,
    delay_ns: Int64Builder,
    outcome: StringBuilder,
}

fn rows(
    trace: &Spanned,
    cpu: &SpannedCpu,
    states: usize,
    range: std::ops::Range<usize>,
) -> Result<RecordBatch, ArrowError> {
    let mut columns = Columns {
        trace: StringBuilder::new(),
        ints: INTS.map(|_| Int64Builder::new()),
        source: StringBuilder::new(),
        cause: StringBuilder::new(),
        brings_task: BooleanBuilder::new(),
        states: (0..states).map(|_| StateColumns::default()).collect(),
    };
    range.for_each(|index| columns.append(trace, cpu, index));
    columns.finish()
}

impl Columns {
    fn append(&mut self, trace: &Spanned, cpu: &SpannedCpu, index: usize) {
        let (span, known) = (&cpu.input.spans[index], cpu.known(index));
        self.trace.append_value(&trace.path);
        self.source.append_value(span.source.key());
        self.cause.append_value(cause(span.is_resched, span.stamp));
        self.brings_task.append_value(span.ends_visit);
        let choices: Vec<_> = (0..cpu.model.states.len())
            .map(|state| cpu.model.states[state].is_allowed.then(|| cpu.choice(span, state)))
            .collect();
        let costs = choices.iter().enumerate();
        let best = costs.filter_map(|(state, c)| Some((c.as_ref()?.0.energy, state))).min();
        let values: [Option<i64>; INTS.len()] = [
            Some(i64::from(cpu.input.cpu.0)),
            Some(index as i64),
            Some(span.start.0),
            Some(known.sleep_length.ns()),
            Some(known.to_tick.ns()),
            known.busy.map(Duration::ns),
            known.last[0].map(Duration::ns),
            known.last[1].map(Duration::ns),
            known.last[2].map(Duration::ns),
            Some(known.util as i64),
            Some(i64::from(span.nr_iowait)),
            Some(i64::from(span.nr_running)),
            Some(i64::from(span.freq_khz)).filter(|&khz| khz > 0),
            Some(span.wake.since(span.start).ns()),
            best.map(|(_, state)| state as i64),
        ];
        self.ints.iter_mut().zip(values).for_each(|(column, value)| column.append_option(value));
        for (state, columns) in self.states.iter_mut().enumerate() {
            let choice = choices.get(state).and_then(Option::as_ref);
            let energy = choice.filter(|_| trace.has_power).map(|c| c.0.energy.as_uj_f64());
            columns.energy_uj.append_option(energy);
            columns.delay_ns.append_option(choice.map(|c| c.0.delay.ns()));
            columns.outcome.append_option(choice.map(|c| match c.1 {
                Verdict::Fit => "fit",
                Verdict::Above => "above",
                Verdict::Below => "below",
            }));
        }
    }

    fn finish(mut self) -> Result<RecordBatch, ArrowError> {
        let mut columns: Vec<(String, ArrayRef)> = Vec::new();
        let mut put = |name: &str, array: ArrayRef| columns.push((name.to_owned(), array));
        put("trace", Arc::new(self.trace.finish()));
        for (name, column) in INTS.iter().zip(&mut self.ints) {
            put(name, Arc::new(column.finish()));
        }
        put("source", Arc::new(self.source.finish()));
        put("cause", Arc::new(self.cause.finish()));
        put("brings_task", Arc::new(self.brings_task.finish()));
        for (state, one) in self.states.iter_mut().enumerate() {
            put(&format!("state{state}_energy_uj"), Arc::new(one.energy_uj.finish()));
            put(&format!("state{state}_delay_ns"), Arc::new(one.delay_ns.finish()));
            put(&format!("state{state}_outcome"), Arc::new(one.outcome.finish()));
        }
        batch(columns.iter().map(|(name, array)| (name.as_str(), Arc::clone(array))).collect())
    }
}

fn failed(error: ArrowError) -> PyErr {
    EngineError::new_err(format!("table `spans`: {error}"))
}

#[pymethods]
impl Spans {
    /// Rows of each recording.
    #[getter]
    fn row_counts(&self) -> Vec<usize> {
        let rows = |trace: &Spanned| trace.cpus.iter().map(|cpu| cpu.input.spans.len()).sum();
        self.0.traces.iter().map(rows).collect()
    }

    /// The rows, some ten thousand at a time, in order of recording, CPU and time.
    fn batch(&self, py: Python<'_>, number: usize) -> PyResult<Option<Table>> {
        py.detach(|| {
            let part = self.0.parts().get(number).copied();
            part.map(|part| self.0.batch(part).map(Table::new)).transpose().map_err(failed)
        })
    }

    /// The Arrow C stream, of batches that are made when they are read.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let all = Arc::clone(&self.0);
        let schema = all.schema().map_err(failed)?;
        let batches = all.parts().into_iter().map(move |part| all.batch(part));
        crate::table::stream(py, RecordBatchIterator::new(batches, schema))
    }

    /// Writes Parquet, or Arrow IPC if `path` ends in `.arrow`, a batch at a time.
    ///
    /// Raises OSError if the file cannot be written.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| {
            let schema = self.0.schema().map_err(failed)?;
            let batches = self.0.parts().into_iter().map(|part| self.0.batch(part));
            write_batches(&path, schema, batches)
        })
    }

    /// The best that a governor could do that knows only so much, late by `delay` in the mean at
    /// most, for one of the recordings; JSON.
    fn bounds(&self, py: Python<'_>, recording: usize, delay: &str) -> PyResult<String> {
        let delay = parse_duration(delay).map_err(value_error)?;
        Ok(py.detach(|| json!(bounds(&self.0.traces[recording].cpus, delay)).to_string()))
    }
}

/// Reads the idle spans of recordings.
#[pyfunction]
#[pyo3(signature = (traces, platform, options, progress = None))]
pub(crate) fn spans(
    py: Python<'_>,
    traces: Vec<PathBuf>,
    platform: &str,
    options: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Spans> {
    let options: Options = read(options)?;
    let platform = Platform::resolve(platform).map_err(platform_error)?;
    let states = platform.clusters.iter().map(|c| c.idle_states.len()).max().unwrap_or(0);
    let request = Request { traces, platform, governors: Vec::new(), options };
    let found = watched(py, progress, |watch| spans_of(&request, watch))?;
    Ok(Spans(Arc::new(All { traces: found.map_err(engine_error)?, states })))
}
