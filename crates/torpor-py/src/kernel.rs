// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Governors as kernel modules, and ids of kernels.

use crate::errors::{governor_error, parse_hz, sim_error};
use crate::hosting::catalog;
use crate::watch::watched;
use pyo3::prelude::*;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use torpor_governor::{Catalog, GovernorError, GovernorSpec, Origin, SchedulerSpec};
use torpor_sim::KernelSpec;
use torpor_sim::kernel::{DEFAULT_KERNEL, Kernels};

type Files = BTreeMap<String, Cow<'static, [u8]>>;

/// Files of a governor that become a module; crosses as a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct GovernorSource {
    name: String,
    is_builtin: bool,
    /// The governor's own among `files`.
    main: String,
    files: Files,
    /// The options as given, and checked.
    params: Vec<(String, String)>,
}

/// Finds a governor's source by the name that users give it.
#[pyfunction]
pub(crate) fn governor_source(py: Python<'_>, spec: OsString) -> PyResult<GovernorSource> {
    let spec = GovernorSpec::from_os(&spec).map_err(governor_error)?;
    let found = py
        .detach(|| Catalog::new(Default::default()).source_files(&spec))
        .map_err(governor_error)?;
    if !found.parts.is_empty() {
        let reason = format!(
            "{spec}: a governor of several files is not built as a module; its folder's Makefile \
             builds it in a kernel tree"
        );
        return Err(governor_error(GovernorError::Other(reason)));
    }
    Ok(GovernorSource {
        name: found.name,
        is_builtin: matches!(found.origin, Origin::Builtin),
        main: found.main,
        files: found.files.into_iter().map(|(name, text)| (name, Cow::Owned(text))).collect(),
        params: spec.params().to_vec(),
    })
}

/// Returns the program of a scheduler and the headers of its tree that it includes, by their places.
#[pyfunction]
pub(crate) fn scheduler_files(spec: &str) -> PyResult<Files> {
    let spec: SchedulerSpec = spec.parse().map_err(governor_error)?;
    let found = Catalog::new(Default::default()).unchecked_files(&spec).map_err(governor_error)?;
    Ok(found.files.into_iter().map(|(name, text)| (name, Cow::Owned(text))).collect())
}

/// Returns whether a kernel can be hosted here: its image ships with Torpor, or its source is found.
#[pyfunction]
pub(crate) fn has_hosted_kernel(kernel: &str, hz: u32) -> PyResult<bool> {
    let Ok(spec): Result<KernelSpec, Infallible> = kernel.parse();
    let has = Kernels::of(&catalog(None, None)).has(&spec, parse_hz(hz)?);
    has.map_err(|error| sim_error(error.into()))
}

/// The release hosted by default.
#[pyfunction]
pub(crate) fn default_kernel() -> &'static str {
    DEFAULT_KERNEL
}

/// Returns a kernel's id, a hash of its inputs. Compiles the kernel if it is not cached, or if
/// policies must be linked to it.
#[pyfunction]
#[pyo3(signature = (kernel, hz, is_linked, progress = None))]
pub(crate) fn hosted_kernel_id(
    py: Python<'_>,
    kernel: &str,
    hz: u32,
    is_linked: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let hz = parse_hz(hz)?;
    let Ok(spec): Result<KernelSpec, Infallible> = kernel.parse();
    watched(py, progress, |watch| {
        let catalog = catalog(None, Some(watch.stop()));
        torpor_sim::kernel_id(&spec, hz, is_linked, &catalog, watch).map_err(sim_error)
    })?
}

/// Returns the files of a kernel's tree that its image is made of, headers among them. Compiles the
/// kernel if it is not cached.
#[pyfunction]
#[pyo3(signature = (kernel, hz, progress = None))]
pub(crate) fn hosted_inputs(
    py: Python<'_>,
    kernel: &str,
    hz: u32,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<String>> {
    let hz = parse_hz(hz)?;
    let Ok(spec): Result<KernelSpec, Infallible> = kernel.parse();
    watched(py, progress, |watch| {
        let catalog = catalog(None, Some(watch.stop()));
        torpor_sim::kernel_inputs(&spec, hz, &catalog, watch).map_err(sim_error)
    })?
}
