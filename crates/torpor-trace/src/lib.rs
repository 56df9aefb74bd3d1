// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Reads recordings of a running Linux kernel into one event model.
//!
//! ```
//! let error = torpor_trace::read_bytes("notes.txt", b"hello").unwrap_err();
//! assert!(error.to_string().contains("expected one of: perf.data"));
//! ```
//!
//! A reader is a folder: it tokenizes its format, fills what a tracepoint's spec asks for
//! (`tracepoint`), and counts whatever it had to skip (`loss`). What came out of a file is a
//! [`Trace`]: events in order, what they [carry](Carries), and every [`Loss`].

#![warn(unreachable_pub)]
// Numbers of a damaged file may be any.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod archive;
mod builder;
mod bytes;
mod cursor;
mod error;
mod format;
mod ftrace;
mod ftrace_text;
mod gap;
mod hrtimers;
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

pub use error::TraceError;
pub use format::{Format, formats};
pub use ftrace_text::write_ftrace_text;
pub use loss::{LossKind, loss_kinds};
pub use model::*;
pub use perfetto::{Slice, Track, write_perfetto, write_tracks};
pub use stop::GoOn;
pub use stream::{Sink, SoFar, Source, read_while, read_within, stream, stream_while};
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
/// If a copy of the machine's `/proc/kallsyms` lies next to it, named as the recording with
/// `.kallsyms` added, timer functions that the recording gives by address alone get their names.
///
/// # Errors
/// If the file cannot be opened, is empty, is no recording of a known format, or is damaged so
/// that nothing of it could be read. Lesser damage is reported in [`Trace::losses`].
pub fn read(path: &Path) -> Result<Trace, TraceError> {
    read_while(path, &|| true)
}

/// Reads a recording that is in memory; `name` is what errors call it.
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
    let input = Input { name, bytes, kallsyms, sha256: None, stop: &stop, max_bytes };
    parse(input, |format| Builder::new(format, stop.clone()), &|| ())
}

fn kallsyms_beside(path: &Path, go_on: GoOn<'_>) -> Result<Option<Bytes>, TraceError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".kallsyms");
    let path = PathBuf::from(name);
    if path.exists() { Bytes::load(&path, None, go_on).map(Some) } else { Ok(None) }
}

/// Input of a reader.
struct Input<'a> {
    name: &'a str,
    bytes: &'a [u8],
    kallsyms: Option<&'a [u8]>,
    /// Hash of the bytes, if they have been read before.
    sha256: Option<&'a str>,
    stop: &'a Stop,
    /// Limit for the unpacked bytes and the events together.
    max_bytes: u64,
}

/// Reads a recording into the builder that `builder` makes for the format's name. `pass_by` is
/// called each time some more of the bytes has been hashed.
fn parse(
    input: Input<'_>,
    builder: impl FnOnce(&'static str) -> Builder,
    pass_by: &(dyn Fn() + Sync),
) -> Result<Trace, TraceError> {
    let Input { name, bytes, kallsyms, sha256: known_sha256, stop, max_bytes } = input;
    if bytes.is_empty() {
        return Err(TraceError::Empty { name: name.to_owned() });
    }
    format::check_head(name, bytes)?;
    let (content, loss) = unpacked(name, bytes, stop, max_bytes)?;
    if stop.is_set() {
        return Err(TraceError::Stopped { name: name.to_owned() });
    }
    let Some(format) = format::detect(&content) else {
        return Err(format::unknown(name, &content));
    };
    let unpacked_bytes = if let Cow::Owned(unpacked) = &content { unpacked.len() } else { 0 };
    let mut out = builder(format.name).bounded(unpacked_bytes as u64, max_bytes);
    if let Some(loss) = loss {
        out.lose(loss, 1);
    }
    let hash = || sha256(bytes, stop, pass_by);
    let sha256 = if let Some(known) = known_sha256 {
        format.read(&content, kallsyms, &mut out).map(|()| known.to_owned())
    } else if bytes.len() < PARALLEL_MIN_BYTES {
        format.read(&content, kallsyms, &mut out).map(|()| hash())
    } else {
        // The hash and the events need the same bytes and nothing of each other.
        std::thread::scope(|scope| {
            let hash = scope.spawn(hash);
            let outcome = format.read(&content, kallsyms, &mut out);
            let sha256 = hash.join().expect("hashing bytes does not fail");
            outcome.map(|()| sha256)
        })
    };
    if out.is_over_memory() {
        return Err(TraceError::OverMemory { name: name.to_owned(), max_bytes });
    }
    if stop.is_set() {
        return Err(TraceError::Stopped { name: name.to_owned() });
    }
    out.meta.sha256 = sha256.map_err(|malformed| malformed.named(name, format.name))?;
    Ok(out.finish())
}

/// The content of a packed file, or the bytes as they are; and why not all of it came out.
fn unpacked<'a>(
    name: &str,
    bytes: &'a [u8],
    stop: &Stop,
    max_bytes: u64,
) -> Result<(Cow<'a, [u8]>, Option<&'static LossKind>), TraceError> {
    let go_on = || !stop.is_set();
    let check_room = |inflated: &Inflated| match inflated.is_too_large {
        true => Err(TraceError::OverMemory { name: name.to_owned(), max_bytes }),
        false => Ok(()),
    };
    let (mut content, mut loss) = (Cow::Borrowed(bytes), None);
    if archive::is_zip(bytes) {
        let inflated = archive::recording(name, bytes, max_bytes, &go_on)?;
        check_room(&inflated)?;
        loss = inflated.loss();
        content = Cow::Owned(inflated.bytes);
    }
    // A member of an archive may be packed once more.
    if let Some(packing) = Packing::of(&content) {
        let inflated = packing.unpack(&content, max_bytes, &go_on);
        check_room(&inflated)?;
        loss = loss.or(inflated.loss());
        content = Cow::Owned(inflated.bytes);
    }
    Ok((content, loss))
}

/// A thread costs as much as hashing some ten kB.
const PARALLEL_MIN_BYTES: usize = 256 << 10;

fn sha256(bytes: &[u8], stop: &Stop, pass_by: &(dyn Fn() + Sync)) -> String {
    let mut hash = Sha256::new();
    for part in bytes.chunks(STEP_BYTES) {
        if stop.is_set() {
            break;
        }
        hash.update(part);
        pass_by();
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// For the benchmark alone: the events without the hash, on the caller's core.
#[doc(hidden)]
pub mod bench_support {
    /// # Panics
    /// If the bytes are no recording.
    pub fn parse(bytes: &[u8]) -> crate::Trace {
        let format = crate::format::detect(bytes).expect("a recording");
        let mut out = crate::Builder::new(format.name, crate::stop::Stop::default());
        format.read(bytes, None, &mut out).expect("a sound recording");
        out.finish()
    }
}
