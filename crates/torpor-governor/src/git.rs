// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Reads files of a git revision, byte for byte as they were committed.
//!
//! A checkout and `git archive` run the filters that a repository configures, and change content by
//! its attributes. Objects have neither, so only `git cat-file` reads content here.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output, Stdio};

/// A file of a revision.
#[derive(Clone, Debug)]
pub struct Blob {
    pub path: String,
    object: String,
}

fn git(tree: &Path) -> Command {
    let mut git = Command::new("git");
    // A commit is what its name says, whatever `git replace` has put in its place.
    git.arg("-C").arg(tree).env("LC_ALL", "C").env("GIT_NO_REPLACE_OBJECTS", "1");
    git.stdin(Stdio::null());
    git
}

fn run(command: &mut Command) -> Result<Output, String> {
    command.output().map_err(|e| format!("it could not be started: {e}"))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

/// The commit that a revision names.
pub fn commit(tree: &Path, rev: &str) -> Result<String, String> {
    let verify = ["rev-parse", "--verify", "--end-of-options"];
    let output = run(git(tree).args(verify).arg(format!("{rev}^{{commit}}")))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(said(&output)),
    }
}

/// A file of a revision; `None` if the revision does not have it.
pub(crate) fn show(tree: &Path, rev: &str, path: &str) -> Result<Option<Vec<u8>>, String> {
    let output = run(git(tree).args(["cat-file", "blob"]).arg(format!("{rev}:{path}")))?;
    if output.status.success() {
        return Ok(Some(output.stdout));
    }
    let message = said(&output);
    // The revision is there, the file is not.
    if message.contains("does not exist in") || message.contains("exists on disk, but not in") {
        return Ok(None);
    }
    Err(message)
}

/// The regular files of a commit below some of its folders.
pub fn list(tree: &Path, commit: &str, folders: &[&str]) -> Result<Vec<Blob>, String> {
    let command = ["ls-tree", "-r", "-z", "--full-tree", commit, "--"];
    let output = run(git(tree).args(command).args(folders))?;
    if !output.status.success() {
        return Err(said(&output));
    }
    // MODE blob OBJECT<tab>PATH; 120000 is a symbolic link.
    let blob = |entry: &[u8]| {
        let (head, path) = std::str::from_utf8(entry).ok()?.split_once('\t')?;
        let [mode, "blob", object] = head.split(' ').collect::<Vec<_>>()[..] else { return None };
        let is_regular = mode.starts_with("100");
        is_regular.then(|| Blob { path: path.to_owned(), object: object.to_owned() })
    };
    Ok(output.stdout.split(|byte| *byte == 0).filter_map(blob).collect())
}

/// Calls `take` with the content of each file, in order.
pub fn read(
    tree: &Path,
    blobs: &[Blob],
    take: impl FnMut(&Blob, &[u8]) -> io::Result<()>,
) -> Result<(), String> {
    let mut child = git(tree)
        .args(["cat-file", "--batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("it could not be started: {e}"))?;
    let answered = converse(&mut child, blobs, take);
    // After an error here it may still wait for a reader.
    if answered.is_err() {
        let _ = child.kill();
    }
    let ended = child.wait_with_output().map_err(|e| e.to_string())?;
    let told = said(&ended);
    answered.map_err(|e| if told.is_empty() { e.to_string() } else { told })
}

fn converse(
    child: &mut Child,
    blobs: &[Blob],
    mut take: impl FnMut(&Blob, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    // Apart from reading: each side's pipe may fill up before the other is empty.
    std::thread::scope(|scope| {
        scope.spawn(|| ask(stdin, blobs));
        let mut answers = BufReader::with_capacity(1 << 16, stdout);
        let mut content = Vec::new();
        for blob in blobs {
            read_answer(&mut answers, blob, &mut content)?;
            take(blob, &content)?;
        }
        Ok(())
    })
}

/// An error here ends the answers, which their reader reports.
fn ask(mut stdin: ChildStdin, blobs: &[Blob]) {
    for blob in blobs {
        if writeln!(stdin, "{}", blob.object).is_err() {
            return;
        }
    }
}

/// `OBJECT blob SIZE`, the content, and a newline.
fn read_answer(from: &mut impl BufRead, blob: &Blob, content: &mut Vec<u8>) -> io::Result<()> {
    let mut head = String::new();
    from.read_line(&mut head)?;
    let size = head.trim_end().rsplit_once(" blob ").and_then(|(_, size)| size.parse().ok());
    let Some(size) = size else {
        let reason = format!("{} cannot be read: {}", blob.path, head.trim_end());
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    };
    content.clear();
    from.take(size).read_to_end(content)?;
    if content.len() as u64 != size {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    from.read_exact(&mut [0])
}
