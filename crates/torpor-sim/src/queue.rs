// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Queue of events. Each source of events has one entry, which is moved rather
//! than left behind stale: the queue never holds more than the machine has parts.

use torpor_machine::units::Instant;

/// Children of a node: a flatter tree touches fewer cache lines.
const ARITY: usize = 4;
const ABSENT: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    time: Instant,
    /// Order of insertion: of two events at the same time, the one set first comes first.
    sequence: u64,
    who: Who,
}

/// Owner of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Who {
    pub kind: u8,
    /// Among those of its kind.
    pub index: u32,
}

/// A heap of (time, sequence) in which each of a fixed number of owners has at most one entry.
#[derive(Clone, Debug)]
pub(crate) struct Agenda {
    heap: Vec<Entry>,
    /// Place of each owner's entry, kind after kind, and the begin of each kind.
    places: Vec<u32>,
    begins: Vec<u32>,
    sequence: u64,
}

impl Agenda {
    /// For so many owners of each kind.
    pub(crate) fn new(counts: &[usize]) -> Agenda {
        let owners: usize = counts.iter().sum();
        let begin =
            |sum: &mut u32, count: &usize| Some(std::mem::replace(sum, *sum + *count as u32));
        Agenda {
            heap: Vec::with_capacity(owners),
            places: vec![ABSENT; owners],
            begins: counts.iter().scan(0, begin).collect(),
            sequence: 0,
        }
    }

    #[inline]
    fn owner(&self, who: Who) -> usize {
        (self.begins[usize::from(who.kind)] + who.index) as usize
    }

    /// Sets the time of `who`; [`Instant::NEVER`] removes it. If the time does not change, it keeps
    /// its place among equals.
    #[inline]
    pub(crate) fn set(&mut self, who: Who, time: Instant) {
        let place = self.places[self.owner(who)];
        if time == Instant::NEVER {
            if place != ABSENT {
                self.remove(place as usize);
            }
            return;
        }
        if place != ABSENT && self.heap[place as usize].time == time {
            return;
        }
        self.sequence += 1;
        let entry = Entry { time, sequence: self.sequence, who };
        if place == ABSENT {
            self.heap.push(entry);
            self.rise(self.heap.len() - 1, entry);
        } else if entry < self.heap[place as usize] {
            self.rise(place as usize, entry);
        } else {
            self.sink(place as usize, entry);
        }
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<(Instant, Who)> {
        self.heap.first().map(|entry| (entry.time, entry.who))
    }

    fn remove(&mut self, place: usize) {
        let owner = self.owner(self.heap[place].who);
        self.places[owner] = ABSENT;
        let last = self.heap.pop().expect("the heap holds what is removed");
        if place < self.heap.len() {
            if place > 0 && last < self.heap[(place - 1) / ARITY] {
                self.rise(place, last);
            } else {
                self.sink(place, last);
            }
        }
    }

    #[inline]
    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        let owner = self.owner(entry.who);
        self.places[owner] = place as u32;
    }

    fn rise(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.heap[parent] <= entry {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    fn sink(&mut self, mut place: usize, entry: Entry) {
        loop {
            let first = place * ARITY + 1;
            let last = (first + ARITY).min(self.heap.len());
            let Some(least) = (first..last).min_by_key(|&child| self.heap[child]) else { break };
            if self.heap[least] >= entry {
                break;
            }
            self.put(place, self.heap[least]);
            place = least;
        }
        self.put(place, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Twenty owners, of two kinds.
    fn agenda() -> Agenda {
        Agenda::new(&[7, 13])
    }

    fn owner(number: usize) -> Who {
        match number {
            0..7 => Who { kind: 0, index: number as u32 },
            _ => Who { kind: 1, index: number as u32 - 7 },
        }
    }

    #[test]
    fn equal_times_keep_the_order_of_setting() {
        let mut agenda = agenda();
        agenda.set(owner(8), Instant(5));
        agenda.set(owner(0), Instant(5));
        agenda.set(owner(1), Instant(4));
        // Set again to the same time, it keeps its turn; moved and moved back, it does not.
        agenda.set(owner(8), Instant(5));
        for expected in [(Instant(4), owner(1)), (Instant(5), owner(8)), (Instant(5), owner(0))] {
            assert_eq!(agenda.peek(), Some(expected));
            agenda.set(expected.1, Instant::NEVER);
        }
        assert_eq!(agenda.peek(), None);
    }

    proptest! {
            #[test]
            fn earliest_entry_is_first(
                changes in prop::collection::vec((0..20usize, prop::option::of(0..50i64), any::<bool>()), 1..300)
            ) {
                let mut agenda = agenda();
                let mut model: BTreeMap<usize, (Instant, usize)> = BTreeMap::new();
                for (turn, (who, time, pops)) in changes.into_iter().enumerate() {
                    match time {
                        Some(time) => {
                            agenda.set(owner(who), Instant(time));
                            if model.get(&who).is_none_or(|m| m.0 != Instant(time)) {
                                model.insert(who, (Instant(time), turn));
                            }
                        }
                        None => {
                            agenda.set(owner(who), Instant::NEVER);
                            model.remove(&who);
                        }
                    }
                    let first = model.iter().min_by_key(|(_, key)| **key).map(|(w, key)| (key.0, *w));
                    let known = first.map(|(time, number)| (time, owner(number)));
                    prop_assert_eq!(agenda.peek(), known);
                    if pops {
    if let Some((_, number)) = first {
                        agenda.set(owner(number), Instant::NEVER);
                        model.remove(&number);
                    }
    }
                }
            }
        }
}
