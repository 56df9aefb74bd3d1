// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Single values as the kernel, trace-cmd and perf print them.

use super::line::number;

/// Parses `12`, `-1`, `007`, `0x1f`, `yes` or `no` into the field's bits, sign-extended.
#[inline(always)]
pub(super) fn integer(text: &[u8]) -> Option<u64> {
    match text {
        [b'0'..=b'9'] => Some(u64::from(text[0] & 15)),
        [b'1'..=b'9', ..] => number(text).map(|(value, _)| value),
        _ => unusual_integer(text),
    }
}

#[inline(never)]
fn unusual_integer(text: &[u8]) -> Option<u64> {
    match text {
        [b'0', b'x' | b'X', hex @ ..] => hexadecimal(hex),
        [b'-', digits @ ..] => number(digits).map(|(value, _)| value.wrapping_neg()),
        // `tick_stop` had words before Linux 4.6.
        b"yes" => Some(1),
        b"no" => Some(0),
        _ => number(text).map(|(value, _)| value),
    }
}

#[inline]
pub(super) fn hexadecimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 16 {
        return None;
    }
    let (mut value, mut all) = (0, 0);
    for byte in text {
        let digit = HEX_DIGITS[usize::from(*byte)];
        value = value << 4 | u64::from(digit & 15);
        all |= digit;
    }
    (all < 16).then_some(value)
}

/// The value of each hexadecimal digit; 16 for other bytes.
const HEX_DIGITS: [u8; 256] = {
    let mut digits = [16; 256];
    let mut value = 0;
    while value < 16 {
        digits[b"0123456789abcdef"[value] as usize] = value as u8;
        digits[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    digits
};

/// Parses a pointer as `%p` prints it, with `0x` or without. Returns `None` for a hidden one.
#[inline]
pub(super) fn pointer(text: &[u8]) -> Option<u64> {
    hexadecimal(text.strip_prefix(b"0x").unwrap_or(text))
}

/// Returns the symbol of `tick_nohz_handler`, `tick_nohz_handler/0x0` or `f+0x0/0x20`.
pub(super) fn symbol(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| matches!(byte, b'/' | b'+'));
    &text[..end.unwrap_or(text.len())]
}

/// Returns an address for a function known by its symbol alone: the FNV-1a hash, the same in every
/// run.
pub(super) fn function_id(symbol: &[u8]) -> u64 {
    symbol.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Parses a CPU mask as `%*pb` prints it, in groups of 32 bits with the highest CPUs first:
/// `00000000,00000002`. The bytes have the lowest CPU first.
pub(super) fn mask<'b>(text: &[u8], bytes: &'b mut Vec<u8>) -> Option<&'b [u8]> {
    bytes.clear();
    let mut digits = text.iter().rev().filter(|byte| **byte != b',');
    while let Some(low) = digits.next() {
        let digit = |byte: &u8| (*byte as char).to_digit(16).map(|digit| digit as u8);
        let high = digits.next().map_or(Some(0), digit)?;
        bytes.push(high << 4 | digit(low)?);
    }
    (!bytes.is_empty()).then_some(bytes)
}

/// Parses a task's state as Linux prints it since 4.14 into the bits of `prev_state`. Older letters
/// are `x` (`TASK_DEAD`) and the qualifiers K (killable), W (waking) and N (no load).
pub(super) fn kernel_state(text: &[u8]) -> Option<u64> {
    state(text, |letter| match letter {
        b'R' | b'K' | b'W' | b'N' => Some(0),
        b'x' => Some(0x10),
        _ => bit(b"SDTtXZPI+", letter),
    })
}

/// Parses a task's state as trace-cmd's plugin prints it, by the letters of Linux 2.6. A letter
/// stands for the bit, whatever its meaning today: `W` is an idle kernel thread.
pub(super) fn trace_cmd_state(text: &[u8]) -> Option<u64> {
    state(text, |letter| match letter {
        b'R' => Some(0),
        _ => bit(b"SDTtZXxW+", letter),
    })
}

/// Returns the bit of a letter. `+` is the last, for a preempted task.
fn bit(letters: &[u8; 9], letter: u8) -> Option<u64> {
    letters.iter().position(|known| *known == letter).map(|index| 1 << index)
}

/// Parses letters with `|` between them, or the number that `trace-cmd report -R` prints.
fn state(text: &[u8], bits: impl Fn(u8) -> Option<u64>) -> Option<u64> {
    if text.first().is_none_or(u8::is_ascii_digit) {
        return integer(text);
    }
    text.iter().filter(|byte| **byte != b'|').try_fold(0, |all, &letter| Some(all | bits(letter)?))
}

/// Parses `timer_list.flags`: a number, or letters next to CPU and index.
pub(super) fn timer_flags(text: &[u8], cpu: u64, idx: u64) -> Option<u64> {
    if text.first().is_some_and(u8::is_ascii_digit) {
        return integer(text);
    }
    let placed = cpu & TIMER_CPU_MASK | idx << TIMER_ARRAY_SHIFT;
    let named = TIMER_FLAGS.iter().filter(|(letter, _)| text.contains(letter));
    Some(named.fold(placed, |flags, (_, bit)| flags | bit))
}

pub(super) const TIMER_CPU_MASK: u64 = 0x0003_ffff;
pub(super) const TIMER_ARRAY_SHIFT: u32 = 22;
/// Flags of include/linux/timer.h: migrating, deferrable, pinned, irq-safe.
pub(super) const TIMER_FLAGS: [(u8, u64); 4] =
    [(b'M', 0x0004_0000), (b'D', 0x0008_0000), (b'P', 0x0010_0000), (b'I', 0x0020_0000)];
