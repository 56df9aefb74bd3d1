// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Tracepoints that Perfetto's own schema lacks: the trace describes them.
//!
//! Older recorders write all names into every event (`GenericFtraceEvent`); newer ones describe an
//! event's number once (`GenericEventDescriptor`, around a `DescriptorProto`).

use super::schema;
use super::wire::{Fields, Value, pick};
use crate::builder::Builder;
use crate::tracepoint::{Context, Spec, Values, spec};
use rustc_hash::FxHashMap;

#[derive(Default)]
pub(crate) struct Generic {
    by_name: FxHashMap<Box<[u8]>, Known>,
    by_number: FxHashMap<u32, Described>,
    unknown: FxHashMap<u32, u64>,
}

struct Known {
    spec: Option<&'static Spec>,
    count: u64,
}

struct Described {
    name: String,
    spec: Option<&'static Spec>,
    /// (proto field number, slot of the spec)
    slots: Vec<(u32, usize)>,
    count: u64,
}

impl Generic {
    /// Reads a `GenericFtraceEvent`: event_name = 1,
    /// field = 2 { name = 1, str = 3, int = 4, uint = 5 }.
    pub(crate) fn by_name(&mut self, payload: &[u8], context: &mut Context<'_>) -> Option<()> {
        let mut fields = Fields::new(payload);
        let name = fields.by_ref().find(|(number, _)| *number == 1)?.1.bytes()?;
        let known = match self.by_name.get_mut(name) {
            Some(known) => known,
            None => {
                let spec = std::str::from_utf8(name).ok().and_then(spec);
                self.by_name.entry(name.into()).or_insert(Known { spec, count: 0 })
            }
        };
        known.count = known.count.saturating_add(1);
        let Some(spec) = known.spec else {
            return Some(());
        };
        let mut values = Values::default();
        for (number, value) in fields.by_ref() {
            if let (2, Value::Bytes(field)) = (number, value) {
                fill(field, spec, &mut values);
            }
        }
        if fields.fault().is_some() {
            return None;
        }
        spec.record(context, &values);
        Some(())
    }

    /// Reads a `GenericEventDescriptor`: field_id = 1,
    /// event_descriptor = 2 { name = 1, field = 2 { name = 1, number = 3 } }.
    pub(crate) fn describe(&mut self, descriptor: &[u8]) {
        let [id, message] = pick(descriptor, [1, 2]);
        let (Some(id), Some(message)) = (id.and_then(small), message.and_then(Value::bytes)) else {
            return;
        };
        let mut name = String::new();
        let mut numbered = Vec::new();
        for (number, value) in Fields::new(message) {
            match (number, value) {
                (1, Value::Bytes(bytes)) => name = String::from_utf8_lossy(bytes).into_owned(),
                (2, Value::Bytes(field)) => numbered.extend(numbered_field(field)),
                _ => {}
            }
        }
        let spec = spec(&name);
        let slot_of =
            |field: &[u8]| spec?.fields.iter().position(|wanted| wanted.as_bytes() == field);
        let slots = numbered
            .into_iter()
            .filter_map(|(field, number)| Some((number, slot_of(field)?)))
            .collect();
        self.by_number.entry(id).or_insert(Described { name, spec, slots, count: 0 });
    }

    pub(crate) fn by_number(
        &mut self,
        number: u32,
        payload: &[u8],
        context: &mut Context<'_>,
    ) -> Option<()> {
        let Some(described) = self.by_number.get_mut(&number) else {
            let count = self.unknown.entry(number).or_default();
            *count = count.saturating_add(1);
            return Some(());
        };
        described.count = described.count.saturating_add(1);
        let Some(spec) = described.spec else {
            return Some(());
        };
        let slot = |number| {
            described.slots.iter().find(|(known, _)| *known == number).map(|(_, slot)| *slot)
        };
        schema::record(spec, slot, payload, context)
    }

    #[expect(clippy::iter_over_hash_type, reason = "sums by name have no order")]
    pub(crate) fn finish(self, out: &mut Builder) {
        for (name, known) in self.by_name {
            out.count(String::from_utf8_lossy(&name).into_owned(), known.count);
        }
        for described in self.by_number.into_values().filter(|described| described.count > 0) {
            out.count(described.name, described.count);
        }
        for (number, count) in self.unknown {
            out.count(format!("perfetto_event_{number}"), count);
        }
    }
}

fn small(value: Value<'_>) -> Option<u32> {
    value.number().and_then(|number| u32::try_from(number).ok())
}

fn fill<'a>(field: &'a [u8], spec: &Spec, values: &mut Values<'a>) {
    let (mut slot, mut found) = (None, None);
    for (number, value) in Fields::new(field) {
        match (number, value) {
            (1, Value::Bytes(name)) => {
                slot = spec.fields.iter().position(|wanted| wanted.as_bytes() == name);
            }
            (3..=5, value) => found = Some(value.into()),
            _ => {}
        }
    }
    if let (Some(slot), Some(value)) = (slot, found) {
        values[slot] = Some(value);
    }
}

fn numbered_field(field: &[u8]) -> Option<(&[u8], u32)> {
    let [name, number] = pick(field, [1, 3]);
    Some((name?.bytes()?, small(number?)?))
}
