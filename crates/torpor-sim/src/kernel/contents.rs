// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Caches what a compiler made by the contents of the files that it read.
//!
//! Which files a compiler reads is known only afterwards. So a look-up walks a chain of keys. The
//! first key hashes what is known before: the command and the file to compile. An entry under a key
//! is either a product, or the names of more files whose contents the next key includes:
//!
//! ```text
//! key 0: gcc ... teo.c         -> read also tick.h, pelt.h
//! key 1: key 0, tick.h, pelt.h -> teo.o
//! ```
//!
//! If `pelt.h` changes so that it includes `new.h`, key 1 has another value, and the chain branches
//! there: it names `new.h`, and a third key, which includes its content, has the product.

use crate::kernel::KernelError;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use torpor_governor::GovernorError;
use torpor_governor::hosting::{Files, Key, Store, sha256_hex};
use torpor_machine::units::read_regular;

/// File of an entry that names more inputs, one a line.
const MORE: &str = "more-inputs";
/// File of an entry with a product that names all its inputs.
const INPUTS: &str = "inputs";
/// Prefix of the name of an input in the kernel's tree; other names are relative to the scratch
/// folder.
const TREE: &str = "tree:";

/// Folders of headers in the order of the compiler's search, named as inputs.
pub(crate) const SEARCH: &[&str] = &[
    "khost/include",
    "gen/wrap",
    "patched/include",
    "patched/kernel/sched",
    "patched/kernel/sched/ioboost",
    // A tree in which somebody built a kernel has generated headers of its own.
    "gen",
    "tree:include",
    "gen/uapi",
    "tree:include/uapi",
    "gen/generated/uapi",
    "tree:kernel/sched",
    "tree:kernel/time",
    "tree:kernel",
];

/// Returns the name of a file of the tree as an input.
pub(crate) fn of_tree(path: &str) -> String {
    format!("{TREE}{path}")
}

/// Returns the path in the tree of an input that is of the tree.
pub(crate) fn in_tree(name: &str) -> Option<&str> {
    name.strip_prefix(TREE)
}

/// Files that a compiler can read, with their contents.
pub(crate) struct Contents<'a> {
    tree: &'a Path,
    scratch: &'a Path,
    search: &'a [&'a str],
    digests: Mutex<HashMap<String, String>>,
}

impl<'a> Contents<'a> {
    /// `search` is [`SEARCH`], except in tests.
    pub(crate) fn new(tree: &'a Path, scratch: &'a Path, search: &'a [&'a str]) -> Contents<'a> {
        Contents { tree, scratch, search, digests: Mutex::default() }
    }

    /// Returns the name of a file, the same for every place of the tree.
    fn name(&self, path: &Path) -> Option<String> {
        match path.strip_prefix(self.tree) {
            Ok(inside) => Some(of_tree(inside.to_str()?)),
            Err(_) => Some(path.to_str()?.to_owned()),
        }
    }

    /// Returns the names of the files in a dependency list of the compiler.
    pub(crate) fn listed(&self, list: &str) -> BTreeSet<String> {
        let (_, list) = list.split_once(':').unwrap_or_default();
        let words = list.split_whitespace().filter(|word| *word != "\\");
        words.filter_map(|word| self.name(Path::new(word))).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        match in_tree(name) {
            Some(inside) => self.tree.join(inside),
            None => self.scratch.join(name),
        }
    }

    /// Returns a hash of a file's content and of the folders in which the compiler finds its name:
    /// a new header in an earlier folder of the search would be read instead.
    fn digest(&self, name: &str) -> String {
        let lock = || self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(name) {
            return known.clone();
        }
        // A missing file has a hash of its own.
        let content = read_regular(&self.path(name))
            .map_or_else(|_| String::new(), |bytes| sha256_hex(&bytes));
        let inside = |folder: &&str| name.strip_prefix(*folder)?.strip_prefix('/');
        let mut digest = content;
        for header in self.search.iter().filter_map(inside) {
            let has = |folder: &&str| self.path(&format!("{folder}/{header}")).exists();
            digest += &format!(" {:?}", self.search.iter().position(has));
        }
        lock().insert(name.to_owned(), digest.clone());
        digest
    }
}

/// A cached product, and the names of the files it was made from.
pub(crate) struct Cached {
    /// Key of its entry.
    pub key: String,
    pub files: Files,
    pub inputs: BTreeSet<String>,
}

/// Returns a product from the cache, or makes it. `first` hashes all that is known before; `make`
/// returns the files of the product and the names of its inputs. `what` names it in notes.
pub(crate) fn cached(
    store: &Store,
    kind: &str,
    first: String,
    what: &str,
    contents: &Contents<'_>,
    make: impl FnOnce() -> Result<(Files, BTreeSet<String>), KernelError>,
) -> Result<Cached, KernelError> {
    let (mut make, mut made) = (Some(make), None);
    let (mut key, mut known) = (first, BTreeSet::new());
    loop {
        let mut files = entry(store, kind, &key, what, || {
            if let Some(make) = make.take() {
                made = Some(make()?);
            }
            // Made above, or at an earlier key of the chain.
            let (files, inputs) = made.as_ref().expect("it was made");
            let more: Vec<&str> = inputs.difference(&known).map(String::as_str).collect();
            if more.is_empty() {
                let list = inputs.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
                let mut files = files.clone();
                files.insert(INPUTS.to_owned(), list.into_bytes());
                return Ok(files);
            }
            Ok(Files::from([(MORE.to_owned(), more.join("\n").into_bytes())]))
        })?;
        let names = |list: Option<Vec<u8>>| -> BTreeSet<String> {
            let list = list.unwrap_or_default();
            String::from_utf8_lossy(&list).lines().map(str::to_owned).collect()
        };
        let Some(more) = files.remove(MORE) else {
            let inputs = names(files.remove(INPUTS));
            return Ok(Cached { key, files, inputs });
        };
        let mut next = Key::default();
        next.add(key.as_bytes());
        for name in names(Some(more)) {
            next.add(name.as_bytes());
            next.add(contents.digest(&name).as_bytes());
            known.insert(name);
        }
        key = next.finish();
    }
}

/// Calls [`Store::entry`] with the errors of kernels.
pub(crate) fn entry(
    store: &Store,
    kind: &str,
    key: &str,
    what: &str,
    make: impl FnOnce() -> Result<Files, KernelError>,
) -> Result<Files, KernelError> {
    let mut failed = None;
    let entry = store.entry(kind, key, what, || {
        make().map_err(|error| {
            failed = Some(error);
            GovernorError::Interrupted
        })
    });
    match (entry, failed) {
        (_, Some(error)) => Err(error),
        (Ok(entry), None) => Ok(entry.files),
        (Err(error), None) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::fs;

    /// A folder in which `a.h` may include `b.h`, and a counter of compilations.
    struct Bench {
        dir: tempfile::TempDir,
        store: Store,
        made: Cell<u32>,
    }

    impl Bench {
        fn new() -> Bench {
            let dir = tempfile::tempdir().unwrap();
            for folder in ["tree/early", "tree/late"] {
                fs::create_dir_all(dir.path().join(folder)).unwrap();
            }
            let store = Store::new(Some(dir.path().join("cache")));
            Bench { dir, store, made: Cell::new(0) }
        }

        fn put(&self, name: &str, text: &str) {
            fs::write(self.dir.path().join("tree").join(name), text).unwrap();
        }

        /// Returns the product: the texts of the headers that `a.h` leads to.
        fn product(&self) -> String {
            let (tree, scratch) = (self.dir.path().join("tree"), self.dir.path().join("scratch"));
            let contents = Contents::new(&tree, &scratch, &["tree:early", "tree:late"]);
            let make = || {
                self.made.set(self.made.get() + 1);
                let mut inputs = BTreeSet::from(["tree:late/a.h".to_owned()]);
                let early = tree.join("early/a.h");
                let mut text = fs::read_to_string(&early)
                    .or_else(|_| fs::read_to_string(tree.join("late/a.h")))
                    .unwrap();
                if text.contains("b.h") {
                    inputs.insert("tree:late/b.h".to_owned());
                    text += &fs::read_to_string(tree.join("late/b.h")).unwrap();
                }
                Ok((Files::from([("o".to_owned(), text.into_bytes())]), inputs))
            };
            let found =
                cached(&self.store, "objects", "first".into(), "a test", &contents, make).unwrap();
            String::from_utf8(found.files["o"].clone()).unwrap()
        }
    }

    #[test]
    fn unchanged_inputs_are_not_compiled_again() {
        let bench = Bench::new();
        bench.put("late/a.h", "one");
        assert_eq!(
            (bench.product(), bench.product(), bench.made.get()),
            ("one".into(), "one".into(), 1)
        );
        bench.put("late/a.h", "two");
        assert_eq!(bench.product(), "two");
        bench.put("late/a.h", "one");
        assert_eq!((bench.product().as_str(), bench.made.get()), ("one", 2));
    }

    #[test]
    fn header_that_a_change_includes_counts() {
        let bench = Bench::new();
        bench.put("late/a.h", "alone");
        bench.put("late/b.h", "1");
        assert_eq!(bench.product(), "alone");
        bench.put("late/a.h", "b.h");
        assert_eq!(bench.product(), "b.h1");
        bench.put("late/b.h", "2");
        assert_eq!(bench.product(), "b.h2");
        assert_eq!((bench.product().as_str(), bench.made.get()), ("b.h2", 3));
    }

    #[test]
    fn header_in_an_earlier_folder_counts() {
        let bench = Bench::new();
        bench.put("late/a.h", "late");
        assert_eq!(bench.product(), "late");
        bench.put("early/a.h", "early");
        assert_eq!(bench.product(), "early");
    }
}
