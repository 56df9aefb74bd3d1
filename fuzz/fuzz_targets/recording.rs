// SPDX-License-Identifier: MIT OR GPL-2.0-only
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    torpor_fuzz::read_is_sound(bytes);
});
