// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Converts the events of a run to the tracepoints of a recording.

use super::task::{Blocked, State};
use super::{Machine, Sink};
use torpor_machine::units::{Instant, StateIdx};
use torpor_trace::{Event, EventKind, Function, FunctionId, Name, Names, PrevState, Timer};

/// Process numbers of tasks begin after it.
const PIDS: i32 = 100;

/// Symbols of timer functions.
const TIMER_SYMBOLS: [&str; 2] = ["tick_nohz_handler", "hrtimer_wakeup"];

/// Addresses of functions and timers; any place in a kernel's memory does.
const FUNCTIONS: u64 = 0xffff_ffff_8110_0000;
const OTHER_FUNCTIONS: u64 = 0xffff_ffff_8120_0000;
const KERNEL_TIMERS: u64 = 0xffff_8881_0000_0000;

/// Returns the function of one of [`TIMER_SYMBOLS`].
pub(super) fn function(which: usize) -> FunctionId {
    FunctionId(which as u16)
}

pub(super) fn name_of(kind: usize) -> Name {
    Name(kind as u32)
}

pub(super) fn state(state: usize) -> StateIdx {
    StateIdx(state as i32)
}

/// State number of a CPU that leaves its state.
pub(super) fn state_none() -> StateIdx {
    StateIdx(-1)
}

pub(super) fn kernel_timer(id: u32) -> Timer {
    Timer(id)
}

/// Returns a function without a name here.
pub(super) fn other_function(id: u32) -> FunctionId {
    FunctionId((TIMER_SYMBOLS.len() + id as usize) as u16)
}

/// Returns the names of a recording's events: of tasks, then what the functions here number.
pub fn names_of<'a>(tasks: impl Iterator<Item = &'a str>, events: &mut [Event]) -> Names {
    let mut names = Names::default();
    tasks.for_each(|task| {
        names.intern(task);
    });
    let (mut timers, mut functions) = (0, TIMER_SYMBOLS.len());
    for event in events {
        let timer = event.kind.timer_mut().map_or(0, |timer| timer.0 + 1);
        timers = timers.max(timer);
        let function = event.kind.function_mut().map_or(0, |function| usize::from(function.0) + 1);
        functions = functions.max(function);
    }
    for id in 0..timers {
        names.timer(KERNEL_TIMERS + 0x100 * u64::from(id));
    }
    for id in 0..functions {
        let symbol = TIMER_SYMBOLS.get(id).map(|symbol| names.intern(symbol));
        let address = match id.checked_sub(TIMER_SYMBOLS.len()) {
            None => FUNCTIONS + 0x100 * id as u64,
            Some(other) => OTHER_FUNCTIONS + 0x100 * other as u64,
        };
        names.function(Function { address, symbol });
    }
    names
}

/// Returns the pid of a task by the kernel's number; 0 for the idle task.
pub(super) fn pid_of(number: u32) -> i32 {
    if number == 0 { 0 } else { PIDS + number as i32 }
}

fn prev_state(state: State) -> PrevState {
    match state {
        State::Runnable => PrevState::Runnable,
        State::Blocked(Blocked::Io(wait)) if wait.is_uninterruptible() => PrevState::DiskSleep,
        State::Blocked(_) => PrevState::Sleeping,
        State::Dead => PrevState::Dead,
    }
}

impl<S: Sink> Machine<'_, S> {
    /// Records that a CPU has switched from a task, or the idle task, to what it has now.
    pub(super) fn record_switch(&mut self, cpu: usize, before: u32, at: Instant) {
        if !S::RECORDS {
            return;
        }
        let prev_state = match (before, self.slot(before)) {
            (0, _) => PrevState::Runnable,
            (_, None) => PrevState::Dead,
            (_, Some(id)) => prev_state(self.world.tasks[id as usize].state),
        };
        let next = self.cpus[cpu].task;
        let next_kind = self.slot(next).map(|id| self.world.tasks[id as usize].kind);
        let switch = EventKind::SchedSwitch {
            prev_pid: pid_of(before),
            prev_state,
            next_pid: pid_of(next),
            next_comm: next_kind.map(name_of),
        };
        self.end_handler(cpu, &switch);
        self.sink.event(at, cpu, switch);
    }
}
