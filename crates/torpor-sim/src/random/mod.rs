// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Random numbers: a stream for each purpose, and lengths of time drawn from one.

mod dist;
mod stream;

pub use dist::Dist;
pub(crate) use dist::{LONGEST_NS, normal};
pub use stream::{Stream, StreamName};
