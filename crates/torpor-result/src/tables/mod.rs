// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Makes Arrow tables of the JSON of any kind of result.
//!
//! Every table is declared once: its name, the meaning of a row, its columns with type and unit,
//! and the function that lists its rows. All columns are nullable: null means unknown. The metadata
//! of a field has the unit; that of a schema has the kind of the result and its format.

mod declared;
mod rows;

pub use declared::TABLES;

use crate::metric::Kind;
use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, Field, Schema};
use rows::{Records, list, text};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// A column's name, type (`text`, `bool`, `int` or `float`) and unit.
pub type Column<'a> = (&'a str, &'a str, &'a str);

/// Units, by the ends of columns' names.
const UNITS: [(&str, &str); 8] = [
    ("_per_s", "1/s"),
    ("_ns", "ns"),
    ("_us", "us"),
    ("_ms", "ms"),
    ("_khz", "kHz"),
    ("hz", "Hz"),
    ("_uj", "uJ"),
    ("_pct", "%"),
];

type Row = Vec<Value>;

/// A table of one kind of result.
pub struct Table {
    /// Kind of the result.
    pub kind: &'static str,
    pub name: &'static str,
    /// Meaning of a row.
    pub row: &'static str,
    /// Names, each with its type after a colon unless it is text.
    columns: &'static str,
    /// Whether a column for each metric of the result's catalogue follows.
    pub has_metrics: bool,
    rows: Rows,
}

/// Source of a table's rows.
enum Rows {
    /// Path of lists; the last one's records have the columns' names, or those around them.
    At(&'static str),
    By(fn(&Value) -> Vec<Records<'_>>),
}

const fn table(
    kind: &'static str,
    name: &'static str,
    row: &'static str,
    rows: Rows,
    columns: &'static str,
) -> Table {
    Table { kind, name, row, columns, has_metrics: false, rows }
}

pub fn of_kind(kind: &str) -> impl Iterator<Item = &'static Table> {
    TABLES.iter().filter(move |table| table.kind == kind)
}

impl Table {
    const fn with_metrics(mut self) -> Table {
        self.has_metrics = true;
        self
    }

    /// Declared columns, without metrics.
    pub fn columns<'a>(&'a self) -> impl Iterator<Item = Column<'a>> {
        self.columns.split_whitespace().map(|column| {
            let (name, kind) = column.split_once(':').unwrap_or((column, "text"));
            let unit = UNITS.iter().find(|(end, _)| name.ends_with(end));
            (self.column_name(name), kind, unit.map_or("", |(_, unit)| unit))
        })
    }

    fn rows(&self, result: &Value) -> Vec<Row> {
        let name = |column: &'static str| column.split(':').next().unwrap_or(column);
        let names: Vec<_> = self.columns.split_whitespace().map(name).collect();
        let found = match self.rows {
            Rows::At(path) => rows::at(result, path),
            Rows::By(list) => list(result),
        };
        found.iter().map(|records| rows::row(result, records, &names)).collect()
    }

    /// Returns the name of a column; each kind of result has its own word for the source of rows.
    fn column_name(&self, name: &'static str) -> &'static str {
        match (name, self.kind, self.name) {
            ("source", "simulation", "tasks") => "task",
            ("source", "simulation", "flows") => "flow",
            ("source", "simulation", "cgroups") => "cgroup",
            ("source", "simulation", _) => "workload",
            ("source", "replay", _) => "trace",
            _ => name,
        }
    }

    /// Converts a result to tables.
    pub fn batch(&self, result: &Value) -> Result<RecordBatch, ArrowError> {
        let catalogue = if self.has_metrics { list(result, "catalogue") } else { &[] };
        // Means of counts have fractions, counts of one run have none.
        let is_mean = self.kind == "simulation" && self.name == "summary";
        let metrics = catalogue.iter().map(|metric| {
            let is_count = metric["kind"] == serde_json::json!(Kind::Count) && !is_mean;
            (text(&metric["key"]), if is_count { "int" } else { "float" }, text(&metric["unit"]))
        });
        let rows = self.rows(result);
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = self
            .columns()
            .chain(metrics)
            .enumerate()
            .map(|(index, (name, kind, unit))| {
                let array = array(kind, rows.iter().map(|row| row.get(index)));
                let mut field = Field::new(name, array.data_type().clone(), true);
                if !unit.is_empty() {
                    field = field.with_metadata([("unit".to_owned(), unit.to_owned())].into());
                }
                (field, array)
            })
            .unzip();
        let about: HashMap<String, String> = [
            ("torpor.kind".to_owned(), self.kind.to_owned()),
            ("torpor.table".to_owned(), self.name.to_owned()),
            ("torpor.format".to_owned(), crate::record::FORMAT.to_string()),
        ]
        .into();
        RecordBatch::try_new(Arc::new(Schema::new_with_metadata(fields, about)), arrays)
    }
}

fn array<'a>(kind: &str, values: impl Iterator<Item = Option<&'a Value>>) -> ArrayRef {
    match kind {
        "text" => {
            let mut column = StringBuilder::new();
            values.for_each(|v| column.append_option(v.and_then(Value::as_str)));
            Arc::new(column.finish())
        }
        "bool" => {
            let mut column = BooleanBuilder::new();
            values.for_each(|v| column.append_option(v.and_then(Value::as_bool)));
            Arc::new(column.finish())
        }
        "int" => {
            let whole = |v: &Value| v.as_i64().or_else(|| v.as_f64().map(|v| v.round() as i64));
            let mut column = Int64Builder::new();
            values.for_each(|v| column.append_option(v.and_then(whole)));
            Arc::new(column.finish())
        }
        _ => {
            let mut column = Float64Builder::new();
            values.for_each(|v| column.append_option(v.and_then(Value::as_f64)));
            Arc::new(column.finish())
        }
    }
}
