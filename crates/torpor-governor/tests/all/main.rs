// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Naming, isolation, and decisions of governors. One program, so that it is linked once.

mod elsewhere;
mod isolation;
mod mirrors;
mod naming;
mod old_kernels;
mod old_menus;
mod style;
#[path = "../support/mod.rs"]
mod support;
mod teo_timer;
mod teo_util;
mod tide;
mod timers;
