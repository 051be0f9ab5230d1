//! Values found by key are remembered and searched for everywhere else, in every form they may have taken.

mod search;
mod spelled;
mod worth;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use zeroize::Zeroizing;

use self::search::{Entry, LEARN_MAX, Search};
pub(crate) use self::worth::{LEARN_MIN, Source, Worth, worth};
use crate::plausible::Lists;
use crate::pseudonym::BundleKey;
use crate::scan::Span;
use crate::verify::Fingerprints;

/// Most values learned from running text. Logs hold as many session tokens as requests, which get half of it (`many`) and are masked
/// by their rules where they stand; only configuration and environment, which have no such limit, teach for certain.
const FROM_TEXT_MAX: usize = 512;
/// Most values in all.
const VALUES_MAX: usize = 8192;
/// Most bytes of all values.
const BYTES_MAX: usize = 4 << 20;
/// Most bytes of what is searched for. Beyond it a value is searched for as it is, and not in its other forms: some 40 MB of
/// automata.
const SEARCHED_MAX: usize = 1 << 20;
/// Most bytes built into automata over time, some seconds of work. What comes later is not learned.
const BUILT_MAX: usize = 96 << 20;
/// Values that were not learned, counted each once up to here.
const REFUSED_MAX: usize = 1 << 16;
/// How often a value that may be a word of the text stands there without a name before it is taken for one: in the text that
/// taught it ...
const BARE_AT_ONCE: usize = 3;
/// ... and in all that is gone over later.
const BARE_MAX: u32 = 24;

/// How far learning got: what is beyond its budget is masked where its key stands, and not searched for elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Learning {
    /// Values that are searched for. One of more than 4 KiB counts once for each piece.
    pub values: usize,
    /// Of them those that are searched for as they are only, not in base64, escaped or as hex.
    pub plain_only: usize,
    /// Secrets by their key that are not searched for: there were too many, or they were too long.
    pub refused: usize,
}

/// The store. Shared by all recorders.
pub(crate) struct Learned {
    store: Mutex<Store>,
    /// Counts up with each new value; what was written under an older number may hold the new value.
    generation: AtomicU64,
    current: RwLock<Arc<Current>>,
}

#[derive(Default)]
struct Store {
    entries: Vec<Arc<Entry>>,
    known: HashSet<[u8; 32]>,
    refused: HashSet<[u8; 32]>,
    /// Words of the text around them.
    words: HashSet<[u8; 32]>,
    from_text: usize,
    plain_only: usize,
    bytes: usize,
    searched: usize,
    built: usize,
}

/// What is searched for in one generation.
struct Current {
    entries: Vec<Arc<Entry>>,
    search: Search,
}

impl Learned {
    /// Whether half of what text may teach has been learned.
    pub(crate) fn is_half_full(&self) -> bool {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).from_text >= FROM_TEXT_MAX / 2
    }

    /// Nothing learned.
    pub(crate) fn new() -> Self {
        Self {
            store: Mutex::default(),
            generation: AtomicU64::new(0),
            current: RwLock::new(Arc::new(Current { entries: Vec::new(), search: Search::none() })),
        }
    }

    /// Remembers `value` unless it is too short or too common. Returns whether it is now searched for.
    pub(crate) fn learn(&self, value: &[u8], source: Source, key: &BundleKey, lists: &Lists) -> bool {
        self.learn_beside(value, source, key, lists, &mut |_| 0)
    }

    /// The same; `bare` says how often a value stands without a name in the text that it comes from.
    pub(crate) fn learn_beside(
        &self,
        value: &[u8],
        source: Source,
        key: &BundleKey,
        lists: &Lists,
        bare: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        let mut any = false;
        if memchr::memchr2(b'\n', b'\r', value).is_some() {
            // A key file in a variable: its lines are what turns up elsewhere.
            for line in value.split(|b| matches!(b, b'\n' | b'\r')).map(<[u8]>::trim_ascii) {
                if line.len() >= 24 && !line.starts_with(b"-----") {
                    any |= self.learn_pieces(line, source, key, lists, bare);
                }
            }
            return any;
        }
        self.learn_pieces(value.trim_ascii(), source, key, lists, bare)
    }

    /// A long value in pieces of about the same length: all of them must be worth it.
    fn learn_pieces(
        &self,
        mut value: &[u8],
        source: Source,
        key: &BundleKey,
        lists: &Lists,
        bare: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        if value.len() > BYTES_MAX {
            self.refuse(key.mac(value));
            return false;
        }
        let worth = worth(value, source, lists);
        if worth == Worth::None || (worth == Worth::Likely && !self.is_no_word(value, key, bare)) {
            return false;
        }
        let mut all = true;
        while !value.is_empty() {
            let pieces = value.len().div_ceil(LEARN_MAX);
            let length = search::whole_characters(value, value.len().div_ceil(pieces)).max(1);
            let (piece, rest) = value.split_at(length);
            all &= self.learn_one(piece, source, worth, key);
            value = rest;
        }
        all
    }

    fn learn_one(&self, value: &[u8], source: Source, worth: Worth, key: &BundleKey) -> bool {
        let fingerprint = key.mac(value);
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        if store.known.contains(&fingerprint) {
            return true;
        }
        let full = store.entries.len() >= VALUES_MAX
            || store.bytes.saturating_add(value.len()) > BYTES_MAX
            || store.built > BUILT_MAX
            || (source == Source::Text && store.from_text >= FROM_TEXT_MAX);
        if full {
            drop(store);
            self.refuse(fingerprint);
            return false;
        }
        let mut entry = Entry::new(value, key.pseudonym(value), worth);
        if store.searched.saturating_add(entry.bytes()) > SEARCHED_MAX {
            entry.forms.truncate(1);
            store.plain_only += 1;
        }
        store.from_text += usize::from(source == Source::Text);
        store.bytes += value.len();
        store.searched += entry.bytes();
        store.known.insert(fingerprint);
        store.entries.push(Arc::new(entry));
        self.generation.fetch_add(1, Ordering::Release);
        true
    }

    /// Whether a value that may be a word is known already, or stands in its text hardly ever without a name.
    fn is_no_word(&self, value: &[u8], key: &BundleKey, bare: &mut dyn FnMut(&[u8]) -> usize) -> bool {
        let fingerprint = key.mac(value);
        {
            let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
            if store.known.contains(&fingerprint) || store.from_text >= FROM_TEXT_MAX {
                return true;
            }
            if store.words.contains(&fingerprint) {
                return false;
            }
        }
        let is_word = bare(value) >= BARE_AT_ONCE;
        if is_word {
            let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
            if store.words.len() < REFUSED_MAX {
                store.words.insert(fingerprint);
            }
        }
        !is_word
    }

    fn refuse(&self, fingerprint: [u8; 32]) {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        if store.refused.len() < REFUSED_MAX {
            store.refused.insert(fingerprint);
        }
    }

    /// How many values have been learned.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// How far learning got.
    pub(crate) fn learning(&self) -> Learning {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        Learning { values: store.entries.len(), plain_only: store.plain_only, refused: store.refused.len() }
    }

    /// Appends every learned value in `text`, in any form. `alone`: without the base64 around one in it.
    pub(crate) fn find(&self, text: &[u8], alone: bool, spans: &mut Vec<Span>) {
        if self.generation() == 0 {
            return;
        }
        let current = self.current();
        let by_rules = spans.len();
        current.search.find(&current.entries, text, alone, &mut |hit| {
            if let Some(entry) = hit.entry.and_then(|entry| current.entries.get(entry)) {
                let has_name = || {
                    let mut rules = spans[..by_rules].iter().map(|span| &span.range);
                    rules.any(|range| range.start < hit.range.end && hit.range.start < range.end)
                };
                if entry.is_word(BARE_MAX, has_name) {
                    return;
                }
            }
            spans.push(Span {
                range: hit.range,
                rule: None,
                pseudonym: hit.pseudonym,
                open: false,
                learn: false,
                wide: None,
                wrap: None,
            });
        });
    }

    /// The automata of the newest generation, built when they are first asked for.
    fn current(&self) -> Arc<Current> {
        let wanted = self.generation();
        {
            let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
            if current.search.generation >= wanted {
                return Arc::clone(&current);
            }
        }
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.search.generation < wanted {
            let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
            // Read under the lock: what is in the store is what this number says.
            let generation = self.generation();
            let (search, built) = current.search.grown(&store.entries, generation);
            store.built = store.built.saturating_add(built);
            *current = Arc::new(Current { entries: store.entries.clone(), search });
        }
        Arc::clone(&current)
    }

    /// Copies of all values, for the scanner of memory.
    pub(crate) fn values(&self) -> Vec<Zeroizing<Vec<u8>>> {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let values = store.entries.iter().filter(|entry| !entry.is_given_up(BARE_MAX));
        values.map(|entry| entry.value.clone()).collect()
    }

    /// What the verification pass needs to find the values again without knowing them.
    pub(crate) fn fingerprints(&self, key: &BundleKey) -> Fingerprints {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fingerprints = Fingerprints::new(key);
        for entry in store.entries.iter().filter(|entry| !entry.is_given_up(BARE_MAX)) {
            fingerprints.add(&entry.value);
        }
        fingerprints
    }
}
