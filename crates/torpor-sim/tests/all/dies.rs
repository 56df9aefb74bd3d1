// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Drives with dies, channels and a write buffer, worked by hand.

use crate::support::{count, load, machine, request};

/// Requests a second of one job on a drive with these keys. A read takes 100 us, a write 40.
fn iops(drive: &str, job: &str) -> f64 {
    let extra = format!(
        "overhead_source = \"made up\"\nio_device = [{{ name = \"d\", source = \"made up\", \
         queue_depth = 256, read_us = 100, write_us = 40, {drive} }}]"
    );
    let job = format!(
        "[[fio]]\nname = \"job\"\ndevice = \"d\"\nioengine = \"io_uring\"\nsubmit_us = 0\n\
         complete_us = 0\n{job}\n"
    );
    let counted = count(&request(machine(1, &extra), load(&job), &["shallowest"], 1_000)).unwrap();
    counted.kinds[0].ios as f64
}

#[track_caller]
fn is_near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.01, "{found}, not {expected}");
}

#[test]
fn work_ratio_does_not_scale_own_work() {
    let busy_us = |ratio: &str, job: &str| {
        let extra = format!(
            "overhead_source = \"made up\"\nio_device = [{{ name = \"d\", source = \"made up\", \
             queue_depth = 1, read_us = 100, write_us = 40, irq_us = 2, softirq_us = 1{ratio} }}]"
        );
        let job = format!("[[fio]]\nname = \"job\"\ndevice = \"d\"\nnumber_ios = 1000\n{job}\n");
        let counted = count(&request(machine(1, &extra), load(&job), &["shallowest"], 1_000));
        let cpu = &counted.unwrap().cpus[0];
        (cpu.task_time.0 + cpu.overhead.0) / 1_000_000
    };
    // psync: 1.745 to submit, 1.398 to complete.
    assert_eq!((busy_us("", ""), busy_us(", work_ratio = 2.5", "")), (6, 15));
    let own = "submit_us = 7\ncomplete_us = 3";
    assert_eq!(busy_us(", work_ratio = 2.5", own), 17);
}

#[test]
fn die_is_held_until_the_channel_takes_data() {
    // 100 us to read, and 4 KiB of 5 us out.
    let drive = "dies = 1, channel_per_kib_us = 5";
    is_near(iops(drive, "iodepth = 2"), 1e6 / 120.0);
    is_near(iops(drive, "iodepth = 32"), 1e6 / 120.0);
}

#[test]
fn channel_takes_one_request_at_a_time() {
    let drive = |channels| format!("dies = 64, channels = {channels}, channel_per_kib_us = 5");
    is_near(iops(&drive(1), "iodepth = 128"), 1e6 / 20.0);
    let two = iops(&drive(2), "iodepth = 128");
    assert!((95_000.0..=100_000.0).contains(&two), "{two}");
}

#[test]
fn sequential_addresses_never_share_a_die() {
    let drive = "dies = 4";
    // Each of the four has its own; the interrupt and the way out of C1 take 2 us of each round.
    is_near(iops(drive, "iodepth = 4\nrw = \"read\""), 4e6 / 102.0);
    // 4 requests on 4 dies with random addresses: of all ways to spread them, as many in each
    // number of busy dies as product form says, 4 * 4 / 7 of them are busy.
    let random = iops(drive, "iodepth = 4\nrw = \"randread\"");
    let busy = random * 100e-6;
    assert!((2.2..2.9).contains(&busy), "{busy} of 4 dies busy");
    // Pooled servers know no die: all four are always busy.
    is_near(iops("parallelism = 4", "iodepth = 4\nrw = \"randread\""), 4e6 / 102.0);
}

#[test]
fn large_request_works_on_many_dies() {
    let read = |dies| iops(&format!("dies = {dies}"), "bs = \"128k\"");
    // Four parts, at once or two after one another, and 2 to wake up.
    is_near(read(8), 1e6 / 102.0);
    is_near(read(2), 1e6 / 202.0);
    // Each part is programmed by itself, up to the last, smaller one.
    let write = |keys| iops(&format!("{keys}, program_us = 200, buffer_kib = 256"), WRITE_100K);
    is_near(write("dies = 1"), 1e6 / 800.0);
    is_near(write("dies = 4"), 1e6 / 200.0);
}

const WRITE_100K: &str = "bs = \"100k\"\nrw = \"write\"\niodepth = 8";

#[test]
fn large_requests_in_order_use_all_dies() {
    // Of 64 KiB, two parts: each request begins where the one before it has ended.
    let job = "bs = \"64k\"\nrw = \"write\"\niodepth = 8";
    is_near(iops("dies = 4, program_us = 200, buffer_kib = 256", job), 2e6 / 200.0);
    let job = "bs = \"64k\"\nrw = \"read\"\niodepth = 4";
    assert!(iops("dies = 8", job) > 3.9e6 / 102.0);
}

#[test]
fn link_takes_one_request_at_a_time() {
    let link = "read_per_kib_us = 5, write_per_kib_us = 10";
    for device in ["parallelism = 64", "dies = 64, program_us = 1"] {
        let rate = |job: &str| iops(&format!("{device}, {link}"), job);
        is_near(rate("iodepth = 1"), 1e6 / 122.0);
        is_near(rate("iodepth = 64"), 1e6 / 20.0);
        is_near(rate("iodepth = 64\nrw = \"randwrite\""), 1e6 / 40.0);
        is_near(rate("iodepth = 8\nbs = \"64k\""), 1e6 / 320.0);
        // Half of them reads.
        let mixed = rate("iodepth = 64\nrw = \"randrw\"");
        assert!((mixed * 30e-6 - 1.0).abs() < 0.02, "{mixed}");
    }
}

#[test]
fn buffered_writes_are_done_before_programming() {
    // A buffer without end: 40 us, and 2 to wake up.
    is_near(iops("dies = 1, program_us = 10", "rw = \"randwrite\""), 1e6 / 42.0);
    // Space for two: as fast as the die programs.
    let full = iops("dies = 1, program_us = 200, buffer_kib = 8", "rw = \"randwrite\"");
    is_near(full, 1e6 / 200.0);
    // Two dies, addresses in their order.
    let two = iops("dies = 2, program_us = 200, buffer_kib = 64", "rw = \"write\"\niodepth = 8");
    is_near(two, 2e6 / 200.0);
}

#[test]
fn flush_waits_for_pending_programs() {
    let drive = "dies = 1, program_us = 200, flush_us = 30";
    // The write's 42 us; the program's 200, the flush's 30, and 2 to wake up.
    is_near(iops(drive, "rw = \"randwrite\"\nfsync = 1"), 1e6 / (42.0 + 200.0 + 30.0 + 2.0));
    // Nothing to program: a flush takes its own time.
    let drive = "dies = 1, flush_us = 30";
    is_near(iops(drive, "rw = \"randwrite\"\nfsync = 1"), 1e6 / (42.0 + 32.0));
}

#[test]
fn read_waits_for_the_program_of_its_die() {
    // Each write leaves 900 us of work, for which the next read waits.
    let mixed = "rw = \"randrw\"\nrwmixread = 50";
    let slow = iops("dies = 1, program_us = 900", mixed);
    let quick = iops("dies = 1", mixed);
    assert!(slow < quick / 3.0, "{slow} and {quick}");
}
