// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The tokenizer: protobuf's wire format, field by field, borrowed from the file's bytes.
//!
//! It never allocates and never trusts a length: what reaches beyond the message is an error, or,
//! where the file's own end may have cut a message, handed out as far as it goes.

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

/// Why a message stopped early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The bytes end inside a field.
    CutShort,
    /// A length-delimited field is longer than what is left.
    LengthBeyondEnd { length: u64 },
    /// A varint of more than ten bytes.
    VarintTooLong,
    /// Field number 0, or a wire type that protobuf does not have (or no longer uses).
    BadTag(u64),
}

impl Fault {
    pub(crate) fn describe(self) -> String {
        match self {
            Fault::CutShort => "the end of the message inside a field".to_owned(),
            Fault::LengthBeyondEnd { length } => {
                format!("a field of {length} bytes, which is more than is left")
            }
            Fault::VarintTooLong => "a varint of more than 10 bytes".to_owned(),
            Fault::BadTag(tag) => format!("the field tag {tag:#x}, which is none"),
        }
    }
}

/// Walks the fields of one message. After the last one, [`Fields::fault`] says how it ended.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    pos: usize,
    fault: Option<Fault>,
}

impl<'a> Fields<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields { bytes, pos: 0, fault: None }
    }

    /// Where the next field starts; after a fault, where the broken one did.
    pub(crate) fn pos(&self) -> usize {
        self.pos
    }

    pub(crate) fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// The field that [`Fault::LengthBeyondEnd`] stopped at: its number and what there is of it.
    pub(crate) fn cut_field(&self) -> Option<(u32, &'a [u8])> {
        let mut pos = self.pos;
        let tag = varint(self.bytes, &mut pos).ok()?;
        varint(self.bytes, &mut pos).ok()?;
        Some(((tag >> 3) as u32, &self.bytes[pos..]))
    }

    #[inline]
    fn field(&mut self) -> Result<(u32, Value<'a>), Fault> {
        let mut pos = self.pos;
        let tag = varint(self.bytes, &mut pos)?;
        let number = tag >> 3;
        if number == 0 || number > 0x1fff_ffff {
            return Err(Fault::BadTag(tag));
        }
        let value = match tag & 7 {
            0 => Value::Varint(varint(self.bytes, &mut pos)?),
            2 => {
                let length = varint(self.bytes, &mut pos)?;
                let rest = &self.bytes[pos..];
                if length > rest.len() as u64 {
                    return Err(Fault::LengthBeyondEnd { length });
                }
                pos += length as usize;
                Value::Bytes(&rest[..length as usize])
            }
            1 => Value::Fixed64(u64::from_le_bytes(fixed(self.bytes, &mut pos)?)),
            5 => Value::Fixed32(u32::from_le_bytes(fixed(self.bytes, &mut pos)?)),
            _ => return Err(Fault::BadTag(tag)),
        };
        self.pos = pos;
        Ok((number as u32, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<(u32, Value<'a>)> {
        if self.pos >= self.bytes.len() || self.fault.is_some() {
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
}

fn fixed<const N: usize>(bytes: &[u8], pos: &mut usize) -> Result<[u8; N], Fault> {
    let fixed = bytes[*pos..].first_chunk::<N>().ok_or(Fault::CutShort)?;
    *pos += N;
    Ok(*fixed)
}

/// Bits beyond the 64th are dropped, as protobuf's own decoders do.
#[inline]
pub(crate) fn varint(bytes: &[u8], pos: &mut usize) -> Result<u64, Fault> {
    let rest = &bytes[*pos..];
    match rest.first() {
        Some(&byte) if byte < 0x80 => {
            *pos += 1;
            return Ok(byte.into());
        }
        Some(_) => {}
        None => return Err(Fault::CutShort),
    }
    let mut value = 0u64;
    for (index, &byte) in rest.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *pos += index + 1;
            return Ok(value);
        }
    }
    Err(if rest.len() < 10 { Fault::CutShort } else { Fault::VarintTooLong })
}

/// The numbers of a repeated scalar field, packed or one at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packed<'a> {
    bytes: &'a [u8],
    pos: usize,
    fault: bool,
}

impl<'a> Packed<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Packed<'a> {
        Packed { bytes, pos: 0, fault: false }
    }

    /// Nothing left and nothing broken.
    pub(crate) fn is_done(&self) -> bool {
        self.pos >= self.bytes.len() && !self.fault
    }
}

impl Iterator for Packed<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        if self.pos >= self.bytes.len() || self.fault {
            return None;
        }
        match varint(self.bytes, &mut self.pos) {
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
    fn a_cut_field_is_handed_out_as_far_as_it_goes() {
        let mut fields = Fields::new(&[0x12, 5, 1, 2]);
        assert!(fields.next().is_none());
        assert_eq!(fields.cut_field(), Some((2, &[1u8, 2][..])));
    }
}
