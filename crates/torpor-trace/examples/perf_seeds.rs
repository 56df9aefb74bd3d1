// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Writes a perf.data in forms that no file of the repository has into a directory, as seeds for
//! the fuzzer.

#[path = "../tests/support/perf.rs"]
mod perf;

use std::path::{Path, PathBuf};

fn main() -> std::io::Result<()> {
    let directory = PathBuf::from(std::env::args().nth(1).expect("a directory to write to"));
    std::fs::create_dir_all(&directory)?;
    let plain = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/plain.data");
    let file = std::fs::read(plain)?;
    std::fs::write(directory.join("stream.data"), perf::as_stream(&file, <[u8]>::to_vec))?;
    std::fs::write(directory.join("packed.data"), perf::as_stream(&file, perf::compressed))?;
    std::fs::write(directory.join("counters.data"), perf::with_counters(&file, 20))
}
