// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Finds the files of a sched_ext scheduler: its program, and the headers of its own tree. The
//! kernel that it runs in has the others.

use crate::tree::{Sources, read_error, read_source};
use crate::{GovernorError, Label};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Header that the folder of a tree's headers has.
const COMMON: &str = "scx/common.bpf.h";
/// Folder of these headers among a program's files.
const INCLUDE: &str = "include";

/// Reads a program and the headers that it includes from its folder and from its tree.
pub(crate) fn from_file(label: &Label, path: &Path) -> Result<Sources, GovernorError> {
    let error = read_error(label, path);
    let no_name = || error(io::Error::new(io::ErrorKind::InvalidInput, "its name is not UTF-8"));
    let main = path.file_name().and_then(|name| name.to_str()).ok_or_else(no_name)?.to_owned();
    let dir = path.canonicalize().map_err(&error)?;
    let dir = dir.parent().unwrap_or(Path::new("/")).to_owned();
    let mut folders = folders(&dir);
    let mut files = BTreeMap::new();
    let mut wanted = vec![(main.clone(), dir.join(&main))];
    while let Some((name, path)) = wanted.pop() {
        if files.contains_key(&name) {
            continue;
        }
        let text = read_source(&path).map_err(read_error(label, &path))?;
        // A program may include another one, whose tree has the headers.
        if folders.len() == 1 && path.parent().is_some_and(|folder| folder != dir) {
            folders.extend(path.parent().and_then(tree));
        }
        for (header, is_quoted) in includes(&String::from_utf8_lossy(&text)) {
            let beside = name.rsplit_once('/').map_or("", |(folder, _)| folder);
            let beside = (beside.to_owned(), path.parent().unwrap_or(&dir).to_owned());
            let beside = Some(&beside).filter(|_| is_quoted);
            wanted.extend(beside.into_iter().chain(&folders).find_map(|f| inside(f, &header)));
        }
        files.insert(name, text);
    }
    Ok(Sources::new(main, files, dir))
}

/// Returns the folders in which headers are looked for, each with its name among the files.
fn folders(dir: &Path) -> Vec<(String, PathBuf)> {
    let own = (String::new(), dir.to_owned());
    [own].into_iter().chain(tree(dir)).collect()
}

/// Returns the folder with the headers of the tree that a folder is in.
fn tree(dir: &Path) -> Option<(String, PathBuf)> {
    let mut above = dir.ancestors().map(|folder| folder.join(INCLUDE));
    let found = above.find(|folder| folder.join(COMMON).is_file());
    found.map(|folder| (INCLUDE.to_owned(), folder))
}

/// Returns the name and the path of a header of a folder that has it.
fn inside((name, folder): &(String, PathBuf), header: &str) -> Option<(String, PathBuf)> {
    let path = folder.join(header);
    let name = if name.is_empty() { header.to_owned() } else { format!("{name}/{header}") };
    path.is_file().then_some((name, path))
}

/// Returns the headers that a file includes, and whether in quotes. Without those that stand for
/// BPF, and those outside of the folder.
fn includes(text: &str) -> Vec<(String, bool)> {
    let header = |line: &str| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
        let rest = rest.trim_start();
        let is_quoted = rest.starts_with('"');
        let end = if is_quoted { '"' } else { '>' };
        let (name, _) = rest.strip_prefix(['"', '<'])?.split_once(end)?;
        let is_ours = name == "vmlinux.h" || name.starts_with("bpf/");
        let is_inside = !name.starts_with('/') && !name.split('/').any(|part| part == "..");
        (!is_ours && is_inside).then(|| (name.to_owned(), is_quoted))
    };
    text.lines().filter_map(header).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn headers_of_the_programs_tree_are_found() {
        let root = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("include/scx/common.bpf.h", "#include \"compat.bpf.h\"\n#include <bpf/x.h>\n");
        put("include/scx/compat.bpf.h", "");
        put("include/other.h", "");
        put("rust/mine/main.bpf.c", "#include <scx/common.bpf.h>\n # include \"intf.h\"\n");
        put("rust/mine/intf.h", "#include \"../../secret.h\"\n#include \"vmlinux.h\"\n");
        let path = root.path().join("rust/mine/main.bpf.c");
        let label = Label { kind: Kind::Scheduler, text: "main.bpf.c".into() };
        let sources = from_file(&label, &path).unwrap();
        let names: Vec<&str> = sources.files.keys().map(String::as_str).collect();
        let expected =
            ["include/scx/common.bpf.h", "include/scx/compat.bpf.h", "intf.h", "main.bpf.c"];
        assert_eq!(names, expected);
    }
}
