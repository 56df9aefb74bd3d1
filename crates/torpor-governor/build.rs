// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Compiles the guard, and each built-in policy for the four tick rates, and writes the tables that
//! embed them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

#[path = "src/flags.rs"]
mod flags;

const HZ: [u32; 4] = [100, 250, 300, 1000];
const KAPI: &str = "../../kapi";
const GOVERNORS: &str = "../../governors/cpuidle";
const IOBOOSTS: &str = "../../governors/ioboost";

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let [kapi, governors, ioboosts] = [KAPI, GOVERNORS, IOBOOSTS].map(|path| manifest.join(path));
    // Relative: in a copy of the checkout, built files and all, these are the copy's.
    for path in ["src/guard.c", "src/flags.rs", "build.rs", KAPI, GOVERNORS, IOBOOSTS] {
        println!("cargo::rerun-if-changed={path}");
    }

    cc::Build::new().file("src/guard.c").opt_level(2).compile("torpor_guard");

    let mut table = String::new();
    write_kapi(&mut table, &kapi, &ioboosts);
    for (kind, folder) in [("GOVERNORS", &governors), ("IOBOOSTS", &ioboosts)] {
        write_policies(&mut table, kind, folder, &kapi, &out);
    }
    fs::write(out.join("embedded.rs"), table).unwrap();
}

fn write_policies(table: &mut String, kind: &str, folder: &Path, kapi: &Path, out: &Path) {
    let compiler = cc::Build::new().get_compiler();
    writeln!(table, "pub(crate) static {kind}: &[BuiltinFile] = &[").unwrap();
    for source in files_with_suffix(folder, "c") {
        let name = source.file_stem().unwrap().to_str().unwrap();
        writeln!(
            table,
            "BuiltinFile {{ name: {name:?}, source: include_str!({}), images: [",
            below("CARGO_MANIFEST_DIR", &source)
        )
        .unwrap();
        for hz in HZ {
            let image = out.join(format!("{kind}-{name}-{hz}.so"));
            let mut command = Command::new(compiler.path());
            command.args(flags::image()).arg(flags::hz_define(hz));
            command.arg("-I").arg(kapi.join("include")).arg("-o").arg(&image);
            command.arg("-Werror").arg(&source).arg(kapi.join("image.c"));
            let status = command.status().expect("the C compiler could not be started");
            assert!(status.success(), "{} does not compile: {command:?}", source.display());
            writeln!(table, "include_bytes!({}),", below("OUT_DIR", &image)).unwrap();
        }
        writeln!(table, "] }},").unwrap();
    }
    writeln!(table, "];").unwrap();
}

/// The kapi as (path below `kapi/`, text), to compile foreign policies on machines without it. The
/// headers of the IO boosts, which no kernel has, lie among its own.
fn write_kapi(table: &mut String, kapi: &Path, ioboosts: &Path) {
    let mut files = vec![kapi.join("image.c")];
    collect_headers(&kapi.join("include"), &mut files);
    files.sort();
    let named = |file: PathBuf| (file.strip_prefix(kapi).unwrap().to_owned(), file);
    let boost_header = |file: PathBuf| (Path::new("include").join(file.file_name().unwrap()), file);
    let headers = files_with_suffix(ioboosts, "h").into_iter().map(boost_header);
    writeln!(table, "pub(crate) static KAPI: &[(&str, &str)] = &[").unwrap();
    for (name, file) in files.into_iter().map(named).chain(headers) {
        let file = below("CARGO_MANIFEST_DIR", &file);
        writeln!(table, "({name:?}, include_str!({file})),").unwrap();
    }
    writeln!(table, "];").unwrap();
}

/// The expression for `path` by the folder that Cargo names at compile time.
fn below(variable: &str, path: &Path) -> String {
    let folder = PathBuf::from(env::var_os(variable).unwrap());
    let path = format!("/{}", path.strip_prefix(folder).unwrap().display());
    format!("concat!(env!({variable:?}), {path:?})")
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
