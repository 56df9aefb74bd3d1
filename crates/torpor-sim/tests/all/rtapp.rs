// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Workloads in rt-app's language: what they do, and what is refused.

use crate::support::{count, machine, request};
use proptest::prelude::*;
use torpor_sim::Workload;
use torpor_sim::machine::Counted;
use torpor_sim::workload::{Op, TaskKind, from_rtapp, from_toml};

fn run(text: &str, ms: i64) -> Counted {
    let workload = from_rtapp("test.json", "test", text).unwrap_or_else(|e| panic!("{e}"));
    count(&request(machine(4, ""), workload, &["menu"], ms)).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(text: &str) -> String {
    match from_rtapp("test.json", "test", text) {
        Ok(_) => panic!("this is taken: {text}"),
        Err(error) => error.to_string(),
    }
}

/// Milliseconds of CPU time.
fn cpu_ms(counted: &Counted, kind: usize) -> f64 {
    counted.kinds[kind].cpu_time.as_us_f64() / 1e3
}

#[test]
fn phases_and_loops_run_the_given_times() {
    // Twice: ten times 1 ms of work, then once 3 ms. 26 ms, and 22 sleeps.
    let counted = run(
        r#"{
            /* comments are taken */
            "tasks": { "worker": {
                "loop": 2,
                "phases": {
                    "light": { "loop": 10, "run": 1000, "sleep": 2000 },
                    "heavy": { "run": 3000, "sleep": 2000 } // once
                }
            } },
            "global": { "duration": 2, "calibration": "CPU0", "ftrace": true }
        }"#,
        200,
    );
    assert_eq!(cpu_ms(&counted, 0), 26.0);
    assert_eq!(counted.kinds[0].wakeups, 22);
    assert_eq!(counted.kinds[0].ended, 1);
}

#[test]
fn keys_may_repeat_and_have_a_number() {
    let counted = run(
        r#"{ "tasks": { "t": {
            "loop": 1, "run": 1000, "sleep": 500, "run": 2000, "sleep1": 500, "run2": 4000
        } } }"#,
        50,
    );
    assert_eq!((cpu_ms(&counted, 0), counted.kinds[0].wakeups), (7.0, 2));
}

#[test]
fn timer_forgives_lateness_unless_absolute() {
    // One pass of 25 ms, then passes of 1 ms, period 10 ms. Late at 25: relative, the next times are
    // 35, 45, … 105; absolute, 20 and 30, …, so one more is missed, and passes end at 30, 40, … 100.
    let timed = |mode: &str| {
        let counted = run(
            &format!(
                r#"{{ "tasks": {{ "t": {{ "loop": 1, "phases": {{
                    "late": {{ "run": 25000,
                        "timer": {{ "ref": "unique", "period": 10000, "mode": "{mode}" }} }},
                    "rest": {{ "loop": 100, "run": 1000,
                        "timer": {{ "ref": "unique", "period": 10000, "mode": "{mode}" }} }}
                }} }} }} }}"#
            ),
            104,
        );
        (counted.kinds[0].missed, counted.kinds[0].wakeups)
    };
    assert_eq!(timed("relative"), (1, 7));
    assert_eq!(timed("absolute"), (2, 8));
}

#[test]
fn suspended_threads_wait_for_resume() {
    let counted = run(
        r#"{ "tasks": {
            "master": { "sleep": 10000, "run": 1000, "resume": "slaves" },
            "slave": { "instance": 3, "suspend": "slaves", "run": 2000 }
        } }"#,
        60,
    );
    // Five rounds of a little more than 11 ms: every resume wakes all three, each runs 2 ms.
    assert_eq!(counted.kinds[1].wakeups, 15);
    assert_eq!(cpu_ms(&counted, 1), 30.0);
}

#[test]
fn mutex_excludes_other_threads() {
    // Four threads hold the mutex for 2 ms each at a time. To hand it over takes a wake-up, at most
    // 85 us from C6: without the mutex, it would be near to 400 ms.
    let counted = run(
        r#"{ "tasks": { "t": {
            "instance": 4, "lock": "m", "run": 2000, "unlock": "m", "sleep": 100
        } } }"#,
        100,
    );
    assert!((94.0..=100.0).contains(&cpu_ms(&counted, 0)), "{}", cpu_ms(&counted, 0));
}

#[test]
fn sync_and_wait_hand_over_to_one_another() {
    // The partner waits first; each `sync` wakes the other. 1 ms each in turn, and 85 us to wake.
    let counted = run(
        r#"{ "tasks": {
            "ping": { "delay": 1000, "cpus": [0], "lock": "m", "run": 1000,
                "sync": { "ref": "c", "mutex": "m" }, "unlock": "m" },
            "pong": { "cpus": [1], "lock": "m", "wait": { "ref": "c", "mutex": "m" }, "run": 1000,
                "signal": "c", "unlock": "m" }
        } }"#,
        101,
    );
    let sum = cpu_ms(&counted, 0) + cpu_ms(&counted, 1);
    assert!((91.0..=100.0).contains(&sum), "{sum}");
    assert!((cpu_ms(&counted, 0) - cpu_ms(&counted, 1)).abs() <= 1.0);
}

#[test]
fn nice_threads_get_less() {
    let counted = run(
        r#"{ "tasks": {
            "a": { "cpus": [0], "priority": 0, "run": 1000 },
            "b": { "cpus": [0], "priority": 5, "run": 1000 }
        } }"#,
        2_000,
    );
    // 1024 to 335.
    let ratio = cpu_ms(&counted, 0) / cpu_ms(&counted, 1);
    assert!((2.8..3.4).contains(&ratio), "{ratio}");
}

#[test]
fn policies_are_those_of_a_workload_file() {
    for (theirs, ours, priority) in [
        ("SCHED_OTHER", "normal", None),
        ("SCHED_BATCH", "batch", None),
        ("SCHED_IDLE", "idle", None),
        ("SCHED_FIFO", "fifo", Some(20)),
        ("SCHED_RR", "rr", Some(20)),
        // Without a priority rt-app takes 10.
        ("SCHED_FIFO", "fifo", None),
    ] {
        let text = |task: String, global: String| {
            format!(
                "{{ \"tasks\": {{ \"t\": {{ {task} \"run\": 500, \"sleep\": 9000 }} }}{global} }}"
            )
        };
        let of_task = priority.map_or(String::new(), |p| format!("\"priority\": {p},"));
        let policy = format!("\"policy\": \"{theirs}\",{of_task}");
        let global = format!(", \"global\": {{ \"default_policy\": \"{theirs}\" }}");
        let is_realtime = ["fifo", "rr"].contains(&ours);
        let rt = priority.or(is_realtime.then_some(10)).map(|p| format!("rt_priority = {p}\n"));
        let toml = format!(
            "name = \"t\"\ntitle = \"t\"\nsource = \"s\"\n[[task]]\nname = \"t\"\npolicy = \"{ours}\"\n\
             {}phase = [{{ run_us = 500 }}, {{ sleep_us = 9000 }}]\n",
            rt.unwrap_or_default()
        );
        let made = from_toml("t.toml", &toml).unwrap_or_else(|e| panic!("{e}"));
        for text in [text(policy, String::new()), text(of_task, global)] {
            let read = from_rtapp("t.json", "t", &text).unwrap_or_else(|e| panic!("{e}"));
            let (read, made) = (&read.tasks[0], &made.tasks[0]);
            assert_eq!((read.policy, read.clamp), (made.policy, made.clamp), "{text}");
        }
    }
}

/// Phases of a workload file and events of rt-app are the same steps.
#[test]
fn rtapp_events_are_phases_of_a_task() {
    let events = r#"{ "tasks": {
        "a": { "loop": 1, "util_min": 100, "util_max": 700, "lock": "m", "run": 5,
            "wait": { "ref": "c", "mutex": "m" }, "unlock": "m", "fork": "b",
            "timer": { "ref": "unique", "period": 400, "mode": "absolute" } },
        "b": { "instance": 0, "loop": 1, "phases": { "p": {
            "loop": 3, "run": 7, "sync": { "ref": "c", "mutex": "m" }, "broad": "c" } } } } }"#;
    let phases = "name = \"t\"\ntitle = \"t\"\nsource = \"s\"\n\
        [[task]]\nname = \"a\"\nrepeat = 1\nuclamp_min = 100\nuclamp_max = 700\nphase = [\n\
            { lock = \"m\" }, { run_us = 5 }, { await = \"c\", release = \"m\" },\n\
            { unlock = \"m\" }, { spawn = \"b\" },\n\
            { period_us = 400, timer = \"u\", absolute = true },\n]\n\
        [[task]]\nname = \"b\"\ncount = 0\nrepeat = 1\n[[task.phase]]\nrepeat = 3\ndo = [\n\
            { run_us = 7 }, { notify = \"c\" }, { await = \"c\", release = \"m\" },\n\
            { notify = \"c\", all = true },\n]\n";
    let read = from_rtapp("t.json", "t", events).unwrap_or_else(|e| panic!("{e}"));
    let made = from_toml("t.toml", phases).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(read.channels, made.channels);
    let ops = |workload: &Workload| -> Vec<Op> {
        let steps = workload.tasks.iter().flat_map(|task| &task.program);
        steps.map(|step| step.op.clone()).collect()
    };
    assert_eq!(ops(&read), ops(&made));
    for (read, made) in read.tasks.iter().zip(&made.tasks) {
        let program = Vec::new();
        let read = TaskKind { program: program.clone(), ..read.clone() };
        assert_eq!(read, TaskKind { program, ..made.clone() });
    }
    assert_eq!(read.tasks[0].program[0].place, "tasks.a.lock", "places are rt-app's");
}

#[test]
fn unsimulated_event_is_refused_with_its_line() {
    let event = |event: &str| format!("{{ \"tasks\": {{\n\"t\": {{ \"run\": 5,\n{event} }} }} }}");
    for (text, told) in [
        (event("\"iorun\": 5"), "tasks.t.iorun: this event or key of rt-app is not simulated"),
        (event("\"mem\": 5"), "tasks.t.mem: this event or key of rt-app"),
        (event("\"runtime\": 5"), "`run` is work"),
        (event("\"yield\": \"\""), "tasks.t.yield"),
        (event("\"dl-period\": 5"), "SCHED_DEADLINE"),
        (event("\"policy\": \"SCHED_DEADLINE\""), "tasks.t.policy = \"SCHED_DEADLINE\""),
        (event("\"policy\": \"SCHED_FIFO\", \"priority\": 0"), "a whole number from 1 to 99"),
        (event("\"policy\": \"SCHED_IDLE\", \"priority\": 20"), "a whole number from -20 to 19"),
        (event("\"slep\": 5"), "did you mean `sleep`?"),
        (event("\"sleep\": -5"), "a whole number from 0"),
        (event("\"sleep\": \"5\""), "tasks.t.sleep"),
        (event("\"suspend\": \"x\""), "tasks.t.suspend = \"x\": nothing wakes those that wait"),
        (event("\"resume\": \"x\""), "tasks.t.resume = \"x\": no task waits"),
        (event("\"lock\": \"x\""), "never unlocked"),
        (event("\"timer\": { \"ref\": \"unique\" }"), "not complete"),
        (event("\"wait\": { \"ref\": \"c\" }"), "tasks.t.wait.mutex: this key is missing"),
        (
            event("\"instance\": 2, \"timer\": { \"ref\": \"x\", \"period\": 9 }"),
            "threads share this timer",
        ),
        (event("\"cpus\": []"), "not a list of CPUs"),
    ] {
        let found = refused(&text);
        assert!(found.contains(told), "{text}\n{found}");
        assert!(found.contains("test.json:3:"), "the third line: {found}");
    }
    assert!(refused("{ \"tasks\": {} }").contains("at least one task"));
    assert!(refused("{}").contains("tasks: this key is missing"));
    assert!(refused("{ \"tasks\": { \"t\": {} } }").contains("at least one thing"));
    assert!(refused("{ \"tasks\": { \"t\": { \"run\": 5 ").contains("is missing here"));
    assert!(refused("{ \"global\": { \"pi_enabled\": true }, \"tasks\": {} }").contains("false"));
}

const WHOLE: &str = r#"{ "tasks": {
    "a": { "instance": 2, "delay": 100, "phases": {
        "p": { "loop": 3, "run": 50, "sleep": 60, "timer": { "ref": "unique", "period": 400 } },
        "q": { "lock": "m", "run": 10, "unlock": "m", "resume": "b", "barrier": "x" } } },
    "b": { "priority": -5, "cpus": [0, 1], "suspend": "b", "run": 70 } },
    "global": { "default_policy": "SCHED_OTHER" } }"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// A file with a stretch cut out, or some of it doubled, is refused or runs.
    #[test]
    fn damaged_file_is_an_error_or_runs(
        from in 0..WHOLE.len(), length in 0..60usize, doubles in any::<bool>()
    ) {
        let to = (from + length).min(WHOLE.len());
        let middle = if doubles { &WHOLE[from..to] } else { "" };
        let text = format!("{}{}{}", &WHOLE[..if doubles { to } else { from }], middle, &WHOLE[to..]);
        if let Ok(workload) = from_rtapp("test.json", "test", &text) {
            let _ = count(&request(machine(2, ""), workload, &["teo"], 20));
        }
    }
}
