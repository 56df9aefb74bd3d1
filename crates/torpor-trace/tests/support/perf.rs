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

/// Ids of the two events that [`with_counters`] adds.
const CYCLES: u64 = 0x7001;
const IBS: u64 = 0x7002;

/// Returns the committed recording as a stream to which `perf record -e cycles -e ibs_op//` added
/// `count` samples of each. Those of IBS have the raw data of a tracepoint's samples, number by
/// number.
pub fn with_counters(file: &[u8], count: usize) -> Vec<u8> {
    let attr_at = u64_at(file, 24);
    let attr_size = u64_at(file, 16) - 16;
    let attr = |kind: u32, sample_type: u64, id: u64| {
        let mut attr = file[attr_at..attr_at + attr_size].to_vec();
        attr[..4].copy_from_slice(&kind.to_le_bytes());
        attr[24..32].copy_from_slice(&sample_type.to_le_bytes());
        record(64, &[&attr[..], &id.to_le_bytes()].concat())
    };
    let tracepoint = u64_at(file, attr_at + 24) as u64;
    const RAW: u64 = 1 << 10;
    let descriptions = [attr(0, tracepoint & !RAW, CYCLES), attr(10, tracepoint, IBS)].concat();
    let stream = as_stream(file, |records| {
        let samples = samples(records).take(count);
        let copies = samples.flat_map(|sample| {
            let ibs = [&IBS.to_le_bytes(), &sample[8..]].concat();
            // Identifier, ip, tid, time, CPU, period.
            let cycles = [&CYCLES.to_le_bytes(), &sample[8..48]].concat();
            [record(9, &ibs), record(9, &cycles)].concat()
        });
        [&copies.collect::<Vec<u8>>(), records].concat()
    });
    [&stream[..16], &descriptions, &stream[16..]].concat()
}

/// Iterates over the bodies of samples.
fn samples(mut records: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        while !records.is_empty() {
            let size = usize::from(u16::from_le_bytes([records[6], records[7]]));
            let (record, rest) = records.split_at(size);
            records = rest;
            if record[0] == 9 {
                return Some(&record[8..]);
            }
        }
        None
    })
}
