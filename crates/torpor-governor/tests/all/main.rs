// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Names, and governors decision by decision. One program: each one more is linked anew.

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
