// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Results that are kept for the next call.

use std::sync::Mutex;

/// Latest results of a function that depends on its arguments alone; a sweep asks for the same ones
/// many thousand times.
pub struct Recent<K, V, const MAX: usize>(Mutex<Vec<(K, V)>>);

impl<K, V: Clone, const MAX: usize> Recent<K, V, MAX> {
    #[expect(clippy::new_without_default, reason = "for statics")]
    pub const fn new() -> Recent<K, V, MAX> {
        Recent(Mutex::new(Vec::new()))
    }

    /// Returns the result that was kept for these arguments.
    pub fn get(&self, are_these: impl Fn(&K) -> bool) -> Option<V> {
        // A fork that was made while another thread was here has it locked for ever.
        let kept = self.0.try_lock().ok()?;
        kept.iter().rfind(|(key, _)| are_these(key)).map(|(_, value)| value.clone())
    }

    /// Keeps a result in place of the oldest one.
    pub fn keep(&self, key: K, value: V) {
        if let Ok(mut kept) = self.0.try_lock() {
            if kept.len() == MAX {
                kept.remove(0);
            }
            kept.push((key, value));
        }
    }
}
