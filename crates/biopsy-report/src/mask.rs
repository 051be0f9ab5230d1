//! Masks on the texts of a report.

use serde::Serialize;
use serde_json::Value;

/// What masks a text that goes into a report: what comes from the memory of a process was not masked when it was recorded.
pub type Mask<'a> = &'a dyn Fn(&str) -> String;

/// Fields that hold words of the schema itself: readers would not know them any more.
const OWN_WORDS: &[&str] = &["schema", "id", "severity", "kind", "found_by", "state", "symbols", "source"];

/// A text with its secrets masked, where that is wanted.
pub(crate) fn masked_text(text: String, mask: Option<Mask<'_>>) -> String {
    match mask {
        Some(mask) => mask(&text),
        None => text,
    }
}

/// Each text by itself, so that no mask can hide a quote or a brace.
pub(crate) fn masked(value: &impl Serialize, mask: Mask<'_>) -> Value {
    let mut value = serde_json::to_value(value).expect("the schema's types serialise to a value");
    let mut open = vec![&mut value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => *text = mask(text),
            Value::Array(values) => open.extend(values),
            Value::Object(fields) => {
                open.extend(
                    fields
                        .iter_mut()
                        .filter(|(key, _)| !OWN_WORDS.contains(&key.as_str()))
                        .map(|(_, field)| field),
                );
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    value
}

#[cfg(test)]
mod tests;
