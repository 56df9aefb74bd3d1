// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! IO devices: a machine's own, and those that ship by themselves.

use super::{TIME, from_us};
use crate::platform::io_device::{Completion, IdleWork};
use crate::platform::{Flash, IoDevice, ServiceTime};
use crate::shape;
use crate::toml::{Distribution, Finding, Kind, LENGTH_OR_DISTRIBUTION, Report, Shape, Table};
use crate::units::Duration;

pub(crate) static IO_DEVICE: Shape = shape! {
    required name: Kind::Word, "The device's name, as a workload gives it.";
    required source: Kind::Texts, "Where its numbers come from, or that they are chosen.";
    optional nr_hw_queues: Kind::Integer { max: 8192.0 }, "Hardware queues (block layer's \
        `nr_hw_queues`). Default: one for each CPU.";
    optional queue_depth: Kind::Integer { max: 65536.0 }, "Number of requests in each hardware \
        queue. Those beyond wait in the kernel until a completion has been handled.";
    optional command_queue: Kind::Bool, "False: the device takes one request at a time, and gets \
        the next one after the CPU has handled the last. Default: true.";
    optional parallelism: Kind::Integer { max: 65536.0 }, "Requests that the device serves at a \
        time. Default: 1.";
    optional dies: Kind::Integer { max: 65536.0 }, "Instead of `parallelism`: flash dies, of \
        which each has up to 32 KiB of a request, by its address. A read works on them for \
        `read_us`; each does one thing at a time.";
    optional channels: Kind::Integer { max: 65536.0 }, "With `dies`: data read leave over the \
        die's channel, one request at a time, while the die waits. Default: one per die.";
    optional channel_per_kib_us: TIME, "With `dies`: time on the channel for each KiB. Default: 0.";
    optional program_us: TIME, "With `dies`: a write is done when the buffer has it, after \
        `write_us`; a die then takes this long to program up to 32 KiB of it, and a flush waits for \
        that. Default: 0.";
    optional buffer_kib: Kind::Integer { max: 4_194_304.0 }, "With `program_us`: the size of the \
        buffer. A write that finds no space waits. Default: all.";
    required read_us: LENGTH_OR_DISTRIBUTION, "Time of the device for a read, of any size: a \
        number or a distribution.";
    optional read_per_kib_us: TIME, "Additional time for each KiB of a read, on the link that all \
        requests share. Default: 0.";
    required write_us: LENGTH_OR_DISTRIBUTION, "As `read_us`, of a write.";
    optional write_per_kib_us: TIME, "As `read_per_kib_us`, of a write.";
    optional flush_us: LENGTH_OR_DISTRIBUTION, "Time of a cache flush, which `fsync` requests. \
        Default: 0: a device without a volatile cache.";
    optional idle_after_us: TIME, "Time after its last request at which a device that was written \
        to starts background work, such as emptying its cache. Default: never.";
    optional idle_work_us: LENGTH_OR_DISTRIBUTION, "With `idle_after_us`: the length of that work. \
        Requests that arrive during it wait.";
    optional irq_cpu: Kind::Cpus, "The CPU that takes its interrupts. Default: each queue's own \
        CPU.";
    optional completion: Kind::Choice(&["irq", "threaded", "worker"]), "Where the driver completes \
        a request: in the interrupt or the softirq that it raises; in an interrupt thread, with \
        Linux's policy and priority (SCHED_FIFO, 50), which also does the work of `irq_us`; or in \
        a work item with WQ_HIGHPRI, which does the work of `softirq_us` wherever the request came \
        from. Threads and workers stay on the interrupt's CPU. Default: irq.";
    optional interrupts_per_io: Kind::Integer { max: 16.0 }, "Interrupts of one request. The last \
        one comes when the device has served it; each earlier one answers a command of the driver, \
        and its handler sends the next command. Default: 1.";
    optional irq_us: TIME, "Work of the driver's interrupt handler, in addition to that of any \
        interrupt: time on the biggest CPU at its highest frequency. Default: 0.";
    optional softirq_us: TIME, "Work of completing one request after the interrupt handler. \
        Default: 0.";
    optional work_ratio: Kind::Number { max: 1000.0 }, "Factor on the CPU work for a request: on \
        `irq_us`, `softirq_us` and the default work of a `fio` job. Default: 1.";
};

pub(super) fn build(report: &mut Report, table: &Table) -> Option<IoDevice> {
    let queues = queues(report, table);
    for (key, message) in [
        ("nr_hw_queues", "a device that nothing reaches"),
        ("queue_depth", "a queue that holds nothing"),
        ("parallelism", "a device that never serves"),
        ("dies", "a device that never serves"),
        ("channels", "dies that nothing reaches"),
        ("buffer_kib", "a buffer that holds nothing"),
        ("interrupts_per_io", "a device that never completes"),
    ] {
        if table.number(key) == Some(0.0) {
            let allowed = Some("1 or more".to_owned());
            report.push(Finding { allowed, ..table.finding(key, message.to_owned()) });
        }
    }
    if table.cpus("irq_cpu").is_some_and(|cpus| cpus.len() != 1) {
        report.reject(table, "irq_cpu", "more than one CPU", "one CPU in a string, such as \"0\"");
    }
    let read = service_time(report, table, "read_us", "read_per_kib_us");
    let write = service_time(report, table, "write_us", "write_per_kib_us");
    let work_ratio = table.number("work_ratio").unwrap_or(1.0);
    let work = |key| table.number(key).map_or(Duration::ZERO, |us| from_us(us * work_ratio));
    let flush = if table.has("flush_us") {
        table.distribution(report, "flush_us")
    } else {
        Some(Distribution::Constant(0.0))
    };
    let idle = idle(report, table);
    let flash = flash(report, table);
    let (nr_hw_queues, queue_depth) = queues?;
    Some(IoDevice {
        name: table.text("name")?.to_owned(),
        sources: table.texts("source").to_vec(),
        nr_hw_queues,
        queue_depth,
        parallelism: table.number("parallelism").unwrap_or(1.0) as u32,
        flash,
        read: read?,
        write: write?,
        flush: ServiceTime { fixed: flush?, per_kib: Duration::ZERO },
        idle,
        irq_cpu: table.cpus("irq_cpu").and_then(|cpus| cpus.first().copied()),
        completion: match table.text("completion") {
            Some("threaded") => Completion::Threaded,
            Some("worker") => Completion::Worker,
            _ => Completion::Irq,
        },
        interrupts_per_io: table.number("interrupts_per_io").unwrap_or(1.0) as u32,
        irq: work("irq_us"),
        softirq: work("softirq_us"),
        work_ratio,
    })
}

/// Number and depth. Without a command queue there is one of one request.
fn queues(report: &mut Report, table: &Table) -> Option<(Option<u32>, u32)> {
    if table.bool("command_queue") == Some(false) {
        for key in ["nr_hw_queues", "queue_depth"] {
            if table.number(key).is_some_and(|number| number != 1.0) {
                report.reject(
                    table,
                    key,
                    "`command_queue` is false",
                    "1: the host sends a request after the last",
                );
            }
        }
        return Some((Some(1), 1));
    }
    if !table.has("queue_depth") {
        report.reject(
            table,
            "queue_depth",
            "this key is missing",
            "`queue_depth`, or `command_queue = false`",
        );
    }
    let queues = table.number("nr_hw_queues").map(|n| n as u32);
    Some((queues, table.number("queue_depth")? as u32))
}

fn flash(report: &mut Report, table: &Table) -> Option<Flash> {
    let beside = ["channels", "channel_per_kib_us", "program_us", "buffer_kib"];
    let Some(dies) = table.number("dies") else {
        for key in beside.into_iter().filter(|key| table.has(key)) {
            report.push(table.finding(key, "it requires `dies`".to_owned()));
        }
        return None;
    };
    if table.has("parallelism") {
        report.push(table.finding("parallelism", "`dies` says how many it works on".to_owned()));
    }
    let time = |key| table.number(key).map_or(Duration::ZERO, from_us);
    Some(Flash {
        dies: dies as u32,
        channels: table.number("channels").unwrap_or(dies).min(dies) as u32,
        channel_per_kib: time("channel_per_kib_us"),
        program: time("program_us"),
        buffer_kib: table.number("buffer_kib").map_or(u32::MAX, |n| n as u32),
    })
}

/// Both keys or none.
fn idle(report: &mut Report, table: &Table) -> Option<IdleWork> {
    for (key, other) in [("idle_after_us", "idle_work_us"), ("idle_work_us", "idle_after_us")] {
        if table.has(key) && !table.has(other) {
            report.push(table.finding(other, format!("`{key}` needs this key")));
        }
    }
    let after = table.number("idle_after_us").map(from_us)?;
    Some(IdleWork { after, length: table.distribution(report, "idle_work_us")? })
}

fn service_time(
    report: &mut Report,
    table: &Table,
    fixed: &str,
    per_kib: &str,
) -> Option<ServiceTime> {
    let per_kib = table.number(per_kib).map_or(Duration::ZERO, from_us);
    Some(ServiceTime { fixed: table.distribution(report, fixed)?, per_kib })
}
