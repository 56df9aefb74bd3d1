// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! All tests of the crate from outside, as one program: many would be linked one by one.

mod aarch64;
mod attacks;
mod attributes;
mod background;
mod calls;
mod cgroups;
mod columns;
mod commands;
mod complaints;
mod cores;
mod damaged;
mod data_sheets;
mod dies;
mod driver;
mod extract;
mod files;
mod flows;
mod frequency;
mod hosted;
mod io;
mod kernel;
mod kthreads;
mod limits;
mod online;
mod oracle;
mod page_cache;
mod queueing;
mod recording;
mod rtapp;
mod schedulers;
mod sections;
mod shipped;
mod stuck;
mod support;
#[path = "../../../../tests/upstream.rs"]
mod upstream;
mod warm_up;
mod worked;
