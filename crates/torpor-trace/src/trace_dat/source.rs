// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The pages of one CPU, in order: as they lie in the file, or unpacked chunk by chunk.

use crate::builder::Builder;
use crate::cursor::{Cursor, Endian, offset};
use crate::inflate;
use crate::loss;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    Zlib,
    Zstd,
}

impl Compression {
    /// The one that a file names; none for `none`.
    ///
    /// # Errors
    /// The names there are.
    pub(crate) fn named(name: &[u8]) -> Result<Option<Compression>, &'static str> {
        match name {
            b"none" => Ok(None),
            b"zlib" => Ok(Some(Compression::Zlib)),
            b"zstd" => Ok(Some(Compression::Zstd)),
            _ => Err("`none`, `zlib` or `zstd`"),
        }
    }

    /// Unpacks the block that the cursor is at: packed size, unpacked size, packed bytes.
    pub(crate) fn next_block(self, rest: &mut Cursor<'_>) -> Option<Vec<u8>> {
        let (packed_size, size) = (rest.u32()?, rest.u32()?);
        let packed = rest.bytes(packed_size.into())?;
        let max = u64::from(size).min(inflate::BLOCK_MAX);
        let inflated = match self {
            Compression::Zlib => inflate::zlib(packed, max),
            Compression::Zstd => inflate::zstd(packed, max),
        };
        (inflated.is_whole && inflated.bytes.len() as u64 == u64::from(size))
            .then_some(inflated.bytes)
    }
}

#[derive(Debug)]
pub(crate) struct Source<'a> {
    /// Rest of the file: the pages themselves, unless they are in chunks.
    pages: &'a [u8],
    chunks: Option<Chunks<'a>>,
    /// False if the file ends before this data does.
    is_whole: bool,
}

/// Packed pages: one chunk is unpacked at a time.
#[derive(Debug)]
struct Chunks<'a> {
    compression: Compression,
    rest: Cursor<'a>,
    left: u32,
    unpacked: Vec<u8>,
    pos: usize,
}

impl<'a> Source<'a> {
    /// The data of a CPU, where the file says it is, or as much of it as there is.
    pub(crate) fn new(
        file: &'a [u8],
        offset: u64,
        size: u64,
        compression: Option<Compression>,
        endian: Endian,
    ) -> Source<'a> {
        // The size of packed data leaves out the count in front of its chunks.
        let size = if compression.is_some() { size.saturating_add(4) } else { size };
        let length = file.len() as u64;
        let (start, end) = (offset.min(length), offset.saturating_add(size).min(length));
        let bytes = &file[start as usize..end as usize];
        let mut rest = Cursor::ordered(bytes, endian);
        let chunks = compression.map(|compression| Chunks {
            compression,
            left: rest.u32().unwrap_or(0),
            rest,
            unpacked: Vec::new(),
            pos: 0,
        });
        Source { pages: bytes, chunks, is_whole: bytes.len() as u64 == size }
    }

    /// Returns its size in the file.
    pub(crate) fn file_bytes(&self) -> usize {
        self.pages.len()
    }

    /// Makes the next page ready; false at the end.
    pub(crate) fn load(&mut self, out: &mut Builder) -> bool {
        if let Some(chunks) = &mut self.chunks {
            chunks.load(out);
        }
        let is_there = !self.pages().is_empty();
        if !is_there && !self.is_whole {
            self.is_whole = true;
            out.lose(&loss::TRUNCATED, 1);
        }
        is_there
    }

    /// The page that is ready, of which the file may hold only the start.
    #[inline]
    pub(crate) fn page(&self, page_bytes: usize) -> &[u8] {
        let pages = self.pages();
        &pages[..page_bytes.min(pages.len())]
    }

    #[inline]
    fn pages(&self) -> &[u8] {
        match &self.chunks {
            None => self.pages,
            Some(chunks) => chunks.unpacked.get(chunks.pos..).unwrap_or_default(),
        }
    }

    /// Goes on to the page after that one.
    pub(crate) fn advance(&mut self, page_bytes: usize, out: &mut Builder) {
        match &mut self.chunks {
            None => {
                self.pages = self.pages.get(page_bytes..).unwrap_or_default();
                out.advance(page_bytes as u64);
            }
            Some(chunks) => chunks.pos = chunks.pos.saturating_add(page_bytes),
        }
    }
}

impl Chunks<'_> {
    /// Unpacks the next chunk if this one is used up.
    fn load(&mut self, out: &mut Builder) {
        while self.pos >= self.unpacked.len() && self.left > 0 {
            self.pos = 0;
            self.left = self.left.saturating_sub(1);
            let packed = self.rest.rest();
            self.unpacked = self.compression.next_block(&mut self.rest).unwrap_or_default();
            out.advance(offset(packed, self.rest.rest()) as u64);
            if self.unpacked.is_empty() {
                // The next chunk starts where this one ends, which may be as wrong as the rest.
                self.left = 0;
                out.lose(&loss::INFLATE_FAILED, 1);
            }
        }
    }
}
