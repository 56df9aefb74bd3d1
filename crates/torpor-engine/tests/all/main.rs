// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Tests of the engine from outside, in one program: each program is linked anew.

mod cancel;
mod demotion;
mod event_to_exit;
mod fidelity;
mod governor_timers;
mod guest_corpus;
mod hostile;
mod io_and_polling;
mod oracle_total;
mod pelt;
mod power;
mod recordings;
mod replay;
#[path = "../support/mod.rs"]
mod support;
