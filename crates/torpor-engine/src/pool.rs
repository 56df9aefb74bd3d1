// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Pools of worker threads that outlive a call: a short replay would take as long as the start of its
//! threads. Work for one thread stays on the caller's.

use crate::error::EngineError;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::cell::Cell;
use std::sync::Mutex;

thread_local! {
    /// Whether this thread is in [`on_threads`] of one thread.
    static IS_ALONE: Cell<bool> = const { Cell::new(false) };
}

/// A pool that no call uses.
struct Idle {
    /// A fork has the parent's pools, and none of their threads.
    process: u32,
    threads: usize,
    pool: ThreadPool,
}

static IDLE: Mutex<Vec<Idle>> = Mutex::new(Vec::new());

/// Does `work` on so many threads, or on one thread a core if `threads` is 0: [`map`] divides it.
pub fn on_threads<T: Send>(
    threads: usize,
    work: impl FnOnce() -> T + Send,
) -> Result<T, EngineError> {
    if threads == 1 {
        return Ok(alone(work));
    }
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

fn alone<T>(work: impl FnOnce() -> T) -> T {
    /// Also after a panic.
    struct Restored(bool);
    impl Drop for Restored {
        fn drop(&mut self) {
            IS_ALONE.set(self.0);
        }
    }
    let _restored = Restored(IS_ALONE.replace(true));
    work()
}

/// Returns the number of threads that [`map`] uses.
pub fn thread_count() -> usize {
    if IS_ALONE.get() { 1 } else { rayon::current_num_threads() }
}

/// Returns the results of `work` in the order of the items, which the threads share.
pub fn map<T, R: Send>(
    items: impl IntoIterator<Item = T> + IntoParallelIterator<Item = T, Iter: IndexedParallelIterator>,
    work: impl Fn(T) -> R + Sync + Send,
) -> Vec<R> {
    if IS_ALONE.get() {
        items.into_iter().map(work).collect()
    } else {
        items.into_par_iter().map(work).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_for_one_thread_stays_on_the_callers() {
        let own = std::thread::current().id();
        let ids = on_threads(1, || map(vec![(); 100], |()| std::thread::current().id())).unwrap();
        assert_eq!(ids, [own; 100]);
        let inside = || on_threads(3, thread_count).unwrap();
        assert_eq!(on_threads(1, || (thread_count(), inside())).unwrap(), (1, 3));
    }

    #[test]
    fn results_are_in_the_order_of_items() {
        let numbers: Vec<u32> = (0..1000).collect();
        for threads in [1, 2] {
            let doubled = on_threads(threads, || map(&numbers, |number| number * 2)).unwrap();
            assert!(doubled.iter().zip(&numbers).all(|(two, one)| *two == one * 2));
        }
    }

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
