// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Reads recordings of a running Linux kernel into one event model.
//!
//! ```
//! let error = torpor_trace::read_bytes("notes.txt", b"hello").unwrap_err();
//! assert!(error.to_string().contains("expected one of: perf.data"));
//! ```
//!
//! Each format has a reader in a folder of its own. It tokenizes the bytes, fills in the fields
//! that a tracepoint's spec names (`tracepoint`), and counts what it skips (`loss`). The result is
//! a [`Trace`]: events in order of time, the kinds of data it [carries](Carries), and every
//! [`Loss`].

#![warn(unreachable_pub)]
// A damaged file may hold any number.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

// Test code that is shared with `tests/` uses this crate's name.
#[cfg(test)]
extern crate self as torpor_trace;

mod archive;
mod builder;
mod bytes;
mod cached;
mod cursor;
mod error;
mod feed;
mod format;
mod ftrace;
mod ftrace_text;
mod gap;
mod hrtimers;
mod huge;
mod inflate;
mod kallsyms;
mod loss;
mod model;
mod perf_data;
mod perfetto;
mod stop;
mod stream;
mod trace_dat;
mod tracepoint;
mod wakeups;

pub use cached::Cache;
pub use error::TraceError;
pub use feed::{Feed, Part};
pub use format::{Format, formats, what};
pub use ftrace_text::write_ftrace_text;
pub use loss::{LossKind, loss_kinds};
pub use model::*;
pub use perfetto::{Slice, Track, write_perfetto, write_tracks};
pub use stop::GoOn;
pub use stream::{Sink, SoFar, Source, machine_named, read_while, read_within, stream};
pub use tracepoint::event_names;
pub use wakeups::{Wakeups, Woken};

use builder::Builder;
use bytes::{Bytes, HELD_MAX_BYTES, STEP_BYTES};
use inflate::{Inflated, Packing};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use stop::Stop;

/// Reads a recording, whatever its format; see [`formats`]. `-` is standard input.
///
/// A copy of the machine's `/proc/kallsyms` next to it, named like the recording plus `.kallsyms`,
/// gives names to timer functions that the recording holds by address.
///
/// # Errors
/// If the file cannot be opened, is empty, has an unknown format, or is too damaged to read any of
/// it. Lesser damage is reported in [`Trace::losses`].
pub fn read(path: &Path) -> Result<Trace, TraceError> {
    read_while(path, &|| true)
}

/// Reads a recording from memory. Errors name it `name`.
///
/// # Errors
/// As [`read`].
pub fn read_bytes(name: &str, bytes: &[u8]) -> Result<Trace, TraceError> {
    read_with_kallsyms(name, bytes, None)
}

/// As [`read_bytes`], with the text of the recorded machine's `/proc/kallsyms`.
///
/// # Errors
/// As [`read`].
pub fn read_with_kallsyms(
    name: &str,
    bytes: &[u8],
    kallsyms: Option<&[u8]>,
) -> Result<Trace, TraceError> {
    let stop = Stop::default();
    let max_bytes = *HELD_MAX_BYTES;
    let (sha256, held_bytes) = (None, 0);
    let input = Input { name, bytes, kallsyms, sha256, stop: &stop, held_bytes, max_bytes };
    parse(input, |format| Builder::new(format, stop.clone()), &|_| ())
}

/// Returns the default limit of a recording's memory, in bytes: half of the machine's, and at most
/// 8 GiB.
pub fn held_max_bytes() -> u64 {
    *HELD_MAX_BYTES
}

fn kallsyms_beside(path: &Path, go_on: GoOn<'_>) -> Result<Option<Bytes>, TraceError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".kallsyms");
    let path = PathBuf::from(name);
    if path.exists() {
        Bytes::load(&path, None, *HELD_MAX_BYTES, go_on).map(Some)
    } else {
        Ok(None)
    }
}

/// Input of a reader.
struct Input<'a> {
    name: &'a str,
    bytes: &'a [u8],
    kallsyms: Option<&'a [u8]>,
    /// Hash of the bytes, if it is known from an earlier pass.
    sha256: Option<&'a str>,
    stop: &'a Stop,
    /// Memory of `bytes` that counts for the limit: none of a map or of a caller's bytes.
    held_bytes: u64,
    /// Limit for these, the unpacked bytes and the events together.
    max_bytes: u64,
}

/// Reads a recording into the builder that `builder` makes for the format's name. `on_hashed` takes
/// each part that was hashed, [`STEP_BYTES`] long.
fn parse(
    input: Input<'_>,
    builder: impl FnOnce(&'static str) -> Builder,
    on_hashed: &(dyn Fn(&[u8]) + Sync),
) -> Result<Trace, TraceError> {
    let Input { name, bytes, kallsyms, sha256: known_sha256, stop, held_bytes, max_bytes } = input;
    head_format(name, bytes)?;
    let (content, loss) = unpacked(name, bytes, stop, held_bytes, max_bytes)?;
    if stop.is_set() {
        return Err(TraceError::Stopped { name: name.to_owned() });
    }
    let Some(format) = format::detect(&content) else {
        return Err(format::unknown(name, &content));
    };
    let unpacked_bytes = if let Cow::Owned(unpacked) = &content { unpacked.len() } else { 0 };
    let held_bytes = held_bytes.saturating_add(unpacked_bytes as u64);
    let mut out = builder(format.name).bounded(held_bytes, max_bytes);
    if let Some(loss) = loss {
        out.lose(loss, 1);
    }
    let hash = || sha256(bytes, stop, on_hashed);
    let mut read = || (format.read)(&content, kallsyms, &mut out);
    let (outcome, sha256) = match known_sha256 {
        Some(known) => (read(), known.to_owned()),
        None if bytes.len() < PARALLEL_MIN_BYTES => (read(), hash()),
        None => std::thread::scope(|scope| {
            let hash = scope.spawn(hash);
            (read(), hash.join().expect("hashing bytes does not fail"))
        }),
    };
    if out.is_over_memory() {
        return Err(TraceError::OverMemory { name: name.to_owned(), max_bytes });
    }
    if stop.is_set() {
        return Err(TraceError::Stopped { name: name.to_owned() });
    }
    outcome.map_err(|malformed| malformed.named(name, format.name))?;
    out.meta.sha256 = sha256;
    Ok(out.finish())
}

/// Returns the format by the head of a file; `None` for an archive.
fn head_format(name: &str, bytes: &[u8]) -> Result<Option<&'static Format>, TraceError> {
    if bytes.is_empty() {
        return Err(TraceError::Empty { name: name.to_owned() });
    }
    format::of_head(name, bytes)
}

/// Unpacks a packed file and returns others as they are, with the loss if unpacking failed midway.
fn unpacked<'a>(
    name: &str,
    bytes: &'a [u8],
    stop: &Stop,
    held_bytes: u64,
    max_bytes: u64,
) -> Result<(Cow<'a, [u8]>, Option<&'static LossKind>), TraceError> {
    let go_on = || !stop.is_set();
    let check_room = |inflated: &Inflated| match inflated.is_too_large {
        true => Err(TraceError::OverMemory { name: name.to_owned(), max_bytes }),
        false => Ok(()),
    };
    let room_bytes = max_bytes.saturating_sub(held_bytes);
    let (mut content, mut loss) = (Cow::Borrowed(bytes), None);
    if archive::is_zip(bytes) {
        let inflated = archive::recording(name, bytes, room_bytes, &go_on)?;
        check_room(&inflated)?;
        loss = inflate::loss_of(&inflated);
        content = Cow::Owned(inflated.bytes);
    }
    // A member of an archive may itself be compressed.
    if let Some(packing) = Packing::of(&content) {
        let inflated = packing.unpack(&content, room_bytes, &go_on);
        check_room(&inflated)?;
        loss = loss.or(inflate::loss_of(&inflated));
        content = Cow::Owned(inflated.bytes);
    }
    Ok((content, loss))
}

/// Shorter recordings are hashed on the reader's thread: starting one costs as much as hashing
/// tens of kB.
const PARALLEL_MIN_BYTES: usize = 256 << 10;

fn sha256(bytes: &[u8], stop: &Stop, on_hashed: &(dyn Fn(&[u8]) + Sync)) -> String {
    let mut hash = Sha256::new();
    for part in bytes.chunks(STEP_BYTES) {
        if stop.is_set() {
            break;
        }
        hash.update(part);
        on_hashed(part);
    }
    hex(&hash.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads events without hashing, on the caller's core, for benchmarks.
#[doc(hidden)]
pub mod bench_support {
    /// # Panics
    /// If the bytes are not a recording.
    pub fn parse(bytes: &[u8]) -> crate::Trace {
        let format = crate::format::detect(bytes).expect("a recording");
        let mut out = crate::Builder::new(format.name, crate::stop::Stop::default());
        (format.read)(bytes, None, &mut out).expect("a sound recording");
        out.finish()
    }
}
