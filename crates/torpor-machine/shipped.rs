// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Lists TOML files that ship, for build scripts: to add one, add only the file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Writes stem and text of each TOML file of a folder of the workspace, in the order of their
/// names, as a Rust slice that `include!` takes from `OUT_DIR`.
pub fn list(folder: &str, name: &str) {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("../..")
        .join(folder)
        .canonicalize()
        .unwrap_or_else(|error| panic!("the workspace has a folder `{folder}`: {error}"));
    println!("cargo::rerun-if-changed={}", folder.display());

    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("the folder can be listed")
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "toml"))
        .collect();
    files.sort();

    let mut list = String::from("&[\n");
    for file in &files {
        println!("cargo::rerun-if-changed={}", file.display());
        let stem = file.file_stem().and_then(|s| s.to_str()).expect("file names are UTF-8");
        writeln!(list, "    ({stem:?}, include_str!({file:?})),").expect("strings take all text");
    }
    list.push_str("]\n");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join(name);
    fs::write(out, list).expect("cargo's output folder can be written");
}
