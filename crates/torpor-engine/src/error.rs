// SPDX-License-Identifier: MIT OR GPL-2.0-only
use thiserror::Error;
use torpor_governor::GovernorError;
use torpor_machine::platform::PlatformError;
use torpor_machine::units::{CpuId, Duration};
use torpor_trace::TraceError;

/// Reason for which a replay could not be done.
#[derive(Debug, Error)]
pub enum EngineError {
    #[error(
        "option `{option}` needs the whole recording, and this one grows\n\
         hint: save the recording, and replay the file with `{option}`"
    )]
    NotWhileGrowing { option: &'static str },
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error(transparent)]
    Governor(#[from] GovernorError),
    #[error(transparent)]
    Platform(#[from] PlatformError),
    #[error(
        "recording `{path}` has {cpu}, but platform `{platform}` has CPUs 0 to {last}\n\
         hint: choose CPUs (option `cpus`), or place them (option `cpu_map`: {number}:0), where several \
         may be one"
    )]
    NoSuchCpu { path: String, cpu: CpuId, number: u32, platform: String, last: usize },
    #[error(
        "option `start` is {start} and option `end` is {end}: expected a start before the end\n\
         hint: exchange them; both count from the recording's first event"
    )]
    EndsFirst { start: Duration, end: Duration },
    #[error(
        "no CPU of recording `{path}` sleeps once between option `start` and option `end`: its \
         idleness goes from {first} to {last} after its first event"
    )]
    NothingBetween { path: String, first: Duration, last: Duration },
    #[error(
        "recording `{path}` holds no sleep that can be replayed: {found}\n\
         hint: record power:cpu_idle on CPUs that wake up at least twice"
    )]
    NothingToReplay { path: String, found: String },
    #[error(
        "disable state {state} of CPU {cpu}: platform `{platform}` has no such CPU, only CPUs 0 to \
         {last}"
    )]
    NoSuchPlace { cpu: u32, state: usize, platform: String, last: usize },
    #[error(
        "option `latency_limit` names CPU {cpu}, but platform `{platform}` has CPUs 0 to {last}\n\
         hint: TIME is a limit of all CPUs, CPU:TIME or 0-3:TIME one of some"
    )]
    NoSuchLimit { cpu: u32, platform: String, last: usize },
    #[error(
        "recording `{path}` shows no CPU {cpu} going idle, only {shown}\n\
         hint: `torpor trace info` lists its CPUs; option `cpus` and option `cpu_map` take their numbers"
    )]
    NotRecorded { cpu: u32, path: String, shown: String },
    #[error(
        "governor `{given}`: {reason}\n\
         hint: oracle, oracle,price=20mW (energy, and that power for as long as events are late) \
         or 'oracle,latency<=50us' (the mean delay)"
    )]
    Oracle { given: String, reason: String },
    #[error("no idle state {state} on platform `{platform}`: cluster `{cluster}` has 0 to {last}")]
    NoSuchState { state: usize, platform: String, cluster: String, last: usize },
    #[error(
        "recording `{path}` cannot be verified: {reason}\n\
         hint: `torpor record` records what is required; `torpor trace stats` holds the kernel's \
         verdicts of this one against its rule"
    )]
    NotVerifiable { path: String, reason: String },
    #[error(
        "recording `{path}` was not made on platform `{platform}`: {cpu} enters state {state}, \
         and the platform has states 0 to {last} there\n\
         hint: `torpor fidelity --platform` and `torpor replay --recorded-on` take the machine that \
         was recorded"
    )]
    NotThisMachine { path: String, cpu: CpuId, state: usize, platform: String, last: usize },
    #[error(
        "replay of `{path}` makes more than {most} decisions, of all governors together, which are \
         not kept\n\
         hint: replay without decisions and Parquet (option `decisions`), a part of the recording \
         (option `start`, option `end`, option `cpus`), or with fewer governors"
    )]
    TooManyDecisions { path: String, most: u64 },
    #[error(
        "replay of `{path}`: `{governor}` consumes {energy}, less than the {least} that `{oracle}` \
         proves to be the least\n\
         hint: this is an error in Torpor, and neither can be trusted: please report it, with the \
         recording, the platform and the options; without `{oracle}` the replay runs"
    )]
    BelowProof {
        path: Box<str>,
        governor: Box<str>,
        energy: Box<str>,
        oracle: Box<str>,
        least: Box<str>,
    },
    #[error(
        "platform `{platform}` has no idle driver: no governor chooses anything there\n\
         hint: without `idle_driver = false`, a replay shows what a driver of its states would bring"
    )]
    NoIdleDriver { platform: String },
    #[error("cannot share memory with other processes: {reason}")]
    SharedMemory { reason: String },
    #[error("interrupted")]
    Interrupted,
    #[error("cannot start {threads} threads: {reason}")]
    Threads { threads: usize, reason: String },
}
