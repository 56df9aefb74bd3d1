// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Rules for the C files that a reader, or a kernel, relies on.

use std::fs;
use std::path::{Path, PathBuf};

fn files_below(dir: &str) -> Vec<(PathBuf, String)> {
    fn walk(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "c" || e == "h") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(dir), &mut found);
    assert!(!found.is_empty(), "{dir} has no C files");
    found
}

#[test]
fn each_kapi_header_says_its_kind() {
    for (path, text) in files_below("kapi/include") {
        let second = text.lines().nth(1).unwrap_or("");
        let kinds = ["/* kapi: restated. */", "/* kapi: stub. */", "/* kapi: hosted. */"];
        assert!(kinds.contains(&second), "{}: line 2 must be one of {kinds:?}", path.display());
    }
}

#[test]
fn c_files_are_licensed_tabbed_and_narrow() {
    for (path, text) in files_below("kapi").into_iter().chain(files_below("governors")) {
        let name = path.display();
        let first = text.lines().next().unwrap_or("");
        let license = first.trim_end_matches(" */").split("SPDX-License-Identifier: ").nth(1);
        assert!(matches!(license, Some("MIT OR GPL-2.0-only" | "GPL-2.0-only")), "{name}:1");
        for (i, line) in text.lines().enumerate() {
            let at = format!("{name}:{}", i + 1);
            // A tab counts for eight columns.
            let columns =
                line.chars().fold(0, |n, c| if c == '\t' { n / 8 * 8 + 8 } else { n + 1 });
            assert!(columns <= 100, "{at} has {columns} columns; 100 is the most");
            assert!(!line.starts_with("    "), "{at} is indented with spaces; use tabs");
            assert_eq!(line, line.trim_end(), "{at} ends in white space");
        }
    }
}

/// A policy includes only what a kernel has: it must load there as it is.
#[test]
fn policies_know_nothing_of_torpor() {
    for (folder, initcall) in
        [("governors/cpuidle", "\npostcore_initcall("), ("governors/ioboost", "\ncore_initcall(")]
    {
        for (path, text) in files_below(folder) {
            let name = path.display();
            for word in ["torpor/", "kapi", "__KERNEL__"] {
                assert!(!text.contains(word), "{name}: `{word}` is banned in a policy");
            }
            let is_policy = path.extension().is_some_and(|e| e == "c");
            assert!(!is_policy || text.contains(initcall), "{name} has no {initcall:?}");
        }
    }
}
