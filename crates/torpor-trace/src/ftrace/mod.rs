// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The kernel's own description of its tracepoints, in files of trace-cmd and perf.
//!
//! perf's "tracing data" is identical to the head of a trace-cmd file.

mod field;
mod formats;

pub(crate) use formats::{Formats, PageLayout};

use crate::cursor::{Cursor, Endian};

pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// The start of a file, with the parameters for reading the rest.
#[derive(Debug)]
pub(crate) struct Preamble<'a> {
    pub version: &'a [u8],
    pub endian: Endian,
    /// Size of `long` in user space.
    pub long_bytes: usize,
    pub page_bytes: usize,
}

impl<'a> Preamble<'a> {
    /// Parses a preamble, and returns it with a cursor at its end.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<(Preamble<'a>, Cursor<'a>)> {
        let mut cursor = Cursor::new(bytes.strip_prefix(MAGIC)?);
        let version = cursor.c_str()?;
        let endian = if cursor.u8()? == 0 { Endian::Little } else { Endian::Big };
        let mut cursor = Cursor::ordered(cursor.rest(), endian);
        let long_bytes = cursor.u8()?.into();
        let page_bytes = cursor.u32()? as usize;
        Some((Preamble { version, endian, long_bytes, page_bytes }, cursor))
    }
}
