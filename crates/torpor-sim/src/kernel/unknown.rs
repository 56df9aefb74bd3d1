// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Names of a tree that the host does not know. A function ends a run that reaches it, as those of
//! `khost/src/unreached.c` do; so a release that nobody has tried is hosted as far as it goes. A
//! variable is an error. Both name the file of `khost/` that would answer for them.

use super::compile::{Job, read};
use super::error::KernelError;
use super::symbols;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use torpor_machine::units::read_regular;

/// The source that defines the functions, below the scratch folder, and its object.
pub(crate) const SOURCE: &str = "khost/src/unknown.c";
pub(crate) const UNIT: &str = "khost-src-unknown.o";

/// Folders of a tree in which a definition is looked for.
const FOLDERS: [&str; 7] =
    ["kernel", "lib", "drivers/base", "drivers/cpufreq", "drivers/cpuidle", "mm", "io_uring"];

/// The file of `khost/` that replaces a file of the tree, or the files of a folder.
const REPLACES: [(&str, &str); 15] = [
    ("drivers/base/", "khost/src/topology.c"),
    ("kernel/cgroup/", "khost/src/group.c"),
    ("kernel/cpu.c", "khost/src/cpu.c"),
    ("kernel/exit.c", "khost/src/task.c"),
    ("kernel/fork.c", "khost/src/task.c"),
    ("kernel/irq/", "khost/src/cpu.c"),
    ("kernel/locking/", "khost/src/locks.c"),
    ("kernel/panic.c", "khost/src/print.c"),
    ("kernel/pid.c", "khost/src/task.c"),
    ("kernel/printk/", "khost/src/print.c"),
    ("kernel/sysctl.c", "khost/src/sysctl.c"),
    ("kernel/workqueue.c", "khost/src/work.c"),
    ("lib/", "khost/hosted.txt"),
    ("mm/slab", "khost/src/slab.c"),
    ("mm/", "khost/src/memory.c"),
];

/// Returns which of `names` these objects refer to as to variables.
pub(crate) fn variables(
    job: &Job<'_>,
    objects: &[String],
    names: &BTreeSet<String>,
) -> Result<BTreeSet<String>, KernelError> {
    let mut found = BTreeSet::new();
    for object in objects {
        found.append(&mut symbols::not_called(&read(job, object)?, names));
    }
    Ok(found)
}

/// Returns the source of functions of these names that end the run.
pub(crate) fn source(tree: &Path, names: &BTreeSet<String>) -> String {
    let places = places(tree, names);
    let mut text = "void khost_unreached(const char *name) __attribute__((noreturn));\n".to_owned();
    for name in names {
        let place = answer(places.get(name), "khost/src/unreached.c");
        writeln!(text, "void {name}(void) {{ khost_unreached(\"{name}(), {place}\"); }}")
            .expect("a String");
    }
    text
}

/// Returns where the tree defines a name, and the file of `khost/` that would answer for it.
pub(crate) fn answer(place: Option<&String>, otherwise: &str) -> String {
    let Some(place) = place else {
        return format!("for which {otherwise} would answer");
    };
    let found = REPLACES.iter().find(|(theirs, _)| place.starts_with(theirs));
    let ours = found.map_or_else(
        || format!("a line in khost/hosted.txt or {otherwise}"),
        |(_, ours)| (*ours).to_owned(),
    );
    format!("of {place}, for which {ours} would answer")
}

/// Returns the file of the tree that defines each name, for those that are found.
pub(crate) fn places(tree: &Path, names: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(tree.join(&folder)).into_iter().flatten().flatten();
        let mut entries: Vec<PathBuf> = entries.map(|e| folder.join(e.file_name())).collect();
        entries.sort();
        for path in entries {
            if tree.join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "c") {
                let text = read_regular(&tree.join(&path)).unwrap_or_default();
                for name in defined(&String::from_utf8_lossy(&text), names) {
                    found.entry(name).or_insert_with(|| path.display().to_string());
                }
            }
        }
    }
    found
}

/// Returns which names a source defines, in the kernel's style: in a line without indentation, as
/// a function or a variable, or in a macro that begins with DEFINE.
fn defined(text: &str, names: &BTreeSet<String>) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts = |line: &&str| {
        let skipped = ["extern ", "static ", "typedef ", "EXPORT_", "return "];
        line.starts_with(|c: char| is_part(c)) && !skipped.iter().any(|s| line.starts_with(s))
    };
    let mut found = Vec::new();
    for line in text.lines().filter(starts) {
        // In front of arguments, a value or the end.
        let head = match line.starts_with("DEFINE") {
            true => line,
            false => line.split(['(', '=', ';', '[']).next().unwrap_or(line),
        };
        let is_declared = line.contains('(') && line.ends_with(';') && !line.starts_with("DEFINE");
        let words = head.split(|c| !is_part(c)).filter(|_| !is_declared);
        found.extend(words.filter(|word| names.contains(*word)).map(str::to_owned));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_told_from_uses() {
        let names = ["made", "used", "declared", "counter", "key", "hidden"];
        let names: BTreeSet<String> = names.map(str::to_owned).into();
        let text = "int declared(int);\nextern int used;\nstatic int hidden;\n\
                    struct task *made(int number)\n{\n\treturn used(number);\n}\n\
                    int counter = 1;\nDEFINE_STATIC_KEY_FALSE(key);\n";
        assert_eq!(defined(text, &names), ["made", "counter", "key"]);
    }

    #[test]
    fn a_replaced_file_names_its_replacement() {
        let of = |place: &str| answer(Some(&place.to_owned()), "khost/src/unreached.c");
        assert!(of("kernel/fork.c").contains("khost/src/task.c"));
        assert!(of("kernel/seccomp.c").contains("khost/hosted.txt"));
        assert!(answer(None, "khost/src/nothing.c").contains("khost/src/nothing.c"));
    }
}
