// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! IO devices: a machine's own, and those that ship by themselves.

use super::from_us;
use crate::platform::io_device::{Completion, IdleWork};
use crate::platform::{Flash, IoDevice, ServiceTime};
use crate::toml::{Distribution, Finding, Report, Table};
use crate::units::Duration;

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
