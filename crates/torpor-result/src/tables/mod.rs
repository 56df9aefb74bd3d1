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
use rows::{list, text};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Text,
    Bool,
    Int,
    Float,
}

use Type::{Bool, Float, Int, Text};

/// A column's name, type and unit.
pub type Column = (&'static str, Type, &'static str);

type Row = Vec<Value>;

/// A table of one kind of result.
pub struct Table {
    /// Kind of the result.
    pub kind: &'static str,
    pub name: &'static str,
    /// Meaning of a row.
    pub row: &'static str,
    pub columns: &'static [Column],
    /// Whether a column for each metric of the result's catalogue follows.
    pub has_metrics: bool,
    rows: Rows,
}

/// Source of a table's rows.
enum Rows {
    /// List in the result; its records have the columns' names.
    At(&'static str),
    /// List in each run; the run's governor is the first column.
    OfRuns(&'static str),
    By(fn(&Value) -> Vec<Row>),
}

const fn table(
    kind: &'static str,
    name: &'static str,
    row: &'static str,
    columns: &'static [Column],
    rows: Rows,
) -> Table {
    Table { kind, name, row, columns, has_metrics: false, rows }
}

/// The tables of a kind of result.
pub fn of_kind(kind: &str) -> impl Iterator<Item = &'static Table> {
    TABLES.iter().filter(move |table| table.kind == kind)
}

impl Table {
    const fn with_metrics(mut self) -> Table {
        self.has_metrics = true;
        self
    }

    fn rows(&self, result: &Value) -> Vec<Row> {
        let keys: Vec<&str> = self.columns.iter().map(|(name, ..)| *name).collect();
        match self.rows {
            Rows::At(what) if self.has_metrics => rows::measured(result, what, &keys),
            Rows::At(what) => rows::pick(list(result, what), &keys),
            Rows::OfRuns(what) => rows::of_runs(result, what, &keys[1..]),
            Rows::By(lay_out) => lay_out(result),
        }
    }

    /// Returns the name of a column; each kind of result has its own word for the source of rows.
    pub fn column_name(&self, name: &'static str) -> &'static str {
        match (name, self.kind, self.name) {
            ("source", "simulation", "tasks") => "task",
            ("source", "simulation", "flows") => "flow",
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
        let declared =
            self.columns.iter().map(|(name, kind, unit)| (self.column_name(name), *kind, *unit));
        let metrics = catalogue.iter().map(|metric| {
            let is_count = metric["kind"] == serde_json::json!(Kind::Count) && !is_mean;
            (text(&metric["key"]), if is_count { Int } else { Float }, text(&metric["unit"]))
        });
        let rows = self.rows(result);
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = declared
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

fn array<'a>(kind: Type, values: impl Iterator<Item = Option<&'a Value>>) -> ArrayRef {
    match kind {
        Text => {
            let mut column = StringBuilder::new();
            values.for_each(|v| column.append_option(v.and_then(Value::as_str)));
            Arc::new(column.finish())
        }
        Bool => {
            let mut column = BooleanBuilder::new();
            values.for_each(|v| column.append_option(v.and_then(Value::as_bool)));
            Arc::new(column.finish())
        }
        Int => {
            let whole = |v: &Value| v.as_i64().or_else(|| v.as_f64().map(|v| v.round() as i64));
            let mut column = Int64Builder::new();
            values.for_each(|v| column.append_option(v.and_then(whole)));
            Arc::new(column.finish())
        }
        Float => {
            let mut column = Float64Builder::new();
            values.for_each(|v| column.append_option(v.and_then(Value::as_f64)));
            Arc::new(column.finish())
        }
    }
}
