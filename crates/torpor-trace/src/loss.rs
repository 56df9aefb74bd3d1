// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The losses that readers report: what was skipped, and how to avoid it.

use crate::model::{Loss, Severity};
use std::collections::BTreeMap;

/// A kind of loss. Keys are stable: scripts and golden files use them.
#[derive(Debug)]
pub struct LossKind {
    pub key: &'static str,
    pub severity: Severity,
    pub advice: &'static str,
}

pub fn loss_kinds() -> &'static [&'static LossKind] {
    ALL
}

macro_rules! losses {
    ($($name:ident, $severity:ident, $key:literal, $advice:literal;)*) => {
        $(pub(crate) static $name: LossKind =
            LossKind { key: $key, severity: Severity::$severity, advice: $advice };)*
        static ALL: &[&LossKind] = &[$(&$name),*];
    };
}

losses! {
    TRUNCATED, Damage, "truncated_file",
        "the file ends in the middle of a record, so its end is missing: copy it again, or let \
         the recorder stop by itself";
    MALFORMED_RECORDS, Damage, "malformed_records",
        "some records do not parse and were skipped: copy the file again, compare its SHA-256";
    MALFORMED_EVENTS, Damage, "malformed_events",
        "some events do not parse and were skipped: copy the file again, compare its SHA-256";
    UNREADABLE_REST, Damage, "unreadable_rest_bytes",
        "the file is unreadable from some point on, and that many bytes were left unread";
    INFLATE_FAILED, Damage, "undecompressed_blocks",
        "some compressed blocks could not be unpacked: copy the file again";
    CPU_OUT_OF_RANGE, Damage, "cpu_out_of_range_events",
        "events that name a CPU above 8191, the most Linux can have, were skipped";
    TIME_OUT_OF_RANGE, Damage, "time_out_of_range_events",
        "events whose time does not fit 63 bits of nanoseconds were skipped";
    IMPLAUSIBLE_GAP, Damage, "events_behind_a_gap",
        "events more than 30 days apart from the others were skipped: their times cannot be right, \
         as no machine goes so long without an event";
    OUT_OF_ORDER, Damage, "out_of_order_events",
        "events far out of order, after later ones had been processed, were skipped: \
         copy the file again";
    STATE_OUT_OF_RANGE, Damage, "state_out_of_range_events",
        "cpu_idle events whose state is neither -1 nor 0..=255 were skipped";
    FIELD_MISSING, Loss, "field_missing_events",
        "events that lack a field this reader needs were skipped: the kernel that was recorded \
         describes them differently";
    COMPACT_SHORT, Damage, "compact_sched_short_arrays",
        "the arrays of a compact scheduling block differ in length, and its unpaired ends were \
         skipped";
    FTRACE_OVERRUN, Loss, "ftrace_overrun_events",
        "the kernel's ring buffer was overwritten before it was read: record with a larger \
         buffer_size_kb or a shorter drain_period_ms";
    FTRACE_DROPPED, Loss, "ftrace_dropped_events",
        "the kernel's ring buffer was full and new events were dropped: record with a larger \
         buffer_size_kb";
    FTRACE_COMMIT_OVERRUN, Loss, "ftrace_commit_overrun_events",
        "interrupts outran the kernel's ring buffer: record with a larger buffer_size_kb";
    FTRACE_GAPS, Loss, "ftrace_gaps",
        "the recorder marked gaps in a CPU's event stream: record with a larger buffer_size_kb";
    FTRACE_PARSE_ERRORS, Loss, "ftrace_parse_errors",
        "the recorder itself could not parse pages of the kernel's ring buffer";
    EVENT_UNDESCRIBED, Loss, "events_without_description",
        "events whose number the file does not describe were skipped: the recorder could not read \
         all of the kernel's formats";
    RECORDED_TWICE, Info, "events_recorded_twice",
        "several tracing instances recorded the same kind of event; it was taken from the first";
    WAKEUPS_FOR_WAKINGS, Loss, "wakeups_for_wakings",
        "the recording has no sched_waking, so the time of sched_wakeup is used, which is some \
         microseconds later and may be after the woken CPU left its idle state: record \
         sched_waking";
    PACKETS_DROPPED, Loss, "perfetto_dropped_packets",
        "the recorder's shared memory was full: record with a larger buffers.size_kb";
    CHUNKS_LOST, Loss, "perfetto_lost_chunks",
        "the recorder's central buffer was overwritten or discarded data: record with a larger \
         buffers.size_kb, or write into the file while recording (write_into_file)";
    FIRST_PREV_UNKNOWN, Info, "switches_without_prev_pid",
        "compact scheduling does not name the previous task: at a CPU's first switch and after a \
         gap it is recorded as pid -1";
    CLOCK_MIXED, Loss, "events_in_other_clock",
        "events of a CPU buffer that used another clock without a common snapshot were skipped: \
         their times cannot be ordered with the rest";
    HRTIMER_CLOCK_UNKNOWN, Loss, "hrtimers_in_unknown_clock",
        "hrtimer expiries are in CLOCK_MONOTONIC, the trace is not, and their offset is unknown: \
         record with `perf record -k CLOCK_MONOTONIC`";
    HRTIMER_CLOCK_ESTIMATED, Info, "hrtimers_in_estimated_clock",
        "hrtimer expiries were moved from CLOCK_MONOTONIC to the trace's clock by an offset \
         estimated from the timers that fired; `perf record -k CLOCK_MONOTONIC` makes it exact";
    HRTIMER_CLOCK_CONTRADICTED, Loss, "hrtimers_against_the_clock",
        "the times at which hrtimers fired contradict the clock that the recording names: the \
         timers were moved by an offset estimated from those that fired, and the clock counts as \
         unknown; find out which tool shifted the times";
    PERF_LOST, Loss, "perf_lost_events",
        "perf could not keep up: record with a larger -m, or with fewer events";
    PERF_LOST_SAMPLES, Loss, "perf_lost_samples",
        "perf could not keep up: record with a larger -m, or with fewer events";
    PERF_THROTTLED, Loss, "perf_throttled",
        "the kernel throttled the recording: raise kernel.perf_event_max_sample_rate";
    NO_TIME, Loss, "events_without_time",
        "samples without a time or a CPU were skipped: record with `perf record -a -T`";
    NO_RAW, Loss, "events_without_raw_data",
        "samples of a tracepoint without its fields were skipped: record with `perf record -R`";
    TEXT_NOT_UNDERSTOOD, Loss, "text_lines_not_understood",
        "lines that are neither an event nor a known remark were skipped, such as the second line \
         of a mark, or of an event that a mail program wrapped";
    TIME_UNIT_UNKNOWN, Loss, "times_without_unit",
        "times without a decimal point were read as nanoseconds, which some clocks do not use: \
         write `mono` to trace_clock and record again";
    TIMERS_HIDDEN, Loss, "timers_without_address",
        "the kernel hid the addresses of timers, so a function's timers on one CPU count as one, \
         and cancellations are missing: boot with `no_hash_pointers`, or record a trace.dat";
    TIMER_FLAGS_UNKNOWN, Info, "timers_without_flags",
        "this trace-cmd or perf printed all flags for every timer, so they were ignored: name the \
         trace.dat or perf.data instead";
    PROBES_WITHOUT_SYMBOL, Loss, "probes_without_symbol",
        "dynamic probes that a text names by address alone were skipped: name the kernel's own \
         trace file, or the trace.dat";
}

/// Counts losses by kind.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: BTreeMap<&'static str, (&'static LossKind, u64)>,
}

impl Tally {
    #[cold]
    pub(crate) fn add(&mut self, kind: &'static LossKind, count: u64) {
        if count > 0 {
            let entry = self.counts.entry(kind.key).or_insert((kind, 0));
            entry.1 = entry.1.saturating_add(count);
        }
    }

    /// Returns the number of events that the recorder could not keep.
    pub(crate) fn lost_events(&self) -> u64 {
        let of = |kind: &LossKind| self.counts.get(kind.key).map_or(0, |(_, count)| *count);
        // perf counts the same events twice: as they are lost, and from the counters at its end.
        of(&PERF_LOST).max(of(&PERF_LOST_SAMPLES))
    }

    /// Returns the losses, worst first, then by key.
    pub(crate) fn into_losses(self) -> Vec<Loss> {
        let mut losses: Vec<Loss> = self
            .counts
            .into_values()
            .map(|(kind, count)| Loss {
                key: kind.key.to_owned(),
                severity: kind.severity,
                count,
                advice: kind.advice.to_owned(),
            })
            .collect();
        losses.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.key.cmp(&b.key)));
        losses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_unique_and_in_snake_case() {
        let mut keys: Vec<_> = ALL.iter().map(|kind| kind.key).collect();
        assert!(keys.iter().all(|k| k.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), ALL.len());
    }

    #[test]
    fn damage_comes_first() {
        let mut tally = Tally::default();
        tally.add(&FIRST_PREV_UNKNOWN, 1);
        tally.add(&TRUNCATED, 1);
        tally.add(&TRUNCATED, 2);
        tally.add(&PERF_LOST, 0);
        let losses = tally.into_losses();
        assert_eq!(losses.len(), 2);
        assert_eq!((losses[0].key.as_str(), losses[0].count), ("truncated_file", 3));
    }
}
