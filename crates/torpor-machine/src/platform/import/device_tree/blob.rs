// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Flattened device trees (`.dtb`, `/sys/firmware/fdt`), by the Devicetree Specification 0.4,
//! chapter 5. Read here because the crates that do it either panic on damaged files or refuse
//! names longer than the specification's 31 characters, which the kernel's own trees have.

use super::super::Failure;
use super::tree::Tree;

pub(crate) const MAGIC: [u8; 4] = [0xd0, 0x0d, 0xfe, 0xed];
/// The version that all since 2005 are compatible with.
const VERSION: u32 = 16;
/// `FDT_MAX_DEPTH` of the kernel.
const DEPTH_MAX: usize = 64;
/// No kernel's tree has a longer name; without a bound, reading one could take the whole file.
const NAME_BYTES_MAX: usize = 255;

const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROP: u32 = 3;
const NOP: u32 = 4;
const END: u32 = 9;

pub(super) fn read(bytes: &[u8]) -> Result<Tree<'_>, Failure> {
    let mut header = Cursor { bytes, at: 0 };
    if header.take(4)? != MAGIC {
        return Err(damaged(0, "it does not begin as a flattened device tree does"));
    }
    let field = |index: usize| Cursor { bytes, at: index << 2 }.word();
    let (structure_at, strings_at) = (field(2)? as usize, field(3)? as usize);
    let oldest = field(6)?;
    if oldest > VERSION {
        return Err(damaged(24, &format!("readers of version {oldest} are asked for")));
    }
    let strings = bytes.get(strings_at..);
    let strings = strings.ok_or_else(|| damaged(12, "the names are beyond the end"))?;
    structure(Cursor { bytes, at: structure_at }, strings)
}

fn structure<'a>(mut cursor: Cursor<'a>, strings: &'a [u8]) -> Result<Tree<'a>, Failure> {
    let mut tree = Tree::default();
    let mut open: Vec<usize> = Vec::new();
    loop {
        let at = cursor.at;
        match cursor.word()? {
            BEGIN_NODE if open.is_empty() && tree.root().is_some() => {
                return Err(damaged(at, "a second root"));
            }
            BEGIN_NODE if open.len() == DEPTH_MAX => {
                return Err(damaged(at, &format!("nodes more than {DEPTH_MAX} deep")));
            }
            BEGIN_NODE => {
                let name = name(&cursor.bytes[cursor.at..], cursor.at)?;
                cursor.skip(name.len().saturating_add(1))?;
                open.push(tree.add(name, open.last().copied()));
            }
            END_NODE => drop(open.pop().ok_or_else(|| damaged(at, "a node ends twice"))?),
            PROP => {
                let (length, name_at) = (cursor.word()? as usize, cursor.word()? as usize);
                let value = cursor.take(length)?;
                cursor.skip(0)?;
                let text = strings.get(name_at..).unwrap_or_default();
                let node = open.last().ok_or_else(|| damaged(at, "a property without a node"))?;
                tree.set(*node, name(text, at)?, value);
            }
            NOP => {}
            END if open.is_empty() && tree.root().is_some() => return Ok(tree),
            END => return Err(damaged(at, "it ends within a node")),
            other => return Err(damaged(at, &format!("{other:#x} is not a token"))),
        }
    }
}

/// Up to the NUL; `at` is what an error names.
fn name(bytes: &[u8], at: usize) -> Result<&str, Failure> {
    let bytes = &bytes[..bytes.len().min(NAME_BYTES_MAX + 1)];
    let end = bytes.iter().position(|b| *b == 0);
    let end = end.ok_or_else(|| damaged(at, "a name without an end"))?;
    std::str::from_utf8(&bytes[..end]).map_err(|_| damaged(at, "a name that is not text"))
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Failure> {
        let end = self.at.checked_add(count);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| damaged(self.at, "it is cut off"))?;
        self.at = self.at.saturating_add(count);
        Ok(taken)
    }

    fn word(&mut self) -> Result<u32, Failure> {
        let bytes = self.take(4)?;
        Ok(bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)))
    }

    /// Skips this many bytes, up to the next token, which is at a multiple of four.
    fn skip(&mut self, count: usize) -> Result<(), Failure> {
        self.take(count)?;
        self.take(self.at.wrapping_neg() & 3).map(drop)
    }
}

fn damaged(at: usize, what: &str) -> Failure {
    Failure {
        reason: format!("damaged device tree: {what} (byte {at})"),
        hint: "give a .dtb as `dtc` writes it, or the machine's own /sys/firmware/fdt".to_owned(),
    }
}
