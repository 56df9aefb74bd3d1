// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Shipped devices against their sources, on a host that limits nothing.

use crate::support::{count, load, machine, request};
use torpor_machine::platform::{IoDevice, io_devices, resolve};

/// MB/s of a read and a write, and IOPS of 4 KiB at random with so many under way: from the first
/// lines of the device's `source`.
struct Sheet {
    mb: [f64; 2],
    iops: [Option<f64>; 2],
    depth: u32,
    ms: i64,
    /// Share of its MB/s that 128 KiB reach, and of its IOPS.
    reached: f64,
    iops_reached: f64,
}

/// How far above its source a device may be: what its buffer takes in at the start, and chance.
const ABOVE: f64 = 1.05;

fn sheet(device: &IoDevice) -> Sheet {
    let sheet = |mb, iops: [f64; 2], depth, ms| Sheet {
        mb,
        iops: iops.map(Some),
        depth,
        ms,
        // Without a queue, the device's time adds to that of the data.
        reached: if depth == 1 { 0.4 } else { 0.9 },
        iops_reached: 0.9,
    };
    match device.name.as_str() {
        "nvme" => sheet([3_500.0, 3_300.0], [600_000.0, 550_000.0], 128, 150),
        "emmc" => sheet([250.0, 125.0], [11_000.0, 13_000.0], 32, 2_000),
        "sd" => sheet([104.0, 104.0], [1_500.0, 500.0], 1, 2_000),
        // Its dies are those of the model before, with 63,000 reads.
        "ufs" => {
            Sheet { iops_reached: 0.6, ..sheet([2_100.0, 1_200.0], [100_000.0, 70_000.0], 32, 300) }
        }
        name => panic!("no data sheet of {name}"),
    }
}

/// IOPS of eight jobs (one, if the device has no queue) with so many requests under way.
fn iops(device: &IoDevice, rw: &str, kib: u32, depth: u32, ms: i64) -> f64 {
    let mut host = machine(8, "");
    host.io_devices = vec![device.clone()];
    let jobs = depth.min(8);
    let job = format!(
        "[[fio]]\nname = \"job\"\ndevice = \"{}\"\nioengine = \"io_uring\"\nsubmit_us = 0\n\
         complete_us = 0\nrw = \"{rw}\"\nbs = \"{kib}k\"\nnumjobs = {jobs}\niodepth = {}\n",
        device.name,
        depth / jobs
    );
    let counted = count(&request(host, load(&job), &["shallowest"], ms)).unwrap();
    counted.kinds[0].ios as f64 * 1e3 / ms as f64
}

/// Neither direction is faster than the source says at any size; large transfers reach it.
#[track_caller]
fn keeps_its_bandwidth(device: &IoDevice, sheet: &Sheet) {
    for (rw, direction) in [("read", 0), ("randread", 0), ("write", 1), ("randwrite", 1)] {
        for kib in [4, 16, 64, 128, 1_024] {
            let depth = if kib == 1_024 { sheet.depth.min(8) } else { sheet.depth };
            let iops = iops(device, rw, kib, depth, sheet.ms);
            let share = iops * f64::from(kib) * 1024e-6 / sheet.mb[direction];
            let claim = format!("{} {rw} {kib}k: {share:.3} of {:?} MB/s", device.name, sheet.mb);
            println!("{claim}, {iops:.0} IOPS");
            assert!(share < ABOVE, "{claim}");
            assert!(kib < 128 || share > sheet.reached, "{claim}");
            let Some(limit) = sheet.iops[direction].filter(|_| kib == 4) else { continue };
            assert!(
                !rw.starts_with("rand") || iops > sheet.iops_reached * limit,
                "{claim}: {iops} of {limit}"
            );
            assert!(!rw.starts_with("rand") || iops < ABOVE * limit, "{claim}: {iops} of {limit}");
        }
    }
}

#[test]
fn shipped_devices_keep_their_data_sheets() {
    for device in io_devices() {
        keeps_its_bandwidth(&device, &sheet(&device));
    }
}

/// Their reads are calibrated at 4 KiB, and the RK3399's bus is slower than the drive.
#[test]
fn devices_of_machines_keep_their_bandwidth() {
    for name in ["apple-m1", "pixel6", "rk3399"] {
        for device in resolve(name).unwrap().io_devices {
            let mut sheet = Sheet { iops: [None; 2], ..sheet(&device) };
            if (name, device.name.as_str()) == ("rk3399", "nvme") {
                sheet = Sheet { mb: [1_000.0; 2], reached: 0.1, ..sheet };
            }
            keeps_its_bandwidth(&device, &sheet);
        }
    }
}

#[test]
fn single_requests_take_as_long_as_published() {
    let devices = io_devices();
    let nvme = devices.iter().find(|device| device.name == "nvme").unwrap();
    for (rw, published) in [("randread", 19_000.0), ("randwrite", 60_000.0)] {
        // The source's host takes 5 us, of which this one has C1's 2 and the interrupt's 2.
        let found = 1e6 / (1e6 / iops(nvme, rw, 4, 1, 200) + 1.0);
        assert!((found / published - 1.0).abs() < 0.05, "{rw}: {found}");
    }
}
