// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Saves finished runs in a file, so that a killed process can resume.
//!
//! A line is a checksum, a key and the run. The key covers everything that affects a run's result,
//! so equal keys mean equal counts. A line is appended in one piece; a partial line, left by a kill
//! or a full disk, has a wrong checksum and is ignored.

use crate::machine::Counted;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Hex digits of a line's checksum and of a key.
const SUM_CHARS: usize = 16;
const KEY_CHARS: usize = 64;

/// Known runs, and the file that takes new ones.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    /// Identity of the engine, part of every key.
    engine: String,
    known: HashMap<String, String>,
    file: Mutex<File>,
    found: AtomicUsize,
    /// The first error of a write: from then on, nothing is kept.
    failed: Mutex<Option<io::Error>>,
}

impl Journal {
    /// Opens a journal, or begins one. `engine` names what simulates; another one's runs are not
    /// found.
    pub fn open(path: &Path, engine: &str) -> io::Result<Journal> {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).append(true).create(true).mode(0o600).open(path)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let known = text.split(|byte| *byte == b'\n').filter_map(read_line).collect();
        if text.last().is_some_and(|last| *last != b'\n') {
            // The next line must not become part of one that was cut off.
            file.write_all(b"\n")?;
        }
        Ok(Journal {
            path: path.to_owned(),
            engine: engine.to_owned(),
            known,
            file: Mutex::new(file),
            found: AtomicUsize::new(0),
            failed: Mutex::new(None),
        })
    }

    /// Number of runs taken from it.
    pub fn found(&self) -> usize {
        self.found.load(Ordering::Relaxed)
    }

    /// Why it keeps no more, if it does not; reported once.
    pub fn failure(&self) -> Option<(PathBuf, io::Error)> {
        let error = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some((self.path.clone(), error))
    }

    pub(crate) fn key(&self, parts: &[&[u8]]) -> String {
        let mut sum = Sha256::new();
        for part in [self.engine.as_bytes()].iter().chain(parts) {
            sum.update((part.len() as u64).to_le_bytes());
            sum.update(part);
        }
        hex(&sum.finalize())
    }

    pub(crate) fn get(&self, key: &str) -> Option<Counted> {
        let counted = serde_json::from_str(self.known.get(key)?).ok()?;
        self.found.fetch_add(1, Ordering::Relaxed);
        Some(counted)
    }

    pub(crate) fn put(&self, key: &str, counted: &Counted) {
        let Ok(text) = serde_json::to_string(counted) else { return };
        let line = format!("{} {key} {text}\n", checksum(key, &text));
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.is_some() {
            return;
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // One call: two processes that share a journal append whole lines.
        if let Err(error) = file.write_all(line.as_bytes()) {
            *failed = Some(error);
        }
    }
}

fn read_line(line: &[u8]) -> Option<(String, String)> {
    let line = std::str::from_utf8(line).ok()?;
    let (sum, rest) = line.split_at_checked(SUM_CHARS)?;
    let (key, text) = rest.strip_prefix(' ')?.split_at_checked(KEY_CHARS)?;
    let text = text.strip_prefix(' ')?;
    (checksum(key, text) == sum).then(|| (key.to_owned(), text.to_owned()))
}

fn checksum(key: &str, text: &str) -> String {
    let sum = Sha256::new().chain_update(key).chain_update(" ").chain_update(text).finalize();
    hex(&sum)[..SUM_CHARS].to_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
