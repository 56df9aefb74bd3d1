// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Machines that are made up, and writers of every form.

use proptest::prelude::*;
use std::fs;
use std::io::Write as _;
use tempfile::TempDir;
use torpor_machine::counters::{Cpu, Machine, Snapshot, State};
use torpor_machine::units::CpuId;

/// Paths below `/sys/devices/system/cpu`, and values.
pub type Values = [(String, String)];

pub struct Form {
    pub name: &'static str,
    pub write: fn(&Snapshot) -> Vec<u8>,
}

/// Forms that lose nothing.
pub const FORMS: [Form; 12] = [
    Form { name: "grep .", write: |m| grep(&values(m)).into_bytes() },
    Form { name: "grep -r . .", write: |m| relative(&values(m)).into_bytes() },
    Form { name: "grep -n", write: |m| grep(&values(m)).replace(':', ":1:").into_bytes() },
    Form { name: "a blank after the colon", write: |m| grep(&values(m)).replace(':', ": ").into() },
    Form { name: "mail", write: |m| mailed(&grep(&values(m))).into_bytes() },
    Form { name: "quoted-printable", write: |m| soft_broken(&grep(&values(m))).into_bytes() },
    Form { name: "head", write: |m| headed(&values(m)).into_bytes() },
    Form { name: "tar", write: |m| tar_of(&values(m), 0) },
    Form { name: "tar.gz", write: |m| packed(&tar_of(&values(m), 4096)) },
    Form { name: "text.gz", write: |m| packed(grep(&values(m)).as_bytes()) },
    Form { name: "tar.zst", write: |m| zstd::encode_all(&tar_of(&values(m), 0)[..], 1).unwrap() },
    Form { name: "text.zst", write: |m| zstd::encode_all(grep(&values(m)).as_bytes(), 1).unwrap() },
];

/// Every file of a state is there, as on a kernel of today.
pub fn machine() -> impl Strategy<Value = Snapshot> {
    let tables = prop::collection::vec(
        (0..500u32, "[A-Z][A-Z0-9]{0,6}", "[A-Za-z]{1,8}( 0x[0-9]{2})?"),
        1..6,
    );
    (tables, 1..14usize, prop::sample::select(vec!["menu", "teo"]), any::<u64>()).prop_map(
        |(table, cpus, governor, seed)| {
            let mut counts = seed;
            let mut count = move || {
                counts = counts.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                Some(counts >> (counts % 60))
            };
            let mut residency_us = 0;
            let states: Vec<State> = (0..)
                .zip(&table)
                .map(|(index, (latency_us, name, desc))| {
                    residency_us += latency_us + 1;
                    State {
                        index,
                        // No two states of a machine have one name.
                        name: Some(format!("{name}-{index}")),
                        desc: Some(desc.clone()),
                        latency_us: Some(*latency_us),
                        residency_us: Some(residency_us),
                        disable: Some(u64::from(index == 3)),
                        default_status: Some("enabled".to_owned()),
                        ..State::default()
                    }
                })
                .collect();
            let cpus = (0..cpus as u32).map(|number| {
                let mut states = states.clone();
                for state in &mut states {
                    state.usage = count();
                    state.time_us = count();
                    state.above = count();
                    state.below = count();
                    state.rejected = count();
                    state.s2idle_usage = count();
                    state.s2idle_time_us = count();
                }
                Cpu {
                    cpu: CpuId(number),
                    driver: Some("intel_idle".to_owned()),
                    is_online: (number > 0).then_some(true),
                    capacity: Some(1024),
                    states,
                    ..Cpu::default()
                }
            });
            let cpus = cpus.collect();
            let machine = Machine {
                driver: Some("intel_idle".to_owned()),
                governor: Some(governor.to_owned()),
                ..Machine::default()
            };
            Snapshot { machine, cpus, ..Snapshot::default() }
        },
    )
}

pub fn values(snapshot: &Snapshot) -> Vec<(String, String)> {
    let mut values = Vec::new();
    let mut put = |path: String, value: Option<String>| {
        if let Some(value) = value {
            values.push((path, value));
        }
    };
    put("cpuidle/current_driver".into(), snapshot.machine.driver.clone());
    put("cpuidle/current_governor".into(), snapshot.machine.governor.clone());
    put("cpuidle/current_governor_ro".into(), snapshot.machine.governor.clone());
    for cpu in &snapshot.cpus {
        put(format!("{}/cpu_capacity", cpu.cpu), cpu.capacity.map(|c| c.to_string()));
        put(format!("{}/online", cpu.cpu), cpu.is_online.map(|_| "1".to_owned()));
        put(format!("{}/cpuidle/driver/name", cpu.cpu), cpu.driver.clone());
        put(format!("{}/topology/core_id", cpu.cpu), Some("0".to_owned()));
        for state in &cpu.states {
            let number = |number: Option<u64>| number.map(|number| number.to_string());
            for (attr, value) in [
                ("above", number(state.above)),
                ("below", number(state.below)),
                ("default_status", state.default_status.clone()),
                ("desc", state.desc.clone()),
                ("disable", number(state.disable)),
                ("latency", state.latency_us.map(|us| us.to_string())),
                ("name", state.name.clone()),
                ("power", Some("4294967295".to_owned())),
                ("rejected", number(state.rejected)),
                ("residency", state.residency_us.map(|us| us.to_string())),
                ("s2idle/time", number(state.s2idle_time_us)),
                ("s2idle/usage", number(state.s2idle_usage)),
                ("time", number(state.time_us)),
                ("usage", number(state.usage)),
            ] {
                put(format!("{}/cpuidle/state{}/{attr}", cpu.cpu, state.index), value);
            }
        }
    }
    values
}

pub fn grep(values: &Values) -> String {
    let line =
        |(path, value): &(String, String)| format!("/sys/devices/system/cpu/{path}:{value}\n");
    values.iter().map(line).collect()
}

fn relative(values: &Values) -> String {
    values.iter().map(|(path, value)| format!("./{path}:{value}\n")).collect()
}

/// Quoted twice, its lines folded at blanks and ended as mails end them.
fn mailed(text: &str) -> String {
    text.lines().map(|line| format!("> > {}\r\n", line.replace(' ', "\r\n> > "))).collect()
}

fn soft_broken(text: &str) -> String {
    text.lines().map(|line| format!("{}=\n{}\n", &line[..30], &line[30..])).collect()
}

fn headed(values: &Values) -> String {
    let part = |(path, value): &(String, String)| format!("==> {path} <==\n{value}\n");
    values.iter().map(part).collect::<Vec<_>>().join("\n")
}

/// Output of `cat cpu*/cpuidle/state*/*`: in the order of a shell, without names.
pub fn bare(snapshot: &Snapshot) -> String {
    let mut cpus: Vec<&Cpu> = snapshot.cpus.iter().collect();
    cpus.sort_by_key(|cpu| cpu.cpu.to_string());
    let in_order = Snapshot { cpus: cpus.into_iter().cloned().collect(), ..snapshot.clone() };
    let is_listed = |path: &str| path.contains("/state") && !path.contains("s2idle");
    values(&in_order)
        .into_iter()
        .filter(|(path, _)| is_listed(path))
        .map(|(_, value)| value + "\n")
        .collect()
}

/// sysfs says of every file that it is a page long: `tar` fills up with NUL bytes.
pub fn tar_of(values: &Values, page_bytes: usize) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, value) in values {
        let mut content = format!("{value}\n").into_bytes();
        content.resize(content.len().max(page_bytes), 0);
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o444);
        let path = format!("sys/devices/system/cpu/{path}");
        builder.append_data(&mut header, path, &content[..]).unwrap();
    }
    builder.into_inner().unwrap()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn on_disk(snapshot: &Snapshot) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, value) in values(snapshot) {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value + "\n").unwrap();
    }
    root
}
