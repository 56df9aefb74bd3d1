// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Cancellation of reading.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Asked now and then, on any thread; work ends soon after it answers no.
pub type GoOn<'a> = &'a (dyn Fn() -> bool + Sync);

/// Set by who wants no more of a recording, seen by who reads it.
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
