// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Lists the rows of tables from a result's JSON.

use super::Row;
use serde_json::Value;

const COUNTS: [&str; 7] =
    ["usage", "above", "below", "rejected", "time_ns", "demoted", "got_time_ns"];

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn pick(rows: &[Value], keys: &[&str]) -> Vec<Row> {
    rows.iter().map(|row| keys.iter().map(|key| row[*key].clone()).collect()).collect()
}

pub(super) fn led_by(first: Value, rows: Vec<Row>) -> impl Iterator<Item = Row> {
    rows.into_iter().map(move |row| [vec![first.clone()], row].concat())
}

/// The parts of a result that have runs: one a recording, or the result itself.
pub(super) fn sections(result: &Value) -> Vec<&Value> {
    match result["traces"].as_array() {
        Some(traces) => traces.iter().collect(),
        None => vec![result],
    }
}

pub(super) fn source(section: &Value) -> Value {
    let named = if section["trace"].is_object() {
        &section["trace"]["path"]
    } else {
        &section["workload"]["name"]
    };
    named.clone()
}

/// Returns every run with its source.
pub(super) fn runs(result: &Value) -> impl Iterator<Item = (Value, &Value)> {
    sections(result)
        .into_iter()
        .flat_map(|section| list(section, "runs").iter().map(|run| (source(section), run)))
}

pub(super) fn values<'a>(
    result: &'a Value,
    metrics: &'a Value,
) -> impl Iterator<Item = Value> + 'a {
    list(result, "catalogue").iter().map(move |metric| metrics[text(&metric["key"])].clone())
}

pub(super) fn summary(result: &Value) -> Vec<Row> {
    let row = |(source, run): (Value, &Value)| {
        let mut row = vec![source, result["platform"]["name"].clone()];
        row.extend(["governor", "kind", "error"].map(|key| run[key].clone()));
        row.extend(values(result, &run["metrics"]));
        row
    };
    runs(result).map(row).collect()
}

pub(super) fn seeds(result: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    for (source, run) in runs(result) {
        for seed in list(run, "seeds") {
            let mut row = vec![source.clone(), run["governor"].clone(), seed["seed"].clone()];
            row.extend(values(result, &seed["metrics"]));
            rows.push(row);
        }
    }
    rows
}

/// Returns a row for each record of `what`: the declared columns, then its metrics.
pub(super) fn measured(result: &Value, what: &str, keys: &[&str]) -> Vec<Row> {
    let row = |record: &Value| {
        let declared = keys.iter().map(|key| record[*key].clone());
        declared.chain(values(result, &record["metrics"])).collect()
    };
    list(result, what).iter().map(row).collect()
}

pub(super) fn states(result: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    for (source, run) in runs(result) {
        for cpu in list(run, "cpus") {
            for state in list(cpu, "states") {
                let mut row = vec![source.clone(), run["governor"].clone()];
                row.extend([cpu["cluster"].clone(), cpu["cpu"].clone()]);
                row.extend([state["index"].clone(), state["name"].clone()]);
                row.extend(COUNTS.map(|key| state[key].clone()));
                rows.push(row);
            }
        }
    }
    rows
}

pub(super) fn causes(result: &Value) -> Vec<Row> {
    const KEYS: [&str; 9] = [
        "governor",
        "kind",
        "name",
        "sleeps",
        "above",
        "below",
        "woken",
        "latency_ns",
        "latency_max_ns",
    ];
    let of = |section| led_by(source(section), pick(list(section, "causes"), &KEYS));
    sections(result).into_iter().flat_map(of).collect()
}

pub(super) fn latency(result: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    for (source, run) in runs(result) {
        for bucket in list(&run["latency"], "histogram") {
            let bound = [bucket[0].clone(), bucket[1].clone()];
            rows.push([vec![source.clone(), run["governor"].clone()], bound.to_vec()].concat());
        }
    }
    rows
}

pub(super) fn compared(source: &Value, comparison: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    for line in list(comparison, "rows") {
        for (label, cell) in list(comparison, "labels").iter().zip(list(line, "cells")) {
            let mut row = vec![source.clone(), line["key"].clone(), line["unit"].clone()];
            row.extend([label.clone(), cell["value"].clone()]);
            let interval = ["difference", "relative_pct", "low", "high"];
            row.extend(interval.map(|key| cell["change"][key].clone()));
            let verdict = ["p", "is_significant", "is_better"];
            row.extend(verdict.map(|key| cell["change"][key].clone()));
            row.push(cell["is_best"].clone());
            rows.push(row);
        }
    }
    rows
}

pub(super) fn comparison(result: &Value) -> Vec<Row> {
    let one = |section: &Value| compared(&source(section), &section["comparison"]);
    sections(result).into_iter().flat_map(one).collect()
}

pub(super) fn tasks(result: &Value) -> Vec<Row> {
    named(result, "task_comparisons")
}

pub(super) fn flows(result: &Value) -> Vec<Row> {
    named(result, "flow_comparisons")
}

fn named(result: &Value, what: &str) -> Vec<Row> {
    let one = |of: &Value| compared(&of["name"], &of["comparison"]);
    list(result, what).iter().flat_map(one).collect()
}

pub(super) fn of_runs(result: &Value, what: &str, keys: &[&str]) -> Vec<Row> {
    let one = |(_, run): (Value, &Value)| {
        led_by(run["governor"].clone(), pick(list(run, what), keys)).collect::<Vec<_>>()
    };
    runs(result).flat_map(one).collect()
}

/// Returns every column of every group, with the group's number.
pub(super) fn diff_columns(result: &Value) -> impl Iterator<Item = (usize, &Value, &Value)> {
    list(result, "groups").iter().enumerate().flat_map(|(number, group)| {
        list(group, "columns").iter().map(move |column| (number, group, column))
    })
}

pub(super) fn diff_states(result: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, group, column) in diff_columns(result) {
        for (state, counts) in list(group, "states").iter().zip(list(column, "states")) {
            let mut row = vec![number.into(), column["label"].clone()];
            row.extend([state["index"].clone(), state["name"].clone()]);
            let keys = [
                "usage",
                "time_us",
                "above",
                "below",
                "rejected",
                "residency_ratio",
                "mean_sleep_us",
            ];
            row.extend(keys.map(|key| counts[key].clone()));
            rows.push(row);
        }
    }
    rows
}

pub(super) fn diff_changes(result: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, _, column) in diff_columns(result) {
        for share in ["above", "below"] {
            let change = &column["changes"][share];
            if change.is_object() {
                let mut row = vec![number.into(), column["label"].clone(), share.into()];
                let keys = ["difference", "low", "high", "is_significant"];
                row.extend(keys.map(|key| change[key].clone()));
                rows.push(row);
            }
        }
    }
    rows
}

pub(super) fn study_cells(result: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in list(result, "tables") {
        for line in list(table, "rows") {
            for (column, cell) in line["cells"].as_object().into_iter().flatten() {
                let published = &cell["published"];
                let right = cell["right"].as_object();
                let is_right = right.map(|right| right.values().all(|v| v == &Value::Bool(true)));
                rows.push(vec![
                    table["title"].clone(),
                    line["title"].clone(),
                    column.clone().into(),
                    published.clone(),
                    if published.is_number() || published.is_null() {
                        Value::Null
                    } else {
                        published.to_string().trim_matches('"').into()
                    },
                    cell["ours"].clone(),
                    cell["is_calibrated"].clone(),
                    is_right.into(),
                ]);
            }
        }
    }
    rows
}
