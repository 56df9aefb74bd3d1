// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Mails of a file: a mailbox, one mail, or a diff without a mail around it.

use std::borrow::Cow;

/// Returns the mails of a file, each with its header unless it has none.
///
/// A line `From ...` begins a mail only with a date at its end. `mail-parser` takes any such line,
/// also a sentence of a message.
pub(crate) fn split(bytes: &[u8]) -> Vec<Cow<'_, [u8]>> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let blank = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    if !is_separator(first_line(&bytes[blank..])) {
        return vec![Cow::Borrowed(bytes)];
    }
    let (mut mails, mut start, mut at) = (Vec::new(), None, blank);
    while at < bytes.len() {
        let line = first_line(&bytes[at..]);
        if line.starts_with(b"From ") && is_separator(line) {
            mails.extend(start.map(|start| unescaped(&bytes[start..at])));
            start = Some(at + line.len());
        }
        at += line.len();
    }
    mails.extend(start.map(|start| unescaped(&bytes[start..])));
    mails
}

/// With its line end.
fn first_line(bytes: &[u8]) -> &[u8] {
    match bytes.iter().position(|&byte| byte == b'\n') {
        Some(end) => &bytes[..=end],
        None => bytes,
    }
}

/// `From 0a1b2c Mon Sep 17 00:00:00 2001`.
fn is_separator(line: &[u8]) -> bool {
    if !line.starts_with(b"From ") || line.len() > 1000 {
        return false;
    }
    let Ok(line) = std::str::from_utf8(line) else { return false };
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let is_time = |word: &&str| word.split(':').filter(|part| part.len() == 2).count() >= 2;
    let is_year = |word: &&str| word.len() == 4 && word.bytes().all(|b| b.is_ascii_digit());
    words.iter().position(is_time).is_some_and(|time| words[time..].iter().any(is_year))
}

/// Takes one `>` from lines such as `>From `, as `mboxrd` defines.
fn unescaped(mail: &[u8]) -> Cow<'_, [u8]> {
    let is_escaped = |line: &[u8]| {
        let arrows = line.iter().take_while(|&&byte| byte == b'>').count();
        arrows > 0 && line[arrows..].starts_with(b"From ")
    };
    let mut lines = mail.split_inclusive(|&byte| byte == b'\n');
    if !lines.any(is_escaped) {
        return Cow::Borrowed(mail);
    }
    let lines = mail.split_inclusive(|&byte| byte == b'\n');
    Cow::Owned(lines.flat_map(|line| &line[usize::from(is_escaped(line))..]).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_does_not_begin_a_mail() {
        let file = b"From a@b Thu Jan  1 00:00:00 1970\nSubject: x\n\nFrom here on\n>From this\n\n\
                     From 0a1b Mon Sep 17 00:00:00 2001\nSubject: y\n\nb\n";
        let mails = split(file);
        assert_eq!(mails.len(), 2);
        assert!(mails[0].ends_with(b"From here on\nFrom this\n\n"));
        assert!(mails[1].starts_with(b"Subject: y\n"));
    }

    #[test]
    fn one_mail_needs_no_separator() {
        assert_eq!(split(b"Subject: x\n\nFrom a b c\n").len(), 1);
        assert_eq!(split(b"").len(), 1);
    }
}
