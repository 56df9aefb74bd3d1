// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Sets of CPUs.

const BITS: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuMask {
    words: Box<[u64]>,
}

impl CpuMask {
    pub fn of(cpus: usize, members: impl IntoIterator<Item = usize>) -> CpuMask {
        let mut words = vec![0; cpus.div_ceil(BITS)].into_boxed_slice();
        members.into_iter().for_each(|cpu| words[cpu / BITS] |= 1 << (cpu % BITS));
        CpuMask { words }
    }

    #[inline]
    pub fn contains(&self, cpu: usize) -> bool {
        self.words[cpu / BITS] >> (cpu % BITS) & 1 == 1
    }

    /// Returns the first CPU at or after `start`, or else the first of all.
    pub fn first_from(&self, start: usize) -> Option<usize> {
        self.iter().find(|cpu| *cpu >= start).or_else(|| self.iter().next())
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
    fn search_wraps_to_the_first_cpu() {
        let mask = CpuMask::of(130, [3, 70, 129]);
        let found = [0, 3, 4, 71, 129].map(|start| mask.first_from(start).unwrap());
        assert_eq!(found, [3, 3, 70, 129, 129]);
        assert_eq!(CpuMask::of(130, [5]).first_from(6), Some(5));
        assert_eq!(CpuMask::of(130, []).first_from(6), None);
    }
}
