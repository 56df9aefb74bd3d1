// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Copies of kernel trees with patches on top.

use crate::kernel::source::is_wanted;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use torpor_governor::SeriesSpec;
use torpor_governor::hosting::patched::{Changes, Folder, apply};

/// Returns the files of a tree that a series changes, of those that hosting needs. The error says
/// which hunks do not apply.
pub(crate) fn changes(tree: &Path, series: &SeriesSpec) -> Result<Changes, String> {
    apply(series, &Folder(tree.to_owned()), &|path| is_wanted(Path::new(path)))
}

/// Copies a tree: changed files are written, all else is symbolic links.
pub(crate) fn copy(tree: &Path, to: &Path, changes: &Changes) -> io::Result<()> {
    let folders: BTreeSet<PathBuf> = changes
        .keys()
        .flat_map(|path| Path::new(path).ancestors().skip(1).map(Path::to_owned))
        .collect();
    for folder in &folders {
        fs::create_dir_all(to.join(folder))?;
        let Ok(entries) = fs::read_dir(tree.join(folder)) else { continue };
        for entry in entries {
            let inside = folder.join(entry?.file_name());
            let is_changed = inside.to_str().is_some_and(|path| changes.contains_key(path));
            if !is_changed && !folders.contains(&inside) {
                symlink(tree.join(&inside), to.join(&inside))?;
            }
        }
    }
    for (path, content) in changes {
        if let Some(content) = content {
            fs::write(to.join(path), content)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use torpor_machine::units::read_regular;

    #[test]
    fn copy_differs_only_in_changed_files() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, to) = (dir.path().join("tree"), dir.path().join("copy"));
        fs::create_dir_all(tree.join("kernel/sched")).unwrap();
        fs::create_dir_all(&to).unwrap();
        for (name, text) in
            [("Makefile", "m"), ("kernel/sched/a.c", "a"), ("kernel/sched/b.c", "b")]
        {
            fs::write(tree.join(name), text).unwrap();
        }
        let changes = Changes::from([
            ("kernel/sched/a.c".to_owned(), Some(b"new".to_vec())),
            ("kernel/sched/b.c".to_owned(), None),
            ("kernel/new/c.c".to_owned(), Some(b"c".to_vec())),
        ]);
        copy(&tree, &to, &changes).unwrap();
        let read = |name: &str| read_regular(&to.join(name)).ok();
        assert_eq!(read("Makefile"), Some(b"m".to_vec()));
        assert_eq!(read("kernel/sched/a.c"), Some(b"new".to_vec()));
        assert_eq!(read("kernel/new/c.c"), Some(b"c".to_vec()));
        assert_eq!(read("kernel/sched/b.c"), None);
        assert_eq!(fs::read(tree.join("kernel/sched/a.c")).unwrap(), b"a");
    }
}
