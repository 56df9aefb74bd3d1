// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The search inside one span: paths that wait in it, and those that are past its event.

use super::credit::Credit;
use super::dense::Dense;
use super::front::Front;
use super::sooner::Sooner;
use super::{Path, Safe};
use crate::idle_loop::gives_up;
use crate::input::{Span, TickGrid};
use std::collections::VecDeque;
use torpor_machine::units::{Duration, Energy, Instant, Power};

/// The paths inside one span.
pub(super) struct Crossing<'a> {
    pub(super) span: &'a Span,
    pub(super) tick: TickGrid,
    price: Power,
    here: Safe,
    pub(super) beyond: Safe,
    pub(super) dense: Option<Dense>,
    pub(super) credit: Option<&'a Credit>,
    /// Work between this span's event and the next span; `None` after the last span.
    pub(super) work: Option<Duration>,
    /// Past the event, by whether the tick is stopped then.
    pub(super) endings: &'a mut [Front; 2],
    /// Awake before the event, by whether the tick is stopped.
    pub(super) waiting: &'a mut [Front; 2],
    pub(super) sooner: &'a mut Sooner,
    /// Most paths that wait, before relaxed ones are merged.
    pub(super) waiting_max: usize,
    /// The path that decides.
    pub(super) now: Instant,
}

/// The fronts of one span after another, which keep their memory.
#[derive(Default)]
pub(super) struct Fronts {
    pub(super) endings: [Front; 2],
    waiting: [Front; 2],
    pub(super) sooner: Sooner,
}

impl<'a> Crossing<'a> {
    pub(super) fn new(
        (span, price, tick): (&'a Span, Power, TickGrid),
        [here, beyond]: [Safe; 2],
        dense: Option<Dense>,
        (credit, work): (Option<&'a Credit>, Option<Duration>),
        Fronts { endings, waiting, sooner }: &'a mut Fronts,
    ) -> Crossing<'a> {
        endings.iter_mut().chain(&mut *waiting).for_each(Front::clear);
        Crossing {
            span,
            tick,
            price,
            here,
            beyond,
            dense,
            credit,
            work,
            endings,
            waiting,
            sooner,
            waiting_max: usize::MAX,
            now: Instant(i64::MIN),
        }
    }

    /// Returns the credit up to the time at which a path that ends at `now` reaches the next span.
    #[inline]
    pub(super) fn credit_ahead(&self, now: Instant) -> Energy {
        self.credit.zip(self.work).map_or(Energy::ZERO, |(credit, work)| credit.upto(now + work))
    }

    /// Drops paths that wait before `now`.
    #[inline]
    pub(super) fn forget_before(&mut self, now: Instant) {
        self.now = now;
        self.waiting.iter_mut().for_each(|front| front.forget_before(now));
    }

    /// Number of paths that a new one is compared with.
    #[inline]
    pub(super) fn crowd(&self) -> u32 {
        self.waiting.iter().chain(&*self.endings).map(Front::len).sum::<usize>() as u32
    }

    #[inline]
    pub(super) fn ends_stopped(&self, tick_stopped: bool) -> bool {
        tick_stopped && !self.span.ends_visit
    }

    /// Adds a path that is before the event, or that finds that it has happened. Returns true if it
    /// was kept.
    #[inline]
    pub(super) fn arrive(&mut self, path: Path, queue: &mut Queue) -> bool {
        if path.spread > Duration::ZERO {
            return self.arrive_spread(path, queue);
        }
        self.arrive_alike(path, queue)
    }

    /// Adds a path all of whose times are in the same tick and on the same side of the event.
    #[inline]
    pub(super) fn arrive_alike(&mut self, mut path: Path, queue: &mut Queue) -> bool {
        if path.now > self.span.wake {
            return self.end(path);
        }
        let credit = self.credit.map_or(Energy::ZERO, |credit| credit.upto(path.now));
        path.credit_spread(self.credit);
        path.standing = path.energy + credit;
        if self.waiting[usize::from(path.tick_stopped)].len() >= self.waiting_max {
            self.join_neighbour(&mut path);
        }
        // A path that gives up is not compared with earlier paths, as those must pay for a sleep.
        let is_kept = gives_up(self.span, path.now)
            || self.waiting[usize::from(path.tick_stopped)].offer(&mut path, self.here);
        if is_kept {
            queue.push(path);
        }
        is_kept
    }

    #[inline]
    pub(super) fn end(&mut self, mut path: Path) -> bool {
        path.tick_stopped = self.ends_stopped(path.tick_stopped);
        path.resume(self.span.resume, self.price);
        path.standing = path.energy + self.credit_ahead(path.now);
        self.endings[usize::from(path.tick_stopped)].offer(&mut path, self.beyond)
    }

    #[inline]
    pub(super) fn is_superseded(&self, path: &Path) -> bool {
        !gives_up(self.span, path.now) && !self.waiting[usize::from(path.tick_stopped)].holds(path)
    }
}

/// Paths that wait, the earliest first. Mostly later ones are added.
#[derive(Default)]
pub(super) struct Queue {
    paths: VecDeque<Path>,
}

impl Queue {
    /// The step makes the order total.
    #[inline]
    pub(super) fn push(&mut self, path: Path) {
        let is_later = |other: &Path| (other.now, other.step) > (path.now, path.step);
        match self.paths.back() {
            Some(last) if is_later(last) => {
                let at = self.paths.partition_point(|other| !is_later(other));
                self.paths.insert(at, path);
            }
            _ => self.paths.push_back(path),
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Path> {
        self.paths.pop_front()
    }

    /// Takes all paths, in order of time.
    pub(super) fn take(&mut self) -> Vec<Path> {
        std::mem::take(&mut self.paths).into()
    }
}
