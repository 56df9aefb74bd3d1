// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Embeds the host's files and the IO boosts, so that kernels can be compiled where the repository
//! is not.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Folders of the repository, and the tables that have their files.
const FOLDERS: &[(&str, &[&str])] = &[
    ("KHOST", &["khost"]),
    // By path from the repository: the script finds the boosts by it.
    ("IO_BOOST", &["kernel/ioboost", "governors/ioboost"]),
];

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let root = manifest.join("../..");
    println!("cargo::rerun-if-changed=build.rs");
    let mut tables = String::new();
    for (table, folders) in FOLDERS {
        let mut files = Vec::new();
        for folder in *folders {
            // Relative: in a copy of the checkout, built files and all, these are the copy's.
            println!("cargo::rerun-if-changed=../../{folder}");
            collect(&root.join(folder), &mut files);
        }
        files.sort();
        let base = if folders.len() == 1 { root.join(folders[0]) } else { root.clone() };
        writeln!(tables, "pub(crate) static {table}: &[(&str, &str)] = &[").unwrap();
        for file in files {
            let name = file.strip_prefix(&base).unwrap().to_str().unwrap();
            let path = format!("/../../{}", file.strip_prefix(&root).unwrap().to_str().unwrap());
            let path = format!("concat!(env!(\"CARGO_MANIFEST_DIR\"), {path:?})");
            writeln!(tables, "({name:?}, include_str!({path})),").unwrap();
        }
        tables.push_str("];\n");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    fs::write(out.join("khost.rs"), tables).unwrap();
}

fn collect(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => collect(&path, found),
            false if path.extension().is_some_and(|kind| kind == "pyc") => {}
            false => found.push(path),
        }
    }
}
