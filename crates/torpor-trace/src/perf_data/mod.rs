// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `perf.data`, as a file or as the stream that `perf record -o -` writes.
//!
//! The layout follows perf's `perf.data-file-format.txt` and `perf_event_open(2)`. The crate
//! `linux-perf-data` is not used: it reserves memory by the counts in a file, divides by them, and
//! drops all records from a broken one to the next round mark.

mod attr;
mod features;
mod records;

use crate::builder::Builder;
use crate::cursor::{Cursor, section};
use crate::error::Malformed;
use crate::kallsyms::Kallsyms;
use crate::loss;
use crate::model::Meta;
use attr::Attr;
use records::Records;

const MAGIC: &[u8; 8] = b"PERFILE2";
const MAGIC_BIG_ENDIAN: &[u8; 8] = b"2ELIFREP";
/// Size of a stream's header: the magic and this number.
const PIPE_HEADER_SIZE: u64 = 16;
const FILE_HEADER_SIZE: u64 = 104;

pub(crate) fn is_perf_data(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) || bytes.starts_with(MAGIC_BIG_ENDIAN)
}

pub(crate) fn read(
    bytes: &[u8],
    kallsyms: Option<&[u8]>,
    out: &mut Builder,
) -> Result<(), Malformed> {
    if bytes.starts_with(MAGIC_BIG_ENDIAN) {
        return Err(Malformed {
            offset: 0,
            found: "a recording of a big-endian machine".to_owned(),
            expected: "`PERFILE2`, a little-endian one".to_owned(),
            hint: "recordings of big-endian machines are not read yet",
        });
    }
    out.symbols = kallsyms.map(Kallsyms::parse).unwrap_or_default();
    let mut header = Cursor::new(&bytes[MAGIC.len()..]);
    if is_pipe(bytes) {
        let mut pipe = Pipe::new(out);
        pipe.push(&bytes[PIPE_HEADER_SIZE as usize..], out);
        pipe.finish(out);
        return Ok(());
    }
    out.meta.clock = features::clock_name(None).to_owned();
    let mut records = Records::default();
    match header.u64() {
        Some(size) if size >= FILE_HEADER_SIZE => file(bytes, header, &mut records, out)?,
        Some(size) => {
            return Err(Malformed {
                offset: MAGIC.len() as u64,
                found: format!("a header of {size} bytes"),
                expected: "16 (a stream), 104 or more (a file)".to_owned(),
                hint: "the file's start is damaged: copy it again",
            });
        }
        None => return Err(cut_in_header(bytes)),
    }
    finish(records, out);
    Ok(())
}

fn finish(records: Records, out: &mut Builder) {
    if records.is_cut() {
        out.lose(&loss::TRUNCATED, 1);
    }
    records.finish(out);
}

/// Bytes that show whether a recording is a stream.
pub(crate) const PIPE_HEADER_BYTES: usize = PIPE_HEADER_SIZE as usize;

/// Returns true for the stream that `perf record -o -` writes, given at least its header.
pub(crate) fn is_pipe(bytes: &[u8]) -> bool {
    bytes.strip_prefix(MAGIC).is_some_and(|rest| Cursor::new(rest).u64() == Some(PIPE_HEADER_SIZE))
}

/// A stream, read as it comes.
pub(crate) struct Pipe {
    records: Records,
    /// The start of a record.
    rest: Vec<u8>,
}

impl Pipe {
    pub(crate) fn new(out: &mut Builder) -> Pipe {
        out.meta.clock = features::clock_name(None).to_owned();
        Pipe { records: Records::default(), rest: Vec::new() }
    }

    /// Takes the next bytes after the header, cut anywhere.
    pub(crate) fn push(&mut self, mut bytes: &[u8], out: &mut Builder) {
        // The record that was cut is completed; the others are read where they are.
        while !self.rest.is_empty() && !bytes.is_empty() {
            let wanted = records::missing_bytes(&self.rest).clamp(1, bytes.len());
            let (part, after) = bytes.split_at(wanted);
            self.rest.extend_from_slice(part);
            bytes = after;
            let left = self.records.walk(&self.rest, true, out).len();
            self.rest.drain(..self.rest.len().saturating_sub(left));
        }
        if self.records.is_broken {
            out.lose(&loss::UNREADABLE_REST, bytes.len() as u64);
        } else if self.rest.is_empty() {
            self.rest.extend_from_slice(self.records.walk(bytes, true, out));
        }
    }

    /// Returns the bytes of a record whose end has not come.
    pub(crate) fn held_bytes(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn finish(self, out: &mut Builder) {
        if !self.rest.is_empty() {
            out.lose(&loss::TRUNCATED, 1);
        }
        finish(self.records, out);
    }
}

fn cut_in_header(bytes: &[u8]) -> Malformed {
    Malformed {
        offset: bytes.len() as u64,
        found: "the end of the file".to_owned(),
        expected: format!("a header of {FILE_HEADER_SIZE} bytes"),
        hint: "copy the file again, it was cut",
    }
}

/// The header of a file. A table of feature sections follows the data.
struct Header {
    attr_size: u64,
    attrs: (u64, u64),
    data: (u64, u64),
    features: [u64; 4],
}

impl Header {
    fn parse(mut cursor: Cursor<'_>) -> Option<Header> {
        let attr_size = cursor.u64()?;
        let attrs = (cursor.u64()?, cursor.u64()?);
        let data = (cursor.u64()?, cursor.u64()?);
        // Event types, unused since Linux 3.0.
        cursor.bytes(16)?;
        let features = [cursor.u64()?, cursor.u64()?, cursor.u64()?, cursor.u64()?];
        Some(Header { attr_size, attrs, data, features })
    }
}

fn file(
    bytes: &[u8],
    cursor: Cursor<'_>,
    records: &mut Records,
    out: &mut Builder,
) -> Result<(), Malformed> {
    let header = Header::parse(cursor).ok_or_else(|| cut_in_header(bytes))?;
    attrs(bytes, &header, records, out)?;
    if !records.layouts.is_decidable() {
        return Err(Malformed {
            offset: header.attrs.0,
            found: "events whose samples differ in layout or kind and carry no id".to_owned(),
            expected: "PERF_SAMPLE_IDENTIFIER or PERF_SAMPLE_ID in every event".to_owned(),
            hint: "record again with a current perf, which sets it",
        });
    }
    let (offset, size) = header.data;
    if size == 0 {
        return Err(Malformed {
            offset: 40,
            found: "a data section of 0 bytes".to_owned(),
            expected: "the size that perf writes when it ends".to_owned(),
            hint: "perf was killed before it finished the file; stop it with SIGINT",
        });
    }
    let Some(data) = section(bytes, offset, size) else {
        return Err(Malformed {
            offset: bytes.len() as u64,
            found: "the end of the file".to_owned(),
            expected: format!("a data section of {size} bytes from offset {offset} on"),
            hint: "the file was cut, and the descriptions of its events were at its end, so none \
                   can be read: copy it again",
        });
    };
    feature_sections(bytes, &header, records, out)?;
    let rest = records.walk(data, true, out);
    if !rest.is_empty() {
        out.lose(&loss::UNREADABLE_REST, rest.len() as u64);
    }
    Ok(())
}

/// Reads the attributes. Each entry is one and the location of its ids.
fn attrs(
    bytes: &[u8],
    header: &Header,
    records: &mut Records,
    out: &mut Builder,
) -> Result<(), Malformed> {
    let malformed = |offset: u64, found: String| Malformed {
        offset,
        found,
        expected: "perf_event_attr entries of at least 80 bytes, inside the file".to_owned(),
        hint: "the file's start is damaged, or its end was cut: copy it again",
    };
    let (offset, size) = header.attrs;
    let entries = section(bytes, offset, size)
        .filter(|entries| !entries.is_empty())
        .ok_or_else(|| malformed(24, format!("attributes at {offset}, {size} bytes")))?;
    let entry_size = usize::try_from(header.attr_size)
        .ok()
        .filter(|&size| (80..=entries.len()).contains(&size))
        .ok_or_else(|| malformed(16, format!("entries of {} bytes", header.attr_size)))?;
    for (index, entry) in entries.chunks_exact(entry_size).enumerate() {
        let at = offset.saturating_add(index.saturating_mul(entry_size) as u64);
        let (attr, ids) = entry.split_at(entry_size.saturating_sub(16));
        let (attr, _) = Attr::parse(attr)
            .ok_or_else(|| malformed(at, "an attribute that states another size".to_owned()))?;
        let mut ids = Cursor::new(ids);
        let ids = match (ids.u64(), ids.u64()) {
            (Some(offset), Some(size)) => section(bytes, offset, size),
            _ => None,
        };
        let ids = ids.ok_or_else(|| malformed(at, "event ids outside the file".to_owned()))?;
        records.add_attr(&attr, ids.chunks_exact(8).filter_map(|id| Cursor::new(id).u64()), out);
    }
    Ok(())
}

/// Returns the machine's name and its number of CPUs as a file's features have them: without the
/// events, of which a stream's features are a part.
pub(crate) fn machine_named(bytes: &[u8]) -> Option<(String, u32)> {
    let mut cursor = Cursor::new(bytes.strip_prefix(MAGIC)?);
    cursor.u64().filter(|&size| size >= FILE_HEADER_SIZE)?;
    let header = Header::parse(cursor).filter(|header| header.data.1 > 0)?;
    let mut meta = Meta::default();
    for (feature, found) in sections(bytes, &header) {
        features::note(feature, found?, &mut meta);
    }
    meta.machine.map(|name| (name, meta.cpu_count))
}

/// Returns each feature with its section, which may be beyond the end of a file that was cut.
fn sections<'a>(
    bytes: &'a [u8],
    header: &Header,
) -> impl Iterator<Item = (u64, Option<&'a [u8]>)> + use<'a> {
    let (offset, size) = header.data;
    let table = usize::try_from(offset.saturating_add(size)).ok();
    let mut cursor = Cursor::new(table.and_then(|table| bytes.get(table..)).unwrap_or_default());
    let set = header.features;
    let is_set = move |&feature: &u64| set[(feature / 64) as usize] >> (feature % 64) & 1 != 0;
    (0..256).filter(is_set).map(move |feature| {
        let place = cursor.u64().zip(cursor.u64());
        (feature, place.and_then(|(offset, size)| section(bytes, offset, size)))
    })
}

fn feature_sections(
    bytes: &[u8],
    header: &Header,
    records: &mut Records,
    out: &mut Builder,
) -> Result<(), Malformed> {
    for (feature, found) in sections(bytes, header) {
        match (feature, found) {
            (features::TRACING_DATA, Some(data)) => records.add_formats(data, out),
            (features::TRACING_DATA, None) => {
                return Err(Malformed {
                    offset: bytes.len() as u64,
                    found: "the end of the file".to_owned(),
                    expected: "the section that describes the recorded events".to_owned(),
                    hint: "the file was cut, and without that section no event can be read",
                });
            }
            (_, Some(data)) => features::note(feature, data, &mut out.meta),
            (_, None) => out.lose(&loss::TRUNCATED, 1),
        }
    }
    Ok(())
}
