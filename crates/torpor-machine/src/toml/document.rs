// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Documents: keys and values with their places, whatever language they were read from.
//!
//! A TOML file, an rt-app file, a job file, a command line, a dump and a recording all become a
//! [`Document`]. [`Document::read`] checks it by its [`Shape`]; [`Document::to_toml`] writes it for
//! people, and nothing reads that back.

use crate::toml::keys::Shape;
use crate::toml::print;
use crate::toml::problem::Problem;
use crate::toml::report::{Finding, Report};
use crate::toml::table::Table;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The place of a value that is in no text: it was given with the name, or a program made it.
pub const NOWHERE: Range<usize> = usize::MAX..usize::MAX;

#[derive(Clone, Debug)]
pub enum Value {
    Text(String),
    /// As written, in decimal.
    Number(String),
    Bool(bool),
    Date(String),
    Array(Vec<Item>),
    Table(Content),
}

/// A value, its place in the text, and the name it has there, if that is not its key.
#[derive(Clone, Debug)]
pub struct Item {
    pub value: Value,
    pub span: Range<usize>,
    pub shown: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub key: String,
    pub span: Range<usize>,
    pub item: Item,
}

/// Keys and values of a table, in their order, and lines of comment before them.
#[derive(Clone, Debug, Default)]
pub struct Content {
    pub comment: Vec<String>,
    pub entries: Vec<Entry>,
}

impl Content {
    pub fn get(&self, key: &str) -> Option<&Item> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.item)
    }

    /// Whether the array of this key has a table of this name.
    pub fn has_named(&self, key: &str, name: &str) -> bool {
        let Some(Value::Array(items)) = self.get(key).map(|item| &item.value) else { return false };
        items.iter().any(|item| item.name() == Some(name))
    }

    /// Sets a key, or adds it as the last one.
    pub fn set(&mut self, key: &str, item: impl Into<Item>) {
        let item = item.into();
        match self.entries.iter_mut().find(|entry| entry.key == key) {
            Some(entry) => entry.item = item,
            None => {
                let span = item.span.clone();
                self.entries.push(Entry { key: key.to_owned(), span, item });
            }
        }
    }

    #[must_use]
    pub fn with(mut self, key: &str, item: impl Into<Item>) -> Content {
        self.set(key, item);
        self
    }

    /// Sets a key if there is a value.
    #[must_use]
    pub fn maybe(self, key: &str, item: Option<impl Into<Item>>) -> Content {
        match item {
            Some(item) => self.with(key, item),
            None => self,
        }
    }

    /// Adds a table to the array of this key.
    pub fn push(&mut self, key: &str, table: impl Into<Item>) {
        let table = table.into();
        match self.entries.iter_mut().find(|entry| entry.key == key).map(|e| &mut e.item.value) {
            Some(Value::Array(items)) => items.push(table),
            _ => self.set(key, vec![table]),
        }
    }

    /// Returns it as part of another document, in whose text it has no place.
    #[must_use]
    pub fn elsewhere(mut self) -> Content {
        for entry in &mut self.entries {
            entry.span = NOWHERE;
            entry.item.forget_place();
        }
        self
    }

    #[must_use]
    pub fn comment(mut self, line: impl Into<String>) -> Content {
        self.comment.push(line.into());
        self
    }
}

impl Item {
    /// Sets its place, and its name there.
    #[must_use]
    pub fn at(self, span: Range<usize>, shown: impl Into<String>) -> Item {
        Item { value: self.value, span, shown: Some(shown.into()) }
    }

    fn forget_place(&mut self) {
        self.span = NOWHERE;
        match &mut self.value {
            Value::Array(items) => items.iter_mut().for_each(Item::forget_place),
            Value::Table(content) => *content = std::mem::take(content).elsewhere(),
            _ => {}
        }
    }

    pub(crate) fn is_empty_array(&self) -> bool {
        matches!(&self.value, Value::Array(items) if items.is_empty())
    }

    /// The value's `name`, if it is a table with one.
    pub(crate) fn name(&self) -> Option<&str> {
        let Value::Table(content) = &self.value else { return None };
        match &content.get("name")?.value {
            Value::Text(name) => Some(name),
            _ => None,
        }
    }
}

impl From<Value> for Item {
    fn from(value: Value) -> Item {
        Item { value, span: NOWHERE, shown: None }
    }
}

impl From<Content> for Item {
    fn from(content: Content) -> Item {
        Value::Table(content).into()
    }
}

impl From<&str> for Item {
    fn from(text: &str) -> Item {
        Value::Text(text.to_owned()).into()
    }
}

impl From<String> for Item {
    fn from(text: String) -> Item {
        Value::Text(text).into()
    }
}

impl From<bool> for Item {
    fn from(value: bool) -> Item {
        Value::Bool(value).into()
    }
}

impl<T: Into<Item>> From<Vec<T>> for Item {
    fn from(items: Vec<T>) -> Item {
        Value::Array(items.into_iter().map(Into::into).collect()).into()
    }
}

macro_rules! numbers {
    ($($kind:ty)*) => {
        $(impl From<$kind> for Item {
            fn from(number: $kind) -> Item {
                Value::Number(number.to_string()).into()
            }
        })*
    };
}
numbers!(f64 u32 u64 i64 usize);

/// What was read, with its name in errors, and the text that its places are in.
#[derive(Clone, Debug)]
pub struct Document {
    pub origin: String,
    pub text: String,
    pub content: Content,
    /// Whether the text is TOML, and has all values as they are here.
    is_as_written: bool,
}

impl Document {
    /// Parses the text of a TOML file.
    pub fn parse(origin: &str, text: &str) -> Result<Document, Vec<Problem>> {
        let content = DeTable::parse(text).map(|table| content_of(table.get_ref()));
        let mut content = content.map_err(|error| {
            let mut report = Report::new(text);
            report.push(Finding {
                span: error.span().unwrap_or(0..0),
                key: "syntax".to_owned(),
                message: error.message().trim_end().replace('\n', ", "),
                ..Finding::default()
            });
            report.finish()
        })?;
        let head = text.lines().map_while(|line| line.strip_prefix('#'));
        let head = head.filter(|line| !line.starts_with(":schema"));
        content.comment = head.map(|line| line.trim().to_owned()).collect();
        let (origin, text) = (origin.to_owned(), text.to_owned());
        Ok(Document { origin, text, content, is_as_written: true })
    }

    /// Returns what was made of a text in another language, or of none.
    pub fn of(origin: &str, text: &str, content: Content) -> Document {
        let (origin, text) = (origin.to_owned(), text.to_owned());
        Document { origin, text, content, is_as_written: false }
    }

    /// Changes values; its text then no longer is what it holds.
    pub fn content_mut(&mut self) -> &mut Content {
        self.is_as_written = false;
        &mut self.content
    }

    /// Checks it by a shape and passes it to `build`, which returns `None` only if it has reported
    /// a problem.
    pub fn read<T>(
        &self,
        shape: &'static Shape,
        build: impl FnOnce(&mut Report, &Table) -> Option<T>,
    ) -> Result<T, Vec<Problem>> {
        let mut report = Report::new(&self.text);
        // Where keys are missing: at the beginning of a text, if there is one.
        let has_text = self.is_as_written || !self.text.is_empty();
        let begin = if has_text { 0..0 } else { NOWHERE };
        let file = Table::read(&mut report, shape, String::new(), begin, &self.content);
        let made = build(&mut report, &file);
        let problems = report.finish();
        if problems.is_empty() {
            Ok(made.expect("a file without problems makes what it is for"))
        } else {
            Err(problems)
        }
    }

    /// Returns it as a TOML file: the user's own, if there is one and it holds just this.
    pub fn to_toml(&self) -> Cow<'_, str> {
        match self.is_as_written {
            true => Cow::Borrowed(&self.text),
            false => Cow::Owned(print::file(&self.content)),
        }
    }

    /// Returns the SHA-256 of its TOML file.
    pub fn sha256(&self) -> String {
        Sha256::digest(&*self.to_toml()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn content_of(table: &DeTable<'_>) -> Content {
    let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| Entry {
        key: AsRef::<str>::as_ref(key.get_ref()).to_owned(),
        span: key.span(),
        item: item_of(value),
    };
    let mut entries: Vec<Entry> = table.iter().map(|(key, value)| entry((key, value))).collect();
    // The parser sorts by name; problems read better in the order of the file.
    entries.sort_by_key(|entry| entry.span.start);
    Content { comment: Vec::new(), entries }
}

fn item_of(value: &Spanned<DeValue<'_>>) -> Item {
    let made = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            let decimal = i64::from_str_radix(number.as_str(), number.radix());
            Value::Number(decimal.map_or("inf".to_owned(), |decimal| decimal.to_string()))
        }
        DeValue::Float(number) => Value::Number(number.as_str().to_owned()),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(items) => Value::Array(items.iter().map(item_of).collect()),
        DeValue::Table(table) => Value::Table(content_of(table)),
    };
    Item { value: made, span: value.span(), shown: None }
}
