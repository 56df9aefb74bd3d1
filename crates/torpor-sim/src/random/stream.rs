// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Random streams by name. Each user has its own stream, so that the draws of a task do not depend
//! on those of another, and every governor gets the same workload.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// One purpose's random numbers.
#[derive(Clone, Debug)]
pub struct Stream(Xoshiro256PlusPlus);

/// FNV-1a's parameters for 64 bits.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// A stream's name, hashed part by part.
#[derive(Clone, Copy, Debug)]
pub struct StreamName(u64);

impl StreamName {
    pub fn new(seed: u64) -> StreamName {
        StreamName(FNV_OFFSET).number(seed)
    }

    pub fn text(self, text: &str) -> StreamName {
        // The length keeps `ab`, `c` apart from `a`, `bc`.
        text.bytes().fold(self, StreamName::byte).number(text.len() as u64)
    }

    pub fn number(self, number: u64) -> StreamName {
        number.to_le_bytes().into_iter().fold(self, StreamName::byte)
    }

    fn byte(self, byte: u8) -> StreamName {
        StreamName((self.0 ^ u64::from(byte)).wrapping_mul(FNV_PRIME))
    }

    pub fn stream(self) -> Stream {
        Stream(Xoshiro256PlusPlus::seed_from_u64(self.0))
    }
}

impl Stream {
    /// From 0 up to, but not, 1: 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// From 1 down to, but not, 0: what a logarithm takes.
    pub fn positive_unit(&mut self) -> f64 {
        1.0 - self.unit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_different_names_are_independent() {
        let name = StreamName::new(1);
        let mut streams =
            [name.text("ab").text("c"), name.text("a").text("bc"), StreamName::new(2).text("ab")]
                .map(StreamName::stream);
        let firsts: Vec<u64> = streams.iter_mut().map(|s| s.0.next_u64()).collect();
        assert!(firsts[0] != firsts[1] && firsts[1] != firsts[2]);
    }

    #[test]
    fn first_number_of_a_stream_is_stable() {
        let mut stream = StreamName::new(7).text("render").number(3).stream();
        assert_eq!((stream.unit() * 4_294_967_296.0) as u64, 1_302_592_377);
    }
}
