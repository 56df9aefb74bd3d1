// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The formats and locations of a file's events, for both versions.

use super::options::Options;
use super::source::Source;
use crate::cursor::Endian;
use crate::error::Malformed;
use crate::ftrace::Formats;

#[derive(Debug)]
pub(crate) struct Head<'a> {
    pub endian: Endian,
    pub formats: Formats,
    pub options: Options,
    /// The top-level instance, then the others.
    pub buffers: Vec<Buffer<'a>>,
}

/// The events of one tracing instance.
#[derive(Debug)]
pub(crate) struct Buffer<'a> {
    /// Absent in version 6.
    pub clock: Option<String>,
    pub page_bytes: usize,
    pub cpus: Vec<(u32, Source<'a>)>,
}

/// Checks that a page holds its own header and that no byte belongs to two CPUs: other files could
/// exhaust memory.
pub(crate) fn check(
    file: &[u8],
    buffers: &[Buffer<'_>],
    formats: &Formats,
) -> Result<(), Malformed> {
    let page = formats.page;
    let header_bytes = page.data_offset.max(page.commit_offset.saturating_add(page.commit_bytes));
    let is_page = |bytes| header_bytes < bytes && matches!(page.commit_bytes, 4 | 8);
    if let Some(buffer) = buffers.iter().find(|buffer| !is_page(buffer.page_bytes)) {
        return Err(Malformed {
            offset: 0,
            found: format!("ring-buffer pages of {} bytes with {page:?}", buffer.page_bytes),
            expected: "a page that is larger than its header".to_owned(),
            hint: "the file's start is damaged: copy it again",
        });
    }
    let sources = buffers.iter().flat_map(|buffer| &buffer.cpus);
    let bytes: usize = sources.map(|(_, source)| source.file_bytes()).sum();
    if bytes > file.len() {
        return Err(Malformed {
            offset: 0,
            found: format!("{bytes} bytes of events in a file of {}", file.len()),
            expected: "each CPU's data at a separate place".to_owned(),
            hint: "the file is damaged: copy it again",
        });
    }
    Ok(())
}

pub(crate) fn cut_in_head(file: &[u8], expected: &str) -> Malformed {
    Malformed {
        offset: file.len() as u64,
        found: "the end of the file, or a length that reaches beyond it".to_owned(),
        expected: expected.to_owned(),
        hint: "the file was cut or is damaged, and without this no event can be read: copy it \
               again",
    }
}

/// Returns the error for a file of a latency tracer, which holds text instead of events.
pub(crate) fn text_inside(offset: u64) -> Malformed {
    Malformed {
        offset,
        found: "the text of a latency tracer".to_owned(),
        expected: "events as the ring buffer holds them".to_owned(),
        hint: "record with `trace-cmd record -e power -e sched -e timer`, without `-p`",
    }
}
