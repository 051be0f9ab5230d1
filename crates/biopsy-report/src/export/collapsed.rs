//! Collapsed stacks: `thread;outermost;...;innermost count`, one line a stack, as flamegraph.pl and inferno read it.
//!
//! Kernel functions end in `_[k]` and JIT functions in `_[j]`: the marks that these tools colour by.

use super::stacks::{Call, CallKind, Threads, calls, wait_shares};
use biopsy_model::capture::Capture;
use biopsy_model::stack::StackHandle;
use biopsy_model::timeline::Timeline;
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// CPU time, counted in samples.
pub(super) fn write_cpu(capture: &Capture, timeline: &Timeline, out: impl Write) -> io::Result<()> {
    let samples = timeline.samples.iter().map(|sample| (sample.tid, sample.time, sample.stack, 1));
    write(capture, timeline, samples, 1, out)
}

/// Waiting time, in microseconds.
pub(super) fn write_waits(capture: &Capture, timeline: &Timeline, out: impl Write) -> io::Result<()> {
    let shares = wait_shares(timeline);
    let shares = shares.into_iter().map(|share| (share.tid, share.time, share.stack, share.weight.0));
    write(capture, timeline, shares, 1_000, out)
}

/// `unit`: what of the weights makes one of the file; they are added up before, so that many small ones are not lost.
fn write(
    capture: &Capture,
    timeline: &Timeline,
    samples: impl Iterator<Item = (biopsy_model::Tid, biopsy_model::MonoNanos, Option<StackHandle>, u64)>,
    unit: u64,
    mut out: impl Write,
) -> io::Result<()> {
    let threads = Threads::new(capture, timeline);
    let mut sums: FxHashMap<(&str, Option<StackHandle>), u64> = FxHashMap::default();
    for (tid, time, stack, weight) in samples {
        let Some(thread) = threads.at(tid, time) else { continue };
        let sum = sums.entry((&threads.all[thread].name, stack)).or_default();
        *sum = sum.saturating_add(weight);
    }
    let mut lines: Vec<(String, u64)> = sums
        .into_iter()
        .filter(|(_, sum)| *sum > 0)
        .map(|((thread, stack), sum)| (line(thread, &calls(timeline, stack)), sum))
        .collect();
    // Sorted, so that equal recordings give equal files; threads of one name are added up.
    lines.sort_unstable();
    let mut lines = lines.into_iter().peekable();
    while let Some((text, mut sum)) = lines.next() {
        while let Some((_, more)) = lines.next_if(|(next, _)| *next == text) {
            sum = sum.saturating_add(more);
        }
        // Less than one of them is none.
        if sum >= unit {
            writeln!(out, "{text} {}", sum / unit)?;
        }
    }
    out.flush()
}

fn line(thread: &str, calls: &[Call<'_>]) -> String {
    let mut line = String::new();
    push(&mut line, thread);
    if calls.is_empty() {
        line.push_str(";[no stack]");
    }
    for call in calls {
        line.push(';');
        let begin = line.len();
        push(&mut line, &call.name);
        keep_from_counts(&mut line, begin);
        line.push_str(match call.kind {
            CallKind::Kernel => "_[k]",
            CallKind::Jit => "_[j]",
            CallKind::Native | CallKind::Unknown => "",
        });
    }
    line
}

/// Readers take a number behind a blank for a count, also that before the last (of a differential flame graph): a name that ends in one
/// gets another character in place of the blank.
fn keep_from_counts(line: &mut String, begin: usize) {
    let Some((before, last)) = line.get(begin..).and_then(|name| name.rsplit_once(char::is_whitespace))
    else {
        return;
    };
    if !last.is_empty() && last.chars().all(|char| char.is_ascii_digit() || char == '.') {
        let (at, last) = (begin + before.len(), last.to_owned());
        line.truncate(at);
        line.push('_');
        line.push_str(&last);
    }
}

/// A name in which nothing ends the frame or the line.
fn push(line: &mut String, name: &str) {
    line.extend(name.chars().map(|char| match char {
        ';' => ':',
        char if char.is_control() || matches!(char, '\u{2028}' | '\u{2029}') => '?',
        other => other,
    }));
}
