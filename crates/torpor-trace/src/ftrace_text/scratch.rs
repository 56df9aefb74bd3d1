// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Buffers that are reused from line to line.

use super::values::{function_id, pointer, symbol};
use crate::cursor::{ends, is_same};
use crate::model::{Function, Names};

#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub functions: Functions,
    /// The bytes of the last CPU mask.
    pub mask: Vec<u8>,
}

/// A cache of recent functions by their text.
#[derive(Debug)]
pub(super) struct Functions {
    slots: Vec<Option<(Box<[u8]>, Function)>>,
}

impl Default for Functions {
    fn default() -> Functions {
        Functions { slots: vec![None; SLOTS] }
    }
}

/// Kernels have a few dozen timer functions.
const SLOTS: usize = 256;

impl Functions {
    /// Returns the function that a text names by symbol or, if the kernel has none, by address.
    #[inline]
    pub(super) fn function(&mut self, text: &[u8], names: &mut Names) -> Function {
        let slot = &mut self.slots[slot(text) % SLOTS];
        match slot {
            Some((known, function)) if is_same(known, text) => return *function,
            _ => {}
        }
        let address = pointer(text).filter(|_| text.starts_with(b"0x") || text.len() == 16);
        let function = match address {
            Some(address) => Function { address, symbol: None },
            None => {
                let symbol = symbol(text);
                let name = names.intern(&String::from_utf8_lossy(symbol));
                Function { address: function_id(symbol), symbol: Some(name) }
            }
        };
        *slot = Some((text.into(), function));
        function
    }
}

/// Hashes a short text by its length and its ends.
#[inline(always)]
pub(super) fn slot(text: &[u8]) -> usize {
    let (first, last) = ends(text);
    let key = first ^ last.rotate_left(29) ^ text.len() as u64;
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize
}
