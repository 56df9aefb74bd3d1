// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Finds names of functions in an image, for backtraces.

const SHT_SYMTAB: u32 = 2;
const STT_FUNC: u8 = 2;

/// Returns the functions of `addresses`, where known. Addresses are relative to `anchor`, a symbol
/// of the image.
pub(crate) fn name(image: &[u8], anchor: &str, addresses: &[i64]) -> Vec<String> {
    let symbols = read(image).unwrap_or_default();
    let Some(base) = symbols.iter().find(|s| s.name == anchor).map(|s| s.value as i64) else {
        return Vec::new();
    };
    let of = |offset: &i64| {
        // A return address follows its call, which may be a function's last instruction.
        let at = base.checked_add(*offset)?.checked_sub(1)? as u64;
        let symbol = symbols.iter().find(|s| s.is_function && at.wrapping_sub(s.value) < s.size)?;
        Some(symbol.name.clone())
    };
    addresses.iter().map_while(of).collect()
}

struct Symbol {
    name: String,
    value: u64,
    size: u64,
    is_function: bool,
}

fn read(image: &[u8]) -> Option<Vec<Symbol>> {
    let sections = number(image, 40, 8)?;
    let (size, count) = (number(image, 58, 2)?, number(image, 60, 2)?);
    let header = |index: u64| sections.checked_add(index.checked_mul(size)?);
    let mut symbols = Vec::new();
    for index in 0..count {
        let at = header(index)?;
        if number(image, at + 4, 4)? as u32 != SHT_SYMTAB {
            continue;
        }
        let (offset, length) = (number(image, at + 24, 8)?, number(image, at + 32, 8)?);
        let strings = number(image, header(number(image, at + 40, 4)?)? + 24, 8)?;
        for symbol in (offset..offset.checked_add(length)?).step_by(24) {
            symbols.push(Symbol {
                name: text(image, strings.checked_add(number(image, symbol, 4)?)?)?,
                is_function: number(image, symbol + 4, 1)? as u8 & 15 == STT_FUNC,
                value: number(image, symbol + 8, 8)?,
                size: number(image, symbol + 16, 8)?,
            });
        }
    }
    Some(symbols)
}

fn number(image: &[u8], at: u64, len: usize) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let bytes = image.get(at..at.checked_add(len)?)?;
    Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

fn text(image: &[u8], at: u64) -> Option<String> {
    let tail = image.get(usize::try_from(at).ok()?..)?;
    let len = tail.iter().position(|b| *b == 0)?;
    Some(String::from_utf8_lossy(&tail[..len]).into_owned())
}
