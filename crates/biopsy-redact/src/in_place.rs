//! Bytes that are no text, and have texts in them: masked in place, with as many bytes.
//!
//! An event stream is a binary format with texts in UTF-16. The rules of text are asked about those texts alone, so that
//! nothing else can be taken for a part of a value; learned values are searched for in all of it.

use std::ops::Range;

use crate::counts::merge_hits;
use crate::memory::{LiteralFinder, Literals};
use crate::scan::Span;
use crate::wide::{self, Order};
use crate::{Hit, Redactor, pseudonym};

/// What stands where a secret was.
const MASK: u8 = b'*';

/// A redactor for bytes with texts in them, with what has been learned until it was made.
#[derive(Debug)]
pub struct InPlace<'r> {
    redactor: &'r Redactor,
    values: LiteralFinder,
}

impl Redactor {
    /// A redactor for bytes with texts in them.
    #[must_use]
    pub fn in_place(&self) -> InPlace<'_> {
        InPlace { redactor: self, values: LiteralFinder::new(&Literals::learned_by(self)) }
    }
}

impl InPlace<'_> {
    /// Bytes around those that are masked that should be given with them: more than any rule reaches, in UTF-16.
    pub const OVERLAP: usize = 128 << 10;

    /// Masks what is secret in `bytes[inner]`; what is around it is looked at.
    pub fn mask(&self, bytes: &mut [u8], inner: Range<usize>) -> Vec<Hit> {
        let inner = inner.start.min(bytes.len())..inner.end.min(bytes.len());
        let mut found: Vec<Span> = Vec::new();
        self.values.ranges(bytes, |range, is_wide| {
            let order = is_wide.then_some(Order::Little);
            found.push(Span { wide: order, ..learned(range) });
        });
        self.redactor.find_learned(bytes, true, &mut found);
        for (island, order) in wide::islands(bytes) {
            let folded = wide::fold(&bytes[island.clone()], order).text;
            let from = found.len();
            self.redactor.engine().find(&folded, &pseudonym::masks_in(&folded), &mut found);
            self.redactor.find_learned(&folded, false, &mut found);
            for span in &mut found[from..] {
                span.range = island.start + span.range.start * 2..island.start + span.range.end * 2;
                span.wide = Some(order);
            }
        }
        let mut hits = Vec::new();
        for span in found {
            let mut changed = false;
            for place in span.range.clone() {
                let is_character = match span.wide {
                    None => true,
                    Some(order) => (place - span.range.start) % 2 == usize::from(order == Order::Big),
                };
                let mask = if is_character { MASK } else { 0 };
                let keeps = is_character && matches!(bytes[place], b'\n' | b'\r' | b'\t');
                if inner.contains(&place) && !keeps && bytes[place] != mask {
                    bytes[place] = mask;
                    changed = true;
                }
            }
            if changed {
                let rule = self.redactor.rule_id(&span).to_owned();
                merge_hits(&mut hits, &[Hit { rule, count: 1 }]);
            }
        }
        hits
    }
}

fn learned(range: Range<usize>) -> Span {
    Span { range, rule: None, pseudonym: None, open: false, learn: false, wide: None, wrap: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::verify::verify;

    fn wide(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn texts_are_masked_with_as_many_bytes_and_nothing_else_changes() {
        let redactor = Redactor::new(Options::default()).unwrap();
        redactor.learn("Lg7kQ2zV99xLmP4t", "x");
        redactor.learn("pä55wörd/geheim", "x");
        let mut bytes = Vec::new();
        let mut wanted = Vec::new();
        for (text, masked) in [
            ("opened Lg7kQ2zV99xLmP4t again", "opened **************** again"),
            ("and pä55wörd/geheim too", "and *************** too"),
            ("Server=a;Password=Ab12cd34ef;", "Server=a;Password=**********;"),
            ("in base64 TGc3a1EyelY5OXhMbVA0dA==", "in base64 ************************"),
            ("{\"a\":\"p\\u00e455w\\u00f6rd/geheim\"}", "{\"a\":\"*************************\"}"),
        ] {
            for (out, text) in [(&mut bytes, text), (&mut wanted, masked)] {
                out.extend_from_slice(&[7, 0, 0, 1, 0x80, 0xff]);
                out.extend_from_slice(&wide(text));
                out.extend_from_slice(&[0, 0]);
            }
        }
        bytes.extend_from_slice(b"\x05plain Lg7kQ2zV99xLmP4t\x00\x01");
        wanted.extend_from_slice(b"\x05plain ****************\x00\x01");
        let whole = 0..bytes.len();
        let hits = redactor.in_place().mask(&mut bytes, whole.clone());
        assert_eq!(bytes.len(), wanted.len());
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('\0', "");
        assert_eq!(shown(&bytes), shown(&wanted));
        assert!(bytes == wanted && hits.iter().any(|hit| hit.rule == "password"), "{hits:?}");
        assert_eq!(verify([("a".to_owned(), &bytes[..])], &redactor.fingerprints()), []);
        assert_eq!(redactor.in_place().mask(&mut bytes, whole), []);
    }
}
