//! `dumps/PID.json`: how a dump was taken and what it holds. For people and other programs: biopsy itself opens the dump, whose
//! notes say the same.

use biopsy_model::dump::{CaptureMethod, Class, CoreKind, DumpFacts, DumpKind, MissingMemory, Reason};
use serde::Serialize;

/// Version of the document.
const VERSION: u32 = 1;
/// Ranges listed of those that are missing; the core's notes have them all.
const LISTED: usize = 200;

/// The facts of a dump as they are written: in a recording, and for programs.
#[derive(Serialize, Debug)]
pub struct DumpDocument {
    version: u32,
    pid: u32,
    core: String,
    format: &'static str,
    kind: &'static str,
    scrubbed: bool,
    whole: bool,
    reason: String,
    taken_at_unix_seconds: f64,
    method: &'static str,
    pause_ms: f64,
    predicted_pause_ms: Option<f64>,
    frozen_ms: Option<f64>,
    threads_with_registers: usize,
    threads: usize,
    logical_bytes: Option<u64>,
    written_bytes: Option<u64>,
    contents: Vec<(&'static str, u64)>,
    left_out: Vec<(&'static str, u64)>,
    missing: Vec<Missing>,
    error: Option<String>,
    warnings: Vec<String>,
}

#[derive(Serialize, Debug)]
struct Missing {
    /// In hexadecimal.
    start: String,
    bytes: u64,
    why: &'static str,
}

impl From<&DumpFacts> for DumpDocument {
    fn from(facts: &DumpFacts) -> Self {
        Self {
            version: VERSION,
            pid: facts.pid.0,
            core: facts.member.clone(),
            format: format_word(facts.format),
            kind: kind_word(facts.kind),
            scrubbed: facts.scrubbed,
            whole: facts.whole,
            reason: facts.reason.clone(),
            taken_at_unix_seconds: facts.taken_at_unix_seconds,
            method: method_word(facts.method),
            pause_ms: facts.pause_ms,
            predicted_pause_ms: facts.predicted_pause_ms,
            frozen_ms: facts.frozen_ms,
            threads_with_registers: facts.threads_with_registers,
            threads: facts.threads,
            logical_bytes: facts.logical_bytes,
            written_bytes: facts.written_bytes,
            contents: facts.contents.iter().map(|(class, bytes)| (class_word(*class), *bytes)).collect(),
            left_out: facts.left_out.iter().map(|(why, bytes)| (reason_words(*why), *bytes)).collect(),
            missing: facts.missing.iter().take(LISTED).map(Missing::from).collect(),
            error: facts.error.clone(),
            warnings: facts.warnings.clone(),
        }
    }
}

impl From<&MissingMemory> for Missing {
    fn from(one: &MissingMemory) -> Self {
        Self { start: format!("{:#x}", one.start.0), bytes: one.bytes, why: reason_words(one.why) }
    }
}

fn format_word(format: DumpKind) -> &'static str {
    match format {
        DumpKind::Core => "core",
        DumpKind::Minidump => "minidump",
    }
}

fn kind_word(kind: CoreKind) -> &'static str {
    match kind {
        CoreKind::Full => "full",
        CoreKind::Heap => "heap",
        CoreKind::Stacks => "stacks",
    }
}

fn method_word(method: CaptureMethod) -> &'static str {
    match method {
        CaptureMethod::CopyOnWrite => "copy-on-write",
        CaptureMethod::StopAndCopy => "stop-and-copy",
        CaptureMethod::Held => "held",
        CaptureMethod::Unknown => "unknown",
    }
}

fn class_word(class: Class) -> &'static str {
    match class {
        Class::Stacks => "stacks",
        Class::Private => "private",
        Class::Shared => "shared",
        Class::Modules => "modules",
        Class::Files => "files",
    }
}

fn reason_words(reason: Reason) -> &'static str {
    match reason {
        Reason::Zero => "zero",
        Reason::InFile => "in the mapped file",
        Reason::Kind => "not part of this kind",
        Reason::Ceiling => "above the size limit",
        Reason::Unreadable => "unreadable",
        Reason::Gone => "gone",
        Reason::Device => "device",
        Reason::NoTime => "no time while it stood still",
    }
}
