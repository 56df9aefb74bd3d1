// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Version 6: parts in a fixed order, with options before the CPUs' data.

use super::head::{Buffer, Head, check, cut_in_head, text_inside};
use super::options::{self, Options};
use super::source::Source;
use crate::builder::CPUS_MAX;
use crate::cursor::{Cursor, offset};
use crate::error::Malformed;
use crate::ftrace::{Formats, Preamble};

/// Length of the name of a part.
const TAG_BYTES: u64 = 10;
const OPTIONS: &[u8] = b"options  \0";
const LATENCY: &[u8] = b"latency  \0";
const FLYRECORD: &[u8] = b"flyrecord\0";

/// Reads a head from the end of the preamble.
pub(crate) fn head<'a>(
    file: &'a [u8],
    preamble: &Preamble<'_>,
    mut rest: Cursor<'a>,
) -> Result<Head<'a>, Malformed> {
    let mut formats = Formats::new(preamble.endian, preamble.long_bytes);
    let described = formats.description(&mut rest).and_then(|()| {
        let cmdlines_size = rest.u64()?;
        rest.bytes(cmdlines_size)?;
        rest.u32()
    });
    let cpu_count = described.ok_or_else(|| {
        cut_in_head(file, "the events' formats, kallsyms, printk texts, command lines, CPU count")
    })?;
    let mut options = Options::default();
    let mut instances = Vec::new();
    let mut tag = rest.bytes(TAG_BYTES);
    if tag == Some(OPTIONS) {
        let read = read_options(&mut rest, &mut options, &mut instances, preamble);
        read.ok_or_else(|| cut_in_head(file, "the options"))?;
        tag = rest.bytes(TAG_BYTES);
    }
    check_tag(file, tag, &rest)?;
    // An option may correct the count that older readers use.
    let cpu_count = options.cpu_count.unwrap_or(cpu_count);
    if cpu_count > CPUS_MAX {
        return Err(Malformed {
            offset: offset(file, rest.rest()) as u64,
            found: format!("{cpu_count} CPUs"),
            expected: format!("at most {CPUS_MAX}, the most Linux can have"),
            hint: "the file is damaged: copy it again",
        });
    }
    let mut buffers = vec![buffer(file, preamble, cpu_count, &mut rest)?];
    if options.has_clock && options.clock.is_none() {
        let text = rest.u64().and_then(|size| rest.bytes(size)).and_then(options::text);
        options.clock = text.as_deref().and_then(options::chosen_clock);
    }
    for at in instances {
        let is_behind = at >= offset(file, rest.rest()) as u64;
        let bytes = usize::try_from(at).ok().and_then(|at| file.get(at..));
        rest = Cursor::ordered(bytes.unwrap_or_default(), preamble.endian);
        if !is_behind || rest.bytes(TAG_BYTES) != Some(FLYRECORD) {
            return Err(Malformed {
                offset: at,
                found: "no data of a tracing instance".to_owned(),
                expected: "`flyrecord`, after the previous instance".to_owned(),
                hint: "the file was cut or is damaged: copy it again",
            });
        }
        buffers.push(buffer(file, preamble, cpu_count, &mut rest)?);
    }
    check(file, &buffers, &formats)?;
    Ok(Head { endian: preamble.endian, formats, options, buffers })
}

/// Checks that `tag`, which ends at `rest`, starts the CPUs' data.
fn check_tag(file: &[u8], tag: Option<&[u8]>, rest: &Cursor<'_>) -> Result<(), Malformed> {
    let at = (offset(file, rest.rest()) as u64).saturating_sub(TAG_BYTES);
    match tag {
        Some(FLYRECORD) => Ok(()),
        Some(LATENCY) => Err(text_inside(at)),
        Some(other) => Err(Malformed {
            offset: at,
            found: format!("`{}`", other.escape_ascii()),
            expected: "`options`, `flyrecord` or `latency`".to_owned(),
            hint: "the file is damaged: copy it again",
        }),
        None => Err(cut_in_head(file, "`options`, `flyrecord` or `latency`")),
    }
}

/// Reads the table of an instance's data: offset and size for each CPU.
fn buffer<'a>(
    file: &'a [u8],
    preamble: &Preamble<'_>,
    cpu_count: u32,
    rest: &mut Cursor<'a>,
) -> Result<Buffer<'a>, Malformed> {
    let mut cpus = Vec::new();
    for cpu in 0..cpu_count {
        let (Some(offset), Some(size)) = (rest.u64(), rest.u64()) else {
            return Err(cut_in_head(file, "the table of each CPU's data"));
        };
        cpus.push((cpu, Source::new(file, offset, size, None, preamble.endian)));
    }
    Ok(Buffer { clock: None, page_bytes: preamble.page_bytes, cpus })
}

fn read_options(
    rest: &mut Cursor<'_>,
    options: &mut Options,
    instances: &mut Vec<u64>,
    preamble: &Preamble<'_>,
) -> Option<()> {
    loop {
        let id = rest.u16()?;
        if id == options::DONE {
            return Some(());
        }
        let size = rest.u32()?;
        let data = rest.bytes(size.into())?;
        match id {
            // The offset, and the instance's name.
            options::BUFFER => instances.push(Cursor::ordered(data, preamble.endian).u64()?),
            _ => options.take(id, data, preamble.endian),
        }
    }
}
