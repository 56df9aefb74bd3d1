// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The tree to which patches apply.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use torpor_machine::units::read_regular;

/// A tree of files, or the parts of one.
pub trait Base {
    /// Returns a file's content, or None if there is no such file.
    ///
    /// # Errors
    /// Fails where the file exists and cannot be read.
    fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>>;
}

impl Base for BTreeMap<String, Vec<u8>> {
    fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.get(path).cloned())
    }
}

/// A folder of the file system.
pub struct Folder(pub PathBuf);

impl Base for Folder {
    fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        match read_regular(&self.0.join(path)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
                _ => Err(error),
            },
        }
    }
}
