// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Machines: those that ship, imports, device trees, and messages.

mod device_tree;
mod import;
mod messages;
mod shipped;
