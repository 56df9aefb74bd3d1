// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Reads recordings of a running Linux kernel into one event model.

mod model;

pub use model::*;
