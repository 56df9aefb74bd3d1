// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Cancellation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Polled during long work, on any thread. The work stops soon after it returns false.
pub type GoOn<'a> = &'a (dyn Fn() -> bool + Sync);

/// A flag that stops a reader.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
