// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Rules for the C files of policies.

use std::fs;
use std::path::Path;

/// A policy includes only what a kernel has, since it must load there unedited.
#[test]
fn policies_do_not_depend_on_torpor() {
    for (folder, initcall) in [("cpuidle", "\npostcore_initcall("), ("ioboost", "\ncore_initcall(")]
    {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../governors").join(folder);
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let (text, name) = (fs::read_to_string(&path).unwrap(), path.display());
            for word in ["torpor/", "kapi", "__KERNEL__"] {
                assert!(!text.contains(word), "{name}: `{word}` is not allowed in a policy");
            }
            let is_policy = path.extension().is_some_and(|e| e == "c");
            assert!(!is_policy || text.contains(initcall), "{name} has no {initcall:?}");
        }
    }
}
