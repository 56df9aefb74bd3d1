// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Writes a document as TOML that a person can edit.

use crate::toml::document::{Content, Item, Value};
use std::fmt::Write as _;

/// Number of tables without a name that share a line.
const TABLES_A_LINE: usize = 4;

pub(super) fn file(content: &Content) -> String {
    let mut out = String::new();
    table(&mut out, content, "");
    out
}

/// Tables with names come last, each under a header; others are part of a value.
fn table(out: &mut String, content: &Content, path: &str) {
    let has_headers = |item: &Item| match &item.value {
        Value::Array(items) => !items.is_empty() && items.iter().all(|item| item.name().is_some()),
        _ => false,
    };
    if path.is_empty() {
        comment(out, content);
    }
    for entry in content.entries.iter().filter(|entry| !has_headers(&entry.item)) {
        line(out, format_args!("{} = {}", entry.key, lines_of(&entry.item)));
    }
    for entry in content.entries.iter().filter(|entry| has_headers(&entry.item)) {
        let Value::Array(items) = &entry.item.value else { continue };
        let path =
            if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
        for item in items {
            let Value::Table(content) = &item.value else { continue };
            out.push('\n');
            comment(out, content);
            line(out, format_args!("[[{path}]]"));
            table(out, content, &path);
        }
    }
}

fn comment(out: &mut String, content: &Content) {
    for text in &content.comment {
        // TOML allows no control characters in a comment.
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        line(out, format_args!("{}", format!("# {text}").trim_end()));
    }
}

/// Returns a value of a table with a header: texts and tables of an array get lines of their own.
fn lines_of(item: &Item) -> String {
    let Value::Array(items) = &item.value else { return inline(item) };
    let on_a_line = match items.first().map(|item| &item.value) {
        Some(Value::Text(_)) => 1,
        Some(Value::Table(_)) => TABLES_A_LINE,
        _ => return inline(item),
    };
    let mut out = "[\n".to_owned();
    for items in items.chunks(on_a_line) {
        let items: Vec<String> = items.iter().map(inline).collect();
        line(&mut out, format_args!("    {},", items.join(", ")));
    }
    out + "]"
}

/// Returns a value on one line.
pub(super) fn inline(item: &Item) -> String {
    match &item.value {
        Value::Text(text) => quoted(text),
        Value::Number(text) | Value::Date(text) => text.clone(),
        Value::Bool(value) => value.to_string(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        Value::Table(content) if content.entries.is_empty() => "{}".to_owned(),
        Value::Table(content) => {
            let entries = content.entries.iter();
            let entries = entries.map(|entry| format!("{} = {}", entry.key, inline(&entry.item)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Returns a TOML basic string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                write!(out, "\\u{:04X}", u32::from(c)).expect("strings take all text");
            }
            c => out.push(c),
        }
    }
    out + "\""
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("strings take all text");
}
