// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Writes a small trace.dat of every form into a directory, as seeds for the fuzzer.

#[path = "../tests/support/dat.rs"]
mod dat;
#[path = "../tests/support/dat_sample.rs"]
mod dat_sample;

use dat::Machine;
use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let directory = PathBuf::from(std::env::args().nth(1).expect("a directory to write to"));
    std::fs::create_dir_all(&directory)?;
    for (version, compression) in [(6, "none"), (7, "none"), (7, "zlib"), (7, "zstd")] {
        for (is_big_endian, long_bytes) in [(false, 8), (false, 4), (true, 8), (true, 4)] {
            // With small pages, most changes hit data.
            let machine = Machine { is_big_endian, long_bytes, page_bytes: 512 };
            let recording = dat_sample::dat(version, compression, machine);
            let name = format!("v{version}-{compression}-{is_big_endian}-{long_bytes}.dat");
            std::fs::write(directory.join(name), recording.bytes())?;
        }
    }
    Ok(())
}
