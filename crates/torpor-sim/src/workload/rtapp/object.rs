// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! An object of an rt-app file, with what is wrong in it reported at its place.

use super::json::{Entry, Json, Value};
use torpor_machine::toml::{Finding, Item, Report};
use torpor_machine::units::closest;

/// An object and its path, such as `tasks.thread0.phases.p1`.
pub(super) struct Object<'a> {
    pub path: String,
    pub entries: &'a [Entry],
}

impl<'a> Object<'a> {
    /// The value as an object; anything else is reported.
    pub(super) fn of(report: &mut Report, path: String, json: &'a Json) -> Option<Object<'a>> {
        match &json.value {
            Value::Object(entries) => Some(Object { path, entries }),
            _ => {
                let span = json.span.clone();
                let message = "this is not an object".to_owned();
                let allowed = Some("keys and values in `{ }`".to_owned());
                report.push(Finding { span, key: path, message, allowed, ..Finding::default() });
                None
            }
        }
    }

    pub(super) fn key(&self, entry: &Entry) -> String {
        if self.path.is_empty() {
            entry.key.clone()
        } else {
            format!("{}.{}", self.path, entry.key)
        }
    }

    pub(super) fn find(&self, key: &str) -> Option<&'a Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Returns what a key means, at the place of its value; without the key, at none.
    pub(super) fn item(&self, key: &str, item: impl Into<Item>) -> Item {
        match self.find(key) {
            Some(entry) => item.into().at(entry.json.span.clone(), self.key(entry)),
            None => item.into(),
        }
    }

    pub(super) fn finding(&self, report: &Report, entry: &Entry, message: &str) -> Finding {
        Finding {
            span: entry.json.span.clone(),
            key: self.key(entry),
            value: Some(report.raw(entry.json.span.clone())),
            message: message.to_owned(),
            ..Finding::default()
        }
    }

    /// Reports a key that is not in `known`.
    pub(super) fn unknown(
        &self,
        report: &mut Report,
        entry: &Entry,
        known: &[&str],
        why: Option<&str>,
    ) {
        let near = closest(&entry.key, known.iter().copied());
        report.push(Finding {
            span: entry.key_span.clone(),
            key: self.key(entry),
            value: None,
            message: match why {
                Some(_) => "this event or key of rt-app is not simulated".to_owned(),
                None => "unknown key".to_owned(),
            },
            allowed: Some(known.join(", ")),
            hint: why
                .map(str::to_owned)
                .or_else(|| near.map(|near| format!("did you mean `{near}`?"))),
        });
    }

    /// A whole number within bounds, if the key is there.
    pub(super) fn integer(
        &self,
        report: &mut Report,
        key: &str,
        min: f64,
        max: f64,
    ) -> Option<f64> {
        let entry = self.find(key)?;
        self.integer_of(report, entry, min, max)
    }

    pub(super) fn integer_of(
        &self,
        report: &mut Report,
        entry: &Entry,
        min: f64,
        max: f64,
    ) -> Option<f64> {
        match entry.json.value {
            Value::Number(number) if number.fract() == 0.0 && number >= min && number <= max => {
                Some(number)
            }
            _ => {
                let mut finding = self.finding(report, entry, "this is not allowed here");
                finding.allowed = Some(format!("a whole number from {min} to {max}"));
                report.push(finding);
                None
            }
        }
    }

    pub(super) fn text_of(&self, report: &mut Report, entry: &'a Entry) -> Option<&'a str> {
        match &entry.json.value {
            Value::Text(text) => Some(text),
            _ => {
                let mut finding = self.finding(report, entry, "this is not a text");
                finding.allowed = Some("a name in double quotes".to_owned());
                report.push(finding);
                None
            }
        }
    }
}
