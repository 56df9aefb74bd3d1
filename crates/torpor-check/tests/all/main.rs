// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Tests of the check, in one program to link only once.

mod bad_governors;
mod findings;
#[path = "../../../../tests/upstream.rs"]
mod upstream;
