// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! JSON Schemas of results, from their Rust types.

use crate::plain::Plain;
use pyo3::prelude::*;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use torpor_result::metric;
use torpor_result::record::Head;

/// Returns `$defs`, and the name of each kind's definition.
#[pyfunction]
pub(crate) fn schema() -> Plain<Value> {
    let mut made = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let kinds = json!({
        "replay": name_of(made.subschema_for::<torpor_engine::Outcome>()),
        "simulation": name_of(made.subschema_for::<torpor_sim::outcome::Outcome>()),
        "fidelity": name_of(made.subschema_for::<torpor_engine::verify::Fidelity>()),
        "trace_stats": name_of(made.subschema_for::<torpor_engine::stats::TraceStats>()),
        "latency": name_of(made.subschema_for::<torpor_engine::stats::Measurement>()),
        "check": name_of(made.subschema_for::<torpor_check::Report>()),
    });
    // Python puts it over a check.
    let head = json!(made.root_schema_for::<Head>());
    made.subschema_for::<Head>();
    let mut defs = made.take_definitions(true);
    defs.insert("Metrics".to_owned(), metric::definition().to_value());
    for (kind, name) in kinds.as_object().into_iter().flatten() {
        let of_kind = &mut defs[name.as_str().expect("a name")];
        if kind == "check" {
            let required = of_kind["required"].as_array_mut().expect("a struct");
            required.extend(["format", "kind", "torpor"].map(Value::from));
            for (key, value) in head["properties"].as_object().into_iter().flatten() {
                of_kind["properties"][key] = value.clone();
            }
        }
        of_kind["properties"]["kind"] = json!({ "const": kind });
    }
    // An undeclared key is a mistake.
    for record in defs.values_mut().filter_map(Value::as_object_mut) {
        let Some(Value::Object(fields)) = record.get_mut("properties") else { continue };
        for field in fields.values_mut().filter_map(Value::as_object_mut) {
            // Default values are dropped: a result has every option.
            field.retain(|key, _| !matches!(key.as_str(), "default" | "readOnly"));
        }
        record.insert("additionalProperties".to_owned(), json!(false));
    }
    Plain(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A result of Torpor",
        "$defs": defs,
        "kinds": kinds,
    }))
}

/// JSON Schema of the TOML files of platforms or workloads; None for another kind.
#[pyfunction]
pub(crate) fn toml_schema(kind: &str) -> Option<String> {
    match kind {
        "platform" => Some(torpor_machine::platform::json_schema()),
        "workload" => Some(torpor_sim::workload::json_schema()),
        _ => None,
    }
}

fn name_of(reference: schemars::Schema) -> Value {
    let path = reference.get("$ref").and_then(Value::as_str).expect("a struct has a name");
    path.rsplit('/').next().into()
}
