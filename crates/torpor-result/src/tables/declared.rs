// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Declarations of all tables.

use super::Rows::{At, By};
use super::rows::{
    cgroups, comparison, diff_changes, diff_states, flows, latency, study_cells, tasks,
};
use super::{Table, table};

const STATES: &str = "source governor cluster cpu:int state:int name usage:int above:int below:int \
     rejected:int time_ns:int demoted:int got_time_ns:int";
const LATENCY: &str = "source governor upper_bound_ns:int count:int";
const COMPARISON: &str = "source metric unit governor value:float difference:float \
     relative_pct:float low:float high:float p:float is_significant:bool is_better:bool \
     is_best:bool";
const SUMMARY: &str = "source platform governor kind error";
/// From the cause of a wake-up to the exit from idle.
const MEASURED: &str = "cluster state:int name advertised_ns:int cause count:int min_ns:int \
     p10_ns:int p50_ns:int p90_ns:int p99_ns:int mean_ns:int";

/// All tables, by kind of result: their meaning of a row, source of rows, and columns.
pub static TABLES: &[Table] = &[
    table("replay", "summary", "a recording and governor", At("traces.runs"), SUMMARY)
        .with_metrics(),
    table(
        "replay",
        "states",
        "a recording, governor, CPU and idle state",
        At("traces.runs.cpus.states"),
        STATES,
    ),
    table("replay", "latency", "a bucket of a governor's wake-up latencies", By(latency), LATENCY),
    table("replay", "comparison", "a recording, metric and governor", By(comparison), COMPARISON),
    table(
        "replay",
        "causes",
        "a recording, governor, and what ended its sleeps",
        At("traces.causes"),
        "source governor kind name sleeps:int above:int below:int woken:int latency_ns:int \
         latency_max_ns:int",
    ),
    table("simulation", "summary", "a governor: means over seeds", At("runs"), SUMMARY)
        .with_metrics(),
    table(
        "simulation",
        "seeds",
        "a governor and seed",
        At("runs.seeds"),
        "source governor seed:int",
    )
    .with_metrics(),
    table(
        "simulation",
        "states",
        "a governor, CPU and idle state, summed over seeds",
        At("runs.cpus.states"),
        STATES,
    ),
    table(
        "simulation",
        "latency",
        "a bucket of a governor's wake-up latencies, summed over seeds",
        By(latency),
        LATENCY,
    ),
    table("simulation", "comparison", "a metric and governor", By(comparison), COMPARISON),
    table("simulation", "tasks", "a task, metric and governor", By(tasks), COMPARISON),
    table("simulation", "flows", "a flow, metric and governor", By(flows), COMPARISON),
    table("simulation", "cgroups", "a control group, metric and governor", By(cgroups), COMPARISON),
    table(
        "simulation",
        "devices",
        "a governor and IO device",
        At("runs.devices"),
        "governor name requests:int util_pct:float queue_size:float",
    ),
    table(
        "simulation",
        "perf_domains",
        "a governor and cluster",
        At("runs.perf_domains"),
        "governor name freq_khz:float freq_busy_khz:float freq_transitions_per_s:float \
         energy_uj:float",
    ),
    table(
        "fidelity",
        "governors",
        "a governor that was asked",
        At("governors"),
        "governor agreeing:int agreement:float tick_decisions:int tick_agreeing:int error",
    ),
    table("fidelity", "comparison", "a metric and governor", By(comparison), COMPARISON),
    table(
        "fidelity",
        "confusion",
        "a governor, recorded state and chosen state",
        At("governors.confusion"),
        "governor recorded:int chosen:int count:int",
    ),
    table(
        "fidelity",
        "counters",
        "a CPU and idle state",
        At("counters"),
        "cpu:int state:int name usage:int time_us:int above:int below:int miss_above:int \
         miss_below:int",
    ),
    table(
        "fidelity",
        "disagreements",
        "a decision that the best governor made otherwise",
        At("disagreements"),
        "cpu:int time_ns:int recorded:int chosen:int source sleep_length_ns:int stop_tick:bool \
         residency_ns:int",
    ),
    table(
        "trace_stats",
        "states",
        "a CPU and idle state",
        At("states"),
        "cpu:int cluster state:int name usage:int time_ns:int above:int below:int rejected:int",
    ),
    table(
        "trace_stats",
        "wakeups",
        "what ended sleeps",
        At("wakeups"),
        "kind name count:int slept_ns:int above:int below:int",
    ),
    table(
        "trace_stats",
        "tasks",
        "a task, by its comm",
        At("tasks"),
        "comm wakeups:int switches:int run_ns:int above:int below:int",
    ),
    table(
        "trace_stats",
        "interrupts",
        "a source of interrupts",
        At("interrupts"),
        "kind name count:int handler_ns:int",
    ),
    table("trace_stats", "latency", "an idle state and cause", At("latency"), MEASURED),
    table("latency", "latency", "an idle state and cause", At("latency"), MEASURED),
    table(
        "latency",
        "left_out",
        "an idle state, and why its sleeps show no latency",
        At("left_out"),
        "cluster state:int name reason count:int",
    ),
    table(
        "ab",
        "runs",
        "a governor's run in one round",
        At("runs"),
        "round:int governor began_at_ns:int duration_ns:int figure:float",
    ),
    table("ab", "comparison", "a metric and governor", By(comparison), COMPARISON),
    table(
        "diff",
        "states",
        "a group of CPUs, interval and idle state",
        By(diff_states),
        "group:int label state:int name usage:int time_us:int above:int below:int rejected:int \
         residency_ratio:float mean_sleep_us:float",
    ),
    table(
        "diff",
        "changes",
        "a group of CPUs, interval and share that is compared with the first interval's",
        By(diff_changes),
        "group:int label share difference:float low:float high:float is_significant:bool",
    ),
    table(
        "reproduction",
        "cells",
        "a row and column of a published table",
        By(study_cells),
        "table row column published:float published_text ours:float is_calibrated:bool \
         is_right:bool",
    ),
    table(
        "check",
        "findings",
        "a kind of breach, with how often it came",
        At("findings"),
        "kind what count:int seed:int",
    ),
    table(
        "sweep",
        "points",
        "a governor in a scenario with a seed",
        At("points"),
        "point kind source platform governor kernel kernel_args cpufreq io_boost scheduler hz:int \
         latency_limit seed:int options error run_ms:float torpor engine counts",
    )
    .with_metrics(),
];
