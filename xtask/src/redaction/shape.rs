//! Values of a shape: a regular expression, from which values are made and against which they are held.

use regex::Regex;
use regex_syntax::hir::{Hir, HirKind};

use super::random::Random;
use crate::run::Outcome;

/// How often a repetition without an end is repeated more than it must be.
const MORE: u32 = 8;

/// What values look like.
#[derive(Debug)]
pub(super) struct Shape {
    hir: Hir,
    /// Matches a whole value.
    whole: Regex,
}

/// A made-up value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Value {
    /// All of it: also the address in front of a signature.
    pub(super) text: String,
    /// What is secret in it.
    pub(super) secret: String,
}

impl Shape {
    /// From a regular expression; what is secret may be a group `(?<secret>...)`.
    pub(super) fn parse(pattern: &str) -> Outcome<Self> {
        let wrong = |error: String| format!("shape `{pattern}`: {error}");
        Ok(Self {
            hir: regex_syntax::parse(pattern).map_err(|error| wrong(error.to_string()))?,
            whole: Regex::new(&format!("^(?:{pattern})$")).map_err(|error| wrong(error.to_string()))?,
        })
    }

    /// A value of this shape.
    pub(super) fn make(&self, random: &mut Random) -> Value {
        let mut text = String::new();
        write(&self.hir, random, &mut text);
        self.value(text)
    }

    /// A text of this shape as a value.
    pub(super) fn value(&self, text: String) -> Value {
        let groups = self.whole.captures(&text);
        let group = groups.and_then(|groups| Some(groups.name("secret")?.as_str().to_owned()));
        Value { secret: group.unwrap_or_else(|| text.clone()), text }
    }

    /// Whether a text has this shape.
    #[cfg(test)]
    pub(super) fn is_met_by(&self, text: &str) -> bool {
        self.whole.is_match(text)
    }
}

/// The expressions are those of our own tables, so that their depth is small.
fn write(hir: &Hir, random: &mut Random, text: &mut String) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(&String::from_utf8_lossy(&literal.0)),
        HirKind::Class(class) => text.extend(letter(class, random)),
        HirKind::Repetition(repetition) => {
            let most = repetition.max.unwrap_or(repetition.min + MORE);
            let times = repetition.min as usize + random.below((most - repetition.min) as usize + 1);
            for _ in 0..times {
                write(&repetition.sub, random, text);
            }
        }
        HirKind::Capture(capture) => write(&capture.sub, random, text),
        HirKind::Concat(parts) => parts.iter().for_each(|part| write(part, random, text)),
        HirKind::Alternation(parts) => write(random.pick(parts), random, text),
    }
}

/// Each letter of a class is as likely as any other.
fn letter(class: &regex_syntax::hir::Class, random: &mut Random) -> Option<char> {
    let regex_syntax::hir::Class::Unicode(class) = class else { return None };
    let count = class.ranges().iter().map(|range| range.end() as usize - range.start() as usize + 1).sum();
    let mut index = random.below(count);
    for range in class.ranges() {
        let length = range.end() as usize - range.start() as usize + 1;
        if index < length {
            return char::from_u32(range.start() as u32 + u32::try_from(index).ok()?);
        }
        index -= length;
    }
    None
}
