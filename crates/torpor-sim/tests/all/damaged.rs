// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Damaged recordings in every command that takes one: what is recorded, a replay, a verification,
//! a workload. None panics, and all hear at once that they are to stop.
//!
//! `make test-long` flips 300 bits of each recording, one at a time; the ordinary test a few.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use torpor_engine::timeline::Folding;
use torpor_engine::verify::{VerifyOptions, VerifyRequest, verify};
use torpor_engine::{Options, Progress, RecordedUsage, Request};
use torpor_governor::Catalog;
use torpor_machine::platform::Platform;
use torpor_machine::units::CpuId;

/// A replay of some damaged times takes minutes, as a governor that keeps the tick would have
/// taken days: it is stopped after this.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest delay of that on a busy machine.
const HEARD: Duration = Duration::from_secs(5);

struct Impatient(Instant);

impl Progress for Impatient {
    fn advance(&self, _: &str, _: u64, _: u64) {}

    fn cancelled(&self) -> bool {
        self.0.elapsed() > PATIENCE
    }
}

/// Outcome.
#[derive(Debug, Default)]
struct Ends {
    done: u64,
    refused: u64,
    stopped: u64,
}

impl Ends {
    fn see<T, E: std::fmt::Display>(
        &mut self,
        what: &str,
        act: impl FnOnce(&dyn Progress) -> Result<T, E>,
    ) {
        let begun = Instant::now();
        match act(&Impatient(begun)) {
            Ok(_) => self.done += 1,
            Err(error) if error.to_string() == "interrupted" => self.stopped += 1,
            Err(_) => self.refused += 1,
        }
        assert!(begun.elapsed() < PATIENCE + HEARD, "{what}: {:?}", begun.elapsed());
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Recordings with the machine each is replayed on.
fn recordings() -> Vec<(PathBuf, String)> {
    let data = root().join("crates/torpor-trace/tests/data");
    let mut found: Vec<(PathBuf, String)> = std::fs::read_dir(data)
        .expect("a folder is readable")
        .map(|entry| (entry.expect("it is there").path(), "pixel6".to_owned()))
        .filter(|(path, _)| path.is_file() && torpor_trace::read(path).is_ok())
        .collect();
    found.push((root().join("demo/web-server.perf.data"), "i5-10600k".to_owned()));
    found.sort();
    found
}

/// Places that look random and are the same every time (SplitMix64).
fn place(seed: u64, index: u64) -> u64 {
    let mixed = seed.wrapping_add((index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn every_command(path: &Path, machine: &str, what: &str, ends: &mut Ends) {
    let catalog = Catalog::new(Default::default());
    let platform = Platform::resolve(machine).expect("it ships");
    ends.see(what, |_| {
        let mut usage = Folding::new(RecordedUsage::default());
        torpor_trace::stream(path, &mut usage)?;
        let shown: Vec<u32> = usage.finish().finish().iter().map(|cpu| cpu.cpu).collect();
        Ok::<_, torpor_trace::TraceError>(shown)
    });
    let cpu_map = (0..4).map(|cpu| (CpuId(cpu), CpuId(cpu))).collect();
    let cpus = Some((0..4).map(CpuId).collect::<Vec<_>>());
    let chosen = [
        Options { threads: Some(1), ..Options::default() },
        Options { threads: Some(1), cpus, cpu_map, ..Options::default() },
    ];
    for options in chosen {
        let request = Request {
            traces: vec![path.to_owned()],
            platform: platform.clone(),
            governors: ["menu", "shallowest", "oracle"].map(|g| g.parse().unwrap()).to_vec(),
            options,
        };
        ends.see(what, |progress| torpor_engine::run(&request, &catalog, progress));
    }
    let request = VerifyRequest {
        trace: path.to_owned(),
        platform: platform.clone(),
        governors: Vec::new(),
        counters: None,
        options: VerifyOptions { probes: true, fit: true, ..Default::default() },
    };
    ends.see(what, |progress| verify(&request, &catalog, progress));
    ends.see(what, |progress| {
        let trace = torpor_trace::read(path).map_err(torpor_engine::EngineError::from)?;
        torpor_sim::extract::extract(&trace, None, "damaged", progress)
    });
}

fn damage_all(flips: u64) {
    let copy = std::env::temp_dir().join(format!("torpor-damaged-{}", std::process::id()));
    let mut all = Ends::default();
    for (path, machine) in recordings() {
        let mut bytes = std::fs::read(&path).expect("it is readable");
        let mut ends = Ends::default();
        for index in 0..flips {
            let at = place(bytes.len() as u64, index);
            let (byte, bit) = (at as usize / 8 % bytes.len(), at % 8);
            bytes[byte] ^= 1 << bit;
            std::fs::write(&copy, &bytes).expect("the temporary directory is writable");
            bytes[byte] ^= 1 << bit;
            let what = format!("{}, bit {bit} of byte {byte}", path.display());
            every_command(&copy, &machine, &what, &mut ends);
        }
        println!("{}: {ends:?}", path.display());
        all.done += ends.done;
        all.refused += ends.refused;
        all.stopped += ends.stopped;
    }
    std::fs::remove_file(copy).expect("it was written");
    println!("all: {all:?}");
    assert!(all.done > 0 && all.refused > 0);
}

#[test]
fn every_command_survives_damage() {
    damage_all(2);
}

#[test]
#[ignore = "slow: takes half an hour; `make test-long`"]
fn every_command_survives_damage_for_long() {
    damage_all(300);
}

/// Four lines, one of them 31 years late.
#[test]
fn a_damaged_time_is_cut_and_counted() {
    let line = |time: &str, state: u32| {
        format!("  <idle>-0  [000] d..2 {time}: cpu_idle: state={state} cpu_id=0\n")
    };
    let late = ["1000000100.000000", "1000000100.001000", "1000000100.002000", "1000000100.003000"];
    let text: String = line("100.000000", 1)
        + &late
            .iter()
            .zip([u32::MAX, 1, u32::MAX, 1])
            .map(|(at, s)| line(at, s))
            .collect::<String>()
        + &line("1000000100.004000", u32::MAX);
    let path = std::env::temp_dir().join(format!("torpor-late-{}", std::process::id()));
    std::fs::write(&path, format!("# tracer: nop\n#\n{text}")).expect("it is writable");
    let request = Request {
        traces: vec![path.clone()],
        platform: Platform::resolve("pixel6").unwrap(),
        governors: ["menu", "shallowest", "oracle"].map(|g| g.parse().unwrap()).to_vec(),
        options: Options::default(),
    };
    let begun = Instant::now();
    let outcome =
        torpor_engine::run(&request, &Catalog::new(Default::default()), &Impatient(begun));
    std::fs::remove_file(path).expect("it was written");
    let trace = &outcome.expect("it is replayed").traces[0];
    let told: Vec<(&str, u64)> = trace
        .trace
        .losses
        .iter()
        .filter(|loss| loss.severity == "damage")
        .map(|loss| (loss.key.as_str(), loss.count))
        .collect();
    assert_eq!(told, [("events_behind_a_gap", 1)]);
    assert_eq!(trace.inputs.spans, 2);
}
