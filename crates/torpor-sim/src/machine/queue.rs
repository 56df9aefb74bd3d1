// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The next events: a short list for each CPU, and a tournament of their first entries; and what is
//! due outside the CPUs.

use torpor_machine::units::Instant;

/// The order of events: by their time, above, then of their making.
type Key = u128;

/// No event: after all others.
const NONE: Key = key(Instant::NEVER, u64::MAX);

const fn key(time: Instant, number: u64) -> Key {
    // As unsigned numbers, times before the start come before the others, too.
    ((time.0 as u64 ^ 1 << 63) as u128) << 64 | number as u128
}

fn time(key: Key) -> Instant {
    Instant(((key >> 64) as u64 ^ 1 << 63) as i64)
}

/// Owner of an event outside the CPUs: a source of interrupts, a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Who {
    pub kind: u8,
    /// Among those of its kind.
    pub index: u32,
}

/// Events in order of time, and of two at the same time the one outside first, then the older. Few
/// CPUs have more than five at a time; a heap of all would move them through its levels one by one.
pub(super) struct Queue<E> {
    /// Events of each CPU, the latest first.
    events: Vec<Vec<(Key, E)>>,
    /// The key of each CPU's first event, or [`NONE`].
    keys: Vec<Key>,
    /// A binary tree, its root in 1, the children of `n` in `2n` and `2n + 1`: of the CPUs below each
    /// node, the one whose first event is the earliest.
    winners: Vec<u16>,
    /// The CPU whose event was taken last. It usually gets another, which the tree does not have
    /// yet.
    taken: Option<u16>,
    pushed: u64,
    /// What is due outside, the latest first: one entry for each owner.
    outside: Vec<(Key, Who)>,
}

impl<E> Queue<E> {
    pub(super) fn new(cpus: usize) -> Queue<E> {
        let leaves = cpus.next_power_of_two();
        let mut winners: Vec<u16> = vec![0; 2 * leaves];
        (0..leaves).for_each(|leaf| winners[leaves + leaf] = leaf as u16);
        (1..leaves).rev().for_each(|node| winners[node] = winners[2 * node]);
        Queue {
            events: (0..cpus).map(|_| Vec::with_capacity(8)).collect(),
            keys: vec![NONE; leaves],
            winners,
            taken: None,
            pushed: 0,
            outside: Vec::new(),
        }
    }

    /// When the next event comes; [`Instant::NEVER`] if none does.
    #[inline]
    pub(super) fn next_time(&mut self) -> Instant {
        let first = self.first();
        time(self.keys[first]).min(self.outside_time())
    }

    fn outside_time(&self) -> Instant {
        self.outside.last().map_or(Instant::NEVER, |(key, _)| time(*key))
    }

    /// Returns who is due outside before the next event of a CPU. It stays so until its time is set
    /// anew.
    #[inline]
    pub(super) fn due_outside(&mut self) -> Option<Who> {
        let first = self.first();
        let &(key, who) = self.outside.last()?;
        (time(key) <= time(self.keys[first])).then_some(who)
    }

    /// Sets when `who` is due outside; [`Instant::NEVER`] removes it. If the time does not change, it
    /// keeps its place among equals.
    pub(super) fn set(&mut self, who: Who, at: Instant) {
        if let Some(place) = self.outside.iter().rposition(|(_, other)| *other == who) {
            if time(self.outside[place].0) == at {
                return;
            }
            self.outside.remove(place);
        }
        if at != Instant::NEVER {
            self.pushed += 1;
            let key = key(at, self.pushed);
            let place = self.outside.partition_point(|(other, _)| *other > key);
            self.outside.insert(place, (key, who));
        }
    }

    /// The CPU that has the next event, if any has.
    #[inline]
    fn first(&mut self) -> usize {
        match self.taken.take() {
            Some(cpu) => self.play(cpu),
            None => self.winners[1].into(),
        }
    }

    #[inline]
    pub(super) fn push(&mut self, time: Instant, cpu: usize, event: E) {
        self.pushed += 1;
        let key = key(time, self.pushed);
        let events = &mut self.events[cpu];
        let mut place = events.len();
        while place > 0 && events[place - 1].0 < key {
            place -= 1;
        }
        if place < events.len() {
            return events.insert(place, (key, event));
        }
        events.push((key, event));
        self.keys[cpu] = key;
        if self.taken != Some(cpu as u16) {
            self.advance(cpu);
        }
    }

    /// Takes the next event of a CPU off, with the CPU.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(usize, E)> {
        let cpu = self.first();
        let events = &mut self.events[cpu];
        let (_, event) = events.pop()?;
        self.keys[cpu] = events.last().map_or(NONE, |(key, _)| *key);
        self.taken = Some(cpu as u16);
        Some((cpu, event))
    }

    /// Brings the tree up to date with a CPU that had won everywhere; returns the winner.
    #[inline]
    fn play(&mut self, cpu: u16) -> usize {
        let (keys, winners) = (&self.keys[..], &mut self.winners[..]);
        let (mut winner, mut key) = (cpu, keys[usize::from(cpu)]);
        let mut node = keys.len() + usize::from(cpu);
        while node > 1 {
            let other = winners[node ^ 1];
            let other_key = keys[usize::from(other)];
            (winner, key) = if other_key < key { (other, other_key) } else { (winner, key) };
            node /= 2;
            winners[node] = winner;
        }
        winner.into()
    }

    /// Updates the tree for a CPU whose key has decreased. Entries of the key that was taken are
    /// corrected later, when [`Queue::play`] reaches them.
    #[inline]
    fn advance(&mut self, cpu: usize) {
        let (keys, winners) = (&self.keys[..], &mut self.winners[..]);
        let mut node = (keys.len() + cpu) / 2;
        while node > 0 && keys[usize::from(winners[node])] >= keys[cpu] {
            winners[node] = cpu as u16;
            node /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Removes the next event and compares it with that of a sorted list.
    fn compare(queue: &mut Queue<u64>, model: &mut Vec<(Instant, u64, usize)>) {
        model.sort_unstable();
        let (time, number, cpu) = model.remove(0);
        assert_eq!(queue.next_time(), time);
        assert_eq!(queue.pop(), Some((cpu, number)));
    }

    #[test]
    fn events_come_by_time_then_by_age() {
        for cpus in [1, 2, 3, 8, 100, 256] {
            let (mut queue, mut model) = (Queue::new(cpus), Vec::new());
            let mut seed = 7_u64;
            for number in 0..3_000 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Few times, so that many are equal.
                let (time, cpu) = (Instant((seed >> 33) as i64 % 50), (seed >> 45) as usize % cpus);
                queue.push(time, cpu, number);
                model.push((time, number, cpu));
                if seed >> 63 == 1 {
                    compare(&mut queue, &mut model);
                }
            }
            while !model.is_empty() {
                compare(&mut queue, &mut model);
            }
            assert_eq!(queue.next_time(), Instant::NEVER);
            assert_eq!(queue.pop(), None);
        }
    }

    fn who(index: u32) -> Who {
        Who { kind: (index / 7) as u8, index: index % 7 }
    }

    #[test]
    fn equal_times_keep_the_order_of_setting() {
        let mut queue = Queue::<u64>::new(1);
        queue.push(Instant(5), 0, 1);
        queue.set(who(8), Instant(5));
        queue.set(who(0), Instant(5));
        queue.set(who(1), Instant(4));
        // Set again to the same time, it keeps its turn; moved and moved back, it does not.
        queue.set(who(8), Instant(5));
        for (at, expected) in [(4, 1), (5, 8), (5, 0)] {
            assert_eq!(
                (queue.next_time(), queue.due_outside()),
                (Instant(at), Some(who(expected)))
            );
            queue.set(who(expected), Instant::NEVER);
        }
        // A CPU's event comes after those.
        assert_eq!((queue.next_time(), queue.due_outside()), (Instant(5), None));
        assert_eq!(queue.pop(), Some((0, 1)));
    }

    proptest! {
        #[test]
        fn earliest_owner_is_due_first(
            changes in prop::collection::vec((0..20u32, prop::option::of(0..50i64)), 1..300)
        ) {
            let mut queue = Queue::<u64>::new(2);
            let mut model: BTreeMap<u32, (Instant, usize)> = BTreeMap::new();
            for (turn, (owner, at)) in changes.into_iter().enumerate() {
                queue.set(who(owner), at.map_or(Instant::NEVER, Instant));
                match at.map(Instant) {
                    Some(at) if model.get(&owner).is_some_and(|m| m.0 == at) => {}
                    Some(at) => drop(model.insert(owner, (at, turn))),
                    None => drop(model.remove(&owner)),
                }
                let first = model.iter().min_by_key(|(_, key)| **key);
                prop_assert_eq!(queue.due_outside(), first.map(|(owner, _)| who(*owner)));
            }
        }
    }
}
