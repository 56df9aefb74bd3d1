// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Makes a trace.dat long by repeating its pages with shifted times.

use std::io::{self, Write};

const PAGE_BYTES: usize = 4096;

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Writes a little-endian file of version 6 with its pages repeated `copies` times, `span_ns` apart.
pub fn repeat(
    file: &[u8],
    cpu_count: usize,
    copies: u64,
    span_ns: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let tag = b"flyrecord\0";
    let table = file.windows(tag.len()).rposition(|word| word == tag).expect("a table of CPUs");
    let table = table + tag.len();
    let places: Vec<(usize, usize)> = (0..cpu_count)
        .map(|cpu| table + 16 * cpu)
        .map(|at| (u64_at(file, at) as usize, u64_at(file, at + 8) as usize))
        .collect();
    let first = places.iter().map(|(start, _)| *start).min().expect("there are CPUs");
    let mut head = file[..first].to_vec();
    let mut long_start = first as u64;
    for (cpu, (_, size)) in places.iter().enumerate() {
        let long_size = *size as u64 * copies;
        let place = [long_start, long_size].map(u64::to_le_bytes).concat();
        head[table + 16 * cpu..][..16].copy_from_slice(&place);
        long_start += long_size;
    }
    out.write_all(&head)?;
    for (start, size) in places {
        for copy in 0..copies {
            for page in file[start..start + size].chunks(PAGE_BYTES) {
                out.write_all(&(u64_at(page, 0) + copy * span_ns).to_le_bytes())?;
                out.write_all(&page[8..])?;
            }
        }
    }
    Ok(())
}

/// Returns the number of copies for at least this many bytes.
pub fn copies_for(file: &[u8], cpu_count: usize, bytes: u64) -> u64 {
    let size = |copies| {
        let mut long = Vec::new();
        repeat(file, cpu_count, copies, 0, &mut long).expect("memory is writable");
        long.len() as u64
    };
    let once = size(1);
    bytes.saturating_sub(once).div_ceil(size(2) - once) + 1
}
