// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Machines: those that ship, imports, device trees, messages. One
//! program: each one more is linked anew.

mod device_tree;
mod import;
mod messages;
mod shipped;
