// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Forms of mails and diffs.

use crate::support::*;
use torpor_patch::{Kind, Series};

#[test]
fn a_mail_gives_all_its_fields() {
    let text = format!(
        "{}\nbase-commit: {}\n",
        patch("[PATCH v3 2/2] calm: x", "b", HUNK),
        "ab".repeat(20)
    );
    let series = read(&text.replace("A Person", "=?utf-8?q?=C3=84_Person?="));
    assert_eq!((series.subject.as_str(), series.version.as_str()), ("calm: x", "3"));
    assert_eq!(series.message_id.as_deref(), Some("b@example.org"));
    assert_eq!(series.base_commit, Some("ab".repeat(20)));
    assert_eq!(series.missing, [1]);
    let patch = &series.patches[0];
    assert_eq!((patch.number, patch.total), (2, 2));
    assert_eq!(patch.author.as_deref(), Some("\u{c4} Person <a@example.org>"));
    assert_eq!(patch.date.as_deref(), Some("2026-03-02T10:00:00+01:00"));
    assert!(patch.message.starts_with("Reason."));
    let file = &patch.files[0];
    assert_eq!((file.path.as_str(), file.kind), (PATH, Kind::Modify));
    assert_eq!(file.old_blob.as_deref(), Some("1a2b3c4d5e6f"));
    assert_eq!(file.new_blob.as_deref(), Some("0f1e2d3c4b5a"));
    assert_eq!((file.hunks.len(), file.added(), file.removed()), (1, 1, 1));
}

#[test]
fn headers_may_be_wrapped_and_encoded() {
    let subject = "=?UTF-8?Q?[PATCH_v2?=\n =?UTF-8?Q?_1/1]_calm:_?=\n\t=?UTF-8?B?w6Q=?=";
    assert_eq!(read(&patch(subject, "a", HUNK)).subject, "calm: \u{e4}");
    assert_eq!(read(&patch("[PATCH v2\n 1/1] calm: x", "a", HUNK)).version, "2");
}

#[test]
fn quilt_and_plain_diffs_have_the_same_files() {
    let git = read(&mail("[PATCH] x", "a", &git_diff(HUNK)));
    let names = [
        format!(
            "Index: linux-pm/{PATH}\n{}\n--- linux-pm.orig/{PATH}\n+++ linux-pm/{PATH}\n",
            "=".repeat(67)
        ),
        format!("--- a/{PATH}\n+++ b/{PATH}\n"),
        format!("--- {PATH}\n+++ {PATH}\n"),
        format!(
            "--- linux.orig/{PATH}\t2026-01-02 10:00:00.0 +0100\n+++ linux/{PATH}\t2026-01-03\n"
        ),
    ];
    for names in names {
        let plain = read(&mail("[PATCH] x", "a", &format!("Text.\n---\n{names}{HUNK}")));
        assert_eq!(plain.patches[0].files[0].path, PATH, "{names}");
        assert_eq!(contents(&plain, BASE), contents(&git, BASE), "{names}");
        assert_eq!(plain.patch_id(1..=1), git.patch_id(1..=1), "{names}");
    }
}

#[test]
fn a_diff_needs_no_mail() {
    let series = read(&format!("Words of a quilt patch.\n\n{}", git_diff(HUNK)));
    assert_eq!(series.subject, "Words of a quilt patch.");
    assert_eq!(read(&git_diff(HUNK)).patches[0].total, 1);
    let headed = format!("From: A <a@b>\nSubject: [PATCH] calm\n{}", git_diff(HUNK));
    assert_eq!(read(&headed).subject, "calm");
}

#[test]
fn files_are_added_deleted_renamed_and_copied() {
    let diff = "diff --git a/x.c b/x.c\nnew file mode 100644\nindex 000000000000..111111111111\n\
                --- /dev/null\n+++ b/x.c\n@@ -0,0 +1 @@\n+one\n\\ No newline at end of file\n\
                diff --git a/y.c b/y.c\ndeleted file mode 100644\n--- a/y.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-y\n\
                diff --git a/z.c b/w.c\nsimilarity index 100%\nrename from z.c\nrename to w.c\n\
                diff --git a/z.c b/v.c\nsimilarity index 100%\ncopy from z.c\ncopy to v.c\n\
                diff --git a/m.sh b/m.sh\nold mode 100644\nnew mode 100755\n\
                diff --git a/b.png b/b.png\nindex 0123456..1234567 100644\nBinary files a/b.png and b/b.png differ\n\
                diff --git a/empty b/empty\nnew file mode 100644\nindex 0000000..e69de29\n";
    let series = read(&mail("[PATCH] x", "a", diff));
    let files = &series.patches[0].files;
    let kinds: Vec<_> = files.iter().map(|file| (file.path.as_str(), file.kind)).collect();
    let expected = [
        ("x.c", Kind::Add),
        ("y.c", Kind::Delete),
        ("w.c", Kind::Rename),
        ("v.c", Kind::Copy),
        ("m.sh", Kind::Modify),
        ("b.png", Kind::Binary),
        ("empty", Kind::Add),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(files[0].hunks[0].lines[0].text, b"one");
    assert_eq!(files[2].old_path.as_deref(), Some("z.c"));
}

#[test]
fn signatures_and_footers_are_no_lines() {
    for footer in ["-- \n2.43.0\n", "--\n2.43.0\n", "\n____\nlist mailing list\n", "---\n", ""] {
        let text = mail("[PATCH] x", "a", &format!("{}{footer}", git_diff(HUNK)));
        assert_eq!(read(&text).patches[0].files[0].hunks[0].lines.len(), 8, "{footer:?}");
    }
}

#[test]
fn lost_white_space_is_named_with_a_remedy() {
    let cases = [
        (HUNK.replace(" \tint", "\tint"), "no leading blank"),
        (HUNK.replace(" {\n", "{\n"), "wrapped"),
        (HUNK.replace("idx > 1; ", "idx > 1;\n"), "wrapped"),
        (HUNK.replace(" {\n", "\u{a0}{\n"), "no-break space"),
    ];
    for (hunk, said) in cases {
        let error = refusal(&mail("[PATCH] x", "a", &git_diff(&hunk)));
        assert!(error.contains("lost white space") && error.contains(said), "{error}");
        assert!(error.contains("b4 am"), "{error}");
    }
}

#[test]
fn counts_of_hunks_are_exact() {
    let short = HUNK.replace(" \t\t\tbreak;\n \n", "");
    let long = format!("{HUNK}+more\n");
    let stray = format!("{HUNK}\nText.\n{RATING}");
    for (hunks, said) in [(short, "ends after"), (long, "more lines"), (stray, "does not follow")] {
        let error = refusal(&mail("[PATCH] x", "a", &git_diff(&hunks)));
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_message_may_quote_rules_and_hunks() {
    let body = format!(
        "A rule:\n---\ndiff --git is a command\n@@ -1 +1 @@\n--- text\n\n{}",
        git_diff(HUNK)
    );
    assert_eq!(read(&mail("[PATCH] x", "a", &body)).patches[0].files.len(), 1);
}

#[test]
fn attached_patches_are_read() {
    let part = |name: &str, diff: &str| {
        format!(
            "--b\nContent-Type: text/x-patch; name=\"{name}\"\n\
             Content-Disposition: attachment; filename=\"{name}\"\n\n{diff}\n"
        )
    };
    let attached = |parts: &str| {
        mail("calm", "a", "").replace(
            "\n\n",
            &format!(
                "\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nSee below.\n{parts}--b--\n"
            ),
        )
    };
    let one = read(&attached(&part("a.patch", &git_diff(HUNK))));
    assert_eq!((one.subject.as_str(), one.patches.len()), ("calm", 1));
    assert_ne!(contents(&one, BASE), BASE);
    let both = part("1.patch", &git_diff(HUNK)) + &part("2.patch", &git_diff(RATING));
    assert_eq!(read(&attached(&both)).patches.len(), 2);
    let html = "--b\nContent-Type: text/html\n\n<pre>diff --git a/x b/x</pre>\n";
    assert!(refusal(&attached(html)).contains("no patch"));
}

#[test]
fn text_that_is_not_flowed_is_read_as_sent() {
    let text = mail("[PATCH] x", "a", &git_diff(HUNK))
        .replace("\n\n", "\nContent-Type: text/plain; format=flowed\n\n");
    // The first blank line ends the header; those below are the file's.
    let text = text.replacen("\nContent-Type", "\nX: y\nContent-Type", 1);
    let series = read(&text);
    assert_ne!(contents(&series, BASE), BASE);
}

#[test]
fn what_is_no_patch_is_told_apart() {
    assert!(refusal("").contains("there is no patch"));
    assert!(refusal("Some text.\n").contains("there is no patch"));
    assert!(refusal(&mail("[PATCH 0/3] x", "a", "Cover.\n")).contains("cover letter"));
    let error = Series::read(std::path::Path::new("/nonexistent/x.mbox")).unwrap_err();
    assert!(error.to_string().contains("hint:"), "{error}");
}
