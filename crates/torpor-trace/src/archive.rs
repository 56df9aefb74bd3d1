// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! ZIP archives, such as Android bug reports: finds the one recording inside.

use crate::bytes::HEAD_BYTES;
use crate::error::TraceError;
use crate::format;
use crate::inflate::{Inflated, Packing, drain};
use crate::stop::GoOn;
use std::io::Cursor;
use zip::ZipArchive;

/// A bug report has a few thousand files.
const MEMBERS_MAX: usize = 100_000;
/// Names listed in an error.
const NAMES_MAX: usize = 5;

pub(crate) fn is_zip(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06")
}

/// Unpacks the only member that is a recording.
///
/// Each member is recognised by its first bytes, so only these and the recording itself take
/// memory, whatever sizes the archive claims.
pub(crate) fn recording(
    name: &str,
    bytes: &[u8],
    max: u64,
    go_on: GoOn<'_>,
) -> Result<Inflated, TraceError> {
    let refuse = |found: String, hint: &str| Err(format::refused(name, found, hint.to_owned()));
    let mut archive = match ZipArchive::new(Cursor::new(bytes)) {
        Ok(archive) => archive,
        Err(error) => {
            let found = format!("a ZIP archive that cannot be opened ({error})");
            return refuse(found, "copy it again: its list of files is at its end");
        }
    };
    if archive.len() > MEMBERS_MAX {
        let found = format!("a ZIP archive of {} files", archive.len());
        return refuse(found, "unpack it and name the recording inside");
    }
    let (mut found, mut unread) = (Vec::new(), None);
    for index in 0..archive.len() {
        if !go_on() {
            return Ok(Inflated::default());
        }
        match archive.by_index(index) {
            Ok(member) if member.is_file() => {
                let member_name = member.name().to_owned();
                let head = drain(member, HEAD_BYTES as u64, go_on).bytes;
                if is_recording(&head) {
                    found.push((index, member_name));
                }
            }
            Ok(_) => {}
            Err(error) => unread = unread.or(Some(error.to_string())),
        }
    }
    match found.as_slice() {
        [(index, _)] => Ok(match archive.by_index(*index) {
            Ok(member) => drain(member, max, go_on),
            Err(_) => Inflated::default(),
        }),
        [] => {
            let why = unread.map(|error| format!(" ({error})")).unwrap_or_default();
            let files = archive.len();
            refuse(
                format!("a ZIP archive of {files} files without a recording that can be read{why}"),
                "unpack it and name the recording, if there is one",
            )
        }
        several => {
            let names: Vec<&str> = several.iter().map(|(_, name)| name.as_str()).collect();
            let shown = names.get(..NAMES_MAX).unwrap_or(&names).join("`, `");
            refuse(
                format!("a ZIP archive with {} recordings: `{shown}`", names.len()),
                "choose one: `unzip -p ARCHIVE RECORDING >recording`, and name that",
            )
        }
    }
}

fn is_recording(head: &[u8]) -> bool {
    match Packing::of(head) {
        Some(packing) => {
            let unpacked = packing.unpack(head, HEAD_BYTES as u64, &|| true);
            format::detect(&unpacked.bytes).is_some()
        }
        None => format::detect(head).is_some(),
    }
}
