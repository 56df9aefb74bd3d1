// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Power that is credited to a CPU while it is in its deepest state, over time.

use std::sync::atomic::{AtomicUsize, Ordering};
use torpor_machine::units::{Energy, Instant, Power};

/// Pieces that are looked at one by one before steps of twice the length search the rest.
const NEAR: usize = 8;

/// Piecewise constant, and zero outside its pieces.
#[derive(Debug, Default)]
pub struct Credit {
    pieces: Vec<Piece>,
    /// Number of pieces that had begun at the time that was asked for last: the next one is near.
    begun: AtomicUsize,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    from: Instant,
    to: Instant,
    power: Power,
    /// Energy of all pieces before this one.
    before: Energy,
}

impl Piece {
    fn upto(&self, time: Instant) -> Energy {
        self.before + self.power.over(time.clamp(self.from, self.to).since(self.from))
    }
}

impl Credit {
    /// Appends a piece that begins at or after the end of the last one.
    pub fn push(&mut self, from: Instant, to: Instant, power: Power) {
        if power <= Power::ZERO || to <= from {
            return;
        }
        let last = self.pieces.last_mut().filter(|last| last.to == from && last.power == power);
        if let Some(last) = last {
            last.to = to;
            return;
        }
        let before = self.pieces.last().map_or(Energy::ZERO, |last| last.upto(last.to));
        self.pieces.push(Piece { from, to, power, before });
    }

    /// Returns an equal part for each of so many CPUs.
    pub fn part(&self, cpus: usize) -> Credit {
        let mut part = Credit::default();
        for piece in &self.pieces {
            part.push(piece.from, piece.to, Power(piece.power.0 / cpus as i64));
        }
        part
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the credit of a rest from the beginning to `time`.
    pub fn upto(&self, time: Instant) -> Energy {
        let begun = self.begun_before(time);
        self.begun.store(begun, Ordering::Relaxed);
        begun.checked_sub(1).map_or(Energy::ZERO, |last| self.pieces[last].upto(time))
    }

    fn begun_before(&self, time: Instant) -> usize {
        let has_begun = |index: usize| self.pieces.get(index).is_some_and(|p| p.from < time);
        let mut begun = self.begun.load(Ordering::Relaxed);
        for _ in 0..NEAR {
            if has_begun(begun) {
                begun += 1;
            } else if begun > 0 && !has_begun(begun - 1) {
                begun -= 1;
            } else {
                return begun;
            }
        }
        let (mut first, mut last, mut reach) = (begun, begun, NEAR);
        if has_begun(begun) {
            while has_begun(last) {
                first = last + 1;
                last += reach;
                reach *= 2;
            }
        } else {
            while first > 0 && !has_begun(first - 1) {
                last = first - 1;
                first = first.saturating_sub(reach);
                reach *= 2;
            }
        }
        let last = last.min(self.pieces.len());
        first + self.pieces[first..last].partition_point(|piece| piece.from < time)
    }

    /// Returns the credit of a rest.
    pub fn between(&self, from: Instant, to: Instant) -> Energy {
        self.upto(to) - self.upto(from)
    }

    /// Returns the times at which the power changes inside an interval.
    pub fn changes(&self, from: Instant, to: Instant) -> impl Iterator<Item = Instant> {
        let first = self.pieces.partition_point(|piece| piece.to <= from);
        let overlapping = self.pieces[first..].iter().take_while(move |piece| piece.from < to);
        let ends = overlapping.flat_map(|piece| [piece.from, piece.to]);
        ends.filter(move |&at| from < at && at < to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rest_gets_the_credit_of_overlaps() {
        // 3 uW over 10..20 and 20..30, as one piece; 5 uW over 40..50.
        let mut credit = Credit::default();
        for (from, to, uw) in [(10, 20, 3), (20, 30, 3), (32, 36, 0), (40, 50, 5)] {
            credit.push(Instant(from), Instant(to), Power(uw));
        }
        let between = |from, to| credit.between(Instant(from), Instant(to)).0;
        assert_eq!([between(0, 10), between(0, 15), between(15, 45)], [0, 15, 45 + 25]);
        assert_eq!([between(0, 99), between(50, 99)], [110, 0]);
        let changes: Vec<i64> = credit.changes(Instant(10), Instant(45)).map(|at| at.0).collect();
        assert_eq!(changes, [30, 40]);
    }
}
