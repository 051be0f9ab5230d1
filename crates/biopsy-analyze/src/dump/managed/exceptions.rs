//! Exception objects: type and HRESULT; the message only through the caller's redaction.

use biopsy_dotnet::names::display_type;
use biopsy_dotnet::runtime::{FieldPlace, Runtime};

use crate::dump::DumpFacts;

/// Inner exceptions that are followed.
const INNER: usize = 8;
/// Characters of a message.
const MESSAGE: usize = 1_000;

/// An exception.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExceptionRow {
    /// Address of the object.
    pub object: u64,
    /// Its type.
    pub type_name: String,
    /// Its HRESULT.
    pub hresult: Option<u32>,
    /// Its message, redacted; `None`: it has none, or nothing redacts it.
    pub message: Option<String>,
    /// The exception that led to it, and so on.
    pub inner: Vec<ExceptionRow>,
}

impl ExceptionRow {
    /// `System.InvalidOperationException: message (HRESULT 0x80131509)`.
    #[must_use]
    pub fn words(&self) -> String {
        let message = self.message.as_ref().map_or(String::new(), |message| format!(": {message}"));
        let code = self.hresult.map_or(String::new(), |code| format!(" (HRESULT {code:#010x})"));
        format!("{}{message}{code}", self.type_name)
    }
}

pub(super) fn read(runtime: &Runtime<'_>, object: u64, facts: &DumpFacts<'_>) -> Option<ExceptionRow> {
    let mut row = one(runtime, object, facts)?;
    let mut at = object;
    while row.inner.len() < INNER {
        let inner = word(runtime, at, "_innerException").filter(|inner| *inner != 0 && *inner != at);
        let Some(inner) = inner else { break };
        let Some(found) = one(runtime, inner, facts) else { break };
        row.inner.push(found);
        at = inner;
    }
    Some(row)
}

fn one(runtime: &Runtime<'_>, object: u64, facts: &DumpFacts<'_>) -> Option<ExceptionRow> {
    let info = runtime.type_of_object(object).ok()?;
    let hresult = field(runtime, object, "_HResult").and_then(|at| runtime.memory().u32(at).ok());
    let message = facts.redact.and_then(|redact| {
        let text = word(runtime, object, "_message").filter(|text| *text != 0)?;
        let (text, _) = runtime.string(text, MESSAGE).ok()?;
        let line = redact(&text).replace(['\n', '\r'], " ");
        (!line.is_empty()).then(|| biopsy_dotnet::names::clean(&line))
    });
    Some(ExceptionRow { object, type_name: display_type(&info.name), hresult, message, inner: Vec::new() })
}

fn field(runtime: &Runtime<'_>, object: u64, name: &str) -> Option<u64> {
    let info = runtime.type_of_object(object).ok()?;
    match runtime.find_field(info.method_table, name).ok()??.place {
        FieldPlace::Instance(offset) => object.checked_add(8 + u64::from(offset)),
        _ => None,
    }
}

fn word(runtime: &Runtime<'_>, object: u64, name: &str) -> Option<u64> {
    runtime.memory().u64(field(runtime, object, name)?).ok()
}
