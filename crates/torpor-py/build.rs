// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Copies what governors are built with as kernel modules to `OUT_DIR/policies/kernel`, for the
//! wheel (`pyproject.toml`). Like the policies, it is under the GPL and not part of the extension.
//! And copies the recordings of the demo to `OUT_DIR/demo`.
//! And finds out which commit this is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const KERNEL: &str = "../../kernel";
const DEMO: &str = "../../demo";
/// In folders, all but what only a checkout has a use for.
const FILES: [&str; 16] = [
    "Kbuild",
    "Makefile",
    "compat/core.c",
    "compat/core.h",
    "compat/governor.h",
    "compat/governor_end.h",
    "compat/hrtimer.h",
    "compat/log.c",
    "compat/log.h",
    "compat/record.h",
    "compat/symbols.h",
    "drivers/cpu.h",
    "drivers/cpufreq.c",
    "drivers/idle.c",
    "drivers/poll_arm64.c",
    "scripts/wrap.sh",
];

/// Names the commit if there is no checkout, as in an sdist.
const COMMIT_ENV: &str = "TORPOR_COMMIT";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={COMMIT_ENV}");
    let commit = env::var(COMMIT_ENV).ok().or_else(commit).unwrap_or_default();
    println!("cargo::rustc-env=TORPOR_BUILT_FROM={commit}");
    println!("cargo::rustc-env=TORPOR_TARGET={}", env::var("TARGET").unwrap());
    println!("cargo::rerun-if-changed={KERNEL}");
    let to = PathBuf::from(env::var_os("OUT_DIR").unwrap()).join("policies/kernel");
    let _ = fs::remove_dir_all(&to);
    for file in FILES {
        let copy = to.join(file);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(PathBuf::from(KERNEL).join(file), copy).unwrap();
    }
    copy_recordings();
}

/// Copies the recordings that ship to `OUT_DIR/demo`.
fn copy_recordings() {
    println!("cargo::rerun-if-changed={DEMO}");
    let to = PathBuf::from(env::var_os("OUT_DIR").unwrap()).join("demo");
    fs::create_dir_all(&to).unwrap();
    for entry in fs::read_dir(DEMO).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|kind| kind == "data") {
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

/// The commit that is checked out, with `-dirty` where files differ from it.
fn commit() -> Option<String> {
    const PROJECT: &str = "../..";
    // An sdist unpacked inside another repository is not a commit of that repository.
    if !Path::new(PROJECT).join(".git").exists() {
        return None;
    }
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(PROJECT).args(args).output().ok()?;
        let is_fine = output.status.success();
        is_fine.then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    // Grows with each commit and each checkout.
    let log = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={log}");
    git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
}
