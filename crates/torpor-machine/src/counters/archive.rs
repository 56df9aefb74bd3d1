// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Tar files of the tree, packed or not.

use crate::counters::builder::{Builder, VALUE_BYTES_MAX};
use crate::counters::error::Failure;
use crate::counters::path::{self, Key};
use std::io::Read;

/// Limits of an unpacked text, and of an archive.
const TEXT_BYTES_MAX: u64 = 256 << 20;
const ARCHIVE_BYTES_MAX: u64 = 2 << 30;
/// Position of `ustar` in a tar file's first block, and the block's length.
const MAGIC_AT: usize = 257;
const BLOCK: usize = 512;

pub(crate) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

pub(crate) fn is_tar(bytes: &[u8]) -> bool {
    bytes.len() >= BLOCK && bytes[MAGIC_AT..].starts_with(b"ustar")
}

/// Contents of a gzip file.
pub(crate) enum Unpacked<'a> {
    Text(Vec<u8>),
    /// Not unpacked yet: an archive is read while it is unpacked.
    Tar(Box<dyn Read + 'a>),
}

pub(crate) fn unpack(bytes: &[u8]) -> Result<Unpacked<'_>, Failure> {
    let mut decoder = flate2::bufread::MultiGzDecoder::new(bytes);
    let mut start = Vec::new();
    let broken = |error: std::io::Error| {
        Failure::new(
            format!("it cannot be unpacked: {error}"),
            "the file is damaged, or its copy was cut short",
        )
    };
    decoder.by_ref().take(BLOCK as u64).read_to_end(&mut start).map_err(broken)?;
    if is_tar(&start) {
        return Ok(Unpacked::Tar(Box::new(std::io::Cursor::new(start).chain(decoder))));
    }
    decoder.take(TEXT_BYTES_MAX).read_to_end(&mut start).map_err(broken)?;
    if start.len() as u64 >= TEXT_BYTES_MAX {
        return Err(Failure::new(
            format!("it unpacks to more than {TEXT_BYTES_MAX} bytes"),
            "a dump of the largest machine is smaller; is this the right file?",
        ));
    }
    Ok(Unpacked::Text(start))
}

/// Reads the values of an archive up to its end, or to a damaged place, which is reported.
pub(crate) fn read(archive: impl Read, builder: &mut Builder) {
    let mut archive = tar::Archive::new(archive.take(ARCHIVE_BYTES_MAX));
    let read = read_entries(&mut archive, builder);
    if let Err(error) = read {
        builder.note(format!("the archive is truncated, the rest is missing: {error}"));
    }
}

fn read_entries(
    archive: &mut tar::Archive<impl Read>,
    builder: &mut Builder,
) -> Result<(), std::io::Error> {
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            see_folder(&path, builder);
        }
        if let Some(key) = path::parse(&path).filter(|_| kind.is_file()) {
            let mut value = Vec::new();
            entry.by_ref().take(VALUE_BYTES_MAX as u64).read_to_end(&mut value)?;
            builder.put(key, &path, &value);
        }
    }
    Ok(())
}

/// A CPU without idle states shows in its folder alone.
fn see_folder(path: &str, builder: &mut Builder) {
    let online = format!("{}/online", path.trim_end_matches('/'));
    if let Some(Key::Cpu { cpu, .. }) = path::parse(&online) {
        builder.see_cpu(cpu);
    }
}
