// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Panics of third-party readers, which assert parts of a damaged file.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Returns the value of `read`, or None if it panics, and prints nothing.
pub(crate) fn quietly<T>(read: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_QUIET.get() {
                print(panic);
            }
        }));
    });
    IS_QUIET.set(true);
    // The caller drops all that the reader left half done.
    let outcome = catch_unwind(AssertUnwindSafe(read));
    IS_QUIET.set(false);
    outcome.ok()
}
