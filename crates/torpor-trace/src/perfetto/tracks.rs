// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Writes tracks of slices, to be appended to a Perfetto trace: the viewer shows a governor's
//! choices next to the recording.

use super::schema::packet;
use super::write::{BOOT_CLOCK, MONOTONIC_CLOCK, Packets};
use std::io::{self, Write};
use torpor_machine::units::Instant;

/// Sequence of this writer, apart from the interned data of others.
const SEQUENCE: u64 = 0x746f_7270;
/// First number of tracks, apart from those of recorders.
const FIRST_UUID: u64 = 0x746f_7270_6f72_0000;
const TIMESTAMP: u32 = 8;
const TIMESTAMP_CLOCK: u32 = 58;
const TRACK_EVENT: u32 = 11;
const TRACK_DESCRIPTOR: u32 = 60;
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;

/// A named interval. The slices of a track follow or contain each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    pub from: Instant,
    pub to: Instant,
    pub name: String,
}

/// A named track of slices in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    pub name: String,
    /// Slices in order of their start; on a tie, the outer one first.
    pub slices: Vec<Slice>,
}

/// Writes groups of tracks as packets. `clock` is the recording's, as
/// [`Meta::clock`](crate::Meta::clock) names it.
///
/// # Errors
/// Errors of `out`.
pub fn write_tracks(
    out: impl Write,
    clock: &str,
    groups: &[(String, Vec<Track>)],
) -> io::Result<()> {
    let clock = if clock == "mono" { MONOTONIC_CLOCK } else { BOOT_CLOCK };
    let mut out = Packets::new(out);
    let mut uuid = FIRST_UUID;
    for (name, tracks) in groups {
        let group = uuid;
        describe(&mut out, group, None, name)?;
        for track in tracks {
            uuid = uuid.wrapping_add(1);
            describe(&mut out, uuid, Some(group), &track.name)?;
            // Ends of the open slices, the innermost last.
            let mut open: Vec<Instant> = Vec::new();
            for slice in &track.slices {
                while let Some(&end) = open.last().filter(|end| **end <= slice.from) {
                    open.pop();
                    event(&mut out, clock, uuid, end, None)?;
                }
                event(&mut out, clock, uuid, slice.from, Some(&slice.name))?;
                open.push(slice.to);
            }
            while let Some(end) = open.pop() {
                event(&mut out, clock, uuid, end, None)?;
            }
        }
        uuid = uuid.wrapping_add(1);
    }
    out.flush()
}

fn describe(
    out: &mut Packets<impl Write>,
    uuid: u64,
    parent: Option<u64>,
    name: &str,
) -> io::Result<()> {
    out.packet(|packet| {
        packet.number(packet::SEQUENCE_ID, SEQUENCE);
        packet.nested(TRACK_DESCRIPTOR, |descriptor| {
            descriptor.number(1, uuid);
            descriptor.bytes(2, name.as_bytes());
            if let Some(parent) = parent {
                descriptor.number(5, parent);
            }
        });
    })
}

/// Writes the start of a slice with a name, or without one the end of the innermost.
fn event(
    out: &mut Packets<impl Write>,
    clock: u64,
    uuid: u64,
    at: Instant,
    name: Option<&str>,
) -> io::Result<()> {
    out.packet(|packet| {
        packet.number(TIMESTAMP, at.0 as u64);
        packet.number(packet::SEQUENCE_ID, SEQUENCE);
        packet.nested(TRACK_EVENT, |event| {
            event.number(9, if name.is_some() { SLICE_BEGIN } else { SLICE_END });
            event.number(11, uuid);
            if let Some(name) = name {
                event.bytes(22, b"torpor");
                event.bytes(23, name.as_bytes());
            }
        });
        packet.number(TIMESTAMP_CLOCK, clock);
    })
}
