// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Git as the reference.

use crate::support::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::Cell;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use torpor_patch::apply;

fn has_git() -> bool {
    let found = Command::new("git").arg("--version").output().is_ok_and(|out| out.status.success());
    if !found {
        eprintln!("not run: there is no git");
    }
    found
}

fn git(folder: &Path, arguments: &[&str], input: &str) -> Option<String> {
    let mut child = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CEILING_DIRECTORIES", folder.parent().expect("has one"))
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("git starts");
    child.stdin.take().expect("is piped").write_all(input.as_bytes()).expect("git reads");
    let out = child.wait_with_output().expect("git ends");
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
}

fn scratch(name: &str) -> PathBuf {
    let folder =
        std::env::temp_dir().join(format!("torpor-patch-git-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("can be made");
    folder
}

#[test]
fn patch_ids_are_gits() {
    if !has_git() {
        return;
    }
    let folder = scratch("id");
    let diffs = [
        git_diff(&(HUNK.to_owned() + RATING)),
        "diff --git a/x.c b/x.c\nnew file mode 100755\nindex 000000000000..111111111111\n--- /dev/null\n\
         +++ b/x.c\n@@ -0,0 +1,2 @@\n+one  two\n+\tthree\n\\ No newline at end of file\n"
            .to_owned(),
        "diff --git a/y.c b/y.c\ndeleted file mode 100644\nindex 111111111111..000000000000\n--- a/y.c\n\
         +++ /dev/null\n@@ -1 +0,0 @@\n-y\n"
            .to_owned(),
        "diff --git a/z.c b/w.c\nsimilarity index 50%\nrename from z.c\nrename to w.c\n\
         index 0123456789ab..123456789abc 100644\n--- a/z.c\n+++ b/w.c\n@@ -1,2 +1,2 @@\n-z\n+w\n same\n"
            .to_owned(),
        "diff --git a/m b/m\nold mode 100644\nnew mode 100755\n".to_owned(),
    ];
    for diff in [diffs.concat()].iter().chain(&diffs) {
        let theirs = git(&folder, &["patch-id", "--stable"], diff).expect("git can");
        let ours = read(&mail("[PATCH] x", "a", diff)).patch_id(1..=1);
        assert_eq!(Some(ours.as_str()), theirs.split_whitespace().next(), "{diff}");
    }
    fs::remove_dir_all(folder).expect("can be removed");
}

#[test]
fn patch_ids_ignore_lines_and_white_space() {
    let id = |hunks: &str| read(&patch("[PATCH] x", "a", hunks)).patch_id(1..=1);
    assert_eq!(id(HUNK), id(&HUNK.replace("@@ -9,7 +9,7 @@", "@@ -19,7 +20,7 @@")));
    assert_eq!(id(HUNK), id(&HUNK.replace("- 1;", "-  1;")));
    assert_ne!(id(HUNK), id(&HUNK.replace("> 1", "> 2")));
}

/// Git takes more places than this crate, and never another one.
#[test]
fn git_applies_to_the_same_bytes() {
    if !has_git() {
        return;
    }
    let folder = scratch("drift");
    let path = folder.join(PATH);
    fs::create_dir_all(path.parent().expect("has one")).expect("can be made");
    let drifted = file().prop_flat_map(|old| {
        let count = old.len();
        (Just(old), edits(count), edits(count))
    });
    let (applied, moved) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(Config { cases: 1500, ..Config::default() });
    let run = runner.run(&drifted, |(old, edits, drift)| {
        let hunks = hunks(&old, &edits);
        let base = edited(&old, &drift);
        let diff = git_diff(&hunks);
        if hunks.is_empty() {
            return Ok(());
        }
        let Ok(overlay) = apply(&read(&diff), 1..=1, &tree(&base)) else { return Ok(()) };
        applied.set(applied.get() + 1);
        moved.set(moved.get() + u32::from(overlay.applied[0].offsets.iter().any(|&o| o != 0)));
        fs::write(&path, &base).expect("can be written");
        let done = git(&folder, &["apply", "--whitespace=nowarn", "-"], &diff);
        let theirs = fs::read(&path).unwrap_or_default();
        let ours = overlay.files[PATH].clone().unwrap_or_default();
        prop_assert!(done.is_some(), "git refuses\n{}\nbase\n{}", diff, base);
        prop_assert_eq!(theirs, ours, "{}\nbase\n{}", diff, base);
        Ok(())
    });
    fs::remove_dir_all(folder).expect("can be removed");
    run.unwrap_or_else(|error| panic!("{error}"));
    // Else the bases would drift too far to compare anything.
    assert!(applied.get() > 150 && moved.get() > 50, "{applied:?} applied, {moved:?} moved");
}
