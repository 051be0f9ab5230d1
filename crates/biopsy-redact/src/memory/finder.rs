//! Many known values in one pass: an automaton over their first bytes, in UTF-8 and UTF-16.
//!
//! The filter of the scanner is for a few dozen anchors; planning it takes time that grows with the cube of their number,
//! and what it lets through grows too. A process may have thousands of secrets, so from a few on they are searched for here.

use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use zeroize::Zeroizing;

use super::Literals;
use super::literals::Pattern;
use super::window::Encoding;

/// Bytes of a value that are in the automaton, each once as a byte and once as a unit of UTF-16.
const HEAD: usize = 32;
/// Values with one head that are told apart. With more, the text behind the head is taken for theirs.
const CROWD: usize = 8;
/// Most of that text, in characters.
const CROWD_TEXT: usize = 4 << 10;

/// Finds known values in bytes of any kind.
pub struct LiteralFinder {
    automaton: Option<AhoCorasick>,
    /// By pattern of the automaton: what it is the head of.
    owners: Vec<Vec<Owner>>,
    values: Vec<Zeroizing<Vec<u8>>>,
}

/// What a pattern of the automaton is the head of.
#[derive(Clone, Copy, Debug)]
struct Owner {
    value: usize,
    encoding: Encoding,
    /// From byte to byte of the value.
    step: usize,
}

/// A known value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) range: Range<usize>,
    pub(super) encoding: Encoding,
    /// All of it is there, and not its beginning only.
    pub(super) whole: bool,
}

impl LiteralFinder {
    /// For all of these values, as they are.
    #[must_use]
    pub fn new(literals: &Literals) -> Self {
        Self::of(literals.plain())
    }

    pub(super) fn of(patterns: Vec<Pattern>) -> Self {
        let mut all: Vec<(Zeroizing<Vec<u8>>, Owner)> = Vec::new();
        for (at, pattern) in patterns.iter().enumerate() {
            let head = &pattern.bytes[..pattern.bytes.len().min(HEAD)];
            let owner = Owner { value: at, encoding: pattern.written, step: 1 };
            all.push((Zeroizing::new(head.to_vec()), owner));
            if pattern.wide {
                // Characters of ASCII stand where they stand in either order: without the last half.
                let mut wide: Vec<u8> = head.iter().flat_map(|byte| [*byte, 0]).collect();
                wide.pop();
                let owner = Owner { encoding: Encoding::Little, step: 2, ..owner };
                all.push((Zeroizing::new(wide), owner));
            }
        }
        all.sort_unstable_by(|(one, _), (other, _)| one.as_slice().cmp(other.as_slice()));
        let mut heads: Vec<&[u8]> = Vec::new();
        let mut owners: Vec<Vec<Owner>> = Vec::new();
        for (head, owner) in &all {
            if heads.last() != Some(&head.as_slice()) {
                heads.push(head);
                owners.push(Vec::new());
            }
            if let Some(of_head) = owners.last_mut().filter(|of_head| of_head.len() <= CROWD) {
                of_head.push(*owner);
            }
        }
        // The learner bounds number and length.
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&heads)
            .ok()
            .filter(|_| !heads.is_empty());
        Self { automaton, owners, values: patterns.into_iter().map(|pattern| pattern.bytes).collect() }
    }

    /// Calls `found` with each place. What is found at a place depends on nothing in front of it, so that bytes may be cut
    /// anywhere.
    pub(super) fn find(&self, bytes: &[u8], mut found: impl FnMut(Place)) {
        let Some(automaton) = &self.automaton else { return };
        for hit in automaton.find_overlapping_iter(bytes) {
            let owners = &self.owners[hit.pattern().as_usize()];
            if let Some(Owner { encoding, step, .. }) = owners.get(CROWD).copied() {
                let behind = &bytes[hit.end()..];
                let characters = behind.iter().skip(step - 1).step_by(step).take(CROWD_TEXT);
                let more = characters.take_while(|byte| !byte.is_ascii_control()).count() * step;
                found(Place { range: hit.start()..hit.end() + more, encoding, whole: true });
                continue;
            }
            for Owner { value, encoding, step } in owners.iter().copied() {
                let (range, whole) = follow(bytes, hit.range(), &self.values[value], step);
                found(Place { range, encoding, whole });
            }
        }
    }

    /// Calls `found` with each place, and whether it is in UTF-16, low byte first; those in the other order are left alone:
    /// with its high bytes one to the left, most of what is written in one order can be read in the other.
    pub(crate) fn ranges(&self, bytes: &[u8], mut found: impl FnMut(Range<usize>, bool)) {
        self.find(bytes, |place| match place.encoding {
            Encoding::Bytes => found(place.range, false),
            Encoding::Little => found(place.range, true),
            Encoding::Big => {}
        });
    }

    /// How many values stand in `bytes` whole and begin before `end`. Memory in which the answer is not 0 was not masked.
    #[must_use]
    pub fn count(&self, bytes: &[u8], end: usize) -> u64 {
        let mut count = 0;
        self.find(bytes, |place| count += u64::from(place.whole && place.range.start < end));
        count
    }
}

/// How far the value goes on behind its head.
fn follow(bytes: &[u8], head: Range<usize>, value: &[u8], step: usize) -> (Range<usize>, bool) {
    let done = value.len().min(HEAD);
    let behind = &bytes[head.end..];
    let same = |(at, wanted): &(usize, &u8)| {
        let at = at * step;
        behind.get(at + step - 1) == Some(wanted) && (step == 1 || behind.get(at) == Some(&0))
    };
    let more = value[done..].iter().enumerate().take_while(same).count();
    (head.start..head.end + more * step, done + more == value.len())
}

impl std::fmt::Debug for LiteralFinder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiteralFinder").field("values", &self.values.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finder(values: &[&str]) -> LiteralFinder {
        let mut literals = Literals::new();
        values.iter().for_each(|value| assert!(literals.add(value.as_bytes()).unwrap(), "{value}"));
        LiteralFinder::new(&literals)
    }

    fn wide(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn values_of_any_length_are_found_whole_in_bytes_and_in_utf16() {
        let long = format!("Kq7{}", "xY9_".repeat(400));
        let finder = finder(&[&long, "s3cr3t!", "pä55wörd"]);
        for value in [&long, "s3cr3t!", "pä55wörd"] {
            for bytes in [value.as_bytes().to_vec(), wide(value)] {
                let mut memory = vec![7; 100];
                memory.extend_from_slice(&bytes);
                memory.extend_from_slice(&[0; 50]);
                let mut places = Vec::new();
                finder.find(&memory, |place| places.push(place));
                let end = places.iter().map(|place| place.range.end).max().unwrap();
                // The last half of a unit is no character.
                assert!(places[0].range.start == 100 && end + 1 >= 100 + bytes.len(), "{places:?}");
                assert!(finder.count(&memory, memory.len()) >= 1 && finder.count(&memory, 100) == 0);
            }
        }
    }

    #[test]
    fn the_beginning_of_a_long_value_is_found_and_not_counted() {
        let long = format!("Kq7{}", "xY9_".repeat(400));
        let finder = finder(&[&long]);
        let mut places = Vec::new();
        finder.find(&long.as_bytes()[..1000], |place| places.push(place));
        assert!(places.iter().any(|place| place.range == (0..1000) && !place.whole), "{places:?}");
        assert_eq!(finder.count(&long.as_bytes()[..1000], 1000), 0);
    }
}
