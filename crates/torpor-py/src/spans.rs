// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Idle spans as Arrow, a batch at a time: a recording has more of them than memory for a table.

use crate::columns::{batch, columns, verdict};
use crate::errors::{EngineError, engine_error, platform_error, value_error};
use crate::plain::Plain;
use crate::result::read;
use crate::table::{Table, write_batches};
use crate::watch::watched;
use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use torpor_engine::spans::{Spanned, SpannedCpu, bound::bounds};
use torpor_engine::{Options, Request, spans_of};
use torpor_machine::platform::Platform;
use torpor_machine::units::{Duration, parse_duration};

/// Rows of a batch.
const ROWS: usize = 65_536;

/// The idle spans of recordings on a machine.
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

fn rows(
    trace: &Spanned,
    cpu: &SpannedCpu,
    states: usize,
    range: std::ops::Range<usize>,
) -> Result<RecordBatch, ArrowError> {
    let of_state = |index: usize, state: usize| {
        let model = cpu.model.states.get(state).filter(|model| model.is_allowed);
        model.map(|_| cpu.choice(&cpu.input.spans[index], state))
    };
    let choices: Vec<Vec<_>> =
        range.clone().map(|index| (0..states).map(|s| of_state(index, s)).collect()).collect();
    let spans = range.zip(&choices).map(|(index, choices)| {
        let costs = choices.iter().enumerate();
        let best = costs.filter_map(|(state, c)| Some((c.as_ref()?.0.energy, state))).min();
        (index, &cpu.input.spans[index], cpu.known(index), best)
    });
    let (path, number) = (&trace.path, cpu.input.cpu.0);
    let fixed = columns! { spans, (index, of, known, best) =>
        trace: StringBuilder = Some(path);
        cpu: Int64Builder = Some(i64::from(number));
        span: Int64Builder = Some(index as i64);
        time_ns: Int64Builder = Some(of.start.0);
        sleep_length_ns: Int64Builder = Some(known.sleep_length.ns());
        to_tick_ns: Int64Builder = Some(known.to_tick.ns());
        busy_ns: Int64Builder = known.busy.map(Duration::ns);
        last_ns: Int64Builder = known.last[0].map(Duration::ns);
        last2_ns: Int64Builder = known.last[1].map(Duration::ns);
        last3_ns: Int64Builder = known.last[2].map(Duration::ns);
        util: Int64Builder = Some(known.util as i64);
        nr_iowait: Int64Builder = Some(i64::from(of.nr_iowait));
        nr_running: Int64Builder = Some(i64::from(of.nr_running));
        freq_khz: Int64Builder = Some(i64::from(of.freq_khz)).filter(|&khz| khz > 0);
        length_ns: Int64Builder = Some(of.wake.since(of.start).ns());
        best_state: Int64Builder = best.map(|(_, state)| state as i64);
        source: StringBuilder = Some(of.source.key());
        cause: StringBuilder = Some(crate::columns::cause(of.is_resched, of.stamp));
        brings_task: BooleanBuilder = Some(of.ends_visit);
    };
    let mut all: Vec<(String, ArrayRef)> =
        fixed.into_iter().map(|(name, array)| (name.to_owned(), array)).collect();
    for state in 0..states {
        let has_power = trace.has_power;
        let of_states = columns! { choices.iter().map(|choices| &choices[state]), choice =>
            energy_uj: Float64Builder =
                choice.as_ref().filter(|_| has_power).map(|c| c.0.energy.as_uj_f64());
            delay_ns: Int64Builder = choice.as_ref().map(|c| c.0.delay.ns());
            outcome: StringBuilder = choice.as_ref().map(|c| verdict(c.1));
        };
        all.extend(
            of_states.into_iter().map(|(name, array)| (format!("state{state}_{name}"), array)),
        );
    }
    batch(all.iter().map(|(name, array)| (name.as_str(), Arc::clone(array))))
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

    /// The bound for a governor with limited knowledge and a mean delay of at most `delay`, for one
    /// of the recordings.
    fn bounds(&self, py: Python<'_>, recording: usize, delay: &str) -> PyResult<Plain<Value>> {
        let delay = parse_duration(delay).map_err(value_error)?;
        Ok(Plain(py.detach(|| json!(bounds(&self.0.traces[recording].cpus, delay)))))
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
