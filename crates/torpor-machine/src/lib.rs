// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Machines: quantities, TOML files, idle counters, platforms.
//!
//! - [`units`]: times, powers, CPUs as integer types; input files.
//! - [`toml`]: TOML files by tables of keys, with the place of each error.
//! - [`counters`]: idle counters of sysfs, from any dump.
//! - [`platform`]: machines and IO devices, from TOML or from dumps and device trees.
//! - [`recent`]: results that are kept for the next call.
//! - [`cache`]: the user's cache on disk.

#![warn(unreachable_pub)]
// A file may contain any number.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod cache;
pub mod counters;
pub mod platform;
pub mod recent;
pub mod toml;
pub mod units;
