// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Decompression with a size limit, so that a small file cannot exhaust memory.

use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use std::io::{self, Read};

/// Interval of checks for cancellation.
const STEP_BYTES: u64 = 4 << 20;

#[derive(Debug, Default)]
pub struct Inflated {
    /// The bytes up to the end, the first error or the limit.
    pub bytes: Vec<u8>,
    /// False if the input is cut, damaged, or larger than the limit.
    pub is_whole: bool,
    pub is_too_large: bool,
}

/// Packing of a whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    Gzip,
    Zstd,
    Xz,
    Bzip2,
}

impl Packing {
    pub fn of(bytes: &[u8]) -> Option<Packing> {
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

    /// Returns the content as it is unpacked.
    ///
    /// # Errors
    /// If memory for the decoder is lacking.
    pub fn decoder(self, bytes: &[u8]) -> io::Result<Box<dyn Read + '_>> {
        Ok(match self {
            Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(bytes)),
            Packing::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(bytes)?),
            Packing::Xz => {
                let stream = Stream::new_stream_decoder(XZ_MEMORY_MAX, CONCATENATED)?;
                Box::new(XzDecoder::new_stream(bytes, stream))
            }
            Packing::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(bytes)),
        })
    }

    /// Unpacks up to `max` bytes, or until `go_on` returns false.
    pub fn unpack(self, bytes: &[u8], max: u64, go_on: &dyn Fn() -> bool) -> Inflated {
        self.decoder(bytes).map_or_else(|_| Inflated::default(), |read| drain(read, max, go_on))
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

/// Reads a decoder, keeping what precedes an error.
pub fn drain(mut decoder: impl Read, max: u64, go_on: &dyn Fn() -> bool) -> Inflated {
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
