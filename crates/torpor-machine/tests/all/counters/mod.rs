// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Dumps that the tests make up, dumps of real kernels, and what was counted between two.

mod delta;
mod energy;
mod forms;
mod guest;
mod logs;
mod support;
