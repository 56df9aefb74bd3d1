// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Every table there is.

use super::Type::{Bool, Float, Int, Text};
use super::rows::{
    comparison, diff_changes, diff_states, latency, led_by, list, of_runs, pick, seeds, states,
    study_cells, summary, tasks,
};
use super::{Column, Table};
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

/// Every table there is, by kind of result.
pub static TABLES: &[Table] = &[
    Table {
        kind: "replay",
        name: "summary",
        row: "a recording and governor",
        columns: SUMMARY,
        has_metrics: true,
        rows: summary,
    },
    Table {
        kind: "replay",
        name: "states",
        row: "a recording, governor, CPU and idle state",
        columns: STATES,
        has_metrics: false,
        rows: states,
    },
    Table {
        kind: "replay",
        name: "latency",
        row: "a bucket of a governor's wake-up latencies",
        columns: LATENCY,
        has_metrics: false,
        rows: latency,
    },
    Table {
        kind: "replay",
        name: "comparison",
        row: "a recording, metric and governor",
        columns: COMPARISON,
        has_metrics: false,
        rows: comparison,
    },
    Table {
        kind: "simulation",
        name: "summary",
        row: "a governor: means over seeds",
        columns: SUMMARY,
        has_metrics: true,
        rows: summary,
    },
    Table {
        kind: "simulation",
        name: "seeds",
        row: "a governor and seed",
        columns: &[("source", Text, ""), ("governor", Text, ""), ("seed", Int, "")],
        has_metrics: true,
        rows: seeds,
    },
    Table {
        kind: "simulation",
        name: "states",
        row: "a governor, CPU and idle state, summed over seeds",
        columns: STATES,
        has_metrics: false,
        rows: states,
    },
    Table {
        kind: "simulation",
        name: "latency",
        row: "a bucket of a governor's wake-up latencies, summed over seeds",
        columns: LATENCY,
        has_metrics: false,
        rows: latency,
    },
    Table {
        kind: "simulation",
        name: "comparison",
        row: "a metric and governor",
        columns: COMPARISON,
        has_metrics: false,
        rows: comparison,
    },
    Table {
        kind: "simulation",
        name: "tasks",
        row: "a task, metric and governor",
        columns: COMPARISON,
        has_metrics: false,
        rows: tasks,
    },
    Table {
        kind: "simulation",
        name: "devices",
        row: "a governor and IO device",
        columns: &[
            ("governor", Text, ""),
            ("name", Text, ""),
            ("requests", Int, ""),
            ("util_pct", Float, "%"),
            ("queue_size", Float, ""),
        ],
        has_metrics: false,
        rows: |result| of_runs(result, "devices", &["name", "requests", "util_pct", "queue_size"]),
    },
    Table {
        kind: "simulation",
        name: "perf_domains",
        row: "a governor and cluster",
        columns: &[
            ("governor", Text, ""),
            ("name", Text, ""),
            ("freq_khz", Float, "kHz"),
            ("freq_busy_khz", Float, "kHz"),
            ("freq_transitions_per_s", Float, "1/s"),
            ("energy_uj", Float, "uJ"),
        ],
        has_metrics: false,
        rows: |result| {
            let keys = ["name", "freq_khz", "freq_busy_khz", "freq_transitions_per_s", "energy_uj"];
            of_runs(result, "perf_domains", &keys)
        },
    },
    Table {
        kind: "fidelity",
        name: "governors",
        row: "a governor that was asked",
        columns: &[
            ("governor", Text, ""),
            ("agreeing", Int, ""),
            ("agreement", Float, ""),
            ("tick_decisions", Int, ""),
            ("tick_agreeing", Int, ""),
            ("error", Text, ""),
        ],
        has_metrics: false,
        rows: |result| {
            let keys =
                ["governor", "agreeing", "agreement", "tick_decisions", "tick_agreeing", "error"];
            pick(list(result, "governors"), &keys)
        },
    },
    Table {
        kind: "fidelity",
        name: "confusion",
        row: "a governor, recorded state and chosen state",
        columns: &[
            ("governor", Text, ""),
            ("recorded", Int, ""),
            ("chosen", Int, ""),
            ("count", Int, ""),
        ],
        has_metrics: false,
        rows: |result| {
            let one = |governor: &Value| {
                let keys = ["recorded", "chosen", "count"];
                let rows = pick(list(governor, "confusion"), &keys);
                led_by(governor["governor"].clone(), rows)
            };
            list(result, "governors").iter().flat_map(one).collect()
        },
    },
    Table {
        kind: "fidelity",
        name: "counters",
        row: "a CPU and idle state",
        columns: &[
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
        has_metrics: false,
        rows: |result| {
            let keys = [
                "cpu",
                "state",
                "name",
                "usage",
                "time_us",
                "above",
                "below",
                "miss_above",
                "miss_below",
            ];
            pick(list(result, "counters"), &keys)
        },
    },
    Table {
        kind: "fidelity",
        name: "disagreements",
        row: "a decision that the best governor made otherwise",
        columns: &[
            ("cpu", Int, ""),
            ("time_ns", Int, "ns"),
            ("recorded", Int, ""),
            ("chosen", Int, ""),
            ("source", Text, ""),
            ("sleep_length_ns", Int, "ns"),
            ("stop_tick", Bool, ""),
            ("residency_ns", Int, "ns"),
        ],
        has_metrics: false,
        rows: |result| {
            let keys = [
                "cpu",
                "time_ns",
                "recorded",
                "chosen",
                "source",
                "sleep_length_ns",
                "stop_tick",
                "residency_ns",
            ];
            pick(list(result, "disagreements"), &keys)
        },
    },
    Table {
        kind: "ab",
        name: "runs",
        row: "a governor's run in one round",
        columns: &[
            ("round", Int, ""),
            ("governor", Text, ""),
            ("began_at_ns", Int, "ns"),
            ("duration_ns", Int, "ns"),
            ("figure", Float, ""),
        ],
        has_metrics: false,
        rows: |result| {
            let keys = ["round", "governor", "began_at_ns", "duration_ns", "figure"];
            pick(list(result, "runs"), &keys)
        },
    },
    Table {
        kind: "ab",
        name: "comparison",
        row: "a metric and governor",
        columns: COMPARISON,
        has_metrics: false,
        rows: comparison,
    },
    Table {
        kind: "diff",
        name: "states",
        row: "a group of CPUs, interval and idle state",
        columns: &[
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
        has_metrics: false,
        rows: diff_states,
    },
    Table {
        kind: "diff",
        name: "changes",
        row: "a group of CPUs, interval and share that is compared with the first interval's",
        columns: &[
            ("group", Int, ""),
            ("label", Text, ""),
            ("share", Text, ""),
            ("difference", Float, ""),
            ("low", Float, ""),
            ("high", Float, ""),
            ("is_significant", Bool, ""),
        ],
        has_metrics: false,
        rows: diff_changes,
    },
    Table {
        kind: "reproduction",
        name: "cells",
        row: "a row and column of a published table",
        columns: &[
            ("table", Text, ""),
            ("row", Text, ""),
            ("column", Text, ""),
            ("published", Float, ""),
            ("published_text", Text, ""),
            ("ours", Float, ""),
            ("is_calibrated", Bool, ""),
            ("is_right", Bool, ""),
        ],
        has_metrics: false,
        rows: study_cells,
    },
    Table {
        kind: "check",
        name: "findings",
        row: "a kind of breach, with how often it came",
        columns: &[("kind", Text, ""), ("what", Text, ""), ("count", Int, ""), ("seed", Int, "")],
        has_metrics: false,
        rows: |result| pick(list(result, "findings"), &["kind", "what", "count", "seed"]),
    },
];
