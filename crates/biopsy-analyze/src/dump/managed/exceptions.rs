//! Exception objects: type and HRESULT; the message only through the caller's redaction.

use biopsy_dotnet::names::display_type;
use biopsy_dotnet::runtime::{FieldPlace, MethodDesc, Runtime};
use biopsy_model::Avma;

use crate::dump::facts::DumpFacts;

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
    /// Methods that it went through, the one that threw it first; the framework's own left out at the beginning.
    pub thrown_in: Vec<String>,
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

pub(super) fn read(runtime: &Runtime<'_>, object: Avma, facts: &DumpFacts<'_>) -> Option<ExceptionRow> {
    let mut row = one(runtime, object, facts)?;
    let mut at = object;
    while row.inner.len() < INNER {
        let inner = reference(runtime, at, "_innerException").filter(|inner| *inner != at);
        let Some(inner) = inner else { break };
        let Some(found) = one(runtime, inner, facts) else { break };
        row.inner.push(found);
        at = inner;
    }
    Some(row)
}

fn one(runtime: &Runtime<'_>, object: Avma, facts: &DumpFacts<'_>) -> Option<ExceptionRow> {
    let info = runtime.type_of_object(object).ok()?;
    let hresult = field(runtime, object, "_HResult").and_then(|at| runtime.read_u32(at).ok());
    let message = facts.redact.and_then(|redact| {
        let text = reference(runtime, object, "_message")?;
        let (text, _) = runtime.string(text, MESSAGE).ok()?;
        let line = redact(&text).replace(['\n', '\r'], " ");
        (!line.is_empty()).then(|| biopsy_dotnet::names::clean(&line))
    });
    let thrown_in = thrown_in(runtime, object);
    Some(ExceptionRow {
        object: object.0,
        type_name: display_type(&info.name),
        hresult,
        message,
        thrown_in,
        inner: Vec::new(),
    })
}

/// `_stackTrace`: an array of bytes with a header of 16 (the number of elements first), then for each frame its instruction, stack
/// pointer, `MethodDesc` and flags. From .NET 9 on it may lie in an array of objects, as its first element.
fn thrown_in(runtime: &Runtime<'_>, object: Avma) -> Vec<String> {
    const HEADER: u64 = 16;
    const ELEMENT: u64 = 32;
    const METHOD: u64 = 16;
    /// Frames that are looked at.
    const FRAMES: u64 = 64;
    /// Methods that are reported.
    const METHODS: usize = 3;
    let Some(mut array) = reference(runtime, object, "_stackTrace") else { return Vec::new() };
    // Of an array: method table, length, elements.
    const DATA: u64 = 16;
    if runtime.type_of_object(array).is_ok_and(|info| &*info.name == "System.Object[]") {
        array = Avma(runtime.read_u64(at(array, DATA)).unwrap_or(0));
    }
    let Ok(bytes) = runtime.read_u32(at(array, 8)) else { return Vec::new() };
    let data = at(array, DATA);
    let used = runtime.read_u32(data).map_or(0, u64::from);
    let fits = u64::from(bytes).saturating_sub(HEADER) / ELEMENT;
    let mut methods: Vec<String> = Vec::new();
    for index in 0..used.min(fits).min(FRAMES) {
        let method = at(data, HEADER + index * ELEMENT + METHOD);
        let Ok(method) = runtime.read_u64(method).map(MethodDesc::from) else { break };
        let Some(text) = biopsy_dotnet::stack::method_text(runtime, method) else { break };
        let own = !crate::whose::dotnet::is_framework(&text.module);
        if (own || !methods.is_empty()) && !methods.contains(&text.shown) {
            methods.push(text.shown);
        }
        if methods.len() == METHODS {
            break;
        }
    }
    methods
}

fn at(address: Avma, offset: u64) -> Avma {
    Avma(address.0.wrapping_add(offset))
}

fn field(runtime: &Runtime<'_>, object: Avma, name: &str) -> Option<Avma> {
    let info = runtime.type_of_object(object).ok()?;
    match runtime.find_field(info.method_table, name).ok()??.place {
        FieldPlace::Instance(offset) => object.0.checked_add(8 + u64::from(offset)).map(Avma),
        _ => None,
    }
}

/// The object that a field refers to.
fn reference(runtime: &Runtime<'_>, object: Avma, name: &str) -> Option<Avma> {
    runtime.read_u64(field(runtime, object, name)?).ok().filter(|object| *object != 0).map(Avma)
}
