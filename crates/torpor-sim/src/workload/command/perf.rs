// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `perf bench sched`: pipe, messaging and seccomp-notify of Linux 6.12's tools/perf/bench.

use super::options::{Known, Line};
use super::{count, phase, positive, task, workload};
use torpor_machine::toml::{Content, Report};

const SUITES: [&str; 3] = ["pipe", "messaging", "seccomp-notify"];

const LOOPS_MAX: u64 = 1_000_000_000_000;
const GROUPS_MAX: u64 = 25_000;
/// Tasks on each side of a group of messaging.
const FANOUT: u64 = 20;

/// Work of a system call on either end of a pipe or a socket, without the switch and the wake-up
/// that the simulator adds.
const WORK_US: f64 = 1.5;

const OPTIONS: &[Known] = &[
    Known { names: &["loop", "l", "nr_loops"], takes_value: true },
    Known { names: &["group", "g"], takes_value: true },
    Known { names: &["threaded", "T", "thread", "t"], takes_value: false },
    Known { names: &["pipe", "p"], takes_value: false },
    Known { names: &["sync-mode"], takes_value: false },
    Known { names: &["work_us"], takes_value: true },
];

pub(super) fn read(report: &mut Report<'_>, line: &Line) -> Option<Content> {
    // `perf bench -f simple -r 3 sched pipe`: options before `sched` only affect the output.
    let words: Vec<&str> = line.words.iter().map(|w| w.text.as_str()).collect();
    let Some(at) = words.iter().position(|word| *word == "sched") else {
        let words = ["perf bench sched pipe", "perf bench sched messaging"];
        report.push(line.finding(
            line.words.get(1),
            "only `perf bench sched` is simulated",
            &words,
        ));
        return None;
    };
    let Some(suite) = words.get(at + 1).filter(|suite| SUITES.contains(suite)) else {
        report.push(line.finding(line.words.get(at + 1), "there is no such benchmark", &SUITES));
        return None;
    };
    let (settings, others) = line.options(report, at + 2, OPTIONS);
    if let Some(other) = others.first() {
        report.push(line.finding(Some(other), "this is not an option", &[]));
    }
    let (mut loops, mut groups, mut work_us, mut sync_mode) = (None, 10, None, false);
    for setting in &settings {
        match setting.key.as_str() {
            "loop" => loops = Some(count(report, setting, 1, LOOPS_MAX)?),
            "group" => groups = count(report, setting, 1, GROUPS_MAX)?,
            "work_us" => work_us = Some(positive(report, setting, 1e6)?),
            "sync-mode" => sync_mode = true,
            _ => {}
        }
    }
    let chosen = match work_us {
        Some(us) => format!("{us} us of work a system call: --work_us"),
        None => format!(
            "{WORK_US} us of work a system call is chosen, without the switch and the wake-up, \
             which the simulator adds (--work_us)"
        ),
    };
    let work_us = work_us.unwrap_or(WORK_US);
    let given = format!("`{}`", line.whole);
    Some(match *suite {
        "messaging" => {
            let title = "Senders and receivers, 20 of each a group, each sender to each receiver";
            let shape = "shape: tools/perf/bench/sched-messaging.c of Linux 6.12; here a group has \
                         one queue, and a sender waits for space before its next round";
            let content = workload(suite, title, &[&given, shape, &chosen]);
            content.with("task", messaging(groups, loops.unwrap_or(100), work_us))
        }
        "pipe" => {
            let title = "Two tasks that hand a byte to and fro";
            let shape = "shape: tools/perf/bench/sched-pipe.c of Linux 6.12";
            let tasks = ping_pong(["ping", "pong"], loops.unwrap_or(1_000_000), work_us, true);
            workload(suite, title, &[&given, shape, &chosen]).with("task", tasks)
        }
        _ => {
            let title = "A task whose system calls another one answers";
            let shape = "shape: tools/perf/bench/sched-seccomp-notify.c of Linux 6.12: a call is \
                         notified, received and answered; without --sync-mode nobody says that it \
                         is about to sleep";
            let names = ["caller", "supervisor"];
            let tasks = ping_pong(names, loops.unwrap_or(1_000_000), work_us, sync_mode);
            workload(suite, title, &[&given, shape, &chosen]).with("task", tasks)
        }
    })
}

fn ping_pong([ping, pong]: [&str; 2], loops: u64, work_us: f64, sync: bool) -> Vec<Content> {
    let wake = |to: &str| phase("wake", format!("to-{to}")).with("sync", sync);
    let wait = |to: &str| phase("wait", format!("to-{to}"));
    let task =
        |name: &str, phases: Vec<Content>| task(name).with("repeat", loops).with("phase", phases);
    vec![
        task(ping, vec![phase("run_us", work_us), wake(pong), wait(ping)]),
        task(pong, vec![wait(pong), phase("run_us", work_us), wake(ping)]),
    ]
}

fn messaging(groups: u64, loops: u64, work_us: f64) -> Vec<Content> {
    let task = |name: &str, repeat: u64| {
        task(name).with("count", groups * FANOUT).with("group", FANOUT).with("repeat", repeat)
    };
    let run = || phase("run_us", work_us);
    let round = phase("repeat", FANOUT).with("do", vec![run(), phase("wake", "message")]);
    let space = phase("wait", "space").with("count", FANOUT);
    vec![
        task("sender", loops).with("phase", vec![round, space]),
        task("receiver", loops * FANOUT)
            .with("phase", vec![phase("wait", "message"), run(), phase("wake", "space")]),
    ]
}
