// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Governors as Python names them, and the catalog that finds them.

use crate::errors::governor_error;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use std::ffi::{CString, OsString};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use torpor_governor::{Catalog, CatalogOptions, GovernorSpec, Isolation};

/// Names as a command line gives them: of any bytes.
pub(crate) fn governor_specs(texts: &[OsString]) -> PyResult<Vec<GovernorSpec>> {
    texts.iter().map(|text| GovernorSpec::from_os(text).map_err(governor_error)).collect()
}

/// `isolate`: a process for every governor, or none for any; by default for those that do not ship.
/// `stop` ends a compiler.
pub(crate) fn catalog(isolate: Option<bool>, stop: Option<Arc<AtomicBool>>) -> Catalog {
    let isolation = match isolate {
        None => Isolation::Foreign,
        Some(true) => Isolation::All,
        Some(false) => Isolation::None,
    };
    Catalog::new(CatalogOptions { isolation, stop, ..Default::default() })
}

/// Warns about the cache, which no result contains.
pub(crate) fn warn(py: Python<'_>, catalog: &Catalog) -> PyResult<()> {
    for note in catalog.take_notes() {
        let note = CString::new(note.replace('\0', "")).expect("without NUL");
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &note, 2)?;
    }
    Ok(())
}
