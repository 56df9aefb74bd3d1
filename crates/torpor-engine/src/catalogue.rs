// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Every metric's name, unit, direction and definition, in the order of the table.

use serde::Serialize;

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    Lower,
    Higher,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Metric {
    pub key: &'static str,
    pub title: &'static str,
    pub unit: &'static str,
    pub direction: Direction,
    pub definition: &'static str,
    /// Left out of a table in which it is 0 or not known for everyone.
    pub is_optional: bool,
}

const fn metric(
    key: &'static str,
    title: &'static str,
    unit: &'static str,
    direction: Direction,
    definition: &'static str,
) -> Metric {
    Metric { key, title, unit, direction, definition, is_optional: false }
}

const fn optional(metric: Metric) -> Metric {
    Metric { is_optional: true, ..metric }
}

/// The metrics of a replay.
pub const METRICS: [Metric; 22] = [
    metric(
        "wakeups",
        "wake-ups",
        "",
        Direction::None,
        "Events of the recording that found the CPU asleep: interrupts, IPIs and timers, without \
         the tick.",
    ),
    metric(
        "sleeps",
        "sleeps",
        "",
        Direction::Lower,
        "Entries into any idle state (the sum of sysfs `usage`).",
    ),
    metric(
        "above_pct",
        "too deep (above)",
        "%",
        Direction::Lower,
        "Share of all sleeps shorter than the target residency of their state while a shallower \
         state was enabled: the kernel's rule for sysfs `above`.",
    ),
    metric(
        "below_pct",
        "too shallow (below)",
        "%",
        Direction::Lower,
        "Share of all sleeps that, less the exit latency, reached the target residency of the next \
         enabled deeper state: the kernel's rule for sysfs `below`.",
    ),
    metric(
        "deepest_residency_pct",
        "in deepest state",
        "%",
        Direction::None,
        "Share of all CPU time spent in the deepest state of the CPU's table.",
    ),
    metric(
        "idle_residency_pct",
        "in any state",
        "%",
        Direction::None,
        "Share of all CPU time spent in idle states, entry and exit latency included.",
    ),
    metric(
        "latency_mean_us",
        "wake-up latency, mean",
        "us",
        Direction::Lower,
        "From the event to the CPU running: what is left of the entry latency, and the exit \
         latency. Over all wake-ups.",
    ),
    metric(
        "latency_p50_us",
        "wake-up latency, p50",
        "us",
        Direction::Lower,
        "The latency that half of the wake-ups do not exceed, to 0.1 %.",
    ),
    metric(
        "latency_p99_us",
        "wake-up latency, p99",
        "us",
        Direction::Lower,
        "The latency that 99 % of the wake-ups do not exceed, to 0.1 %.",
    ),
    metric(
        "latency_max_us",
        "wake-up latency, max",
        "us",
        Direction::Lower,
        "The longest wake-up latency.",
    ),
    optional(metric(
        "forbidden_sleeps",
        "forbidden sleeps",
        "",
        Direction::Lower,
        "Sleeps in a state that was disabled or whose exit latency is above the latency limit. The \
         oracle is a lower bound for governors that have none.",
    )),
    metric(
        "idle_power_mw",
        "idle power",
        "mW",
        Direction::Lower,
        "Idle energy of the CPUs over the replayed time, summed over CPUs.",
    ),
    optional(metric(
        "cluster_power_mw",
        "cluster power",
        "mW",
        Direction::Lower,
        "What clusters take beside their CPUs (caches, interconnect), drawn unless all CPUs of the \
         cluster are in their deepest state. Summed over clusters; the oracle does not aim at it.",
    )),
    metric(
        "idle_energy_uj",
        "idle energy",
        "uJ",
        Direction::Lower,
        "Energy of all sleeps: the state's power times residency, plus an overhead a sleep that \
         makes the state break even with the next shallower one at its target residency; plus the \
         power of a busy CPU while ticks and governor's timers that woke it are handled.",
    ),
    metric(
        "over_oracle_pct",
        "idle energy over oracle",
        "%",
        Direction::Lower,
        "How much more idle energy than the cheapest choices that keep the latency limit, made \
         with the whole recording in view.",
    ),
    metric(
        "tick_wakeups",
        "tick wake-ups",
        "",
        Direction::Lower,
        "Sleeps that nothing but the tick ended, which the governor had kept.",
    ),
    optional(metric(
        "governor_timer_wakeups",
        "governor's timer wake-ups",
        "",
        Direction::Lower,
        "Sleeps that nothing but a timer of the governor's own ended.",
    )),
    optional(metric(
        "poll_timeouts",
        "poll time-outs",
        "",
        Direction::Lower,
        "Sleeps in a polling state that ended at the polling limit.",
    )),
    optional(metric(
        "poll_interrupts",
        "interrupts while polling",
        "",
        Direction::None,
        "Wake-ups that brought no task and found the CPU in a polling state, in which it stayed: \
         several of them can fall into one sleep.",
    )),
    optional(metric(
        "ipis_saved",
        "reschedule IPIs saved",
        "",
        Direction::Higher,
        "Wake-ups by another CPU that found this one in a polling state, which notices them \
         without an interrupt. MWAIT states of x86 need none either and do not count.",
    )),
    metric(
        "delay_total_us",
        "delay carried",
        "us",
        Direction::Lower,
        "Sum over wake-ups of how much later than recorded the work behind them began. Work that \
         is late starts the next sleep late; idle time absorbs it.",
    ),
    metric(
        "absorbed_spans",
        "sleeps absorbed",
        "",
        Direction::None,
        "Idle spans of the recording in which the CPU was still busy with delayed work, or got new \
         work before it was asleep.",
    ),
];
