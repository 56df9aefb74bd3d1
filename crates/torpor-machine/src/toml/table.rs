// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One TOML table read by its [`Shape`]: every key known, every value of the right kind.

use crate::toml::cpulist::parse_cpu_list;
use crate::toml::keys::{Key, Kind, Shape};
use crate::toml::problem::Problem;
use crate::toml::report::{Finding, Report};
use crate::units::CpuId;
use crate::units::closest;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub struct Table {
    /// Such as `cluster[0].`; empty for the file itself.
    pub path: String,
    /// The table's header, where missing keys are reported.
    pub span: Range<usize>,
    fields: BTreeMap<&'static str, Field>,
}

pub struct Field {
    /// The value's place.
    pub span: Range<usize>,
    /// The value as written.
    pub raw: String,
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

/// Reads a file of the given shape and passes it to `build`, which returns `None` only if it has
/// reported a problem.
pub fn read<T>(
    text: &str,
    shape: &'static Shape,
    build: impl FnOnce(&mut Report, &Table) -> Option<T>,
) -> Result<T, Vec<Problem>> {
    let mut report = Report::new(text);
    let made = match DeTable::parse(text) {
        Ok(file) => {
            let file = Table::read(&mut report, shape, String::new(), 0..0, file.get_ref());
            build(&mut report, &file)
        }
        Err(error) => {
            report.push(Finding {
                span: error.span().unwrap_or(0..0),
                key: "syntax".to_owned(),
                message: error.message().trim_end().replace('\n', ", "),
                ..Finding::default()
            });
            None
        }
    };
    let problems = report.finish();
    if problems.is_empty() {
        Ok(made.expect("a file without problems makes what it is for"))
    } else {
        Err(problems)
    }
}

impl Table {
    fn read(
        report: &mut Report,
        shape: &'static Shape,
        path: String,
        span: Range<usize>,
        content: &DeTable<'_>,
    ) -> Table {
        let mut table = Table { path, span, fields: BTreeMap::new() };
        // The parser sorts by name; problems read better in the order of the file.
        let mut entries: Vec<_> = content.iter().collect();
        entries.sort_by_key(|(written, _)| written.span().start);
        for (written, value) in entries {
            table.add(report, shape, written, value);
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

    fn add(
        &mut self,
        report: &mut Report,
        shape: &'static Shape,
        written: &Spanned<impl AsRef<str>>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let spelling = written.get_ref().as_ref();
        let Some(key) = shape.keys.iter().find(|key| key.name == spelling) else {
            let names: Vec<&str> = shape.keys.iter().map(|key| key.name).collect();
            let near = closest(&spelling.replace('-', "_"), names.iter().copied());
            report.push(Finding {
                span: written.span(),
                key: format!("{}{spelling}", self.path),
                message: "unknown key".to_owned(),
                allowed: Some(names.join(", ")),
                hint: near.map(|near| format!("did you mean `{near}`?")),
                ..Finding::default()
            });
            return;
        };
        let full = format!("{}{}", self.path, key.name);
        let field = Field {
            span: value.span(),
            raw: report.raw(value.span()),
            value: read_value(report, key, &full, value),
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
        let (span, value) = match self.fields.get(key) {
            Some(field) => (field.span.clone(), Some(field.raw.clone())),
            None => (self.span.clone(), None),
        };
        Finding { span, key: format!("{}{key}", self.path), value, message, ..Finding::default() }
    }
}

/// Checks a value against its key's kind; reports a wrong one and returns `None`.
fn read_value(
    report: &mut Report,
    key: &'static Key,
    full: &str,
    value: &Spanned<DeValue<'_>>,
) -> Option<Value> {
    let outcome = match (key.kind, value.get_ref()) {
        (Kind::Tables(shape), DeValue::Array(array)) => {
            return read_tables(report, shape, full, array);
        }
        (Kind::NumberOr { shape, .. }, DeValue::Table(content)) => {
            let table = Table::read(report, shape, format!("{full}."), value.span(), content);
            return Some(Value::Tables(vec![table]));
        }
        (Kind::Text, DeValue::String(text)) => check_text(text).map(Value::Text),
        (Kind::Word, DeValue::String(text)) => check_word(text).map(Value::Text),
        (Kind::Cpus, DeValue::String(text)) => parse_cpu_list(text).map(Value::Cpus),
        (Kind::Texts, DeValue::String(text)) => check_text(text).map(|t| Value::Texts(vec![t])),
        (Kind::Texts, DeValue::Array(array)) if !array.is_empty() => array
            .iter()
            .map(|item| match item.get_ref() {
                DeValue::String(text) => check_text(text),
                _ => Err("not a string".to_owned()),
            })
            .collect::<Result<_, _>>()
            .map(Value::Texts),
        (Kind::Choice(choices), DeValue::String(text)) if choices.contains(&text.as_ref()) => {
            Ok(Value::Text(text.to_string()))
        }
        (Kind::Choice(_), DeValue::String(_)) => Err("unknown value".to_owned()),
        (Kind::Choices(choices), DeValue::Array(array)) => {
            check_choices(choices, array).map(Value::Texts)
        }
        (Kind::Bool, DeValue::Boolean(value)) => Ok(Value::Bool(*value)),
        (Kind::Number { max } | Kind::NumberOr { max, .. }, item) => {
            check_number(item, max).map(Value::Number)
        }
        (Kind::Integer { max }, item) => check_number(item, max)
            .and_then(|n| if n.fract() == 0.0 { Ok(n) } else { Err("not a whole number".into()) })
            .map(Value::Number),
        (Kind::Hz, item) => check_hz(item).map(Value::Number),
        (Kind::Numbers { max }, DeValue::Array(array)) => array
            .iter()
            .map(|item| check_number(item.get_ref(), max))
            .collect::<Result<_, _>>()
            .map(Value::Numbers),
        (_, other) => Err(format!("this is {}", noun_of(other))),
    };
    match outcome {
        Ok(value) => Some(value),
        Err(message) => {
            report.push(Finding {
                span: value.span(),
                key: full.to_owned(),
                value: Some(report.raw(value.span())),
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
    array: &[Spanned<DeValue<'_>>],
) -> Option<Value> {
    let mut tables = Vec::new();
    for (idx, item) in array.iter().enumerate() {
        let DeValue::Table(content) = item.get_ref() else {
            report.push(Finding {
                span: item.span(),
                key: format!("{full}[{idx}]"),
                value: Some(report.raw(item.span())),
                message: format!("this is {}", noun_of(item.get_ref())),
                allowed: Some(allowed(Kind::Tables(shape))),
                ..Finding::default()
            });
            return None;
        };
        tables.push(Table::read(report, shape, format!("{full}[{idx}]."), item.span(), content));
    }
    Some(Value::Tables(tables))
}

fn check_text(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("this is empty".to_owned()) } else { Ok(text.to_owned()) }
}

fn check_choices(choices: &[&str], array: &[Spanned<DeValue<'_>>]) -> Result<Vec<String>, String> {
    let mut chosen: Vec<String> = Vec::new();
    for item in array {
        match item.get_ref() {
            DeValue::String(text) if chosen.iter().any(|c| c == text) => {
                return Err(format!("`{text}` is there twice"));
            }
            DeValue::String(text) if choices.contains(&text.as_ref()) => {
                chosen.push(text.to_string());
            }
            DeValue::String(text) => return Err(format!("there is no choice `{text}` here")),
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

fn check_number(value: &DeValue<'_>, max: f64) -> Result<f64, String> {
    let number = match value {
        DeValue::Integer(integer) => {
            i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|n| n as f64)
        }
        DeValue::Float(float) => float.as_str().parse().ok(),
        other => return Err(format!("this is {}, not a number", noun_of(other))),
    };
    match number {
        Some(number) if number.is_nan() => Err("not a number".to_owned()),
        Some(number) if number < 0.0 => Err("this is negative".to_owned()),
        Some(number) if number <= max => Ok(number),
        _ => Err("this is too large".to_owned()),
    }
}

fn check_hz(value: &DeValue<'_>) -> Result<f64, String> {
    let hz = check_number(value, f64::from(u32::MAX))?;
    match crate::units::Hz::from_u32(hz as u32) {
        Some(known) if f64::from(known.get()) == hz => Ok(hz),
        _ => Err("no kernel ticks at this rate".to_owned()),
    }
}

fn noun_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a truth value",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(array) if array.is_empty() => "an empty array",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
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
