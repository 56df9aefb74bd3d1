// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Reads files of a git revision byte for byte.
//!
//! A checkout and `git archive` apply the repository's filters and attributes; `git cat-file` does
//! not.

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
    // `git replace` must not substitute the commit.
    git.arg("-C").arg(tree).env("LC_ALL", "C").env("GIT_NO_REPLACE_OBJECTS", "1");
    git.stdin(Stdio::null());
    git
}

fn run(command: &mut Command) -> Result<Output, String> {
    command.output().map_err(|e| format!("it could not be started: {e}"))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

pub fn commit(tree: &Path, rev: &str) -> Result<String, String> {
    let verify = ["rev-parse", "--verify", "--end-of-options"];
    let output = run(git(tree).args(verify).arg(format!("{rev}^{{commit}}")))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(stderr(&output)),
    }
}

/// Returns a file of a revision, or `None` if the revision does not have it.
pub(crate) fn show(tree: &Path, rev: &str, path: &str) -> Result<Option<Vec<u8>>, String> {
    let output = run(git(tree).args(["cat-file", "blob"]).arg(format!("{rev}:{path}")))?;
    if output.status.success() {
        return Ok(Some(output.stdout));
    }
    let message = stderr(&output);
    // The revision exists, the file does not.
    if message.contains("does not exist in") || message.contains("exists on disk, but not in") {
        return Ok(None);
    }
    Err(message)
}

/// Lists the regular files of a commit in some of its folders.
pub fn list(tree: &Path, commit: &str, folders: &[&str]) -> Result<Vec<Blob>, String> {
    let command = ["ls-tree", "-r", "-z", "--full-tree", commit, "--"];
    let output = run(git(tree).args(command).args(folders))?;
    if !output.status.success() {
        return Err(stderr(&output));
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
    // After an error, git could still wait for a reader.
    if answered.is_err() {
        let _ = child.kill();
    }
    let ended = child.wait_with_output().map_err(|e| e.to_string())?;
    let message = stderr(&ended);
    answered.map_err(|e| if message.is_empty() { e.to_string() } else { message })
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
    // Writing has its own thread: both pipes can be full at the same time.
    std::thread::scope(|scope| {
        scope.spawn(|| write_requests(stdin, blobs));
        let mut answers = BufReader::with_capacity(1 << 16, stdout);
        let mut content = Vec::new();
        for blob in blobs {
            read_answer(&mut answers, blob, &mut content)?;
            take(blob, &content)?;
        }
        Ok(())
    })
}

/// Ends on an error, which ends the answers, too; their reader reports it.
fn write_requests(mut stdin: ChildStdin, blobs: &[Blob]) {
    for blob in blobs {
        if writeln!(stdin, "{}", blob.object).is_err() {
            return;
        }
    }
}

/// Reads an answer: `OBJECT blob SIZE`, the content, and a newline.
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
