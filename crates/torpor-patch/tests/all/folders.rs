// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Folders of patches.

use crate::support::*;
use std::fs;
use std::path::{Path, PathBuf};
use torpor_patch::Series;

struct Scratch(PathBuf);

impl Scratch {
    fn with(name: &str, files: &[(&str, &str)]) -> Scratch {
        let name = format!("torpor-patch-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        for (path, text) in files {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().expect("has one")).expect("can be made");
            fs::write(path, text).expect("can be written");
        }
        Scratch(folder)
    }

    fn read(&self) -> Result<Series, String> {
        Series::read(&self.0).map_err(|error| error.to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn both() -> (String, String) {
    (patch("[PATCH 1/2] a", "1", HUNK), patch("[PATCH 2/2] b", "2", RATING))
}

#[test]
fn format_patch_folders_are_read() {
    let (one, two) = both();
    let cover = mail("[PATCH 0/2] both", "0", "Cover.\n");
    let scratch = Scratch::with(
        "format",
        &[
            ("0002-b.patch", &two),
            ("0001-a.patch", &one),
            ("0000-cover-letter.patch", &cover),
            ("notes.txt", "none"),
        ],
    );
    let series = scratch.read().unwrap();
    assert_eq!(series.cover.as_deref(), Some("Cover."));
    assert!(contents(&series, BASE).contains("30"));
}

#[test]
fn maildirs_are_read() {
    let (one, two) = both();
    let files = [("cur/2:2,S", two.as_str()), ("new/1", &one), ("tmp/3", "x")];
    let series = Scratch::with("maildir", &files).read().unwrap();
    assert_eq!(series.patches.len(), 2);
}

#[test]
fn quilt_lists_the_order() {
    let (one, two) = (format!("Second\n\n{}", git_diff(HUNK)), git_diff(RATING));
    let files = [
        ("series", "# order\nb.patch -p1\na.patch # last\n"),
        ("a.patch", &one),
        ("b.patch", &two),
    ];
    let series = Scratch::with("quilt", &files).read().unwrap();
    let titles: Vec<_> = series.patches.iter().map(|patch| patch.subject.as_str()).collect();
    assert_eq!(titles, ["b.patch", "Second"]);
    let options = [("series", "a.patch -p0\n"), ("a.patch", one.as_str())];
    assert!(Scratch::with("quilt-p0", &options).read().unwrap_err().contains("options"));
    let escape = [("series", "../a.patch\n")];
    assert!(Scratch::with("quilt-up", &escape).read().unwrap_err().contains("leaves the tree"));
}

#[test]
fn folders_without_patches_say_so() {
    let error = Scratch::with("none", &[("x.txt", "x")]).read().unwrap_err();
    assert!(error.contains("there is no patch") && error.contains("hint:"), "{error}");
}

#[test]
fn packed_mailboxes_are_read() {
    let (one, two) = both();
    let scratch = Scratch::with("packed", &[("x.mbox", &mbox(&[one, two]))]);
    let done = std::process::Command::new("gzip").arg(scratch.0.join("x.mbox")).status();
    if !done.is_ok_and(|status| status.success()) {
        eprintln!("not run: there is no gzip");
        return;
    }
    let series = Series::read(&scratch.0.join("x.mbox.gz")).unwrap();
    assert_eq!(series.patches.len(), 2);
}

#[test]
fn devices_and_missing_files_are_errors() {
    assert!(Series::read(Path::new("/dev/null")).is_err());
    assert!(Series::read(Path::new("/dev/zero")).unwrap_err().to_string().contains("more than"));
}
