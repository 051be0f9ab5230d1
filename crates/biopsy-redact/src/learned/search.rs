//! The search for all learned values: automata over the first bytes of their forms.
//!
//! Values come one after the other, and text is to be searched in between. Building one automaton anew for each would
//! take time that grows with the square of their number. So there are several, each at least [`GROWTH`] times as large
//! as the next: a new value joins the last ones only, and each value is built in a few times in all.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use zeroize::Zeroizing;

use super::spelled::spelled;
use super::worth::Worth;
use crate::forms::{self, FormKind};
use crate::pseudonym::Pseudonym;

/// Longest piece that a value is learned in, in bytes. Escaped in every way it is below the look-ahead of streams.
pub(super) const LEARN_MAX: usize = 4 << 10;
/// How many times larger an automaton is than the one behind it.
const GROWTH: usize = 8;
/// Longest part of a form that is in an automaton, in bytes, of values that are longer than this: beyond chance.
pub(crate) const HEAD: usize = 64;
/// How far a base64 run is followed on each side of a learned value inside it, in bytes.
const BASE64_REACH: usize = 4096;
/// Values with one head that are told apart. With more, whatever stands behind the head is taken for theirs: to try
/// hundreds at each place is what somebody would want who wants to keep us busy.
const CROWD: usize = 8;

/// A value, ready to be searched for.
pub(super) struct Entry {
    pub(super) value: Zeroizing<Vec<u8>>,
    pub(super) pseudonym: Pseudonym,
    /// Its forms, or their first bytes.
    pub(super) forms: Vec<Form>,
    /// It may be a word of the text, and stood there so often without a name.
    bare: Option<AtomicU32>,
}

pub(super) struct Form {
    pub(super) head: Zeroizing<Vec<u8>>,
    pub(super) kind: FormKind,
}

impl Entry {
    /// With all forms.
    pub(super) fn new(value: &[u8], pseudonym: Pseudonym, worth: Worth) -> Self {
        let head = if value.len() > HEAD { &value[..whole_characters(value, HEAD)] } else { value };
        let forms = forms::of(head).into_iter().map(|form| {
            let mut head = form.bytes;
            if value.len() > HEAD {
                head.truncate(HEAD);
            }
            Form { head: Zeroizing::new(head), kind: form.kind }
        });
        let bare = (worth == Worth::Likely).then(AtomicU32::default);
        Self { value: Zeroizing::new(value.to_vec()), pseudonym, forms: forms.collect(), bare }
    }

    /// Counts one more place without a name, and says whether it is a word of the text by now.
    pub(super) fn is_word(&self, most: u32, has_name: impl Fn() -> bool) -> bool {
        let Some(bare) = &self.bare else { return false };
        if bare.load(Ordering::Relaxed) >= most {
            return true;
        }
        if !has_name() {
            bare.fetch_add(1, Ordering::Relaxed);
        }
        false
    }

    /// Whether it was found to be a word of the text.
    pub(super) fn is_given_up(&self, most: u32) -> bool {
        self.bare.as_ref().is_some_and(|bare| bare.load(Ordering::Relaxed) >= most)
    }

    /// Bytes in the automaton.
    pub(super) fn bytes(&self) -> usize {
        self.forms.iter().map(|form| form.head.len()).sum()
    }

    fn is_long(&self) -> bool {
        self.value.len() > HEAD
    }
}

/// At most `most` bytes, and no half characters.
pub(super) fn whole_characters(value: &[u8], most: usize) -> usize {
    let continues = |at: usize| value.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let back = (0..4.min(most)).find(|back| !continues(most - back));
    most.min(value.len()) - back.filter(|_| most < value.len()).unwrap_or(0)
}

/// A learned value in a text.
pub(super) struct Hit {
    pub(super) range: Range<usize>,
    /// Which one, where it can be told.
    pub(super) entry: Option<usize>,
    /// Known where the value stands there whole.
    pub(super) pseudonym: Option<Pseudonym>,
}

/// All automata of one generation.
pub(super) struct Search {
    pub(super) generation: u64,
    levels: Vec<Arc<Level>>,
}

struct Level {
    /// Places of its values in the store.
    range: Range<usize>,
    automaton: AhoCorasick,
    /// By pattern: whose head it is.
    owners: Vec<Vec<Owner>>,
}

#[derive(Clone, Copy)]
struct Owner {
    entry: usize,
    kind: FormKind,
}

impl Search {
    pub(super) fn none() -> Self {
        Self { generation: 0, levels: Vec::new() }
    }

    /// With what was learned since. Also says how many bytes of patterns were built in.
    pub(super) fn grown(&self, entries: &[Arc<Entry>], generation: u64) -> (Self, usize) {
        let mut levels = self.levels.clone();
        let mut from = levels.last().map_or(0, |level| level.range.end);
        while let Some(last) = levels.last()
            && last.range.len() < GROWTH * (entries.len() - from)
        {
            from = last.range.start;
            levels.pop();
        }
        let mut built = 0;
        if from < entries.len() {
            built = entries[from..].iter().map(|entry| entry.bytes()).sum();
            levels.extend(Level::build(entries, from).map(Arc::new));
        }
        (Self { generation, levels }, built)
    }

    /// Calls `found` with every learned value in `text`, in any form. `alone`: only the bytes that are the value's own, not
    /// the base64 around it.
    pub(super) fn find(&self, entries: &[Arc<Entry>], text: &[u8], alone: bool, found: &mut impl FnMut(Hit)) {
        for level in &self.levels {
            let mut end = 0;
            for hit in level.automaton.find_iter(text) {
                if hit.end() <= end {
                    continue;
                }
                let owners = &level.owners[hit.pattern().as_usize()];
                let one = if owners.len() > CROWD {
                    Hit {
                        range: hit.start()..hit.end() + rest_of_text(&text[hit.end()..]),
                        entry: None,
                        pseudonym: None,
                    }
                } else {
                    longest(entries, owners, text, hit.range(), alone)
                };
                end = end.max(one.range.end);
                found(one);
            }
        }
    }
}

impl Level {
    /// Over all from one place on. `None` when the automaton cannot be built, which bounds on number and length rule
    /// out; the verification pass would find the values.
    fn build(entries: &[Arc<Entry>], from: usize) -> Option<Self> {
        let mut patterns: Vec<&[u8]> = Vec::new();
        let mut owners: Vec<Vec<Owner>> = Vec::new();
        let mut known: HashMap<&[u8], usize> = HashMap::new();
        for (at, entry) in entries.iter().enumerate().skip(from) {
            for form in &entry.forms {
                let owner = Owner { entry: at, kind: form.kind };
                let pattern = *known.entry(form.head.as_slice()).or_insert_with(|| {
                    patterns.push(&form.head);
                    owners.push(Vec::new());
                    patterns.len() - 1
                });
                let of_head = &mut owners[pattern];
                let known = of_head.last().is_some_and(|last| last.entry == at && last.kind == form.kind);
                if !known && of_head.len() <= CROWD {
                    of_head.push(owner);
                }
            }
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&patterns)
            .ok()?;
        Some(Self { range: from..entries.len(), automaton, owners })
    }
}

/// What the head at `head` begins, of those that may begin so.
fn longest(entries: &[Arc<Entry>], owners: &[Owner], text: &[u8], head: Range<usize>, alone: bool) -> Hit {
    let mut best = Hit { range: head.clone(), entry: None, pseudonym: None };
    for owner in owners {
        let Some(entry) = entries.get(owner.entry) else { continue };
        let behind = &text[head.end..];
        let (range, whole) = match owner.kind {
            FormKind::Text if !entry.is_long() => (head.clone(), true),
            FormKind::Text => {
                let (length, whole) = spelled(&text[head.start..], &entry.value);
                (head.start..head.end.max(head.start + length), whole)
            }
            FormKind::Hex => {
                let rest = (2 * entry.value.len()).saturating_sub(head.len());
                let more = behind.iter().take(rest).take_while(|byte| byte.is_ascii_hexdigit()).count();
                (head.start..head.end + more, more == rest)
            }
            // Of UTF-16 it is twice as long.
            FormKind::Base64 => {
                let rest = (entry.value.len() * 8 / 3).saturating_sub(head.len());
                let (rest, reach) = if entry.is_long() { (rest, BASE64_REACH) } else { (0, BASE64_REACH) };
                (base64_run(text, &head, if alone { 0 } else { reach }, rest), true)
            }
        };
        if range.len() > best.range.len() || (range.len() == best.range.len() && best.pseudonym.is_none()) {
            best = Hit { range, entry: Some(owner.entry), pseudonym: whole.then_some(entry.pseudonym) };
        }
    }
    best
}

/// The base64 run around a hit: the characters next to it carry bits of the value too.
fn base64_run(text: &[u8], hit: &Range<usize>, reach: usize, rest: usize) -> Range<usize> {
    let belongs = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'-' | b'_' | b'=');
    let before = text[..hit.start].iter().rev().take(reach).take_while(belongs).count();
    let after = text[hit.end..].iter().take(reach + rest).take_while(belongs).count();
    hit.start - before..hit.end + after
}

/// Bytes of text up to the end of the line.
fn rest_of_text(behind: &[u8]) -> usize {
    const MOST: usize = 3 * LEARN_MAX;
    behind.iter().take(MOST).take_while(|byte| !byte.is_ascii_control()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pseudonym::BundleKey;

    fn entry(value: &[u8]) -> Arc<Entry> {
        Arc::new(Entry::new(value, BundleKey::from_bytes([1; 32]).pseudonym(value), Worth::Certain))
    }

    #[test]
    fn each_value_is_built_in_a_few_times_however_many_come_one_by_one() {
        let mut entries = Vec::new();
        let (mut search, mut all) = (Search::none(), 0);
        for number in 0..2000 {
            entries.push(entry(format!("Va1ue{number:06}").as_bytes()));
            let (grown, built) = search.grown(&entries, number + 1);
            all += built;
            search = grown;
        }
        let once: usize = entries.iter().map(|entry| entry.bytes()).sum();
        assert!(all < 30 * once, "{all} bytes built for {once}");
        assert!(search.levels.len() < 8, "{} automata", search.levels.len());
        let text = b"one Va1ue000000, one Va1ue001234, one Va1ue001999";
        let mut found = Vec::new();
        search.find(&entries, text, false, &mut |hit| found.push(hit.range));
        found.sort_by_key(|range| range.start);
        assert_eq!(found, [4..15, 21..32, 38..49]);
    }

    #[test]
    fn values_with_one_beginning_are_told_apart_by_what_follows() {
        let start = "s".repeat(HEAD);
        let entries =
            [entry(format!("{start}/one two").as_bytes()), entry(format!("{start}/one").as_bytes())];
        let (search, _) = Search::none().grown(&entries, 2);
        let text = format!("a {start}/one two b {start}%2fone c {start}/on");
        let mut found = Vec::new();
        search.find(&entries, text.as_bytes(), false, &mut |hit| found.push((hit.range, hit.pseudonym)));
        let lengths: Vec<usize> = found.iter().map(|(range, _)| range.len()).collect();
        assert_eq!(lengths, [HEAD + 8, HEAD + 7, HEAD + 3]);
        assert_eq!(found[0].1, Some(entries[0].pseudonym));
        assert_eq!(found[1].1, None, "`one` and a blank is as far as the longer one goes, and no longer");
    }

    #[test]
    fn a_crowd_with_one_beginning_takes_the_rest_of_the_line() {
        let start = "s".repeat(HEAD);
        let entries: Vec<_> = (0..20).map(|number| entry(format!("{start}{number}").as_bytes())).collect();
        let (search, _) = Search::none().grown(&entries, 20);
        let mut found = Vec::new();
        let text = format!("a {start}7 b\nc");
        search.find(&entries, text.as_bytes(), false, &mut |hit| found.push(hit.range));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0], 2..HEAD + 5);
    }
}
