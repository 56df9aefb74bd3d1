// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Ids of patches that survive other line numbers and white space.
//!
//! The id is that of `git patch-id --stable`: the sum of one SHA-1 for each file, over its lines
//! without white space and without the numbers of hunks. A diff without `diff --git` lines has the
//! id that it would have with them.

use crate::diff::{FileDiff, Kind, Op};
use sha1::{Digest, Sha1};

pub(crate) fn of_patch(files: &[FileDiff]) -> String {
    let mut sum = [0_u8; 20];
    for file in files {
        add(&mut sum, of_file(file).finalize().into());
    }
    hex(&sum)
}

pub(crate) fn of_series(ids: impl Iterator<Item = String>) -> String {
    let ids: Vec<String> = ids.collect();
    if let [id] = ids.as_slice() {
        return id.clone();
    }
    let mut hash = Sha1::new();
    for id in ids {
        hash.update(id);
        hash.update("\n");
    }
    hex(&hash.finalize())
}

/// Adds numbers of little-endian bytes.
fn add(sum: &mut [u8; 20], hash: [u8; 20]) {
    let mut carry = 0_u16;
    for (sum, byte) in sum.iter_mut().zip(hash) {
        carry += u16::from(*sum) + u16::from(byte);
        *sum = carry.to_le_bytes()[0];
        carry >>= 8;
    }
}

fn of_file(file: &FileDiff) -> Sha1 {
    let mut hash = Sha1::new();
    let mut line = |prefix: &[u8], text: &[u8]| {
        hash.update(prefix);
        let is_black = |byte: &u8| !matches!(byte, b' ' | 9..=13);
        hash.update(text.iter().copied().filter(is_black).collect::<Vec<u8>>());
    };
    let old = file.old_path.as_deref().unwrap_or(&file.path);
    line(b"diff--gita/", old.as_bytes());
    line(b"b/", file.path.as_bytes());
    for header in &file.headers {
        line(b"", header.as_bytes());
    }
    if file.headers.is_empty() {
        match file.kind {
            Kind::Add => line(b"", b"newfilemode100644"),
            Kind::Delete => line(b"", b"deletedfilemode100644"),
            _ => {}
        }
    }
    if !file.hunks.is_empty() {
        match file.kind {
            Kind::Add => line(b"---", b"/dev/null"),
            _ => line(b"---a/", old.as_bytes()),
        }
        match file.kind {
            Kind::Delete => line(b"+++", b"/dev/null"),
            _ => line(b"+++b/", file.path.as_bytes()),
        }
    }
    for each in file.hunks.iter().flat_map(|hunk| &hunk.lines) {
        let op: &[u8] = match each.op {
            Op::Context => b"",
            Op::Add => b"+",
            Op::Remove => b"-",
        };
        line(op, &each.text);
    }
    hash
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
