//! Secrets in the memory of processes, masked with as many bytes as they have.
//!
//! Promises:
//! - lengths stay, and only bytes of text inside a value change: pointers, headers of objects and lengths of strings
//!   are as they were
//! - what is masked at a byte depends only on the bytes within [`OVERLAP`] of it, so memory may be cut anywhere
//! - linear time on real memory; no panics, whatever the bytes are
//!
//! Two stages. A filter over vectors of bytes finds where an anchor of a rule may stand (`password`, `ghp_`, `://`), in
//! ASCII and UTF-16 at once. There the rule, the same as for text, is asked about the text around, cut where memory
//! stops being text; UTF-16 is folded for that. Rules say in `rules/*.toml` whether they are used on memory (`memory =
//! { ... }`): those that are right beyond doubt, with anchors that are rare. Values known to be secret ([`Literals`])
//! are searched for too, wherever they stand. `docs/design/08-scrubbing.md` has the numbers.
//!
//! Memory that went through here is *scrubbed*, never *clean*: secrets that stand in memory without anything that
//! announces them, as integers, compressed or encrypted, are as they were.
//!
//! ```
//! use biopsy_redact::memory::{Literals, MemoryScanner};
//! let scanner = MemoryScanner::new(&Literals::new()).expect("the rules are right");
//! let mut memory = b"\x00\x7f\x01Server=db1;User Id=app;Password=hunter2;\x00\x10".to_vec();
//! let whole = 0..memory.len();
//! scanner.mask(&mut memory, whole, |rule, _| assert_eq!(scanner.rules()[rule], "password"));
//! assert_eq!(memory, b"\x00\x7f\x01Server=db1;User Id=app;Password=*******;\x00\x10");
//! ```

mod apart;
mod counted;
mod detect;
mod filter;
mod finder;
mod fuzz;
mod gram;
mod literals;
mod private_key;
mod window;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use zeroize::Zeroizing;

use self::detect::{Detector, DetectorAnchor};
use self::filter::{Candidate, Filter};
use self::gram::Text;
use self::window::{BACKWARD, Encoding, FORWARD, Windows};
use crate::outline::Outline;
use crate::plausible::Lists;
use crate::rules::{self, Words};
use crate::{LEARNED_RULE, RedactError};

pub use finder::LiteralFinder;
pub use fuzz::fuzz_memory;
pub use literals::Literals;

/// What is masked at a byte depends on no byte further away than this, in bytes.
///
/// A byte is masked because of an anchor at most `FORWARD` in front of it or, at the end of a private key, behind
/// it; and what an anchor says depends on bytes at most `BACKWARD` on its other side.
pub const OVERLAP: usize = FORWARD + BACKWARD;

/// Byte strings of literals that are searched for together with the anchors of rules; more get a pass of their own, by
/// [`LiteralFinder`].
const VALUES_FEW: usize = 64;

/// What stands where a secret was.
const MASK: u8 = b'*';

/// Finds secrets in memory. Safe to share between threads; compiled once.
#[derive(Debug)]
pub struct MemoryScanner {
    set: AnchorSet,
    values: Option<LiteralFinder>,
    detectors: Vec<Detector>,
    names: Vec<String>,
    lists: Lists,
}

/// Anchors that are searched for in one pass.
#[derive(Debug)]
struct AnchorSet {
    filter: Filter,
    anchors: Vec<Anchor>,
}

/// A byte string, and what it means.
struct Anchor {
    /// In lower case, unless `exact`.
    bytes: Zeroizing<Vec<u8>>,
    /// Case matters.
    exact: bool,
    meaning: Meaning,
}

enum Meaning {
    /// These rules are to be asked.
    Rules(Vec<Asked>),
    /// It is the secret, written so. `wide`: also with a zero behind each byte.
    Literal { written: Encoding, wide: bool },
}

/// A rule that is asked at an anchor.
struct Asked {
    rule: usize,
    /// Where in the anchor it begins.
    offset: usize,
    /// Length of its word.
    length: usize,
    /// What a match looks like there.
    outline: Option<Outline>,
}

/// A stretch of memory that is secret.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Found {
    start: usize,
    end: usize,
    rule: usize,
    encoding: Encoding,
}

/// Buffers of a thread, kept between pieces.
#[derive(Default)]
struct Room {
    places: Vec<usize>,
    folded: Vec<u8>,
    found: Vec<Found>,
}

thread_local! {
    static ROOM: RefCell<Room> = RefCell::default();
}

impl MemoryScanner {
    /// With all built-in rules that are used on memory, and these values.
    ///
    /// # Errors
    /// When a rule of the packs is wrong, which the tests rule out.
    pub fn new(literals: &Literals) -> Result<Self, RedactError> {
        let mut detectors = Vec::new();
        let mut names = Vec::new();
        let mut anchors: Vec<Anchor> = Vec::new();
        for rule in rules::load(false, &[])?.rules.iter().filter(|rule| rule.memory.is_some()) {
            let index = detectors.len();
            let detector = Detector::new(rule)?;
            for DetectorAnchor { text, exact, offset, length, outline } in detector.anchors() {
                let same = |anchor: &&mut Anchor| {
                    anchor.bytes.as_slice() == text.as_bytes() && anchor.exact == *exact
                };
                let known = anchors.iter_mut().find(same);
                let asked = Asked { rule: index, offset: *offset, length: *length, outline: outline.clone() };
                match known.map(|anchor| &mut anchor.meaning) {
                    Some(Meaning::Rules(rules)) => rules.push(asked),
                    _ => anchors.push(Anchor {
                        bytes: Zeroizing::new(text.clone().into_bytes()),
                        exact: *exact,
                        meaning: Meaning::Rules(vec![asked]),
                    }),
                }
            }
            detectors.push(detector);
            names.push(rule.id.clone());
        }
        names.push(LEARNED_RULE.to_owned());
        let patterns = literals.patterns();
        let values = if patterns.len() <= VALUES_FEW {
            anchors.extend(patterns.into_iter().map(|pattern| Anchor {
                bytes: pattern.bytes,
                exact: true,
                meaning: Meaning::Literal { written: pattern.written, wide: pattern.wide },
            }));
            None
        } else {
            Some(LiteralFinder::of(patterns))
        };
        let set = AnchorSet::new(anchors);
        Ok(Self { set, values, detectors, names, lists: Lists::new(Words::load()?) })
    }

    /// Names of the rules; the last one stands for values that were passed in.
    #[must_use]
    pub fn rules(&self) -> &[String] {
        &self.names
    }

    /// Masks what is secret in `bytes[inner]`. To be independent of the cut, `inner` has [`OVERLAP`] bytes of what is
    /// around it on both sides, or as many as there are. Calls `secret` with rule and offset of each secret that
    /// starts in `inner`, in order; what several rules found together is one secret, of the rule that found its
    /// start.
    pub fn mask(&self, bytes: &mut [u8], inner: Range<usize>, mut secret: impl FnMut(usize, usize)) {
        let inner = inner.start.min(bytes.len())..inner.end.min(bytes.len());
        // A callback of a callback would find the buffers in use, and takes its own.
        let mut room = ROOM.with(|room| {
            room.try_borrow_mut().map(|mut room| std::mem::take(&mut *room)).unwrap_or_default()
        });
        self.find(bytes, &mut room);
        room.found.sort_unstable();
        let mut end = 0;
        for found in &room.found {
            if found.start >= end && inner.contains(&found.start) {
                secret(found.rule, found.start);
            }
            end = end.max(found.end);
        }
        // By encoding, and by where its units begin: what is behind this has not been overwritten yet.
        let mut done = [0usize; 6];
        for found in &mut room.found {
            let done = &mut done[2 * found.encoding as usize + found.start % 2];
            // By whole units: a literal ends with a character, not with the other half of its unit.
            found.start += done.saturating_sub(found.start) & !1;
            *done = found.end.max(*done);
            overwrite(bytes, found, &inner);
        }
        room.found.clear();
        ROOM.with(|kept| {
            if let Ok(mut kept) = kept.try_borrow_mut() {
                *kept = room;
            }
        });
    }

    fn find(&self, bytes: &[u8], room: &mut Room) {
        let Room { places, folded, found } = room;
        found.clear();
        let mut windows = Windows::new(bytes, std::mem::take(folded));
        self.set.filter.scan(bytes, places, |candidate| {
            self.look(bytes, &mut windows, &self.set.anchors[candidate.anchor], candidate, found);
        });
        *folded = windows.into_buffer();
        if let Some(values) = &self.values {
            let rule = self.names.len() - 1;
            values.find(bytes, |place| {
                let finder::Place { range, encoding, .. } = place;
                found.push(Found { start: range.start, end: range.end, rule, encoding });
            });
        }
    }

    /// Is the anchor there, and what follows from it?
    fn look(
        &self,
        bytes: &[u8],
        windows: &mut Windows<'_>,
        anchor: &Anchor,
        at: Candidate,
        found: &mut Vec<Found>,
    ) {
        if !anchor.is_at(bytes, at) {
            return;
        }
        let length = anchor.bytes.len();
        match &anchor.meaning {
            Meaning::Literal { written, wide } => {
                if at.stride == 1 || *wide {
                    let end = at.start + (length - 1) * at.stride + 1;
                    // Characters of ASCII stand where they stand in either order.
                    let encoding = if at.stride == 1 { *written } else { Encoding::Little };
                    let rule = self.names.len() - 1;
                    found.push(Found { start: at.start, end, rule, encoding });
                }
            }
            Meaning::Rules(rules) => {
                // Inside UTF-16 of one order each character also looks like one of the other; only at its ends can that
                // be told. So both are tried, and what either finds is masked.
                let little = at.stride == 2 && bytes.get(at.start + 2 * length - 1) == Some(&0);
                let big = at.stride == 2 && at.start > 0 && bytes[at.start - 1] == 0;
                let readings =
                    [(at.stride == 1, Encoding::Bytes), (little, Encoding::Little), (big, Encoding::Big)];
                for (_, encoding) in readings.into_iter().filter(|(is, _)| *is) {
                    for Asked { rule, offset, length, outline } in rules {
                        let start = at.start + offset * at.stride;
                        let may_be = outline.as_ref().is_none_or(|outline| outline.fits(bytes, start));
                        if encoding == Encoding::Bytes && !may_be {
                            continue;
                        }
                        let push = |range: Range<usize>| {
                            found.push(Found { start: range.start, end: range.end, rule: *rule, encoding });
                        };
                        self.detectors[*rule].find(windows, start, *length, encoding, &self.lists, push);
                    }
                }
            }
        }
    }
}

/// Masks a copy of `memory` as a dump would, in blocks of `block` bytes each with what is around it, and counts what was
/// masked by rule. The copy is dropped: this is for measuring.
#[must_use]
pub fn mask_in_blocks(scanner: &MemoryScanner, memory: &[u8], block: usize) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let mut room = Vec::new();
    for start in (0..memory.len()).step_by(block.max(1)) {
        let end = memory.len().min(start.saturating_add(block));
        let from = start.saturating_sub(OVERLAP);
        room.clear();
        room.extend_from_slice(&memory[from..memory.len().min(end.saturating_add(OVERLAP))]);
        scanner.mask(&mut room, start - from..end - from, |rule, _| {
            *counts.entry(scanner.rules()[rule].clone()).or_default() += 1;
        });
    }
    counts
}

impl AnchorSet {
    fn new(anchors: Vec<Anchor>) -> Self {
        let texts: Vec<Text<'_>> = anchors.iter().map(Anchor::text).collect();
        Self { filter: Filter::new(&texts), anchors }
    }
}

impl Anchor {
    fn text(&self) -> Text<'_> {
        let run = |asked: &Asked| {
            let of_outline = asked.outline.as_ref().filter(|_| asked.offset == 0);
            of_outline.map_or(0, |outline| outline.length_of(gram::in_run))
        };
        let run = match &self.meaning {
            Meaning::Rules(rules) => rules.iter().map(run).min().unwrap_or(0),
            Meaning::Literal { .. } => 0,
        };
        Text { bytes: &self.bytes, exact: self.exact, run }
    }

    fn is_at(&self, bytes: &[u8], at: Candidate) -> bool {
        let span = (self.bytes.len() - 1) * at.stride + 1;
        let Some(there) = bytes.get(at.start..at.start + span) else { return false };
        let characters = there.iter().step_by(at.stride);
        let same = |(one, other): (&u8, &u8)| {
            if self.exact { one == other } else { one.to_ascii_lowercase() == *other }
        };
        characters.zip(self.bytes.iter()).all(same)
            && (at.stride == 1 || there.iter().skip(1).step_by(2).all(|half| *half == 0))
    }
}

/// Overwrites the characters of a secret that are in `inner`, except for line ends and tabs.
fn overwrite(bytes: &mut [u8], found: &Found, inner: &Range<usize>) {
    // Where the character and the other half of a unit are.
    let (step, character, half) = match found.encoding {
        Encoding::Bytes => (1, 0, None),
        Encoding::Little => (2, 0, Some(1)),
        Encoding::Big => (2, 1, Some(0)),
    };
    for unit in (found.start..found.end).step_by(step) {
        let at = |offset: usize| Some(unit + offset).filter(|at| *at < found.end);
        let high = half.and_then(at).map_or(0, |at| bytes[at]);
        let is_space = at(character).is_some_and(|at| matches!(bytes[at], b'\n' | b'\r' | b'\t'));
        if is_space && high == 0 {
            continue;
        }
        for (place, byte) in [(at(character), MASK), (half.and_then(at), 0)] {
            if let Some(place) = place.filter(|place| inner.contains(place)) {
                bytes[place] = byte;
            }
        }
    }
}

impl std::fmt::Debug for Anchor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A literal is a secret.
        f.debug_struct("Anchor").field("length", &self.bytes.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
