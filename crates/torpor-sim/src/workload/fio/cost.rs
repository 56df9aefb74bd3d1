// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! CPU time of an IO for the task that submits it, by fio's engine and path.
//!
//! Instructions of Debian's Linux 6.12.117 for arm64 in a guest that counts them, on a null_blk
//! drive: `python -m apparatus.iocost arm64` in tests/guest measures them. With 4 KiB direct, x86-64
//! is within 6 % of these; copies count there by their bytes, and are not used. The interrupt, the way
//! into and out of idleness, and what fio itself does are not in them.

use super::ENGINES;
use torpor_machine::units::Duration;

/// Chosen: a core of 2 GHz with 1.5 instructions a cycle. A device's `work_ratio` is times this.
const INSTRUCTIONS_PER_NS: u64 = 3;

const PAGE: u64 = 4096;

/// Instructions of one request.
struct Row {
    /// In the order of [`ENGINES`].
    submit: [u64; 3],
    result: [u64; 3],
    /// Extra for a result that the task slept for: to the idle task and back.
    asleep: [u64; 3],
    /// Extra for each 4 KiB after the first; half of it belongs to the submission.
    page: u64,
}

/// Direct IO. psync submits and sleeps in one call: its submission is that of io_uring,
/// and the rest of its 9,432 is its result.
const DIRECT: Row = Row {
    submit: [5_236, 5_449, 5_236],
    result: [4_196, 898, 231],
    asleep: [0, 5_264, 5_163],
    page: 719,
};

/// Miss in the page cache. libaio sleeps in its submission, as psync; io_uring is called again when the
/// page is there.
const MISS: Row = Row {
    submit: [10_046, 11_140, 10_046],
    result: [4_369, 5_264, 2_900],
    asleep: [0, 0, 5_161],
    page: 4_685,
};

/// Hit in the page cache.
const HIT: Row =
    Row { submit: [2_894, 3_893, 3_795], result: [0, 894, 32], asleep: [0; 3], page: 1_466 };

/// Buffered write. io_uring hands a write to a block device to a worker (io-wq), which takes
/// what psync takes.
///
/// FIDELITY(io-work): the task does this work itself.
const WRITE: Row = Row {
    submit: [7_667, 8_957, 2_104 + 7_667],
    result: [0, 889, 4_297],
    asleep: [0; 3],
    page: 6_218,
};

/// Read-ahead of 4 KiB: new pages, and their part of a request of 128 KiB.
const AHEAD_PAGE: u64 = 3_053;

#[derive(Clone, Copy)]
pub(super) enum Path {
    Direct,
    Miss,
    Hit,
    Write,
}

/// CPU time of one IO.
pub(super) struct Cost {
    pub submit: Duration,
    pub result: Duration,
    pub asleep: Duration,
}

impl Cost {
    pub(super) fn of(engine: &str, path: Path, bytes: u32) -> Cost {
        let row = match path {
            Path::Direct => &DIRECT,
            Path::Miss => &MISS,
            Path::Hit => &HIT,
            Path::Write => &WRITE,
        };
        let engine = ENGINES.iter().position(|e| *e == engine).expect("it is one of the engines");
        let more = row.page * (pages(bytes) - 1);
        let submit = row.submit[engine] + more.div_ceil(2);
        Cost {
            submit: time(submit),
            result: time(row.result[engine] + more / 2),
            asleep: time(row.asleep[engine]),
        }
    }
}

pub(super) fn read_ahead(bytes: u32) -> Duration {
    time(AHEAD_PAGE * pages(bytes))
}

fn pages(bytes: u32) -> u64 {
    u64::from(bytes).div_ceil(PAGE)
}

fn time(instructions: u64) -> Duration {
    Duration((instructions / INSTRUCTIONS_PER_NS) as i64)
}
