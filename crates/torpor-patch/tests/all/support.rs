// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Mails and diffs for tests.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use torpor_patch::{Op, Series};

/// A policy of the tests.
pub const BASE: &str = "\
#include <linux/cpuidle.h>

struct calm_cpu {
\tint last_idx;
\tu64 slept_ns;
};

static int calm_select(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
\tint idx;

\tfor (idx = drv->state_count - 1; idx > 0; idx--)
\t\tif (!dev->states_usage[idx].disable)
\t\t\tbreak;

\treturn idx;
}

static void calm_reflect(struct cpuidle_device *dev, int index)
{
\tdev->last_state_idx = index;
}

static struct cpuidle_governor calm_governor = {
\t.name =\t\t\"calm\",
\t.rating =\t1,
\t.select =\tcalm_select,
\t.reflect =\tcalm_reflect,
};
";

pub const PATH: &str = "drivers/cpuidle/governors/calm.c";

/// Changes the comparison of the loop.
pub const HUNK: &str = "\
@@ -9,7 +9,7 @@ static int calm_select(struct cpuidle_driver *drv, struct cpuidle_device *dev)
 {
 \tint idx;
 
-\tfor (idx = drv->state_count - 1; idx > 0; idx--)
+\tfor (idx = drv->state_count - 1; idx > 1; idx--)
 \t\tif (!dev->states_usage[idx].disable)
 \t\t\tbreak;
 
";

/// Changes the rating, which [`HUNK`] does not touch.
pub const RATING: &str = "\
@@ -23,7 +23,7 @@ static void calm_reflect(struct cpuidle_device *dev, int index)
 
 static struct cpuidle_governor calm_governor = {
 \t.name =\t\t\"calm\",
-\t.rating =\t1,
+\t.rating =\t30,
 \t.select =\tcalm_select,
 \t.reflect =\tcalm_reflect,
 };
";

pub fn git_diff(hunks: &str) -> String {
    format!(
        "diff --git a/{PATH} b/{PATH}\nindex 1a2b3c4d5e6f..0f1e2d3c4b5a 100644\n\
         --- a/{PATH}\n+++ b/{PATH}\n{hunks}"
    )
}

pub fn mail(subject: &str, id: &str, body: &str) -> String {
    format!(
        "From: A Person <a@example.org>\nDate: Mon, 2 Mar 2026 10:00:00 +0100\n\
         Message-ID: <{id}@example.org>\nSubject: {subject}\n\n{body}"
    )
}

/// A mail as `git format-patch` ends it.
pub fn patch(subject: &str, id: &str, hunks: &str) -> String {
    let diff = git_diff(hunks);
    mail(
        subject,
        id,
        &format!("Reason.\n\nSigned-off-by: A\n---\n x | 2 +-\n\n{diff}-- \n2.43.0\n\n"),
    )
}

pub fn mbox(mails: &[String]) -> String {
    let separated = |mail: &String| format!("From x@y Thu Jan  1 00:00:00 1970\n{mail}\n");
    mails.iter().map(separated).collect()
}

pub fn read(text: &str) -> Series {
    Series::from_bytes("test", text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns the message of a file that is refused.
pub fn refusal(text: &str) -> String {
    match Series::from_bytes("test", text.as_bytes()) {
        Ok(series) => panic!("was read: {series:?}"),
        Err(error) => error.to_string(),
    }
}

pub fn tree(content: &str) -> BTreeMap<String, Vec<u8>> {
    BTreeMap::from([(PATH.to_owned(), content.as_bytes().to_vec())])
}

pub fn contents(series: &Series, base: &str) -> String {
    let overlay = torpor_patch::apply(series, 1..=99, &tree(base))
        .unwrap_or_else(|rejects| panic!("{rejects}"));
    String::from_utf8(overlay.files[PATH].clone().expect("is there")).expect("UTF-8")
}

/// One line's edit.
#[derive(Debug, Clone)]
pub enum Edit {
    Keep,
    Remove,
    Insert(String),
}

/// Lines of few kinds, so that equal ones occur.
pub fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just(String::new()),
        3 => Just("}".to_owned()),
        2 => Just("\treturn 0;".to_owned()),
        2 => (0..3_u8).prop_map(|n| format!("static int f{n}(int a)")),
        1 => Just("out:".to_owned()),
        1 => Just("From here = on \u{e4}".to_owned()),
        1 => Just("-- ".to_owned()),
        1 => Just("++ b;".to_owned()),
        3 => "\t[a-f =.;>]{0,90}[a-f;]",
    ]
}

pub fn file() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(line(), 0..60)
}

pub fn edits(lines: usize) -> impl Strategy<Value = Vec<Edit>> {
    let edit = prop_oneof![
        12 => Just(Edit::Keep),
        1 => Just(Edit::Remove),
        1 => line().prop_map(Edit::Insert),
    ];
    prop::collection::vec(edit, lines + 1)
}

/// Returns the file after the edits and each line's operation.
fn operations(old: &[String], edits: &[Edit]) -> Vec<(Op, String)> {
    let mut operations = Vec::new();
    for (index, edit) in edits.iter().enumerate() {
        let line = old.get(index).cloned();
        match (edit, line) {
            (Edit::Remove, Some(line)) => operations.push((Op::Remove, line)),
            (Edit::Keep, Some(line)) => operations.push((Op::Context, line)),
            (Edit::Insert(new), line) => {
                operations.push((Op::Add, new.clone()));
                operations.extend(line.map(|line| (Op::Context, line)));
            }
            (_, None) => {}
        }
    }
    operations
}

pub fn edited(old: &[String], edits: &[Edit]) -> String {
    let operations = operations(old, edits);
    let kept = operations.iter().filter(|(op, _)| *op != Op::Remove);
    kept.map(|(_, line)| format!("{line}\n")).collect()
}

/// Returns the hunks of edits with three lines of context; empty if nothing changes.
pub fn hunks(old: &[String], edits: &[Edit]) -> String {
    let operations = operations(old, edits);
    let changed: Vec<usize> =
        (0..operations.len()).filter(|&at| operations[at].0 != Op::Context).collect();
    let mut groups: Vec<(usize, usize)> = Vec::new();
    for at in changed {
        let (start, end) = (at.saturating_sub(3), (at + 4).min(operations.len()));
        match groups.last_mut() {
            Some(last) if last.1 >= start => last.1 = end,
            _ => groups.push((start, end)),
        }
    }
    let count = |range: &[(Op, String)], without| range.iter().filter(|o| o.0 != without).count();
    let mut text = String::new();
    for (start, end) in groups {
        let (above, inside) = (&operations[..start], &operations[start..end]);
        let side = |without| {
            let (above, count) = (count(above, without), count(inside, without));
            format!("{},{count}", above + usize::from(count > 0))
        };
        let is_head = |op: &&(Op, String)| {
            op.0 != Op::Add
                && op.1.starts_with(|c: char| c.is_ascii_alphabetic() || "_$".contains(c))
        };
        let heading = above.iter().rev().find(is_head).map_or("", |(_, line)| line);
        let heading: String = heading.chars().take(80).collect();
        let heading = if heading.is_empty() { heading } else { format!(" {heading}") };
        let _ = writeln!(text, "@@ -{} +{} @@{heading}", side(Op::Add), side(Op::Remove));
        for (op, line) in inside {
            let mark = match op {
                Op::Context => ' ',
                Op::Add => '+',
                Op::Remove => '-',
            };
            let _ = writeln!(text, "{mark}{line}");
        }
    }
    text
}

pub fn joined(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}
