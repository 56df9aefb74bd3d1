// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Compiles, loads and calls CPU-idle governors from the kernel's own C source, unedited. Finds the
//! sources of IO boosts and cpufreq governors, which run in a hosted kernel.
//!
//! ```
//! use torpor_governor::{Catalog, CpuSetup, Inputs, Setup, StateDesc};
//! use torpor_machine::units::{CpuId, Duration, Hz, Instant};
//!
//! let state = |name: &str, exit_us, residency_us, is_polling| StateDesc {
//!     name: name.to_owned(),
//!     exit_latency: Duration::from_us(exit_us),
//!     target_residency: Duration::from_us(residency_us),
//!     is_polling,
//!     is_disabled: false,
//! };
//! let states = [state("POLL", 0, 0, true), state("C1", 2, 2, false), state("C6", 133, 600, false)];
//! let setup = Setup { cpus: &[CpuSetup::new(CpuId(0), &states)] };
//!
//! let catalog = Catalog::new(Default::default());
//! let deepest = catalog.resolve(&"deepest".parse()?, Hz::H250)?;
//! let mut instance = deepest.instantiate(&setup)?;
//!
//! let inputs = Inputs { latency_req: Duration::from_us(50), ..Inputs::default() };
//! let choice = instance.select(0, &inputs)?;
//! assert_eq!(choice.state, 1, "C6 takes 133 us to leave, more than the limit of 50 us");
//! instance.set_last_residency(0, Duration::from_us(700));
//! instance.reflect(0, choice.state, Instant(700_000), false)?;
//! # Ok::<(), torpor_governor::GovernorError>(())
//! ```
//!
//! **Isolation.** Each [`Instance`] has its own copy of the image: statics, per-CPU data, module
//! parameters. **Containment.** A governor that crashes or never returns ends in a [`Fault`]. Guard
//! pages around all memory of a governor catch most stray writes; only a separate process
//! ([`apart()`]) contains the others.

#![warn(unreachable_pub)]

mod abi;
mod apart;
mod builtin;
mod catalog;
mod child;
mod compile;
mod config;
mod elf;
mod error;
mod fault;
mod flags;
mod git;
mod governor;
mod guard;
mod instance;
mod kind;
mod load;
mod makefile;
mod memory;
mod params;
mod patched;
mod policy;
mod program;
mod release;
mod scheduler;
mod spec;
mod states;
mod store;
mod tree;
mod tree_spec;

/// Parts that other crates use to compile and call C.
pub mod hosting {
    pub use crate::apart::loader;
    pub use crate::builtin::{file_name, ioboost_calls, shipped_folder};
    pub use crate::child::{Failure, Ran, run};
    /// Applies patches to files of a tree.
    pub mod patched {
        pub use crate::patched::{Changes, apply};
        pub use torpor_patch::Folder;
    }
    /// Reads files of a git revision.
    pub mod git {
        pub use crate::git::{Blob, commit, list, read};
    }
    pub use crate::compile::{Key, default_compiler, missing_names};
    pub use crate::guard::{Caught, call};
    pub use crate::sha256_hex;
    pub use crate::spec::split as split_settings;
    pub use crate::store::{Entry, Files, Scratch, Store};
    pub use crate::tree::{Archive, SOURCES_ENV, locate, open_tarball, tarball_key};
}

pub use apart::{Isolation, NoAnswer, Pulse, SharedCount, apart};
pub use builtin::DeclaredParam;
pub use catalog::{Builtin, BuiltinBoost, Catalog, CatalogOptions, SourceFiles};
pub use error::GovernorError;
pub use fault::{Call, Cause, Fault, FaultDetail};
pub use governor::Governor;
pub use guard::{set_call_limit, unwatch_thread};
pub use instance::{CpuSetup, Inputs, Instance, NO_LATENCY_LIMIT, Selection, Setup, StateDesc};
pub use kind::{Kind, Label};
pub use params::{Param, ParamType};
pub use policy::{ChosenParam, Origin, Policy};
pub use program::{Build, Harness, HarnessFile, Program};
pub use release::Release;
pub use spec::{CpufreqSpec, GovernorSpec, IoBoostSpec, Place, SchedulerSpec};
pub use tree::Part;
pub use tree_spec::{SeriesSpec, TreeSpec};

/// Returns the SHA-256 in hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    use sha2::Digest;
    hex(&sha2::Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
