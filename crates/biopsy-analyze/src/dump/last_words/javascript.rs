//! JavaScript, as Node writes it: the line of the source, the error, its calls, what caused it, and at the end its own version.

use super::chain::Form;
use super::error::{Thrown, error, error_in, named};
use super::frames::{Frame, Frames, is_gap, position};
use super::words::{BEHIND, Found, LastWords, LastWordsKind, Writer};
use crate::whose::Language;

/// What Node writes behind an error that nobody caught.
const VERSION: &str = "Node.js v";
/// Lines between an error and that: what else the error has, and what belongs to a group of errors.
const PROPERTIES: usize = 200;
const EMITTED: &str = "Emitted 'error' event";
const REJECTED: &str = "The promise rejected with the reason \"";

/// The last error, and what caused it.
pub(super) fn parse(lines: &[&str]) -> Option<Found> {
    let version = lines.iter().rposition(|line| line.starts_with(VERSION));
    let by_runtime = version.filter(|at| lines.len() <= at + BEHIND);
    if let Some(found) = by_runtime.and_then(|end| no_error(lines, end)) {
        return Some(found);
    }
    if let Some(found) = aborted(lines) {
        return Some(found);
    }
    let last = lines.iter().rposition(|line| of_javascript(line).is_some())?;
    let call = |line| match of_javascript(line) {
        Some(frame) => Some(Some(frame)),
        None => (is_gap(line) || is_call(line) || line.starts_with(EMITTED)).then_some(None),
    };
    let chain = Form { call: &call, header: &header }.chain(lines, last)?;
    // Where the event of an error was emitted stands behind the calls of the error, and is told apart.
    let emitted = lines.get(..=last)?.iter().rposition(|line| line.starts_with(EMITTED));
    let root = chain.last()?;
    let emitted = emitted.filter(|at| *at > root.header);
    let count_behind = emitted.map_or(0, |at| {
        lines.get(at..=last).unwrap_or_default().iter().filter(|line| of_javascript(line).is_some()).count()
    });
    let of_error = root.frames.len().saturating_sub(count_behind);
    let (thrown_in, emitted_in) = root.frames.split_at_checked(of_error)?;
    let frames = Frames::new(Language::JavaScript, thrown_in.to_vec());
    let emission = Frames::new(Language::JavaScript, emitted_in.to_vec());
    let end = by_runtime.filter(|at| *at > last && at - last < PROPERTIES);
    let by = if end.is_some() { Writer::Runtime } else { Writer::Program };
    let mut words = LastWords::new(LastWordsKind::Exception, root.thrown.clone(), &frames, by);
    if !words.place.as_ref().is_some_and(|place| place.own) {
        // The library alone threw it: who emitted it, else the line that Node shows, else nobody.
        words.place = emission.own_place().or_else(|| shown_line(lines, root.header)).or(words.place);
    }
    words.became = chain
        .iter()
        .rev()
        .skip(1)
        .map(|outer| {
            let inside = Frames::new(Language::JavaScript, outer.frames.clone()).place();
            let inside = inside.map_or(String::new(), |place| format!(", in {}", place.name()));
            format!("passed on as {}{inside}", outer.thrown.words())
        })
        .collect();
    if emitted.is_some() {
        let inside = emission.own_place().map_or(String::new(), |place| format!(", in {}", place.name()));
        words.became.push(format!("emitted as an `error` event that nobody listens to{inside}"));
    }
    let end = end.map_or_else(|| behind_properties(lines, last), |end| end + 1);
    Some(Found { end, words })
}

/// What is thrown, or rejected with, and is no error: Node has the line of the source alone.
fn no_error(lines: &[&str], version: usize) -> Option<Found> {
    let from = version.saturating_sub(PROPERTIES);
    let text = lines.get(from..version)?;
    if let Some(reason) = text.iter().rev().find_map(|line| Some(line.split_once(REJECTED)?.1)) {
        let reason = reason.rsplit_once('"').map_or(reason, |(reason, _)| reason);
        let frames = Frames::new(Language::JavaScript, Vec::new());
        let words = LastWords::new(LastWordsKind::Rejection, Thrown::text(reason), &frames, Writer::Runtime);
        return Some(Found { end: version + 1, words });
    }
    if text.iter().any(|line| of_javascript(line).is_some()) {
        return None;
    }
    let arrow = text.iter().rposition(|line| line.trim_start().starts_with('^'))?;
    let value = text.get(arrow + 1..)?.iter().find(|line| !line.is_empty())?;
    let place = text.get(..arrow)?.iter().rev().take(3).find_map(|line| source_line(line))?;
    let frames = Frames::new(Language::JavaScript, vec![place]);
    // An error that has lost its calls.
    let (kind, thrown) = match error_in(value.trim_start_matches('[').trim_end_matches(']')) {
        Some(thrown) => (LastWordsKind::Exception, thrown),
        None => (LastWordsKind::Value, Thrown::text(value)),
    };
    let mut words = LastWords::new(kind, thrown, &frames, Writer::Runtime);
    words.place = frames.own_place();
    Some(Found { end: version + 1, words })
}

/// With `--abort-on-uncaught-exception`: `Uncaught Error: text`, `FROM`, and calls without `at`.
fn aborted(lines: &[&str]) -> Option<Found> {
    let from = lines.iter().rposition(|line| *line == "FROM")?;
    let header = lines
        .get(from.saturating_sub(20)..from)?
        .iter()
        .rev()
        .find_map(|line| line.strip_prefix("Uncaught "));
    let thrown = error(header?)?;
    let calls = lines.get(from + 1..)?.iter().map_while(|line| call_of(line));
    let frames = Frames::new(Language::JavaScript, calls.collect());
    let end = from + 1 + frames.list().len();
    Some(Found { end, words: LastWords::new(LastWordsKind::Exception, thrown, &frames, Writer::Runtime) })
}

/// The line of the source that Node shows above an error: `/srv/menu.js:7`.
fn shown_line(lines: &[&str], header: usize) -> Option<super::super::places::StackPlace> {
    let above = lines.get(header.saturating_sub(8)..header)?;
    let frame = above.iter().find_map(|line| source_line(line))?;
    Frames::new(Language::JavaScript, vec![frame]).own_place()
}

fn source_line(line: &str) -> Option<Frame<'_>> {
    let (file, number) =
        position(line, false).filter(|(file, _)| !file.contains(' ') && file.contains('/'))?;
    Some(Frame { function: "", file, line: Some(number) })
}

/// What an error has beside its text and calls is indented, in braces.
fn behind_properties(lines: &[&str], last: usize) -> usize {
    let opens = lines.get(last).is_some_and(|line| line.ends_with(['{', ',']));
    let rest = lines.get(last + 1..).unwrap_or_default().iter();
    let of_it = |line: &&&str| line.starts_with(' ') || line.starts_with(['}', ']']);
    last + 1 + if opens { rest.take_while(of_it).count() } else { 0 }
}

/// `Error: text`, `Uncaught Error: text`, `cannot serve: Error: text`, `  [cause]: Error: text`.
fn header(line: &str) -> Option<(Thrown, bool)> {
    let text = line.trim_start();
    if let Some(cause) = text.strip_prefix("[cause]: ") {
        return Some((error(cause)?, true));
    }
    let text = line.trim_start_matches("Uncaught ");
    let text = text.trim_start_matches("[UnhandledPromiseRejection: ");
    // A class of its own may have any name, but begins the line.
    let alone = error(text).filter(|thrown| thrown.type_name.starts_with(char::is_uppercase));
    Some((alone.or_else(|| error_in(text)).or_else(|| named(text))?, false))
}

/// A call without a position: `    at async Promise.all (index 0)`, `    at Array.map (<anonymous>)`.
fn is_call(line: &str) -> bool {
    line.starts_with(' ')
        && line
            .trim_start()
            .strip_prefix("at ")
            .is_some_and(|rest| rest.ends_with(')') && rest.contains(" ("))
}

/// `    at price (/srv/menu.js:7:9)`, `async price (...)`, `/srv/menu.js:7:9`.
fn of_javascript(line: &str) -> Option<Frame<'_>> {
    let text = line.trim_start();
    let text = text.strip_prefix("at ").filter(|_| line.starts_with("    "))?;
    call_of(text.trim_end_matches(" {").trim_end_matches(','))
}

fn call_of(text: &str) -> Option<Frame<'_>> {
    let (function, place) = match text.strip_suffix(')').and_then(|text| text.split_once(" (")) {
        // `Timeout.tick [as _onTimeout] (/srv/menu.js:7:9)`.
        Some((function, place)) => {
            (function.split_once(" [as ").map_or(function, |(function, _)| function), place)
        }
        None => ("", text),
    };
    let (file, line) = position(place, true)?;
    let function = function.trim_start_matches("async ").trim_start_matches("new ");
    // Made by `eval` out of a text.
    let file = if file.starts_with("eval at ") { "" } else { file.trim_start_matches("async ") };
    Some(Frame { function, file, line: Some(line) })
}
