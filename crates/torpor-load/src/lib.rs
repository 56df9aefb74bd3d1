// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Loads for the machine that this runs on: real threads and the wall clock, which no crate that
//! simulates or replays may know.

#![warn(unreachable_pub)]

pub mod idle_predict;
