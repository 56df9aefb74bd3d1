// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Governor names from Python, and the catalog that resolves them.

use crate::errors::governor_error;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use std::ffi::{CString, OsString};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use torpor_governor::{Catalog, CatalogOptions, GovernorSpec, Isolation};

/// Parses names from a command line, which may hold any bytes.
pub(crate) fn governor_specs(texts: &[OsString]) -> PyResult<Vec<GovernorSpec>> {
    texts.iter().map(|text| GovernorSpec::from_os(text).map_err(governor_error)).collect()
}

/// Returns the catalog. `isolate`: a process for every governor, or for none; by default for those
/// that do not ship. `stop` ends a compiler.
pub(crate) fn catalog(isolate: Option<bool>, stop: Option<Arc<AtomicBool>>) -> Catalog {
    let isolation = match isolate {
        None => Isolation::Foreign,
        Some(true) => Isolation::All,
        Some(false) => Isolation::None,
    };
    Catalog::new(CatalogOptions { isolation, stop, ..Default::default() })
}

/// Warns about the cache of compiled governors; results do not mention it.
pub(crate) fn warn(py: Python<'_>, catalog: &Catalog) -> PyResult<()> {
    for note in catalog.take_notes() {
        let note = CString::new(note.replace('\0', "")).expect("without NUL");
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &note, 2)?;
    }
    Ok(())
}
