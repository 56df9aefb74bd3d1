// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The tokenizer of protobuf's wire format, which borrows each field from the file's bytes.
//!
//! It never allocates and never trusts a length: a field that reaches beyond the message is a
//! fault. If the end of the file cut it, the part that is there is available.

use crate::cursor::offset;
use crate::tracepoint;

/// The value of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub(crate) fn number(self) -> Option<u64> {
        match self {
            Value::Varint(number) | Value::Fixed64(number) => Some(number),
            Value::Fixed32(number) => Some(number.into()),
            Value::Bytes(_) => None,
        }
    }

    pub(crate) fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl<'a> From<Value<'a>> for tracepoint::Value<'a> {
    #[inline]
    fn from(value: Value<'a>) -> tracepoint::Value<'a> {
        match value {
            Value::Bytes(bytes) => tracepoint::Value::Bytes(bytes),
            Value::Varint(number) | Value::Fixed64(number) => tracepoint::Value::Number(number),
            Value::Fixed32(number) => tracepoint::Value::Number(number.into()),
        }
    }
}

/// Returns the last value of each of these fields of a message.
pub(crate) fn pick<const N: usize>(message: &[u8], numbers: [u32; N]) -> [Option<Value<'_>>; N] {
    let mut values = [None; N];
    for (number, value) in Fields::new(message) {
        if let Some(index) = numbers.iter().position(|wanted| *wanted == number) {
            values[index] = Some(value);
        }
    }
    values
}

/// The reason why a message ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The bytes end inside a field.
    CutShort,
    /// A length-delimited field is longer than what is left.
    LengthBeyondEnd { length: u64 },
    /// A varint of more than ten bytes.
    VarintTooLong,
    /// Field number 0, or an invalid or obsolete wire type.
    BadTag(u64),
}

impl Fault {
    pub(crate) fn describe(self) -> String {
        match self {
            Fault::CutShort => "the end of the message inside a field".to_owned(),
            Fault::LengthBeyondEnd { length } => {
                format!("a field of {length} bytes, longer than the rest of the message")
            }
            Fault::VarintTooLong => "a varint of more than 10 bytes".to_owned(),
            Fault::BadTag(tag) => format!("the invalid field tag {tag:#x}"),
        }
    }
}

/// Iterates over the fields of a message. After the last one, [`Fields::fault`] is set if the
/// message ended early.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    rest: &'a [u8],
    fault: Option<Fault>,
}

impl<'a> Fields<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields { bytes, rest: bytes, fault: None }
    }

    /// Returns the offset of the next field; after a fault, of the broken one.
    pub(crate) fn pos(&self) -> usize {
        offset(self.bytes, self.rest)
    }

    /// Takes the next field if it has this tag of one byte, of a length-delimited field: a short cut
    /// before [`Fields::next_field`].
    #[inline(always)]
    pub(crate) fn take_bytes(&mut self, tag: u8) -> Option<&'a [u8]> {
        let mut rest = self.rest.strip_prefix(&[tag])?;
        let length = length(&mut rest).ok()?;
        let (bytes, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        Some(bytes)
    }

    pub(crate) fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Returns the number and the available part of the field that [`Fault::LengthBeyondEnd`]
    /// stopped at.
    pub(crate) fn cut_field(&self) -> Option<(u32, &'a [u8])> {
        let mut rest = self.rest;
        let tag = varint(&mut rest).ok()?;
        varint(&mut rest).ok()?;
        Some(((tag >> 3) as u32, rest))
    }

    /// Returns the next field: the iterator's step, which hot loops take inline.
    #[inline(always)]
    pub(crate) fn next_field(&mut self) -> Option<(u32, Value<'a>)> {
        if self.rest.is_empty() || self.fault.is_some() {
            return None;
        }
        match self.field() {
            Ok(field) => Some(field),
            Err(fault) => {
                self.fault = Some(fault);
                None
            }
        }
    }

    #[inline(always)]
    fn field(&mut self) -> Result<(u32, Value<'a>), Fault> {
        let mut rest = self.rest;
        let tag = varint(&mut rest)?;
        let number = tag >> 3;
        if number == 0 || number > 0x1fff_ffff {
            return Err(Fault::BadTag(tag));
        }
        let value = match tag & 7 {
            0 => Value::Varint(varint(&mut rest)?),
            2 => {
                let length = varint(&mut rest)?;
                let bytes = usize::try_from(length).ok().and_then(|l| rest.split_at_checked(l));
                let Some((bytes, after)) = bytes else {
                    return Err(Fault::LengthBeyondEnd { length });
                };
                rest = after;
                Value::Bytes(bytes)
            }
            1 => Value::Fixed64(u64::from_le_bytes(fixed(&mut rest)?)),
            5 => Value::Fixed32(u32::from_le_bytes(fixed(&mut rest)?)),
            _ => return Err(Fault::BadTag(tag)),
        };
        self.rest = rest;
        Ok((number as u32, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<(u32, Value<'a>)> {
        self.next_field()
    }
}

fn fixed<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Fault> {
    let (fixed, after) = rest.split_first_chunk::<N>().ok_or(Fault::CutShort)?;
    *rest = after;
    Ok(*fixed)
}

/// Takes a varint from the start of `rest`. Bits beyond the 64th are dropped, as by protobuf's own
/// decoders.
#[inline(always)]
pub(crate) fn varint(rest: &mut &[u8]) -> Result<u64, Fault> {
    match *rest {
        [byte, after @ ..] if *byte < 0x80 => {
            *rest = after;
            Ok((*byte).into())
        }
        [low, high, after @ ..] if *high < 0x80 => {
            *rest = after;
            Ok(u64::from(low & 0x7f) | u64::from(*high) << 7)
        }
        _ => long_varint(rest),
    }
}

/// The top bit of every byte, which says that the number goes on.
const GOES_ON: u64 = 0x8080_8080_8080_8080;

/// Takes a varint that is likely long, such as a time, which has seven or eight bytes: eight are
/// looked at together.
#[inline(always)]
pub(crate) fn long_varint(rest: &mut &[u8]) -> Result<u64, Fault> {
    if let Some((word, _)) = rest.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        let ends = !word & GOES_ON;
        if ends != 0 {
            // The number's bytes are those up to the first whose top bit is clear.
            let bits = word & (ends ^ ends.wrapping_sub(1)) & !GOES_ON;
            // Seven bits of each byte move together: pairs of bytes, of 16 bits, of 32.
            let bits = (bits & 0x7f00_7f00_7f00_7f00) >> 1 | bits & 0x007f_007f_007f_007f;
            let bits = (bits & 0x3fff_0000_3fff_0000) >> 2 | bits & 0x0000_3fff_0000_3fff;
            let bits = (bits & 0x0fff_ffff_0000_0000) >> 4 | bits & 0x0000_0000_0fff_ffff;
            let length = (ends.trailing_zeros() >> 3).saturating_add(1);
            *rest = rest.get(length as usize..).unwrap_or_default();
            return Ok(bits);
        }
    }
    any_varint(rest)
}

/// Reads a number of up to ten bytes, or near the end.
#[cold]
fn any_varint(rest: &mut &[u8]) -> Result<u64, Fault> {
    let mut value = 0u64;
    let mut after = *rest;
    for shift in (0..70).step_by(7) {
        let Some((byte, behind)) = after.split_first() else { return Err(Fault::CutShort) };
        after = behind;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            *rest = after;
            return Ok(value);
        }
    }
    Err(Fault::VarintTooLong)
}

/// Takes the length of a message. Recorders reserve four bytes for it, as they write it last.
#[inline(always)]
pub(crate) fn length(rest: &mut &[u8]) -> Result<u64, Fault> {
    match *rest {
        [low, 0x80, 0x80, 0, after @ ..] if *low >= 0x80 => {
            *rest = after;
            Ok(u64::from(low & 0x7f))
        }
        _ => varint(rest),
    }
}

/// The numbers of a repeated scalar field, packed or one at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packed<'a> {
    rest: &'a [u8],
    fault: bool,
}

impl<'a> Packed<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Packed<'a> {
        Packed { rest: bytes, fault: false }
    }

    /// True if all numbers were read without a fault.
    pub(crate) fn is_done(&self) -> bool {
        self.rest.is_empty() && !self.fault
    }
}

impl Iterator for Packed<'_> {
    type Item = u64;

    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        if self.rest.is_empty() || self.fault {
            return None;
        }
        match varint(&mut self.rest) {
            Ok(number) => Some(number),
            Err(_) => {
                self.fault = true;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(bytes: &[u8]) -> (Vec<(u32, Value<'_>)>, Option<Fault>) {
        let mut fields = Fields::new(bytes);
        let found = fields.by_ref().collect();
        (found, fields.fault())
    }

    /// 08 = field 1, varint; 96 01 = 0x16 + (1 << 7) = 150. 12 = field 2, bytes.
    #[test]
    fn fields_come_out_in_order() {
        let (fields, fault) = walk(&[0x08, 0x96, 0x01, 0x12, 2, b'h', b'i']);
        assert_eq!(fields, [(1, Value::Varint(150)), (2, Value::Bytes(b"hi"))]);
        assert_eq!(fault, None);
    }

    #[test]
    fn a_negative_number_takes_ten_bytes() {
        let bytes = [8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(walk(&bytes).0, [(1, Value::Varint(u64::MAX))]);
    }

    /// Numbers of every length, with and without bytes after them.
    #[test]
    fn numbers_of_all_lengths_are_read() {
        for shift in 0..64 {
            for number in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = vec![8];
                let mut left = number;
                while left >= 0x80 {
                    bytes.push(left as u8 | 0x80);
                    left >>= 7;
                }
                bytes.push(left as u8);
                let length = bytes.len();
                for behind in [0, 1, 7, 16] {
                    bytes.truncate(length);
                    bytes.extend([8, 0x7f].iter().cycle().take(2 * behind));
                    assert_eq!(walk(&bytes).0[0], (1, Value::Varint(number)), "{behind}");
                }
            }
        }
    }

    #[test]
    fn each_fault_has_its_name() {
        assert_eq!(walk(&[0x08]).1, Some(Fault::CutShort));
        assert_eq!(walk(&[0x09, 1, 2]).1, Some(Fault::CutShort));
        assert_eq!(walk(&[0x12, 5, 1]).1, Some(Fault::LengthBeyondEnd { length: 5 }));
        assert_eq!(walk(&[0x0b]).1, Some(Fault::BadTag(0x0b)));
        assert_eq!(walk(&[0x00]).1, Some(Fault::BadTag(0)));
        assert_eq!(walk(&[0xff; 11]).1, Some(Fault::VarintTooLong));
    }

    #[test]
    fn the_rest_of_a_cut_field_is_available() {
        let mut fields = Fields::new(&[0x12, 5, 1, 2]);
        assert!(fields.next().is_none());
        assert_eq!(fields.cut_field(), Some((2, &[1u8, 2][..])));
    }
}
