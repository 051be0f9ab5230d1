//! Rust: `thread 'main' panicked at src/menu.rs:7:9:`, and the text; who called is there where backtraces are switched on.

use super::error::Thrown;
use super::frames::{Frame, Frames, is_number, position};
use super::words::{Found, LastWords, LastWordsKind, Writer};
use crate::whose::Language;

/// The last panic.
pub(super) fn parse(lines: &[&str]) -> Option<Found> {
    let at = lines.iter().rposition(|line| line.starts_with("thread '") && line.contains(" panicked at "))?;
    let (_, rest) = lines.get(at)?.split_once(" panicked at ")?;
    // To 1.72 the text came first: `'text', src/menu.rs:7:9`.
    let (place_of, text, mut end) = match rest.strip_suffix(':') {
        Some(place) => (place, *lines.get(at + 1).unwrap_or(&""), at + 2),
        None => {
            let (text, place) = rest.rsplit_once(", ")?;
            (place, text.trim_matches('\''), at + 1)
        }
    };
    let (file, line) = position(place_of, true)?;
    let location = Frame { function: "", file, line: Some(line) };
    // A text may have several lines: `assertion `left == right` failed`, `  left: 1`.
    while lines.get(end).is_some_and(|line| line.starts_with("  left: ") || line.starts_with(" right: ")) {
        end += 1;
    }
    let mut frames: Vec<Frame<'_>> = Vec::new();
    // `  12: menu::price` and `             at ./src/menu.rs:7:9`.
    while let Some(text) =
        lines.get(end).filter(|line| line.starts_with(' ') || line.starts_with("stack backtrace"))
    {
        let text = text.trim_start();
        if let Some((_, function)) = text.split_once(": ").filter(|(number, _)| is_number(number)) {
            frames.push(Frame { function, file: "", line: None });
        } else if let (Some(frame), Some((file, line))) =
            (frames.last_mut(), text.strip_prefix("at ").and_then(|at| position(at, true)))
        {
            (frame.file, frame.line) = (file, Some(line));
        }
        end += 1;
    }
    let frames = Frames::new(Language::Native, frames);
    let place = frames.own_place().or_else(|| Frames::new(Language::Native, vec![location]).place());
    let mut words = LastWords::new(LastWordsKind::RustPanic, Thrown::text(text), &frames, Writer::Runtime);
    words.place = place;
    Some(Found { end, words })
}
