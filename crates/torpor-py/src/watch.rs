// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Long work that Ctrl-C can end and a Python callback can follow.
//!
//! Python delivers signals to its main thread only. So the engine runs on a separate thread, and the
//! calling thread polls Python.

use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longest delay of Ctrl-C; a shorter one is not noticeable.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Progress and cancellation, from any thread.
#[derive(Default)]
pub(crate) struct Watch {
    state: Mutex<State>,
    is_over: Condvar,
    is_cancelled: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    /// Done and total of each kind of work, since the last poll.
    news: BTreeMap<String, (u64, u64)>,
    is_over: bool,
}

/// Marks the work as over on drop, so that the watcher does not wait after a panic.
struct OverOnDrop<'a>(&'a Watch);

impl Drop for OverOnDrop<'_> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.is_over.notify_all();
    }
}

impl Watch {
    /// Set when the work must end.
    pub(crate) fn stop(&self) -> Arc<AtomicBool> {
        self.is_cancelled.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is plain numbers, right after every statement: a panic elsewhere spoils none.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl torpor_engine::Progress for Watch {
    fn advance(&self, what: &str, done: u64, total: u64) {
        let mut state = self.lock();
        match state.news.get_mut(what) {
            Some(latest) => *latest = (done, total),
            None => {
                state.news.insert(what.to_owned(), (done, total));
            }
        }
    }

    fn cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }
}

/// Runs `work` without the GIL. The error is Python's: an interrupt, or an exception of `callback`.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    callback: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Watch) -> T + Send,
) -> PyResult<T> {
    let (outcome, seen) = watched_to_the_end(py, callback, work);
    seen.map(|()| outcome)
}

/// The same, for work that has a result when it is stopped.
pub(crate) fn watched_to_the_end<T: Send>(
    py: Python<'_>,
    callback: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Watch) -> T + Send,
) -> (T, PyResult<()>) {
    let callback = callback.map(|c| c.clone().unbind());
    py.detach(|| {
        let watch = Watch::default();
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let _over = OverOnDrop(&watch);
                torpor_machine::units::end_reads_by(watch.stop());
                work(&watch)
            });
            let seen = look_after(&watch, callback.as_ref());
            if seen.is_err() {
                watch.is_cancelled.store(true, Ordering::Relaxed);
            }
            match worker.join() {
                Ok(outcome) => (outcome, seen),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    })
}

/// Returns when the work is over, or on an interrupt or exception of Python.
fn look_after(watch: &Watch, callback: Option<&Py<PyAny>>) -> PyResult<()> {
    let mut state = watch.lock();
    loop {
        if state.is_over {
            return Ok(());
        }
        let (mut woken, _) = watch
            .is_over
            .wait_timeout_while(state, LOOK_EVERY, |state| !state.is_over)
            .unwrap_or_else(PoisonError::into_inner);
        let news = std::mem::take(&mut woken.news);
        // Held, it would stop every worker that has news while Python runs.
        drop(woken);
        Python::attach(|py| {
            py.check_signals()?;
            for (what, (done, total)) in news {
                if let Some(callback) = callback {
                    callback.call1(py, (what, done, total))?;
                }
            }
            Ok::<(), PyErr>(())
        })?;
        state = watch.lock();
    }
}
