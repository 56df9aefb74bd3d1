// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Lists `workloads/*.toml` for `builtin.rs`, embeds the host's files, so that kernels can be compiled
//! where the repository is not, and puts images of kernels that `scripts/kernel_images.py` has made
//! where a wheel takes them from.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

#[path = "../torpor-machine/shipped.rs"]
mod shipped;

const KHOST: &str = "../../khost";
const IMAGES: &str = "../../images";
/// Names the folder where it is elsewhere, now and when they are used.
const IMAGES_ENV: &str = "TORPOR_KERNEL_IMAGES";
/// Names the licence of images, and where their source is.
const NOTICE: &str = "README.md";
/// Folder next to the extension.
const INSTALLED: &str = "kernels";

fn main() {
    shipped::list("workloads", "builtins.rs");
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
    put_images(&manifest.join(IMAGES), &out);
}

/// Copies the target's images, their manifest and their license to the build's output.
fn put_images(notice: &Path, out: &Path) {
    println!("cargo::rerun-if-env-changed={IMAGES_ENV}");
    println!("cargo::rerun-if-changed={IMAGES}");
    let images = env::var_os(IMAGES_ENV).map_or(notice.to_owned(), PathBuf::from);
    let arch = format!("-{}-", env::var("CARGO_CFG_TARGET_ARCH").unwrap());
    let place = out.join(INSTALLED);
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).unwrap();
    fs::copy(notice.join(NOTICE), place.join(NOTICE)).unwrap();
    for entry in fs::read_dir(images).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if name.ends_with(".json") || (name.ends_with(".so") && name.contains(&arch)) {
            fs::copy(entry.path(), place.join(name)).unwrap();
        }
    }
    // `build/<crate>/out`, next to the folder `deps` of test programs.
    let parts: Vec<_> = out.iter().collect();
    let made_in = parts[parts.len() - 3..].iter().collect::<PathBuf>().join(INSTALLED);
    println!("cargo::rustc-env=TORPOR_KERNEL_IMAGES_BUILT={}", made_in.display());
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
