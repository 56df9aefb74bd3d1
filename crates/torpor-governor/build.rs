// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Compiles the guard, and each built-in governor for the four tick rates, and writes the table
//! that embeds them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

#[path = "src/flags.rs"]
mod flags;

const HZ: [u32; 4] = [100, 250, 300, 1000];

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let root = manifest.join("../..").canonicalize().unwrap();
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let kapi = root.join("kapi");
    let governors = root.join("governors/cpuidle");
    for path in ["src/guard.c", "src/flags.rs", "build.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
    println!("cargo::rerun-if-changed={}", kapi.display());
    println!("cargo::rerun-if-changed={}", governors.display());

    cc::Build::new().file("src/guard.c").opt_level(2).compile("torpor_guard");

    let compiler = cc::Build::new().get_compiler();
    let mut table = String::new();
    write_kapi(&mut table, &kapi);
    writeln!(table, "pub(crate) static BUILTINS: &[BuiltinFile] = &[").unwrap();
    for source in files_with_suffix(&governors, "c") {
        let name = source.file_stem().unwrap().to_str().unwrap();
        writeln!(
            table,
            "BuiltinFile {{ name: {name:?}, source: include_str!({source:?}), images: ["
        )
        .unwrap();
        for hz in HZ {
            let image = out.join(format!("{name}-{hz}.so"));
            let mut command = Command::new(compiler.path());
            command.args(flags::image()).arg(flags::hz_define(hz));
            command.arg("-I").arg(kapi.join("include")).arg("-o").arg(&image);
            command.arg("-Werror").arg(&source).arg(kapi.join("image.c"));
            let status = command.status().expect("the C compiler could not be started");
            assert!(status.success(), "{} does not compile: {command:?}", source.display());
            writeln!(table, "include_bytes!({image:?}),").unwrap();
        }
        writeln!(table, "] }},").unwrap();
    }
    writeln!(table, "];").unwrap();
    fs::write(out.join("embedded.rs"), table).unwrap();
}

/// The kapi as (path below `kapi/`, text), to compile foreign governors on machines without it.
fn write_kapi(table: &mut String, kapi: &Path) {
    let mut files = vec![kapi.join("image.c")];
    collect_headers(&kapi.join("include"), &mut files);
    files.sort();
    writeln!(table, "pub(crate) static KAPI: &[(&str, &str)] = &[").unwrap();
    for file in files {
        let name = file.strip_prefix(kapi).unwrap();
        writeln!(table, "({name:?}, include_str!({file:?})),").unwrap();
    }
    writeln!(table, "];").unwrap();
}

fn collect_headers(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_headers(&path, found);
        } else if path.extension().is_some_and(|e| e == "h") {
            found.push(path);
        }
    }
}

fn files_with_suffix(dir: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap_or_else(|e| panic!("read {}: {e}", dir.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == suffix))
        .collect();
    files.sort();
    files
}
