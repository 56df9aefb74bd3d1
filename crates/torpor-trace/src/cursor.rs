// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Bounds-checked reads in the byte order of the recorded machine.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Endian {
    #[default]
    Little,
    Big,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    endian: Endian,
}

macro_rules! number {
    ($name:ident, $type:ty) => {
        #[inline]
        pub(crate) fn $name(&mut self) -> Option<$type> {
            let bytes = self.array()?;
            Some(match self.endian {
                Endian::Little => <$type>::from_le_bytes(bytes),
                Endian::Big => <$type>::from_be_bytes(bytes),
            })
        }
    };
}

impl<'a> Cursor<'a> {
    /// Little-endian, as most recordings are.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor::ordered(bytes, Endian::Little)
    }

    #[inline]
    pub(crate) fn ordered(bytes: &'a [u8], endian: Endian) -> Cursor<'a> {
        Cursor { rest: bytes, endian }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(crate) fn bytes(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }

    number!(u8, u8);
    number!(u16, u16);
    number!(u32, u32);
    number!(u64, u64);

    /// A number of 1, 2, 4 or 8 bytes, sign-extended if it is signed.
    #[inline]
    pub(crate) fn number(&mut self, size: usize, is_signed: bool) -> Option<u64> {
        Some(match (size, is_signed) {
            (1, false) => self.u8()?.into(),
            (1, true) => self.u8()? as i8 as u64,
            (2, false) => self.u16()?.into(),
            (2, true) => self.u16()? as i16 as u64,
            (4, false) => self.u32()?.into(),
            (4, true) => self.u32()? as i32 as u64,
            (8, _) => self.u64()?,
            _ => return None,
        })
    }

    /// Takes the bytes up to a NUL, and the NUL.
    pub(crate) fn c_str(&mut self) -> Option<&'a [u8]> {
        let length = self.rest.iter().position(|&byte| byte == 0)?;
        let text = self.rest.get(..length)?;
        self.rest = after(self.rest, length, 1);
        Some(text)
    }
}

/// Returns the bytes after the `length` bytes at `at`; nothing if these reach beyond the end.
#[inline]
pub(crate) fn after(bytes: &[u8], at: usize, length: usize) -> &[u8] {
    at.checked_add(length).and_then(|end| bytes.get(end..)).unwrap_or_default()
}

const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;

/// Returns the top bits of the bytes of `word` that are `byte`.
#[inline(always)]
fn matches(word: [u8; 8], byte: u8) -> u64 {
    let differs = u64::from_le_bytes(word) ^ u64::from_le_bytes([byte; 8]);
    !((differs & LOW_BITS).wrapping_add(LOW_BITS) | differs | LOW_BITS)
}

/// Returns the place of the first `byte` in a short text; `memchr` is faster in a long one.
#[inline(always)]
pub(crate) fn find(text: &[u8], byte: u8) -> Option<usize> {
    let mut rest = text;
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        let found = matches(*word, byte);
        if found != 0 {
            return Some(offset(text, rest).wrapping_add(found.trailing_zeros() as usize >> 3));
        }
        rest = after;
    }
    let before = offset(text, rest);
    rest.iter().position(|other| *other == byte).map(|at| before.wrapping_add(at))
}

/// Returns the place of the last `byte` in a short text.
#[inline(always)]
pub(crate) fn rfind(text: &[u8], byte: u8) -> Option<usize> {
    let mut rest = text;
    while let Some((before, word)) = rest.split_last_chunk::<8>() {
        let found = matches(*word, byte);
        if found != 0 {
            let behind = found.leading_zeros() as usize >> 3;
            return rest.len().checked_sub(behind.wrapping_add(1));
        }
        rest = before;
    }
    rest.iter().rposition(|other| *other == byte)
}

/// True if two short texts are the same: `==` calls `memcmp`, which takes longer.
#[inline(always)]
pub(crate) fn is_same(text: &[u8], other: &[u8]) -> bool {
    text.len() == other.len() && starts_with(text, other)
}

/// True if a text starts with a short one.
#[inline(always)]
pub(crate) fn starts_with(text: &[u8], start: &[u8]) -> bool {
    let (mut text, mut start) = (text, start);
    macro_rules! step {
        ($bytes:literal, $repeat:literal) => {
            while let Some((wanted, start_after)) = start.split_first_chunk::<$bytes>() {
                match text.split_first_chunk::<$bytes>() {
                    Some((found, after)) if found == wanted => (text, start) = (after, start_after),
                    _ => return false,
                }
                if !$repeat {
                    break;
                }
            }
        };
    }
    step!(8, true);
    step!(4, false);
    step!(2, false);
    step!(1, false);
    true
}

/// Returns the first and last bytes of a text: all of them if there are at most 16.
#[inline(always)]
pub(crate) fn ends(text: &[u8]) -> (u64, u64) {
    let long = (text.first_chunk::<8>(), text.last_chunk::<8>());
    let short = (text.first_chunk::<4>(), text.last_chunk::<4>());
    match (long, short, text) {
        ((Some(first), Some(last)), ..) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        (_, (Some(first), Some(last)), _) => {
            (u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into())
        }
        (.., [first, .., last]) => {
            let middle = text.get(1).map_or(0, |byte| u64::from(*byte) << 8);
            (u64::from(*first) | middle, (*last).into())
        }
        (.., [only]) => ((*only).into(), 0),
        (.., []) => (0, 0),
    }
}

/// Returns the bytes before and after the first `separator`.
pub(crate) fn split<'a>(bytes: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = memchr::memmem::find(bytes, separator)?;
    Some((&bytes[..at], after(bytes, at, separator.len())))
}

/// Returns the offset of `rest`, the tail of `bytes`, in them.
#[inline]
pub(crate) fn offset(bytes: &[u8], rest: &[u8]) -> usize {
    bytes.len().saturating_sub(rest.len())
}

/// The bytes of a section, if the file holds them.
pub(crate) fn section(file: &[u8], offset: u64, size: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(size).ok()?)?;
    file.get(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_are_searched_like_slices() {
        let text = *b"a b=c \x80\xff\x01 =b a\x7fx=";
        for from in 0..text.len() {
            for to in from..=text.len() {
                let part = &text[from..to];
                for byte in *b"a =\x80\xff\x01\x7fz" {
                    assert_eq!(find(part, byte), part.iter().position(|other| *other == byte));
                    assert_eq!(rfind(part, byte), part.iter().rposition(|other| *other == byte));
                }
                for length in 0..=part.len() {
                    assert!(starts_with(part, &part[..length]));
                    let mut other = part[..length].to_vec();
                    for at in 0..length {
                        other[at] ^= 1;
                        assert!(!starts_with(part, &other) && !is_same(&part[..length], &other));
                        other[at] ^= 1;
                    }
                    assert_eq!(is_same(part, &other), length == part.len());
                }
            }
        }
    }

    /// Texts of one length that differ in one byte.
    #[test]
    fn ends_hold_up_to_sixteen_bytes() {
        for length in 0..=16 {
            let text = vec![b'a'; length];
            for at in 0..length {
                let mut other = text.clone();
                other[at] = b'b';
                assert_ne!(ends(&text), ends(&other), "{length} {at}");
            }
        }
    }
}
