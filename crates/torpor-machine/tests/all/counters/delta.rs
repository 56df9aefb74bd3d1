// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Counts between two snapshots, and everything that can come in between.

use super::support::machine;
use proptest::prelude::*;
use torpor_machine::counters::{Change, Delta, NoteKind, Snapshot, delta, read_bytes, since_boot};
use torpor_machine::units::CpuId;

/// A dump of `grep` from rows of CPU, state and values.
fn snapshot(rows: &[(u32, u32, &str)]) -> Snapshot {
    let lines = |(cpu, state, values): &(u32, u32, &str)| -> String {
        let line = |value: &str| {
            let (attr, value) = value.split_once('=').unwrap();
            format!("cpu{cpu}/cpuidle/state{state}/{attr}:{value}\n")
        };
        values.split_whitespace().map(line).collect()
    };
    let text: String = rows.iter().map(lines).collect();
    read_bytes("test", text.as_bytes()).unwrap()
}

fn message(delta: &Delta) -> Vec<(NoteKind, Vec<u32>)> {
    delta.notes.iter().map(|n| (n.kind, n.cpus.iter().map(|cpu| cpu.0).collect())).collect()
}

#[test]
fn counts_are_differences() {
    let before = snapshot(&[(0, 0, "name=C1 usage=10 time=500 above=1 below=2 rejected=0")]);
    let after = snapshot(&[(0, 0, "name=C1 usage=14 time=900 above=1 below=5 rejected=1")]);
    let delta = delta(&before, &after);
    let state = &delta.cpus[0].states[0];
    assert_eq!((state.usage, state.time_us), (Some(4), Some(400)));
    assert_eq!((state.above, state.below, state.rejected), (Some(0), Some(3), Some(1)));
    assert!(delta.notes.is_empty());
}

/// Each row is worked out by hand: 2³² − 5 to 3 is 8 steps, and so in 64 bits.
#[test]
fn wrapped_counter_went_forward() {
    for (before, after, expected) in [
        (5, 8, Change::Forward(3)),
        (5, 5, Change::Forward(0)),
        (u64::from(u32::MAX) - 4, 3, Change::Wrapped(8)),
        (u64::MAX - 4, 3, Change::Wrapped(8)),
        (1000, 3, Change::Back),
        ((1 << 31) - 1, 3, Change::Back),
        (1 << 40, 3, Change::Back),
    ] {
        assert_eq!(Change::between(before, after), expected, "{before} to {after}");
    }
}

#[test]
fn wrapped_counter_is_counted_and_reported() {
    let before = snapshot(&[(0, 0, "usage=10 time=4294967290 below=4")]);
    let after = snapshot(&[(0, 0, "usage=12 time=4 below=5")]);
    let delta = delta(&before, &after);
    assert_eq!(delta.cpus[0].states[0].time_us, Some(10));
    assert_eq!(delta.notes[0].kind, NoteKind::Wrapped);
}

#[test]
fn falling_counters_mean_a_new_driver() {
    // Alone, each of these would be taken for a wrap.
    let before = snapshot(&[(0, 0, "usage=3000000000 time=4000000000"), (1, 0, "usage=5 time=5")]);
    let after = snapshot(&[(0, 0, "usage=4 time=900"), (1, 0, "usage=6 time=9")]);
    let delta = delta(&before, &after);
    assert_eq!(delta.cpus.len(), 1);
    assert_eq!(message(&delta)[0], (NoteKind::WentBack, vec![0]));
}

#[test]
fn cpu_with_a_decreased_counter_is_omitted() {
    let before = snapshot(&[(0, 0, "usage=50"), (1, 0, "usage=50"), (2, 0, "usage=50")]);
    let after = snapshot(&[(0, 0, "usage=60"), (1, 0, "usage=7"), (2, 0, "usage=7")]);
    let delta = delta(&before, &after);
    assert_eq!(delta.cpus.iter().map(|cpu| cpu.cpu.0).collect::<Vec<_>>(), [0]);
    // Two CPUs with one story are reported once.
    assert!(message(&delta).contains(&(NoteKind::WentBack, vec![1, 2])));
}

#[test]
fn added_and_removed_cpus_are_reported() {
    let before = snapshot(&[(0, 0, "usage=1"), (0, 1, "usage=1"), (1, 0, "usage=1")]);
    let after = snapshot(&[(0, 0, "usage=2"), (0, 2, "usage=1"), (3, 0, "usage=1")]);
    let delta = delta(&before, &after);
    assert_eq!((delta.cpus.len(), delta.cpus[0].states.len()), (1, 1));
    assert_eq!(
        message(&delta),
        [
            (NoteKind::StateVanished, vec![0]),
            (NoteKind::StateAppeared, vec![0]),
            (NoteKind::NoValue, vec![0]),
            (NoteKind::CpuVanished, vec![1]),
            (NoteKind::CpuAppeared, vec![3]),
        ]
    );
}

#[test]
fn another_table_is_not_compared() {
    let before = snapshot(&[(0, 0, "name=C1 latency=2 usage=1")]);
    for values in ["name=C1E latency=2 usage=5", "name=C1 latency=10 usage=5"] {
        let delta = delta(&before, &snapshot(&[(0, 0, values)]));
        assert!(delta.cpus.is_empty());
        assert_eq!(message(&delta), [(NoteKind::TableChanged, vec![0])]);
    }
    // A dump that does not name its states is taken at its word.
    assert_eq!(delta(&before, &snapshot(&[(0, 0, "usage=5")])).cpus[0].states[0].name, "C1");
}

#[test]
fn a_boot_in_between_counts_from_it() {
    let mut before = snapshot(&[(0, 0, "usage=100 time=1 above=0 below=0 rejected=0")]);
    let mut after = snapshot(&[(0, 0, "usage=120 time=9 above=0 below=0 rejected=0")]);
    before.machine.boot_id = Some("a".to_owned());
    after.machine.boot_id = Some("b".to_owned());
    after.machine.uptime_ns = Some(7);
    let by_id = delta(&before, &after);
    assert_eq!(by_id.cpus[0].states[0].usage, Some(120));
    assert_eq!((by_id.is_since_boot, by_id.elapsed_ns), (true, Some(7)));
    assert_eq!(message(&by_id), [(NoteKind::Rebooted, vec![])]);
    // Without an id, a clock that went back shows the same.
    before.machine.boot_id = None;
    before.machine.uptime_ns = Some(8);
    assert_eq!(delta(&before, &after).notes[0].kind, NoteKind::Rebooted);
}

#[test]
fn disabled_states_are_reported() {
    let before = snapshot(&[(0, 0, "usage=1 disable=1"), (0, 1, "usage=1 disable=0")]);
    let after = snapshot(&[(0, 0, "usage=1 disable=1"), (0, 1, "usage=1 disable=1")]);
    let delta = delta(&before, &after);
    let kinds: Vec<NoteKind> = delta.notes.iter().map(|note| note.kind).collect();
    assert!(kinds.contains(&NoteKind::SwitchedOff) && kinds.contains(&NoteKind::Switched));
    assert!(delta.cpus[0].states.iter().all(|state| state.is_off));
}

#[test]
fn only_refused_state_is_reported() {
    let rows = |refused: u32| {
        let c1 = format!("name=C1 usage={refused} rejected={refused}");
        let off = format!("name=off usage=0 rejected={refused}");
        snapshot(&[(0, 0, &c1), (0, 1, &off), (1, 0, &c1), (1, 1, &off)])
    };
    let (before, after) = (rows(1_000_000), rows(3_000_000));
    for (delta, times) in [(delta(&before, &after), "4000000"), (since_boot(&after), "6000000")] {
        let notes = delta.notes.iter().filter(|note| note.kind == NoteKind::OnlyRefused);
        let notes: Vec<_> =
            notes.map(|note| (note.cpus.len(), note.text.contains(times))).collect();
        assert_eq!(notes, [(2, true)]);
    }
    assert!(!message(&delta(&after, &after)).iter().any(|(k, _)| *k == NoteKind::OnlyRefused));
}

#[test]
fn change_of_governor_is_reported() {
    let mut before = snapshot(&[(0, 0, "usage=1 time=1 above=0 below=0 rejected=0")]);
    let mut after = before.clone();
    before.machine.governor = Some("menu".to_owned());
    after.machine.governor = Some("teo".to_owned());
    let delta = delta(&before, &after);
    assert_eq!(delta.notes[0].text, "the governor changed from menu to teo");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn added_recordings_are_found(before in machine(), steps in prop::collection::vec(0..1_000_000u64, 70)) {
        let mut after = before.clone();
        let mut steps = steps.into_iter();
        let mut added = 0;
        for state in after.cpus.iter_mut().flat_map(|cpu| &mut cpu.states) {
            let step = steps.next().unwrap_or(0);
            state.usage = state.usage.map(|usage| usage / 2);
            let of_before = state.usage;
            state.usage = of_before.map(|usage| usage + step);
            added += step;
        }
        let mut halved = before;
        for state in halved.cpus.iter_mut().flat_map(|cpu| &mut cpu.states) {
            state.usage = state.usage.map(|usage| usage / 2);
        }
        let delta = delta(&halved, &after);
        let found: u64 =
            delta.cpus.iter().flat_map(|cpu| &cpu.states).filter_map(|state| state.usage).sum();
        prop_assert_eq!(found, added);
        prop_assert_eq!(since_boot(&after).cpus.len(), after.cpus.len());
        prop_assert!(after.cpu(CpuId(9999)).is_none());
    }

    #[test]
    fn any_two_machines_can_be_compared(before in machine(), after in machine()) {
        let delta = delta(&before, &after);
        let seen = before.cpus.len().max(after.cpus.len());
        let told: usize = delta.notes.iter().map(|note| note.cpus.len()).sum();
        // Every CPU is either compared or reported.
        prop_assert!(delta.cpus.len() + told >= seen);
    }
}
