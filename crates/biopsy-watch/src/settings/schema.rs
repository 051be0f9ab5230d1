//! The same table as a JSON schema (draft 2020-12), by which editors complete and check settings.

use serde_json::{Map, Value, json};

use super::shape::{Field, SETTINGS, Shape};

/// Where editors find it.
pub const SCHEMA_FILE: &str = "diagnostics.schema.json";

/// The schema of settings.
#[must_use]
pub fn schema() -> Value {
    let mut schema = of(&SETTINGS);
    if let Some(map) = schema.as_object_mut() {
        map.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
        map.insert("title".to_owned(), "Settings of biopsy: which processes are captured when".into());
    }
    schema
}

fn of(shape: &Shape) -> Value {
    match shape {
        Shape::Switch => json!({"type": "boolean"}),
        Shape::Number => json!({"type": "number", "minimum": 0}),
        Shape::Count => json!({"type": "integer", "minimum": 0}),
        Shape::Text => json!({"type": "string"}),
        Shape::Duration => json!({"type": "string", "examples": ["30s", "1h30m", "7d"]}),
        Shape::Size => json!({"type": ["string", "number"], "examples": ["500MB", "10GB"]}),
        Shape::Choice(words) => json!({"type": "string", "enum": words}),
        Shape::Texts => {
            json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
        }
        Shape::Map(shape) => json!({"type": "object", "additionalProperties": of(shape)}),
        Shape::Object(fields) => object(fields),
        Shape::TextOr(fields) => json!({"anyOf": [{"type": "string"}, object(fields)]}),
        Shape::OrNull(shape) => json!({"anyOf": [of(shape), {"type": "null"}]}),
    }
}

/// What is unknown is allowed: it is said and has no effect, so that a newer file is read by an older program.
fn object(fields: &[Field]) -> Value {
    let mut properties = Map::new();
    for field in fields {
        let mut property = of(&field.shape);
        if let Some(map) = property.as_object_mut() {
            map.insert("description".to_owned(), field.says.into());
        }
        properties.insert(field.name.to_owned(), property);
    }
    json!({"type": "object", "properties": properties})
}
