// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Paths that may be too late for the current span, or for many more.
//!
//! If idle times are short, a trip to a deep state makes a path late for hundreds of spans. It
//! makes no decisions in them, so it is not visited: the work between spans delays every path alike
//! and is kept apart from their times.

use super::Path;
use torpor_machine::units::{Duration, Energy, Instant, Power};

#[derive(Default)]
pub(super) struct Late {
    /// By whether the tick is stopped, in order of time without the work so far; the cheapest of
    /// each time.
    pub(super) paths: [Vec<(Instant, Path)>; 2],
    work: Duration,
}

impl Late {
    #[inline]
    pub(super) fn add(&mut self, path: Path) {
        let moment = path.now - self.work;
        keep_cheapest(&mut self.paths[usize::from(path.tick_stopped)], moment, path);
    }

    /// Moves the paths that arrive by `until` to `taken`.
    #[inline]
    pub(super) fn take_until(&mut self, until: Instant, taken: &mut Vec<Path>) {
        for paths in &mut self.paths {
            let due = paths.partition_point(|(moment, _)| *moment + self.work <= until);
            let due = paths.drain(..due);
            taken.extend(due.map(|(moment, path)| Path { now: moment + self.work, ..path }));
        }
    }

    /// Delays the event of a skipped span that was due at `due`.
    #[inline]
    pub(super) fn resume(&mut self, due: Instant, price: Power) {
        for (moment, path) in self.paths.iter_mut().flatten() {
            path.now = *moment + self.work;
            path.resume(due, price);
        }
    }

    /// Passes the end of a span and the `work` after it; `ends_visit` restarts the tick.
    #[inline]
    pub(super) fn pass(&mut self, ends_visit: bool, work: Duration) {
        if ends_visit {
            let [running, stopped] = &mut self.paths;
            for (moment, path) in stopped.drain(..) {
                keep_cheapest(running, moment, Path { tick_stopped: false, ..path });
            }
        }
        self.work += work;
    }
}

impl Late {
    /// Keeps the `most` promising paths, and returns true if there were more: each moment that a
    /// path is later saves it the power of a rest.
    pub(super) fn keep_best(&mut self, most: usize, rest: Power) -> bool {
        if self.paths.iter().map(Vec::len).sum::<usize>() <= most {
            return false;
        }
        let way = |stopped: usize, moment: Instant, path: &Path| {
            (path.energy - rest.over(moment.since(Instant(0))), moment, stopped)
        };
        let both = self.paths.iter().enumerate();
        let mut ways: Vec<(Energy, Instant, usize)> = both
            .flat_map(|(stopped, paths)| {
                paths.iter().map(move |(at, path)| way(stopped, *at, path))
            })
            .collect();
        // No two are equal: paths of one list differ in their moments.
        let (_, &mut first_dropped, _) = ways.select_nth_unstable(most);
        for (stopped, paths) in self.paths.iter_mut().enumerate() {
            paths.retain(|(moment, path)| way(stopped, *moment, path) < first_dropped);
        }
        true
    }
}

#[inline]
fn keep_cheapest(paths: &mut Vec<(Instant, Path)>, moment: Instant, path: Path) {
    match paths.binary_search_by_key(&moment, |(at, _)| *at) {
        Err(at) => paths.insert(at, (moment, path)),
        Ok(at) => {
            let (_, mut kept) = paths[at];
            if path.energy < kept.energy {
                kept = path;
                kept.include(&paths[at].1);
            } else {
                kept.include(&path);
            }
            paths[at].1 = kept;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_path_arrives_later_by_all_work() {
        let path = |now: i64, tick_stopped: bool, energy: i128| Path {
            now: Instant(now),
            spread: Duration::ZERO,
            tick_stopped,
            energy: Energy(energy),
            standing: Energy(energy),
            delay: Duration::ZERO,
            step: 0,
        };
        let mut late = Late::default();
        late.add(path(50, true, 7));
        late.pass(false, Duration(5));
        late.add(path(55, true, 6));
        late.add(path(55, true, 8));
        late.add(path(55, false, 9));
        let mut taken = Vec::new();
        late.take_until(Instant(54), &mut taken);
        assert!(taken.is_empty());
        late.pass(true, Duration(10));
        late.take_until(Instant(65), &mut taken);
        assert_eq!(taken, [path(65, false, 6)]);
    }
}
