// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Repeats a trace.dat of version 6 until it is long, to measure with:
//! `cargo run --release -p torpor-trace --example long_dat -- FILE CPUS MB OUTPUT`.

#[path = "../tests/support/dat_long.rs"]
mod dat_long;

use std::fs::File;
use std::io::BufWriter;

/// Distance of the copies: more than the recordings that are repeated last.
const SPAN_NS: u64 = 20_000_000_000;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, cpus, mb, output] = &arguments[..] else {
        panic!("expected FILE CPUS MB OUTPUT");
    };
    let file = std::fs::read(file)?;
    let cpus = cpus.parse().expect("a number of CPUs");
    let bytes = mb.parse::<u64>().expect("a number of megabytes") * 1_000_000;
    let copies = dat_long::copies_for(&file, cpus, bytes);
    dat_long::repeat(&file, cpus, copies, SPAN_NS, &mut BufWriter::new(File::create(output)?))
}
