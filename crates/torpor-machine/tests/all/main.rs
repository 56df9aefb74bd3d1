// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Tests of platforms and counters, in one program to link only once.

mod counters;
mod platform;
