// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Times before which no event follows.
//!
//! A recorder reads the CPUs' buffers one after the other, and a file may hold one data source after
//! the other, so a packet may have events of any time. The events of a long recording are passed on
//! as they are read: this pass over the packets to come finds how early their events are.

use super::wire::{Fields, Value};
use super::{Reader, bundle, clock, packet};
use crate::builder::Builder;
use std::ops::Range;

/// The earliest times of a file's packets.
pub(super) struct Ahead {
    /// Start of each block of packets, and the earliest time of its events and all later ones.
    blocks: Vec<(usize, u64)>,
}

/// Length of a block of packets.
const BLOCK_BYTES: usize = 64 << 10;

impl Ahead {
    /// Returns a time before which no packet at `pos` or behind has an event.
    pub(super) fn earliest_ns(&self, pos: usize) -> u64 {
        let behind = self.blocks.partition_point(|(start, _)| *start <= pos);
        let block = behind.checked_sub(1).and_then(|index| self.blocks.get(index));
        block.map_or(0, |(_, earliest_ns)| *earliest_ns)
    }
}

impl Reader<'_> {
    /// Reads the times of the packets of `file` from `pos` on, and what else describes the events
    /// of all packets.
    pub(super) fn look_ahead(&mut self, file: &[u8], pos: usize, out: &mut Builder) -> Ahead {
        let mut blocks = vec![(pos, u64::MAX)];
        self.each_packet(&file[pos..], true, out, &mut |at, earliest_ns| {
            let at = pos.saturating_add(at.start);
            if let Some((start, block_ns)) = blocks.last_mut() {
                if at.saturating_sub(*start) < BLOCK_BYTES {
                    *block_ns = earliest_ns.min(*block_ns);
                } else {
                    blocks.push((at, earliest_ns));
                }
            }
        });
        let mut earliest_ns = u64::MAX;
        for (_, block_ns) in blocks.iter_mut().rev() {
            earliest_ns = earliest_ns.min(*block_ns);
            *block_ns = earliest_ns;
        }
        Ahead { blocks }
    }

    /// Calls `found` with the place and the earliest time of each packet, of a cut one, too.
    fn each_packet(
        &mut self,
        bytes: &[u8],
        is_file: bool,
        out: &mut Builder,
        found: &mut dyn FnMut(Range<usize>, u64),
    ) {
        let mut fields = Fields::new(bytes);
        let mut start = 0;
        while let Some((number, value)) = fields.next_field() {
            if let (1, Value::Bytes(packet)) = (number, value) {
                found(start..fields.pos(), self.earliest_of_packet(packet, is_file, out));
            }
            start = fields.pos();
            if out.is_stopped() {
                return;
            }
        }
        if let (Some(_), Some((1, packet))) = (fields.fault(), fields.cut_field()) {
            found(start..bytes.len(), self.earliest_of_packet(packet, is_file, out));
        }
    }

    fn earliest_of_packet(&mut self, bytes: &[u8], is_file: bool, out: &mut Builder) -> u64 {
        let mut earliest_ns = u64::MAX;
        let mut fields = Fields::new(bytes);
        while let Some((number, value)) = fields.next_field() {
            match (number, value) {
                (packet::FTRACE_EVENTS, Value::Bytes(bundle)) => {
                    earliest_ns = earliest_ns.min(self.earliest_of_bundle(bundle));
                }
                (packet::INTERNED_DATA, Value::Bytes(data)) => self.interned(data, out),
                (packet::CLOCK_SNAPSHOT, Value::Bytes(snapshot)) => {
                    self.boot_minus_mono_ns =
                        self.boot_minus_mono_ns.or_else(|| clock::boot_minus_mono_ns(snapshot));
                }
                (packet::COMPRESSED | packet::ZSTD_COMPRESSED, Value::Bytes(block)) if is_file => {
                    let unpacked = super::unpacked(number, block).bytes;
                    self.each_packet(&unpacked, false, out, &mut |_, packet_ns| {
                        earliest_ns = earliest_ns.min(packet_ns);
                    });
                }
                _ => {}
            }
        }
        if let (Some(_), Some((packet::FTRACE_EVENTS, rest))) = (fields.fault(), fields.cut_field())
        {
            earliest_ns = earliest_ns.min(self.earliest_of_bundle(rest));
        }
        earliest_ns
    }

    /// Returns 0 for a bundle in another clock, whose times are converted.
    fn earliest_of_bundle(&self, bundle: &[u8]) -> u64 {
        let (earliest_ns, clock) = bundle::earliest_ns(bundle);
        if self.bundles.clock.number().is_none_or(|first| first == clock) { earliest_ns } else { 0 }
    }
}
