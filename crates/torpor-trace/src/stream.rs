// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Recordings larger than memory: events are passed on while the file is being read.

use crate::builder::{Batch, Builder};
use crate::bytes::{Bytes, STEP_BYTES};
use crate::error::TraceError;
use crate::model::{Event, Names, Trace};
use crate::{kallsyms_beside, parse};
use std::path::Path;
use std::sync::mpsc::sync_channel;

/// How many batches the reader may be ahead of who takes them.
const BATCHES_AHEAD: usize = 2;

/// Takes the events of a recording as they are read.
pub trait Sink {
    /// The next events, in order of time. The first call has a million of them, or all there are:
    /// enough to learn from it what is the same throughout a recording. `names` has the texts of
    /// all names so far.
    fn events(&mut self, events: &[Event], names: &Names);

    /// How much of the file was read so far; 0 of a format that cannot tell.
    fn progress(&mut self, read_bytes: u64, total_bytes: u64) {
        let _ = (read_bytes, total_bytes);
    }
}

/// Reads a recording as [`read`](crate::read) does, and passes its events on. What comes back in
/// the end is the trace without them.
///
/// Memory does not grow with the length of a recording whose format allows it: `trace.dat`, and
/// `perf.data`. Others, and files inside gzip, are held as a whole.
///
/// # Errors
/// As [`read`](crate::read). Events may have been passed on before.
pub fn stream(path: &Path, sink: &mut dyn Sink) -> Result<Trace, TraceError> {
    let kallsyms = kallsyms_beside(path)?;
    let bytes = Bytes::load(path)?;
    let total_bytes = bytes.len() as u64;
    let (sender, batches) = sync_channel(BATCHES_AHEAD);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let name = path.display().to_string();
            let builder = |format| Builder::sending(format, sender);
            parse(&name, &bytes, kallsyms.as_deref(), builder, &|| bytes.let_go())
        });
        let mut names = Names::default();
        let mut let_go_bytes = 0;
        for Batch { events, names: new_names, read_bytes } in batches {
            names.extend(new_names);
            sink.events(&events, &names);
            sink.progress(read_bytes, total_bytes);
            if read_bytes >= let_go_bytes + STEP_BYTES as u64 {
                let_go_bytes = read_bytes;
                bytes.let_go();
            }
        }
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
