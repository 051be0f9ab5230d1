//! Python: `Traceback (most recent call last):`, calls from outside, and then the exception.

use super::error::{Thrown, error};
use super::frames::{Frame, Frames};
use super::words::{CHAIN, Found, LastWords, LastWordsKind, Writer};
use crate::whose::Language;

const TRACEBACK: &str = "Traceback (most recent call last):";
const CAUSED: &str = "The above exception was the direct cause of the following exception:";
const HANDLING: &str = "During handling of the above exception, another exception occurred:";
/// Where calls of an interpreter begin that nobody of the program has around them.
const OUTERMOST: &[&str] = &["<module>", "_run_module_as_main", "_bootstrap", "_bootstrap_inner"];

/// One exception with its calls, innermost first.
struct Raised<'l> {
    thrown: Thrown,
    frames: Frames<'l>,
    start: usize,
    end: usize,
}

/// The last traceback, and what was its cause at the root.
pub(super) fn parse(lines: &[&str]) -> Option<Found> {
    let lines: Vec<&str> = lines.iter().map(|line| out_of_group(line)).collect();
    let is_start = |line: &&str| line.ends_with(TRACEBACK);
    let start = lines.iter().rposition(is_start)?;
    let last = raised(&lines, start)?;
    let outermost = last.frames.list().last().map_or("", |frame| frame.function);
    let before = start.checked_sub(1).and_then(|at| lines.get(at)).copied().unwrap_or_default();
    let by = match OUTERMOST.contains(&outermost) || outermost.is_empty() {
        true if is_of_log(before) => Writer::Program,
        true => Writer::Runtime,
        false => Writer::Program,
    };
    let end = last.end;
    let mut became = Vec::new();
    let mut root = last;
    // Outwards in the text is inwards in the chain.
    while became.len() < CHAIN {
        let Some(between) = between(&lines, root.start) else { break };
        let Some(above) = lines.get(..between).and_then(|lines| lines.iter().rposition(is_start)) else {
            break;
        };
        let Some(inner) = raised(&lines, above) else { break };
        let inside = |raised: &Raised<'_>| {
            raised.frames.place().map_or(String::new(), |place| format!(", in {}", place.name()))
        };
        if lines.get(between).copied() == Some(CAUSED) {
            became.insert(0, format!("passed on as {}{}", root.thrown.words(), inside(&root)));
            root = inner;
        } else {
            became.push(format!("raised while {} was handled{}", inner.thrown.words(), inside(&inner)));
            break;
        }
    }
    let mut words = LastWords::new(LastWordsKind::Exception, root.thrown, &root.frames, by);
    words.became = became;
    Some(Found { end, words })
}

/// The line that says how the exception above belongs to the one that begins at `start`.
fn between(lines: &[&str], start: usize) -> Option<usize> {
    let before = start.saturating_sub(4)..start;
    before.rev().find(|at| lines.get(*at).is_some_and(|line| *line == CAUSED || *line == HANDLING))
}

fn raised<'l>(lines: &[&'l str], start: usize) -> Option<Raised<'l>> {
    let mut frames = Vec::new();
    let mut end = start + 1;
    while let Some(line) = lines.get(end).filter(|line| line.starts_with(' ')) {
        let frame = || {
            let (file, rest) = line.trim_start().strip_prefix("File \"")?.split_once("\", line ")?;
            let (number, function) = rest.split_once(", in ").unwrap_or((rest, ""));
            Some(Frame { function, file, line: number.parse().ok() })
        };
        frames.extend(frame());
        end += 1;
    }
    let thrown = error(lines.get(end)?)?;
    frames.reverse();
    Some(Raised { thrown, frames: Frames::new(Language::Python, frames), start, end: end + 1 })
}

/// Exceptions of a group stand behind a bar: `  | Traceback ...`; the group itself behind `  + Exception Group `.
fn out_of_group(line: &str) -> &str {
    let text = line.trim_start();
    if text.len() == line.len() {
        return line;
    }
    text.strip_prefix("| ").or_else(|| text.strip_prefix("+ Exception Group ")).unwrap_or(match text {
        text if text.starts_with("+-") => "",
        _ => line,
    })
}

/// A line of a log, as `logging` writes it before a traceback: `ERROR:shop:cannot serve`, `2026-11-29 04:00:00,123 ERROR cannot serve`.
fn is_of_log(line: &str) -> bool {
    line.split([' ', ':', '[', ']'])
        .take(8)
        .any(|word| matches!(word, "ERROR" | "CRITICAL" | "FATAL" | "WARNING"))
}
