// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Lists the rows of tables from a result's JSON.

use super::Row;
use serde_json::{Value, json};
use std::borrow::Cow;

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// Records of a row, innermost first: a column has the first value of its name.
pub(super) type Records<'a> = Vec<Cow<'a, Value>>;

/// Returns the records at a path of lists, such as `runs.seeds`, each with those around it.
pub(super) fn at<'a>(result: &'a Value, path: &str) -> Vec<Records<'a>> {
    let mut found = vec![vec![result]];
    for key in path.split('.') {
        let within = |around: Vec<_>| {
            list(around[0], key).iter().map(move |record| [vec![record], around.clone()].concat())
        };
        found = found.into_iter().flat_map(within).collect();
    }
    let borrowed = |around: Vec<&'a Value>| around.into_iter().map(Cow::Borrowed).collect();
    found.into_iter().map(borrowed).collect()
}

/// Returns the values of columns; the `metrics` of the innermost record follow.
pub(super) fn row(result: &Value, records: &Records<'_>, columns: &[&str]) -> Row {
    let declared = columns.iter().map(|name| cell(records, name));
    declared.chain(metrics(result, &records[0]["metrics"])).collect()
}

/// Returns a column's value from records, innermost first.
fn cell(records: &Records<'_>, name: &str) -> Value {
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

pub(super) fn latency(result: &Value) -> Vec<Records<'_>> {
    let of_run = |(source, run): (Value, &'_ Value)| {
        let of_bucket = |bucket: &Value| {
            vec![Cow::Owned(json!({
                "source": source,
                "governor": run["governor"],
                "upper_bound_ns": bucket[0],
                "count": bucket[1],
            }))]
        };
        list(&run["latency"], "histogram").iter().map(of_bucket).collect::<Vec<_>>()
    };
    runs(result).flat_map(of_run).collect()
}

fn compared<'a>(source: &Value, comparison: &'a Value) -> Vec<Records<'a>> {
    let mut rows = Vec::new();
    for line in list(comparison, "rows") {
        for (label, cell) in list(comparison, "labels").iter().zip(list(line, "cells")) {
            let of = json!({ "source": source, "governor": label, "metric": line["key"] });
            let around = [&cell["change"], cell, line].map(Cow::Borrowed);
            rows.push([vec![Cow::Owned(of)], around.to_vec()].concat());
        }
    }
    rows
}

pub(super) fn comparison(result: &Value) -> Vec<Records<'_>> {
    let one = |section| compared(&source(section), &section["comparison"]);
    sections(result).into_iter().flat_map(one).collect()
}

pub(super) fn tasks(result: &Value) -> Vec<Records<'_>> {
    named(result, "task_comparisons")
}

pub(super) fn flows(result: &Value) -> Vec<Records<'_>> {
    named(result, "flow_comparisons")
}

pub(super) fn cgroups(result: &Value) -> Vec<Records<'_>> {
    named(result, "cgroup_comparisons")
}

fn named<'a>(result: &'a Value, what: &str) -> Vec<Records<'a>> {
    let one = |of: &'a Value| compared(&of["name"], &of["comparison"]);
    list(result, what).iter().flat_map(one).collect()
}

/// Returns every column of every group, with the group's number.
pub(super) fn diff_columns(result: &Value) -> impl Iterator<Item = (usize, &Value, &Value)> {
    list(result, "groups").iter().enumerate().flat_map(|(number, group)| {
        list(group, "columns").iter().map(move |column| (number, group, column))
    })
}

pub(super) fn diff_states(result: &Value) -> Vec<Records<'_>> {
    let mut rows = Vec::new();
    for (number, group, column) in diff_columns(result) {
        for (state, counts) in list(group, "states").iter().zip(list(column, "states")) {
            let of = json!({
                "group": number,
                "label": column["label"],
                "state": state["index"],
                "name": state["name"],
            });
            rows.push(vec![Cow::Owned(of), Cow::Borrowed(counts)]);
        }
    }
    rows
}

pub(super) fn diff_changes(result: &Value) -> Vec<Records<'_>> {
    let mut rows = Vec::new();
    for (number, _, column) in diff_columns(result) {
        for share in ["above", "below"] {
            let change = &column["changes"][share];
            if change.is_object() {
                let of = json!({ "group": number, "label": column["label"], "share": share });
                rows.push(vec![Cow::Owned(of), Cow::Borrowed(change)]);
            }
        }
    }
    rows
}

pub(super) fn study_cells(result: &Value) -> Vec<Records<'_>> {
    let mut rows = Vec::new();
    for table in list(result, "tables") {
        for line in list(table, "rows") {
            for (column, cell) in line["cells"].as_object().into_iter().flatten() {
                let published = &cell["published"];
                let is_text = !published.is_number() && !published.is_null();
                let right = cell["right"].as_object();
                let of = json!({
                    "table": table["title"],
                    "row": line["title"],
                    "column": column,
                    "published_text": is_text.then(|| published.to_string().trim_matches('"').to_owned()),
                    "is_right": right.map(|right| right.values().all(|v| v == &Value::Bool(true))),
                });
                rows.push(vec![Cow::Owned(of), Cow::Borrowed(cell)]);
            }
        }
    }
    rows
}
