// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Text from outside, made safe to print: file names, a compiler's messages, names in a recording.
//! Escapes are those of JSON, as the command line writes them.

use std::borrow::Cow;
use std::fmt::Write as _;

/// One line: a name can hold anything, a terminal's commands and line ends among it.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_harmless(c) && !c.is_control())
}

/// Several lines, indented as they were.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_harmless(c) && (!c.is_control() || matches!(c, '\n' | '\t')))
}

/// Marks that turn the direction of text make a terminal show other than what is there.
fn is_harmless(c: char) -> bool {
    !matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, is_kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    if text.chars().all(&is_kept) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if is_kept(c) => shown.push(c),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c => write!(shown, "\\u{:04x}", c as u32).expect("a string"),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(line("a\x1b[2Jb\nc\td\u{9b}e\u{7f}"), "a\\u001b[2Jb\\nc\\td\\u009be\\u007f");
        assert_eq!(lines("a\n\tb\r\x07"), "a\n\tb\\r\\u0007");
        assert_eq!(line("x\u{202e}c.oet"), "x\\u202ec.oet");
        assert!(matches!(line("größer, 'quoted' \"so\" \\ 名"), Cow::Borrowed(_)));
    }
}
