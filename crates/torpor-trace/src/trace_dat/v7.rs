// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Version 7: sections at any place, perhaps compressed, which options locate.

use super::head::{Buffer, Head, check, cut_in_head, text_inside};
use super::options::{self, Options};
use super::source::{Compression, Source};
use crate::cursor::{self, Cursor, Endian};
use crate::error::Malformed;
use crate::ftrace::{Formats, Preamble};
use std::borrow::Cow;
use std::collections::BTreeSet;

const IS_COMPRESSED: u16 = 1;

struct Sections<'a> {
    file: &'a [u8],
    endian: Endian,
    compression: Option<Compression>,
}

/// Reads a head from the end of the preamble.
pub(crate) fn head<'a>(
    file: &'a [u8],
    preamble: &Preamble<'_>,
    mut rest: Cursor<'a>,
) -> Result<Head<'a>, Malformed> {
    let start = (|| Some((rest.c_str()?, rest.c_str()?, rest.u64()?)))();
    let (name, _version, options_offset) =
        start.ok_or_else(|| cut_in_head(file, "a compression and the place of the options"))?;
    let compression = Compression::named(name).map_err(|expected| Malformed {
        offset: cursor::offset(file, rest.rest()) as u64,
        found: format!("the compression `{}`", name.escape_ascii()),
        expected: expected.to_owned(),
        hint: "convert it with `trace-cmd convert --compression zstd`",
    })?;
    let sections = Sections { file, endian: preamble.endian, compression };
    let mut head = Head {
        endian: preamble.endian,
        formats: Formats::new(preamble.endian, preamble.long_bytes),
        options: Options::default(),
        buffers: Vec::new(),
    };
    let mut described = BTreeSet::new();
    let mut at = options_offset;
    // Each section of options names the next one, which must follow it: there can be no cycle.
    while at != 0 {
        let end = sections.header(at).map_or(u64::MAX, |(_, size, _)| at.saturating_add(size));
        let next = sections.options(at, &mut head, &mut described)?;
        if next != 0 && next <= end {
            return Err(Malformed {
                offset: at,
                found: format!("options that continue at offset {next}, which is not after them"),
                expected: format!("an offset above {end}"),
                hint: "the file is damaged: copy it again",
            });
        }
        at = next;
    }
    check(file, &head.buffers, &head.formats)?;
    if head.buffers.is_empty() {
        return Err(Malformed {
            offset: options_offset,
            found: "options that name no buffer of events".to_owned(),
            expected: "a BUFFER option".to_owned(),
            hint: "trace-cmd was killed before it finished the file; stop it with SIGINT",
        });
    }
    Ok(head)
}

impl<'a> Sections<'a> {
    /// Reads a section of options, and returns the offset of the next one, or 0.
    fn options(
        &self,
        at: u64,
        head: &mut Head<'a>,
        described: &mut BTreeSet<u16>,
    ) -> Result<u64, Malformed> {
        let body = self.read(at)?;
        let mut rest = Cursor::ordered(&body, self.endian);
        while let (Some(id), Some(size)) = (rest.u16(), rest.u32()) {
            let data =
                rest.bytes(size.into()).ok_or_else(|| cut_in_head(self.file, "an option"))?;
            let mut value = Cursor::ordered(data, self.endian);
            let incomplete = || cut_in_head(self.file, "an option of its length");
            match id {
                options::DONE => return value.u64().ok_or_else(incomplete),
                options::BUFFER => head.buffers.push(self.buffer(value).ok_or_else(incomplete)?),
                options::BUFFER_TEXT => return Err(text_inside(value.u64().unwrap_or(0))),
                // Only the first of each kind counts.
                options::HEADER_INFO..=options::PRINTK if described.insert(id) => {
                    let offset = value.u64().ok_or_else(incomplete)?;
                    self.describe(id, offset, &mut head.formats)?;
                }
                _ => head.options.take(id, data, self.endian),
            }
        }
        Ok(0)
    }

    /// Returns a section's flags, its size, and a cursor at the end of its header.
    fn header(&self, offset: u64) -> Option<(u16, u64, Cursor<'a>)> {
        let at = self.file.get(usize::try_from(offset).ok()?..)?;
        let mut rest = Cursor::ordered(at, self.endian);
        let (_id, flags, _description) = (rest.u16()?, rest.u16()?, rest.u32()?);
        Some((flags, rest.u64()?, rest))
    }

    /// Returns the content of a section, unpacked.
    fn read(&self, offset: u64) -> Result<Cow<'a, [u8]>, Malformed> {
        let broken = |found: &str| Malformed {
            offset,
            found: found.to_owned(),
            expected: "a section that the options name".to_owned(),
            hint: "the file was cut or is damaged, and without this no event can be read: copy it \
                   again",
        };
        let section = self
            .header(offset)
            .and_then(|(flags, size, mut rest)| Some((flags, rest.bytes(size)?)));
        let (flags, body) = section.ok_or_else(|| broken("the end of the file"))?;
        if flags & IS_COMPRESSED == 0 {
            return Ok(Cow::Borrowed(body));
        }
        let mut rest = Cursor::ordered(body, self.endian);
        let unpacked = self.compression.and_then(|compression| compression.next_block(&mut rest));
        unpacked.map(Cow::Owned).ok_or_else(|| broken("a section that does not unpack"))
    }

    fn describe(&self, id: u16, offset: u64, formats: &mut Formats) -> Result<(), Malformed> {
        let body = self.read(offset)?;
        let mut rest = Cursor::ordered(&body, self.endian);
        let read = match id {
            options::HEADER_INFO => formats.header_info(&mut rest),
            options::FTRACE_EVENTS => formats.ftrace_events(&mut rest),
            options::EVENT_FORMATS => formats.event_systems(&mut rest),
            options::KALLSYMS => formats.kallsyms(&mut rest),
            _ => formats.printk(&mut rest),
        };
        read.ok_or_else(|| cut_in_head(self.file, "a section as long as it states"))
    }

    /// Reads a BUFFER option. Returns `None` if it is cut or its section is missing.
    fn buffer(&self, mut option: Cursor<'_>) -> Option<Buffer<'a>> {
        let (flags, ..) = self.header(option.u64()?)?;
        let compression = self.compression.filter(|_| flags & IS_COMPRESSED != 0);
        let _name = option.c_str()?;
        let clock = options::text(option.c_str()?);
        let page_bytes = option.u32()? as usize;
        let mut cpus = Vec::new();
        for _ in 0..option.u32()? {
            let (cpu, offset, size) = (option.u32()?, option.u64()?, option.u64()?);
            cpus.push((cpu, Source::new(self.file, offset, size, compression, self.endian)));
        }
        Some(Buffer { clock, page_bytes, cpus })
    }
}
