// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Runs the load of `idle-predict` on this machine.

use crate::LatencyHistogram;
use crate::record::LatencyOutcome;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Loop of each thread.
#[derive(Clone, Copy, Debug)]
pub struct IdlePredict {
    pub threads: u32,
    /// Sleeps per round: all but the last of `delay`, the last of `pause`.
    pub loops: u32,
    pub delay: Duration,
    pub pause: Duration,
}

/// The threads at work.
pub struct Running {
    shared: Arc<Shared>,
    began: Instant,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    /// Lateness of wake-ups, from delays and from pauses.
    late: Mutex<[LatencyHistogram; 2]>,
}

/// Result: the duration, and the lateness of wake-ups from delays and from pauses.
pub struct Done {
    pub elapsed: Duration,
    pub delays: LatencyOutcome,
    pub pauses: LatencyOutcome,
}

impl IdlePredict {
    /// Starts the threads. They sleep almost all the time, and so does the waiting thread: polling
    /// for their end would change the load.
    pub fn start(self) -> io::Result<Running> {
        let running = Running { shared: Arc::default(), began: Instant::now() };
        for number in 0..self.threads {
            let shared = Arc::clone(&running.shared);
            let thread = thread::Builder::new().name(format!("idle-predict-{number}"));
            if let Err(error) = thread.spawn(move || self.work(&shared)) {
                running.stop();
                return Err(error);
            }
        }
        Ok(running)
    }

    fn work(self, shared: &Shared) {
        while !shared.is_over.load(Ordering::Relaxed) {
            for _ in 1..self.loops {
                let late = oversleep(self.delay);
                shared.late()[0].record(late);
            }
            let late = oversleep(self.pause);
            shared.late()[1].record(late);
        }
    }
}

impl Shared {
    fn late(&self) -> MutexGuard<'_, [LatencyHistogram; 2]> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sleeps like usleep(), with timer slack; returns the lateness.
fn oversleep(length: Duration) -> torpor_machine::units::Duration {
    let began = Instant::now();
    thread::sleep(length);
    let late = began.elapsed().saturating_sub(length);
    torpor_machine::units::Duration(i64::try_from(late.as_nanos()).unwrap_or(i64::MAX))
}

impl Running {
    fn stop(&self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }

    /// Stops the load without waiting for sleeping threads, which stop when they wake up.
    pub fn finish(self) -> Done {
        self.stop();
        let elapsed = self.began.elapsed();
        let [delays, pauses] = self.shared.late().clone().map(|late| late.latencies());
        Done { elapsed, delays: LatencyOutcome::new(&delays), pauses: LatencyOutcome::new(&pauses) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_sleep_nine_times_then_pause() {
        let load = IdlePredict {
            threads: 3,
            loops: 10,
            delay: Duration::from_micros(20),
            pause: Duration::from_millis(20),
        };
        let running = load.start().unwrap();
        thread::sleep(Duration::from_millis(200));
        let done = running.finish();
        assert!(done.elapsed >= Duration::from_millis(200));
        // On a busy machine fewer rounds than ten; in no round more than nine delays a pause.
        let (delays, pauses) = (done.delays.count, done.pauses.count);
        assert!((27..=3 * 9 * 11).contains(&delays), "{delays}");
        assert!(pauses >= 3 && delays >= 9 * pauses, "{delays} {pauses}");
        assert!(delays <= 9 * (pauses + 3), "{delays} {pauses}");
    }
}
