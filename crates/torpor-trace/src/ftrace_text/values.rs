// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Single values as the kernel, trace-cmd and perf print them.

use super::line::number;

/// `12`, `-1`, `007`, `0x1f`, `yes`, `no`: as the field's bits, sign-extended.
#[inline]
pub(super) fn integer(text: &[u8]) -> Option<u64> {
    match text {
        [b'0', b'x' | b'X', hex @ ..] => hexadecimal(hex),
        [b'-', digits @ ..] => number(digits).map(|(value, _)| value.wrapping_neg()),
        // `tick_stop` had words before Linux 4.6.
        b"yes" => Some(1),
        b"no" => Some(0),
        _ => number(text).map(|(value, _)| value),
    }
}

pub(super) fn hexadecimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 16 {
        return None;
    }
    text.iter()
        .try_fold(0, |value, byte| Some(value << 4 | u64::from((*byte as char).to_digit(16)?)))
}

/// A pointer as `%p` prints it, with `0x` or without. One that the kernel hides is none.
#[inline]
pub(super) fn pointer(text: &[u8]) -> Option<u64> {
    hexadecimal(text.strip_prefix(b"0x").unwrap_or(text))
}

/// `tick_nohz_handler`, or `tick_nohz_handler/0x0` and `f+0x0/0x20` as others print it.
pub(super) fn symbol(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| matches!(byte, b'/' | b'+'));
    &text[..end.unwrap_or(text.len())]
}

/// An identity for a function that is known by its symbol alone: FNV-1a, the same in every run.
pub(super) fn function_id(symbol: &[u8]) -> u64 {
    symbol.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A CPU mask as `%*pb` prints it, groups of 32 bits with the highest CPUs first:
/// `00000000,00000002`. The bytes come out with the lowest CPU first.
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

/// Letters of a task's state to the bits of `prev_state`, as Linux prints them since 4.14 (and,
/// where a letter has gone, before: `x` was `TASK_DEAD`). A trailing `+` means preempted.
pub(super) fn kernel_state(text: &[u8]) -> Option<u64> {
    state(text, |letter| {
        Some(match letter {
            b'R' => 0,
            b'S' => 0x01,
            b'D' => 0x02,
            b'T' => 0x04,
            b't' => 0x08,
            b'X' | b'x' => 0x10,
            b'Z' => 0x20,
            b'P' => 0x40,
            b'I' => 0x80,
            // Before 4.14: killable, waking and "no load", which say more of another letter.
            b'K' | b'W' | b'N' => 0,
            b'+' => 0x100,
            _ => return None,
        })
    })
}

/// The letters of trace-cmd's plugin, whose table is that of Linux 2.6: they stand for the bits,
/// not for what the bits have meant since, so `W` is an idle kernel thread.
pub(super) fn trace_cmd_state(text: &[u8]) -> Option<u64> {
    state(text, |letter| {
        Some(match letter {
            b'R' => 0,
            b'S' => 0x01,
            b'D' => 0x02,
            b'T' => 0x04,
            b't' => 0x08,
            b'Z' => 0x10,
            b'X' => 0x20,
            b'x' => 0x40,
            b'W' => 0x80,
            b'+' => 0x100,
            _ => return None,
        })
    })
}

/// A state of letters, `|` between them; or the number itself, as `trace-cmd report -R` has it.
fn state(text: &[u8], bits: impl Fn(u8) -> Option<u64>) -> Option<u64> {
    if text.first().is_none_or(u8::is_ascii_digit) {
        return integer(text);
    }
    text.iter().filter(|byte| **byte != b'|').try_fold(0, |all, &letter| Some(all | bits(letter)?))
}

/// The bits of `timer_list.flags` above the CPU: letters, or all of it as a number.
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
/// include/linux/timer.h: migrating, deferrable, pinned, irq-safe.
pub(super) const TIMER_FLAGS: [(u8, u64); 4] =
    [(b'M', 0x0004_0000), (b'D', 0x0008_0000), (b'P', 0x0010_0000), (b'I', 0x0020_0000)];
