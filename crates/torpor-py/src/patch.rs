// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Series of patches, and whether they apply to a tree.

use crate::errors::patch_error;
use crate::plain::Plain;
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use torpor_patch::{Applied, FileDiff, Folder, Kind, Patch, Reject, Series, apply};

/// Reads a file or folder of patches; `data` is the content of the file, if it was read before.
#[pyfunction]
#[pyo3(signature = (path, data = None))]
pub(crate) fn read_series(
    py: Python<'_>,
    path: PathBuf,
    data: Option<Vec<u8>>,
) -> PyResult<Plain<Value>> {
    py.detach(|| series(&path, data.as_deref()).map(|series| Plain(of_series(&series))))
}

/// Applies patches `first` to `last` of a series to a folder, in memory.
#[pyfunction]
#[pyo3(signature = (path, folder, first = None, last = None, data = None))]
pub(crate) fn apply_series(
    py: Python<'_>,
    path: PathBuf,
    folder: PathBuf,
    first: Option<u32>,
    last: Option<u32>,
    data: Option<Vec<u8>>,
) -> PyResult<Plain<Value>> {
    py.detach(|| {
        let series = series(&path, data.as_deref())?;
        let range = first.unwrap_or(1)..=last.unwrap_or(u32::MAX);
        let (overlay, rejects) = match apply(&series, range, &Folder(folder)) {
            Ok(overlay) => (overlay, Vec::new()),
            Err(rejects) => (torpor_patch::Overlay::default(), rejects.0),
        };
        let paths = |is_deleted: bool| -> Vec<&String> {
            let files = overlay.files.iter();
            files.filter(|file| file.1.is_none() == is_deleted).map(|file| file.0).collect()
        };
        Ok(Plain(json!({
            "applied": overlay.applied.iter().map(of_applied).collect::<Vec<_>>(),
            "changed": paths(false),
            "deleted": paths(true),
            "rejects": rejects.iter().map(of_reject).collect::<Vec<_>>(),
        })))
    })
}

fn series(path: &Path, data: Option<&[u8]>) -> PyResult<Series> {
    let series = match data {
        Some(data) => Series::from_bytes(&path.to_string_lossy(), data),
        None => Series::read(path),
    };
    series.map_err(patch_error)
}

fn of_series(series: &Series) -> Value {
    json!({
        "subject": series.subject,
        "version": series.version,
        "message_id": series.message_id,
        "cover": series.cover,
        "base_commit": series.base_commit,
        "prerequisites": series.prerequisites,
        "patch_id": series.patch_id(0..=u32::MAX),
        "missing": series.missing,
        "notes": series.notes,
        "patches": series.patches.iter().map(of_patch).collect::<Vec<_>>(),
    })
}

fn of_patch(patch: &Patch) -> Value {
    json!({
        "number": patch.number,
        "total": patch.total,
        "subject": patch.subject,
        "message_id": patch.message_id,
        "author": patch.author,
        "date": patch.date,
        "patch_id": patch.patch_id(),
        "message": patch.message,
        "files": patch.files.iter().map(of_file).collect::<Vec<_>>(),
    })
}

fn of_file(file: &FileDiff) -> Value {
    let kind = match file.kind {
        Kind::Modify => "modify",
        Kind::Add => "add",
        Kind::Delete => "delete",
        Kind::Rename => "rename",
        Kind::Copy => "copy",
        Kind::Binary => "binary",
    };
    json!({
        "path": file.path,
        "old_path": file.old_path,
        "old_blob": file.old_blob,
        "new_blob": file.new_blob,
        "kind": kind,
        "hunks": file.hunks.len(),
        "added": file.added(),
        "removed": file.removed(),
    })
}

fn of_applied(applied: &Applied) -> Value {
    json!({"patch": applied.patch, "path": applied.path, "offsets": applied.offsets})
}

fn of_reject(reject: &Reject) -> Value {
    json!({
        "patch": reject.patch,
        "subject": reject.subject,
        "path": reject.path,
        "hunk": reject.hunk,
        "hunks": reject.hunk_count,
        "heading": reject.heading,
        "line": reject.line,
        "expected": reject.expected,
        "found": reject.found,
        "reason": reject.reason.name(),
        "text": reject.to_string(),
    })
}
