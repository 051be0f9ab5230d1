//! Java: `Exception in thread "main" a.b.Error: text`, or what `printStackTrace` and loggers write: without the first words.

use super::chain::{Form, Section};
use super::error::{Thrown, error, error_in, named};
use super::frames::{Frame, Frames, is_gap, is_number};
use super::words::{Found, LastWords, LastWordsKind, Writer};
use crate::whose::Language;

const BEGINS: &str = "Exception in thread \"";

/// The last exception, and what caused it at the root.
pub(super) fn parse(lines: &[&str]) -> Option<Found> {
    let last = lines.iter().rposition(|line| of_java(line).is_some())?;
    let call = |line| match of_java(line) {
        Some(frame) => Some(Some(frame)),
        None => (is_gap(line) || is_circular(line)).then_some(None),
    };
    // Behind the last call it says how many more there are.
    let mut end = last + 1;
    while lines.get(end).is_some_and(|line| call(line).is_some()) {
        end += 1;
    }
    let mut chain = Form { call: &call, header: &header }.chain(lines, end - 1)?;
    fill(&mut chain);
    let outermost = chain.first()?;
    let first = lines.get(outermost.header)?;
    let by = if first.starts_with(BEGINS) { Writer::Runtime } else { Writer::Program };
    // What is suppressed beside it is no cause.
    let is_cause =
        |section: &&Section<'_>| !lines.get(section.header).is_some_and(|line| is_suppressed(line));
    let causes: Vec<&Section<'_>> = chain.iter().filter(is_cause).collect();
    let root = causes.last()?;
    let mut words = LastWords::new(LastWordsKind::Exception, root.thrown.clone(), &framed(root), by);
    words.became = causes
        .iter()
        .rev()
        .skip(1)
        .map(|outer| {
            let inside =
                framed(outer).place().map_or(String::new(), |place| format!(", in {}", place.name()));
            format!("passed on as {}{inside}", outer.thrown.words())
        })
        .collect();
    Some(Found { end, words })
}

fn framed<'l>(section: &Section<'l>) -> Frames<'l> {
    Frames::new(Language::Java, section.frames.clone())
}

/// A cause has not those of its calls that the one before has, too.
fn fill(chain: &mut [Section<'_>]) {
    for at in 1..chain.len() {
        let (before, rest) = chain.split_at_mut(at);
        let (Some(outer), Some(inner)) = (before.last(), rest.first_mut()) else { return };
        let from = outer.frames.len().saturating_sub(inner.common);
        inner.frames.extend(outer.frames.get(from..).unwrap_or_default());
    }
}

fn header(line: &str) -> Option<(Thrown, bool)> {
    if let Some(rest) = line.strip_prefix(BEGINS) {
        let (_, rest) = rest.split_once("\" ")?;
        return Some((error(rest)?, false));
    }
    let text = line.trim_start();
    for known in ["Caused by: ", "Suppressed: "] {
        if let Some(rest) = text.strip_prefix(known) {
            return Some((error(rest)?, true));
        }
    }
    // A class without a package has nothing around it.
    let alone = error(line).filter(|thrown| thrown.type_name.starts_with(char::is_uppercase));
    Some((error_in(line).or(alone).or_else(|| named(line))?, false))
}

fn is_suppressed(line: &str) -> bool {
    line.trim_start().starts_with("Suppressed: ")
}

fn is_circular(line: &str) -> bool {
    line.contains("[CIRCULAR REFERENCE")
}

/// `at java.base/java.util.ArrayList.get(ArrayList.java:427)`
fn of_java(line: &str) -> Option<Frame<'_>> {
    let text = line.trim_start();
    let call = text.strip_prefix("at ").filter(|_| text.len() < line.len())?;
    // Loggers write the jar behind it: ` ~[shop.jar:1.2]`.
    let (function, rest) = call.split_once('(')?;
    let (inside, _) = rest.split_once(')')?;
    if function.contains(' ') || !function.contains('.') {
        return None;
    }
    let (file, number) = inside.rsplit_once(':').unwrap_or((inside, ""));
    let is_source = [".java", ".kt", ".scala", ".groovy", ".clj"].iter().any(|ending| file.ends_with(ending));
    let has_none = matches!(inside, "Native Method" | "Unknown Source" | "<generated>");
    if !(has_none || is_source && (number.is_empty() || is_number(number))) {
        return None;
    }
    // `java.base/java.util.ArrayList.get`.
    let function = function.rsplit_once('/').map_or(function, |(_, function)| function);
    Some(Frame { function, file, line: number.parse().ok() })
}
