//! `dumps/PID.json`: how a dump was taken and what it holds.

use std::time::SystemTime;

use biopsy_image::Image;
use biopsy_image::write::{CaptureMethod, Class, CoreError, CoreKind, CoreSummary, MissingRange, Reason};
use serde::Serialize;

use super::{DumpSettings, Format, Origin};

/// Version of the document.
pub const FACTS_VERSION: u32 = 1;
/// Ranges listed of those that are missing; the core's notes have them all.
const LISTED: usize = 200;

/// The facts of one dump.
#[derive(Clone, Debug, Serialize)]
pub struct DumpFacts {
    /// [`FACTS_VERSION`].
    pub version: u32,
    /// Whose.
    pub pid: u32,
    /// Member of the recording that holds the core.
    pub core: String,
    /// `core` or `minidump`.
    pub format: &'static str,
    /// `full`, `heap` or `stacks`.
    pub kind: &'static str,
    /// Secrets of known shapes were masked. Never clean.
    pub scrubbed: bool,
    /// Nothing that this kind of dump should have is missing.
    pub whole: bool,
    /// Why it was taken.
    pub reason: String,
    /// When, seconds since 1970 in UTC.
    pub taken_at_unix_seconds: f64,
    /// `copy-on-write`, `stop-and-copy` or `held`.
    pub method: &'static str,
    /// How long the process stood still, in milliseconds.
    pub pause_ms: f64,
    /// What was predicted.
    pub predicted_pause_ms: Option<f64>,
    /// How long the copy of the memory was needed, in milliseconds: until then, first writes to a page cost more.
    pub frozen_ms: Option<f64>,
    /// Threads with registers, of all.
    pub threads_with_registers: usize,
    /// Threads.
    pub threads: usize,
    /// Bytes of the unpacked core, holes included.
    pub logical_bytes: Option<u64>,
    /// Bytes written.
    pub written_bytes: Option<u64>,
    /// Bytes of memory in it, by class.
    pub contents: Vec<(&'static str, u64)>,
    /// What the kind or the ceiling left out, in bytes by reason.
    pub left_out: Vec<(&'static str, u64)>,
    /// What should be there and is not.
    pub missing: Vec<MissingFacts>,
    /// Why it ends early.
    pub error: Option<String>,
    /// What is worth knowing.
    pub warnings: Vec<String>,
}

/// A range that is missing.
#[derive(Clone, Debug, Serialize)]
pub struct MissingFacts {
    /// First address, in hexadecimal.
    pub start: String,
    /// Bytes.
    pub bytes: u64,
    /// Why.
    pub why: &'static str,
}

impl DumpFacts {
    pub(super) fn of(
        image: &dyn Image,
        origin: &Origin,
        settings: &DumpSettings,
        result: &Result<CoreSummary, CoreError>,
        member: &str,
        taken: SystemTime,
    ) -> Self {
        let summary = result.as_ref().ok();
        let threads = image.threads();
        Self {
            version: FACTS_VERSION,
            pid: image.process().pid.0,
            core: member.to_owned(),
            format: format_name(settings.format),
            kind: kind_name(settings.kind),
            scrubbed: settings.scrubbed,
            whole: summary.is_some_and(CoreSummary::is_whole),
            reason: origin.reason.clone(),
            taken_at_unix_seconds: taken
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0.0, |since| since.as_secs_f64()),
            method: method_name(origin.method),
            pause_ms: origin.pause.as_secs_f64() * 1e3,
            predicted_pause_ms: origin.predicted_pause.map(|pause| pause.as_secs_f64() * 1e3),
            frozen_ms: summary.map(|summary| summary.freeze_needed.as_secs_f64() * 1e3),
            threads_with_registers: threads.iter().filter(|thread| thread.registers.is_some()).count(),
            threads: threads.len(),
            logical_bytes: summary.map(|summary| summary.logical_bytes),
            written_bytes: summary.map(|summary| summary.written_bytes),
            contents: summary.map_or_else(Vec::new, |summary| {
                Class::ALL.iter().map(|&class| (class_name(class), summary.contents.of(class))).collect()
            }),
            left_out: summary.map_or_else(Vec::new, |summary| by_reason(&summary.left_out)),
            missing: summary.map_or_else(Vec::new, |summary| {
                summary.missing.iter().take(LISTED).map(MissingFacts::of).collect()
            }),
            error: result.as_ref().err().map(with_causes),
            warnings: origin.warnings.clone(),
        }
    }
}

impl MissingFacts {
    fn of(missing: &MissingRange) -> Self {
        Self {
            start: format!("{:#x}", missing.range.start),
            bytes: missing.range.end.saturating_sub(missing.range.start),
            why: reason_name(missing.reason),
        }
    }
}

/// Bytes by reason; memory that was never touched is not missing and not told.
fn by_reason(ranges: &[MissingRange]) -> Vec<(&'static str, u64)> {
    let mut found: Vec<(&'static str, u64)> = Vec::new();
    for one in ranges.iter().filter(|one| one.reason != Reason::Zero) {
        let (name, bytes) = (reason_name(one.reason), one.range.end.saturating_sub(one.range.start));
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum = sum.saturating_add(bytes),
            None => found.push((name, bytes)),
        }
    }
    found
}

fn with_causes(error: &CoreError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}

fn format_name(format: Format) -> &'static str {
    match format {
        Format::Core(_) => "core",
        Format::Minidump => "minidump",
    }
}

fn kind_name(kind: CoreKind) -> &'static str {
    match kind {
        CoreKind::Full => "full",
        CoreKind::Heap => "heap",
        CoreKind::Stacks => "stacks",
    }
}

fn method_name(method: CaptureMethod) -> &'static str {
    match method {
        CaptureMethod::CopyOnWrite => "copy-on-write",
        CaptureMethod::StopAndCopy => "stop-and-copy",
        CaptureMethod::Held => "held",
        CaptureMethod::Unknown => "unknown",
    }
}

fn class_name(class: Class) -> &'static str {
    match class {
        Class::Stacks => "stacks",
        Class::Private => "private",
        Class::Shared => "shared",
        Class::Modules => "modules",
        Class::Files => "files",
    }
}

fn reason_name(reason: Reason) -> &'static str {
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
