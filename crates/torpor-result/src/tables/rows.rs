// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Lists the rows of tables from a result's JSON.

use super::Row;
use serde_json::Value;

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// Returns a row for each record at a path of lists, such as `runs.seeds`. A column that the record
/// lacks comes from the records around it. The record's `metrics` follow.
pub(super) fn at(result: &Value, path: &str, columns: &[&str]) -> Vec<Row> {
    let mut found = vec![vec![result]];
    for key in path.split('.') {
        let within = |around: Vec<_>| {
            list(around[0], key).iter().map(move |record| [vec![record], around.clone()].concat())
        };
        found = found.into_iter().flat_map(within).collect();
    }
    let row = |records: Vec<&Value>| {
        let declared = columns.iter().map(|name| cell(&records, name));
        declared.chain(metrics(result, &records[0]["metrics"])).collect()
    };
    found.into_iter().map(row).collect()
}

/// Returns a column's value from records, innermost first.
fn cell(records: &[&Value], name: &str) -> Value {
    match (records.iter().find_map(|record| record.get(name)), name) {
        (None, "source") => {
            records.iter().map(|section| source(section)).find(|v| !v.is_null()).into()
        }
        (None, "state") => records[0]["index"].clone(),
        (Some(platform), "platform") if platform.is_object() => platform["name"].clone(),
        (found, _) => found.cloned().into(),
    }
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

fn metrics<'a>(result: &'a Value, of: &'a Value) -> impl Iterator<Item = Value> + 'a {
    let catalogue = if of.is_object() { list(result, "catalogue") } else { &[] };
    catalogue.iter().map(move |metric| of[text(&metric["key"])].clone())
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
            let keys = "usage time_us above below rejected residency_ratio mean_sleep_us";
            row.extend(keys.split(' ').map(|key| counts[key].clone()));
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
