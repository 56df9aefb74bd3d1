// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Parses the text of an event into the fields of its tracepoint's spec.
//!
//! Nearly all text is `key=value` between spaces, as in the kernel's `TP_printk`. A task's name may
//! hold spaces and equals signs, and precedes the numbers: so the text is read from its end, and
//! the last pair of a key counts.

use super::line::number;
use super::scratch::Scratch;
use super::values::{self, integer};
use crate::cursor::{after, find, rfind, split, starts_with};
use crate::model::Names;
use crate::tracepoint::{FIELDS_MAX, Spec, Value, Values};
use memchr::memmem;
use memchr::{memchr, memrchr};

/// A plan for parsing the text of one tracepoint.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub spec: &'static Spec,
    shape: Shape,
    fields: [Option<Field>; FIELDS_MAX],
    /// The keys of the last line's pairs from its end, each with its `=`, and the fields that they
    /// are: the next line most likely has the same.
    layout: Vec<(Box<[u8]>, Option<Wanted>)>,
}

/// The slot of a pair's value, and how it is read.
type Wanted = (usize, Kind);

/// Pairs of a line of which the layout is kept; the rest may be a task's name.
const LAYOUT_MAX: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Pairs,
    Switch,
    Waking,
    /// `ipi_entry: (Rescheduling interrupts)`, `ipi_raise: target_mask=2 (...)`
    Reason,
    /// `irq=11 name=PCIe PME`: the name extends to the end of the line.
    Irq,
    /// `tracing_mark_write: ...`: the whole text.
    Mark,
}

#[derive(Clone, Copy, Debug)]
struct Field {
    /// Key in the kernel's text and in that of `trace-cmd report -R`.
    keys: [&'static [u8]; 2],
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Integer,
    Pointer,
    Function,
    /// A function, read as 1 if it is not null.
    Callback,
    /// `type=below`
    Below,
    Mask,
    TimerFlags,
    /// `cpu=` and `idx=` of a timer, which its flags contain.
    TimerCpu,
    TimerIdx,
}

impl Plan {
    pub(super) fn new(spec: &'static Spec) -> Plan {
        let shape = match spec.name {
            "sched_switch" => Shape::Switch,
            "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => Shape::Waking,
            "ipi_entry" | "ipi_exit" | "ipi_raise" => Shape::Reason,
            "irq_handler_entry" => Shape::Irq,
            "print" => Shape::Mark,
            _ => Shape::Pairs,
        };
        let mut fields = [None; FIELDS_MAX];
        for (slot, name) in fields.iter_mut().zip(spec.fields) {
            *slot = Some(Field::new(name));
        }
        Plan { spec, shape, fields, layout: Vec::new() }
    }

    /// Reads the values; one that is missing or does not parse stays `None`. `cpu` is the line's.
    #[inline]
    pub(super) fn values<'a>(
        &mut self,
        text: &'a [u8],
        cpu: u32,
        scratch: &'a mut Scratch,
        names: &mut Names,
        values: &mut Values<'a>,
    ) {
        match self.shape {
            Shape::Pairs => self.pairs(text, cpu, scratch, names, values),
            Shape::Switch => *values = switch(text),
            Shape::Waking if text.starts_with(b"comm=") => {
                self.pairs(text, cpu, scratch, names, values);
            }
            Shape::Waking => match memmem::rfind(text, b" CPU:") {
                Some(at) => *values = waking(text, at),
                None => self.pairs(text, cpu, scratch, names, values),
            },
            Shape::Irq => *values = irq(text),
            Shape::Reason => self.reason(text, cpu, scratch, names, values),
            Shape::Mark => values[0] = Some(Value::Bytes(mark(text))),
        }
    }

    #[inline]
    fn pairs<'a>(
        &mut self,
        text: &'a [u8],
        cpu: u32,
        scratch: &'a mut Scratch,
        names: &mut Names,
        values: &mut Values<'a>,
    ) {
        // Last, as the mask stays borrowed from the scratch, and flags contain other pairs.
        let (mut mask, mut flags) = (None, None);
        let (mut timer_cpu, mut timer_idx) = (None, None);
        let mut missing = self.spec.fields.len();
        let mut found = [false; FIELDS_MAX];
        let mut pair = 0_usize;
        let mut rest = Some(text.trim_ascii_end());
        while let Some(part) = rest {
            let start = rfind(part, b' ');
            rest = start.map(|start| &part[..start]);
            let word = start.map_or(part, |start| after(part, start, 1));
            let known = match self.layout.get(pair) {
                Some((key, wanted)) if starts_with(word, key) => {
                    Some((*wanted, after(word, key.len(), 0)))
                }
                _ => self.learn(pair, word),
            };
            let Some((wanted, value)) = known else { continue };
            pair = pair.wrapping_add(1);
            let Some((slot, kind)) = wanted else { continue };
            match kind {
                Kind::TimerCpu => timer_cpu = timer_cpu.or(Some(value)),
                Kind::TimerIdx => timer_idx = timer_idx.or(Some(value)),
                // The last pair of a key counts.
                _ if std::mem::replace(&mut found[slot], true) => {}
                _ => {
                    values[slot] = match kind {
                        Kind::Integer => integer(value).map(Value::Number),
                        Kind::Pointer => values::pointer(value).map(Value::Number),
                        Kind::Function => {
                            Some(Value::Function(scratch.functions.function(value, names)))
                        }
                        Kind::Callback => Some(Value::Number((value != b"0x0").into())),
                        Kind::Below => below(value).map(Value::Number),
                        Kind::Mask => {
                            mask = Some((slot, value));
                            None
                        }
                        Kind::TimerFlags | Kind::TimerCpu | Kind::TimerIdx => {
                            flags = Some((slot, value));
                            None
                        }
                    };
                    missing = missing.saturating_sub(1);
                    if missing == 0 {
                        break;
                    }
                }
            }
        }
        if let Some((slot, value)) = flags {
            let of = |value: Option<&'a [u8]>, key: &[u8]| {
                value.or_else(|| last(text, key)).and_then(integer)
            };
            let idx = of(timer_idx, b"idx").unwrap_or(0);
            let cpu = of(timer_cpu, b"cpu").unwrap_or(cpu.into());
            values[slot] = values::timer_flags(value, cpu, idx).map(Value::Number);
        }
        if let Some((slot, text)) = mask {
            values[slot] = values::mask(text, &mut scratch.mask).map(Value::Bytes);
        }
    }

    /// Splits a word that differs from the layout: field and value, if it is a pair.
    #[cold]
    fn learn<'a>(&mut self, pair: usize, word: &'a [u8]) -> Option<(Option<Wanted>, &'a [u8])> {
        let equals = find(word, b'=')?;
        let (key, value) = (&word[..equals], after(word, equals, 1));
        let field = |slot: usize| self.fields[slot].filter(|field| field.is(key));
        let wanted = (0..FIELDS_MAX).find_map(|slot| Some((slot, field(slot)?.kind)));
        let wanted = wanted.or(match key {
            b"cpu" => Some((0, Kind::TimerCpu)),
            b"idx" => Some((0, Kind::TimerIdx)),
            _ => None,
        });
        if pair < LAYOUT_MAX {
            self.layout.truncate(pair);
            self.layout.push((word[..=equals].into(), wanted));
        }
        Some((wanted, value))
    }

    /// Reads an event that ends with a reason: in parentheses, or as a pair by `report -R`.
    fn reason<'a>(
        &mut self,
        text: &'a [u8],
        cpu: u32,
        scratch: &'a mut Scratch,
        names: &mut Names,
        values: &mut Values<'a>,
    ) {
        let text = text.trim_ascii_end();
        let (head, reason) = match memchr(b'(', text) {
            Some(at) => (&text[..at], after(text, at, 1).strip_suffix(b")")),
            None => {
                split(text, b"reason=").map_or((text, None), |(head, reason)| (head, Some(reason)))
            }
        };
        self.pairs(head.trim_ascii_end(), cpu, scratch, names, values);
        let slot = self.spec.fields.iter().position(|field| *field == "reason");
        if let Some(slot) = slot {
            values[slot] = reason.map(Value::Bytes);
        }
    }
}

/// Iterates over the pairs of a text from its end.
#[inline]
fn pairs_from_end(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = Some(text.trim_ascii_end());
    std::iter::from_fn(move || {
        while let Some(text) = rest {
            let start = rfind(text, b' ');
            rest = start.map(|start| &text[..start]);
            let word = start.map_or(text, |start| after(text, start, 1));
            if let Some(equals) = find(word, b'=') {
                return Some((&word[..equals], after(word, equals, 1)));
            }
        }
        None
    })
}

/// Reads `type=below` or `type=above`, or the number of `report -R`.
fn below(text: &[u8]) -> Option<u64> {
    match text {
        b"below" => Some(1),
        b"above" => Some(0),
        _ => integer(text),
    }
}

fn last<'a>(text: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    pairs_from_end(text).find(|(found, _)| *found == key).map(|(_, value)| value)
}

/// Reads `sched_switch`: `prev_pid`, `prev_state`, `next_pid`, `next_comm`.
#[inline]
fn switch(text: &[u8]) -> Values<'_> {
    kernel_switch(text).or_else(|| trace_cmd_switch(text)).unwrap_or_default()
}

/// The longest name the kernel gives a task.
pub(super) const COMM_MAX: usize = 15;

/// `prev_comm=a b prev_pid=1 prev_prio=120 prev_state=R+ ==> next_comm=c next_pid=2 next_prio=120`
#[inline]
fn kernel_switch(text: &[u8]) -> Option<Values<'_>> {
    let next_pid = last(text, b"next_pid")?;
    let start = (next_pid.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let end = start.checked_sub(b"next_pid=".len())?;
    let head = text.get(..end)?.strip_suffix(b" ")?;
    const KEY: &[u8] = b" next_comm=";
    let at = next_comm_at(head, KEY).or_else(|| {
        const WINDOW: usize = COMM_MAX + KEY.len() + 1;
        let window = end.saturating_sub(WINDOW);
        head[window.min(head.len())..]
            .windows(KEY.len())
            .position(|bytes| bytes == KEY)
            .and_then(|at| at.checked_add(window))
            .or_else(|| memmem::rfind(head, KEY))
    })?;
    let (prev, comm) = (&head[..at], after(head, at, KEY.len()));
    let (mut prev_pid, mut prev_state) = (None, None);
    for (key, value) in pairs_from_end(prev) {
        match key {
            b"prev_state" => prev_state = prev_state.or_else(|| values::kernel_state(value)),
            b"prev_pid" => {
                prev_pid = integer(value);
                break;
            }
            _ => {}
        }
    }
    Some([
        prev_pid.map(Value::Number),
        prev_state.map(Value::Number),
        integer(next_pid).map(Value::Number),
        Some(comm).filter(is_known).map(Value::Bytes),
        None,
    ])
}

/// Returns the place of `key` if a name of two bytes or more without a space follows it, and an arrow
/// precedes it: then the name itself is too short to hold the same.
#[inline(always)]
fn next_comm_at(head: &[u8], key: &[u8]) -> Option<usize> {
    let at = rfind(head, b' ')?;
    let name = head[at..].strip_prefix(key)?;
    (name.len() > 1 && head[..at].ends_with(b" ==>")).then_some(at)
}

/// `a b:1 [120] S ==> c:2 [120]`
fn trace_cmd_switch(text: &[u8]) -> Option<Values<'_>> {
    const ARROW: &[u8] = b" ==> ";
    let arrow = memmem::rfind(text, ARROW)?;
    let (next_comm, next_pid) = comm_and_pid(after(text, arrow, ARROW.len()))?;
    let prev = &text[..arrow];
    let state = memrchr(b' ', prev)?;
    let (_, prev_pid) = comm_and_pid(&prev[..state])?;
    Some([
        Some(Value::Number(prev_pid)),
        values::trace_cmd_state(after(prev, state, 1)).map(Value::Number),
        Some(Value::Number(next_pid)),
        Some(next_comm).filter(is_known).map(Value::Bytes),
        None,
    ])
}

/// Reads `sched_waking` (`pid` and `target_cpu`) from `a b:1 [120] CPU:001`, with `at` the space
/// before the CPU. For old kernels, a note about a missing field precedes it.
fn waking(text: &[u8], at: usize) -> Values<'_> {
    let pid = comm_and_pid(&text[..at]).map(|(_, pid)| Value::Number(pid));
    let cpu = number(after(text, at, b" CPU:".len())).map(|(cpu, _)| Value::Number(cpu));
    [pid, cpu, None, None, None]
}

/// Reads `irq_handler_entry`: `irq` and `name`.
fn irq(text: &[u8]) -> Values<'_> {
    let (head, name) = split(text, b" name=").map_or((text, None), |(h, name)| (h, Some(name)));
    let irq = last(head, b"irq").and_then(integer);
    let name = name.map(|name| Value::Bytes(name.trim_ascii_end()));
    [irq.map(Value::Number), name, None, None, None]
}

/// Splits `a b:1 [120]...` into name and pid.
fn comm_and_pid(text: &[u8]) -> Option<(&[u8], u64)> {
    let task = &text[..memmem::rfind(text, b" [")?];
    let colon = memrchr(b':', task)?;
    Some((&task[..colon], integer(after(task, colon, 1))?))
}

/// False for `<...>`, which the kernel prints for a task whose name it no longer has.
fn is_known(comm: &&[u8]) -> bool {
    *comm != b"<...>"
}

/// Returns a mark without the writer that `trace-cmd report` puts before it (`-R` as pairs).
fn mark(text: &[u8]) -> &[u8] {
    let text = text.strip_prefix(b"ip=").unwrap_or(text);
    let Some(rest) = text.strip_prefix(b"tracing_mark_write") else {
        return text;
    };
    match rest {
        [b':', rest @ ..] => rest.trim_ascii_start(),
        [b' ', b'b', b'u', b'f', b'=', rest @ ..] => rest,
        _ => text,
    }
}

impl Field {
    fn new(name: &'static str) -> Field {
        let printed = match name {
            "io_wait" => "iowait",
            "below" => "type",
            "target_cpus" => "target_mask",
            _ => name,
        };
        let kind = match name {
            "hrtimer" | "timer" => Kind::Pointer,
            "function" => Kind::Function,
            "callback" => Kind::Callback,
            "below" => Kind::Below,
            "cpumask" | "target_cpus" => Kind::Mask,
            "flags" => Kind::TimerFlags,
            _ => Kind::Integer,
        };
        Field { keys: [printed.as_bytes(), name.as_bytes()], kind }
    }

    #[inline]
    fn is(&self, key: &[u8]) -> bool {
        self.keys.contains(&key)
    }
}
