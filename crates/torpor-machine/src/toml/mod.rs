// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! TOML files that people write by hand: every key known, every value checked, every mistake
//! reported with its place.
//!
//! A file's keys are in one table of [`Shape`]s, from which the checks and the JSON Schema both
//! come. What must hold between values is the caller's to check, with [`Table::finding`].

mod builtins;
mod cpulist;
mod distribution;
mod keys;
mod params;
mod problem;
mod report;
mod schema;
mod table;

pub use builtins::{Builtins, Typed, read_text};
pub use cpulist::{format_cpu_list, parse_cpu_list};
pub use distribution::{Distribution, LENGTH_OR_DISTRIBUTION};
pub use keys::{Key, Kind, Shape};
pub use params::{Param, fill_params, split_params};
pub use problem::{Problem, render};
pub use report::{Finding, Report};
pub use schema::json_schema;
pub use table::{Field, Table, read};
