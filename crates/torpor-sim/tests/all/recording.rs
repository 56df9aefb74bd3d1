// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A run written as a recording, read back, and replayed.

use crate::support::{frames, machine, request};
use torpor_engine::Unwatched;
use torpor_engine::decision::Decision;
use torpor_governor::Catalog;
use torpor_sim::Session;
use torpor_sim::record::{self, Recorder};
use torpor_trace::{EventKind, Trace};

fn recorded(governor: &str) -> (Trace, Vec<Decision>, torpor_sim::Request) {
    let request = request(machine(2, ""), frames("handling_us = 5"), &[governor], 8_000);
    let session = Session::new(&request, &Catalog::new(Default::default())).unwrap();
    let run = session.simulate(0, 1, Recorder::default(), &mut |_| true).unwrap();
    let (_, recorder) = run.unwrap();
    let decisions = recorder.decisions.clone();
    (recorder.into_trace(&session.plan(1)), decisions, request)
}

/// Events by CPU in order, names as text: what must survive writing and reading.
fn told(trace: &Trace) -> Vec<String> {
    let comm = |name: Option<torpor_trace::Name>| name.map(|n| trace.names.text(n));
    let address = |timer| trace.names.timer_address(timer);
    let event = |event: &torpor_trace::Event| {
        let kind = match event.kind {
            EventKind::SchedSwitch { prev_pid, prev_state, next_pid, next_comm } => {
                let comm = comm(next_comm.filter(|_| next_pid != 0));
                format!("switch {prev_pid} {prev_state:?} {next_pid} {comm:?}")
            }
            EventKind::HrtimerStart { timer, function, expires, .. } => {
                let (timer, expires) = (address(timer), expires.get());
                format!("start {timer:x} {:?} {expires}", trace.names.symbol(function))
            }
            EventKind::HrtimerExpireEntry { timer, function, now } => {
                let (timer, now) = (address(timer), now.get());
                format!("expire {timer:x} {:?} {now}", trace.names.symbol(function))
            }
            EventKind::HrtimerCancel { timer } => format!("cancel {:x}", address(timer)),
            EventKind::HrtimerExpireExit { timer } => format!("exit {:x}", address(timer)),
            other => format!("{other:?}"),
        };
        format!("{} {} {kind}", event.time.0, event.cpu)
    };
    let mut all: Vec<String> = trace.events.iter().map(event).collect();
    // Formats order events of one moment as they like.
    all.sort();
    all
}

#[test]
fn a_run_survives_being_written_and_read() {
    let (trace, ..) = recorded("menu");
    assert!(trace.events.len() > 5_000, "{}", trace.events.len());
    let folder = std::env::temp_dir().join(format!("torpor-sim-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, format) in [("run.perfetto-trace", "perfetto"), ("run.txt", "ftrace")] {
        let path = folder.join(name);
        record::write(&trace, &path).unwrap();
        let read = torpor_trace::read(&path).unwrap();
        assert!(read.meta.format.starts_with(format), "{}", read.meta.format);
        assert!(read.losses.is_empty(), "{name}: {:?}", read.losses);
        let (ours, theirs) = (told(&trace), told(&read));
        assert_eq!(ours.len(), theirs.len(), "{name}");
        for (a, b) in ours.iter().zip(&theirs) {
            assert_eq!(a, b, "{name}");
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// The recording shows an interrupt when its handler runs, the state's exit latency after it came.
/// The replay takes that for the moment of the interrupt, adds the latency again, and is as much
/// late until idle time has absorbed it.
const NEAR_NS: i64 = 100_000;

#[test]
fn replay_of_a_run_nearly_repeats_decisions() {
    let folder = std::env::temp_dir().join(format!("torpor-replay-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    // In 8 s menu has 0.9692 with timer slack and 0.9686 without, teo 0.9754 and 0.9807. Runs of 2 s
    // differ by as much as a point.
    for (governor, least) in [("menu", 0.965), ("teo", 0.97)] {
        let (trace, decisions, request) = recorded(governor);
        let path = folder.join("run.perfetto-trace");
        record::write(&trace, &path).unwrap();
        let replay = torpor_engine::Request {
            traces: vec![path],
            platform: request.platform.clone(),
            governors: request.governors.clone(),
            options: torpor_engine::Options {
                decisions: true,
                recorded_on: Some(request.platform.clone().into()),
                ..Default::default()
            },
        };
        let outcome =
            torpor_engine::run(&replay, &Catalog::new(Default::default()), &Unwatched).unwrap();
        let replayed = &outcome.traces[0];
        assert_eq!(replayed.runs[0].error, None);
        let alike = decisions.iter().filter(|d| {
            let nearest = replayed.decisions[0]
                .iter()
                .filter(|r| r.slot == d.slot && (r.from.0 - d.from.0).abs() <= NEAR_NS)
                .min_by_key(|r| (r.from.0 - d.from.0).abs());
            nearest.is_some_and(|r| (r.state, r.stop_tick) == (d.state, d.stop_tick))
        });
        let share = alike.count() as f64 / decisions.len() as f64;
        println!("{governor}: {:.2} % of {} decisions alike", 100.0 * share, decisions.len());
        assert!(share >= least, "{governor}: {share}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}
