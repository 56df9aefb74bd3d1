// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What an IO boost is told, and what its answers do.

mod support;

use std::cell::RefCell;
use std::rc::Rc;
use support::{big_little, load, machine, request};
use torpor_engine::decision::Unobserved;
use torpor_governor::Catalog;
use torpor_platform::Platform;
use torpor_sim::machine::{Counted, Machine};
use torpor_sim::{Cpufreq, IoBoost, Session};
use torpor_units::{Duration, Instant};

/// What one is told of, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Enqueue { at_us: i64, in_iowait: bool },
    Dequeue { at_us: i64, in_iowait: bool },
    Update { at_us: i64, is_iowait: bool },
    Asked { at_us: i64 },
}

/// Answers always the same.
#[derive(Clone, Default)]
struct Fixed {
    told: Rc<RefCell<Vec<Told>>>,
    cpu_util: u64,
    task_util: u64,
    queue_util: u64,
    uclamp_min: u16,
}

impl IoBoost for Fixed {
    fn enqueue(&mut self, _: u32, _: usize, now: Instant, in_iowait: bool) {
        self.told.borrow_mut().push(Told::Enqueue { at_us: now.0 / 1_000, in_iowait });
    }

    fn dequeue(&mut self, _: u32, _: usize, now: Instant, in_iowait: bool) {
        self.told.borrow_mut().push(Told::Dequeue { at_us: now.0 / 1_000, in_iowait });
    }

    fn cpufreq_update(&mut self, _: usize, now: Instant, is_iowait: bool) {
        self.told.borrow_mut().push(Told::Update { at_us: now.0 / 1_000, is_iowait });
    }

    fn cpu_util(&mut self, _: usize, now: Instant, _: u64) -> u64 {
        self.told.borrow_mut().push(Told::Asked { at_us: now.0 / 1_000 });
        self.cpu_util
    }

    fn task_util(&self, _: u32) -> u64 {
        self.task_util
    }

    fn queue_util(&self, _: usize) -> u64 {
        self.queue_util
    }

    fn sets_uclamp(&self) -> bool {
        self.uclamp_min > 0
    }

    fn uclamp_min(&self, _: u32) -> u16 {
        self.uclamp_min
    }
}

fn counted(platform: Platform, workload: &str, boost: &Fixed, ms: i64) -> Counted {
    let mut request = request(platform, load(workload), &["menu"], ms);
    request.options.cpufreq = vec!["schedutil".parse::<Cpufreq>().unwrap()];
    let session = Session::new(&request, &Catalog::new(Default::default())).unwrap();
    let plan = session.plan(0, 1);
    let mut machine = Machine::new(&plan, session.instance(0).unwrap(), Unobserved)
        .with_io_boost(Box::new(boost.clone()));
    machine.run(Instant(0) + Duration(ms * 1_000_000), &mut |_| true).unwrap();
    machine.finish().0
}

/// 2 ms of work, then 1 ms of a disk.
const IO: &str = "[[task]]\nname = \"t\"\nrepeat = 2\nphase = [{ run_us = 2000 }, { io = \"d\" }]\n\
                  [[device]]\nname = \"d\"\nservice_us = 1000\n";

#[test]
fn a_boost_is_told_of_waits_for_io_from_going_to_sleep_to_waking_up() {
    let boost = Fixed::default();
    counted(machine(1, ""), IO, &boost, 20);
    let told = boost.told.borrow();
    let of_task = |t: &&Told| matches!(t, Told::Enqueue { .. } | Told::Dequeue { .. });
    let seen: Vec<Told> = told.iter().filter(of_task).copied().collect();
    let [first, sleeps, wakes, ..] = seen[..] else { panic!("{seen:?}") };
    assert_eq!(first, Told::Enqueue { at_us: 0, in_iowait: false });
    let Told::Dequeue { at_us, in_iowait: true } = sleeps else { panic!("{sleeps:?}") };
    assert!((2_000..2_010).contains(&at_us), "{at_us}");
    let Told::Enqueue { at_us, in_iowait: true } = wakes else { panic!("{wakes:?}") };
    assert!((3_000..3_100).contains(&at_us), "{at_us}: a disk, and C6 at most");
    // The update with the flag is that of the wake-up.
    let flagged = told.iter().filter(|t| matches!(t, Told::Update { is_iowait: true, .. }));
    let flagged: Vec<&Told> = flagged.collect();
    assert_eq!(*flagged[0], Told::Update { at_us, is_iowait: true });
    assert_eq!(flagged.len(), 2, "two waits");
}

#[test]
fn updates_come_whatever_the_rate_limit_and_questions_do_not() {
    let boost = Fixed::default();
    counted(machine(1, ""), IO, &boost, 20);
    let told = boost.told.borrow();
    let early = |t: &&Told| matches!(t, Told::Update { at_us: ..1_000, .. });
    assert!(told.iter().any(|t| early(&t)), "the task's start");
    assert!(!told.iter().any(|t| matches!(t, Told::Asked { at_us: ..1_000 })), "1 ms at least");
}

/// A task that hardly works, on the little CPUs if nothing else is asked for.
const SMALL: &str = "[[task]]\nname = \"t\"\nphase = [{ run_us = 20 }, { period_us = 20000 }]\n";

#[test]
fn a_boosted_cpu_is_fast_and_a_boosted_task_goes_where_it_fits() {
    let share = |boost: &Fixed| {
        let counted = counted(big_little(), SMALL, boost, 2_000);
        let big: i64 = (2..4).map(|cpu| counted.cpus[cpu].task_time.0).sum();
        let fast = counted.domains.iter().map(|d| d.time_at[1].0).max().unwrap();
        (
            big as f64 / (big + counted.cpus[0].task_time.0 + counted.cpus[1].task_time.0) as f64,
            fast,
        )
    };
    let (big, fast) = share(&Fixed::default());
    assert!(big < 0.3 && fast < 1_000_000_000, "{big} {fast}");
    let (_, fast) = share(&Fixed { cpu_util: 1_024, ..Fixed::default() });
    assert!(fast > 1_900_000_000, "{fast}");
    // 256 is all that a little CPU has.
    for boost in [
        Fixed { task_util: 300, ..Fixed::default() },
        Fixed { uclamp_min: 300, ..Fixed::default() },
    ] {
        let (big, _) = share(&boost);
        assert!(big > 0.9, "{big}");
    }
}
