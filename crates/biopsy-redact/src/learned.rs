//! Values found by key are remembered and searched for everywhere else, in every form they may have taken.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, MatchKind};
use zeroize::Zeroizing;

use crate::forms;
use crate::plausible::{self, Lists};
use crate::pseudonym::{BundleKey, MASK_START, Pseudonym};
use crate::scan::Span;
use crate::verify::Fingerprints;

/// Shortest value that is learned, in bytes: shorter ones would turn up by chance.
pub(crate) const LEARN_MIN: usize = 6;
/// Longest value that is learned, in bytes.
const LEARN_MAX: usize = 16 << 10;
/// Most values learned from running text. Logs hold as many session tokens as requests; those are masked by their
/// rules where they stand, and only configuration and environment (which have no such limit) teach for certain.
const FROM_TEXT_MAX: usize = 512;
/// Most values in all.
const VALUES_MAX: usize = 8192;
/// How far a base64 run is followed on each side of a learned value inside it, in bytes.
const BASE64_REACH: usize = 4096;

/// The store. Shared by all recorders.
pub(crate) struct Learned {
    store: Mutex<Store>,
    /// Counts up with each new value; what was written under an older number may hold the new value.
    generation: AtomicU64,
    search: RwLock<Arc<Search>>,
}

#[derive(Default)]
struct Store {
    values: Vec<Zeroizing<Vec<u8>>>,
    known: HashSet<[u8; 32]>,
    from_text: usize,
}

/// The automaton over all forms of all values of one generation.
struct Search {
    generation: u64,
    automaton: Option<AhoCorasick>,
    /// By pattern: pseudonym of its value, and whether it is a base64 form.
    forms: Vec<(Pseudonym, bool)>,
}

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// Environment, command line, configuration: the caller says that it is a secret.
    Told,
    /// A key rule met it in running text.
    Text,
}

impl Learned {
    /// Nothing learned.
    pub(crate) fn new() -> Self {
        Self {
            store: Mutex::default(),
            generation: AtomicU64::new(0),
            search: RwLock::new(Arc::new(Search { generation: 0, automaton: None, forms: Vec::new() })),
        }
    }

    /// Remembers `value` unless it is too short or too common. Returns whether it is now searched for.
    pub(crate) fn learn(&self, value: &[u8], source: Source, key: &BundleKey, lists: &Lists) -> bool {
        let mut any = false;
        if memchr::memchr2(b'\n', b'\r', value).is_some() {
            // A key file in a variable: its lines are what turns up elsewhere.
            for line in value.split(|b| matches!(b, b'\n' | b'\r')).map(<[u8]>::trim_ascii) {
                if line.len() >= 24 && !line.starts_with(b"-----") {
                    any |= self.learn_one(line, source, key, lists);
                }
            }
            return any;
        }
        self.learn_one(value.trim_ascii(), source, key, lists)
    }

    fn learn_one(&self, value: &[u8], source: Source, key: &BundleKey, lists: &Lists) -> bool {
        if !is_worth_learning(value, source, lists) {
            return false;
        }
        let fingerprint = key.mac(value);
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        if store.known.contains(&fingerprint) {
            return true;
        }
        let full =
            store.values.len() >= VALUES_MAX || (source == Source::Text && store.from_text >= FROM_TEXT_MAX);
        if full {
            return false;
        }
        store.from_text += usize::from(source == Source::Text);
        store.known.insert(fingerprint);
        store.values.push(Zeroizing::new(value.to_vec()));
        self.generation.fetch_add(1, Ordering::Release);
        true
    }

    /// How many values have been learned.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Appends every learned value in `text`, in any form.
    pub(crate) fn find(&self, text: &[u8], key: &BundleKey, spans: &mut Vec<Span>) {
        if self.generation() == 0 {
            return;
        }
        let search = self.current(key);
        let Some(automaton) = &search.automaton else { return };
        for hit in automaton.find_iter(text) {
            let (pseudonym, base64) = search.forms[hit.pattern().as_usize()];
            let range = if base64 { base64_run(text, hit.range()) } else { hit.range() };
            spans.push(Span {
                range,
                rule: None,
                pseudonym: Some(pseudonym),
                open: false,
                learn: false,
                wide: None,
                wrap: None,
            });
        }
    }

    /// The automaton of the newest generation, built when it is first asked for.
    fn current(&self, key: &BundleKey) -> Arc<Search> {
        let wanted = self.generation();
        {
            let search = self.search.read().unwrap_or_else(PoisonError::into_inner);
            if search.generation >= wanted {
                return Arc::clone(&search);
            }
        }
        let mut search = self.search.write().unwrap_or_else(PoisonError::into_inner);
        if search.generation < wanted {
            let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
            // Read under the lock: what is in the store is what this number says.
            let generation = self.generation();
            *search = Arc::new(Search::build(&store.values, generation, key));
        }
        Arc::clone(&search)
    }

    /// Copies of all values, for the scanner of memory.
    pub(crate) fn values(&self) -> Vec<Zeroizing<Vec<u8>>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).values.clone()
    }

    /// What the verification pass needs to find the values again without knowing them.
    pub(crate) fn fingerprints(&self, key: &BundleKey) -> Fingerprints {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fingerprints = Fingerprints::new(key);
        for value in &store.values {
            fingerprints.add(value);
        }
        fingerprints
    }
}

impl Search {
    fn build(values: &[Zeroizing<Vec<u8>>], generation: u64, key: &BundleKey) -> Self {
        let mut patterns: Vec<Vec<u8>> = Vec::new();
        let mut forms = Vec::new();
        for value in values {
            let pseudonym = key.pseudonym(value);
            for form in forms::of(value) {
                patterns.push(form.bytes);
                forms.push((pseudonym, form.base64));
            }
        }
        // The forms are bounded in number and length, so this does not fail; if it did, the verification pass would
        // find the values.
        let automaton = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&patterns).ok();
        Self { generation, automaton, forms }
    }
}

/// Long enough, and not something that every log is full of.
pub(crate) fn is_worth_learning(value: &[u8], source: Source, lists: &Lists) -> bool {
    if value.len() < LEARN_MIN || value.len() > LEARN_MAX {
        return false;
    }
    if plausible::is_placeholder(value, lists)
        || lists.is_never_learned(value)
        || plausible::is_uuid(value) && source == Source::Text
    {
        return false;
    }
    // Nor what our own masks are made of.
    if memchr::memmem::find(value, b"redacted").is_some()
        || memchr::memmem::find(MASK_START.as_bytes(), value).is_some()
    {
        return false;
    }
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    // Numbers turn up as times and counts.
    if digits == value.len() && value.len() < 16 {
        return false;
    }
    // Words and names: masking `postgres` or `my-service` everywhere would ruin the recording and protect nobody.
    let wordlike = value.iter().all(|b| b.is_ascii_alphabetic() || matches!(b, b'-' | b'_' | b'.' | b' '));
    let mixed = value.iter().skip(1).any(u8::is_ascii_uppercase) && value.iter().any(u8::is_ascii_lowercase);
    if wordlike && !(mixed && value.len() >= 10) && value.len() < 16 {
        return false;
    }
    // Paths and addresses name a place where the secret may be, or hold it as a part that a rule masks.
    let is_path = (value[0] == b'/' || value.starts_with(b"./") || value.get(1..3) == Some(b":\\"))
        && value.iter().filter(|b| matches!(b, b'/' | b'\\')).count() >= 2
        && value.iter().all(|b| {
            b.is_ascii_alphanumeric() || matches!(b, b'/' | b'\\' | b'.' | b'-' | b'_' | b':' | b' ')
        });
    if is_path || memchr::memmem::find(value, b"://").is_some() {
        return false;
    }
    source == Source::Told || (digits > 0 && value.len() >= 8) || value.len() >= 16 || !wordlike
}

/// The base64 run around a hit: the characters next to it carry bits of the value too.
fn base64_run(text: &[u8], hit: Range<usize>) -> Range<usize> {
    let belongs = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'-' | b'_' | b'=');
    let before = text[..hit.start].iter().rev().take(BASE64_REACH).take_while(belongs).count();
    let after = text[hit.end..].iter().take(BASE64_REACH).take_while(belongs).count();
    hit.start - before..hit.end + after
}
