// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The tracing data of a recording: the kernel's own description of its tracepoints.
//!
//! A raw sample starts with the number of its event; the description says where each field lies.
//! Offsets are never assumed, as they differ between kernels.

use super::cursor::Cursor;
use crate::tracepoint::{self, FIELDS_MAX, Spec, Values, spec};
use std::collections::HashMap;

#[derive(Debug, Default)]
pub(crate) struct Formats {
    /// Indexed by the event's number.
    events: Vec<Option<Event>>,
    /// Texts that events name by their address in the kernel.
    texts: HashMap<u64, Box<[u8]>>,
    /// `/proc/kallsyms`, where the recorder kept it.
    pub kallsyms: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Event {
    pub name: String,
    pub count: u64,
    spec: Option<&'static Spec>,
    /// In the order of the spec's fields.
    fields: [Option<Field>; FIELDS_MAX],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    offset: usize,
    size: usize,
    is_signed: bool,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    /// `char comm[16]`
    Text,
    /// `const char *`: an address among [`Formats::texts`].
    TextPointer,
    /// `__data_loc`: where the bytes are, from the start of the sample.
    Located {
        is_text: bool,
    },
    /// `__rel_loc`: the same, from the end of this field.
    RelativelyLocated {
        is_text: bool,
    },
}

impl Formats {
    /// Reads as much as is there. The layout is that of trace-cmd's files, version 0.5 and 0.6.
    ///
    /// # Errors
    /// What was found in place of tracing data.
    pub(crate) fn parse(bytes: &[u8]) -> Result<(Formats, bool), String> {
        let Some(rest) = bytes.strip_prefix(b"\x17\x08\x44tracing") else {
            return Err("no tracing data".to_owned());
        };
        let mut cursor = Cursor::new(rest);
        let (Some(version), Some(endian), Some(_long_size), Some(_page_size)) =
            (cursor.c_str(), cursor.u8(), cursor.u8(), cursor.u32())
        else {
            return Err("tracing data that ends in its header".to_owned());
        };
        if endian != 0 {
            return Err("tracing data of a big-endian machine".to_owned());
        }
        let has_u64_tail = version == b"0.6";
        let mut formats = Formats::default();
        let is_whole = formats.sections(&mut cursor, has_u64_tail).is_some();
        Ok((formats, is_whole))
    }

    fn sections(&mut self, cursor: &mut Cursor<'_>, has_cmdlines: bool) -> Option<()> {
        for _ in ["header_page", "header_event"] {
            cursor.c_str()?;
            let size = cursor.u64()?;
            cursor.bytes(size)?;
        }
        self.events(cursor)?;
        for _ in 0..cursor.u32()? {
            cursor.c_str()?;
            self.events(cursor)?;
        }
        let size = cursor.u32()?;
        self.kallsyms = cursor.bytes(size.into())?.to_vec();
        let size = cursor.u32()?;
        self.add_texts(cursor.bytes(size.into())?);
        if has_cmdlines {
            let size = cursor.u64()?;
            cursor.bytes(size)?;
        }
        Some(())
    }

    fn events(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        for _ in 0..cursor.u32()? {
            let size = cursor.u64()?;
            let text = String::from_utf8_lossy(cursor.bytes(size)?);
            if let Some((id, event)) = event(&text) {
                let index = usize::from(id);
                if self.events.len() <= index {
                    self.events.resize_with(index + 1, || None);
                }
                self.events[index] = Some(event);
            }
        }
        Some(())
    }

    /// Lines such as `0xffffffff8281a285 : "rcu_preempt"`.
    fn add_texts(&mut self, lines: &[u8]) {
        for line in String::from_utf8_lossy(lines).lines() {
            if let Some((address, text)) = line.split_once(" : \"") {
                let address = u64::from_str_radix(address.trim_start_matches("0x"), 16);
                if let (Ok(address), Some(text)) = (address, text.strip_suffix('"')) {
                    self.texts.insert(address, text.as_bytes().into());
                }
            }
        }
    }

    /// The event a raw sample is of, and its fields. The outer `None` is an unknown event.
    #[inline]
    pub(crate) fn decode<'a>(
        &'a mut self,
        raw: &'a [u8],
    ) -> Option<Option<(&'static Spec, Values<'a>)>> {
        // `common_type` is the first field of every tracepoint.
        let id = Cursor::new(raw).u16()?;
        let event = self.events.get_mut(usize::from(id))?.as_mut()?;
        event.count += 1;
        let Some(spec) = event.spec else {
            return Some(None);
        };
        let mut values = Values::default();
        for (value, field) in values.iter_mut().zip(&event.fields) {
            if let Some(field) = field {
                *value = field.value(raw, &self.texts);
            }
        }
        Some(Some((spec, values)))
    }

    pub(crate) fn into_counts(self) -> impl Iterator<Item = (String, u64)> {
        self.events.into_iter().flatten().map(|event| (event.name, event.count))
    }
}

impl Field {
    #[inline]
    fn value<'a>(
        &self,
        raw: &'a [u8],
        texts: &'a HashMap<u64, Box<[u8]>>,
    ) -> Option<tracepoint::Value<'a>> {
        let bytes = raw.get(self.offset..self.offset.checked_add(self.size)?)?;
        Some(match self.kind {
            Kind::Number => tracepoint::Value::Number(self.number(bytes)?),
            Kind::Text => tracepoint::Value::Bytes(until_nul(bytes)),
            Kind::TextPointer => tracepoint::Value::Bytes(texts.get(&self.number(bytes)?)?),
            Kind::Located { is_text } => located(bytes, raw, 0, is_text)?,
            Kind::RelativelyLocated { is_text } => {
                located(bytes, raw, self.offset + self.size, is_text)?
            }
        })
    }

    #[inline]
    fn number(&self, bytes: &[u8]) -> Option<u64> {
        let mut cursor = Cursor::new(bytes);
        Some(match (self.size, self.is_signed) {
            (1, false) => cursor.u8()?.into(),
            (1, true) => cursor.u8()? as i8 as u64,
            (2, false) => cursor.u16()?.into(),
            (2, true) => cursor.u16()? as i16 as u64,
            (4, false) => cursor.u32()?.into(),
            (4, true) => cursor.u32()? as i32 as u64,
            (8, _) => cursor.u64()?,
            _ => return None,
        })
    }
}

/// A u32 whose low half is an offset and whose high half a length.
fn located<'a>(
    location: &[u8],
    raw: &'a [u8],
    base: usize,
    is_text: bool,
) -> Option<tracepoint::Value<'a>> {
    let location = Cursor::new(location).u32()? as usize;
    let start = base.checked_add(location & 0xffff)?;
    let bytes = raw.get(start..start.checked_add(location >> 16)?)?;
    Some(tracepoint::Value::Bytes(if is_text { until_nul(bytes) } else { bytes }))
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    &bytes[..end]
}

/// One `format` file of the kernel.
fn event(text: &str) -> Option<(u16, Event)> {
    let (mut name, mut id, mut fields) = (None, None, Vec::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("name: ") {
            name = Some(rest.trim());
        } else if let Some(rest) = line.strip_prefix("ID: ") {
            id = rest.trim().parse().ok();
        } else if line.starts_with("print fmt:") {
            break;
        } else if let Some(rest) = line.trim_start().strip_prefix("field:") {
            fields.extend(field(rest));
        }
    }
    let (name, id) = (name?, id?);
    let spec = spec(name);
    let mut wanted = [None; FIELDS_MAX];
    for (slot, wanted_name) in spec.map_or(&[][..], |spec| spec.fields).iter().enumerate() {
        wanted[slot] = fields.iter().find(|(name, _)| name == wanted_name).map(|(_, field)| *field);
    }
    Some((id, Event { name: name.to_owned(), count: 0, spec, fields: wanted }))
}

/// `unsigned int vec; offset:8; size:4; signed:0;`, with tabs between.
fn field(line: &str) -> Option<(&str, Field)> {
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
    } else if is_text && is_array {
        Kind::Text
    } else if is_text && declaration.contains('*') {
        Kind::TextPointer
    } else {
        Kind::Number
    };
    Some((name, Field { offset, size, is_signed, kind }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracepoint::Value;

    fn parse(line: &str) -> (&str, Field) {
        field(line).expect("a field")
    }

    #[test]
    fn declarations_of_all_kinds_are_understood() {
        let cases = [
            ("pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;", "prev_pid", Kind::Number),
            ("char comm[16];\toffset:8;\tsize:16;\tsigned:0;", "comm", Kind::Text),
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
        ];
        for (line, name, kind) in cases {
            let (found, field) = parse(line);
            assert_eq!((found, field.kind), (name, kind), "{line}");
        }
    }

    /// -1 in two bytes, sign-extended; and a mask of 8 bytes that stands at offset 6.
    #[test]
    fn values_are_read_where_the_description_says() {
        let raw = [0, 0, 0xff, 0xff, 6, 0, 2, 0, 5, 6];
        let texts = HashMap::new();
        let number = Field { offset: 2, size: 2, is_signed: true, kind: Kind::Number };
        assert_eq!(number.value(&raw, &texts), Some(Value::Number(u64::MAX)));
        let mask =
            Field { offset: 4, size: 4, is_signed: false, kind: Kind::Located { is_text: false } };
        assert_eq!(mask.value(&raw, &texts), Some(Value::Bytes(&[2, 0])));
        let beyond = Field { offset: 8, size: 4, is_signed: false, kind: Kind::Number };
        assert_eq!(beyond.value(&raw, &texts), None);
    }
}
