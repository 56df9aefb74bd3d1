// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! JSON as rt-app's files are written: with comments, with the same key several times, and with a
//! meaning in the order of keys. Every value keeps its place in the text.

use std::ops::Range;

/// Objects in objects beyond this are an error.
const DEPTH_MAX: usize = 32;

#[derive(Debug)]
pub(super) struct Json {
    pub span: Range<usize>,
    pub value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    Object(Vec<Entry>),
    Array(Vec<Json>),
    Number(f64),
    Text(String),
    Bool(bool),
    Null,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub key: String,
    pub key_span: Range<usize>,
    pub json: Json,
}

/// Error in JSON, and its place.
pub(super) struct SyntaxError {
    pub at: usize,
    pub message: &'static str,
}

pub(super) fn parse(text: &str) -> Result<Json, SyntaxError> {
    let mut parser = Parser { text, at: 0 };
    let json = parser.value(0)?;
    parser.skip_blanks()?;
    if parser.at < text.len() {
        return Err(parser.error("there is more text after the end of the outermost object"));
    }
    Ok(json)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn error(&self, message: &'static str) -> SyntaxError {
        SyntaxError { at: self.at, message }
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) -> Result<(), SyntaxError> {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            if blank > 0 {
                self.at += blank;
            } else if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                let Some(length) = rest.find("*/") else {
                    return Err(self.error("this comment has no end"));
                };
                self.at += length + 2;
            } else {
                return Ok(());
            }
        }
    }

    /// Takes a character, if it is the next one.
    fn takes(&mut self, wanted: char) -> Result<bool, SyntaxError> {
        self.skip_blanks()?;
        let is_there = self.rest().starts_with(wanted);
        if is_there {
            self.at += wanted.len_utf8();
        }
        Ok(is_there)
    }

    fn value(&mut self, depth: usize) -> Result<Json, SyntaxError> {
        self.skip_blanks()?;
        if depth > DEPTH_MAX {
            return Err(self.error("too many objects inside one another"));
        }
        let start = self.at;
        let value = match self.rest().chars().next() {
            Some('{') => Value::Object(self.object(depth)?),
            Some('[') => Value::Array(self.array(depth)?),
            Some('"') => Value::Text(self.string()?),
            _ => self.word()?,
        };
        Ok(Json { span: start..self.at, value })
    }

    fn object(&mut self, depth: usize) -> Result<Vec<Entry>, SyntaxError> {
        self.at += 1;
        let mut entries = Vec::new();
        while !self.takes('}')? {
            if !entries.is_empty() && !self.takes(',')? {
                return Err(self.error("a `,` or a `}` is missing here"));
            }
            // A comma before the end is what json-c takes, too.
            if self.takes('}')? {
                break;
            }
            let start = self.at;
            if !self.rest().starts_with('"') {
                return Err(self.error("a key in double quotes is missing here"));
            }
            let key = self.string()?;
            let key_span = start..self.at;
            let json = if self.takes(':')? {
                self.value(depth + 1)?
            } else if self.rest().starts_with([',', '}']) {
                // A key alone, which workgen gives an empty text.
                Json { span: key_span.clone(), value: Value::Text(String::new()) }
            } else {
                return Err(self.error("a `:` is missing here"));
            };
            entries.push(Entry { key, key_span, json });
        }
        Ok(entries)
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Json>, SyntaxError> {
        self.at += 1;
        let mut items = Vec::new();
        while !self.takes(']')? {
            if !items.is_empty() && !self.takes(',')? {
                return Err(self.error("a `,` or a `]` is missing here"));
            }
            items.push(self.value(depth + 1)?);
        }
        Ok(items)
    }

    fn string(&mut self) -> Result<String, SyntaxError> {
        let inner = &self.text[self.at + 1..];
        let mut is_escaped = false;
        let end = inner.char_indices().find(|(_, c)| {
            let ends = *c == '"' && !is_escaped;
            is_escaped = *c == '\\' && !is_escaped;
            ends || *c == '\n'
        });
        match end {
            Some((end, '"')) => {
                let quoted = &self.text[self.at..self.at + end + 2];
                let text = serde_json::from_str(quoted)
                    .map_err(|_| self.error("this text holds an escape that JSON does not have"))?;
                self.at += end + 2;
                Ok(text)
            }
            _ => Err(self.error("this text has no end")),
        }
    }

    fn word(&mut self) -> Result<Value, SyntaxError> {
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let value = match &rest[..length] {
            "true" | "True" => Value::Bool(true),
            "false" | "False" => Value::Bool(false),
            "null" => Value::Null,
            word => match word.parse::<f64>() {
                Ok(number) if number.is_finite() => Value::Number(number),
                _ => return Err(self.error("a value is missing here")),
            },
        };
        self.at += length;
        Ok(value)
    }
}
