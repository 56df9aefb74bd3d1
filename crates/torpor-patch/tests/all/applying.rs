// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Places of hunks, and what is said of those without one.

use crate::support::*;
use std::collections::BTreeMap;
use torpor_patch::{Folder, Reason, Reject, Series, apply, apply_within};

fn series(hunks: &str) -> Series {
    read(&patch("[PATCH] x", "a", hunks))
}

fn reject(hunks: &str, base: &str) -> Reject {
    let mut rejects = apply(&series(hunks), 1..=1, &tree(base)).unwrap_err().0;
    assert_eq!(rejects.len(), 1);
    rejects.pop().expect("is one")
}

#[test]
fn offsets_are_found_and_reported() {
    let moved = BASE.replace("struct calm_cpu", "/* one */\n/* two */\nstruct calm_cpu");
    let overlay = apply(&series(&(HUNK.to_owned() + RATING)), 1..=1, &tree(&moved)).unwrap();
    assert_eq!(overlay.applied[0].offsets, [2, 2]);
    assert_eq!(apply(&series(HUNK), 1..=1, &tree(BASE)).unwrap().applied[0].offsets, [0]);
}

#[test]
fn no_context_line_may_differ() {
    let other = BASE.replace("\tint idx;", "\tint idx, last;");
    let found = reject(HUNK, &other);
    assert_eq!(found.reason, Reason::Differs);
    assert_eq!((found.hunk, found.hunk_count, found.line), (Some(1), 1, Some(10)));
    assert_eq!(found.expected.as_deref(), Some("\tint idx;"));
    assert_eq!(found.found.as_deref(), Some("\tint idx, last;"));
    assert!(found.heading.starts_with("static int calm_select("));
}

#[test]
fn all_rejected_hunks_are_listed() {
    let other = BASE.replace("idx > 0", "idx > 7").replace("1,", "2,");
    let rejects = apply(&series(&(HUNK.to_owned() + RATING)), 1..=1, &tree(&other)).unwrap_err();
    let hunks: Vec<_> = rejects.0.iter().map(|reject| reject.hunk).collect();
    assert_eq!(hunks, [Some(1), Some(2)]);
    assert!(rejects.to_string().contains("hunk 2 of 2"), "{rejects}");
}

#[test]
fn a_hunk_stays_in_its_function() {
    // The loop is in another function now, at a small distance.
    let other = BASE.replace("static int calm_select(", "static int other_select(");
    let found = reject(HUNK, &other);
    assert_eq!(found.reason, Reason::OtherFunction);
    assert!(found.found.expect("a function").contains("other_select"));
    let arguments = BASE.replace("calm_select(struct cpuidle_driver *drv,", "calm_select(int x,");
    assert!(apply(&series(HUNK), 1..=1, &tree(&arguments)).is_ok());
}

#[test]
fn labels_do_not_hide_the_function() {
    let base = BASE.replace("\treturn idx;", "again:\n\treturn idx;\n\n\n\n\tbarrier();");
    let hunk = |heading: &str| {
        format!("@@ -19,5 +19,5 @@ {heading}\n \n \n-\tbarrier();\n+\tcpu_relax();\n }}\n \n")
    };
    for heading in ["again:", "static int calm_select(struct cpuidle_dri"] {
        assert!(apply(&series(&hunk(heading)), 1..=1, &tree(&base)).is_ok(), "{heading}");
    }
    assert_eq!(reject(&hunk("struct calm_cpu {"), &base).reason, Reason::OtherFunction);
}

#[test]
fn two_equally_near_places_are_refused() {
    let block = "int f(void)\n{\n\ta();\n\tb();\n\tc();\n}\n";
    let base = format!("{}{block}", block.repeat(2));
    // Line 10 is as far from line 7 as from 13; line 1 is farther.
    let hunk = "@@ -10,6 +10,6 @@\n int f(void)\n {\n \ta();\n-\tb();\n+\tx();\n \tc();\n }\n";
    let reject = reject(hunk, &base);
    assert!(matches!(reject.reason, Reason::SeveralPlaces { .. }), "{reject}");
    let near = hunk.replace("-10,6 +10,6", "-8,6 +8,6");
    assert_eq!(apply(&series(&near), 1..=1, &tree(&base)).unwrap().applied[0].offsets, [-1]);
}

#[test]
fn an_applied_hunk_is_told() {
    let done = contents(&series(HUNK), BASE);
    assert_eq!(reject(HUNK, &done).reason, Reason::AlreadyApplied);
}

#[test]
fn changed_white_space_is_told() {
    let blanks = HUNK.replace('\t', "        ");
    let found = reject(&blanks, BASE);
    assert_eq!(found.reason, Reason::LostSpace);
    assert_eq!(found.found.as_deref(), Some("\tint idx;"));
}

#[test]
fn hunks_without_context_are_refused() {
    let bare = "@@ -11,0 +12 @@\n+\tbarrier();\n";
    assert_eq!(reject(bare, BASE).reason, Reason::NoContext);
    let bare = "@@ -12 +12 @@\n-\tfor (idx = drv->state_count - 1; idx > 0; idx--)\n+\tx();\n";
    assert_eq!(reject(bare, BASE).reason, Reason::NoContext);
}

#[test]
fn ends_of_files_must_be_ends() {
    let hunk = "@@ -28,2 +28,3 @@\n \t.reflect =\tcalm_reflect,\n };\n+/* end */\n";
    assert!(apply(&series(hunk), 1..=1, &tree(BASE)).is_ok());
    assert_eq!(reject(hunk, &format!("{BASE}more\n")).reason, Reason::NotAtEnd);
    let hunk = "@@ -1,2 +1,3 @@\n+/* start */\n #include <linux/cpuidle.h>\n \n";
    assert_eq!(reject(hunk, &format!("more\n{BASE}")).reason, Reason::NotAtStart);
}

#[test]
fn a_missing_line_end_is_part_of_the_line() {
    let hunk = "@@ -29 +29 @@\n-};\n\\ No newline at end of file\n+};\n";
    let base = BASE.trim_end();
    assert_eq!(contents(&series(hunk), base), BASE);
    assert!(apply(&series(hunk), 1..=1, &tree(BASE)).is_err());
}

fn of_files(diff: &str) -> Series {
    read(&mail("[PATCH] x", "a", diff))
}

#[test]
fn files_come_go_and_move() {
    let diff = "diff --git a/x.c b/x.c\nnew file mode 100644\n--- /dev/null\n+++ b/x.c\n@@ -0,0 +1 @@\n+one\n\
                diff --git a/y.c b/y.c\ndeleted file mode 100644\n--- a/y.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-y\n\
                diff --git a/z.c b/w.c\nsimilarity index 50%\nrename from z.c\nrename to w.c\n\
                --- a/z.c\n+++ b/w.c\n@@ -1,2 +1,2 @@\n-z\n+w\n same\n";
    let base = BTreeMap::from([
        ("y.c".to_owned(), b"y\n".to_vec()),
        ("z.c".to_owned(), b"z\nsame\n".to_vec()),
    ]);
    let files = apply(&of_files(diff), 1..=1, &base).unwrap().files;
    let text = |path: &str| files[path].as_ref().map(|text| String::from_utf8_lossy(text));
    assert_eq!(text("x.c").as_deref(), Some("one\n"));
    assert_eq!((text("y.c"), text("z.c")), (None, None));
    assert_eq!(text("w.c").as_deref(), Some("w\nsame\n"));
    let reasons = |base: &[(&str, &str)]| -> Vec<Reason> {
        let base: BTreeMap<String, Vec<u8>> = base
            .iter()
            .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()))
            .collect();
        let rejects = apply(&of_files(diff), 1..=1, &base).unwrap_err().0;
        rejects.into_iter().map(|reject| reject.reason).collect()
    };
    assert_eq!(reasons(&[]), [Reason::NoFile, Reason::NoFile]);
    let there = [("x.c", "other\n"), ("y.c", "y\nmore\n"), ("z.c", "z\nsame\n"), ("w.c", "w\n")];
    assert_eq!(reasons(&there), [Reason::Exists, Reason::NotAtEnd, Reason::Exists]);
    let done = [("x.c", "one\n"), ("y.c", "y\n"), ("z.c", "z\nsame\n")];
    assert_eq!(reasons(&done), [Reason::AlreadyApplied]);
}

#[test]
fn ranges_and_scopes_limit_what_is_applied() {
    let text = mbox(&[patch("[PATCH 1/2] a", "1", HUNK), patch("[PATCH 2/2] b", "2", RATING)]);
    let series = read(&text);
    let of = |range| apply(&series, range, &tree(BASE)).unwrap().applied.len();
    assert_eq!((of(1..=1), of(1..=2), of(2..=2), of(3..=9)), (1, 2, 1, 0));
    let none = apply_within(&series, 1..=2, &BTreeMap::new(), |path| path.ends_with(".h")).unwrap();
    assert!(none.files.is_empty());
    assert!(none.skipped.contains(PATH));
}

#[test]
fn binary_patches_are_refused_only_within_the_scope() {
    let diff = format!(
        "diff --git a/x.png b/x.png\nindex 0123456..1234567 100644\nGIT binary patch\nliteral 0\nHc$@<O00001\n\n{}",
        git_diff(HUNK)
    );
    let series = of_files(&diff);
    assert_eq!(apply(&series, 1..=1, &tree(BASE)).unwrap_err().0[0].reason, Reason::Binary);
    assert!(apply_within(&series, 1..=1, &tree(BASE), |path| path == PATH).is_ok());
}

#[test]
fn folders_are_bases() {
    let folder = std::env::temp_dir().join(format!("torpor-patch-base-{}", std::process::id()));
    let path = folder.join(PATH);
    std::fs::create_dir_all(path.parent().expect("has one")).expect("can be made");
    std::fs::write(&path, BASE).expect("can be written");
    let applied = apply(&series(HUNK), 1..=1, &Folder(folder.clone()));
    std::fs::remove_dir_all(folder).expect("can be removed");
    assert_eq!(applied.unwrap().files.len(), 1);
}
