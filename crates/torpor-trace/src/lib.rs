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

mod builder;
mod bytes;
mod cursor;
mod error;
mod format;
mod ftrace;
mod ftrace_text;
mod hrtimers;
mod inflate;
mod kallsyms;
mod loss;
mod model;
mod perf_data;
mod perfetto;
mod stream;
mod trace_dat;
mod tracepoint;

pub use error::TraceError;
pub use format::{Format, formats};
pub use ftrace_text::write_ftrace_text;
pub use model::*;
pub use perfetto::write_perfetto;
pub use stream::{Sink, SoFar, Source, stream};

use builder::Builder;
use bytes::{Bytes, STEP_BYTES};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Reads a recording, whatever its format; see [`formats`].
///
/// If a copy of the machine's `/proc/kallsyms` lies beside it, named as the recording with
/// `.kallsyms` added, timer functions that the recording gives by address alone get their names.
///
/// # Errors
/// If the file cannot be opened, is empty, is no recording of a known format, or is damaged so
/// that nothing of it could be read. Lesser damage is told in [`Trace::losses`].
pub fn read(path: &Path) -> Result<Trace, TraceError> {
    let kallsyms = kallsyms_beside(path)?;
    read_with_kallsyms(&path.display().to_string(), &Bytes::load(path)?, kallsyms.as_deref())
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
    parse(Input { name, bytes, kallsyms, sha256: None }, Builder::new, &|| ())
}

fn kallsyms_beside(path: &Path) -> Result<Option<Bytes>, TraceError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".kallsyms");
    let path = PathBuf::from(name);
    if path.exists() { Bytes::load(&path).map(Some) } else { Ok(None) }
}

/// What there is to read.
struct Input<'a> {
    name: &'a str,
    bytes: &'a [u8],
    kallsyms: Option<&'a [u8]>,
    /// Of the bytes, if they have been read before.
    sha256: Option<&'a str>,
}

/// Reads a recording into the builder that `builder` makes for the format's name. `pass_by` is
/// called each time some more of the bytes has been hashed.
fn parse(
    input: Input<'_>,
    builder: impl FnOnce(&'static str) -> Builder,
    pass_by: &(dyn Fn() + Sync),
) -> Result<Trace, TraceError> {
    let Input { name, bytes, kallsyms, sha256: known_sha256 } = input;
    if bytes.is_empty() {
        return Err(TraceError::Empty { name: name.to_owned() });
    }
    let (content, is_whole) = unpacked(bytes);
    let Some(format) = format::detect(&content) else {
        let (found, hint) = format::describe(&content);
        return Err(TraceError::UnknownFormat { name: name.to_owned(), found, hint });
    };
    let mut out = builder(format.name);
    if !is_whole {
        out.lose(&loss::INFLATE_FAILED, 1);
    }
    let sha256 = if let Some(known) = known_sha256 {
        format.read(&content, kallsyms, &mut out).map(|()| known.to_owned())
    } else if bytes.len() < PARALLEL_MIN_BYTES {
        format.read(&content, kallsyms, &mut out).map(|()| sha256(bytes, pass_by))
    } else {
        // The hash and the events need the same bytes and nothing of each other.
        std::thread::scope(|scope| {
            let hash = scope.spawn(|| sha256(bytes, pass_by));
            let outcome = format.read(&content, kallsyms, &mut out);
            let sha256 = hash.join().expect("hashing bytes does not fail");
            outcome.map(|()| sha256)
        })
    }
    .map_err(|malformed| malformed.named(name, format.name))?;
    out.meta.sha256 = sha256;
    Ok(out.finish())
}

/// The content of a gzip file, or the bytes as they are; and whether all of it came out.
fn unpacked(bytes: &[u8]) -> (Cow<'_, [u8]>, bool) {
    if format::is_gzip(bytes) {
        let inflated = inflate::gzip(bytes);
        (Cow::Owned(inflated.bytes), inflated.is_whole)
    } else {
        (Cow::Borrowed(bytes), true)
    }
}

/// A thread costs as much as hashing some ten kB.
const PARALLEL_MIN_BYTES: usize = 256 << 10;

fn sha256(bytes: &[u8], pass_by: &(dyn Fn() + Sync)) -> String {
    let mut hash = Sha256::new();
    for part in bytes.chunks(STEP_BYTES) {
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
        let mut out = crate::Builder::new(format.name);
        format.read(bytes, None, &mut out).expect("a sound recording");
        out.finish()
    }
}
