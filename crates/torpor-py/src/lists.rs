// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Catalogues, and parsing of CPU lists and durations.

use crate::content::to_python;
use crate::errors::parse_hz;
use crate::errors::{
    engine_error, governor_error, platform_error, sim_error, trace_error, value_error,
};
use crate::plain::Plain;
use crate::watch::watched;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Value, json};
use std::path::PathBuf;
use torpor_engine::input::Draft;
use torpor_engine::timeline::Folding;
use torpor_engine::{RecordedUsage, TraceInfo};
use torpor_governor::{BuiltinBoost, Catalog};
use torpor_machine::platform::ImportOptions;
use torpor_machine::units::CpuId;
use torpor_sim::Cpufreq;

/// Describes a policy without parameters.
fn policy(name: &str, summary: &str, origin: &str) -> Value {
    json!({
        "name": name,
        "summary": summary,
        "rating": null,
        "origin": origin,
        "source_sha256": null,
        "params": [],
    })
}

fn param(name: &str, kind: &str, default: Value, description: &str) -> Value {
    json!({ "name": name, "type": kind, "default": default, "description": description })
}

/// The built-in governors and the engine's oracle.
#[pyfunction]
pub(crate) fn governors() -> PyResult<Plain<Value>> {
    let mut list = Vec::new();
    for builtin in Catalog::builtins().map_err(governor_error)? {
        let params = builtin.params.iter();
        let params =
            params.map(|p| param(&p.name, p.kind.name(), json!(p.default), &p.description));
        let mut one = policy(builtin.name, &builtin.summary, "built in");
        one["params"] = params.collect();
        one["rating"] = json!(builtin.rating);
        one["source_sha256"] = json!(builtin.source_sha256);
        list.push(one);
    }
    let summary = "Knows every wake-up before it comes; the least idle energy that can be had";
    list.push(policy(torpor_engine::ORACLE, summary, "engine"));
    Ok(Plain(list.into()))
}

/// The built-in IO boosts.
#[pyfunction]
pub(crate) fn ioboosts() -> PyResult<Plain<Value>> {
    let described = |boost: &BuiltinBoost| {
        let mut one = policy(boost.name, &boost.summary, "built in");
        let params = boost.params.iter();
        one["params"] =
            params.map(|p| param(&p.name, &p.kind, Value::Null, &p.description)).collect();
        one["source_sha256"] = json!(boost.source_sha256);
        one
    };
    let builtins = Catalog::ioboosts().map_err(governor_error)?;
    Ok(Plain(builtins.iter().map(described).collect()))
}

/// The cpufreq governors of a kernel.
#[pyfunction]
pub(crate) fn cpufreqs() -> Plain<Value> {
    let all = Cpufreq::SUMMARIES.into_iter();
    Plain(all.map(|(name, summary)| policy(name, summary, "kernel")).collect())
}

/// The built-in machines.
#[pyfunction]
pub(crate) fn platforms() -> Plain<Value> {
    let list = torpor_machine::platform::builtins().into_iter().map(|builtin| {
        let platform = &builtin.platform;
        let mut states: Vec<&str> = Vec::new();
        for state in platform.clusters.iter().flat_map(|c| &c.idle_states) {
            if !states.contains(&state.name.as_str()) {
                states.push(&state.name);
            }
        }
        json!({
            "name": builtin.name,
            "title": platform.title,
            "cpus": platform.cpu_count(),
            "clusters": platform.clusters.iter().map(|c| &c.name).collect::<Vec<_>>(),
            "states": states,
            "has_power": platform.has_power(),
            "power_includes": platform.power_includes,
            "power_missing": platform.power_missing,
        })
    });
    Plain(list.collect())
}

/// The TOML text of a machine, with the numbers after its name.
#[pyfunction]
pub(crate) fn platform_toml(name: &str) -> PyResult<String> {
    let document = torpor_machine::platform::document(name).map_err(platform_error)?;
    torpor_machine::platform::from_document(&document).map_err(platform_error)?;
    Ok(document.to_toml().into_owned())
}

/// Imports sysfs or a device tree: the TOML text, the same as values, and notes on what was
/// assumed.
#[pyfunction]
#[pyo3(signature = (root, name, title = None, hz = None, energy_model = None))]
pub(crate) fn import_platform<'py>(
    py: Python<'py>,
    root: PathBuf,
    name: String,
    title: Option<String>,
    hz: Option<u32>,
    energy_model: Option<PathBuf>,
) -> PyResult<(String, Bound<'py, PyDict>, Vec<String>)> {
    let options = ImportOptions { name, title, hz: hz.map(parse_hz).transpose()?, energy_model };
    let imported =
        py.detach(|| torpor_machine::platform::import(&root, &options)).map_err(platform_error)?;
    let document = imported.document;
    let content = to_python(py, &document.content)?;
    Ok((document.to_toml().into_owned(), content, imported.notes))
}

/// The formats of recordings, the events read from them, and what a reader may skip.
#[pyfunction]
pub(crate) fn trace_formats() -> Plain<Value> {
    let formats = torpor_trace::formats().iter().map(|format| {
        let torpor_trace::Format { name, files, recognised_by, .. } = format;
        json!({ "name": name, "files": files, "recognised_by": recognised_by })
    });
    let losses = torpor_trace::loss_kinds().iter().map(
        |loss| json!({ "key": loss.key, "severity": loss.severity.name(), "advice": loss.advice }),
    );
    Plain(json!({
        "formats": formats.collect::<Vec<_>>(),
        "events": torpor_trace::event_names().collect::<Vec<_>>(),
        "losses": losses.collect::<Vec<_>>(),
    }))
}

/// Returns what a file is by its beginning, and a hint.
#[pyfunction]
pub(crate) fn what_file(head: &[u8]) -> (String, String) {
    torpor_trace::what(head)
}

/// Returns the contents of a recording: the result's `trace` object, and its CPUs.
#[pyfunction]
#[pyo3(signature = (path, progress = None))]
pub(crate) fn trace_info(
    py: Python<'_>,
    path: PathBuf,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Plain<Value>> {
    let mut contents = Folding::new((RecordedUsage::default(), Draft::new(None)));
    let trace = watched(py, progress, |watch| torpor_engine::stream(&path, &mut contents, watch))?
        .map_err(engine_error)?;
    let mut info = json!(TraceInfo::new(&path.display().to_string(), &trace));
    let (usage, draft) = contents.finish();
    info["cpus"] = json!(usage.finish());
    info["event_to_exit"] = json!(draft.finish().stats.event_to_exit);
    Ok(Plain(info))
}

/// Returns the name that a recording has for its machine, and the machine's number of CPUs; `None`
/// if it has none.
#[pyfunction]
pub(crate) fn machine_named(py: Python<'_>, path: PathBuf) -> PyResult<Option<(String, u32)>> {
    watched(py, None, |_| torpor_trace::machine_named(&path).map_err(trace_error))?
}

/// Writes a recording in the format of the new file's name.
#[pyfunction]
pub(crate) fn convert_trace(py: Python<'_>, path: PathBuf, out: PathBuf) -> PyResult<()> {
    watched(py, None, |watch| {
        let trace = torpor_engine::whole(&path, watch).map_err(engine_error)?;
        torpor_sim::record::write(&trace, &out).map_err(sim_error)
    })?
}

/// Parses a duration with its unit, into ns.
#[pyfunction]
pub(crate) fn parse_duration_ns(text: &str) -> PyResult<i64> {
    torpor_machine::units::parse_duration(text).map(|d| d.ns()).map_err(value_error)
}

/// Formats ascending CPUs as a kernel CPU list.
#[pyfunction]
pub(crate) fn format_cpu_list(cpus: Vec<u32>) -> String {
    torpor_machine::toml::format_cpu_list(&cpus.into_iter().map(CpuId).collect::<Vec<_>>())
}

/// Parses a kernel CPU list; the CPUs are ascending.
#[pyfunction]
pub(crate) fn parse_cpu_list(text: &str) -> PyResult<Vec<u32>> {
    let cpus = torpor_machine::toml::parse_cpu_list(text).map_err(value_error)?;
    Ok(cpus.into_iter().map(|cpu| cpu.0).collect())
}

/// Returns why a file that does not exist cannot be read, with what is there instead.
#[pyfunction]
pub(crate) fn missing_file(path: std::path::PathBuf) -> String {
    torpor_machine::units::unreadable(&path, &std::io::ErrorKind::NotFound.into())
}

/// Returns the message for an unknown name: the names that exist, and the likely one.
#[pyfunction]
pub(crate) fn unknown_name(kind: &str, name: &str, known: Vec<String>, otherwise: &str) -> String {
    let known = known.iter().map(String::as_str);
    torpor_machine::units::UnknownName::new(kind, name, known, otherwise).to_string()
}
