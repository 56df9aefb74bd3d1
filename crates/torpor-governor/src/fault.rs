// SPDX-License-Identifier: MIT OR GPL-2.0-only
use crate::Label;
use crate::guard::Caught;
use crate::instance::Inputs;
use std::fmt;
use torpor_machine::units::{CpuId, Instant};

/// A governor that crashed, hung, or returned an invalid answer. Its instance can no longer be used;
/// other instances and governors are not affected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(Box<FaultDetail>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultDetail {
    /// Policy that failed, as the user named it.
    pub policy: Label,
    pub cpu: CpuId,
    pub call: Call,
    pub cause: Cause,
}

/// A call into a governor, with its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Call {
    Init,
    Enable,
    Disable,
    Select(Inputs),
    Reflect {
        index: i32,
        now: Instant,
        got_tick: bool,
    },
    /// Callback of one of the governor's timers.
    Timer {
        now: Instant,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    Signal {
        signo: i32,
        address: usize,
    },
    /// A failed `BUG_ON`, or an access to a CPU that is not in the run; `line` is then the CPU.
    Bug {
        file: String,
        line: u32,
    },
    TimedOut,
    NoSuchState {
        index: i32,
        state_count: usize,
    },
}

impl Cause {
    pub(crate) fn of(caught: Caught) -> Cause {
        if caught.is_time_out() {
            Cause::TimedOut
        } else {
            Cause::Signal { signo: caught.signo, address: caught.addr }
        }
    }
}

impl Fault {
    pub(crate) fn new(policy: &Label, cpu: CpuId, call: Call, cause: Cause) -> Fault {
        Fault(Box::new(FaultDetail { policy: policy.clone(), cpu, call, cause }))
    }

    pub fn detail(&self) -> &FaultDetail {
        &self.0
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FaultDetail { policy, cpu, call, cause } = &*self.0;
        write!(f, "{policy}: {} {cause}{}", call.at(*cpu), call.inputs())
    }
}

impl Call {
    pub(crate) fn at(self, cpu: CpuId) -> String {
        format!("{} on {cpu}", self.name())
    }

    /// Returns its inputs, as the end of a message.
    pub(crate) fn inputs(self) -> String {
        let inputs = match self {
            Call::Init | Call::Enable | Call::Disable => return String::new(),
            Call::Select(inputs) => inputs.to_string(),
            Call::Reflect { index, now, got_tick } => {
                format!("index={index} now={now} got_tick={got_tick}")
            }
            Call::Timer { now } => format!("now={now}"),
        };
        format!("; its inputs: {inputs}")
    }

    pub fn name(self) -> &'static str {
        match self {
            Call::Init => "init()",
            Call::Enable => "enable()",
            Call::Disable => "disable()",
            Call::Select(_) => "select()",
            Call::Reflect { .. } => "reflect()",
            Call::Timer { .. } => "a timer's callback",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Signal { signo: libc::SIGSYS, .. } => {
                f.write_str("made a system call, which no kernel code does (SIGSYS)")
            }
            Cause::Signal { signo, address } => {
                let (name, what) = match *signo {
                    libc::SIGSEGV => ("SIGSEGV", "touched memory that is not its own"),
                    libc::SIGBUS => ("SIGBUS", "touched memory that is not there"),
                    libc::SIGFPE => ("SIGFPE", "divided by zero or overflowed a division"),
                    libc::SIGILL => ("SIGILL", "ran an instruction that does not exist"),
                    libc::SIGTRAP => ("SIGTRAP", "ran into a trap"),
                    _ => ("a signal", "was ended"),
                };
                write!(f, "{what} ({name} at {address:#x})")
            }
            Cause::Bug { file, line } => write!(f, "hit BUG at {file}:{line}"),
            Cause::TimedOut => {
                write!(f, "did not return within its limit ({})", crate::guard::call_limit())
            }
            Cause::NoSuchState { index, state_count } => write!(
                f,
                "answered state {index}, but the driver has states 0 to {}",
                state_count.saturating_sub(1)
            ),
        }
    }
}
