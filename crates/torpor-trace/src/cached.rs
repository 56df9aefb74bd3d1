// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The cache of recordings: files of their events, so that they need not be parsed again.
//!
//! A file's name has a hash of everything that the events depend on: the recording's bytes, the copy
//! of `/proc/kallsyms` next to it, and the source of the readers. Before it is the recording's
//! length, so that one of a new length is not hashed before it is parsed.
//!
//! The file is written while the recording is parsed. It holds what was passed on, in frames:
//!
//! ```text
//! Some((3, batch without events)), events 1 to 3, Some(...), ..., None, trace without events
//! ```
//!
//! A frame is the length of a value, that of its zstd block, and the block. The hash of all frames
//! and the name is at the end. It is verified before the first event is passed on.
//!
//! Both hashes are BLAKE3: SHA-256 takes as long as parsing. The recording's own SHA-256, which
//! results show, is in the file.

use crate::Input;
use crate::builder::{Batch, EVENT_HELD_BYTES};
use crate::bytes::{Bytes, HELD_MAX_BYTES};
use crate::error::TraceError;
use crate::huge;
use crate::model::{Event, Trace};
use blake3::{Hasher, OUT_LEN};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;
use std::time::SystemTime;
use torpor_machine::cache::{CacheFolder, Scratch, default_folder};
use torpor_machine::units::Instant;
use zstd::bulk::{Compressor, Decompressor};

/// Folder of the cache.
const RECORDINGS: &str = "recordings";
/// Hash of this crate's source, by `build.rs`.
const READERS: &str = env!("TORPOR_READERS");
/// Length of a recording from which it is cached: shorter ones are parsed in some ten milliseconds.
const RECORDING_MIN_BYTES: u64 = 4 << 20;
/// Limit of all cached recordings together; those that were used last stay.
const ALL_MAX_BYTES: u64 = 2 << 30;
/// Part of the limit that one may take.
const SHARE: u64 = 4;
/// Events of a frame: few enough to stay in a CPU's cache.
const FRAME_EVENTS: usize = 1 << 15;
const LEVEL: i32 = 1;

/// A cache of parsed recordings.
#[derive(Clone, Debug)]
pub struct Cache {
    /// Folder, as for [`CacheFolder::open`].
    pub folder: PathBuf,
    /// Length of the shortest recording that it takes.
    pub recording_min_bytes: u64,
    /// Limit of its recordings together.
    pub all_max_bytes: u64,
}

impl Cache {
    /// Returns the user's cache, if there can be one.
    pub fn of_user() -> Option<Cache> {
        let (recording_min_bytes, all_max_bytes) = (RECORDING_MIN_BYTES, ALL_MAX_BYTES);
        Some(Cache { folder: default_folder()?, recording_min_bytes, all_max_bytes })
    }

    /// Opens the cache for a recording; `None` if the recording is short or the folder of no use.
    pub(crate) fn open(&self, recording: &[u8], kallsyms: Option<&[u8]>) -> Option<Place> {
        let length = recording.len() as u64;
        if length < self.recording_min_bytes {
            return None;
        }
        let folder = CacheFolder::open(self.folder.clone()).ok()?;
        let recordings = folder.path().join(RECORDINGS);
        DirBuilder::new().recursive(true).mode(0o700).create(&recordings).ok()?;
        let mut hash = Hasher::new();
        hash.update(READERS.as_bytes());
        hash.update(blake3::hash(kallsyms.unwrap_or_default()).as_bytes());
        Some(Place { folder, recordings, length, hash, all_max_bytes: self.all_max_bytes })
    }
}

/// The cache, open for a recording.
pub(crate) struct Place {
    folder: CacheFolder,
    recordings: PathBuf,
    length: u64,
    /// Hash of what its events depend on besides its bytes.
    hash: Hasher,
    all_max_bytes: u64,
}

impl Place {
    /// Returns true if a recording of this length is there.
    pub(crate) fn is_likely(&self) -> bool {
        let start = format!("{}-", self.length);
        let mut entries = fs::read_dir(&self.recordings).into_iter().flatten().flatten();
        entries.any(|entry| entry.file_name().as_encoded_bytes().starts_with(start.as_bytes()))
    }

    /// Returns the hash to which the recording's bytes are added.
    pub(crate) fn hash(&self) -> Hasher {
        self.hash.clone()
    }

    /// Returns the name of the recording's file if the hash has all of the recording.
    pub(crate) fn name(&self, hash: &Hasher) -> Option<String> {
        let is_whole = hash.count().checked_sub(self.hash.count()) == Some(self.length);
        is_whole.then(|| format!("{}-{}", self.length, hash.finalize()))
    }

    /// Returns the file of this name. One that is damaged is removed.
    pub(crate) fn find(&self, name: &str) -> Option<Cached> {
        let path = self.recordings.join(name);
        if !fs::symlink_metadata(&path).ok()?.is_file() {
            return None;
        }
        let cached = Cached::open(&path, name);
        let _ = match cached {
            // For the limit.
            Some(_) => File::open(&path).and_then(|file| file.set_modified(SystemTime::now())),
            None => fs::remove_file(&path),
        };
        cached
    }

    /// Starts to write a recording.
    pub(crate) fn create(&self) -> io::Result<Writing> {
        let scratch = self.folder.scratch()?;
        let file = BufWriter::new(File::create(scratch.path().join(RECORDINGS))?);
        let (hash, zstd) = (Hasher::new(), Compressor::new(LEVEL)?);
        let room_bytes = self.all_max_bytes / SHARE;
        Ok(Writing { scratch, file, hash, zstd, room_bytes })
    }

    /// Removes the recordings that were not used for longest, until the others are within the limit.
    fn prune(&self) {
        let entries = fs::read_dir(&self.recordings).into_iter().flatten().flatten();
        let known = entries.filter_map(|entry| {
            let metadata = entry.metadata().ok()?;
            Some((metadata.modified().ok()?, entry.path(), metadata.len()))
        });
        let mut known: Vec<_> = known.collect();
        known.sort();
        let mut sum_bytes = 0_u64;
        for (_, path, bytes) in known.into_iter().rev() {
            sum_bytes = sum_bytes.saturating_add(bytes);
            if sum_bytes > self.all_max_bytes {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// A recording that is being written.
pub(crate) struct Writing {
    scratch: Scratch,
    file: BufWriter<File>,
    hash: Hasher,
    zstd: Compressor<'static>,
    room_bytes: u64,
}

impl Writing {
    /// Adds the next batch.
    pub(crate) fn add(&mut self, batch: &Batch) -> io::Result<()> {
        self.put(&Some((batch.events.len(), batch)))?;
        let mut time = Instant::default();
        for events in batch.events.chunks(FRAME_EVENTS) {
            let mut frame = events.to_vec();
            for event in &mut frame {
                let since_last = event.time.0.wrapping_sub(time.0);
                time = std::mem::replace(&mut event.time, Instant(since_last));
            }
            self.put(&frame)?;
        }
        Ok(())
    }

    fn put(&mut self, value: &impl Serialize) -> io::Result<()> {
        let bytes = postcard::to_stdvec(value).map_err(io::Error::other)?;
        let block = self.zstd.compress(&bytes)?;
        for length in [bytes.len(), block.len()] {
            self.write(&u32::try_from(length).map_err(io::Error::other)?.to_le_bytes())?;
        }
        self.write(&block)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let rest_bytes = self.room_bytes.checked_sub(bytes.len() as u64);
        self.room_bytes = rest_bytes.ok_or(ErrorKind::FileTooLarge)?;
        self.hash.update(bytes);
        self.file.write_all(bytes)
    }

    /// Adds the rest of the recording, and publishes all as `name`.
    pub(crate) fn finish(mut self, trace: &Trace, place: &Place, name: &str) -> io::Result<()> {
        self.put(&None::<(usize, Batch)>)?;
        self.put(trace)?;
        self.hash.update(name.as_bytes());
        self.file.write_all(self.hash.finalize().as_bytes())?;
        self.file.flush()?;
        fs::rename(self.scratch.path().join(RECORDINGS), place.recordings.join(name))?;
        place.prune();
        Ok(())
    }
}

/// A recording from the cache.
pub(crate) struct Cached {
    name: String,
    bytes: Bytes,
}

impl Cached {
    /// Opens a file; `None` if it is not as it was written, or has another name.
    fn open(path: &Path, name: &str) -> Option<Cached> {
        let bytes = Bytes::load(path, None, *HELD_MAX_BYTES, &|| true).ok()?;
        let (frames, hash) = bytes.split_last_chunk::<OUT_LEN>()?;
        let is_whole = Hasher::new().update(frames).update(name.as_bytes()).finalize() == *hash;
        is_whole.then(|| Cached { name: path.display().to_string(), bytes })
    }

    /// Passes the events of `input` on as the reader did.
    pub(crate) fn send(
        &self,
        input: &Input<'_>,
        batches: &SyncSender<Batch>,
    ) -> Result<Trace, TraceError> {
        let sent = self.frames().and_then(|frames| frames.send(input, batches));
        // First, as events or errors may come from the guard's zeros.
        self.bytes.check(&self.name)?;
        let name = input.name.to_owned();
        if input.stop.is_set() {
            return Err(TraceError::Stopped { name });
        }
        sent.map_err(|source| match source.kind() {
            ErrorKind::OutOfMemory => TraceError::OverMemory { name, max_bytes: input.max_bytes },
            _ => TraceError::Io { name: self.name.clone(), source },
        })
    }

    fn frames(&self) -> io::Result<Frames<'_>> {
        let rest = self.bytes.split_last_chunk::<OUT_LEN>().map_or(&[][..], |(frames, _)| frames);
        Ok(Frames { rest, zstd: Decompressor::new()?, bytes: Vec::new() })
    }
}

/// The frames that follow.
struct Frames<'a> {
    rest: &'a [u8],
    zstd: Decompressor<'static>,
    /// Memory for a value's bytes.
    bytes: Vec<u8>,
}

impl<'a> Frames<'a> {
    fn send(mut self, input: &Input<'_>, batches: &SyncSender<Batch>) -> io::Result<Trace> {
        let &Input { stop, held_bytes, max_bytes, .. } = input;
        let events_max = max_bytes.saturating_sub(held_bytes) / EVENT_HELD_BYTES;
        while let Some((count, mut batch)) = self.next::<Option<(usize, Batch)>>()? {
            if stop.is_set() {
                return Err(ErrorKind::Interrupted.into());
            }
            if count as u64 > events_max {
                return Err(ErrorKind::OutOfMemory.into());
            }
            batch.events = self.events(count)?;
            batch.held_bytes = held_bytes;
            // This fails if the receiver is gone; the rest is then read for its summary alone.
            let _ = batches.send(batch);
        }
        self.next()
    }

    fn events(&mut self, count: usize) -> io::Result<Vec<Event>> {
        let mut events: Vec<Event> = Vec::with_capacity(count);
        huge::advise(&mut events);
        let mut time = Instant::default();
        while events.len() < count {
            for event in self.next::<Vec<Event>>()? {
                time = Instant(time.0.wrapping_add(event.time.0));
                events.push(Event { time, ..event });
            }
        }
        Ok(events)
    }

    fn next<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let [bytes, block] = [self.length()?, self.length()?];
        let block = self.take(block)?;
        self.bytes.clear();
        self.bytes.reserve(bytes);
        self.zstd.decompress_to_buffer(block, &mut self.bytes)?;
        postcard::from_bytes(&self.bytes).map_err(io::Error::other)
    }

    fn length(&mut self) -> io::Result<usize> {
        let bytes = self.take(size_of::<u32>())?;
        Ok(u32::from_le_bytes(bytes.try_into().map_err(io::Error::other)?) as usize)
    }

    fn take(&mut self, bytes: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(ErrorKind::UnexpectedEof)?;
        self.rest = rest;
        Ok(taken)
    }
}

#[cfg(test)]
#[allow(unreachable_pub, dead_code)]
#[path = "../tests/support/events.rs"]
mod events;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::Stop;
    use proptest::strategy::{Strategy, ValueTree};
    use proptest::test_runner::TestRunner;
    use std::sync::mpsc::sync_channel;

    /// Returns the traces as they come from the cache.
    fn cached(traces: &[Trace]) -> (Vec<Vec<Event>>, Trace) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("cache");
        let cache = Cache { folder, recording_min_bytes: 0, all_max_bytes: 1 << 30 };
        let place = cache.open(b"recording", None).unwrap();
        let mut writing = place.create().unwrap();
        for trace in traces {
            let events = trace.events.clone();
            writing.add(&Batch { events, ..Batch::default() }).unwrap();
        }
        writing.finish(&traces[0], &place, "name").unwrap();
        let (sender, batches) = sync_channel(traces.len());
        let (name, kallsyms, sha256, stop) = ("recording", None, None, &Stop::default());
        let (bytes, held_bytes, max_bytes) = (b"", 0, u64::MAX);
        let input = Input { name, bytes, kallsyms, sha256, stop, held_bytes, max_bytes };
        let trace = place.find("name").unwrap().send(&input, &sender).unwrap();
        drop(sender);
        (batches.into_iter().map(|batch| batch.events).collect(), trace)
    }

    #[test]
    fn events_of_every_kind_are_kept() {
        let mut runner = TestRunner::deterministic();
        let traces: Vec<Trace> =
            (0..200).map(|_| events::trace().new_tree(&mut runner).unwrap().current()).collect();
        let mut seen = [false; events::KINDS];
        for event in traces.iter().flat_map(|trace| &trace.events) {
            seen[events::number(&event.kind)] = true;
        }
        assert_eq!(seen, [true; events::KINDS], "the random events lack a kind");
        let (batches, last) = cached(&traces);
        assert!(batches.iter().eq(traces.iter().map(|trace| &trace.events)));
        assert_eq!(last.meta, traces[0].meta);
    }

    #[test]
    fn long_batches_keep_their_times() {
        let mut one = Trace::default();
        let kind = crate::EventKind::TickStop { success: true };
        let cpu = torpor_machine::units::CpuId(3);
        let times = (0..FRAME_EVENTS as i64 * 5 / 2).map(|at| Instant(at * at - 7));
        one.events = times.map(|time| Event { time, cpu, kind }).collect();
        let (batches, _) = cached(std::slice::from_ref(&one));
        assert!(batches == [one.events]);
    }
}
