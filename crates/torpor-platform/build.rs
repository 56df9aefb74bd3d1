// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Lists `platforms/*.toml` and `platforms/io_devices/*.toml` for `builtin.rs`, so that adding a
//! machine or a device means adding one file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("../../platforms")
        .canonicalize()
        .expect("the workspace has a folder `platforms`");
    list(&folder, "builtins.rs");
    list(&folder.join("io_devices"), "io_devices.rs");
}

/// Writes the stem and text of each TOML file of a folder as a Rust array.
fn list(folder: &Path, name: &str) {
    println!("cargo::rerun-if-changed={}", folder.display());

    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder can be listed")
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "toml"))
        .collect();
    files.sort();

    let mut list = String::from("&[\n");
    for file in &files {
        println!("cargo::rerun-if-changed={}", file.display());
        let name = file.file_stem().and_then(|s| s.to_str()).expect("file names are UTF-8");
        writeln!(list, "    ({name:?}, include_str!({file:?})),").expect("strings take all text");
    }
    list.push_str("]\n");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join(name);
    fs::write(out, list).expect("cargo's output folder can be written");
}
