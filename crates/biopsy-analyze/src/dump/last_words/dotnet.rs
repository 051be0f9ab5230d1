//! .NET: `Unhandled exception. A.B.Error: text`, or what a program writes of an exception: without the first words.
//!
//! ```text
//! System.InvalidOperationException: no menu
//!  ---> System.Collections.Generic.KeyNotFoundException: soup
//!    at Shop.Prices.Find(String name) in /srv/Prices.cs:line 3
//!    --- End of inner exception stack trace ---
//!    at Shop.Menu.Price(String name) in /srv/Menu.cs:line 7
//! ```

use super::error::{Thrown, error, error_in};
use super::frames::{Frame, Frames};
use super::words::{CHAIN, Found, LastWords, LastWordsKind, Writer};
use crate::whose::Language;

const BEGINS: &str = "Unhandled exception. ";
const INNER: &str = "---> ";
const END_OF_INNER: &str = "--- End of inner exception stack trace ---";
/// Lines that the texts of a chain may have.
const TEXT_LINES: usize = 40;

/// The last exception, and what caused it at the root.
pub(super) fn parse(lines: &[&str]) -> Option<Found> {
    let last = lines.iter().rposition(|line| of_dotnet(line).is_some())?;
    // Calls from inside: those of the root first, then those of who passed it on.
    let mut groups: Vec<Vec<Frame<'_>>> = vec![Vec::new()];
    let mut at = last;
    loop {
        let line = lines.get(at)?;
        if let Some(frame) = of_dotnet(line) {
            groups.last_mut()?.push(frame);
        } else if line.trim_start() == END_OF_INNER {
            if groups.len() < CHAIN {
                groups.push(Vec::new());
            }
        } else if !is_between(line) {
            break;
        }
        at = at.checked_sub(1)?;
    }
    groups.iter_mut().for_each(|group| group.reverse());
    groups.reverse();
    // Above them the names, the outermost first; a text may have several lines.
    let mut headers: Vec<Thrown> = Vec::new();
    let mut first = None;
    for number in (at.saturating_sub(TEXT_LINES)..=at).rev() {
        let line = lines.get(number)?.trim_start();
        if let Some(inner) = line.strip_prefix(INNER) {
            headers.extend(error(numbered(inner)));
        } else if let Some(thrown) = error_in(line.strip_prefix(BEGINS).unwrap_or(line)) {
            headers.push(thrown);
            first = Some(number);
            break;
        }
        if headers.len() > CHAIN || of_dotnet(line).is_some() {
            break;
        }
    }
    let first = lines.get(first?)?.trim_start();
    let by = if first.contains(BEGINS.trim_end()) { Writer::Runtime } else { Writer::Program };
    let mut groups = groups.into_iter();
    let mut headers = headers.into_iter();
    let mut frames = Frames::new(Language::Managed, groups.next()?);
    let root = headers.next()?;
    let mut became = Vec::new();
    for outer in headers {
        let group = groups.next().unwrap_or_default();
        let inside = Frames::new(Language::Managed, group.clone()).place();
        let inside = inside.map_or(String::new(), |place| format!(", in {}", place.name()));
        became.push(format!("passed on as {}{inside}", outer.words()));
        // Whoever passed it on called what threw it.
        frames.extend(&group);
    }
    let mut words = LastWords::new(LastWordsKind::Exception, root, &frames, by);
    words.became = became;
    Some(Found { end: last + 1, words })
}

/// ` ---> (Inner Exception #1) System.X: text<---`
fn numbered(text: &str) -> &str {
    let text = text.strip_suffix("<---").unwrap_or(text);
    match text.strip_prefix("(Inner Exception #") {
        Some(rest) => rest.split_once(") ").map_or(text, |(_, rest)| rest),
        None => text,
    }
}

fn is_between(line: &str) -> bool {
    line.trim_start().starts_with("--- End of ") || super::frames::is_gap(line)
}

/// `   at Shop.Menu.Price(String name) in /srv/Menu.cs:line 7`
fn of_dotnet(line: &str) -> Option<Frame<'_>> {
    let text = line.trim_start();
    let call = text.strip_prefix("at ").filter(|_| text.len() < line.len())?;
    let (call, source) = match call.split_once(") in ") {
        Some((call, source)) => (call, source),
        None => (call.strip_suffix(')')?, ""),
    };
    // `Shop.Menu.<>c.<Price>b__0_0(String name)`; a function of JavaScript has a blank before its bracket.
    let (function, arguments) = call.split_once('(')?;
    if function.ends_with(' ')
        || !function.contains('.')
        || arguments.contains(".java")
        || is_of_java(arguments)
    {
        return None;
    }
    let (file, number) = source.rsplit_once(":line ").unwrap_or((source, ""));
    Some(Frame { function, file, line: number.parse().ok() })
}

fn is_of_java(arguments: &str) -> bool {
    matches!(arguments, "Native Method" | "Unknown Source" | "<generated>")
        || [".kt", ".scala", ".groovy", ".clj"].iter().any(|ending| arguments.contains(ending))
}
