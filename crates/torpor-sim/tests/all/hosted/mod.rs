// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Hosted kernels, without workloads or devices.

mod governors;
mod images;
mod linux;
mod releases;
mod stack;
pub mod support;
pub mod troubles;
