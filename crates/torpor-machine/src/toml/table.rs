// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One TOML table read by its [`Shape`]: every key known, every value of the right kind.

use crate::toml::cpulist::parse_cpu_list;
use crate::toml::document::{Content, Entry, Item, NOWHERE, Value as Written};
use crate::toml::keys::{Key, Kind, Shape};
use crate::toml::print::inline;
use crate::toml::report::{self, Finding, RAW_CHARS_MAX, Report};
use crate::units::CpuId;
use crate::units::closest;
use std::collections::BTreeMap;
use std::ops::Range;

pub struct Table {
    /// Such as `cluster[0].`; empty for the file itself. What its language calls it, if not TOML.
    pub path: String,
    /// Its name in its text, if that is not TOML.
    pub shown: Option<String>,
    /// The table's header, where missing keys are reported.
    pub span: Range<usize>,
    fields: BTreeMap<&'static str, Field>,
}

pub struct Field {
    /// The value's place.
    pub span: Range<usize>,
    /// The value as written.
    pub raw: String,
    pub is_empty_array: bool,
    /// Its key in full.
    key: String,
    /// `None` when the value was wrong and has been reported.
    value: Option<Value>,
}

enum Value {
    Text(String),
    Texts(Vec<String>),
    Cpus(Vec<CpuId>),
    Number(f64),
    Numbers(Vec<f64>),
    Bool(bool),
    Tables(Vec<Table>),
}

impl Field {
    /// Whether no text has the value: it needs no source.
    pub fn is_given(&self) -> bool {
        self.span == NOWHERE
    }
}

impl Table {
    pub(super) fn read(
        report: &mut Report,
        shape: &'static Shape,
        path: String,
        span: Range<usize>,
        content: &Content,
    ) -> Table {
        let mut table = Table { path, shown: None, span, fields: BTreeMap::new() };
        for entry in &content.entries {
            table.add(report, shape, entry);
        }
        for key in shape.keys.iter().filter(|key| key.is_required) {
            if !table.fields.contains_key(key.name) {
                report.push(Finding {
                    span: table.span.clone(),
                    key: format!("{}{}", table.path, key.name),
                    message: "this key is missing".to_owned(),
                    allowed: Some(format!("{}: {}", key.name, key.doc)),
                    ..Finding::default()
                });
            }
        }
        table
    }

    fn add(&mut self, report: &mut Report, shape: &'static Shape, entry: &Entry) {
        let (spelling, item) = (entry.key.as_str(), &entry.item);
        let Some(key) = shape.keys.iter().find(|key| key.name == spelling) else {
            let names: Vec<&str> = shape.keys.iter().map(|key| key.name).collect();
            let near = closest(&spelling.replace('-', "_"), names.iter().copied());
            report.push(Finding {
                span: entry.span.clone(),
                key: format!("{}{spelling}", self.path),
                message: "unknown key".to_owned(),
                allowed: Some(names.join(", ")),
                hint: near.map(|near| format!("did you mean `{near}`?")),
                ..Finding::default()
            });
            return;
        };
        let full = || format!("{}{}", self.path, key.name);
        let full = item.shown.clone().unwrap_or_else(full);
        let field = Field {
            span: item.span.clone(),
            raw: raw(report, item),
            is_empty_array: item.is_empty_array(),
            value: read_value(report, key, &full, item),
            key: full,
        };
        self.fields.insert(key.name, field);
    }

    /// The field, if the file has the key, be its value right or wrong.
    pub fn field(&self, key: &str) -> Option<&Field> {
        self.fields.get(key)
    }

    pub fn has(&self, key: &str) -> bool {
        self.fields.contains_key(key)
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        match self.value(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Every line of a [`Kind::Texts`] or [`Kind::Choices`]; none if the key is absent.
    pub fn texts(&self, key: &str) -> &[String] {
        match self.value(key) {
            Some(Value::Texts(texts)) => texts,
            _ => &[],
        }
    }

    pub fn cpus(&self, key: &str) -> Option<&[CpuId]> {
        match self.value(key)? {
            Value::Cpus(cpus) => Some(cpus),
            _ => None,
        }
    }

    pub fn number(&self, key: &str) -> Option<f64> {
        match self.value(key)? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub fn numbers(&self, key: &str) -> Option<&[f64]> {
        match self.value(key)? {
            Value::Numbers(numbers) => Some(numbers),
            _ => None,
        }
    }

    pub fn bool(&self, key: &str) -> Option<bool> {
        match self.value(key)? {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    pub fn tables(&self, key: &str) -> &[Table] {
        match self.value(key) {
            Some(Value::Tables(tables)) => tables,
            _ => &[],
        }
    }

    fn value(&self, key: &str) -> Option<&Value> {
        self.fields.get(key)?.value.as_ref()
    }

    /// A finding at one of this table's values.
    pub fn finding(&self, key: &str, message: String) -> Finding {
        let (span, key, value) = match self.fields.get(key) {
            Some(field) => (field.span.clone(), field.key.clone(), Some(field.raw.clone())),
            None => (self.span.clone(), format!("{}{key}", self.path), None),
        };
        Finding { span, key, value, message, ..Finding::default() }
    }
}

/// The value as its text has it, or as TOML.
fn raw(report: &Report, item: &Item) -> String {
    match (&item.value, item.span == NOWHERE) {
        (_, false) => report.raw(item.span.clone()),
        (Written::Array(_), true) => "[…]".to_owned(),
        (Written::Table(_), true) => "{…}".to_owned(),
        (_, true) => report::clip(&inline(item), RAW_CHARS_MAX),
    }
}

/// Checks a value against its key's kind; reports a wrong one and returns `None`.
fn read_value(report: &mut Report, key: &'static Key, full: &str, item: &Item) -> Option<Value> {
    let outcome = match (key.kind, &item.value) {
        (Kind::Tables(shape), Written::Array(array)) => {
            return read_tables(report, shape, full, array);
        }
        (Kind::NumberOr { shape, .. }, Written::Table(content)) => {
            let path = format!("{full}.");
            let table = Table::read(report, shape, path, item.span.clone(), content);
            return Some(Value::Tables(vec![table]));
        }
        (Kind::Text, Written::Text(text)) => check_text(text).map(Value::Text),
        (Kind::Word, Written::Text(text)) => check_word(text).map(Value::Text),
        (Kind::Cpus, Written::Text(text)) => parse_cpu_list(text).map(Value::Cpus),
        (Kind::Texts, Written::Text(text)) => check_text(text).map(|t| Value::Texts(vec![t])),
        (Kind::Texts, Written::Array(array)) if !array.is_empty() => array
            .iter()
            .map(|item| match &item.value {
                Written::Text(text) => check_text(text),
                _ => Err("not a string".to_owned()),
            })
            .collect::<Result<_, _>>()
            .map(Value::Texts),
        (Kind::Choice(choices), Written::Text(text)) if choices.contains(&text.as_str()) => {
            Ok(Value::Text(text.clone()))
        }
        (Kind::Choice(_), Written::Text(_)) => Err("unknown value".to_owned()),
        (Kind::Choices(choices), Written::Array(array)) => {
            check_choices(choices, array).map(Value::Texts)
        }
        (Kind::Bool, Written::Bool(value)) => Ok(Value::Bool(*value)),
        (Kind::Number { max } | Kind::NumberOr { max, .. }, value) => {
            check_number(value, max).map(Value::Number)
        }
        (Kind::Integer { max }, value) => check_number(value, max)
            .and_then(|n| if n.fract() == 0.0 { Ok(n) } else { Err("not a whole number".into()) })
            .map(Value::Number),
        (Kind::Hz, value) => check_hz(value).map(Value::Number),
        (Kind::Numbers { max }, Written::Array(array)) => array
            .iter()
            .map(|item| check_number(&item.value, max))
            .collect::<Result<_, _>>()
            .map(Value::Numbers),
        (_, other) => Err(format!("this is {}", noun_of(other))),
    };
    match outcome {
        Ok(value) => Some(value),
        Err(message) => {
            report.push(Finding {
                span: item.span.clone(),
                key: full.to_owned(),
                value: Some(raw(report, item)),
                message,
                allowed: Some(allowed(key.kind)),
                ..Finding::default()
            });
            None
        }
    }
}

fn read_tables(
    report: &mut Report,
    shape: &'static Shape,
    full: &str,
    array: &[Item],
) -> Option<Value> {
    let mut tables = Vec::new();
    for (idx, item) in array.iter().enumerate() {
        let full = item.shown.clone().unwrap_or_else(|| format!("{full}[{idx}]"));
        let Written::Table(content) = &item.value else {
            report.push(Finding {
                span: item.span.clone(),
                key: full,
                value: Some(raw(report, item)),
                message: format!("this is {}", noun_of(&item.value)),
                allowed: Some(allowed(Kind::Tables(shape))),
                ..Finding::default()
            });
            return None;
        };
        let table = Table::read(report, shape, full + ".", item.span.clone(), content);
        tables.push(Table { shown: item.shown.clone(), ..table });
    }
    Some(Value::Tables(tables))
}

fn check_text(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("this is empty".to_owned()) } else { Ok(text.to_owned()) }
}

fn check_choices(choices: &[&str], array: &[Item]) -> Result<Vec<String>, String> {
    let mut chosen: Vec<String> = Vec::new();
    for item in array {
        match &item.value {
            Written::Text(text) if chosen.iter().any(|c| c == text) => {
                return Err(format!("`{text}` is there twice"));
            }
            Written::Text(text) if choices.contains(&text.as_str()) => {
                chosen.push(text.clone());
            }
            Written::Text(text) => return Err(format!("there is no choice `{text}` here")),
            other => return Err(format!("an entry is {}", noun_of(other))),
        }
    }
    if chosen.is_empty() { Err("this is an empty array".to_owned()) } else { Ok(chosen) }
}

fn check_word(text: &str) -> Result<String, String> {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match text.chars().find(|&c| !is_fit(c)) {
        Some(bad) => Err(format!("`{}` is not allowed in a name", bad.escape_default())),
        None => check_text(text),
    }
}

fn check_number(value: &Written, max: f64) -> Result<f64, String> {
    let number = match value {
        Written::Number(text) => text.parse::<f64>().ok(),
        other => return Err(format!("this is {}, not a number", noun_of(other))),
    };
    match number {
        Some(number) if number.is_nan() => Err("not a number".to_owned()),
        Some(number) if number < 0.0 => Err("this is negative".to_owned()),
        Some(number) if number <= max => Ok(number),
        _ => Err("this is too large".to_owned()),
    }
}

fn check_hz(value: &Written) -> Result<f64, String> {
    let hz = check_number(value, f64::from(u32::MAX))?;
    match crate::units::Hz::from_u32(hz as u32) {
        Some(known) if f64::from(known.get()) == hz => Ok(hz),
        _ => Err("no kernel ticks at this rate".to_owned()),
    }
}

fn noun_of(value: &Written) -> &'static str {
    match value {
        Written::Text(_) => "a string",
        Written::Number(_) => "a number",
        Written::Bool(_) => "a truth value",
        Written::Date(_) => "a date",
        Written::Array(array) if array.is_empty() => "an empty array",
        Written::Array(_) => "an array",
        Written::Table(_) => "a table",
    }
}

fn allowed(kind: Kind) -> String {
    match kind {
        Kind::Text => "a string that is not empty".to_owned(),
        Kind::Texts => "a string, or an array of strings".to_owned(),
        Kind::Word => "letters, digits, `-`, `_` and `.`".to_owned(),
        Kind::Cpus => "a CPU list in a string, such as \"0-3,7\"".to_owned(),
        Kind::Number { max } => format!("a number from 0 to {max}"),
        Kind::NumberOr { max, .. } => format!("a number from 0 to {max}, or a table"),
        Kind::Integer { max } => format!("a whole number from 0 to {max}"),
        Kind::Numbers { max } => format!("an array of numbers from 0 to {max}"),
        Kind::Bool => "true or false".to_owned(),
        Kind::Choice(choices) => format!("\"{}\"", choices.join("\" or \"")),
        Kind::Choices(choices) => format!("an array of \"{}\"", choices.join("\", \"")),
        Kind::Hz => "100, 250, 300 or 1000 (`kernel/Kconfig.hz`)".to_owned(),
        Kind::Tables(_) => "tables, each under a header in double brackets".to_owned(),
    }
}
