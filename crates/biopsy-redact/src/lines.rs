//! Line by line, for recorders that look at each line anyway, with what must be remembered between lines.

use crate::{Hit, Redacted, Redactor};
use std::borrow::Cow;

/// Longest private key, in lines. Behind that, lines count as ordinary text again.
const KEY_LINES_MAX: u32 = 400;
/// Lines without any base64 after which a private key is taken to be over.
const FOREIGN_LINES_MAX: u32 = 20;
/// Shortest run of base64 that is taken for a line of a private key, in bytes.
const KEY_RUN_MIN: usize = 16;
/// Rule id of lines of a private key.
const KEY_RULE: &str = "private-key";

/// Redacts single lines, and knows when it is inside a private key. Made by [`Redactor::lines`].
#[derive(Debug)]
pub struct LineRedactor<'r> {
    redactor: &'r Redactor,
    inside: Option<Inside>,
}

#[derive(Debug)]
struct Inside {
    lines: u32,
    foreign: u32,
}

impl Redactor {
    /// A redactor for lines that come one by one. Give it whole lines, without line ends, in order, one file each.
    #[must_use]
    pub fn lines(&self) -> LineRedactor<'_> {
        LineRedactor { redactor: self, inside: None }
    }
}

impl LineRedactor<'_> {
    /// Redacts the next line.
    pub fn line<'t>(&mut self, line: &'t str) -> Redacted<'t> {
        let mut redacted = if self.inside.is_some() && !is_key_edge(line) {
            self.key_line(line)
        } else {
            self.redactor.text(line)
        };
        match is_start(line) {
            Some(true) => self.inside = Some(Inside { lines: 0, foreign: 0 }),
            Some(false) => self.inside = None,
            None => {}
        }
        redacted.hits.sort();
        redacted
    }

    /// A line between BEGIN and END: its longest run of base64 is the key's, what a logger put around it is not.
    fn key_line<'t>(&mut self, line: &'t str) -> Redacted<'t> {
        let Some(inside) = &mut self.inside else { return self.redactor.text(line) };
        inside.lines += 1;
        let run = longest_run(line.as_bytes());
        let found = run.len() >= KEY_RUN_MIN || run.len() == line.trim().len() && !run.is_empty();
        inside.foreign = if found { 0 } else { inside.foreign + 1 };
        if inside.lines > KEY_LINES_MAX || inside.foreign > FOREIGN_LINES_MAX {
            self.inside = None;
        }
        if !found {
            return self.redactor.text(line);
        }
        let mask = self.redactor.pseudonym(KEY_RULE, &line[run.clone()]);
        let text = format!("{}{mask}{}", &line[..run.start], &line[run.end..]);
        let outer = self.redactor.text(&text);
        let mut hits = outer.hits;
        hits.push(Hit { rule: KEY_RULE.to_owned(), count: 1 });
        Redacted { text: Cow::Owned(outer.text.into_owned()), hits }
    }
}

/// `-----BEGIN ... PRIVATE KEY` without its end: true. The end: false.
fn is_start(line: &str) -> Option<bool> {
    let at = line.rfind("PRIVATE KEY")?;
    let edge = line[..at].rfind("-----")?;
    let word = &line[edge + 5..at];
    if word.starts_with("BEGIN") {
        Some(true)
    } else if word.starts_with("END") {
        Some(false)
    } else {
        None
    }
}

fn is_key_edge(line: &str) -> bool {
    is_start(line).is_some()
}

/// The longest run of base64 characters.
fn longest_run(line: &[u8]) -> std::ops::Range<usize> {
    let mut best = 0..0;
    let mut start = 0;
    for at in 0..=line.len() {
        let belongs =
            line.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='));
        if !belongs {
            if at - start > best.len() {
                best = start..at;
            }
            start = at + 1;
        }
    }
    best
}

#[cfg(test)]
mod tests;
