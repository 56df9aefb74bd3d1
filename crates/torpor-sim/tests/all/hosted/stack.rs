// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The switch of stacks (`khost/src/stack.h`) alone, in a program of the C library.

use std::path::Path;
use std::process::Command;

/// Compiles `stack.c` and has `run`, an emulator or nothing, run it.
fn switches(name: &str, compiler: &str, run: &[&str]) {
    let test = format!("the switch of stacks of {name}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("stack-{name}"));
    for tool in [compiler].iter().chain(run.first()) {
        if Command::new(tool).arg("--version").output().is_err() {
            return eprintln!("not run: {test}: {tool} is not on this machine");
        }
    }
    let compiled = Command::new(compiler)
        .args(["-std=gnu11", "-O2", "-fno-omit-frame-pointer", "-Wall", "-Werror", "-I"])
        .arg(root.join("../../khost/src"))
        .arg("-o")
        .args([&program, &root.join("tests/all/hosted/stack.c")])
        .status();
    assert!(compiled.expect("it starts").success(), "{test}: it does not compile");
    let program = program.to_str().expect("a path of ours is a text");
    let words: Vec<&str> = run.iter().chain(&[program]).copied().collect();
    let output = Command::new(words[0]).args(&words[1..]).output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "2000\n", "{test}: {output:?}");
}

#[test]
fn stack_switch_preserves_registers() {
    let own = std::env::var("CC").unwrap_or("cc".to_owned());
    switches(std::env::consts::ARCH, &own, &[]);
}

#[test]
fn stack_switch_preserves_registers_on_aarch64() {
    let emulator = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"];
    switches("emulated-aarch64", "aarch64-linux-gnu-gcc", &emulator);
}
