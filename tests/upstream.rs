// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! For the tests that compare with Linux: its source, and programs made of it. They are run where
//! the source and a compiler can be had, and say so where not.
#![allow(dead_code)]

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The unpacked kernel source of a Debian package. `None`, with a line on stderr that says why,
/// where it cannot be had.
pub fn kernel_sources(version: &str, test: &str) -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernel_sources.sh");
    let output = Command::new("sh").arg(script).arg(version).output().expect("sh starts");
    let told = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => Some(String::from_utf8_lossy(&output.stdout).trim().into()),
        Some(77) => {
            eprintln!("not run: {test}: {}", told.trim());
            None
        }
        _ => panic!("kernel_sources.sh: {told}"),
    }
}

/// A single file of a kernel that no package carries any more: from $TORPOR_KERNEL_FILES, by default
/// `../shared/governors` next to the repository. `None` as above where it is not there.
pub fn kernel_file(name: &str, test: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/governors");
    let folder = std::env::var_os("TORPOR_KERNEL_FILES").map_or(beside, PathBuf::from);
    let path = folder.join(name);
    if path.is_file() {
        return Some(path);
    }
    eprintln!("not run: {test}: $TORPOR_KERNEL_FILES has no {name}");
    None
}

/// Changes a file of a kernel in `tree`, a tree of links to `whole`, which it makes where there is none.
pub fn change_file(whole: &Path, tree: &Path, file: &str, change: impl Fn(String) -> String) {
    let (mut from, mut to) = (whole.to_owned(), tree.to_owned());
    for part in Path::new(file).components() {
        // A link would lead into the whole tree.
        if to.is_symlink() {
            std::fs::remove_file(&to).expect("it is ours");
        }
        std::fs::create_dir_all(&to).expect("there is room");
        for entry in std::fs::read_dir(&from).expect("a kernel has it").flatten() {
            let place = to.join(entry.file_name());
            if !place.exists() {
                std::os::unix::fs::symlink(entry.path(), place).expect("there is room");
            }
        }
        (from, to) = (from.join(part), to.join(part));
    }
    let text = std::fs::read_to_string(&from).expect("a kernel has it");
    std::fs::remove_file(&to).expect("it is a link");
    std::fs::write(to, change(text)).expect("there is room");
}

/// Makes `program` of a crate's C file, which includes the kernel's from `folder`. `None` as above
/// where there is no compiler.
pub fn compile(
    program: &Path,
    source: &str,
    folder: &Path,
    args: &[&str],
    test: &str,
) -> Option<()> {
    // Not `-I`: the kernel has headers that are called as the C library's are.
    let compiler = std::env::var_os("CC").unwrap_or("cc".into());
    let status = Command::new(compiler)
        .args(["-std=gnu11", "-O2", "-w", "-iquote"])
        .arg(folder)
        .args(args)
        .arg("-o")
        .arg(program)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(source))
        .status();
    match status {
        Ok(status) => assert!(status.success(), "{test}: it does not compile"),
        Err(error) => {
            eprintln!("not run: {test}: no C compiler: {error}");
            return None;
        }
    }
    Some(())
}

/// Returns a program's answers to words on its standard input, in words.
pub fn answers<A: AsRef<OsStr>>(
    program: &Path,
    args: impl IntoIterator<Item = A>,
    words: impl IntoIterator<Item = u64>,
) -> Vec<u64> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the compiled program starts");
    let mut stdin = child.stdin.take().expect("it was piped");
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    let writer = std::thread::spawn(move || stdin.write_all(&bytes));
    let mut answered = Vec::new();
    child.stdout.take().expect("it was piped").read_to_end(&mut answered).expect("it answers");
    writer.join().expect("no panic").expect("it reads to the end");
    assert!(child.wait().expect("it ends").success());
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    answered.chunks_exact(8).map(word).collect()
}
