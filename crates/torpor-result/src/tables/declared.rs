// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Declarations of all tables.

use super::Rows::{At, By, OfRuns};
use super::Type::{Bool, Float, Int, Text};
use super::rows::{
    causes, comparison, diff_changes, diff_states, flows, latency, led_by, list, pick, seeds,
    states, study_cells, summary, tasks,
};
use super::{Column, Table, table};
use serde_json::Value;

const STATES: &[Column] = &[
    ("source", Text, ""),
    ("governor", Text, ""),
    ("cluster", Text, ""),
    ("cpu", Int, ""),
    ("state", Int, ""),
    ("name", Text, ""),
    ("usage", Int, ""),
    ("above", Int, ""),
    ("below", Int, ""),
    ("rejected", Int, ""),
    ("time_ns", Int, "ns"),
    ("demoted", Int, ""),
    ("got_time_ns", Int, "ns"),
];

const LATENCY: &[Column] = &[
    ("source", Text, ""),
    ("governor", Text, ""),
    ("upper_bound_ns", Int, "ns"),
    ("count", Int, ""),
];

const COMPARISON: &[Column] = &[
    ("source", Text, ""),
    ("metric", Text, ""),
    ("unit", Text, ""),
    ("governor", Text, ""),
    ("value", Float, ""),
    ("difference", Float, ""),
    ("relative_pct", Float, "%"),
    ("low", Float, ""),
    ("high", Float, ""),
    ("p", Float, ""),
    ("is_significant", Bool, ""),
    ("is_better", Bool, ""),
    ("is_best", Bool, ""),
];

const SUMMARY: &[Column] = &[
    ("source", Text, ""),
    ("platform", Text, ""),
    ("governor", Text, ""),
    ("kind", Text, ""),
    ("error", Text, ""),
];

/// From the cause of a wake-up to the exit from idle.
const MEASURED: &[Column] = &[
    ("cluster", Text, ""),
    ("state", Int, ""),
    ("name", Text, ""),
    ("advertised_ns", Int, "ns"),
    ("cause", Text, ""),
    ("count", Int, ""),
    ("min_ns", Int, "ns"),
    ("p10_ns", Int, "ns"),
    ("p50_ns", Int, "ns"),
    ("p90_ns", Int, "ns"),
    ("p99_ns", Int, "ns"),
    ("mean_ns", Int, "ns"),
];

/// All tables, by kind of result.
pub static TABLES: &[Table] = &[
    table("replay", "summary", "a recording and governor", SUMMARY, By(summary)).with_metrics(),
    table("replay", "states", "a recording, governor, CPU and idle state", STATES, By(states)),
    table("replay", "latency", "a bucket of a governor's wake-up latencies", LATENCY, By(latency)),
    table("replay", "comparison", "a recording, metric and governor", COMPARISON, By(comparison)),
    table(
        "replay",
        "causes",
        "a recording, governor, and what ended its sleeps",
        &[
            ("source", Text, ""),
            ("governor", Text, ""),
            ("kind", Text, ""),
            ("name", Text, ""),
            ("sleeps", Int, ""),
            ("above", Int, ""),
            ("below", Int, ""),
            ("woken", Int, ""),
            ("latency_ns", Int, "ns"),
            ("latency_max_ns", Int, "ns"),
        ],
        By(causes),
    ),
    table("simulation", "summary", "a governor: means over seeds", SUMMARY, By(summary))
        .with_metrics(),
    table(
        "simulation",
        "seeds",
        "a governor and seed",
        &[("source", Text, ""), ("governor", Text, ""), ("seed", Int, "")],
        By(seeds),
    )
    .with_metrics(),
    table(
        "simulation",
        "states",
        "a governor, CPU and idle state, summed over seeds",
        STATES,
        By(states),
    ),
    table(
        "simulation",
        "latency",
        "a bucket of a governor's wake-up latencies, summed over seeds",
        LATENCY,
        By(latency),
    ),
    table("simulation", "comparison", "a metric and governor", COMPARISON, By(comparison)),
    table("simulation", "tasks", "a task, metric and governor", COMPARISON, By(tasks)),
    table("simulation", "flows", "a flow, metric and governor", COMPARISON, By(flows)),
    table(
        "simulation",
        "devices",
        "a governor and IO device",
        &[
            ("governor", Text, ""),
            ("name", Text, ""),
            ("requests", Int, ""),
            ("util_pct", Float, "%"),
            ("queue_size", Float, ""),
        ],
        OfRuns("devices"),
    ),
    table(
        "simulation",
        "perf_domains",
        "a governor and cluster",
        &[
            ("governor", Text, ""),
            ("name", Text, ""),
            ("freq_khz", Float, "kHz"),
            ("freq_busy_khz", Float, "kHz"),
            ("freq_transitions_per_s", Float, "1/s"),
            ("energy_uj", Float, "uJ"),
        ],
        OfRuns("perf_domains"),
    ),
    table(
        "fidelity",
        "governors",
        "a governor that was asked",
        &[
            ("governor", Text, ""),
            ("agreeing", Int, ""),
            ("agreement", Float, ""),
            ("tick_decisions", Int, ""),
            ("tick_agreeing", Int, ""),
            ("error", Text, ""),
        ],
        At("governors"),
    ),
    table("fidelity", "comparison", "a metric and governor", COMPARISON, By(comparison)),
    table(
        "fidelity",
        "confusion",
        "a governor, recorded state and chosen state",
        &[("governor", Text, ""), ("recorded", Int, ""), ("chosen", Int, ""), ("count", Int, "")],
        By(|result| {
            let one = |governor: &Value| {
                let keys = ["recorded", "chosen", "count"];
                let rows = pick(list(governor, "confusion"), &keys);
                led_by(governor["governor"].clone(), rows)
            };
            list(result, "governors").iter().flat_map(one).collect()
        }),
    ),
    table(
        "fidelity",
        "counters",
        "a CPU and idle state",
        &[
            ("cpu", Int, ""),
            ("state", Int, ""),
            ("name", Text, ""),
            ("usage", Int, ""),
            ("time_us", Int, "us"),
            ("above", Int, ""),
            ("below", Int, ""),
            ("miss_above", Int, ""),
            ("miss_below", Int, ""),
        ],
        At("counters"),
    ),
    table(
        "fidelity",
        "disagreements",
        "a decision that the best governor made otherwise",
        &[
            ("cpu", Int, ""),
            ("time_ns", Int, "ns"),
            ("recorded", Int, ""),
            ("chosen", Int, ""),
            ("source", Text, ""),
            ("sleep_length_ns", Int, "ns"),
            ("stop_tick", Bool, ""),
            ("residency_ns", Int, "ns"),
        ],
        At("disagreements"),
    ),
    table(
        "trace_stats",
        "states",
        "a CPU and idle state",
        &[
            ("cpu", Int, ""),
            ("cluster", Text, ""),
            ("state", Int, ""),
            ("name", Text, ""),
            ("usage", Int, ""),
            ("time_ns", Int, "ns"),
            ("above", Int, ""),
            ("below", Int, ""),
            ("rejected", Int, ""),
        ],
        At("states"),
    ),
    table(
        "trace_stats",
        "wakeups",
        "what ended sleeps",
        &[
            ("kind", Text, ""),
            ("name", Text, ""),
            ("count", Int, ""),
            ("slept_ns", Int, "ns"),
            ("above", Int, ""),
            ("below", Int, ""),
        ],
        At("wakeups"),
    ),
    table(
        "trace_stats",
        "tasks",
        "a task, by its comm",
        &[
            ("comm", Text, ""),
            ("wakeups", Int, ""),
            ("switches", Int, ""),
            ("run_ns", Int, "ns"),
            ("above", Int, ""),
            ("below", Int, ""),
        ],
        At("tasks"),
    ),
    table(
        "trace_stats",
        "interrupts",
        "a source of interrupts",
        &[("kind", Text, ""), ("name", Text, ""), ("count", Int, ""), ("handler_ns", Int, "ns")],
        At("interrupts"),
    ),
    table("trace_stats", "latency", "an idle state and cause", MEASURED, At("latency")),
    table("latency", "latency", "an idle state and cause", MEASURED, At("latency")),
    table(
        "latency",
        "left_out",
        "an idle state, and why its sleeps show no latency",
        &[
            ("cluster", Text, ""),
            ("state", Int, ""),
            ("name", Text, ""),
            ("reason", Text, ""),
            ("count", Int, ""),
        ],
        At("left_out"),
    ),
    table(
        "ab",
        "runs",
        "a governor's run in one round",
        &[
            ("round", Int, ""),
            ("governor", Text, ""),
            ("began_at_ns", Int, "ns"),
            ("duration_ns", Int, "ns"),
            ("figure", Float, ""),
        ],
        At("runs"),
    ),
    table("ab", "comparison", "a metric and governor", COMPARISON, By(comparison)),
    table(
        "diff",
        "states",
        "a group of CPUs, interval and idle state",
        &[
            ("group", Int, ""),
            ("label", Text, ""),
            ("state", Int, ""),
            ("name", Text, ""),
            ("usage", Int, ""),
            ("time_us", Int, "us"),
            ("above", Int, ""),
            ("below", Int, ""),
            ("rejected", Int, ""),
            ("residency_ratio", Float, ""),
            ("mean_sleep_us", Float, "us"),
        ],
        By(diff_states),
    ),
    table(
        "diff",
        "changes",
        "a group of CPUs, interval and share that is compared with the first interval's",
        &[
            ("group", Int, ""),
            ("label", Text, ""),
            ("share", Text, ""),
            ("difference", Float, ""),
            ("low", Float, ""),
            ("high", Float, ""),
            ("is_significant", Bool, ""),
        ],
        By(diff_changes),
    ),
    table(
        "reproduction",
        "cells",
        "a row and column of a published table",
        &[
            ("table", Text, ""),
            ("row", Text, ""),
            ("column", Text, ""),
            ("published", Float, ""),
            ("published_text", Text, ""),
            ("ours", Float, ""),
            ("is_calibrated", Bool, ""),
            ("is_right", Bool, ""),
        ],
        By(study_cells),
    ),
    table(
        "check",
        "findings",
        "a kind of breach, with how often it came",
        &[("kind", Text, ""), ("what", Text, ""), ("count", Int, ""), ("seed", Int, "")],
        At("findings"),
    ),
    table(
        "sweep",
        "points",
        "a governor in a scenario with a seed",
        &[
            ("point", Text, ""),
            ("kind", Text, ""),
            ("source", Text, ""),
            ("platform", Text, ""),
            ("governor", Text, ""),
            ("kernel", Text, ""),
            ("cpufreq", Text, ""),
            ("io_boost", Text, ""),
            ("hz", Int, "Hz"),
            ("latency_limit", Text, ""),
            ("seed", Int, ""),
            ("options", Text, ""),
            ("error", Text, ""),
            ("run_ms", Float, "ms"),
            ("torpor", Text, ""),
            ("engine", Text, ""),
        ],
        At("points"),
    )
    .with_metrics(),
];
