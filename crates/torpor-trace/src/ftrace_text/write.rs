// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Writes events as text in the form of the kernel's `trace` file, with times in ns.

use super::fields::COMM_MAX;
use super::values::{TIMER_ARRAY_SHIFT, TIMER_CPU_MASK, TIMER_FLAGS};
use crate::model::{
    EventKind, FunctionId, InterruptCause, Name, PrevState, Probe, Timer, Trace, UNKNOWN_PID,
};
use crate::tracepoint::{PROBES, x86_interrupt};
use std::collections::HashMap;
use std::fmt::{self, Display};
use std::io::{self, Write};
use torpor_machine::units::CpuId;

/// Writes a trace as text for this crate, Perfetto and trace viewers of ftrace text.
///
/// Times are seconds with nine decimals, and a comment names the clock. Losses and the addresses of
/// functions with a symbol are omitted.
///
/// # Errors
/// Errors of `out`.
pub fn write_ftrace_text(trace: &Trace, mut out: impl Write) -> io::Result<()> {
    let count = trace.events.len();
    let cpus = trace.meta.cpu_count;
    writeln!(out, "# tracer: nop\n#")?;
    // The machine, in the form of perf's headers.
    let meta = &trace.meta;
    let facts = [
        ("trace_clock", Some(&meta.clock)),
        ("os release", meta.kernel_release.as_ref()),
        ("arch", meta.arch.as_ref()),
    ];
    for (key, value) in facts {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            writeln!(out, "# {key} : {}", one_line(value))?;
        }
    }
    writeln!(out, "# entries-in-buffer/entries-written: {count}/{count}   #P:{cpus}\n#")?;
    writeln!(out, "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION")?;
    writeln!(out, "#              | |         |   |||||     |         |")?;
    // The task that runs on each CPU, as far as switches show it.
    let mut running: HashMap<u32, Task> = HashMap::new();
    for event in &trace.events {
        let cpu = event.cpu.0;
        let time_ns = event.time.0;
        let (seconds, ns) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        let task = running.get(&cpu).copied().unwrap_or(Task { pid: UNKNOWN_PID, comm: None });
        let column = Comm(trace, task);
        // The kernel's widths: the name right-aligned, the pid left-aligned.
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

/// The kernel's text for a name that it no longer has.
const UNKNOWN_COMM: &str = "<...>";

/// Replaces newlines of marks and other control characters: an event is one line.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Returns a task's name, no longer than the kernel's: a longer one could look like an event.
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

    fn timer_of(&self, timer: Timer) -> u64 {
        self.trace.names.timer_address(timer)
    }

    fn function(&self, id: FunctionId) -> String {
        match self.trace.names.symbol(id) {
            Some(symbol) => one_line(symbol),
            None => format!("{:#x}", self.trace.names.function_of(id).address),
        }
    }

    fn switch(
        &self,
        f: &mut fmt::Formatter<'_>,
        prev_pid: i32,
        prev_state: PrevState,
        next_pid: i32,
        next_comm: Option<Name>,
    ) -> fmt::Result {
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

    fn timer(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self.kind {
            EventKind::HrtimerStart { timer, function, expires, softexpires } => write!(
                f,
                "hrtimer_start: hrtimer={:016x} function={} expires={} softexpires={} \
                 mode=ABS was_armed=0",
                self.timer_of(timer),
                self.function(function),
                expires.get().0,
                softexpires.get().0
            ),
            EventKind::HrtimerCancel { timer } => {
                write!(f, "hrtimer_cancel: hrtimer={:016x}", self.timer_of(timer))
            }
            EventKind::HrtimerExpireEntry { timer, function, now } => write!(
                f,
                "hrtimer_expire_entry: hrtimer={:016x} function={} now={}",
                self.timer_of(timer),
                self.function(function),
                now.get().0
            ),
            EventKind::HrtimerExpireExit { timer } => {
                write!(f, "hrtimer_expire_exit: hrtimer={:016x}", self.timer_of(timer))
            }
            EventKind::TimerStart {
                timer,
                function,
                expires_jiffies,
                bucket_expiry_jiffies,
                flags,
            } => {
                let (timer, function) = (self.timer_of(timer), self.function(function));
                let expires = expires_jiffies.get();
                write!(f, "timer_start: timer={timer:016x} function={function} expires={expires}")?;
                if let Some(jiffies) = bucket_expiry_jiffies {
                    write!(f, " bucket_expiry={}", jiffies.get())?;
                }
                timer_flags(f, flags.into())
            }
            EventKind::TimerCancel { timer } => {
                write!(f, "timer_cancel: timer={:016x}", self.timer_of(timer))
            }
            EventKind::TimerExpireEntry { timer, function, now_jiffies } => write!(
                f,
                "timer_expire_entry: timer={:016x} function={} now={now} baseclk={now}",
                self.timer_of(timer),
                self.function(function),
                now = now_jiffies.get()
            ),
            _ => Ok(()),
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
                self.switch(f, prev_pid, prev_state, next_pid, next_comm)
            }
            EventKind::SchedWaking { pid, target_cpu } => wakeup(f, "waking", pid, target_cpu),
            EventKind::SchedWakeup { pid, target_cpu } => wakeup(f, "wakeup", pid, target_cpu),
            EventKind::SchedWakeupNew { pid, target_cpu } => {
                wakeup(f, "wakeup_new", pid, target_cpu)
            }
            EventKind::BlockedReason { pid, io_wait } => {
                let io_wait = u32::from(io_wait);
                write!(f, "sched_blocked_reason: pid={pid} iowait={io_wait} caller=0x0")
            }
            EventKind::Probed { probe, value } => probed(f, probe, value.get()),
            EventKind::IrqEntry { irq, name } => {
                let name = name.map(|name| one_line(self.trace.names.text(name)));
                write!(f, "irq_handler_entry: irq={irq} name={}", name.unwrap_or_default())
            }
            EventKind::IrqExit { irq } => write!(f, "irq_handler_exit: irq={irq} ret=handled"),
            EventKind::SoftirqRaise { vec } => softirq(f, "raise", vec),
            EventKind::SoftirqEntry { vec } => softirq(f, "entry", vec),
            EventKind::SoftirqExit { vec } => softirq(f, "exit", vec),
            EventKind::InterruptEntry { cause } => {
                let (name, _, vector) = x86_interrupt(cause);
                write!(f, "{name}: vector={vector}")
            }
            EventKind::InterruptExit { cause } => {
                let (_, name, vector) = x86_interrupt(cause);
                write!(f, "{name}: vector={vector}")
            }
            EventKind::IpiSend { target_cpu, cause } => ipi_raise(f, target_cpu.0, cause),
            EventKind::TickStop { success } => {
                write!(f, "tick_stop: success={} dependency=NONE", u32::from(success))
            }
            EventKind::Marker { text } => {
                write!(f, "tracing_mark_write: {}", one_line(self.trace.names.text(text)))
            }
            _ => self.timer(f),
        }
    }
}

fn wakeup(f: &mut fmt::Formatter<'_>, what: &str, pid: i32, target_cpu: CpuId) -> fmt::Result {
    let cpu = target_cpu.0;
    write!(f, "sched_{what}: comm={UNKNOWN_COMM} pid={pid} prio=120 target_cpu={cpu:03}")
}

/// Softirqs by number (include/linux/interrupt.h).
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

fn softirq(f: &mut fmt::Formatter<'_>, what: &str, vec: u32) -> fmt::Result {
    write!(f, "softirq_{what}: vec={vec}")?;
    match SOFTIRQS.get(vec as usize) {
        Some(action) => write!(f, " [action={action}]"),
        None => Ok(()),
    }
}

/// Writes an IPI in the form of arm64, which names every cause.
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

/// Writes a probe. The return address of a return probe is unknown, and made up.
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
