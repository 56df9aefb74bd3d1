// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The JSON Schema of a kind of file, for editors. Made from the reader's own table of keys.
//!
//! A schema sees one value at a time; only the reader checks relations between values.

use crate::toml::keys::{Kind, Shape};
use serde_json::{Map, Value, json};

pub fn json_schema(shape: &'static Shape, title: &str) -> String {
    let mut schema = object(shape, &mut vec![(shape, "#".to_owned())]);
    schema.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("title".into(), title.into());
    schema.insert("$comment".into(), "SPDX-License-Identifier: MIT OR GPL-2.0-only".into());
    serde_json::to_string_pretty(&schema).expect("a JSON value can be written") + "\n"
}

/// The shapes on the way to where we are, and where each is in the schema.
type Way = Vec<(&'static Shape, String)>;

fn object(shape: &Shape, way: &mut Way) -> Map<String, Value> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for key in shape.keys {
        let mut property = of_kind(key.kind, key.name, way);
        property["description"] = key.doc.into();
        properties.insert(key.name.into(), property);
        if key.is_required {
            required.push(Value::from(key.name));
        }
    }
    Map::from_iter([
        ("type".to_owned(), "object".into()),
        ("properties".to_owned(), properties.into()),
        ("required".to_owned(), required.into()),
        ("additionalProperties".to_owned(), false.into()),
    ])
}

/// A table inside `key`; one that holds tables of its own shape refers back to itself.
fn nested(shape: &'static Shape, key: &str, step: &str, way: &mut Way) -> Value {
    if let Some((_, place)) = way.iter().find(|(seen, _)| std::ptr::eq(*seen, shape)) {
        return json!({ "$ref": place });
    }
    let outer = &way.last().expect("the file itself").1;
    way.push((shape, format!("{outer}/properties/{key}{step}")));
    let inner = object(shape, way);
    way.pop();
    inner.into()
}

fn of_kind(kind: Kind, key: &str, way: &mut Way) -> Value {
    let text = || json!({ "type": "string", "pattern": r"\S" });
    match kind {
        Kind::Text => text(),
        Kind::Texts => json!({
            "anyOf": [text(), { "type": "array", "items": text(), "minItems": 1 }]
        }),
        Kind::Word => json!({ "type": "string", "pattern": "^[A-Za-z0-9_.-]+$" }),
        Kind::Cpus => json!({
            "type": "string",
            "pattern": r"^\s*\d+(-\d+)?(\s*,\s*\d+(-\d+)?)*\s*$"
        }),
        Kind::Number { max } => json!({ "type": "number", "minimum": 0, "maximum": max }),
        Kind::Integer { max } => json!({ "type": "integer", "minimum": 0, "maximum": max }),
        Kind::Numbers { max } => json!({
            "type": "array",
            "items": { "type": "number", "minimum": 0, "maximum": max }
        }),
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Choice(choices) => json!({ "enum": choices }),
        Kind::Choices(choices) => json!({
            "type": "array",
            "items": { "enum": choices },
            "minItems": 1,
            "uniqueItems": true
        }),
        Kind::Hz => json!({ "enum": crate::units::Hz::ALL.map(|hz| hz.get()) }),
        Kind::Tables(shape) => {
            json!({ "type": "array", "items": nested(shape, key, "/items", way) })
        }
        Kind::NumberOr { max, shape } => json!({ "anyOf": [
            { "type": "number", "minimum": 0, "maximum": max },
            nested(shape, key, "/anyOf/1", way),
        ] }),
    }
}
