// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Converts the committed perf.data to other forms of perf.
#![allow(dead_code)] // Test programs use different parts.

pub fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    let size = u16::try_from(body.len() + 8).unwrap();
    [&kind.to_le_bytes()[..], &[0, 0], &size.to_le_bytes(), body].concat()
}

pub fn u64_at(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
}

/// Converts a file to perf's stream, with its data records passed through `pack`.
pub fn as_stream(file: &[u8], pack: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let (attr_size, attrs_at, attrs_size) = (u64_at(file, 16), u64_at(file, 24), u64_at(file, 32));
    let (data_at, data_size) = (u64_at(file, 40), u64_at(file, 48));
    let mut stream = b"PERFILE2\x10\0\0\0\0\0\0\0".to_vec();
    for entry in file[attrs_at..attrs_at + attrs_size].chunks(attr_size) {
        let (attr, ids) = entry.split_at(attr_size - 16);
        let (ids_at, ids_size) = (u64_at(ids, 0), u64_at(ids, 8));
        stream.extend(record(64, &[attr, &file[ids_at..ids_at + ids_size]].concat()));
    }
    // The tracing data is the first feature. It follows a record with its size.
    let table = data_at + data_size;
    let (tracing_at, tracing_size) = (u64_at(file, table), u64_at(file, table + 8));
    stream.extend(record(66, &(tracing_size as u32).to_le_bytes()));
    stream.extend(&file[tracing_at..tracing_at + tracing_size]);
    stream.extend(pack(&file[data_at..data_at + data_size]));
    stream
}

/// Packs records like `perf record -z`.
pub fn compressed(records: &[u8]) -> Vec<u8> {
    let packed = zstd::encode_all(records, 1).unwrap();
    packed.chunks(1_000).flat_map(|chunk| record(81, chunk)).collect()
}
