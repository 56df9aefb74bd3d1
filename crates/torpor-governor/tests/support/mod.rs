// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What the tests share.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use torpor_governor::{Catalog, CatalogOptions, StateDesc};
use torpor_units::Duration;

/// The unpacked kernel source of a Debian package. `None`, with a line on stderr that says why,
/// where it cannot be had.
pub fn kernel_sources(version: &str, test: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new("sh").arg(root.join("tests/kernel_sources.sh")).arg(version).output();
    let output = output.expect("sh could not be started");
    match output.status.code() {
        Some(0) => Some(String::from_utf8_lossy(&output.stdout).trim().into()),
        Some(77) => {
            eprintln!("not run: {test}: {}", String::from_utf8_lossy(&output.stderr).trim());
            None
        }
        _ => panic!("kernel_sources.sh: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

/// A catalog with a cache of its own, which stays between runs.
pub fn catalog() -> Catalog {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    Catalog::new(CatalogOptions { cache_dir: Some(cache), compiler: None })
}

pub fn state(name: &str, exit_us: i64, residency_us: i64, is_polling: bool) -> StateDesc {
    StateDesc {
        name: name.to_owned(),
        exit_latency: Duration::from_us(exit_us),
        target_residency: Duration::from_us(residency_us),
        is_polling,
        is_disabled: false,
    }
}

/// POLL, C1, C1E and C6 of a server.
pub fn server_states() -> Vec<StateDesc> {
    vec![
        state("POLL", 0, 0, true),
        state("C1", 2, 2, false),
        state("C1E", 10, 20, false),
        state("C6", 133, 600, false),
    ]
}

/// xorshift64*: small, and the same on every machine.
#[derive(Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        // Spreads seeds that differ in few bits, and avoids 0, which would stay 0.
        Rng((seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xff51_afd7_ed55_8ccd) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// 0 to `n` - 1.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Log-uniform: each order of magnitude up to 2^`bits` is as likely as another.
    pub fn magnitude(&mut self, bits: u64) -> i64 {
        let width = self.below(bits) + 1;
        (self.next() >> (64 - width)) as i64
    }
}
