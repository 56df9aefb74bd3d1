// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The JSON Schema of platform files, for editors. Made from the reader's own table of keys.
//!
//! A schema sees one value at a time. What must hold between values (states ordered by depth,
//! sources present, CPUs without gap) only [`crate::from_toml`] checks.

use crate::toml_file::keys::{Kind, PLATFORM, Shape};
use serde_json::{Map, Value, json};

/// The schema as published in `platforms/platform.schema.json`.
pub fn json_schema() -> String {
    let mut schema = object(&PLATFORM);
    schema.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("title".into(), "Torpor platform".into());
    schema.insert("$comment".into(), "SPDX-License-Identifier: MIT OR GPL-2.0-only".into());
    serde_json::to_string_pretty(&schema).expect("a JSON value can be written") + "\n"
}

fn object(shape: &Shape) -> Map<String, Value> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for key in shape.keys {
        let mut property = of_kind(key.kind);
        property["description"] = key.doc.into();
        properties.insert(key.name.into(), property);
        // Another spelling may stand for a required key, which `required` cannot say.
        if key.is_required && key.aliases.is_empty() {
            required.push(Value::from(key.name));
        }
        for alias in key.aliases {
            let mut property = of_kind(key.kind);
            property["description"] = format!("Another spelling of `{}`.", key.name).into();
            properties.insert((*alias).into(), property);
        }
    }
    let dashed: Vec<(String, Value)> = properties
        .iter()
        .filter(|(name, _)| name.contains('_'))
        .map(|(name, property)| (name.replace('_', "-"), property.clone()))
        .collect();
    properties.extend(dashed);
    Map::from_iter([
        ("type".to_owned(), "object".into()),
        ("properties".to_owned(), properties.into()),
        ("required".to_owned(), required.into()),
        ("additionalProperties".to_owned(), false.into()),
    ])
}

fn of_kind(kind: Kind) -> Value {
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
        Kind::Hz => json!({ "enum": torpor_units::Hz::ALL.map(|hz| hz.get()) }),
        Kind::Tables(shape) => json!({ "type": "array", "items": object(shape) }),
    }
}
