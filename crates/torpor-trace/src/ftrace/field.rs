// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A tracepoint's field, as the kernel's `format` file describes it.

use crate::cursor::{Cursor, Endian};
use crate::tracepoint::Value;
use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub offset: usize,
    pub size: usize,
    is_signed: bool,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    /// `char comm[16]`
    Text,
    /// `char buf[]` of size 0, up to the end of the event.
    TextToEnd,
    /// `const char *`: an address whose text is elsewhere in the recording.
    TextPointer,
    /// `__data_loc`: offset from the start of the event, and length.
    Located {
        is_text: bool,
    },
    /// `__rel_loc`: the same, with the offset from the end of this field.
    RelativelyLocated {
        is_text: bool,
    },
}

/// Properties of the recorded kernel that reading a field requires.
pub(crate) struct Surroundings<'t> {
    pub endian: Endian,
    /// Texts by their address in the kernel.
    pub texts: &'t HashMap<u64, Box<[u8]>>,
    /// Size of a kernel's `long`, the unit of CPU masks.
    pub long_bytes: usize,
}

impl Field {
    #[inline]
    pub(crate) fn value<'a>(
        &self,
        event: &'a [u8],
        around: &Surroundings<'a>,
    ) -> Option<Value<'a>> {
        let end = self.offset.checked_add(self.size)?;
        let bytes = event.get(self.offset..end)?;
        Some(match self.kind {
            Kind::Number => Value::Number(self.number(bytes, around.endian)?),
            Kind::Text => Value::Bytes(until_nul(bytes)),
            Kind::TextToEnd => Value::Bytes(until_nul(event.get(self.offset..)?)),
            Kind::TextPointer => {
                Value::Bytes(around.texts.get(&self.number(bytes, around.endian)?)?)
            }
            Kind::Located { is_text } => located(bytes, event, 0, is_text, around)?,
            Kind::RelativelyLocated { is_text } => located(bytes, event, end, is_text, around)?,
        })
    }

    /// Returns the value of a field that is a number.
    #[inline]
    pub(crate) fn number_in(&self, event: &[u8], endian: Endian) -> Option<u64> {
        let bytes = event.get(self.offset..self.offset.checked_add(self.size)?)?;
        self.number(bytes, endian)
    }

    #[inline]
    fn number(&self, bytes: &[u8], endian: Endian) -> Option<u64> {
        Cursor::ordered(bytes, endian).number(self.size, self.is_signed)
    }

    /// Parses `unsigned int vec; offset:8; size:4; signed:0;`, separated by tabs, into the field's
    /// name and the field.
    pub(crate) fn parse(line: &str) -> Option<(&str, Field)> {
        let (declaration, rest) = line.split_once(';')?;
        let number = |key: &str| -> Option<usize> {
            let (_, after) = rest.split_once(key)?;
            after.split(';').next()?.trim().parse().ok()
        };
        let (offset, size) = (number("offset:")?, number("size:")?);
        let is_signed = number("signed:") == Some(1);
        // `char comm[16]`, `__data_loc unsigned long[] cpumask`, `const char * reason`
        let name = declaration.split_whitespace().next_back()?.trim_start_matches('*');
        let (name, is_array) = match name.split_once('[') {
            Some((name, _)) => (name, true),
            None => (name, false),
        };
        let is_text = declaration.contains("char");
        let kind = if declaration.starts_with("__data_loc") {
            Kind::Located { is_text }
        } else if declaration.starts_with("__rel_loc") {
            Kind::RelativelyLocated { is_text }
        } else if is_text && size == 0 {
            Kind::TextToEnd
        } else if is_text && is_array {
            Kind::Text
        } else if is_text && declaration.contains('*') {
            Kind::TextPointer
        } else {
            Kind::Number
        };
        Some((name, Field { offset, size, is_signed, kind }))
    }
}

/// Reads a location: a u32 with an offset in its low half and a length in its high half.
fn located<'a>(
    location: &[u8],
    event: &'a [u8],
    base: usize,
    is_text: bool,
    around: &Surroundings<'_>,
) -> Option<Value<'a>> {
    let location = Cursor::ordered(location, around.endian).u32()? as usize;
    let start = base.checked_add(location & 0xffff)?;
    let bytes = event.get(start..start.checked_add(location >> 16)?)?;
    Some(match (is_text, around.endian) {
        (true, _) => Value::Bytes(until_nul(bytes)),
        (false, Endian::Little) => Value::Bytes(bytes),
        (false, Endian::Big) => Value::BigEndianWords { bytes, word_bytes: around.long_bytes },
    })
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    &bytes[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_of_declarations_are_parsed() {
        let cases = [
            ("pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;", "prev_pid", Kind::Number),
            ("char comm[16];\toffset:8;\tsize:16;\tsigned:0;", "comm", Kind::Text),
            ("char buf[];\toffset:16;\tsize:0;\tsigned:0;", "buf", Kind::TextToEnd),
            ("char buf;\toffset:16;\tsize:0;\tsigned:0;", "buf", Kind::TextToEnd),
            ("const char * reason;\toffset:8;\tsize:8;\tsigned:0;", "reason", Kind::TextPointer),
            (
                "__data_loc unsigned long[] cpumask;\toffset:8;\tsize:4;\tsigned:0;",
                "cpumask",
                Kind::Located { is_text: false },
            ),
            (
                "__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:1;",
                "name",
                Kind::Located { is_text: true },
            ),
            (
                "__rel_loc char[] name;\toffset:12;\tsize:4;\tsigned:1;",
                "name",
                Kind::RelativelyLocated { is_text: true },
            ),
        ];
        for (line, name, kind) in cases {
            let (found, field) = Field::parse(line).expect("a field");
            assert_eq!((found, field.kind), (name, kind), "{line}");
        }
    }

    /// -1 in two bytes is sign-extended. A mask of 2 bytes is at offset 6, 0 bytes after its field.
    #[test]
    fn values_are_read_at_the_described_offsets() {
        let texts = HashMap::new();
        let around = |endian| Surroundings { endian, texts: &texts, long_bytes: 8 };
        let little = around(Endian::Little);
        let number = Field { offset: 2, size: 2, is_signed: true, kind: Kind::Number };
        let mask =
            Field { offset: 2, size: 4, is_signed: false, kind: Kind::Located { is_text: false } };
        let relative = Field { kind: Kind::RelativelyLocated { is_text: false }, ..mask };
        let event = [0, 0, 0xff, 0xff, 0, 0];
        assert_eq!(number.value(&event, &little), Some(Value::Number(u64::MAX)));
        let event = [0, 0, 6, 0, 2, 0, 5, 6];
        assert_eq!(mask.value(&event, &little), Some(Value::Bytes(&[5, 6])));
        let event = [0, 0, 0, 0, 2, 0, 5, 6];
        assert_eq!(relative.value(&event, &little), Some(Value::Bytes(&[5, 6])));
        let event = [0, 0, 0, 2, 0, 6, 5, 6];
        assert_eq!(
            mask.value(&event, &around(Endian::Big)),
            Some(Value::BigEndianWords { bytes: &[5, 6], word_bytes: 8 })
        );
        let beyond = Field { offset: 6, size: 4, is_signed: false, kind: Kind::Number };
        assert_eq!(beyond.value(&event, &little), None);
    }
}
