// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The pages of one CPU in order, plain or unpacked chunk by chunk.

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
    /// Parses a name; `none` is `None`.
    ///
    /// # Errors
    /// The valid names.
    pub(crate) fn named(name: &[u8]) -> Result<Option<Compression>, &'static str> {
        match name {
            b"none" => Ok(None),
            b"zlib" => Ok(Some(Compression::Zlib)),
            b"zstd" => Ok(Some(Compression::Zstd)),
            _ => Err("`none`, `zlib` or `zstd`"),
        }
    }

    /// Unpacks the next block: packed size, unpacked size, packed bytes.
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
    /// The remaining pages, unless they are in chunks.
    pages: &'a [u8],
    chunks: Option<Chunks<'a>>,
    /// False if the file ends before the data.
    is_whole: bool,
}

/// Packed pages, unpacked one chunk at a time.
#[derive(Debug)]
struct Chunks<'a> {
    compression: Compression,
    rest: Cursor<'a>,
    left: u32,
    unpacked: Vec<u8>,
    pos: usize,
}

impl<'a> Source<'a> {
    /// Returns the data of a CPU, as far as the file reaches.
    pub(crate) fn new(
        file: &'a [u8],
        offset: u64,
        size: u64,
        compression: Option<Compression>,
        endian: Endian,
    ) -> Source<'a> {
        // The size of packed data excludes the count before the chunks.
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

    pub(crate) fn file_bytes(&self) -> usize {
        self.pages.len()
    }

    /// Loads the next page; false at the end.
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

    /// Returns the loaded page, which the end of the file may cut.
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

    /// Moves to the next page.
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
    /// Unpacks the next chunk at the end of this one.
    fn load(&mut self, out: &mut Builder) {
        while self.pos >= self.unpacked.len() && self.left > 0 {
            self.pos = 0;
            self.left = self.left.saturating_sub(1);
            let packed = self.rest.rest();
            self.unpacked = self.compression.next_block(&mut self.rest).unwrap_or_default();
            out.advance(offset(packed, self.rest.rest()) as u64);
            if self.unpacked.is_empty() {
                // The size of a broken chunk may be wrong, and with it the next chunk's place.
                self.left = 0;
                out.lose(&loss::INFLATE_FAILED, 1);
            }
        }
    }
}
