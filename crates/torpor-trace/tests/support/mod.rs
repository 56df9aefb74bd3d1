// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Shared by the tests of this crate.
#![allow(dead_code)] // Each test takes what it needs.

pub mod dat;
pub mod dat_sample;
pub mod perf;
pub mod proto;

use std::path::{Path, PathBuf};

/// A recording beside the project, or a line that says why the test did not run.
pub fn shared_trace(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("../shared/traces").join(name);
    if path.exists() {
        return Some(path);
    }
    println!("not run: ../shared/traces is absent");
    None
}

/// A recording of the project's own.
pub fn own_trace(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}
