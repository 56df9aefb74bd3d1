// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Files of a kernel tree with patches on top.

use crate::tree_spec::SeriesSpec;
use std::collections::BTreeMap;
use torpor_patch::{Base, Series};

/// Files that patches change, by path in the tree; `None` for one that they delete.
pub type Changes = BTreeMap<String, Option<Vec<u8>>>;

/// Applies patches to the files of a tree that `is_needed` selects. The error says which hunks do
/// not apply.
pub fn apply(
    series: &SeriesSpec,
    base: &dyn Base,
    is_needed: &dyn Fn(&str) -> bool,
) -> Result<Changes, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let parsed = Series::read(&series.path).map_err(|error| text(&error))?;
    let count = parsed.patches.iter().map(|patch| patch.number).max().unwrap_or(0);
    let last = series.last.unwrap_or(count);
    if last > count {
        let path = series.path.display();
        return Err(format!("`{path}` has no patch {last}: expected 1 to {count}"));
    }
    let overlay = torpor_patch::apply_within(&parsed, series.first..=last, base, is_needed)
        .map_err(|rejects| text(&rejects))?;
    Ok(overlay.files)
}
