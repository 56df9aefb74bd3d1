// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Turns a tracepoint's named fields into an event of the model.
//!
//! Formats differ in how they store a field; its meaning is the tracepoint's. A reader fills in the
//! fields that a [`Spec`] names, in that order, and the spec builds the event.

#[cfg(test)]
mod tests;

use crate::builder::Builder;
use crate::loss;
use crate::model::{
    EventKind, Function, FunctionId, InterruptCause, PrevState, Probe, Slim, Timer,
};
use std::num::NonZeroU64;
use torpor_machine::units::{CpuId, Instant, StateIdx};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// Sign-extended if the field is signed.
    Number(u64),
    /// A text without its NUL, or a CPU mask with CPU 0 in the first byte.
    Bytes(&'a [u8]),
    /// A function whose symbol is known.
    Function(Function),
    /// A CPU mask of a big-endian machine, with CPU 0 in the last byte of the first word.
    BigEndianWords { bytes: &'a [u8], word_bytes: usize },
}

/// Maximum number of fields of a spec.
pub(crate) const FIELDS_MAX: usize = 5;
pub(crate) type Values<'a> = [Option<Value<'a>>; FIELDS_MAX];

/// Destination, time and CPU of an event. The CPU is that of the ring buffer.
pub(crate) struct Context<'b> {
    pub builder: &'b mut Builder,
    pub time_ns: u64,
    pub cpu: u32,
}

/// Records the event; `None` if a field is missing.
type Build = fn(&mut Context<'_>, &Fields<'_, '_>) -> Option<()>;

#[derive(Debug)]
pub(crate) struct Spec {
    pub name: &'static str,
    pub fields: &'static [&'static str],
    build: Build,
}

impl Spec {
    /// Adds the event to the builder, or counts a missing field.
    #[inline]
    pub(crate) fn record(&self, context: &mut Context<'_>, values: &Values<'_>) {
        if (self.build)(context, &Fields(values)).is_none() {
            context.builder.lose(&loss::FIELD_MISSING, 1);
        }
    }
}

/// Returns the kernel names of the events that become inputs.
pub fn event_names() -> impl Iterator<Item = &'static str> {
    SPECS.iter().map(|spec| spec.name)
}

pub(crate) fn spec(name: &str) -> Option<&'static Spec> {
    SPECS.iter().find(|spec| spec.name == name)
}

pub(crate) struct Fields<'v, 'a>(&'v Values<'a>);

impl<'a> Fields<'_, 'a> {
    #[inline]
    fn number(&self, index: usize) -> Option<u64> {
        match self.0[index] {
            Some(Value::Number(number)) => Some(number),
            _ => None,
        }
    }

    fn bytes(&self, index: usize) -> Option<&'a [u8]> {
        match self.0[index] {
            Some(Value::Bytes(bytes)) => Some(bytes),
            _ => None,
        }
    }

    #[inline]
    fn timer(&self, c: &mut Context<'_>) -> Option<Timer> {
        Some(c.builder.names.timer(self.number(0)?))
    }

    #[inline]
    fn function(&self, c: &mut Context<'_>) -> Option<FunctionId> {
        let function = match self.0[1]? {
            Value::Number(address) => Function { address, symbol: None },
            Value::Function(function) => function,
            Value::Bytes(_) | Value::BigEndianWords { .. } => return None,
        };
        c.builder.names.function(function)
    }

    /// Returns a `ktime_t`; a negative one becomes 0, as an instant of a trace is never negative.
    #[inline]
    fn ktime(&self, index: usize) -> Option<Slim<Instant>> {
        Some(Instant((self.number(index)? as i64).max(0)).into())
    }

    fn is_set(&self, index: usize) -> Option<bool> {
        Some(self.number(index)? != 0)
    }
}

/// Interprets `prev_state`. `TASK_REPORT_MAX` (0x100 since Linux 4.14, a higher bit before) marks a
/// preempted task, which is runnable; of the bits above, only `TASK_PARKED` (0x200) is a sleep.
/// 0x10 and 0x20 are `EXIT_DEAD` and `EXIT_ZOMBIE`, which were once swapped.
pub(crate) fn prev_state(state: u64) -> PrevState {
    match state & 0x2ff {
        0 => PrevState::Runnable,
        state if state & 0x30 != 0 => PrevState::Dead,
        state if state & 2 != 0 => PrevState::DiskSleep,
        _ => PrevState::Sleeping,
    }
}

/// The functions that probes watch.
pub(crate) static PROBES: [(&str, Probe); 10] = [
    ("cpuidle_select", Probe::Select),
    ("cpuidle_reflect", Probe::Reflect),
    ("tick_nohz_get_sleep_length", Probe::SleepLength),
    ("tick_nohz_next_event", Probe::NextEvent),
    ("rcu_needs_cpu", Probe::RcuNeedsCpu),
    ("sched_cpu_util", Probe::Util),
    ("tick_nohz_idle_stop_tick", Probe::StopTick),
    ("tick_nohz_idle_retain_tick", Probe::RetainTick),
    ("tick_nohz_idle_enter", Probe::IdleEnter),
    ("tick_nohz_irq_exit", Probe::IrqExit),
];

pub(crate) fn probe(symbol: &[u8]) -> Option<Probe> {
    PROBES.iter().find(|(name, _)| name.as_bytes() == symbol).map(|(_, probe)| *probe)
}

/// Returns x86's names of an interrupt's entry and exit, and its vector in Linux 6.12.
pub(crate) fn x86_interrupt(cause: InterruptCause) -> (&'static str, &'static str, u32) {
    match cause {
        InterruptCause::LocalTimer => ("local_timer_entry", "local_timer_exit", 236),
        InterruptCause::Reschedule => ("reschedule_entry", "reschedule_exit", 253),
        InterruptCause::CallFunction => {
            ("call_function_single_entry", "call_function_single_exit", 251)
        }
        InterruptCause::IrqWork => ("irq_work_entry", "irq_work_exit", 246),
        InterruptCause::Other => ("x86_platform_ipi_entry", "x86_platform_ipi_exit", 247),
    }
}

/// Interprets `cpu_idle`'s state, a u32 in which -1 means running.
fn state(number: u64) -> Option<StateIdx> {
    let state = number as u32 as i32;
    (-1..=255).contains(&state).then_some(StateIdx(state))
}

/// Interprets a text of `ipi_types[]` on arm and arm64.
fn ipi_cause(reason: &[u8]) -> InterruptCause {
    match reason {
        b"Rescheduling interrupts" => InterruptCause::Reschedule,
        b"Function call interrupts" | b"Single function call interrupts" => {
            InterruptCause::CallFunction
        }
        b"IRQ work interrupts" => InterruptCause::IrqWork,
        b"Timer broadcast interrupts" => InterruptCause::LocalTimer,
        _ => InterruptCause::Other,
    }
}

/// Returns the cause of `ipi_send_cpu` and `ipi_send_cpumask`: only a reschedule has no callback.
fn send_cause(callback: Option<u64>) -> InterruptCause {
    match callback {
        Some(0) => InterruptCause::Reschedule,
        Some(_) => InterruptCause::CallFunction,
        None => InterruptCause::Other,
    }
}

/// Records one `IpiSend` for each CPU of a mask.
fn send_to_mask(context: &mut Context<'_>, mask: Value<'_>, cause: InterruptCause) {
    let mut send = |target: usize| {
        context.push(EventKind::IpiSend { target_cpu: CpuId(target as u32), cause });
    };
    match mask {
        Value::Number(mask) => (0..64).filter(|cpu| mask >> cpu & 1 != 0).for_each(&mut send),
        Value::Bytes(mask) => cpus_of(mask.iter(), 0, &mut send),
        Value::BigEndianWords { bytes, word_bytes } => {
            for (index, word) in bytes.chunks(word_bytes.max(1)).enumerate() {
                cpus_of(
                    word.iter().rev(),
                    index.saturating_mul(word_bytes).saturating_mul(8),
                    &mut send,
                );
            }
        }
        Value::Function(_) => {}
    }
}

fn cpus_of<'a>(mask: impl Iterator<Item = &'a u8>, first: usize, send: &mut impl FnMut(usize)) {
    // 1024 bytes hold 8192 CPUs, the most Linux can have.
    for (index, byte) in mask.take(1024).enumerate() {
        let bits = (0..8).filter(|bit| byte >> bit & 1 != 0);
        bits.for_each(|bit| send(first.saturating_add(index << 3 | bit)));
    }
}

impl Context<'_> {
    #[inline]
    pub(crate) fn push(&mut self, kind: EventKind) {
        self.builder.push(self.time_ns, self.cpu, kind);
    }

    /// Records an event on the CPU that its own field names.
    #[inline]
    fn push_for(&mut self, cpu: u64, kind: EventKind) {
        self.builder.push(self.time_ns, u32::try_from(cpu).unwrap_or(u32::MAX), kind);
    }
}

fn cpu_idle(c: &mut Context<'_>, f: &Fields<'_, '_>) -> Option<()> {
    let (number, cpu) = (f.number(0)?, f.number(1)?);
    push_state(c, cpu, number, |state| EventKind::CpuIdle { state });
    Some(())
}

fn cpu_idle_miss(c: &mut Context<'_>, f: &Fields<'_, '_>) -> Option<()> {
    let (cpu, number, below) = (f.number(0)?, f.number(1)?, f.is_set(2)?);
    push_state(c, cpu, number, |state| EventKind::CpuIdleMiss { state, below });
    Some(())
}

#[inline]
fn push_state(
    c: &mut Context<'_>,
    cpu: u64,
    number: u64,
    kind: impl FnOnce(StateIdx) -> EventKind,
) {
    match state(number) {
        Some(state) => c.push_for(cpu, kind(state)),
        None => c.builder.lose(&loss::STATE_OUT_OF_RANGE, 1),
    }
}

fn sched_switch(c: &mut Context<'_>, f: &Fields<'_, '_>) -> Option<()> {
    let next_comm = f.bytes(3).map(|comm| c.builder.comm(comm));
    c.push(EventKind::SchedSwitch {
        prev_pid: f.number(0)? as i32,
        prev_state: prev_state(f.number(1)?),
        next_pid: f.number(2)? as i32,
        next_comm,
    });
    Some(())
}

/// Records `sched_wakeup`. Before Linux 4.3 it was also written, with a `success` of 0, for tasks
/// that were awake.
fn sched_wakeup(c: &mut Context<'_>, f: &Fields<'_, '_>) -> Option<()> {
    let (pid, target_cpu) = (f.number(0)? as i32, CpuId(f.number(1)? as u32));
    if f.is_set(2) != Some(false) {
        c.push(EventKind::SchedWakeup { pid, target_cpu });
    }
    Some(())
}

fn irq_handler_entry(c: &mut Context<'_>, f: &Fields<'_, '_>) -> Option<()> {
    let irq = f.number(0)? as u32;
    let name = f.bytes(1).filter(|name| !name.is_empty()).map(|name| c.builder.comm(name));
    c.push(EventKind::IrqEntry { irq, name });
    Some(())
}

/// Records a line of `trace_marker`. Android's frequent marks (`B|pid|name`, `E`, `C|..`) are only
/// counted.
fn print(c: &mut Context<'_>, f: &Fields<'_, '_>) -> Option<()> {
    let text = f.bytes(0)?.trim_ascii_end();
    let is_atrace = match text {
        [] => true,
        [kind] => kind.is_ascii_uppercase(),
        [kind, b'|', ..] => kind.is_ascii_uppercase(),
        _ => false,
    };
    if !is_atrace {
        let text = c.builder.names.intern(&String::from_utf8_lossy(text));
        c.push(EventKind::Marker { text });
    }
    Some(())
}

const fn full(name: &'static str, fields: &'static [&'static str], build: Build) -> Spec {
    assert!(fields.len() <= FIELDS_MAX);
    Spec { name, fields, build }
}

/// Defines a spec whose event consists of its fields, on the CPU that recorded it.
macro_rules! simple {
    ($name:literal, [$($field:literal),*], |$f:pat_param| $kind:expr) => {
        simple!($name, [$($field),*], |c, $f| $kind)
    };
    ($name:literal, [$($field:literal),*], |$c:ident, $f:pat_param| $kind:expr) => {
        full($name, &[$($field),*], |$c, $f| {
            let kind = $kind;
            $c.push(kind);
            Some(())
        })
    };
}

/// Defines a spec of x86's `irq_vectors`; `kind` is an entry or exit.
macro_rules! vector {
    ($name:literal, $kind:ident, $cause:ident) => {
        simple!($name, [], |_| EventKind::$kind { cause: InterruptCause::$cause })
    };
}

/// Every tracepoint that becomes an event of the model.
static SPECS: &[Spec] = &[
    full("cpu_idle", &["state", "cpu_id"], cpu_idle),
    full("cpu_idle_miss", &["cpu_id", "state", "below"], cpu_idle_miss),
    full("cpu_frequency", &["state", "cpu_id"], |c, f| {
        let (freq_khz, cpu) = (f.number(0)? as u32, f.number(1)?);
        c.push_for(cpu, EventKind::CpuFrequency { freq_khz });
        Some(())
    }),
    full("sched_switch", &["prev_pid", "prev_state", "next_pid", "next_comm"], sched_switch),
    simple!("sched_blocked_reason", ["pid", "io_wait"], |f| EventKind::BlockedReason {
        pid: f.number(0)? as i32,
        io_wait: f.is_set(1)?,
    }),
    simple!("sched_waking", ["pid", "target_cpu"], |f| EventKind::SchedWaking {
        pid: f.number(0)? as i32,
        target_cpu: CpuId(f.number(1)? as u32),
    }),
    full("sched_wakeup", &["pid", "target_cpu", "success"], sched_wakeup),
    simple!("sched_wakeup_new", ["pid", "target_cpu"], |f| EventKind::SchedWakeupNew {
        pid: f.number(0)? as i32,
        target_cpu: CpuId(f.number(1)? as u32),
    }),
    full("irq_handler_entry", &["irq", "name"], irq_handler_entry),
    simple!("irq_handler_exit", ["irq"], |f| EventKind::IrqExit { irq: f.number(0)? as u32 }),
    simple!("softirq_raise", ["vec"], |f| EventKind::SoftirqRaise { vec: f.number(0)? as u32 }),
    simple!("softirq_entry", ["vec"], |f| EventKind::SoftirqEntry { vec: f.number(0)? as u32 }),
    simple!("softirq_exit", ["vec"], |f| EventKind::SoftirqExit { vec: f.number(0)? as u32 }),
    simple!("ipi_entry", ["reason"], |f| EventKind::InterruptEntry {
        cause: f.bytes(0).map_or(InterruptCause::Other, ipi_cause)
    }),
    simple!("ipi_exit", ["reason"], |f| EventKind::InterruptExit {
        cause: f.bytes(0).map_or(InterruptCause::Other, ipi_cause)
    }),
    full("ipi_raise", &["target_cpus", "reason"], |c, f| {
        send_to_mask(c, f.0[0]?, f.bytes(1).map_or(InterruptCause::Other, ipi_cause));
        Some(())
    }),
    simple!("ipi_send_cpu", ["cpu", "callback"], |f| EventKind::IpiSend {
        target_cpu: CpuId(f.number(0)? as u32),
        cause: send_cause(f.number(1)),
    }),
    full("ipi_send_cpumask", &["cpumask", "callback"], |c, f| {
        send_to_mask(c, f.0[0]?, send_cause(f.number(1)));
        Some(())
    }),
    vector!("local_timer_entry", InterruptEntry, LocalTimer),
    vector!("local_timer_exit", InterruptExit, LocalTimer),
    vector!("reschedule_entry", InterruptEntry, Reschedule),
    vector!("reschedule_exit", InterruptExit, Reschedule),
    vector!("call_function_entry", InterruptEntry, CallFunction),
    vector!("call_function_exit", InterruptExit, CallFunction),
    vector!("call_function_single_entry", InterruptEntry, CallFunction),
    vector!("call_function_single_exit", InterruptExit, CallFunction),
    vector!("irq_work_entry", InterruptEntry, IrqWork),
    vector!("irq_work_exit", InterruptExit, IrqWork),
    vector!("x86_platform_ipi_entry", InterruptEntry, Other),
    vector!("x86_platform_ipi_exit", InterruptExit, Other),
    vector!("thermal_apic_entry", InterruptEntry, Other),
    vector!("thermal_apic_exit", InterruptExit, Other),
    vector!("threshold_apic_entry", InterruptEntry, Other),
    vector!("threshold_apic_exit", InterruptExit, Other),
    vector!("deferred_error_apic_entry", InterruptEntry, Other),
    vector!("deferred_error_apic_exit", InterruptExit, Other),
    vector!("error_apic_entry", InterruptEntry, Other),
    vector!("error_apic_exit", InterruptExit, Other),
    vector!("spurious_apic_entry", InterruptEntry, Other),
    vector!("spurious_apic_exit", InterruptExit, Other),
    simple!("hrtimer_start", ["hrtimer", "function", "expires", "softexpires"], |c, f| {
        EventKind::HrtimerStart {
            timer: f.timer(c)?,
            function: f.function(c)?,
            expires: f.ktime(2)?,
            softexpires: f.ktime(3)?,
        }
    }),
    simple!("hrtimer_cancel", ["hrtimer"], |c, f| EventKind::HrtimerCancel { timer: f.timer(c)? }),
    simple!("hrtimer_expire_entry", ["hrtimer", "function", "now"], |c, f| {
        EventKind::HrtimerExpireEntry {
            timer: f.timer(c)?,
            function: f.function(c)?,
            now: f.ktime(2)?,
        }
    }),
    simple!("hrtimer_expire_exit", ["hrtimer"], |c, f| EventKind::HrtimerExpireExit {
        timer: f.timer(c)?
    }),
    simple!("timer_start", ["timer", "function", "expires", "bucket_expiry", "flags"], |c, f| {
        EventKind::TimerStart {
            timer: f.timer(c)?,
            function: f.function(c)?,
            expires_jiffies: f.number(2)?.into(),
            // Linux has `bucket_expiry` since 6.3, and flags since 4.3.
            bucket_expiry_jiffies: f.number(3).and_then(NonZeroU64::new).map(Slim::new),
            flags: f.number(4).unwrap_or(0) as u32,
        }
    }),
    simple!("timer_cancel", ["timer"], |c, f| EventKind::TimerCancel { timer: f.timer(c)? }),
    simple!("timer_expire_entry", ["timer", "function", "now"], |c, f| {
        EventKind::TimerExpireEntry {
            timer: f.timer(c)?,
            function: f.function(c)?,
            now_jiffies: f.number(2)?.into(),
        }
    }),
    simple!("tick_stop", ["success"], |f| EventKind::TickStop { success: f.is_set(0)? }),
    full("print", &["buf"], print),
];
