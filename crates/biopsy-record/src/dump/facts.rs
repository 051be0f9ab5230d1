//! How a dump was taken and what it holds.

use std::time::SystemTime;

use biopsy_image::Image;
use biopsy_image::write::{Class, CoreError, CoreSummary, MissingRange, Reason};
use biopsy_model::Avma;
use biopsy_model::dump::{DumpFacts, MissingMemory};

use super::settings::{DumpSettings, Origin};

pub(super) fn of(
    image: &dyn Image,
    origin: &Origin,
    settings: &DumpSettings,
    result: &Result<CoreSummary, CoreError>,
    member: &str,
    taken: SystemTime,
) -> DumpFacts {
    let summary = result.as_ref().ok();
    let threads = image.threads();
    DumpFacts {
        pid: image.process().pid,
        member: member.to_owned(),
        format: settings.format.kind(),
        kind: settings.kind,
        scrubbed: settings.scrubbed,
        whole: summary.is_some_and(CoreSummary::is_whole),
        reason: origin.reason.clone(),
        taken_at_unix_seconds: taken
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0.0, |since| since.as_secs_f64()),
        method: origin.method,
        pause_ms: origin.pause.as_secs_f64() * 1e3,
        predicted_pause_ms: origin.predicted_pause.map(|pause| pause.as_secs_f64() * 1e3),
        frozen_ms: summary.map(|summary| summary.freeze_needed.as_secs_f64() * 1e3),
        threads_with_registers: threads.iter().filter(|thread| thread.registers.is_some()).count(),
        threads: threads.len(),
        logical_bytes: summary.map(|summary| summary.logical_bytes),
        written_bytes: summary.map(|summary| summary.written_bytes),
        contents: summary.map_or_else(Vec::new, |summary| {
            Class::ALL.iter().map(|&class| (class, summary.contents.of(class))).collect()
        }),
        left_out: summary.map_or_else(Vec::new, |summary| by_reason(&summary.left_out)),
        missing: summary.map_or_else(Vec::new, |summary| summary.missing.iter().map(missing).collect()),
        error: result.as_ref().err().map(with_causes),
        warnings: origin.warnings.clone(),
    }
}

fn missing(one: &MissingRange) -> MissingMemory {
    let bytes = one.range.end.saturating_sub(one.range.start);
    MissingMemory { start: Avma(one.range.start), bytes, why: one.reason }
}

/// Bytes by reason; memory that was never touched is not missing and not told.
fn by_reason(ranges: &[MissingRange]) -> Vec<(Reason, u64)> {
    let mut found: Vec<(Reason, u64)> = Vec::new();
    for one in ranges.iter().filter(|one| one.reason != Reason::Zero) {
        let (why, bytes) = (one.reason, one.range.end.saturating_sub(one.range.start));
        match found.iter_mut().find(|(known, _)| *known == why) {
            Some((_, sum)) => *sum = sum.saturating_add(bytes),
            None => found.push((why, bytes)),
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
