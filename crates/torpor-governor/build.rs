// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Compiles the guard, and each built-in governor for the four tick rates.
//!
//! Mirrors of the kernel's policies are GPL-2.0-only, and the extension links crates whose licenses
//! are incompatible with it. So policies are not linked: sources and images are files in
//! `OUT_DIR/policies`, which the wheel installs next to the extension (`pyproject.toml`) and which
//! `builtin.rs` finds by a table of names and hashes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use sha2::{Digest, Sha256};

#[path = "src/flags.rs"]
mod flags;

const HZ: [u32; 4] = [100, 250, 300, 1000];
const POLICIES: &str = "policies";
const POLICIES_ENV: &str = "TORPOR_POLICIES";
/// Environment variable with the compiler of policies. They need no C library, so it can be newer
/// than the wheel's compiler, which links against an old one.
const COMPILER_ENV: &str = "TORPOR_POLICY_CC";
const KAPI: &str = "../../kapi";
const GOVERNORS: &str = "../../governors/cpuidle";
const IOBOOSTS: &str = "../../governors/ioboost";
const IOBOOST_CALLS: &str = "../../kernel/ioboost";

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let [kapi, governors, ioboosts] = [KAPI, GOVERNORS, IOBOOSTS].map(|path| manifest.join(path));
    // Relative paths, so that a copy of the checkout with its `target` watches its own files.
    for path in
        ["src/guard.c", "src/flags.rs", "build.rs", KAPI, GOVERNORS, IOBOOSTS, IOBOOST_CALLS]
    {
        println!("cargo::rerun-if-changed={path}");
    }
    println!("cargo::rerun-if-env-changed={COMPILER_ENV}");

    cc::Build::new().file("src/guard.c").opt_level(2).compile("torpor_guard");

    let mut table = String::new();
    write_kapi(&mut table, &kapi, &ioboosts);
    let out_policies = out.join(POLICIES);
    // The same in every image of a rate.
    let common = HZ.map(|hz| (hz, common_object(&out, &kapi, hz)));
    write_policies(&mut table, "GOVERNORS", &governors, &out_policies, &|source, out| {
        let images =
            common.each_ref().map(|(hz, common)| shipped(&image(source, common, out, &kapi, *hz)));
        format!("Some([{}])", images.join(","))
    });
    // Only kernels compile IO boosts.
    write_policies(&mut table, "IOBOOSTS", &ioboosts, &out_policies, &|_, _| "None".to_owned());
    write_ioboost_calls(&mut table, &manifest.join(IOBOOST_CALLS), &out_policies);
    // `build/<crate>/out`, next to the folder `deps` of test programs. Relative, as above.
    let parts: Vec<_> = out.iter().collect();
    let made_in = parts[parts.len() - 3..].iter().collect::<PathBuf>().join(POLICIES);
    writeln!(table, "static MADE_IN: &str = {:?};", made_in.to_str().unwrap()).unwrap();
    // For documentation examples, which are built elsewhere.
    println!("cargo::rustc-env={POLICIES_ENV}={}", out.join(POLICIES).display());
    fs::write(out.join("embedded.rs"), table).unwrap();
}

/// Copies the sources of a folder, and lists them with the images that `images` makes.
fn write_policies(
    table: &mut String,
    kind: &str,
    folder: &Path,
    out: &Path,
    images: &dyn Fn(&Path, &Path) -> String,
) {
    let out = out.join(folder.file_name().unwrap());
    // Deletes the files of renamed policies.
    let _ = fs::remove_dir_all(&out);
    fs::create_dir_all(&out).unwrap();
    for header in files_with_suffix(folder, "h") {
        fs::copy(&header, out.join(header.file_name().unwrap())).unwrap();
    }
    let sources = files_with_suffix(folder, "c");
    writeln!(table, "static {kind}: [BuiltinFile; {}] = [", sources.len()).unwrap();
    for source in sources {
        let name = source.file_stem().unwrap().to_str().unwrap();
        let copy = out.join(source.file_name().unwrap());
        fs::copy(&source, &copy).unwrap();
        let copy = shipped(&copy);
        writeln!(
            table,
            "BuiltinFile {{ name: {name:?}, source: {copy}, images: {} }},",
            images(&source, &out)
        )
        .unwrap();
    }
    writeln!(table, "];").unwrap();
}

/// Compiles what the kapi adds to an image; returns the object's path.
fn common_object(out: &Path, kapi: &Path, hz: u32) -> PathBuf {
    let object = out.join(format!("image-{hz}.o"));
    let flags = flags::KAPI.iter().chain([&flags::WRAP]).chain(flags::CODE).chain(&["-c"]);
    compile(&flags.copied().collect::<Vec<_>>(), &[&kapi.join("image.c")], &object, kapi, hz);
    object
}

/// Compiles a governor for a tick rate; returns the image's path.
fn image(source: &Path, common: &Path, out: &Path, kapi: &Path, hz: u32) -> PathBuf {
    let image = out.join(format!("{}-{hz}.so", source.file_stem().unwrap().to_str().unwrap()));
    compile(&flags::image().collect::<Vec<_>>(), &[source, common], &image, kapi, hz);
    image
}

fn compile(flags: &[&str], from: &[&Path], to: &Path, kapi: &Path, hz: u32) {
    let compiler = env::var_os(COMPILER_ENV).map(PathBuf::from);
    let compiler = compiler.unwrap_or_else(|| cc::Build::new().get_compiler().path().to_owned());
    let mut command = Command::new(&compiler);
    command.args(flags).arg(flags::hz_define(hz)).arg("-Werror");
    command.arg("-I").arg(kapi.join("include")).arg("-o").arg(to).args(from);
    let status = command.status().expect("the C compiler could not be started");
    assert!(status.success(), "{} does not compile: {command:?}", from[0].display());
}

/// Lists the files that add the calls of an IO boost to a kernel's scheduler.
fn write_ioboost_calls(table: &mut String, folder: &Path, out: &Path) {
    let out = out.join("ioboost-calls");
    fs::create_dir_all(&out).unwrap();
    writeln!(table, "pub(crate) static IOBOOST_CALLS: [(&str, Shipped); 3] = [").unwrap();
    for name in ["core.c", "hooks.h", "insert.py"] {
        let copy = out.join(name);
        fs::copy(folder.join(name), &copy).unwrap();
        writeln!(table, "({name:?}, {}),", shipped(&copy)).unwrap();
    }
    writeln!(table, "];").unwrap();
}

/// Returns the expression for a file of `policies/`.
fn shipped(file: &Path) -> String {
    let mut parts = file.iter().rev().map(|part| part.to_str().unwrap());
    let (name, folder) = (parts.next().unwrap(), parts.next().unwrap());
    let sum = Sha256::digest(fs::read(file).unwrap());
    format!("Shipped::new(\"{folder}/{name}\", {:?})", <[u8; 32]>::from(sum))
}

/// Embeds the kapi as (path below `kapi/`, text), to compile foreign policies where there is no
/// checkout. It includes the headers of IO boosts, which no kernel has.
fn write_kapi(table: &mut String, kapi: &Path, with_headers: &Path) {
    let mut files = vec![kapi.join("image.c")];
    collect_headers(&kapi.join("include"), &mut files);
    files.sort();
    let named = |file: PathBuf| (file.strip_prefix(kapi).unwrap().to_owned(), file);
    let own_header = |file: PathBuf| (Path::new("include").join(file.file_name().unwrap()), file);
    let headers = files_with_suffix(with_headers, "h").into_iter();
    let headers = headers.map(own_header);
    writeln!(table, "pub(crate) static KAPI: &[(&str, &str)] = &[").unwrap();
    for (name, file) in files.into_iter().map(named).chain(headers) {
        let file = file.strip_prefix(env::var_os("CARGO_MANIFEST_DIR").unwrap()).unwrap();
        let file = format!("/{}", file.display());
        let file = format!("concat!(env!(\"CARGO_MANIFEST_DIR\"), {file:?})");
        writeln!(table, "({name:?}, include_str!({file})),").unwrap();
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
