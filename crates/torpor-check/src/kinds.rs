// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Definitions of breaches, one entry per kind.

use crate::block::{Answer, State, Step};
use schemars::JsonSchema;
use serde::Serialize;

/// Least duration of a slow decision, in every repetition: shallow states take one or two
/// microseconds to leave, and the kernel calls with interrupts off.
pub const SLOW_NS: u64 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "CheckKind")]
pub enum Kind {
    Index,
    Disabled,
    Latency,
    Tick,
    Memory,
    Arithmetic,
    Bug,
    Endless,
    Leak,
    Uninitialised,
    Slow,
}

/// A governor's inputs and its answer.
pub struct Decision<'a> {
    pub states: &'a [State],
    pub step: &'a Step,
    pub answer: &'a Answer,
}

/// Returns true if a decision is a breach.
pub type Rule = fn(&Decision<'_>) -> bool;

/// A kind's entry.
pub struct KindInfo {
    pub kind: Kind,
    pub name: &'static str,
    /// One line.
    pub title: &'static str,
    /// Condition of the breach, and why it matters.
    pub definition: &'static str,
    /// For kinds that a single decision shows.
    pub rule: Option<Rule>,
}

pub const KINDS: &[KindInfo] = &[
    KindInfo {
        kind: Kind::Index,
        name: "index",
        title: "an index that is not a state",
        definition: "select() returns a number below 0 or not below drv->state_count. A kernel \
                     then reads past the driver's table. Tables of one state are tested unless \
                     the tree's idle loop never calls a governor there, as none does since 7.0.",
        rule: Some(no_such_state),
    },
    KindInfo {
        kind: Kind::Disabled,
        name: "disabled",
        title: "a disabled state chosen",
        definition: "The chosen state is disabled (states_usage[].disable). Only state 0 is \
                     exempt, and only if no enabled state keeps the latency limit: the governor \
                     must choose a state, and every kernel falls back to state 0.",
        rule: Some(disabled_state),
    },
    KindInfo {
        kind: Kind::Latency,
        name: "latency",
        title: "the latency limit broken",
        definition: "The chosen state's exit_latency_ns is above cpuidle_governor_latency_req(), \
                     though some enabled state keeps the limit. The user of PM QoS that set \
                     the limit waits longer for the CPU than it asked for.",
        rule: Some(latency_limit),
    },
    KindInfo {
        kind: Kind::Tick,
        name: "tick",
        title: "the tick stopped for a polling state",
        definition: "select() chooses a polling state and leaves *stop_tick true while the tick \
                     runs. Polling is for sleeps of microseconds: stopping and restarting the tick \
                     costs more than such a sleep, and the state does not end by itself before its \
                     time limit. If the tick is already stopped, there is nothing to stop, and no \
                     breach.",
        rule: Some(tick_stopped_for_polling),
    },
    KindInfo {
        kind: Kind::Memory,
        name: "memory",
        title: "a wrong access to memory",
        definition: "AddressSanitizer, UndefinedBehaviorSanitizer (for pointers and array bounds) \
                     or a signal ends the program. The driver's states and the device's counters \
                     beyond state_count count as memory that must not be touched.",
        rule: None,
    },
    KindInfo {
        kind: Kind::Arithmetic,
        name: "arithmetic",
        title: "an operation without a result",
        definition: "UndefinedBehaviorSanitizer ends the program over arithmetic: a division by \
                     zero, a shift by too much, a signed overflow. Kernels are compiled so that \
                     signed integers wrap; the check reports it anyway, since a wrapped time is \
                     hardly ever intended. Unsigned integers wrap by definition and are not \
                     watched.",
        rule: None,
    },
    KindInfo {
        kind: Kind::Bug,
        name: "bug",
        title: "the governor's own check fails",
        definition: "A WARN_ON() or BUG_ON() fires on legal calls, or the governor accesses \
                     per-CPU data of a CPU that does not exist.",
        rule: Some(warned),
    },
    KindInfo {
        kind: Kind::Endless,
        name: "endless",
        title: "a call that does not return",
        definition: "A call uses a second of its CPU's time.",
        rule: None,
    },
    KindInfo {
        kind: Kind::Leak,
        name: "leak",
        title: "another CPU's calls change the answer",
        definition: "A CPU's answers (state, *stop_tick) differ from its answers to the same calls \
                     without any calls on other CPUs. A governor may look at its neighbours on \
                     purpose; otherwise it keeps state that CPUs share, or uses this_cpu_ptr() in \
                     enable(), which runs on any CPU.",
        rule: None,
    },
    KindInfo {
        kind: Kind::Uninitialised,
        name: "uninitialised",
        title: "the answer depends on the build",
        definition: "The answers differ between a program whose variables on the stack start as \
                     zeros and one where they start as another pattern, so the governor reads a \
                     variable that was never set. (Undefined behaviour that no sanitizer sees can \
                     show here as well.)",
        rule: None,
    },
    KindInfo {
        kind: Kind::Slow,
        name: "slow",
        title: "a decision that takes too long",
        definition: "One select() and its reflect() take more than 10 us without sanitizers, in \
                     each of several repetitions, so no interruption is to blame. Every report \
                     also has the median, the 99th percentile and the worst, each over the \
                     shortest times of the repetitions.",
        rule: None,
    },
];

impl Kind {
    pub fn info(self) -> &'static KindInfo {
        KINDS.iter().find(|info| info.kind == self).expect("every kind has an entry")
    }

    pub fn name(self) -> &'static str {
        self.info().name
    }
}

impl Decision<'_> {
    fn is_disabled(&self, state: usize) -> bool {
        self.answer.disabled_mask >> state & 1 != 0
    }

    fn keeps_limit(&self, state: usize) -> bool {
        self.states[state].exit_latency_ns <= self.step.latency_req_ns
    }

    /// Returns the shallowest enabled state within the latency limit.
    pub fn allowed(&self) -> Option<usize> {
        (0..self.states.len()).find(|i| !self.is_disabled(*i) && self.keeps_limit(*i))
    }

    /// Returns the chosen state, if it exists.
    pub fn chosen(&self) -> Option<usize> {
        usize::try_from(self.answer.state).ok().filter(|state| *state < self.states.len())
    }
}

fn no_such_state(decision: &Decision<'_>) -> bool {
    decision.chosen().is_none()
}

fn disabled_state(decision: &Decision<'_>) -> bool {
    let Some(state) = decision.chosen() else { return false };
    decision.is_disabled(state) && (state != 0 || decision.allowed().is_some())
}

fn latency_limit(decision: &Decision<'_>) -> bool {
    let Some(state) = decision.chosen() else { return false };
    !decision.keeps_limit(state) && decision.allowed().is_some()
}

fn tick_stopped_for_polling(decision: &Decision<'_>) -> bool {
    let Some(state) = decision.chosen() else { return false };
    let answer = decision.answer;
    decision.states[state].is_polling != 0 && answer.stop_tick != 0 && answer.tick_was_stopped == 0
}

fn warned(decision: &Decision<'_>) -> bool {
    decision.answer.warned != 0
}
