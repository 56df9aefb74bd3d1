// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Events back to text, as the kernel's `trace` file has them but in nanoseconds.

use super::fields::COMM_MAX;
use super::values::{TIMER_ARRAY_SHIFT, TIMER_CPU_MASK, TIMER_FLAGS};
use crate::model::{
    EventKind, Function, InterruptCause, Name, PrevState, Probe, Trace, UNKNOWN_PID,
};
use crate::tracepoint::PROBES;
use std::collections::HashMap;
use std::fmt::{self, Display};
use std::io::{self, Write};

/// Writes a trace as text that this crate, Perfetto and trace viewers of ftrace text read.
///
/// Times are seconds with nine digits after the point, and the clock is named in a comment. What
/// text cannot hold is left out: losses, and the address of a function that has a symbol.
///
/// # Errors
/// Those of `out`.
pub fn write_ftrace_text(trace: &Trace, mut out: impl Write) -> io::Result<()> {
    let count = trace.events.len();
    let cpus = trace.meta.cpu_count;
    writeln!(out, "# tracer: nop\n#")?;
    // The machine as perf's headers tell of it.
    let meta = &trace.meta;
    let told = [
        ("trace_clock", Some(&meta.clock)),
        ("os release", meta.kernel_release.as_ref()),
        ("arch", meta.arch.as_ref()),
    ];
    for (key, value) in told {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            writeln!(out, "# {key} : {}", one_line(value))?;
        }
    }
    writeln!(out, "# entries-in-buffer/entries-written: {count}/{count}   #P:{cpus}\n#")?;
    writeln!(out, "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION")?;
    writeln!(out, "#              | |         |   |||||     |         |")?;
    // Task that runs on each CPU, as far as its switches show.
    let mut running: HashMap<u32, Task> = HashMap::new();
    for event in &trace.events {
        let cpu = event.cpu.0;
        let time_ns = event.time.0;
        let (seconds, ns) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        let task = running.get(&cpu).copied().unwrap_or(Task { pid: UNKNOWN_PID, comm: None });
        let column = Comm(trace, task);
        // The kernel's own width: the name to the right, the pid to the left.
        write!(out, "{column:>16}-{:<7} [{cpu:03}] ..... {seconds:>5}.{ns:09}: ", task.pid.max(0))?;
        let text = Text { trace, task, cpu, kind: &event.kind };
        writeln!(out, "{text}")?;
        if let EventKind::SchedSwitch { next_pid, next_comm, .. } = event.kind {
            running.insert(cpu, Task { pid: next_pid, comm: next_comm });
        }
    }
    out.flush()
}

#[derive(Clone, Copy)]
struct Task {
    pid: i32,
    comm: Option<Name>,
}

/// A task's name in the column before an event.
struct Comm<'t>(&'t Trace, Task);

impl Display for Comm<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Task { pid: 0, .. } => f.pad("<idle>"),
            Task { comm: Some(name), .. } => f.pad(&comm(self.0.names.text(name))),
            Task { .. } => f.pad(UNKNOWN_COMM),
        }
    }
}

/// As the kernel prints a name it did not keep.
const UNKNOWN_COMM: &str = "<...>";

/// Marks may have more lines; an event has one. Other control characters are no text either.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// A task's name, no longer than the kernel's can be: more could look like an event.
fn comm(text: &str) -> String {
    one_line(text).chars().take(COMM_MAX).collect()
}

/// An event's name and fields.
struct Text<'t> {
    trace: &'t Trace,
    task: Task,
    cpu: u32,
    kind: &'t EventKind,
}

impl Text<'_> {
    fn comm(&self, name: Option<Name>) -> String {
        name.map_or(UNKNOWN_COMM.to_owned(), |name| comm(self.trace.names.text(name)))
    }

    fn function(&self, function: Function) -> String {
        match function.symbol {
            Some(name) => one_line(self.trace.names.text(name)),
            None => format!("{:#x}", function.address),
        }
    }
}

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu = self.cpu;
        match *self.kind {
            EventKind::CpuIdle { state } => {
                write!(f, "cpu_idle: state={} cpu_id={cpu}", state.0 as u32)
            }
            EventKind::CpuIdleMiss { state, below } => {
                let side = if below { "below" } else { "above" };
                write!(f, "cpu_idle_miss: cpu_id={cpu} state={} type={side}", state.0 as u32)
            }
            EventKind::CpuFrequency { freq_khz } => {
                write!(f, "cpu_frequency: state={freq_khz} cpu_id={cpu}")
            }
            EventKind::SchedSwitch { prev_pid, prev_state, next_pid, next_comm } => {
                let prev_comm = (prev_pid == self.task.pid).then_some(self.task.comm).flatten();
                let (prev_comm, next_comm) = (self.comm(prev_comm), self.comm(next_comm));
                let state = match prev_state {
                    PrevState::Runnable => 'R',
                    PrevState::Sleeping => 'S',
                    PrevState::DiskSleep => 'D',
                    PrevState::Dead => 'X',
                };
                write!(
                    f,
                    "sched_switch: prev_comm={prev_comm} prev_pid={prev_pid} prev_prio=120 \
                     prev_state={state} ==> next_comm={next_comm} next_pid={next_pid} next_prio=120"
                )
            }
            EventKind::SchedWaking { pid, target_cpu } => write!(
                f,
                "sched_waking: comm={UNKNOWN_COMM} pid={pid} prio=120 target_cpu={:03}",
                target_cpu.0
            ),
            EventKind::SchedWakeup { pid, target_cpu } => write!(
                f,
                "sched_wakeup: comm={UNKNOWN_COMM} pid={pid} prio=120 target_cpu={:03}",
                target_cpu.0
            ),
            EventKind::SchedWakeupNew { pid, target_cpu } => write!(
                f,
                "sched_wakeup_new: comm={UNKNOWN_COMM} pid={pid} prio=120 target_cpu={:03}",
                target_cpu.0
            ),
            EventKind::BlockedReason { pid, io_wait } => {
                let io_wait = u32::from(io_wait);
                write!(f, "sched_blocked_reason: pid={pid} iowait={io_wait} caller=0x0")
            }
            EventKind::Probed { probe, value } => probed(f, probe, value),
            EventKind::IrqEntry { irq, name } => {
                let name = name.map(|name| one_line(self.trace.names.text(name)));
                write!(f, "irq_handler_entry: irq={irq} name={}", name.unwrap_or_default())
            }
            EventKind::IrqExit { irq } => write!(f, "irq_handler_exit: irq={irq} ret=handled"),
            EventKind::SoftirqRaise { vec } => softirq(f, "raise", vec),
            EventKind::SoftirqEntry { vec } => softirq(f, "entry", vec),
            EventKind::SoftirqExit { vec } => softirq(f, "exit", vec),
            EventKind::InterruptEntry { cause } => interrupt(f, cause, "entry"),
            EventKind::InterruptExit { cause } => interrupt(f, cause, "exit"),
            EventKind::IpiSend { target_cpu, cause } => ipi_raise(f, target_cpu.0, cause),
            EventKind::HrtimerStart { timer, function, expires, softexpires } => write!(
                f,
                "hrtimer_start: hrtimer={timer:016x} function={} expires={} softexpires={} \
                 mode=ABS was_armed=0",
                self.function(function),
                expires.0,
                softexpires.0
            ),
            EventKind::HrtimerCancel { timer } => {
                write!(f, "hrtimer_cancel: hrtimer={timer:016x}")
            }
            EventKind::HrtimerExpireEntry { timer, function, now } => write!(
                f,
                "hrtimer_expire_entry: hrtimer={timer:016x} function={} now={}",
                self.function(function),
                now.0
            ),
            EventKind::HrtimerExpireExit { timer } => {
                write!(f, "hrtimer_expire_exit: hrtimer={timer:016x}")
            }
            EventKind::TimerStart {
                timer,
                function,
                expires_jiffies,
                bucket_expiry_jiffies,
                flags,
            } => {
                let function = self.function(function);
                write!(
                    f,
                    "timer_start: timer={timer:016x} function={function} expires={expires_jiffies}"
                )?;
                if let Some(jiffies) = bucket_expiry_jiffies {
                    write!(f, " bucket_expiry={jiffies}")?;
                }
                timer_flags(f, flags.into())
            }
            EventKind::TimerCancel { timer } => write!(f, "timer_cancel: timer={timer:016x}"),
            EventKind::TimerExpireEntry { timer, function, now_jiffies } => write!(
                f,
                "timer_expire_entry: timer={timer:016x} function={} now={now_jiffies} \
                 baseclk={now_jiffies}",
                self.function(function)
            ),
            EventKind::TickStop { success } => {
                write!(f, "tick_stop: success={} dependency=NONE", u32::from(success))
            }
            EventKind::Marker { text } => {
                write!(f, "tracing_mark_write: {}", one_line(self.trace.names.text(text)))
            }
        }
    }
}

/// The softirqs in the order of their numbers (include/linux/interrupt.h).
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

fn softirq(f: &mut fmt::Formatter<'_>, what: &str, vec: u32) -> fmt::Result {
    write!(f, "softirq_{what}: vec={vec}")?;
    match SOFTIRQS.get(vec as usize) {
        Some(action) => write!(f, " [action={action}]"),
        None => Ok(()),
    }
}

/// As x86's `irq_vectors` name them, with Linux 6.12's numbers.
fn interrupt(f: &mut fmt::Formatter<'_>, cause: InterruptCause, what: &str) -> fmt::Result {
    let (name, vector) = match cause {
        InterruptCause::LocalTimer => ("local_timer", 236),
        InterruptCause::Reschedule => ("reschedule", 253),
        InterruptCause::CallFunction => ("call_function_single", 251),
        InterruptCause::IrqWork => ("irq_work", 246),
        InterruptCause::Other => ("x86_platform_ipi", 247),
    };
    write!(f, "{name}_{what}: vector={vector}")
}

/// As arm64 names them, which alone tells every cause.
fn ipi_raise(f: &mut fmt::Formatter<'_>, target: u32, cause: InterruptCause) -> fmt::Result {
    let reason = match cause {
        InterruptCause::LocalTimer => "Timer broadcast interrupts",
        InterruptCause::Reschedule => "Rescheduling interrupts",
        InterruptCause::CallFunction => "Function call interrupts",
        InterruptCause::IrqWork => "IRQ work interrupts",
        InterruptCause::Other => "CPU stop interrupts",
    };
    write!(f, "ipi_raise: target_mask={:08x}", 1u32 << (target % 32))?;
    for _ in 0..target / 32 {
        write!(f, ",00000000")?;
    }
    write!(f, " ({reason})")
}

fn timer_flags(f: &mut fmt::Formatter<'_>, flags: u64) -> fmt::Result {
    let (cpu, idx) = (flags & TIMER_CPU_MASK, flags >> TIMER_ARRAY_SHIFT);
    write!(f, " cpu={cpu} idx={idx} flags=")?;
    let letters = TIMER_FLAGS.iter().filter(|(_, bit)| flags & bit != 0);
    for (place, (letter, _)) in letters.enumerate() {
        write!(f, "{}{}", if place > 0 { "|" } else { "" }, *letter as char)?;
    }
    Ok(())
}

/// Probes that watch a function's return say where it returned to, which is not known here.
fn probed(f: &mut fmt::Formatter<'_>, probe: Probe, value: i64) -> fmt::Result {
    let symbol = PROBES.iter().find(|(_, known)| *known == probe).map_or("", |(name, _)| name);
    match probe {
        Probe::Select
        | Probe::SleepLength
        | Probe::NextEvent
        | Probe::RcuNeedsCpu
        | Probe::Util => {
            write!(f, "r_{symbol}_0: (do_idle+0x0/0x0 <- {symbol}) ret={value}")
        }
        Probe::IrqExit => write!(f, "r_{symbol}_0: (irq_exit+0x0/0x0 <- {symbol}) ret={value}"),
        Probe::Reflect | Probe::StopTick | Probe::RetainTick | Probe::IdleEnter => {
            write!(f, "p_{symbol}_0: ({symbol}+0x0/0x0) arg={value}")
        }
    }
}
