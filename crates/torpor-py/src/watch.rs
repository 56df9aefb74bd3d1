// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Long work that Ctrl-C can end and a Python callback can follow.
//!
//! Python delivers signals to its main thread only. So the engine runs on a separate thread, and the
//! calling thread polls Python. Any other thread gets no signal: it does the work of one thread
//! itself, as many thousand times in a sweep, and calls back meanwhile.

use pyo3::intern;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use torpor_machine::units::reads_ended_by;

/// Longest delay of Ctrl-C; a shorter one is not noticeable.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Progress and cancellation, from any thread.
pub(crate) struct Watch {
    callback: Option<Py<PyAny>>,
    /// The calling thread does the work.
    is_here: bool,
    state: Mutex<State>,
    is_over: Condvar,
    is_cancelled: Arc<AtomicBool>,
    /// An interrupt, or an exception of the callback.
    failure: OnceLock<PyErr>,
}

struct State {
    /// Done and total of each kind of work, since Python was asked.
    news: BTreeMap<String, (u64, u64)>,
    asked: Instant,
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
    fn new(callback: Option<&Bound<'_, PyAny>>, is_here: bool) -> Watch {
        let state = State { news: BTreeMap::new(), asked: Instant::now(), is_over: false };
        Watch {
            callback: callback.map(|callback| callback.clone().unbind()),
            is_here,
            state: Mutex::new(state),
            is_over: Condvar::new(),
            is_cancelled: Arc::default(),
            failure: OnceLock::new(),
        }
    }

    /// Set when the work must end.
    pub(crate) fn stop(&self) -> Arc<AtomicBool> {
        self.is_cancelled.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is plain data, right after every statement: a panic elsewhere spoils none.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work<T>(&self, work: impl FnOnce(&Watch) -> T) -> T {
        reads_ended_by(self.stop(), || work(self))
    }

    /// Tells Python the news and asks it for signals. An exception cancels the work.
    fn ask(&self) {
        let mut state = self.lock();
        let news = std::mem::take(&mut state.news);
        state.asked = Instant::now();
        // Held, it would stop every worker that has news while Python runs.
        drop(state);
        let asked = Python::attach(|py| {
            py.check_signals()?;
            let calls = news.into_iter().filter_map(|call| Some((self.callback.as_ref()?, call)));
            for (callback, (what, (done, total))) in calls {
                callback.call1(py, (what, done, total))?;
            }
            Ok::<(), PyErr>(())
        });
        if let Err(error) = asked {
            self.failure.get_or_init(|| error);
            self.is_cancelled.store(true, Ordering::Relaxed);
        }
    }

    /// Returns when the work is over or cancelled.
    fn look_after(&self) {
        loop {
            let (state, _) = self
                .is_over
                .wait_timeout_while(self.lock(), LOOK_EVERY, |state| !state.is_over)
                .unwrap_or_else(PoisonError::into_inner);
            let is_over = state.is_over;
            drop(state);
            self.ask();
            if is_over || self.failure.get().is_some() {
                return;
            }
        }
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
        let is_due = self.is_here && state.asked.elapsed() >= LOOK_EVERY;
        drop(state);
        if is_due && !self.cancelled() {
            self.ask();
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
    let (outcome, seen) = watched_to_the_end(py, callback, None, work);
    seen.map(|()| outcome)
}

/// The same, for work that has a result when it is stopped, on a known number of threads.
pub(crate) fn watched_to_the_end<T: Send>(
    py: Python<'_>,
    callback: Option<&Bound<'_, PyAny>>,
    threads: Option<usize>,
    work: impl FnOnce(&Watch) -> T + Send,
) -> (T, PyResult<()>) {
    let watch = Watch::new(callback, threads == Some(1) && !is_main_thread(py));
    let outcome = py.detach(|| {
        if watch.is_here {
            let outcome = watch.work(work);
            watch.ask();
            return outcome;
        }
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let _over = OverOnDrop(&watch);
                watch.work(work)
            });
            watch.look_after();
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    });
    (outcome, watch.failure.into_inner().map_or(Ok(()), Err))
}

/// Whether Python delivers signals to the calling thread.
fn is_main_thread(py: Python<'_>) -> bool {
    let is_main = || {
        let threading = py.import(intern!(py, "threading"))?;
        let main = threading.call_method0(intern!(py, "main_thread"))?;
        let own = threading.call_method0(intern!(py, "get_ident"))?;
        main.getattr(intern!(py, "ident"))?.eq(own)
    };
    is_main().unwrap_or(true)
}
