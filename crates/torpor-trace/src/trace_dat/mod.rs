// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `trace.dat`, the format of trace-cmd: versions 6 and 7, plain or compressed, of machines of
//! either byte order and word size.
//!
//! The layout follows the manual pages `trace-cmd.dat.v6(5)` and `trace-cmd.dat.v7(5)`. Events are
//! in pages of the kernel's ring buffer (`page`), one stream of pages per CPU and instance
//! (`source`), and are merged by time (`merge`).
//!
//! Times stay in the recorded clock, so that timers' expiries can be compared with them: the
//! options that map it to a wall clock (`DATE`) or a host's clock (`TIME_SHIFT`) are ignored.

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
                hint: "convert it with `trace-cmd convert --file-version 7`",
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
    // The kernel and the pages count the same missed events.
    out.lose(&loss::FTRACE_OVERRUN, overrun.max(head.options.stats.overrun));
    out.lose(&loss::FTRACE_DROPPED, head.options.stats.dropped);
    out.lose(&loss::FTRACE_COMMIT_OVERRUN, head.options.stats.commit_overrun);
    head.formats.finish(out);
    Ok(())
}

/// Returns the clock of the first buffer, or of the file; trace-cmd's default is `local`.
fn clock(head: &Head<'_>) -> Result<String, Malformed> {
    let of_buffer = head.buffers.first().and_then(|buffer| buffer.clock.as_deref());
    let clock = of_buffer.or(head.options.clock.as_deref()).unwrap_or("local");
    match clock {
        "x86-tsc" | "counter" if head.options.tsc.is_none() => Err(Malformed {
            offset: 0,
            found: format!("the trace clock `{clock}`, whose unit the file does not state"),
            expected: "a clock in nanoseconds".to_owned(),
            hint: "record with `trace-cmd record -C mono`",
        }),
        _ => Ok(clock.to_owned()),
    }
}
