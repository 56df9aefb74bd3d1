// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Unpacking with a bound, so that a small file cannot ask for all of memory.

use std::io::Read;

/// The largest recording that is unpacked.
pub(crate) const FILE_MAX: u64 = 8 << 30;
/// The largest block inside a recording. Perfetto's stay under 512 kB packed.
pub(crate) const BLOCK_MAX: u64 = 64 << 20;

#[derive(Debug, Default)]
pub(crate) struct Inflated {
    /// All that could be unpacked.
    pub bytes: Vec<u8>,
    /// False if the input broke off, is damaged, or is larger than the bound.
    pub is_whole: bool,
}

pub(crate) fn gzip(bytes: &[u8]) -> Inflated {
    drain(flate2::bufread::MultiGzDecoder::new(bytes), FILE_MAX)
}

pub(crate) fn zlib(bytes: &[u8], max: u64) -> Inflated {
    drain(flate2::bufread::ZlibDecoder::new(bytes), max)
}

pub(crate) fn zstd(bytes: &[u8], max: u64) -> Inflated {
    match zstd::stream::read::Decoder::with_buffer(bytes) {
        Ok(decoder) => drain(decoder, max),
        Err(_) => Inflated::default(),
    }
}

/// Keeps what came before an error.
fn drain(mut decoder: impl Read, max: u64) -> Inflated {
    let mut bytes = Vec::new();
    let is_read = decoder.by_ref().take(max).read_to_end(&mut bytes).is_ok();
    // A byte beyond the bound means that the content was cut there.
    let is_ended = is_read && matches!(decoder.read(&mut [0]), Ok(0));
    Inflated { bytes, is_whole: is_ended }
}
