// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Small recordings of every format and form, to be damaged.
#![allow(dead_code)] // Test programs use different parts.

use super::dat::{Machine, X86_64};
use super::dat_sample::dat;
use super::perf::{as_stream, compressed, with_counters};
use super::proto::{Message, bundle, cpu_idle, event, message, trace};

/// Returns a Perfetto trace with a packet of every kind.
pub fn perfetto() -> Vec<u8> {
    let compact = message()
        .packed(1, &[100, 50, 70])
        .packed(2, &[0, 1, 256])
        .packed(3, &[7, 0, 9])
        .bytes(5, "cat")
        .bytes(5, "swapper/0")
        .packed(6, &[0, 1, 0])
        .packed(7, &[120])
        .packed(8, &[9])
        .packed(9, &[5]);
    let generic =
        message().bytes(1, "tick_stop").message(2, message().bytes(1, "success").number(5, 1));
    let start = message().number(1, 0xaa).number(2, 1).number(3, 8_000).number(4, 8_000);
    let events = message()
        .number(1, 0)
        .message(2, cpu_idle(90, 0, u32::MAX))
        .message(2, event(95, 0, 551, start))
        .message(2, event(96, 0, 327, generic))
        .message(4, compact);
    let plain: Vec<Message> = vec![
        message().message(45, message().message(1, message().bytes(3, "6.12.0"))),
        message().message(34, message().number(1, 2).message(2, message().number(3, 4))),
        bundle(events).message(12, message().message(26, message().number(1, 1).bytes(2, "f"))),
        bundle(message().number(1, 1).message(2, cpu_idle(500, 1, 2))),
    ];
    let packed = zstd::encode_all(&trace(plain.clone())[..], 3).expect("memory is writable");
    trace(plain.into_iter().chain([message().bytes(133, packed)]))
}

pub fn recordings() -> Vec<(String, Vec<u8>)> {
    let file = std::fs::read(super::own_trace("plain.data")).expect("it is committed");
    let recording = torpor_trace::read_bytes("plain", &file).expect("it is sound");
    let mut text = Vec::new();
    torpor_trace::write_ftrace_text(&recording, &mut text).expect("memory is writable");
    let start = &b"<!DOCTYPE html><script class=\"trace-data\" type=\"application/text\">\n"[..];
    let page = [start, &text, b"</script></html>"].concat();
    let stream = as_stream(&file, <[u8]>::to_vec);
    let counters = with_counters(&file, 20);
    let packed_stream = as_stream(&file, compressed);
    let arm32 = Machine { is_big_endian: true, long_bytes: 4, page_bytes: 4096 };
    let named = [
        ("perfetto", perfetto()),
        ("perf.data", file),
        ("perf stream", stream),
        ("packed perf stream", packed_stream),
        ("perf stream with counters", counters),
        ("text", text),
        ("page", page),
        ("trace.dat 6", dat(6, "none", X86_64).bytes()),
        ("trace.dat 6 big-endian", dat(6, "none", arm32).bytes()),
        ("trace.dat 7 big-endian", dat(7, "none", arm32).bytes()),
        ("trace.dat 7 zlib", dat(7, "zlib", X86_64).bytes()),
        ("trace.dat 7 zstd", dat(7, "zstd", X86_64).bytes()),
    ];
    named.map(|(name, bytes)| (name.to_owned(), bytes)).into()
}
