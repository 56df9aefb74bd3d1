// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Which mails of a file are the series.

use crate::support::*;

fn numbers(text: &str) -> Vec<u32> {
    read(text).patches.iter().map(|patch| patch.number).collect()
}

fn answering(mail: String, id: &str) -> String {
    mail.replacen("Subject:", &format!("In-Reply-To: <{id}@example.org>\nSubject:"), 1)
}

#[test]
fn patches_are_ordered_by_number() {
    let text = mbox(&[
        patch("[PATCH 2/2] rating", "2", RATING),
        patch("[PATCH 1/2] loop", "1", HUNK),
        mail("[PATCH 0/2] both", "0", "Why.\n"),
    ]);
    let series = read(&text);
    assert_eq!(numbers(&text), [1, 2]);
    assert_eq!((series.subject.as_str(), series.cover.as_deref()), ("both", Some("Why.")));
    assert!(series.missing.is_empty() && series.notes.is_empty(), "{:?}", series.notes);
    assert!(contents(&series, BASE).contains("idx > 1") && contents(&series, BASE).contains("30"));
}

#[test]
fn the_newest_version_wins_and_is_named() {
    let text = mbox(&[
        patch("[PATCH v2 1/1] b", "2", RATING),
        patch("[PATCH 1/1] b", "1", HUNK),
        patch("[PATCH RFC v1.1 1/1] b", "3", HUNK),
    ]);
    let series = read(&text);
    assert_eq!(series.version, "2");
    assert!(contents(&series, BASE).contains("30"));
    assert!(
        series.notes[0].contains("v2 is read; left out: `[PATCH 1/1] b`"),
        "{:?}",
        series.notes
    );
}

#[test]
fn an_update_replaces_one_patch_of_its_thread() {
    let of = |reply: fn(String) -> String| {
        mbox(&[
            mail("[PATCH v1 0/2] both", "0", "Why.\n"),
            patch("[PATCH v1 1/2] a", "1", HUNK),
            patch("[PATCH v1 2/2] b", "2", &RATING.replace("30", "20")),
            reply(patch("[Update][PATCH v2 2/2] b", "3", RATING)),
        ])
    };
    let series = read(&of(|mail| answering(mail, "2")));
    assert!(series.missing.is_empty());
    assert_eq!(series.subject, "both");
    assert!(contents(&series, BASE).contains("idx > 1") && contents(&series, BASE).contains("30"));
    assert_eq!(read(&of(|mail| mail)).missing, [1]);
}

#[test]
fn missing_members_are_named() {
    let text = mbox(&[patch("[PATCH 2/7] a", "1", HUNK), patch("[PATCH 5/7] b", "2", RATING)]);
    assert_eq!(read(&text).missing, [1, 3, 4]);
    assert_eq!(read(&text).patches[0].total, 7);
}

#[test]
fn replies_are_patches_only_if_nothing_else_is() {
    let whole = patch("[PATCH] loop", "1", HUNK);
    let reply = mail("Re: [PATCH] loop", "2", &format!("Rather:\n\n{}", git_diff(RATING)));
    assert_eq!(read(&mbox(&[whole, reply.clone()])).subject, "loop");
    let alone = read(&reply);
    assert!(contents(&alone, BASE).contains("30"));
    assert!(alone.notes[0].contains("is a reply"));
}

#[test]
fn quoted_diffs_must_be_whole() {
    let quote = |text: &str| text.lines().map(|line| format!("> {line}\n")).collect::<String>();
    let body = quote(&git_diff(HUNK)).replace("> +\t", "Why?\n> +\t");
    let series = read(&mail("Re: [PATCH] loop", "2", &body));
    assert!(contents(&series, BASE).contains("idx > 1"));
    assert!(series.notes[0].contains("quotes"), "{:?}", series.notes);
    let cut = body.replace("> -\tfor (idx = drv->state_count - 1; idx > 0; idx--)\n", "");
    assert!(refusal(&mail("Re: [PATCH] loop", "2", &cut)).contains("hunk"));
}

#[test]
fn two_series_in_a_file_are_refused() {
    let text = mbox(&[patch("[PATCH 1/2] a", "1", HUNK), patch("[PATCH 1/3] b", "2", RATING)]);
    assert!(refusal(&text).contains("more than one series"));
    let text = mbox(&[patch("[PATCH 1/2] a", "1", HUNK), patch("[PATCH 1/2] b", "2", RATING)]);
    assert!(refusal(&text).contains("more than one series"));
}

#[test]
fn a_mail_that_came_twice_counts_once() {
    let one = patch("[PATCH] a", "1", HUNK);
    assert_eq!(numbers(&mbox(&[one.clone(), one])), [1]);
}

#[test]
fn patches_without_numbers_keep_their_order() {
    let text = mbox(&[patch("[PATCH] a", "1", HUNK), patch("[PATCH] b", "2", RATING)]);
    let series = read(&text);
    let titles: Vec<_> = series.patches.iter().map(|patch| patch.subject.as_str()).collect();
    assert_eq!(titles, ["a", "b"]);
    assert!(series.notes[0].contains("order of the file"));
}

#[test]
fn a_damaged_member_is_refused_and_named() {
    let damaged = patch("[PATCH 2/2] b", "2", &RATING.replace(" \t.name", "\t.name"));
    let error = refusal(&mbox(&[patch("[PATCH 1/2] a", "1", HUNK), damaged]));
    assert!(error.contains("[PATCH 2/2] b") && error.contains("line "), "{error}");
}
