// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Turns lines into events of the model, and counts lines by event name.

use super::fields::Plan;
use super::line::{Line, Unit};
use super::scratch::{Scratch, slot};
use super::timers::{Role, Timers};
use super::values::{hexadecimal, integer};
use crate::builder::Builder;
use crate::cursor::{after, ends, find, is_same, split};
use crate::loss;
use crate::model::{EventKind, Probe};
use crate::tracepoint::{self, Context, Values, spec};
use memchr::memchr;
use std::collections::HashMap;

#[derive(Default)]
pub(super) struct Events {
    pub timers: Timers,
    kinds: Vec<Kind>,
    by_name: HashMap<Box<[u8]>, usize>,
    /// Recent names, so that most lines need no hashing.
    recent: Vec<Recent>,
    scratch: Scratch,
}

struct Kind {
    name: Box<[u8]>,
    count: u64,
    plan: Option<Plan>,
    /// The last place of a probe of this name.
    place: Option<(Box<[u8]>, Place)>,
    role: Option<Role>,
}

/// A name by its length and ends, and its index in `kinds`.
#[derive(Clone, Default)]
struct Recent {
    length: usize,
    ends: (u64, u64),
    index: usize,
}

const RECENT: usize = 512;

/// Length up to which its ends are all of a name.
const ENDS_MAX: usize = 16;

impl Events {
    pub(super) fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    #[inline]
    pub(super) fn record(&mut self, line: &Line<'_>, out: &mut Builder) {
        if line.time.unit != Unit::Seconds {
            self.timers.is_relative |= line.time.has_unit();
            out.lose(&loss::TIME_UNIT_UNKNOWN, u64::from(!line.time.has_unit()));
        }
        let index = self.kind(line.name);
        let kind = &mut self.kinds[index];
        kind.count = kind.count.saturating_add(1);
        let Some(plan) = &mut kind.plan else {
            return probed(line, &mut kind.place, out);
        };
        let mut values = Values::default();
        plan.values(line.text, line.cpu, &mut self.scratch, &mut out.names, &mut values);
        if let Some(role) = kind.role {
            if !self.timers.complete(role, line, &mut values, out) {
                return;
            }
        }
        let mut context = Context { builder: out, time_ns: line.time.ns, cpu: line.cpu };
        plan.spec.record(&mut context, &values);
    }

    #[inline]
    fn kind(&mut self, name: &[u8]) -> usize {
        // Two names may share a slot, so each has another one.
        let (slot, ends) = (slot(name) % RECENT, ends(name));
        for slot in [slot, slot ^ 1] {
            let Some(recent) = self.recent.get(slot) else { continue };
            let may_be = recent.length == name.len() && recent.ends == ends;
            if may_be && (name.len() <= ENDS_MAX || self.is_named(recent.index, name)) {
                return recent.index;
            }
        }
        self.kind_by_hash(name, slot)
    }

    fn is_named(&self, index: usize, name: &[u8]) -> bool {
        self.kinds.get(index).is_some_and(|kind| is_same(&kind.name, name))
    }

    #[cold]
    fn kind_by_hash(&mut self, name: &[u8], slot: usize) -> usize {
        let index = *self.by_name.entry(name.into()).or_insert_with(|| {
            let plan = std::str::from_utf8(model_name(name)).ok().and_then(spec).map(Plan::new);
            let role = plan.as_ref().and_then(|plan| Role::of(plan.spec.name));
            let index = self.kinds.len();
            self.kinds.push(Kind { name: name.into(), count: 0, plan, place: None, role });
            index
        });
        let free = Recent { length: usize::MAX, ..Recent::default() };
        self.recent.resize(RECENT, free);
        let is_free = self.recent[slot].length == usize::MAX;
        let recent = Recent { length: name.len(), ends: ends(name), index };
        self.recent[if is_free { slot } else { slot ^ 1 }] = recent;
        index
    }

    pub(super) fn finish(self, out: &mut Builder) {
        for kind in self.kinds {
            out.count(String::from_utf8_lossy(model_name(&kind.name)).into_owned(), kind.count);
        }
        self.timers.set_clock(out);
    }
}

/// Returns the tracepoint's name. A text has some events under another one.
fn model_name(name: &[u8]) -> &[u8] {
    match name {
        b"tracing_mark_write" => b"print",
        b"" => b"function",
        _ => name,
    }
}

/// Records a dynamic probe. It has any name, and its place in parentheses:
/// `sl: (menu_select+0x2f0/0x5d0 <- tick_nohz_get_sleep_length) ret=1827768` on return,
/// `reflect: (cpuidle_reflect+0x4/0x30) idx=3` on entry.
#[inline]
fn probed(line: &Line<'_>, last: &mut Option<(Box<[u8]>, Place)>, out: &mut Builder) {
    let Some(place) = line.text.strip_prefix(b"(") else { return };
    let Some(end) = find(place, b')') else { return };
    let (text, rest) = (&place[..end], after(place, end, 1));
    let place = match last {
        Some((known, place)) if is_same(known, text) => *place,
        _ => {
            let place = Place::of(text);
            *last = Some((text.into(), place));
            place
        }
    };
    let probe = match place {
        Place::Watched(probe) => probe,
        Place::Address => return out.lose(&loss::PROBES_WITHOUT_SYMBOL, 1),
        Place::Other => return,
    };
    let value = find(rest, b'=').and_then(|at| {
        let value = after(rest, at, 1);
        integer(&value[..find(value, b' ').unwrap_or(value.len())])
    });
    let kind = EventKind::Probed { probe, value: (value.unwrap_or(0) as i64).into() };
    out.push(line.time.ns, line.cpu, kind);
}

/// The function of a dynamic probe.
#[derive(Clone, Copy)]
enum Place {
    Watched(Probe),
    /// A function without a symbol.
    Address,
    Other,
}

impl Place {
    #[cold]
    fn of(place: &[u8]) -> Place {
        let symbol = match split(place, b" <- ") {
            Some((_, function)) => word(function),
            None if is_entry(place) => word(place),
            None => return Place::Other,
        };
        match tracepoint::probe(symbol) {
            Some(probe) => Place::Watched(probe),
            None if symbol.len() == ADDRESS_DIGITS && hexadecimal(symbol).is_some() => {
                Place::Address
            }
            None => Place::Other,
        }
    }
}

/// Digits of an address, as in trace-cmd's `(ffffffff81188874 <- ffffffff811c18da) ret=1`.
const ADDRESS_DIGITS: usize = 16;

/// Returns the symbol of `symbol+0x4/0x30`.
fn word(place: &[u8]) -> &[u8] {
    &place[..memchr(b'+', place).unwrap_or(place.len())]
}

/// Largest offset of a probe at a function's entry, after landing pad and tracer call.
const ENTRY_MAX: u64 = 0x10;

fn is_entry(place: &[u8]) -> bool {
    let Some(at) = memchr(b'+', place) else { return true };
    let offset = after(place, at, 1);
    let offset = &offset[..memchr(b'/', offset).unwrap_or(offset.len())];
    integer(offset).is_some_and(|offset| offset <= ENTRY_MAX)
}
