// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Tests of hosted kernels, as one program: many would be linked one by one.

mod governors;
mod hosted;
mod images;
mod releases;
mod stack;
mod support;
mod troubles;
