//! Private keys in PEM or PGP armour, told by their first or their last line.

use std::ops::Range;

/// What the first line begins with.
pub(super) const BEGIN: &[u8] = b"-----BEGIN ";
/// What the last line begins with.
pub(super) const END: &[u8] = b"-----END ";
/// Longest label between the dashes, in characters (`ENCRYPTED PRIVATE KEY`, `PGP PRIVATE KEY BLOCK`).
const LABEL_MAX: usize = 60;
/// Shortest run of base64 that says that what stands between two lines is a key and not a program that speaks of one.
const RUN_MIN: usize = 8;
/// The same where the other line is not there.
const RUN_MIN_OPEN: usize = 20;

/// The secret part behind the first line at the start of `text`.
pub(super) fn behind(text: &[u8]) -> Vec<Range<usize>> {
    let Some(label) = label(text, BEGIN) else { return Vec::new() };
    let start = label + 5;
    let body = &text[start..];
    match memchr::memmem::find(body, b"-----") {
        Some(end) if runs(&body[..end], RUN_MIN).next().is_some() => {
            std::iter::once(start..start + end).collect()
        }
        Some(_) => Vec::new(),
        None => runs(body, RUN_MIN_OPEN).map(|run| start + run.start..start + run.end).collect(),
    }
}

/// The secret part in front of the last line at `at`.
pub(super) fn in_front(text: &[u8], at: usize) -> Vec<Range<usize>> {
    if label(&text[at..], END).is_none() {
        return Vec::new();
    }
    // Line ends may be escaped.
    let belongs = |byte: &u8| is_base64(*byte) || matches!(byte, b'\n' | b'\r' | b' ' | b'\t' | b'\\');
    let length = text[..at].iter().rev().take_while(|byte| belongs(byte)).count();
    let body = at - length..at;
    if runs(&text[body.clone()], RUN_MIN).next().is_some() {
        std::iter::once(body).collect()
    } else {
        Vec::new()
    }
}

/// Where the label of a line ends, if the line is of a private key.
fn label(text: &[u8], start: &[u8]) -> Option<usize> {
    let rest = text.strip_prefix(start)?;
    let rest = &rest[..rest.len().min(LABEL_MAX + 5)];
    let length = memchr::memmem::find(rest, b"-----")?;
    let label = &rest[..length];
    let plain = label.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b' ');
    (plain && memchr::memmem::find(label, b"PRIVATE KEY").is_some()).then_some(start.len() + length)
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// Runs of base64 of at least this length, with letters of both cases.
fn runs(text: &[u8], least: usize) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < text.len() {
            let length = text[at..].iter().take_while(|byte| is_base64(**byte)).count();
            let run = at..at + length;
            at = run.end + 1;
            let letters = &text[run.clone()];
            if length >= least
                && letters.iter().any(u8::is_ascii_uppercase)
                && letters.iter().any(u8::is_ascii_lowercase)
            {
                return Some(run);
            }
        }
        None
    })
}
