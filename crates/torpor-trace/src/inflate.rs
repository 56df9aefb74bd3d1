// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Decompression with a size limit, so that a small file cannot exhaust memory.

use crate::loss::{self, LossKind};
use crate::stop::GoOn;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use std::io::Read;

/// Size limit of a compressed block in a recording. Perfetto's stay under 512 kB packed.
pub(crate) const BLOCK_MAX: u64 = 64 << 20;
/// Interval of checks for cancellation.
const STEP_BYTES: u64 = 4 << 20;

#[derive(Debug, Default)]
pub(crate) struct Inflated {
    /// The bytes up to the end, the first error or the limit.
    pub bytes: Vec<u8>,
    /// False if the input is cut, damaged, or larger than the limit.
    pub is_whole: bool,
    pub is_too_large: bool,
}

impl Inflated {
    /// Returns the loss if the recording is incomplete.
    pub(crate) fn loss(&self) -> Option<&'static LossKind> {
        (!self.is_whole).then_some(&loss::INFLATE_FAILED)
    }
}

/// Packing of a whole recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Gzip,
    Zstd,
    Xz,
    Bzip2,
}

impl Packing {
    pub(crate) fn of(bytes: &[u8]) -> Option<Packing> {
        if bytes.starts_with(&[0x1f, 0x8b]) {
            Some(Packing::Gzip)
        } else if bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            Some(Packing::Zstd)
        } else if bytes.starts_with(b"\xfd7zXZ\x00") {
            Some(Packing::Xz)
        } else if is_bzip2(bytes) {
            Some(Packing::Bzip2)
        } else {
            None
        }
    }

    /// Unpacks up to `max` bytes, or until `go_on` returns false.
    pub(crate) fn unpack(self, bytes: &[u8], max: u64, go_on: GoOn<'_>) -> Inflated {
        match self {
            Packing::Gzip => drain(flate2::bufread::MultiGzDecoder::new(bytes), max, go_on),
            Packing::Zstd => match zstd::stream::read::Decoder::with_buffer(bytes) {
                Ok(decoder) => drain(decoder, max, go_on),
                Err(_) => Inflated::default(),
            },
            Packing::Xz => match Stream::new_stream_decoder(XZ_MEMORY_MAX, CONCATENATED) {
                Ok(stream) => drain(XzDecoder::new_stream(bytes, stream), max, go_on),
                Err(_) => Inflated::default(),
            },
            Packing::Bzip2 => drain(bzip2::bufread::MultiBzDecoder::new(bytes), max, go_on),
        }
    }
}

/// Recognises `BZh`, the block's size, and the mark of a block or of the end.
fn is_bzip2(bytes: &[u8]) -> bool {
    bytes.starts_with(b"BZh")
        && bytes.get(3).is_some_and(|size| (b'1'..=b'9').contains(size))
        && bytes.get(4..10).is_some_and(|mark| mark == BZIP2_BLOCK || mark == BZIP2_END)
}

const BZIP2_BLOCK: &[u8] = &[0x31, 0x41, 0x59, 0x26, 0x53, 0x59];
const BZIP2_END: &[u8] = &[0x17, 0x72, 0x45, 0x38, 0x50, 0x90];
/// Memory limit of the decoder, enough for `xz -9`: a file may ask for up to 4 GiB.
const XZ_MEMORY_MAX: u64 = 128 << 20;

pub(crate) fn zlib(bytes: &[u8], max: u64) -> Inflated {
    drain(flate2::bufread::ZlibDecoder::new(bytes), max, &|| true)
}

pub(crate) fn zstd(bytes: &[u8], max: u64) -> Inflated {
    Packing::Zstd.unpack(bytes, max, &|| true)
}

/// Reads a decoder, keeping what precedes an error.
pub(crate) fn drain(mut decoder: impl Read, max: u64, go_on: GoOn<'_>) -> Inflated {
    let mut bytes = Vec::new();
    loop {
        let left = max.saturating_sub(bytes.len() as u64);
        let read = decoder.by_ref().take(left.min(STEP_BYTES)).read_to_end(&mut bytes);
        let is_cut = left == 0 && !matches!(decoder.read(&mut [0]), Ok(0));
        match read {
            // A byte beyond the limit means that the content was cut.
            Ok(0) => return Inflated { bytes, is_whole: !is_cut, is_too_large: is_cut },
            Ok(_) if go_on() => {}
            _ => return Inflated { bytes, is_whole: false, is_too_large: false },
        }
    }
}
