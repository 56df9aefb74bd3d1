// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Machines: TOML files and importers in, checked [`Platform`]s out.
//!
//! The engine computes what these numbers cost.

mod builtin;
mod demotion;
mod error;
mod import;
mod io_device;
mod limits;
mod model;
mod poll_loop;
mod toml_file;

pub use builtin::{Builtin, builtins, document, io_devices, resolve};
pub use demotion::{Demotion, SleepHistory};
pub use error::PlatformError;
pub use import::{
    ImportOptions, Imported, import, import_device_tree, import_snapshot, import_sysfs,
};
pub use io_device::{Completion, Flash, IoDevice, ServiceTime};
pub use limits::{Limits, PowerLimit, Turbo};
pub use model::*;
pub use poll_loop::PollLoop;
pub use toml_file::{from_document, from_toml, io_device_from_toml, json_schema};
