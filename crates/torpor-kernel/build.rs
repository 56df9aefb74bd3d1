// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Embeds the host's files, so that kernels can be compiled where the repository is not.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

const KHOST: &str = "../../khost";

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let khost = manifest.join(KHOST);
    // Relative: in a copy of the checkout, built files and all, these are the copy's.
    println!("cargo::rerun-if-changed={KHOST}");
    println!("cargo::rerun-if-changed=build.rs");
    let mut files = Vec::new();
    collect(&khost, &mut files);
    files.sort();
    let mut table = "pub(crate) static KHOST: &[(&str, &str)] = &[\n".to_owned();
    for file in files {
        let name = file.strip_prefix(&khost).unwrap().to_str().unwrap();
        let path = format!("/{KHOST}/{name}");
        let path = format!("concat!(env!(\"CARGO_MANIFEST_DIR\"), {path:?})");
        writeln!(table, "({name:?}, include_str!({path})),").unwrap();
    }
    table.push_str("];\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    fs::write(out.join("khost.rs"), table).unwrap();
}

fn collect(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => collect(&path, found),
            false => found.push(path),
        }
    }
}
