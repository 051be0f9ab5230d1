//! Pieces that several triggers have: a pattern, a length of time.

use std::time::Duration;

use regex::bytes::{Regex, RegexBuilder};

use super::parse_error::ParseTriggerError;
use super::quantity::parse_duration;

/// Most memory of one compiled pattern.
const PATTERN_BYTES: usize = 1 << 20;

pub(super) fn parse_positive(what: &'static str, text: &str) -> Result<Duration, ParseTriggerError> {
    let duration = parse_duration(text).filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| ParseTriggerError::Duration { what, value: text.trim().to_owned() })
}

pub(super) fn compile(pattern: &str) -> Result<Regex, ParseTriggerError> {
    RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build().map_err(|error| ParseTriggerError::Pattern {
        pattern: pattern.to_owned(),
        why: error.to_string().lines().next_back().unwrap_or_default().trim().to_owned(),
    })
}
