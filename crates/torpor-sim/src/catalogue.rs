// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The metrics of a simulation: those of a replay that hold here, and those of tasks and power.

use std::sync::LazyLock;
use torpor_engine::catalogue::{Direction, METRICS, Metric};

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

/// Metrics of a replay that mean nothing here: there is no recording to be late against.
const OF_REPLAY_ONLY: [&str; 2] = ["delay_total_us", "absorbed_spans"];

/// As in a replay, but each governor has an oracle of its own.
const OVER_ORACLE: Metric = optional(metric(
    "over_oracle_pct",
    "idle energy over oracle",
    "%",
    Direction::Lower,
    "How much more idle energy than the cheapest choices that keep the latency limit, made for the \
     idleness of the governor's own run, with all of it in view.",
));

/// As in a replay, but of events that the simulation makes.
const WAKEUPS: Metric = metric(
    "wakeups",
    "wake-ups",
    "",
    Direction::None,
    "Events that found the CPU asleep: interrupts, IPIs and timers, without the tick.",
);

const OWN: [Metric; 26] = [
    metric(
        "throughput",
        "passes",
        "1/s",
        Direction::Higher,
        "Passes of all tasks through their programs, each second.",
    ),
    metric(
        "task_latency_mean_us",
        "task wake-up latency, mean",
        "us",
        Direction::Lower,
        "From the event that wakes a task to the task running: the idle state's latency, interrupt \
         and IPI, and the wait for a CPU. Over all wake-ups of all tasks.",
    ),
    metric(
        "task_latency_p99_us",
        "task wake-up latency, p99",
        "us",
        Direction::Lower,
        "The latency that 99 % of the tasks' wake-ups do not exceed, to 0.1 %.",
    ),
    metric(
        "task_latency_max_us",
        "task wake-up latency, max",
        "us",
        Direction::Lower,
        "The longest wake-up latency of a task.",
    ),
    optional(metric(
        "missed_periods",
        "missed periods",
        "",
        Direction::Lower,
        "Periods of a task whose beginning found it still busy: missed frames, for a renderer.",
    )),
    optional(metric(
        "iops",
        "IO",
        "1/s",
        Direction::Higher,
        "Requests to devices whose results tasks took, each second.",
    )),
    optional(metric(
        "io_latency_mean_us",
        "IO latency, mean",
        "us",
        Direction::Lower,
        "From a request's submission to its task taking the result (fio's `clat`): device, \
         interrupt, wake-up and the wait for a CPU. Over all requests.",
    )),
    optional(metric(
        "io_latency_p50_us",
        "IO latency, p50",
        "us",
        Direction::Lower,
        "The latency that half of the requests do not exceed, to 0.1 %.",
    )),
    optional(metric(
        "io_latency_p99_us",
        "IO latency, p99",
        "us",
        Direction::Lower,
        "The latency that 99 % of the requests do not exceed, to 0.1 %.",
    )),
    optional(metric(
        "io_latency_max_us",
        "IO latency, max",
        "us",
        Direction::Lower,
        "The longest latency of a request.",
    )),
    optional(metric(
        "device_util_pct",
        "IO device busy",
        "%",
        Direction::None,
        "Share of time with a request under way, as iostat's `%util`; of the busiest device.",
    )),
    optional(metric(
        "cpu_per_io_us",
        "CPU time per IO",
        "us",
        Direction::Lower,
        "Time of all CPUs with tasks, interrupts and switches, for each request in `iops`.",
    )),
    metric(
        "busy_pct",
        "CPUs busy",
        "%",
        Direction::None,
        "Share of all CPU time with tasks, interrupts and switches; ticks that woke an idle CPU \
         left out.",
    ),
    metric(
        "power_mw",
        "power",
        "mW",
        Direction::Lower,
        "Of busy and idle CPUs, of clusters beside their CPUs, and of the package's floor.",
    ),
    metric("energy_uj", "energy", "uJ", Direction::Lower, "`power_mw` over the simulated time."),
    optional(metric(
        "freq_khz",
        "frequency",
        "kHz",
        Direction::None,
        "Of the CPUs' clocks, over all time and all CPUs. Not known where a machine's OPPs are not.",
    )),
    optional(metric(
        "freq_busy_khz",
        "frequency, busy",
        "kHz",
        Direction::None,
        "The same over the time that CPUs were busy.",
    )),
    optional(metric(
        "freq_transitions_per_s",
        "frequency changes",
        "1/s",
        Direction::None,
        "Changes of frequency of all clocks, each second.",
    )),
    metric(
        "ipis",
        "reschedule IPIs",
        "",
        Direction::Lower,
        "Interrupts sent to make another CPU look at its queue.",
    ),
    metric("migrations", "migrations", "", Direction::None, "Tasks that changed their CPU."),
    metric(
        "preemptions",
        "preemptions",
        "",
        Direction::None,
        "Tasks that had to leave their CPU with work left.",
    ),
    optional(metric(
        "package_mw",
        "package beside its CPUs",
        "mW",
        Direction::Lower,
        "Its floor, and what it takes on top while any CPU works or polls, where the machine says \
         so; part of `power_mw`.",
    )),
    optional(metric(
        "shared_state_mw",
        "waiting for others",
        "mW",
        Direction::Lower,
        "What CPUs in a state of their cluster or package take more than the state does, while \
         others keep it from being had.",
    )),
    optional(metric(
        "over_oracle_mw",
        "idle power over oracle",
        "mW",
        Direction::Lower,
        "The same as power.",
    )),
    optional(metric(
        "lost_too_deep_mw",
        "lost by too deep sleeps",
        "mW",
        Direction::Lower,
        "What sleeps took more than the cheapest state for their length, which was shallower.",
    )),
    optional(metric(
        "lost_too_shallow_mw",
        "lost by too shallow sleeps",
        "mW",
        Direction::Lower,
        "What sleeps took more than the cheapest state for their length, which was deeper. Sleeps \
         that a tick cut short are short: what longer ones would have saved is in neither.",
    )),
];

static ALL: LazyLock<Vec<Metric>> = LazyLock::new(|| {
    let shared = METRICS.iter().filter(|m| !OF_REPLAY_ONLY.contains(&m.key));
    let defined_anew = [WAKEUPS, OVER_ORACLE];
    let shared = shared.map(|m| *defined_anew.iter().find(|own| own.key == m.key).unwrap_or(m));
    OWN.iter().copied().chain(shared).collect()
});

/// In the order of the table.
pub fn metrics() -> &'static [Metric] {
    &ALL
}
