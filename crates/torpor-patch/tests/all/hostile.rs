// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Mails that somebody made to do harm end with an error.

use crate::support::*;
use std::time::Instant;
use torpor_patch::{Series, apply, limits};

fn diff_of(path: &str) -> String {
    format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+b\n")
}

#[test]
fn paths_that_leave_the_tree_are_refused() {
    for path in ["../x", "k/../../x", "/etc/passwd", ".git/hooks/pre-commit", "k//x", "k/./x"] {
        let error = refusal(&mail("[PATCH] x", "a", &diff_of(path)));
        assert!(error.contains("the path"), "{path}: {error}");
    }
    let absolute = "--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n";
    assert!(refusal(absolute).contains("absolute"));
    let renamed = "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to ../y\n";
    assert!(refusal(renamed).contains("leaves the tree"));
    let quoted = "--- \"a/x\\000y\"\n+++ \"b/x\\000y\"\n@@ -1 +1 @@\n-a\n+b\n";
    assert!(refusal(quoted).contains("control character"));
    let latin = b"--- a/\xe4\n+++ b/\xe4\n@@ -1 +1 @@\n-a\n+b\n";
    assert!(Series::from_bytes("test", latin).unwrap_err().to_string().contains("UTF-8"));
}

#[test]
fn links_and_devices_are_refused() {
    for mode in ["120000", "160000", "020666", "060660", "010644", "040755"] {
        let added = format!(
            "diff --git a/x b/x\nnew file mode {mode}\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/etc\n"
        );
        assert!(refusal(&added).contains("mode"), "{mode}");
        let changed = format!("diff --git a/x b/x\nold mode 100644\nnew mode {mode}\n");
        assert!(refusal(&changed).contains("mode"), "{mode}");
        let indexed = format!(
            "diff --git a/x b/x\nindex 0123456..1234567 {mode}\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
        );
        assert!(refusal(&indexed).contains("mode"), "{mode}");
    }
}

#[test]
fn nested_parts_end_at_a_limit() {
    let mut text = String::from("Subject: [PATCH] x\n");
    for level in 0..10_000 {
        text += &format!("Content-Type: multipart/mixed; boundary=b{level}\n\n--b{level}\n");
    }
    assert!(refusal(&text).contains("levels of MIME parts"));
    let part = "--b\nContent-Type: text/plain\n\nx\n".repeat(100_000);
    let wide = format!("Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n{part}");
    assert!(refusal(&wide).contains("MIME parts"));
    let inside = "Content-Type: message/rfc822\n\n".repeat(100_000);
    assert!(refusal(&format!("Subject: x\n{inside}")).contains("no patch"));
}

#[test]
fn sizes_have_limits() {
    let files = diff_of("x").repeat(limits::FILES + 1);
    assert!(refusal(&files).contains("files in a patch"));
    let many: Vec<String> = (0..=limits::PATCHES)
        .map(|n| mail(&format!("[PATCH {}/9999] x", n + 1), &n.to_string(), &diff_of("x")))
        .collect();
    assert!(refusal(&mbox(&many)).contains("patches"));
    let mails = "From x Thu Jan  1 00:00:00 1970\nSubject: x\n\n".repeat(limits::MAILS + 1);
    assert!(refusal(&mails).contains("mails"));
    let huge = "--- a/x\n+++ b/x\n@@ -1,999999999 +1,999999999 @@\n x\n";
    assert!(refusal(huge).contains("ends after"));
    let huge = huge.replace("999999999", "99999999999");
    assert!(refusal(&huge).contains("not the header"));
}

#[test]
fn names_in_messages_are_harmless() {
    let error = refusal(&diff_of("\u{1b}[31mx/../y"));
    assert!(!error.contains('\u{1b}'), "{error:?}");
    let subject = patch("[PATCH] \u{1b}]0;x\u{7}", "a", &HUNK.replace(" {\n", ""));
    assert!(!refusal(&subject).contains('\u{1b}'));
}

#[test]
fn repeated_lines_do_not_hang() {
    let count = 200_000;
    let added = format!("--- /dev/null\n+++ b/x\n@@ -0,0 +1,{count} @@\n{}", "+\n".repeat(count));
    let half = count / 2;
    let hunk =
        format!("--- a/x\n+++ b/x\n@@ -9,{half} +9,{half} @@\n{}-y\n+z\n", " \n".repeat(half - 1));
    let series =
        read(&mbox(&[mail("[PATCH 1/2] a", "1", &added), mail("[PATCH 2/2] b", "2", &hunk)]));
    let start = Instant::now();
    assert!(apply(&series, 1..=2, &tree("")).is_err());
    assert!(start.elapsed().as_secs() < 20);
}

#[test]
fn mutated_mails_neither_panic_nor_hang() {
    let multipart = mail("[PATCH 1/2] x", "m", "").replace(
        "\n\n",
        &format!(
            "\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain; format=flowed\n\n\
             Text\n--b\nContent-Type: text/x-diff; name=x.diff\nContent-Transfer-Encoding: quoted-printable\n\n\
             {}--b--\n",
            git_diff(HUNK).replace('=', "=3D")
        ),
    );
    let seeds = [
        mbox(&[
            patch("[PATCH v2 1/2] a", "1", HUNK),
            patch("[Update][PATCH v2 2/2] b", "2", RATING),
        ]),
        multipart,
        mail("Re: [PATCH] =?utf-8?q?x=C3=A4?=", "3", &git_diff(HUNK).replace('\n', "\n> ")),
        format!("Index: a/{PATH}\n===\n--- a.orig/{PATH}\n+++ a/{PATH}\n{HUNK}{RATING}"),
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below.max(1) as u64).expect("is below")
    };
    let (mut read, mut applied) = (0, 0);
    for round in 0..10_000 {
        let mut bytes = seeds[round % seeds.len()].clone().into_bytes();
        for _ in 0..=random(4) {
            mutate(&mut bytes, &mut random);
        }
        if let Ok(series) = Series::from_bytes("mutated", &bytes) {
            read += 1;
            let _ = series.patch_id(0..=9);
            applied += usize::from(apply(&series, 0..=9, &tree(BASE)).is_ok());
        }
    }
    // Else the mutations would be too coarse to reach the places behind the first check.
    assert!(read > 1000 && applied > 100, "{read} read, {applied} applied");
}

fn mutate(bytes: &mut Vec<u8>, random: &mut impl FnMut(usize) -> usize) {
    const WORDS: [&str; 12] = [
        "\n",
        "\n\n",
        "@@ -1,3 +1,3 @@\n",
        "--- a/x\n+++ b/x\n",
        "From x Thu Jan  1 00:00:00 1970\n",
        "--b\n",
        "\\ No newline at end of file\n",
        "=?utf-8?q?",
        "diff --git a/x b/x\n",
        "rename from ../x\n",
        "\0",
        "> ",
    ];
    let at = random(bytes.len());
    let end = (at + random(40)).min(bytes.len());
    match random(4) {
        0 if at < bytes.len() => bytes[at] = random(256).to_le_bytes()[0],
        1 => drop(bytes.drain(at..end)),
        2 => {
            let copy = bytes[at..end].to_vec();
            let to = random(bytes.len());
            bytes.splice(to..to, copy);
        }
        _ => drop(bytes.splice(at..at, WORDS[random(WORDS.len())].bytes())),
    }
}
