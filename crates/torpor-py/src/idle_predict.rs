// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A load for the machine that this runs on.

use crate::errors::{EngineError, value_error};
use crate::plain::Plain;
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::time::Duration;
use torpor_result::idle_predict;

/// The threads of `idle-predict`; they run until `finish()`.
#[pyclass(module = "torpor._engine")]
pub struct IdlePredict {
    running: Option<idle_predict::Running>,
}

#[pymethods]
impl IdlePredict {
    #[new]
    fn new(threads: u32, loops: u32, delay_ns: u64, pause_ns: u64) -> PyResult<IdlePredict> {
        let load = idle_predict::IdlePredict {
            threads,
            loops,
            delay: Duration::from_nanos(delay_ns),
            pause: Duration::from_nanos(pause_ns),
        };
        let running = load
            .start()
            .map_err(|error| EngineError::new_err(format!("start {threads} threads: {error}")))?;
        Ok(IdlePredict { running: Some(running) })
    }

    /// Stops the threads and returns their counts.
    fn finish(&mut self) -> PyResult<Plain<Value>> {
        let running = self.running.take();
        let done = running.ok_or_else(|| value_error("it is over already"))?.finish();
        Ok(Plain(json!({
            "elapsed_ns": done.elapsed.as_nanos() as u64,
            "delays": done.delays,
            "pauses": done.pauses,
        })))
    }
}
