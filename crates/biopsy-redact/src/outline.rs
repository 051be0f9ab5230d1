//! What every match of an expression looks like at a glance: how long it is at least, and of which bytes. Most places of a keyword
//! are told to be none by it, without the expression.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Bytes that are looked at.
const LOOKED_AT: usize = 24;
/// With more bytes than this an outline says too little.
const BYTES_MAX: usize = 128;

/// The outline of an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outline {
    length: usize,
    /// Bytes that a match may have, one bit each.
    bytes: [u64; 4],
}

impl Outline {
    /// Of an expression on bytes; `None`: it says too little, or is none.
    pub(crate) fn of(pattern: &str) -> Option<Self> {
        let hir = ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern).ok()?;
        let length = hir.properties().minimum_len()?.min(LOOKED_AT);
        let mut outline = Self { length, bytes: [0; 4] };
        outline.add_all(&hir);
        outline.says_something().then_some(outline)
    }

    /// What matches of either look like.
    pub(crate) fn or(mut self, other: &Self) -> Option<Self> {
        self.length = self.length.min(other.length);
        self.bytes.iter_mut().zip(other.bytes).for_each(|(one, other)| *one |= other);
        self.says_something().then_some(self)
    }

    /// May a match begin here?
    pub(crate) fn fits(&self, text: &[u8], at: usize) -> bool {
        text.get(at..at + self.length).is_some_and(|begin| begin.iter().all(|byte| self.has(*byte)))
    }

    /// Its length, if all its bytes belong.
    pub(crate) fn length_of(&self, belongs: fn(u8) -> bool) -> usize {
        if (0..=255).all(|byte| !self.has(byte) || belongs(byte)) { self.length } else { 0 }
    }

    fn says_something(&self) -> bool {
        self.length > 0
            && self.bytes.iter().map(|bits| bits.count_ones() as usize).sum::<usize>() <= BYTES_MAX
    }

    fn has(&self, byte: u8) -> bool {
        self.bytes[usize::from(byte >> 6)] >> (byte & 63) & 1 != 0
    }

    fn add(&mut self, byte: u8) {
        self.bytes[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn add_all(&mut self, hir: &Hir) {
        let mut left = vec![hir];
        while let Some(hir) = left.pop() {
            match hir.kind() {
                HirKind::Empty | HirKind::Look(_) => {}
                HirKind::Literal(literal) => literal.0.iter().for_each(|byte| self.add(*byte)),
                HirKind::Class(Class::Bytes(class)) => {
                    class
                        .iter()
                        .flat_map(|range| range.start()..=range.end())
                        .for_each(|byte| self.add(byte));
                }
                HirKind::Class(Class::Unicode(_)) => self.bytes = [u64::MAX; 4],
                HirKind::Repetition(repeated) => left.push(&repeated.sub),
                HirKind::Capture(capture) => left.push(&capture.sub),
                HirKind::Concat(parts) | HirKind::Alternation(parts) => left.extend(parts),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_match_is_told_at_a_glance() {
        let one = Outline::of(r"(?P<secret>0\.[0-9a-f]{8}-[A-Za-z]{4})\b").expect("few bytes");
        assert!(one.fits(b"x 0.01234567-abcd", 2));
        assert!(!one.fits(b"0.123 ms and more text", 0), "a blank");
        assert!(!one.fits(b"0.0123456", 0), "too short");
        let other = Outline::of("q~[0-9]{4}").expect("few bytes");
        let both = one.or(&other).expect("few bytes");
        assert!(both.fits(b"q~1234", 0) && both.fits(b"0.0123", 0) && !both.fits(b"q~12 4", 0));
        assert_eq!(Outline::of("a[^ ]{3}"), None, "it may be nearly anything");
        assert_eq!(Outline::of("a*"), None, "it may be nothing");
    }
}
