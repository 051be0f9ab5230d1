//! Peers that only say where secrets are: what they find is put out of the text, so that they are scored as we are.

use super::case::{Bundle, Input};
use super::engine::Masked;

/// What stands where a peer found a secret.
const GONE: &[u8] = b"[redacted:peer]";

/// A text of a bundle with what was found in it taken out; `None` for what is no text.
pub(super) fn without(
    input: &Input,
    found: impl IntoIterator<Item = std::ops::Range<usize>>,
) -> Option<Vec<u8>> {
    let mut text = input.as_text()?;
    let mut ranges: Vec<_> = found.into_iter().collect();
    ranges.sort_by_key(|range| (range.start, range.end));
    for range in ranges.into_iter().rev() {
        let end = range.end.min(text.len());
        if range.start < end {
            text.splice(range.start..end, GONE.iter().copied());
        }
    }
    Some(text)
}

/// A whole bundle, or nothing if a part of it is no text.
pub(super) fn bundle(bundle: &Bundle, mut mask: impl FnMut(&Input) -> Option<Vec<u8>>) -> Masked {
    bundle.iter().map(&mut mask).collect()
}

/// Ranges that touch as one.
pub(super) fn merged(mut ranges: Vec<std::ops::Range<usize>>) -> Vec<std::ops::Range<usize>> {
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut merged: Vec<std::ops::Range<usize>> = Vec::new();
    for range in ranges {
        match merged.last_mut().filter(|last| range.start <= last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => merged.push(range),
        }
    }
    merged
}
