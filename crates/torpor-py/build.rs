// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Copies what governors are built with as kernel modules to `OUT_DIR/policies/kernel`, for the
//! wheel (`pyproject.toml`). Like the policies, it is under the GPL and not part of the extension.

use std::path::PathBuf;
use std::{env, fs};

const KERNEL: &str = "../../kernel";
/// In folders, all but what only a checkout has a use for.
const FILES: [&str; 15] = [
    "Kbuild",
    "Makefile",
    "compat/core.c",
    "compat/core.h",
    "compat/governor.h",
    "compat/governor_end.h",
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

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={KERNEL}");
    let to = PathBuf::from(env::var_os("OUT_DIR").unwrap()).join("policies/kernel");
    let _ = fs::remove_dir_all(&to);
    for file in FILES {
        let copy = to.join(file);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(PathBuf::from(KERNEL).join(file), copy).unwrap();
    }
}
