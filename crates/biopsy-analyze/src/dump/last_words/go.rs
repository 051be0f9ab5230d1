//! Go: `panic: text` or `fatal error: text`, and the calls of the goroutine, innermost first, each on two lines.

use super::error::Thrown;
use super::frames::{Frame, Frames, position};
use super::words::{CHAIN, Found, LastWords, LastWordsKind, Writer};
use crate::whose::Language;

/// Lines between the text and the first goroutine: other panics, the signal, the runtime's own stack.
const BEFORE: usize = 60;

/// The last panic, or fatal error.
pub(super) fn parse(lines: &[&str]) -> Option<Found> {
    let is_start = |line: &&str| line.starts_with("panic: ") || line.starts_with("fatal error: ");
    let start = lines.iter().rposition(is_start)?;
    let first = lines.get(start)?;
    let (kind, text) = match first.strip_prefix("panic: ") {
        Some(text) => (LastWordsKind::GoPanic, text),
        None => (LastWordsKind::GoFatal, first.strip_prefix("fatal error: ")?),
    };
    let after = lines.get(start + 1..)?;
    let goroutine = after.iter().take(BEFORE).position(|line| is_goroutine(line))?;
    // A panic in what ran because of a panic: `	panic: again`.
    let again: Vec<&str> = after
        .iter()
        .take(goroutine)
        .filter_map(|line| line.trim_start().strip_prefix("panic: "))
        .take(CHAIN)
        .collect();
    let mut frames = Vec::new();
    let mut calls = after.get(goroutine + 1..)?.iter().peekable();
    while let Some(call) = calls.next().filter(|line| !line.is_empty()) {
        let source = calls.next_if(|line| line.starts_with('\t'));
        if call.starts_with("created by ") {
            break;
        }
        let source = source.and_then(|line| {
            let (at, _) = line.trim_start().split_once(' ').unwrap_or((line.trim_start(), ""));
            position(at, false)
        });
        let Some((file, line)) = source else { continue };
        // `main.(*shop).price(0x7, {0xc000, 0x2})`; what is inlined has `(...)`.
        let function = call.rfind('(').and_then(|at| call.get(..at)).unwrap_or(call);
        frames.push(Frame { function, file, line: Some(line) });
    }
    let rest = after.iter().skip(goroutine).take_while(|line| is_of_dump(line)).count();
    let end = start + 1 + goroutine + rest;
    // Where it began, not where it was passed on: behind the runtime's own call to `panic`.
    let of_panic = frames.iter().rposition(|frame| frame.function == "panic").map_or(0, |at| at + 1);
    let frames = Frames::new(Language::Go, frames.split_off(of_panic));
    let text = text.trim_end_matches(" [recovered]");
    let mut words = LastWords::new(kind, Thrown::text(text), &frames, Writer::Runtime);
    words.became = again.iter().map(|text| format!("passed on as a panic: {text}")).collect();
    Some(Found { end, words })
}

/// `goroutine 7 [running]:`
fn is_goroutine(line: &str) -> bool {
    line.strip_prefix("goroutine ").is_some_and(|rest| rest.ends_with(':') && rest.contains('['))
}

/// Other goroutines, and registers.
fn is_of_dump(line: &str) -> bool {
    let is_register = || {
        line.rsplit_once(" 0x").is_some_and(|(name, value)| {
            name.trim_end().bytes().all(|byte| byte.is_ascii_alphanumeric())
                && value.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    line.is_empty()
        || is_goroutine(line)
        || line.starts_with('\t')
        || line.starts_with("created by ")
        || line.starts_with("exit status ")
        || line.ends_with(')')
        || super::frames::is_gap(line)
        || line.starts_with("...")
        || is_register()
}
