// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The bytes of a file, mapped where it can be.

use crate::error::TraceError;
use std::fs::File;
use std::ops::Deref;
use std::path::Path;

/// After so many bytes, those behind are let go.
pub(crate) const STEP_BYTES: usize = 16 << 20;

pub(crate) enum Bytes {
    Mapped(memmap2::Mmap),
    Read(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Read(bytes) => bytes,
        }
    }
}

impl Bytes {
    pub(crate) fn load(path: &Path) -> Result<Bytes, TraceError> {
        let io = |source| TraceError::Io { name: path.display().to_string(), source };
        let file = File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() || metadata.len() == 0 {
            // Pipes, devices and the files of /proc have no length to map.
            return std::fs::read(path).map(Bytes::Read).map_err(io);
        }
        // SAFETY: the map is read-only and private. Someone who shortens the file while it is being
        // read raises SIGBUS; recordings are not written to once they are finished.
        unsafe { memmap2::Mmap::map(&file) }.map(Bytes::Mapped).map_err(io)
    }

    /// Gives the memory of a map back to the system; what is looked at again is read again.
    pub(crate) fn let_go(&self) {
        if let Bytes::Mapped(map) = self {
            // SAFETY: a private map that was never written to has the file's content whether its
            // pages are present or not.
            let advised = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
            // Without it memory fills with pages that the system can take back by itself.
            let _ = advised;
        }
    }
}
