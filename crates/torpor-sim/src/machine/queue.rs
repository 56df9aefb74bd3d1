// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The hardware's next events: a short list for each CPU, and a tournament of their first entries.

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

/// Events of CPUs. Few have more than five at a time; a heap of all would move them through its
/// levels one by one.
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
        }
    }

    /// When the next event comes; [`Instant::NEVER`] if none does.
    #[inline]
    pub(super) fn next_time(&mut self) -> Instant {
        let first = self.first();
        time(self.keys[first])
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

    /// Takes the next event off, with its CPU.
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
}
