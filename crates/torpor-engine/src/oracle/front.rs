// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The paths to keep at one place: none is both earlier and dearer than another.

use super::{Path, Safe};
use std::ops::Range;
use torpor_machine::units::{Duration, Instant};

/// Paths in the past that are kept before they are dropped.
const PATHS_KEPT: usize = 32;

/// Kept paths in order of time.
#[derive(Default)]
pub(super) struct Front {
    paths: Vec<Path>,
}

impl Front {
    /// Adds `path` unless a kept one is as late and as cheap, and drops those that it supersedes.
    /// Returns true if it was kept. If being later is not `safe`, a path supersedes only those of
    /// its own time.
    pub(super) fn offer(&mut self, path: &mut Path, safe: Safe) -> bool {
        if self.paths.is_empty() {
            self.paths.push(*path);
            return true;
        }
        let at = self.place(path.now);
        let own = self.paths.get(at).filter(|own| own.now == path.now);
        if let Some(own) = own {
            path.include(own);
        }
        if safe.until < path.now {
            let is_shared = own.is_some();
            return self.offer_alone(path, at, is_shared);
        }
        let path = *path;
        let no_worse = |earlier: &Path, later: &Path| {
            let is_comparable = earlier.spread == Duration::ZERO || safe.settles.is_none();
            (earlier.now == later.now && earlier.spread <= later.spread)
                || (earlier.now < later.now
                    && is_comparable
                    && safe.covers(earlier.earliest(), later.now, path.tick_stopped))
        };
        if self.paths[at..].iter().any(|p| p.standing <= path.standing && no_worse(&path, p)) {
            return false;
        }
        let is_superseded = |p: &Path| p.standing >= path.standing && no_worse(p, &path);
        // The first at or after its time may be of the same time, the others are later.
        let last = self.paths.len().min(at + 1);
        let at = if self.paths[..last].iter().any(is_superseded) {
            self.paths.retain(|p| !is_superseded(p));
            self.place(path.now)
        } else {
            at
        };
        self.paths.insert(at, path);
        true
    }

    /// Does the same where a path is compared only with the one of its own time.
    fn offer_alone(&mut self, path: &Path, at: usize, is_shared: bool) -> bool {
        if !is_shared {
            self.paths.insert(at, *path);
            return true;
        }
        let own = &mut self.paths[at];
        if own.standing <= path.standing && path.spread <= own.spread {
            return false;
        }
        *own = *path;
        true
    }

    /// Returns the place of a path at `now`: most are later than all others.
    #[inline]
    fn place(&self, now: Instant) -> usize {
        match self.paths.last() {
            Some(last) if last.now >= now => self.paths.partition_point(|p| p.now < now),
            _ => self.paths.len(),
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.paths.len()
    }

    /// Takes the path nearest in time of those all of whose times are `within`.
    pub(super) fn take_nearest(&mut self, now: Instant, within: Range<Instant>) -> Option<Path> {
        let at = self.place(now);
        let gap = |index: usize| {
            let path = self
                .paths
                .get(index)
                .filter(|path| within.start <= path.earliest() && path.now < within.end)?;
            Some((path.now.since(now).0.abs(), index))
        };
        let nearest = [at.checked_sub(1), Some(at)].into_iter().flatten().filter_map(gap).min();
        nearest.map(|(_, index)| self.paths.remove(index))
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.paths.clear();
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Drops paths before `now`, once there are enough.
    #[inline]
    pub(super) fn forget_before(&mut self, now: Instant) {
        if self.paths.len() >= PATHS_KEPT && self.paths[PATHS_KEPT / 2].now < now {
            let past = self.paths.partition_point(|p| p.now < now);
            self.paths.drain(..past);
        }
    }

    #[inline]
    pub(super) fn holds(&self, path: &Path) -> bool {
        let at = self.paths.partition_point(|p| p.now < path.now);
        self.paths.get(at).is_some_and(|p| p.step == path.step)
    }

    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use torpor_machine::units::Energy;

    fn path(now: i64, energy: i128, step: u32) -> Path {
        Path {
            now: Instant(now),
            spread: Duration::ZERO,
            tick_stopped: false,
            energy: Energy(energy),
            standing: Energy(energy),
            delay: Duration::ZERO,
            step,
        }
    }

    #[test]
    fn later_and_cheaper_replaces_earlier_and_dearer() {
        let mut front = Front::default();
        let safe = Safe { until: Instant(100), tick: Instant(50), settles: None };
        let mut offer = |now, energy, step| front.offer(&mut path(now, energy, step), safe);
        assert!(offer(10, 5, 0));
        assert!(offer(20, 9, 1));
        assert!(!offer(15, 9, 2), "as dear as the later one");
        assert!(offer(15, 7, 3));
        assert!(offer(30, 6, 4), "later than all, cheaper than two");
        assert!(offer(60, 5, 6), "has missed a tick");
        assert!(offer(70, 4, 7), "so has the one that it replaces");
        assert!(offer(200, 1, 5), "too late to replace any");
        let steps: Vec<u32> = front.iter().map(|p| p.step).collect();
        assert_eq!(steps, [0, 4, 7, 5]);
    }
}
