// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Sets of CPUs in which the next member is found 64 CPUs at a time.

const BITS: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuMask {
    words: Box<[u64]>,
}

impl CpuMask {
    pub fn empty(cpus: usize) -> CpuMask {
        CpuMask { words: vec![0; cpus.div_ceil(BITS)].into_boxed_slice() }
    }

    pub fn of(cpus: usize, members: impl IntoIterator<Item = usize>) -> CpuMask {
        let mut mask = CpuMask::empty(cpus);
        members.into_iter().for_each(|cpu| mask.insert(cpu));
        mask
    }

    #[inline]
    pub fn insert(&mut self, cpu: usize) {
        self.words[cpu / BITS] |= 1 << (cpu % BITS);
    }

    #[inline]
    pub fn remove(&mut self, cpu: usize) {
        self.words[cpu / BITS] &= !(1 << (cpu % BITS));
    }

    #[inline]
    pub fn contains(&self, cpu: usize) -> bool {
        self.words[cpu / BITS] >> (cpu % BITS) & 1 == 1
    }

    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The first CPU at or after `start`, going round, that is in this set and in all `others`.
    #[inline]
    pub fn first_common(&self, others: &[&CpuMask], start: usize) -> Option<usize> {
        let count = self.words.len();
        let common = |word: usize| others.iter().fold(self.words[word], |w, o| w & o.words[word]);
        let first = start / BITS;
        let from_start = u64::MAX << (start % BITS);
        for turn in 0..=count {
            let word = (first + turn) % count;
            let keep = match turn {
                0 => from_start,
                n if n == count => !from_start,
                _ => u64::MAX,
            };
            let found = common(word) & keep;
            if found != 0 {
                return Some(word * BITS + found.trailing_zeros() as usize);
            }
        }
        None
    }

    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            (0..BITS).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index * BITS + bit)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_goes_round_once() {
        let mask = CpuMask::of(130, [3, 70, 129]);
        let all = CpuMask::of(130, 0..130);
        let from = |start| mask.first_common(&[&all], start);
        assert_eq!(
            [from(0), from(3), from(4), from(71), from(129)].map(Option::unwrap),
            [3, 3, 70, 129, 129]
        );
        assert_eq!(CpuMask::of(130, [5]).first_common(&[], 6), Some(5));
        assert_eq!(mask.first_common(&[&CpuMask::of(130, [4])], 9), None);
        assert_eq!(mask.iter().collect::<Vec<_>>(), [3, 70, 129]);
    }
}
