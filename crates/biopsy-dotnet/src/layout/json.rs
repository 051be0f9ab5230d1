//! Reading descriptors and layout files: one schema.
//!
//! ```text
//! { "version": 0, "baseline": "empty" | "NAME",
//!   "types":     { "Thread": { "!": SIZE, "Id": 16, "LinkNext": [112, "pointer"] } },
//!   "globals":   { "A": ["0x10", "uint8"], "B": "0x10", "C": [[3], "pointer"], "D": [3], "E": ["x64", "string"] },
//!   "contracts": { "Thread": 1, "Loader": "c1" },
//!   "subDescriptors": { "GC": [[24], "pointer"] } }
//! ```
//!
//! A number in brackets is an index into the table of addresses beside the JSON. Only what is used is kept; keys that are not
//! known are skipped.

use biopsy_model::Avma;
use serde_json::{Map, Value};

use super::table::{Global, TypeLayout};
use super::{Layout, LayoutError};

/// Bytes of JSON. The descriptor of .NET 10 has 10 KiB.
pub(crate) const JSON_BYTES: usize = 4 << 20;
/// Types, globals or fields of one type.
const ENTRIES: usize = 20_000;
/// Offsets in a type: `Thread`, the largest of the runtime, has 4 KiB with everything in it, tables of handles 64 KiB.
const OFFSET: u64 = 1 << 24;

/// What a descriptor says.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    /// Types, globals, contracts.
    pub(crate) layout: Layout,
    /// Name and address of each sub-descriptor, as the table of addresses has it.
    pub(crate) parts: Vec<(String, u64)>,
    /// All of it, for what only layout files have.
    pub(crate) root: Map<String, Value>,
}

/// Parses a descriptor or layout file. `label` is for errors, `addresses` is the table that indices are into.
pub(crate) fn parse(label: &str, json: &[u8], addresses: &[Avma]) -> Result<Parsed, LayoutError> {
    let malformed = |what: &str| LayoutError::Malformed { label: label.to_string(), what: what.to_string() };
    if json.len() > JSON_BYTES {
        return Err(LayoutError::TooMuch { label: label.to_string(), what: "bytes", limit: JSON_BYTES });
    }
    let end = json.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let root: Value = serde_json::from_slice(&json[..end]).map_err(|error| malformed(&error.to_string()))?;
    let Value::Object(root) = root else { return Err(malformed("it is no object")) };
    let mut parsed = Parsed::default();
    parsed.layout.sources.push(label.to_string());
    read_types(label, &root, &mut parsed.layout)?;
    if let Some(globals) = object(label, &root, "globals")? {
        read_globals(globals, addresses, &mut parsed.layout);
    }
    if let Some(contracts) = object(label, &root, "contracts")? {
        for (name, version) in contracts {
            if let Some(version) = contract_version(version) {
                parsed.layout.contracts.insert(name.as_str().into(), version);
            }
        }
    }
    for key in ["subDescriptors", "sub-descriptors"] {
        let Some(parts) = object(label, &root, key)? else { continue };
        for (name, place) in parts {
            if let Some(Global::Address(address)) = global(place, addresses) {
                parsed.parts.push((name.clone(), address));
            }
        }
    }
    parsed.root = root;
    Ok(parsed)
}

/// Adds globals, those of a variant of a layout file for example.
pub(crate) fn read_globals(globals: &Map<String, Value>, addresses: &[Avma], layout: &mut Layout) {
    for (name, value) in globals {
        if let Some(value) = global(value, addresses) {
            layout.globals.insert(name.as_str().into(), value);
        }
    }
}

/// Adds types; what is there already is changed.
pub(crate) fn read_types(
    label: &str,
    root: &Map<String, Value>,
    layout: &mut Layout,
) -> Result<(), LayoutError> {
    let Some(types) = object(label, root, "types")? else { return Ok(()) };
    for (name, fields) in types {
        let Value::Object(fields) = fields else {
            return Err(LayoutError::Malformed {
                label: label.to_string(),
                what: format!("type `{name}` is no object"),
            });
        };
        if fields.len() > ENTRIES {
            return Err(LayoutError::TooMuch { label: label.to_string(), what: "fields", limit: ENTRIES });
        }
        let entry: &mut TypeLayout = layout.types.entry(name.as_str().into()).or_default();
        for (field, place) in fields {
            let Some(offset) = offset(place) else { continue };
            if field == "!" {
                entry.size = Some(offset);
            } else {
                entry.fields.insert(field.as_str().into(), offset);
            }
        }
    }
    Ok(())
}

fn object<'a>(
    label: &str,
    root: &'a Map<String, Value>,
    key: &'static str,
) -> Result<Option<&'a Map<String, Value>>, LayoutError> {
    match root.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(map)) if map.len() > ENTRIES => {
            Err(LayoutError::TooMuch { label: label.to_string(), what: key, limit: ENTRIES })
        }
        Some(Value::Object(map)) => Ok(Some(map)),
        Some(_) => {
            Err(LayoutError::Malformed { label: label.to_string(), what: format!("`{key}` is no object") })
        }
    }
}

/// `16` or `[16, "pointer"]`.
fn offset(place: &Value) -> Option<u32> {
    let number = match place {
        Value::Array(items) => number(items.first()?)?,
        other => number(other)?,
    };
    (number <= OFFSET).then(|| u32::try_from(number).ok()).flatten()
}

/// `VALUE` or `[VALUE, "type"]`, where `VALUE` is a number, a text, or `[INDEX]`.
fn global(value: &Value, addresses: &[Avma]) -> Option<Global> {
    let Value::Array(items) = value else { return constant(value) };
    match (items.as_slice(), items.first()?) {
        ([_, _], Value::Array(index)) => by_index(index, addresses),
        ([value, Value::String(kind)], Value::String(text)) if kind == "string" => {
            let _ = value;
            Some(Global::Text(text.as_str().into()))
        }
        ([value, Value::String(_)], _) => constant(value),
        ([_], Value::Number(_)) => by_index(items, addresses),
        _ => None,
    }
}

fn by_index(index: &[Value], addresses: &[Avma]) -> Option<Global> {
    let index = usize::try_from(number(index.first()?)?).ok()?;
    addresses.get(index).map(|address| Global::Address(address.0))
}

fn constant(value: &Value) -> Option<Global> {
    match (number(value), value) {
        (Some(number), _) => Some(Global::Number(number)),
        (None, Value::String(text)) => Some(Global::Text(text.as_str().into())),
        (None, _) => None,
    }
}

/// A number, or one in a text: decimal or `0x`.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => {
            number.as_u64().or_else(|| number.as_i64().map(|number| number.cast_unsigned()))
        }
        Value::String(text) => match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => {
                text.parse().ok().or_else(|| text.parse::<i64>().ok().map(|number| number.cast_unsigned()))
            }
        },
        _ => None,
    }
}

/// `1`, or `"c1"` as .NET 11 writes it.
fn contract_version(value: &Value) -> Option<u32> {
    match value {
        Value::Number(number) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
        Value::String(text) => text.strip_prefix('c').unwrap_or(text).parse().ok(),
        _ => None,
    }
}
