// SPDX-License-Identifier: MIT OR GPL-2.0-only

mod applying;
mod folders;
mod git;
mod hostile;
mod reading;
mod support;
mod transport;
mod versions;
