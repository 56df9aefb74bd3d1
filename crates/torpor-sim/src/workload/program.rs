// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A task's phases, flattened into steps.

use super::names::Names;
use super::read::{dist, dist_or_zero, from_us};
use super::{Draw, IoWait, Op, Step, fio};
use torpor_machine::toml::{Report, Table};
use torpor_machine::units::Instant;

/// Deepest nesting of loops.
const DEPTH_MAX: usize = 16;

/// Keys of which a phase has exactly one.
const VERBS: [&str; 13] = [
    "run_us",
    "sleep_us",
    "until_us",
    "period_us",
    "wait",
    "wake",
    "barrier",
    "io",
    "spawn",
    "call",
    "begin",
    "end",
    "repeat",
];

pub(super) struct Program {
    pub steps: Vec<Step>,
    pub draws: usize,
    pub depth: usize,
}

/// Returns a task's phases as one list of steps.
pub(super) fn flatten(report: &mut Report, task: &Table, names: &mut Names) -> Program {
    let mut program = Program { steps: Vec::new(), draws: 0, depth: 0 };
    let phases = task.tables("phase");
    if phases.is_empty() && task.field("phase").is_some_and(|f| f.raw.starts_with('[')) {
        report.push(task.finding("phase", "a task has at least one phase".to_owned()));
    }
    program.add_all(report, phases, "phase", 1, names);
    program
}

impl Program {
    fn add_all(
        &mut self,
        report: &mut Report,
        phases: &[Table],
        path: &str,
        depth: usize,
        names: &mut Names,
    ) {
        for (index, table) in phases.iter().enumerate() {
            self.add(report, table, format!("{path}[{index}]"), depth, names);
        }
    }

    fn add(
        &mut self,
        report: &mut Report,
        table: &Table,
        place: String,
        depth: usize,
        names: &mut Names,
    ) {
        let verbs: Vec<&str> = VERBS.into_iter().filter(|verb| table.has(verb)).collect();
        let [verb] = verbs[..] else {
            let (key, message) = match verbs.get(1) {
                Some(second) => (*second, format!("`{}` is also given", verbs[0])),
                None => ("", "this phase does nothing".to_owned()),
            };
            let mut finding = table.finding(key, message);
            finding.key = finding.key.trim_end_matches('.').to_owned();
            finding.allowed = Some(format!("one of {} a phase", VERBS.join(", ")));
            return report.push(finding);
        };
        let extras: [(&str, &[&str]); 9] = [
            ("count", &["wait", "wake", "spawn"]),
            ("not_before_us", &["wait"]),
            ("at_least_us", &["wait"]),
            ("sync", &["wake"]),
            ("bs", &["io"]),
            ("rw", &["io"]),
            ("handling_us", &["call"]),
            ("asleep", &["call"]),
            ("do", &["repeat"]),
        ];
        for (extra, beside) in extras {
            if table.has(extra) && !beside.contains(&verb) {
                let mut finding = table.finding(extra, format!("not allowed with `{verb}`"));
                finding.allowed = Some(format!("together with {}", beside.join(", ")));
                report.push(finding);
            }
        }
        if verb == "repeat" {
            return self.add_loop(report, table, place, depth, names);
        }
        if verb == "io" {
            return self.add_io(report, table, place, names);
        }
        if verb == "call" {
            return self.add_calls(report, table, place);
        }
        if let Some(op) = self.op(report, table, verb, names) {
            self.steps.push(Step { op, place });
        }
    }

    fn add_loop(
        &mut self,
        report: &mut Report,
        table: &Table,
        place: String,
        depth: usize,
        names: &mut Names,
    ) {
        if table.tables("do").is_empty() {
            let mut finding = table.finding("do", "there is nothing to repeat".to_owned());
            finding.allowed = Some("phases: `do = [{ run_us = 5 }, …]`".to_owned());
            return report.push(finding);
        }
        if depth > DEPTH_MAX {
            let message = format!("loops are nested more than {DEPTH_MAX} deep");
            return report.push(table.finding("repeat", message));
        }
        self.depth = self.depth.max(depth);
        let times = table.number("repeat").unwrap_or(1.0) as u64;
        let begin = self.steps.len();
        self.steps.push(Step { op: Op::LoopBegin { times, end: 0 }, place: place.clone() });
        self.add_all(report, table.tables("do"), &format!("{place}.do"), depth + 1, names);
        self.steps.push(Step { op: Op::LoopEnd { begin: begin + 1 }, place });
        let end = self.steps.len();
        self.steps[begin].op = Op::LoopBegin { times, end };
    }

    /// Adds a request and the wait for it, uninterruptible as in `read()`.
    fn add_io(&mut self, report: &mut Report, table: &Table, place: String, names: &mut Names) {
        let (Some(name), Some(transfer)) = (table.text("io"), fio::transfer(report, table)) else {
            return;
        };
        let (device, stream, next) =
            (names.device(table, "io", name), self.draws, self.steps.len() + 1);
        self.draws += 1;
        let op = Op::IoSubmit { device, stream, transfer, mix: None, next };
        self.steps.push(Step { op, place: place.clone() });
        self.steps.push(Step { op: Op::IoWait(IoWait::IoSchedule), place });
    }

    fn add_calls(&mut self, report: &mut Report, table: &Table, place: String) {
        let Some(dist) = dist_or_zero(report, table, "handling_us") else { return };
        let asleep = table.bool("asleep").unwrap_or(false);
        for cpu in table.cpus("call").unwrap_or_default() {
            let handling = Draw { dist: dist.clone(), stream: self.draws };
            self.draws += 1;
            let op = Op::Call { cpu: cpu.index(), handling, asleep };
            self.steps.push(Step { op, place: place.clone() });
        }
    }

    fn op(
        &mut self,
        report: &mut Report,
        table: &Table,
        verb: &str,
        names: &mut Names,
    ) -> Option<Op> {
        let count = table.number("count").unwrap_or(1.0);
        if count == 0.0 {
            report.push(table.finding("count", "a count of 0 has no effect".to_owned()));
        }
        Some(match verb {
            "run_us" => Op::Run(self.draw(report, table, verb)?),
            "sleep_us" => Op::Sleep(self.draw(report, table, verb)?),
            "until_us" => Op::Until(Instant(0) + from_us(table.number(verb)?)),
            "period_us" => {
                let period = from_us(table.number(verb)?);
                if period.0 == 0 {
                    report.push(table.finding(verb, "the period is zero".to_owned()));
                }
                Op::Period(period)
            }
            "wait" => {
                let channel = names.waited(table, table.text(verb)?);
                let time = |key| from_us(table.number(key).unwrap_or(0.0));
                let not_before = Instant(0) + time("not_before_us");
                let at_least = time("at_least_us");
                Op::Wait { channel, count: count as u64, not_before, at_least }
            }
            "wake" => {
                let channel = names.woken(table, verb, table.text(verb)?);
                let sync = table.bool("sync").unwrap_or(false);
                Op::Wake { channel, count: count as u64, sync }
            }
            "begin" => Op::FlowBegin(names.flow(table, verb, table.text(verb)?)),
            "end" => Op::FlowEnd(names.flow(table, verb, table.text(verb)?)),
            "barrier" => Op::Barrier(names.barriers.of_or_add(table.text(verb)?)),
            _ => {
                let task = names.task(report, table, verb, table.text(verb)?)?;
                Op::Spawn { task, count: count as u32 }
            }
        })
    }

    fn draw(&mut self, report: &mut Report, table: &Table, key: &str) -> Option<Draw> {
        let stream = self.draws;
        self.draws += 1;
        Some(Draw { dist: dist(report, table, key)?, stream })
    }
}
