// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Pools of worker threads that outlive a call: a short replay would take as long as the start of its
//! threads.

use crate::error::EngineError;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::Mutex;

/// A pool that no call uses.
struct Idle {
    /// A fork has the parent's pools, and none of their threads.
    process: u32,
    threads: usize,
    pool: ThreadPool,
}

static IDLE: Mutex<Vec<Idle>> = Mutex::new(Vec::new());

/// Does `work` on a pool of so many threads, or of one thread a core if `threads` is 0.
pub fn on_threads<T: Send>(
    threads: usize,
    work: impl FnOnce() -> T + Send,
) -> Result<T, EngineError> {
    let process = std::process::id();
    // A fork that was made meanwhile has it locked for ever.
    let kept = IDLE.try_lock().ok().and_then(|mut idle| {
        let fits = |one: &Idle| (one.process, one.threads) == (process, threads);
        idle.iter().position(fits).map(|at| idle.swap_remove(at).pool)
    });
    let pool = match kept {
        Some(pool) => pool,
        None => ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(|e| EngineError::Threads { threads, reason: e.to_string() })?,
    };
    let done = pool.install(work);
    if let Ok(mut idle) = IDLE.try_lock() {
        idle.push(Idle { process, threads, pool });
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_used_again() {
        // No other test asks for so many.
        let names = || (rayon::current_num_threads(), std::thread::current().id());
        let first = on_threads(13, || rayon::broadcast(|_| std::thread::current().id())).unwrap();
        let (count, again) = on_threads(13, names).unwrap();
        assert_eq!(count, 13);
        assert!(first.contains(&again));
    }
}
