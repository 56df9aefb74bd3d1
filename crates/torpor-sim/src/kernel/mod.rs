// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Runs a Linux tree's own scheduler, timers, tick, idle loop, idle governors and frequency policy,
//! unedited, on simulated CPUs in simulated time.
//!
//! A kernel is named as `--kernel` names it: a release whose source package is installed (`6.12`),
//! a tree's folder, a tarball, or a revision (`TREE:REV`). [`Kernels::resolve`] compiles the files
//! that `khost/hosted.txt` lists, together with the host's own in `khost/`, once: images are kept
//! by their content. [`Kernel::boot`] starts a private copy on [`Hardware`];
//! [`machine`](crate::machine) is around it.
//!
//! **Isolation.** Each [`Instance`] has its own copy of all of the kernel's memory.
//! **Containment.** A BUG, a WARN, a fault or an endless loop in it ends in a [`Trouble`]: that
//! instance is unusable, everything else continues.

pub(crate) mod abi;
mod btf;
mod compile;
mod config;
mod contents;
mod division;
mod error;
mod files;
mod generate;
mod hardware;
#[cfg(test)]
mod headers;
mod image;
mod instance;
mod kernels;
mod patched;
mod policy;
mod region;
mod scheduler;
mod shipped;
mod source;
mod symbols;
mod task;
mod types;
mod unknown;
#[cfg(test)]
#[allow(unreachable_pub)]
#[path = "../../../../tests/upstream.rs"]
mod upstream;

pub use abi::Usage;
pub use config::Configuration;
pub use error::{KernelError, Kind as TroubleKind, Trouble, TroubleDetail};
pub use files::Write;
pub use hardware::{Cluster, Cpufreq, Hardware, Opp, Overheads, State};
pub use instance::{Ejection, Instance, Rejects, TaskHandle};
pub(crate) use instance::{Order, WriteError};
pub use kernels::{
    DEFAULT_KERNEL, IdleGovernor, IoBoost, Kernel, Kernels, KernelsOptions, Scheduler,
};
pub use policy::LinkedPolicy;
pub use source::{KernelSpec, Release};
pub use task::{Attributes, CpuSet, Policy, TaskSetup};

include!(concat!(env!("OUT_DIR"), "/khost.rs"));
