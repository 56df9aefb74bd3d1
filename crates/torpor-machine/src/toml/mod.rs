// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Files that people write by hand, and what is read like them: checks every key and value, and
//! reports each mistake with its place.
//!
//! The keys of a file are one table of [`Shape`]s, which gives both the checks and the JSON Schema.
//! The caller checks what must hold between values, with [`Report::reject`].

mod builtins;
mod cpulist;
mod distribution;
mod document;
mod keys;
mod params;
mod print;
mod problem;
mod report;
mod schema;
mod table;

pub use builtins::{Builtins, Typed, read_text};
pub use cpulist::{format_cpu_list, parse_cpu_list};
pub use distribution::{Distribution, LENGTH_OR_DISTRIBUTION};
pub use document::{Content, Document, Entry, Item, NOWHERE, Value};
pub use keys::{Key, Kind, Shape, optional, required};
pub use params::{Param, split_params};
pub use problem::{Problem, render};
pub use report::{Finding, Report};
pub use schema::json_schema;
pub use table::{Field, Table};
