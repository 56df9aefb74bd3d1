// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The recorded kernel's events: their numbers, names and fields, from its `format` files.
//!
//! An event starts with its number. Offsets of fields differ between kernels and come from the
//! description, which is resolved once: reading an event needs no look-up by name.

use super::field::{Field, Surroundings};
use crate::builder::Builder;
use crate::cursor::{Cursor, Endian};
use crate::kallsyms::Kallsyms;
use crate::model::{EventKind, Probe};
use crate::tracepoint::{self, Context, FIELDS_MAX, Spec, Values, spec};
use std::collections::HashMap;

#[derive(Debug)]
pub(crate) struct Formats {
    endian: Endian,
    /// Indexed by the event's number.
    events: Vec<Option<Event>>,
    /// Texts by their address in the kernel.
    texts: HashMap<u64, Box<[u8]>>,
    /// Empty if the recorder kept no `/proc/kallsyms`.
    pub symbols: Kallsyms,
    pub page: PageLayout,
    /// Functions that dynamic probes may watch: start, end, and the probe.
    probed: Vec<(u64, u64, Probe)>,
}

/// Layout of a page of the kernel's ring buffer, from `header_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageLayout {
    pub commit_offset: usize,
    /// Also the size of a kernel's `long`.
    pub commit_bytes: usize,
    pub data_offset: usize,
}

#[derive(Debug)]
struct Event {
    name: String,
    count: u64,
    reading: Reading,
}

/// The part of an event to read.
#[derive(Debug)]
enum Reading {
    Nothing,
    /// The spec's fields, in its order.
    Tracepoint(&'static Spec, [Option<Field>; FIELDS_MAX]),
    /// A dynamic probe: its address, and the first value it fetches.
    Probe {
        address: Field,
        value: Option<Field>,
    },
}

/// An event that becomes one of the model.
pub(crate) enum Decoded<'a> {
    Tracepoint(&'static Spec, Values<'a>),
    Probe(Probe, i64),
}

impl Formats {
    pub(crate) fn new(endian: Endian, long_bytes: usize) -> Formats {
        Formats {
            endian,
            events: Vec::new(),
            texts: HashMap::new(),
            symbols: Kallsyms::default(),
            page: PageLayout {
                commit_offset: 8,
                commit_bytes: long_bytes,
                data_offset: long_bytes.saturating_add(8),
            },
            probed: Vec::new(),
        }
    }

    /// Reads the description at the start of a trace-cmd file, up to the texts of `trace_printk`.
    /// Returns `None`, with the parts read so far, if it is cut.
    pub(crate) fn description(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        self.header_info(cursor)?;
        self.ftrace_events(cursor)?;
        self.event_systems(cursor)?;
        self.kallsyms(cursor)?;
        self.printk(cursor)
    }

    pub(crate) fn header_info(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        for _ in ["header_page", "header_event"] {
            let name = cursor.c_str()?;
            let size = cursor.u64()?;
            let text = cursor.bytes(size)?;
            if name == b"header_page" {
                self.page.note(&String::from_utf8_lossy(text));
            }
        }
        Some(())
    }

    pub(crate) fn ftrace_events(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        for _ in 0..cursor.u32()? {
            let size = cursor.u64()?;
            let text = String::from_utf8_lossy(cursor.bytes(size)?);
            if let Some((id, event)) = Event::parse(&text) {
                let index = usize::from(id);
                if self.events.len() <= index {
                    self.events.resize_with(index + 1, || None);
                }
                self.events[index] = Some(event);
            }
        }
        Some(())
    }

    pub(crate) fn event_systems(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        for _ in 0..cursor.u32()? {
            cursor.c_str()?;
            self.ftrace_events(cursor)?;
        }
        Some(())
    }

    pub(crate) fn kallsyms(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        let size = cursor.u32()?;
        self.symbols = Kallsyms::parse(cursor.bytes(size.into())?);
        Some(())
    }

    /// Reads lines such as `0xffffffff8281a285 : "rcu_preempt"`.
    pub(crate) fn printk(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        let size = cursor.u32()?;
        for line in String::from_utf8_lossy(cursor.bytes(size.into())?).lines() {
            if let Some((address, text)) = line.split_once(" : \"") {
                let address = u64::from_str_radix(address.trim_start_matches("0x"), 16);
                if let (Ok(address), Some(text)) = (address, text.strip_suffix('"')) {
                    self.texts.insert(address, text.as_bytes().into());
                }
            }
        }
        Some(())
    }

    /// Looks up the functions that dynamic probes may watch. Probes read before that are ignored.
    pub(crate) fn find_probed(&mut self) {
        let probed = |(start, end, name): (u64, u64, &str)| {
            Some((start, end, tracepoint::probe(name.as_bytes())?))
        };
        self.probed = self.symbols.functions().filter_map(probed).collect();
    }

    /// Counts the event, and decodes it if the model has its kind. The outer `None` stands for an
    /// event without a description.
    #[inline]
    pub(crate) fn decode<'a>(&'a mut self, raw: &'a [u8]) -> Option<Option<Decoded<'a>>> {
        // `common_type` is the first field of every tracepoint.
        let id = Cursor::ordered(raw, self.endian).u16()?;
        let event = self.events.get_mut(usize::from(id))?.as_mut()?;
        event.count = event.count.saturating_add(1);
        Some(match &event.reading {
            Reading::Nothing => None,
            Reading::Tracepoint(spec, fields) => {
                let around = Surroundings {
                    endian: self.endian,
                    texts: &self.texts,
                    long_bytes: self.page.commit_bytes,
                };
                let mut values = Values::default();
                for (value, field) in values.iter_mut().zip(fields) {
                    if let Some(field) = field {
                        *value = field.value(raw, &around);
                    }
                }
                Some(Decoded::Tracepoint(spec, values))
            }
            Reading::Probe { address, value } => {
                let number = |field: &Field| field.number_in(raw, self.endian);
                let address = number(address)?;
                // A probe follows the function's landing pad (4 bytes on x86 with IBT).
                let probed =
                    self.probed.iter().find(|(start, end, _)| (*start..*end).contains(&address));
                let value = value.as_ref().and_then(number).unwrap_or(0) as i64;
                probed.map(|(_, _, probe)| Decoded::Probe(*probe, value))
            }
        })
    }

    pub(crate) fn finish(self, out: &mut Builder) {
        for event in self.events.into_iter().flatten().filter(|event| event.count > 0) {
            out.count(event.name, event.count);
        }
    }
}

impl Decoded<'_> {
    #[inline]
    pub(crate) fn record(&self, context: &mut Context<'_>) {
        match *self {
            Decoded::Tracepoint(spec, ref values) => spec.record(context, values),
            Decoded::Probe(probe, value) => {
                context.push(EventKind::Probed { probe, value: value.into() });
            }
        }
    }
}

impl PageLayout {
    fn note(&mut self, text: &str) {
        for line in text.lines() {
            let field = line.trim_start().strip_prefix("field:").and_then(Field::parse);
            match field {
                Some(("commit", field)) => {
                    (self.commit_offset, self.commit_bytes) = (field.offset, field.size);
                }
                Some(("data", field)) => self.data_offset = field.offset,
                _ => {}
            }
        }
    }
}

impl Event {
    /// Parses one `format` file of the kernel.
    fn parse(text: &str) -> Option<(u16, Event)> {
        let (mut name, mut id, mut fields) = (None, None, Vec::new());
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("name: ") {
                name = Some(rest.trim());
            } else if let Some(rest) = line.strip_prefix("ID: ") {
                id = rest.trim().parse().ok();
            } else if line.starts_with("print fmt:") {
                break;
            } else if let Some(rest) = line.trim_start().strip_prefix("field:") {
                fields.extend(Field::parse(rest));
            }
        }
        let name = name?;
        Some((id?, Event { name: name.to_owned(), count: 0, reading: Reading::of(name, &fields) }))
    }
}

impl Reading {
    fn of(name: &str, fields: &[(&str, Field)]) -> Reading {
        let find = |name: &str| fields.iter().position(|(known, _)| *known == name);
        let field = |index: usize| fields.get(index).map(|(_, field)| *field);
        // A return probe has the function's address and the return address.
        let address = find("__probe_func").or_else(|| find("__probe_ip"));
        if let Some(address) = address {
            let last = find("__probe_ret_ip").unwrap_or(address);
            let value = last.checked_add(1).and_then(field);
            return Reading::Probe { address: fields[address].1, value };
        }
        let Some(spec) = spec(name) else {
            return Reading::Nothing;
        };
        let mut wanted = [None; FIELDS_MAX];
        for (slot, name) in wanted.iter_mut().zip(spec.fields) {
            *slot = find(name).and_then(field);
        }
        Reading::Tracepoint(spec, wanted)
    }
}
