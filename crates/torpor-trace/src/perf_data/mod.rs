// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `perf.data` files.

use crate::builder::Builder;
use crate::error::Malformed;

pub(crate) fn is_perf_data(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PERFILE2") || bytes.starts_with(b"2ELIFREP")
}

pub(crate) fn read(_bytes: &[u8], _out: &mut Builder) -> Result<(), Malformed> {
    Err(Malformed {
        offset: 0,
        found: "a perf.data file".to_owned(),
        expected: "another format".to_owned(),
        hint: "being built",
    })
}
