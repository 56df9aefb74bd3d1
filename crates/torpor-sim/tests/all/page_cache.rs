// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Jobs of fio's by engine, past the page cache and through it, worked by hand.

use crate::support::{count, load, machine, request};
use torpor_sim::machine::Counted;

/// One CPU, a state that takes 2 us to leave, and a drive that reads in 100 us and writes in 40.
fn run(drive: &str, job: &str) -> Counted {
    let extra = format!(
        "overhead_source = \"made up\"\nio_device = [{{ name = \"d\", source = \"made up\", \
         queue_depth = 256, parallelism = 64, read_us = 100, write_us = 40{drive} }}]"
    );
    let job = format!("[[fio]]\nname = \"job\"\ndevice = \"d\"\n{job}\n");
    count(&request(machine(1, &extra), load(&job), &["shallowest"], 1_000)).unwrap()
}

/// ns of its CPU that a job takes for each IO.
fn work_ns(job: &str) -> i64 {
    let counted = run("", job);
    assert!(counted.kinds[0].ios > 100, "{job}: {}", counted.kinds[0].ios);
    counted.kinds[0].cpu_time.0 / counted.kinds[0].ios as i64
}

#[track_caller]
fn is_near(found: i64, expected: i64) {
    assert!((found - expected).abs() <= 1 + expected / 100, "{found}, not {expected}");
}

/// Instructions of the guest, three a ns.
#[test]
fn engine_costs_match_the_measured_instructions() {
    for (engine, direct, cached) in [
        ("psync", 5_236 + 4_196, 10_046 + 4_369),
        ("libaio", 5_449 + 898 + 5_264, 11_140 + 5_264),
        ("io_uring", 5_236 + 231 + 5_163, 10_046 + 2_900 + 5_161),
    ] {
        let job = format!("ioengine = \"{engine}\"");
        is_near(work_ns(&job), direct / 3);
        is_near(work_ns(&format!("{job}\ndirect = false")), cached / 3);
    }
}

/// The job sleeps for one of eight results that are there together.
#[test]
fn ready_result_takes_less_than_a_slept_one() {
    let job = |depth| format!("ioengine = \"io_uring\"\niodepth = {depth}\nthinktime_us = 2000");
    is_near(work_ns(&job(1)), (5_236 + 231 + 5_163) / 3);
    let deep = work_ns("ioengine = \"io_uring\"\niodepth = 64");
    assert!(deep < (5_236 + 231 + 5_163 / 4) / 3, "{deep}");
    assert!(deep >= (5_236 + 231) / 3, "{deep}");
}

#[test]
fn second_read_hits_the_page_cache() {
    // 256 blocks, each once from the drive; 2894 instructions from memory.
    let counted = run("", "direct = false\nsize_mib = 1\nnumber_ios = 10000");
    assert_eq!((counted.kinds[0].ios, counted.devices[0].requests), (10_000, 256));
    let once = run("", "direct = false\nnumber_ios = 1000");
    assert_eq!(once.devices[0].requests, 1_000, "of a file without a size nothing is");
    // Four jobs read the same file: each finds what the others have read.
    let shared = run("", "direct = false\nsize_mib = 4\nnumjobs = 4\nnumber_ios = 1024");
    assert_eq!(shared.kinds[0].ios, 4_096);
    assert!((1_024..1_100).contains(&shared.devices[0].requests), "{}", shared.devices[0].requests);
}

#[test]
fn sequential_reads_are_read_ahead() {
    // A window of 32 blocks is asked for (32 * 3053 instructions, 32.6 us) before the one that was
    // asked for a turn ago is waited for (100 us, and 2 to wake up) and copied (32 * 2894, 30.9 us):
    // two turns take 32.6 + 102 + 30.9 us, where one after another they would take as much each.
    let job = "direct = false\nrw = \"read\"";
    let counted = run("", job);
    let windows = counted.kinds[0].ios / 32;
    is_near(windows as i64, 2_000_000_000 / (32_565 + 102_000 + 30_869));
    let requests = counted.devices[0].requests;
    assert!((windows..=windows + 1).contains(&requests), "{requests} for {windows} windows");
    is_near(work_ns(job), (2_894 + 3_053) / 3);
    // The first 100 blocks are all there is to read; then they are there.
    let ends = run("", "direct = false\nrw = \"read\"\nnumber_ios = 100");
    assert_eq!((ends.kinds[0].ios, ends.kinds[0].ended), (100, 1));
    let again = run("", "direct = false\nrw = \"read\"\nsize_mib = 1\nnumber_ios = 100000");
    assert!(again.devices[0].requests <= 10, "{}", again.devices[0].requests);
    // Direct, each of them is a request.
    let direct = run("", "rw = \"read\"\nnumber_ios = 100");
    assert_eq!(direct.devices[0].requests, 100);
}

#[test]
fn buffered_write_only_copies_until_fsync() {
    let counted = run("", "direct = false\nrw = \"randwrite\"\nnumber_ios = 1000");
    assert_eq!((counted.kinds[0].ios, counted.devices[0].requests), (1_000, 0));
    is_near(work_ns("direct = false\nrw = \"write\""), 7_667 / 3);
    // Ten blocks and the flush.
    let synced = run("", "direct = false\nrw = \"write\"\nnumber_ios = 1000\nfsync = 10");
    assert_eq!((synced.kinds[0].ios, synced.devices[0].requests), (1_000, 1_100));
    // Only the reads of a mix go to the drive at once.
    let mixed = "direct = false\nrw = \"randrw\"\nrwmixread = 25\nnumber_ios = 4000";
    let requests = run("", mixed).devices[0].requests;
    assert!((900..1_100).contains(&requests), "{requests}");
}
