// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Checks of the fuzz targets that read recordings.

#[path = "../../crates/torpor-trace/tests/support/sound.rs"]
mod sound;

/// Reads the bytes and checks the guarantees of every reader.
pub fn read_is_sound(bytes: &[u8]) {
    sound::check(&torpor_trace::read_bytes("fuzz", bytes));
}
