// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Tests of readers and writers, in one program to link only once.

mod cached;
mod ftrace_text;
mod ftrace_text_write;
mod input;
mod perf_data;
mod perfetto;
mod perfetto_write;
mod properties;
mod real_texts;
mod real_traces;
mod stream;
#[path = "../support/mod.rs"]
mod support;
mod trace_dat;
mod wakeups;
