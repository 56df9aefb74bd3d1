// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The exception tree, and the conversion of each crate's error.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use torpor_machine::units::Hz;

create_exception!(
    torpor,
    TorporError,
    PyException,
    "The base of Torpor's errors: a wrong input or file, with what is allowed."
);
create_exception!(torpor, TraceError, TorporError, "A recording is missing or unreadable.");
create_exception!(
    torpor,
    MemoryBoundError,
    TraceError,
    "A recording takes more memory than it may."
);
create_exception!(torpor, PlatformError, TorporError, "A machine is unknown or its file is wrong.");
create_exception!(torpor, CountersError, TorporError, "A dump of idle counters cannot be used.");
create_exception!(
    torpor,
    GovernorError,
    TorporError,
    "A governor is unknown, does not compile, or cannot be loaded."
);
create_exception!(
    torpor,
    WorkloadError,
    TorporError,
    "A workload is unknown or its file is wrong."
);
create_exception!(torpor, PatchError, TorporError, "Patches are damaged, or do not apply.");
create_exception!(torpor, EngineError, TorporError, "A replay that cannot be done as asked.");

pub(crate) fn trace_error(error: torpor_trace::TraceError) -> PyErr {
    match error {
        torpor_trace::TraceError::OverMemory { .. } | torpor_trace::TraceError::TooLarge { .. } => {
            MemoryBoundError::new_err(error.to_string())
        }
        error => TraceError::new_err(error.to_string()),
    }
}

pub(crate) fn counters_error(error: torpor_machine::counters::CountersError) -> PyErr {
    CountersError::new_err(error.to_string())
}

pub(crate) fn platform_error(error: torpor_machine::platform::PlatformError) -> PyErr {
    PlatformError::new_err(error.to_string())
}

pub(crate) fn governor_error(error: torpor_governor::GovernorError) -> PyErr {
    GovernorError::new_err(error.to_string())
}

pub(crate) fn patch_error(error: torpor_patch::PatchError) -> PyErr {
    PatchError::new_err(error.to_string())
}

pub(crate) fn engine_error(error: torpor_engine::EngineError) -> PyErr {
    match error {
        torpor_engine::EngineError::Trace(error) => trace_error(error),
        torpor_engine::EngineError::Governor(error) => governor_error(error),
        torpor_engine::EngineError::Platform(error) => platform_error(error),
        error => EngineError::new_err(error.to_string()),
    }
}

pub(crate) fn check_error(error: torpor_check::CheckError) -> PyErr {
    GovernorError::new_err(error.to_string())
}

pub(crate) fn sim_error(error: torpor_sim::SimError) -> PyErr {
    use torpor_sim::SimError;
    match error {
        SimError::Platform(error) => platform_error(error),
        SimError::Engine(error) => engine_error(error),
        SimError::Governor(error) => governor_error(error),
        SimError::Workload { .. }
        | SimError::Param { .. }
        | SimError::Read { .. }
        | SimError::UnknownWorkload(_) => WorkloadError::new_err(error.to_string()),
        error => EngineError::new_err(error.to_string()),
    }
}

/// The tick rate for a number, which must be one that a kernel can be built with.
pub(crate) fn parse_hz(hz: u32) -> PyResult<Hz> {
    Hz::from_u32(hz).ok_or_else(|| value_error(torpor_result::options::no_hz(hz)))
}

/// A wrong argument that concerns neither a file nor a machine.
pub(crate) fn value_error(error: impl ToString) -> PyErr {
    TorporError::new_err(error.to_string())
}
