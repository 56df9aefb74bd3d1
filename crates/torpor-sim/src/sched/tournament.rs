// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The least and the greatest of many numbers that change one at a time.

/// Numbers by index; a change costs the logarithm of their count. Of equals, the lower index wins.
#[derive(Clone, Debug)]
pub struct Tournament {
    /// A power of two.
    leaves: usize,
    keys: Vec<u32>,
    /// Winners of each match, the final at 1; leaves follow at `leaves`.
    least: Vec<u16>,
    greatest: Vec<u16>,
}

impl Tournament {
    pub fn new(count: usize) -> Tournament {
        let leaves = count.next_power_of_two().max(2);
        let mut new = Tournament {
            leaves,
            keys: vec![0; count],
            least: vec![0; 2 * leaves],
            greatest: vec![0; 2 * leaves],
        };
        for leaf in 0..leaves {
            new.least[leaves + leaf] = leaf as u16;
            new.greatest[leaves + leaf] = leaf as u16;
        }
        (1..leaves).rev().for_each(|node| new.play(node));
        new
    }

    pub fn count(&self) -> usize {
        self.keys.len()
    }

    pub fn get(&self, index: usize) -> u32 {
        self.keys[index]
    }

    pub fn least(&self) -> usize {
        self.least[1] as usize
    }

    pub fn greatest(&self) -> usize {
        self.greatest[1] as usize
    }

    #[inline]
    pub fn set(&mut self, index: usize, key: u32) {
        let old = std::mem::replace(&mut self.keys[index], key);
        if old == key {
            return;
        }
        let mut node = (self.leaves + index) / 2;
        while node > 0 {
            self.play(node);
            node /= 2;
        }
    }

    #[inline]
    fn play(&mut self, node: usize) {
        let key = |index: u16| self.keys.get(index as usize).copied();
        let (a, b) = (self.least[2 * node], self.least[2 * node + 1]);
        // A leaf beyond the last number loses both ways.
        let b_is_less = matches!((key(a), key(b)), (Some(a), Some(b)) if b < a);
        let (c, d) = (self.greatest[2 * node], self.greatest[2 * node + 1]);
        let d_is_more = matches!((key(c), key(d)), (Some(c), Some(d)) if d > c);
        self.least[node] = if b_is_less { b } else { a };
        self.greatest[node] = if d_is_more { d } else { c };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_winners_are_those_of_a_search(
            count in 1..70usize,
            changes in prop::collection::vec((any::<prop::sample::Index>(), 0..9u32), 1..200)
        ) {
            let mut tournament = Tournament::new(count);
            let mut keys = vec![0u32; count];
            for (index, key) in changes {
                let index = index.index(count);
                tournament.set(index, key);
                keys[index] = key;
                let least = (0..count).min_by_key(|&i| (keys[i], i)).unwrap();
                let greatest = (0..count).max_by_key(|&i| (keys[i], std::cmp::Reverse(i))).unwrap();
                prop_assert_eq!(tournament.least(), least);
                prop_assert_eq!(tournament.greatest(), greatest);
            }
        }
    }
}
