// SPDX-License-Identifier: MIT OR GPL-2.0-only
use crate::kernel::{KernelError, Trouble};
use std::path::PathBuf;
use thiserror::Error;
use torpor_engine::EngineError;
use torpor_governor::{Fault, GovernorError};
use torpor_machine::platform::PlatformError;
use torpor_machine::toml::{Problem, render};
use torpor_machine::units::{CpuId, Instant, UnknownName, unreadable};

/// Why a simulation could not be done.
#[derive(Debug, Error)]
pub enum SimError {
    #[error("read workload `{origin}`: {}", render(origin, problems))]
    Workload { origin: String, problems: Vec<Problem> },
    #[error("workload `{typed}`: {reason}")]
    Param { typed: String, reason: String },
    #[error("read workload `{}`: {}", path.display(), unreadable(path, source))]
    Read { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    UnknownWorkload(UnknownName),
    #[error(transparent)]
    UnknownCpufreq(UnknownName),
    #[error("a simulation holds its governors against one oracle; `{second}` is a second")]
    TwoOracles { second: String },
    #[error(
        "workload `{workload}` names {cpu}, but platform `{platform}` has CPUs 0 to {last}\n\
         hint: choose another platform, or change `cpus` in the workload"
    )]
    NoSuchCpu { workload: String, cpu: CpuId, platform: String, last: usize },
    #[error(
        "{what}: {given}\n\
         hint: {hint}"
    )]
    Option { what: &'static str, given: String, hint: String },
    #[error("write `{}`: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Platform(#[from] PlatformError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Governor(#[from] GovernorError),
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

/// Why a run ended before its time. Part of its result, not of the whole simulation's.
#[derive(Clone, Debug, Error)]
pub enum Halt {
    #[error(transparent)]
    Governor(#[from] Fault),
    #[error("{0}")]
    Stuck(#[from] Stuck),
    #[error(transparent)]
    Kernel(#[from] Trouble),
    /// A kernel that does not start.
    #[error("{0}")]
    Boot(String),
    #[error("interrupted")]
    Interrupted,
    /// A change of the workload's timeline that the kernel has no file for.
    #[error("{0}")]
    Change(String),
}

/// A workload that cannot continue: its task, phase and time.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("task `{task}` ({instance}) at {place}, {time}: {reason}")]
pub struct Stuck {
    pub task: String,
    /// Index among the tasks of that name, from 0.
    pub instance: u64,
    /// The phase, as the workload file counts them.
    pub place: String,
    pub time: Instant,
    pub reason: String,
}
