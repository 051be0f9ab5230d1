//! Words and numbers of a dump that the forms of the report share.

use biopsy_analyze::dump::managed::{HeapTable, OperationGroup};
use biopsy_analyze::dump::{DumpAnalysis, DumpThread, FrameRow, Identity, Movement, StackGroup};
use biopsy_model::Nanos;
use biopsy_model::order::Order as _;
use biopsy_model::stack::StackEnd;
use jiff::Timestamp;

use crate::units;

/// `2026-11-21 10:27:03 UTC`.
pub(crate) fn taken(identity: &Identity) -> Option<String> {
    let time = Timestamp::from_nanosecond(i128::from(identity.taken_at_unix_nanos?)).ok()?;
    Some(time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// `ELF core, full, 12.3 MiB, written by gcore`.
pub(crate) fn file(identity: &Identity) -> String {
    let mut parts = Vec::new();
    if !identity.format.is_empty() {
        parts.push(identity.format.clone());
    }
    parts.extend(identity.kind.as_ref().map(|kind| format!("kind {kind}")));
    parts.extend(identity.file_bytes.map(|bytes| units::bytes(units::to_f64(bytes))));
    parts.extend(identity.writer.as_ref().map(|writer| format!("written by {writer}")));
    match identity.scrubbed {
        Some(true) => parts.push("scrubbed".to_owned()),
        Some(false) => parts.push("not scrubbed".to_owned()),
        None => {}
    }
    parts.join(", ")
}

/// `3 looks over 4.0 s, stood still 12.1 ms in all · 4 of 9 threads did not run in between`.
pub(crate) fn looks(analysis: &DumpAnalysis) -> Option<String> {
    let looks = analysis.looks.as_ref()?;
    let mut text = format!("{} looks", looks.count);
    if let Some(span) = looks.span {
        text.push_str(&format!(" over {}", units::duration(span)));
    }
    if !looks.pauses.is_empty() {
        let all = looks.pauses.iter().fold(Nanos(0), |sum, pause| sum + *pause);
        text.push_str(&format!(", stood still {} in all", units::duration(all)));
    }
    let of = |movement| analysis.threads.iter().filter(|thread| thread.movement == Some(movement)).count();
    let (stuck, same) = (of(Movement::Stuck), of(Movement::SamePlace));
    let all = units::counted(analysis.threads.len() as u64, "thread", "threads");
    text.push_str(&if same > 0 {
        format!(
            " · {} of {all} in the same place each time (whether they ran in between is not known)",
            stuck + same
        )
    } else {
        format!(" · {stuck} of {all} did not run in between")
    });
    Some(text)
}

/// What all of these threads did between looks; `None`: there was one look, or they did not do the same.
pub(crate) fn movement<'a>(mut threads: impl Iterator<Item = &'a DumpThread>) -> Option<&'static str> {
    let first = threads.next()?.movement?;
    threads.all(|thread| thread.movement == Some(first)).then(|| first.words())
}

/// Why the stack ends where it does; `None` at the root.
pub(crate) fn end(group: &StackGroup) -> Option<&'static str> {
    if group.cut {
        return Some("deeper than the limit: cut here");
    }
    match group.end {
        StackEnd::Root => None,
        StackEnd::Truncated => Some("the dump does not have the rest of the stack"),
        StackEnd::FramePointers => Some("walked by frame pointers, which end here"),
        StackEnd::NoUnwindInfo => Some("no unwind information from here on"),
        StackEnd::Skipped => Some("the dump has no registers of it"),
        StackEnd::KernelOnly => Some("no user part"),
    }
}

/// `worker-*, timer (4711)`: names of the threads of a group, patterns of numbered ones.
pub(crate) fn names(analysis: &DumpAnalysis, group: &StackGroup) -> String {
    const SHOWN: usize = 3;
    /// Threads whose names are looked at: a group may have a hundred thousand. Of more they are not counted.
    const MEMBERS: usize = 2_000;
    let mut names: Vec<(String, usize)> = Vec::new();
    for thread in group.members.iter().take(MEMBERS).filter_map(|index| analysis.threads.get(*index)) {
        let name = if thread.named { pattern(&thread.name) } else { String::new() };
        match names.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => names.push((name, 1)),
        }
    }
    names.order_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more = names.iter().filter(|(name, _)| !name.is_empty()).count().saturating_sub(SHOWN);
    let are_all = group.members.len() <= MEMBERS;
    let alone = group.members.len() == 1;
    let mut words: Vec<String> = names
        .into_iter()
        .filter(|(name, _)| !name.is_empty())
        .take(SHOWN)
        .map(|(name, count)| if count > 1 && are_all { format!("{name} ×{count}") } else { name })
        .collect();
    if let Some(thread) =
        group.members.first().and_then(|index| analysis.threads.get(*index)).filter(|_| alone)
    {
        words = vec![if thread.named { thread.name.clone() } else { format!("thread {}", thread.tid) }];
    }
    if words.is_empty() {
        let tids = group.members.iter().filter_map(|index| analysis.threads.get(*index));
        let shown: Vec<String> = tids.take(6).map(|thread| thread.tid.to_string()).collect();
        let rest = group.members.len().saturating_sub(shown.len());
        let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        return format!("threads {}{rest}", shown.join(", "));
    }
    if more > 0 {
        words.push(format!("and {}", units::counted(more as u64, "more name", "more names")));
    }
    words.join(", ")
}

/// `worker-17` → `worker-*`.
fn pattern(name: &str) -> String {
    let head = name.trim_end_matches(|char: char| char.is_ascii_digit());
    if head.len() < name.len() && !head.is_empty() { format!("{head}*") } else { name.to_owned() }
}

/// A frame with its module, file and line: `App.Run  server.dll  Program.cs:12`.
pub(crate) fn frame(row: &FrameRow) -> String {
    let mut text = row.label();
    if row.function.is_some() && !row.module.is_empty() {
        text.push_str(&format!("  {}", row.module));
    }
    if let Some((file, line)) = &row.source {
        let name = file.rsplit('/').next().unwrap_or(file);
        text.push_str(&format!("  {name}{}", line.map_or(String::new(), |line| format!(":{line}"))));
    }
    if row.inlined {
        text.push_str("  (inlined)");
    }
    match row.repeats {
        (times, 1) if times > 1 => text.push_str(&format!("  ({times} times)")),
        (times, rows) if times > 1 => text.push_str(&format!("  (these {rows} frames {times} times)")),
        _ => {}
    }
    text
}

/// Share of threads whose stacks are whole.
pub(crate) fn whole_stacks(analysis: &DumpAnalysis) -> Option<f64> {
    let all = analysis.threads.len();
    let whole = analysis.groups.iter().filter(|group| group.end == StackEnd::Root || group.cut);
    let whole: usize = whole.map(|group| group.members.len()).sum();
    (all > 0).then(|| whole as f64 / all as f64)
}

/// Share of frames with names.
pub(crate) fn named_frames(analysis: &DumpAnalysis) -> Option<f64> {
    let mut all = 0_usize;
    let mut named = 0_usize;
    for group in &analysis.groups {
        for row in &group.frames {
            let times = group.members.len().saturating_mul(row.repeats.0 as usize);
            all = all.saturating_add(times);
            named = named.saturating_add(if row.function.is_some() { times } else { 0 });
        }
    }
    (all > 0).then(|| named as f64 / all as f64)
}

/// Bytes, as `1.2 MiB`.
pub(crate) fn size(value: u64) -> String {
    units::bytes(units::to_f64(value))
}

/// `1.2 MiB in 300 objects, 12 types of the server collector`.
pub(crate) fn heap_total(heap: &HeapTable) -> String {
    format!(
        "{} in {}, {} of {}",
        size(heap.bytes),
        units::counted(heap.objects, "object", "objects"),
        units::counted(heap.types, "type", "types"),
        if heap.is_server { "the server collector" } else { "the workstation collector" }
    )
}

/// What a chain of operations awaits.
pub(crate) fn awaits(group: &OperationGroup) -> String {
    match &group.object {
        Some((address, name)) if group.count > 1 => {
            format!("{}, all on one {name} at {address}", group.awaits)
        }
        _ => group.awaits.clone(),
    }
}

#[cfg(test)]
mod tests;
