// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Hashes the source of the readers: the cache of recordings has no events of other ones.

use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src");
    let mut files = Vec::new();
    collect(Path::new("src"), &mut files);
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        hash.update(file.to_str().expect("names of sources are text"));
        hash.update(fs::read(&file).expect("a source is readable"));
    }
    let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=TORPOR_READERS={hash}");
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources is readable") {
        let path = entry.expect("it stays").path();
        match path.is_dir() {
            true => collect(&path, found),
            false => found.push(path),
        }
    }
}
