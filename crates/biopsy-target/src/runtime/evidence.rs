//! What detectors look at.

use std::collections::BTreeSet;

use crate::process::command;
use crate::process::seen::Seen;

/// What one detector looks at.
pub(super) struct Evidence<'a> {
    pub(super) seen: &'a Seen,
    /// Mapped files; empty where they may not be read.
    pub(super) files: BTreeSet<String>,
}

impl Evidence<'_> {
    /// The first mapped file whose last part satisfies the test.
    pub(super) fn mapped(&self, test: impl Fn(&str) -> bool) -> Option<&str> {
        self.files.iter().map(String::as_str).find(|path| test(command::base_name(path)))
    }
}

/// Takes a version off the front of a text: digits and dots, with a `-preview.1` kind of ending; at least `1.2`.
pub(super) fn leading_version(text: &str) -> Option<String> {
    let end =
        text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let numbers = numbers.trim_end_matches('.');
    if numbers.len() > 32 || !numbers.contains('.') || numbers.split('.').any(str::is_empty) {
        return None;
    }
    let suffix_end = rest.strip_prefix('-').map_or(0, |suffix| {
        1 + suffix.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(suffix.len())
    });
    let suffix = if (2..=32).contains(&suffix_end) { rest.get(..suffix_end).unwrap_or("") } else { "" };
    Some(format!("{numbers}{suffix}"))
}
