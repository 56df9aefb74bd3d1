// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Each encoding on the way gives the same file.

use crate::support::*;
use proptest::prelude::*;
use std::fmt::Write as _;
use torpor_patch::apply;

fn with_header(body: &str, header: &str) -> String {
    let mail = mail("[PATCH] x", "a", "");
    mail.trim_end().to_owned() + "\n" + header + "\n\n" + body
}

fn quoted_printable(text: &str) -> String {
    let mut encoded = String::new();
    for line in text.split_inclusive('\n') {
        let mut width = 0;
        let bare = line.trim_end_matches('\n');
        for (index, byte) in bare.bytes().enumerate() {
            let is_plain =
                (byte.is_ascii_graphic() && byte != b'=') || byte == b' ' && index + 1 < bare.len();
            if width > 70 {
                encoded += "=\n";
                width = 0;
            }
            width += if is_plain { 1 } else { 3 };
            let _ = match is_plain {
                true => write!(encoded, "{}", char::from(byte)),
                false => write!(encoded, "={byte:02X}"),
            };
        }
        encoded.push('\n');
    }
    encoded
}

fn base64(text: &str) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::new();
    for (index, chunk) in text.as_bytes().chunks(3).enumerate() {
        let bits =
            chunk.iter().chain(&[0, 0]).take(3).fold(0, |bits, &byte| bits << 8 | u32::from(byte));
        for place in 0..4 {
            let is_padding = place > chunk.len();
            let digit = bits >> (18 - 6 * place) & 63;
            encoded.push(if is_padding { '=' } else { ALPHABET[digit as usize].into() });
        }
        if index % 19 == 18 {
            encoded.push('\n');
        }
    }
    encoded + "\n"
}

/// As RFC 3676 wants it: stuffed, without blanks at the end of fixed lines, long lines broken.
fn flowed(text: &str, deletes_space: bool) -> String {
    let mut encoded = String::new();
    for line in text.lines() {
        let line = if line == " " { "" } else { line };
        let stuff = [" ", ">", "From "].iter().any(|start| line.starts_with(start));
        let stuff = if stuff { " " } else { "" };
        let middle =
            line.char_indices().filter(|&(at, c)| at > 60 && c == ' ').map(|(at, _)| at).next();
        // A piece that begins with a blank would be taken as stuffed.
        let middle =
            middle.filter(|&at| !line[at + 1..].starts_with([' ', '>']) && line.len() > at + 1);
        match middle {
            Some(at) if deletes_space => {
                let _ = writeln!(encoded, "{stuff}{}  \n{}", &line[..at], &line[at + 1..]);
            }
            Some(at) => {
                let _ = writeln!(encoded, "{stuff}{} \n{}", &line[..at], &line[at + 1..]);
            }
            None => {
                let _ = writeln!(encoded, "{stuff}{line}");
            }
        }
    }
    encoded
}

/// Returns the diff as mails of each kind.
fn encodings(diff: &str) -> Vec<(&'static str, String)> {
    let plain = "Content-Type: text/plain; charset=UTF-8";
    let of = |encoding: &str| format!("{plain}\nContent-Transfer-Encoding: {encoding}");
    let text = format!("Reason.\n---\n{diff}");
    let mboxrd = text.replace("\nFrom ", "\n>From ");
    let attached = format!(
        "--b\n{plain}\n\nSee the patch.\n--b\nContent-Type: text/x-patch; charset=UTF-8; name=x.patch\n\
         Content-Disposition: attachment\nContent-Transfer-Encoding: base64\n\n{}--b--\n",
        base64(diff)
    );
    let alternative =
        format!("--b\n{plain}\n\n{text}\n--b\nContent-Type: text/html\n\n<p>x\n--b--\n");
    let mut mails = vec![
        ("8bit", with_header(&text, &of("8bit"))),
        ("crlf", with_header(&text, &of("8bit")).replace('\n', "\r\n")),
        ("quoted-printable", with_header(&quoted_printable(&text), &of("Quoted-Printable"))),
        (
            "quoted-printable crlf",
            with_header(&quoted_printable(&text), &of("quoted-printable")).replace('\n', "\r\n"),
        ),
        ("base64", with_header(&base64(&text), &of("base64"))),
        ("base64 of crlf", with_header(&base64(&text.replace('\n', "\r\n")), &of("base64"))),
        ("base64 and footer", with_header(&(base64(&text) + "\n____\nA list\n"), &of("base64"))),
        ("mboxrd", mbox(&[with_header(&mboxrd, &of("8bit"))])),
        ("attached", with_header(&attached, "Content-Type: multipart/mixed; boundary=\"b\"")),
        (
            "alternative",
            with_header(&alternative, "Content-Type: multipart/alternative; boundary=b"),
        ),
        ("plain", text.clone()),
    ];
    if !text.lines().any(|line| line.len() > 1 && line.ends_with(' ')) {
        for (name, deletes) in [("flowed", "no"), ("flowed delsp", "yes")] {
            let header = format!("{plain}; format=flowed; delsp={deletes}");
            mails.push((name, with_header(&flowed(&text, deletes == "yes"), &header)));
        }
    }
    mails
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_encoding_gives_the_edited_file(
        (old, edits) in file().prop_flat_map(|old| { let n = old.len(); (Just(old), edits(n)) })
    ) {
        let hunks = hunks(&old, &edits);
        prop_assume!(!hunks.is_empty());
        for (name, mail) in encodings(&git_diff(&hunks)) {
            let series = read(&mail);
            let overlay = apply(&series, 1..=1, &tree(&joined(&old)))
                .map_err(|rejects| TestCaseError::fail(format!("{name}: {rejects}\n{mail}")))?;
            let after = overlay.files[PATH].clone().unwrap_or_default();
            prop_assert_eq!(String::from_utf8_lossy(&after), edited(&old, &edits), "{}\n{}", name, mail);
        }
    }
}
