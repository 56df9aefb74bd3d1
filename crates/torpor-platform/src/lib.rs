// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Machines: TOML files and importers in, checked [`Platform`]s out.

mod model;

pub use model::*;
