// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `trace.dat`, what trace-cmd writes: versions 6 and 7, plain or compressed, of machines of
//! either byte order and word size.
//!
//! The layout is that of the manual pages `trace-cmd.dat.v6(5)` and `trace-cmd.dat.v7(5)`. The
//! events are as the kernel's ring buffer held them (`page`), one stream of pages a CPU and
//! instance (`source`), and are merged by time (`merge`).
//!
//! Times stay in the clock that was recorded, where timers' expiries can be compared with them:
//! the options that map it to a wall clock (`DATE`) or to a host's (`TIME_SHIFT`) are not applied.

mod head;
mod merge;
mod options;
mod page;
mod source;
mod v6;
mod v7;

use crate::builder::Builder;
use crate::error::Malformed;
use crate::ftrace::{MAGIC, Preamble};
use crate::kallsyms::Kallsyms;
use crate::loss;
use head::Head;

pub(crate) fn is_trace_dat(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

pub(crate) fn read(
    bytes: &[u8],
    kallsyms: Option<&[u8]>,
    out: &mut Builder,
) -> Result<(), Malformed> {
    let (preamble, rest) = Preamble::parse(bytes).ok_or_else(|| Malformed {
        offset: bytes.len() as u64,
        found: "the end of the file".to_owned(),
        expected: "a version, byte order, word size and page size".to_owned(),
        hint: "copy the file again, it was cut",
    })?;
    let mut head = match preamble.version {
        b"6" => v6::head(bytes, &preamble, rest)?,
        b"7" => v7::head(bytes, &preamble, rest)?,
        version => {
            return Err(Malformed {
                offset: MAGIC.len() as u64,
                found: format!("version `{}`", String::from_utf8_lossy(version)),
                expected: "version 6 or 7".to_owned(),
                hint: "`trace-cmd convert --file-version 7` makes a file that is read",
            });
        }
    };
    if let Some(text) = kallsyms {
        head.formats.symbols = Kallsyms::parse(text);
    }
    head.formats.find_probed();
    out.symbols = std::mem::take(&mut head.formats.symbols);
    head.options.note(&mut out.meta);
    let clock = clock(&head)?;
    let hrtimer_offset_ns = match clock.as_str() {
        "mono" => Some(head.options.offset_ns),
        _ => None,
    };
    out.align_hrtimers(hrtimer_offset_ns);
    out.meta.clock.clone_from(&clock);
    let overrun = merge::merge(&mut head, &clock, out);
    // Both tell of the same events: the kernel's count, and what the pages say was missed.
    out.lose(&loss::FTRACE_OVERRUN, overrun.max(head.options.stats.overrun));
    out.lose(&loss::FTRACE_DROPPED, head.options.stats.dropped);
    out.lose(&loss::FTRACE_COMMIT_OVERRUN, head.options.stats.commit_overrun);
    head.formats.count_into(&mut out.event_counts);
    Ok(())
}

/// The clock of the first buffer, or of the file; trace-cmd's own default is `local`.
fn clock(head: &Head<'_>) -> Result<String, Malformed> {
    let of_buffer = head.buffers.first().and_then(|buffer| buffer.clock.as_deref());
    let clock = of_buffer.or(head.options.clock.as_deref()).unwrap_or("local");
    match clock {
        "x86-tsc" | "counter" if head.options.tsc.is_none() => Err(Malformed {
            offset: 0,
            found: format!("the trace clock `{clock}`, whose unit the file does not tell"),
            expected: "a clock in nanoseconds".to_owned(),
            hint: "record with `trace-cmd record -C mono`",
        }),
        _ => Ok(clock.to_owned()),
    }
}
