// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Compressed blocks of recordings.

use crate::loss::{self, LossKind};
pub(crate) use torpor_machine::units::{Inflated, Packing, drain};

/// Size limit of a compressed block in a recording. Perfetto's stay under 512 kB packed.
pub(crate) const BLOCK_MAX: u64 = 64 << 20;

/// Returns the loss if the recording is incomplete.
pub(crate) fn loss_of(inflated: &Inflated) -> Option<&'static LossKind> {
    (!inflated.is_whole).then_some(&loss::INFLATE_FAILED)
}

pub(crate) fn zlib(bytes: &[u8], max: u64) -> Inflated {
    drain(flate2::bufread::ZlibDecoder::new(bytes), max, &|| true)
}

pub(crate) fn zstd(bytes: &[u8], max: u64) -> Inflated {
    Packing::Zstd.unpack(bytes, max, &|| true)
}
