// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Reads a governor's image: the shared object that is linked from `kapi/image.c` and the governor.
//!
//! An image needs no other library and no symbol lookup, only relative relocations. This reader
//! accepts nothing else, so a private copy for an instance costs a `memcpy`. The system's loader
//! would need a lock, a file and a list entry for each.

use std::ops::Range;

const SYMBOL_TABLE: &str = "torpor_image";
const PERCPU_SECTION: &str = "torpor_percpu";
/// Writable sections without statics of the governor: the kapi's data, per-CPU data, and data that
/// only relocation writes.
const NOT_STATICS: [&str; 8] = [
    "torpor_kapi",
    "torpor_percpu",
    "torpor_param",
    "torpor_init",
    ".dynamic",
    ".data.rel.ro",
    ".got",
    ".got.plt",
];

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PF_X: u32 = 1;
const PF_W: u32 = 2;
const DT_NEEDED: u64 = 1;
const DT_PLTRELSZ: u64 = 2;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_RELR: u64 = 36;
const SHT_DYNSYM: u32 = 11;
const SHF_WRITE: u64 = 1;

#[cfg(target_arch = "x86_64")]
const R_RELATIVE: u64 = 8;
#[cfg(target_arch = "aarch64")]
const R_RELATIVE: u64 = 1027;
#[cfg(target_arch = "riscv64")]
const R_RELATIVE: u64 = 3;

pub(crate) struct Segment {
    pub file: Range<usize>,
    pub address: usize,
    pub memory_len: usize,
    pub writable: bool,
    pub executable: bool,
}

pub(crate) struct Relocation {
    pub address: usize,
    pub addend: i64,
}

/// A parsed image, ready to be copied. Addresses are relative to its start.
pub(crate) struct ImageFile {
    pub bytes: Box<[u8]>,
    pub segments: Vec<Segment>,
    pub relocations: Vec<Relocation>,
    /// Offset of `struct torpor_image`.
    pub table: usize,
    /// Template of the per-CPU data.
    pub percpu: Range<usize>,
    /// The governor's writable statics.
    pub statics: Vec<Range<usize>>,
    pub span: usize,
}

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn array<const N: usize>(&self, at: u64) -> Result<[u8; N], String> {
        let start = usize::try_from(at).map_err(|_| truncated())?;
        let end = start.checked_add(N).ok_or_else(truncated)?;
        let slice = self.0.get(start..end).ok_or_else(truncated)?;
        Ok(slice.try_into().expect("the slice has N bytes"))
    }
    fn u16(&self, at: u64) -> Result<u16, String> {
        Ok(u16::from_le_bytes(self.array(at)?))
    }
    fn u32(&self, at: u64) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.array(at)?))
    }
    fn u64(&self, at: u64) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.array(at)?))
    }
    fn text(&self, at: u64) -> Result<&str, String> {
        let tail =
            usize::try_from(at).ok().and_then(|at| self.0.get(at..)).ok_or_else(truncated)?;
        let len = tail.iter().position(|&b| b == 0).ok_or_else(truncated)?;
        std::str::from_utf8(&tail[..len]).map_err(|_| "a name is not UTF-8".to_owned())
    }
}

fn truncated() -> String {
    "it is truncated".to_owned()
}

struct Section<'a> {
    name: &'a str,
    kind: u32,
    flags: u64,
    address: u64,
    offset: u64,
    size: u64,
    link: u32,
}

impl ImageFile {
    /// Parses an image and checks all that loading depends on. The error describes the damage.
    pub(crate) fn parse(bytes: impl Into<Box<[u8]>>) -> Result<ImageFile, String> {
        let bytes = bytes.into();
        let data = Bytes(&bytes);
        if data.array::<6>(0)? != *b"\x7fELF\x02\x01" {
            return Err("it is not a 64-bit little-endian ELF file".to_owned());
        }
        let (segments, dynamic) = read_segments(&data)?;
        let span = segments.iter().map(|s| s.address + s.memory_len).max().ok_or_else(truncated)?;
        let relocations = match dynamic {
            Some(range) => read_relocations(&data, range, &segments, span)?,
            None => Vec::new(),
        };
        let sections = read_sections(&data)?;
        let table = find_symbol(&data, &sections, SYMBOL_TABLE)?;
        let statics = sections
            .iter()
            .filter(|s| s.flags & SHF_WRITE != 0 && s.size > 0 && !NOT_STATICS.contains(&s.name))
            .map(|s| s.address as usize..s.address.saturating_add(s.size) as usize)
            .collect::<Vec<_>>();
        let percpu = sections.iter().find(|s| s.name == PERCPU_SECTION).ok_or_else(truncated)?;
        let percpu = percpu.address as usize..percpu.address.saturating_add(percpu.size) as usize;
        if statics.iter().chain([&percpu]).any(|s| s.end > span || s.start > s.end)
            || table.checked_add(size_of::<crate::abi::TorporImage>()).is_none_or(|end| end > span)
        {
            return Err("a section is outside the segments".to_owned());
        }
        Ok(ImageFile { segments, relocations, table, percpu, statics, span, bytes })
    }
}

fn read_segments(data: &Bytes) -> Result<(Vec<Segment>, Option<Range<u64>>), String> {
    let (offset, size, count) = (data.u64(32)?, data.u16(54)?, data.u16(56)?);
    let mut segments = Vec::new();
    let mut dynamic = None;
    for i in 0..u64::from(count) {
        let at = offset + i * u64::from(size);
        let (kind, flags) = (data.u32(at)?, data.u32(at + 4)?);
        let (file, address) = (data.u64(at + 8)?, data.u64(at + 16)?);
        let (file_len, memory_len) = (data.u64(at + 32)?, data.u64(at + 40)?);
        // Limits the allocation for a damaged file.
        const MEMORY_MAX: u64 = 64 << 20;
        if kind == PT_LOAD {
            let in_file = file.checked_add(file_len).is_some_and(|end| end <= data.0.len() as u64);
            if address.max(memory_len) > MEMORY_MAX {
                return Err(format!(
                    "it requires {} MiB; the maximum is {}: a governor needs no statics of such a \
                     size",
                    address.max(memory_len).div_ceil(1 << 20),
                    MEMORY_MAX >> 20
                ));
            }
            if !in_file || file_len > memory_len {
                return Err(truncated());
            }
            segments.push(Segment {
                file: file as usize..(file + file_len) as usize,
                address: address as usize,
                memory_len: memory_len as usize,
                writable: flags & PF_W != 0,
                executable: flags & PF_X != 0,
            });
        } else if kind == PT_DYNAMIC {
            dynamic = Some(file..file.saturating_add(file_len));
        }
    }
    Ok((segments, dynamic))
}

fn read_relocations(
    data: &Bytes,
    dynamic: Range<u64>,
    segments: &[Segment],
    span: usize,
) -> Result<Vec<Relocation>, String> {
    let (mut table, mut size) = (0, 0);
    for at in dynamic.step_by(16) {
        let (tag, value) = (data.u64(at)?, data.u64(at + 8)?);
        match tag {
            DT_RELA => table = value,
            DT_RELASZ => size = value,
            DT_NEEDED => return Err("it needs another library".to_owned()),
            DT_PLTRELSZ | DT_RELR => return Err("it has relocations of a foreign kind".to_owned()),
            _ => {}
        }
    }
    let mut found = Vec::new();
    for address in (table..table.saturating_add(size)).step_by(24) {
        let at = file_offset(segments, address).ok_or_else(truncated)?;
        let (target, info) = (data.u64(at)?, data.u64(at + 8)?);
        if info != R_RELATIVE {
            return Err(format!("it has a relocation of type {info:#x}, which is not relative"));
        }
        let writable = segments.iter().any(|s| {
            s.writable
                && (s.address as u64..=(s.address + s.memory_len) as u64 - 8).contains(&target)
        });
        let addend = data.u64(at + 16)? as i64;
        if !writable || !(0..=span as i64).contains(&addend) {
            return Err("a relocation points outside the data".to_owned());
        }
        found.push(Relocation { address: target as usize, addend });
    }
    Ok(found)
}

fn file_offset(segments: &[Segment], address: u64) -> Option<u64> {
    segments.iter().find_map(|s| {
        let offset = address.checked_sub(s.address as u64)?;
        (offset < s.file.len() as u64).then(|| s.file.start as u64 + offset)
    })
}

fn read_sections<'a>(data: &'a Bytes) -> Result<Vec<Section<'a>>, String> {
    let (offset, size) = (data.u64(40)?, u64::from(data.u16(58)?));
    let (count, names) = (u64::from(data.u16(60)?), u64::from(data.u16(62)?));
    let header = |i: u64| offset.checked_add(i * size).ok_or_else(truncated);
    let names = data.u64(header(names)? + 24)?;
    (0..count)
        .map(|i| {
            let at = header(i)?;
            Ok(Section {
                name: data.text(names.saturating_add(data.u32(at)?.into()))?,
                kind: data.u32(at + 4)?,
                flags: data.u64(at + 8)?,
                address: data.u64(at + 16)?,
                offset: data.u64(at + 24)?,
                size: data.u64(at + 32)?,
                link: data.u32(at + 40)?,
            })
        })
        .collect()
}

fn find_symbol(data: &Bytes, sections: &[Section], name: &str) -> Result<usize, String> {
    let missing = || format!("it has no `{name}`");
    let symbols = sections.iter().find(|s| s.kind == SHT_DYNSYM).ok_or_else(missing)?;
    let strings = sections.get(symbols.link as usize).ok_or_else(truncated)?;
    for at in (symbols.offset..symbols.offset.saturating_add(symbols.size)).step_by(24) {
        if data.text(strings.offset.saturating_add(data.u32(at)?.into()))? == name {
            return Ok(data.u64(at + 8)? as usize);
        }
    }
    Err(missing())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::builtin;
    use proptest::prelude::*;
    use torpor_machine::units::Hz;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..Default::default() })]

        /// A cached file can contain anything; parsing it must return an image or an error.
        #[test]
        fn damaged_images_are_refused_without_panic(
            governor in 0..builtin::files(Kind::Governor).len(),
            cut in proptest::option::of(0..6_000_usize),
            damage in proptest::collection::vec((0..6_000_usize, any::<u8>()), 0..6),
        ) {
            let file = &builtin::files(Kind::Governor)[governor];
            let mut bytes = file.image(Hz::H100).unwrap().bytes.to_vec();
            for (at, value) in damage {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            bytes.truncate(cut.unwrap_or(usize::MAX));
            if let Ok(image) = ImageFile::parse(bytes) {
                prop_assert!(image.table < image.span);
                for segment in &image.segments {
                    prop_assert!(segment.file.end <= image.bytes.len());
                    prop_assert!(segment.address + segment.memory_len <= image.span);
                }
                for relocation in &image.relocations {
                    prop_assert!(relocation.address + 8 <= image.span);
                }
            }
        }
    }
}
