//! The redactor: one per bundle, shared by all recorders.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use zeroize::Zeroizing;

use crate::encoded;
use crate::escapes;
use crate::extent::Extent;
use crate::json;
use crate::learned::{Learned, Learning, Source};
use crate::plausible;
use crate::pseudonym::{self, BundleKey, Pseudonym};
use crate::rules::Strength;
use crate::scan::{self, Engine, Span};
use crate::verify::Fingerprints;
use crate::{Hit, RedactError, markup, peeled, records, unquoted, wide, word_lists};

/// Rule id of values that were found by key somewhere and turned up elsewhere.
pub const LEARNED_RULE: &str = "learned";

/// How often what was unpacked is unpacked again.
const ENCODED_TWICE: usize = 1;

/// Shortest and longest value of the environment or of an argument that is searched for in memory though nobody says that it is a
/// secret, in bytes, and most of them.
const OF_PROCESS_MIN: usize = 8;
const OF_PROCESS_LONGEST: usize = 4096;
const OF_PROCESS_MAX: usize = 512;

/// Shortest run of a value that is learned as one of its own, in bytes, and most of them.
const PART_MIN: usize = 24;
const PARTS_MAX: usize = 4;
/// Places of a value that are counted: enough to say that it is a word.
const BARE_COUNTED: usize = 8;
/// Places that are looked at for that.
const BARE_TRIED: usize = 256;

/// How often a text is gone over until nothing changes. Each round leaves less that is not masked.
const ROUNDS_MAX: usize = 8;

/// What a redactor is made from.
#[derive(Clone, Debug)]
pub struct Options {
    /// Key of the bundle; `None`: a fresh random one, which is what a recording wants.
    pub key: Option<BundleKey>,
    /// Also mask personal data: addresses, names of users and machines, numbers of telephones, accounts and cards. Off by
    /// default: they are often what a support case is about.
    pub personal: bool,
    /// Further rule packs, as TOML.
    pub extra_packs: Vec<String>,
    /// Further environment variables whose values are shown; `*` at the end stands for any rest.
    pub allow_env: Vec<String>,
    /// Learn the values that key rules find in running text.
    pub learn_from_text: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            key: None,
            personal: false,
            extra_packs: Vec::new(),
            allow_env: Vec::new(),
            learn_from_text: true,
        }
    }
}

/// A text without its secrets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redacted<'t> {
    /// The text; borrowed when there was nothing to mask.
    pub text: Cow<'t, str>,
    /// Which rules fired.
    pub hits: Vec<Hit>,
}

/// Bytes without their secrets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedactedBytes<'t> {
    /// The bytes, in the encoding they came in; borrowed when there was nothing to mask.
    pub bytes: Cow<'t, [u8]>,
    /// Which rules fired.
    pub hits: Vec<Hit>,
}

/// Finds and masks secrets. Safe to share between threads.
pub struct Redactor {
    key: BundleKey,
    engine: Arc<Engine>,
    learned: Learned,
    /// Values of the environment and of arguments that may be secrets: searched for in memory alone, where a mask hurts nobody.
    of_process: Mutex<Vec<Zeroizing<Vec<u8>>>>,
    pub(crate) allow_env: Vec<String>,
    learn_from_text: bool,
}

impl Redactor {
    /// A redactor with the built-in packs.
    ///
    /// # Errors
    /// When there are no random bytes for the key, or a pack of `options` is wrong.
    pub fn new(options: Options) -> Result<Self, RedactError> {
        let engine = Arc::new(Engine::new(options.personal, &options.extra_packs)?);
        let key = match options.key {
            Some(key) => key,
            None => BundleKey::random()?,
        };
        let mut allow_env = engine.lists().words().environment.clone();
        allow_env.extend(options.allow_env);
        Ok(Self {
            key,
            engine,
            learned: Learned::new(),
            of_process: Mutex::default(),
            allow_env,
            learn_from_text: options.learn_from_text,
        })
    }

    /// A redactor for another bundle, with the same rules, which are not compiled again, and nothing learned.
    #[must_use]
    pub fn for_bundle(&self, key: BundleKey) -> Self {
        Self {
            key,
            engine: Arc::clone(&self.engine),
            learned: Learned::new(),
            of_process: Mutex::default(),
            allow_env: self.allow_env.clone(),
            learn_from_text: self.learn_from_text,
        }
    }

    /// Masks every secret in `text`. What key rules find is learned, and learned values are masked wherever they stand.
    #[must_use]
    pub fn text<'t>(&self, text: &'t str) -> Redacted<'t> {
        let (bytes, hits) = self.plain(text.as_bytes(), Extent::Whole);
        let text = match bytes {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // Spans are widened to whole characters, so the bytes are UTF-8; should that ever fail, the lossy text is
            // the safe one.
            Cow::Owned(bytes) => Cow::Owned(
                String::from_utf8(bytes)
                    .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
            ),
        };
        Redacted { text, hits }
    }

    /// The same for bytes of unknown encoding: UTF-8, UTF-16 of either order with or without byte order mark, UTF-16
    /// islands in other text, and any encoding that keeps ASCII where it is.
    #[must_use]
    pub fn bytes<'t>(&self, bytes: &'t [u8]) -> RedactedBytes<'t> {
        let (bytes, hits) = self.any_encoding(bytes);
        RedactedBytes { bytes, hits }
    }

    /// Remembers a value that was found by its key, so that it is masked wherever else it stands. Short and common
    /// values are refused: `false`.
    pub fn learn(&self, value: &str, _key: &str) -> bool {
        self.learn_told(value.as_bytes())
    }

    /// Rises when something is learned. Text that was redacted under a lower number may hold the new value: pass it
    /// through again (redacting is idempotent) before the recording is sealed.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.learned.generation()
    }

    /// How far learning got, and whether its budget was used up.
    #[must_use]
    pub fn learning(&self) -> Learning {
        self.learned.learning()
    }

    /// Fingerprints of all learned values, for [`crate::verify::verify`].
    #[must_use]
    pub fn fingerprints(&self) -> Fingerprints {
        self.learned.fingerprints(&self.key).allowing(self.engine.allowed())
    }

    /// A mask for a value that the caller knows to be one: `pseudonym("host", name)` gives `[redacted:host:1a2b3c4d]`.
    /// Characters that do not fit a rule id are left out of `rule`.
    #[must_use]
    pub fn pseudonym(&self, rule: &str, value: &str) -> String {
        let id: String = rule
            .to_ascii_lowercase()
            .chars()
            .filter(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-')
            .take(pseudonym::RULE_ID_MAX)
            .collect();
        let id = if id.is_empty() { "value" } else { &id };
        pseudonym::mask(id, self.pseudonym_of(value.as_bytes()))
    }

    /// Ids and descriptions of the rules in force.
    pub fn rules(&self) -> impl Iterator<Item = (&str, &str)> {
        self.engine.rules().iter().map(|rule| (rule.id.as_str(), rule.description.as_str()))
    }

    pub(crate) fn pseudonym_of(&self, value: &[u8]) -> Pseudonym {
        self.key.pseudonym(value)
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Everything to be masked in `text`, which is in an encoding that keeps ASCII where it is, and may have stretches
    /// of UTF-16 in it.
    ///
    /// Only what starts at `new` or behind it is learned: in front of it is context that may begin in the middle of a
    /// name, where `PublicKeyToken=...` can look like `Token=...`.
    pub(crate) fn spans(&self, text: &[u8], new: usize, extent: Extent) -> Vec<Span> {
        let mut masks = pseudonym::masks_in(text);
        let mut spans = Vec::new();
        self.find(text, &masks, new, extent, &mut spans);
        let plain = spans.len();
        for (island, order) in wide::islands(text) {
            let folded = wide::fold(&text[island.clone()], order).text;
            let place = |range: Range<usize>| island.start + range.start * 2..island.start + range.end * 2;
            let inner_masks = pseudonym::masks_in(&folded);
            let from = spans.len();
            let new = new.saturating_sub(island.start).div_ceil(2);
            let inner_extent = if island.end == text.len() { extent } else { Extent::Part };
            self.find(&folded, &inner_masks, new, inner_extent, &mut spans);
            for span in &mut spans[from..] {
                span.pseudonym =
                    Some(span.pseudonym.unwrap_or_else(|| self.key.pseudonym(&folded[span.range.clone()])));
                span.range = place(span.range.clone());
                span.open &= island.end == text.len();
                span.wide = Some(order);
            }
            masks.extend(inner_masks.into_iter().map(place));
        }
        if spans.len() > plain {
            masks.sort_by_key(|mask| mask.start);
        }
        if spans.is_empty() {
            return spans;
        }
        let spans = json::within_strings(text, scan::tidy(text, &masks, spans));
        records::within_cells(text, markup::between_tags(text, spans))
    }

    /// What rules and learned values say about a text without UTF-16.
    fn find(&self, text: &[u8], masks: &[Range<usize>], new: usize, extent: Extent, spans: &mut Vec<Span>) {
        let from = spans.len();
        self.engine.find(text, masks, spans);
        let mut undone = escapes::unescaped(text);
        let twice: Vec<_> = undone.iter().filter_map(escapes::Unescaped::again).collect();
        let thrice: Vec<_> = twice.iter().filter_map(escapes::Unescaped::again).collect();
        undone.extend(twice);
        undone.extend(thrice);
        let forms: Vec<_> = undone.iter().filter_map(|undone| undone.with_blanks(text)).collect();
        undone.extend(forms);
        let strings: Vec<_> = undone
            .iter()
            .flat_map(|undone| unquoted::unquoted(&undone.text).into_iter().map(|inner| undone.behind(inner)))
            .collect();
        undone.extend(strings);
        let find =
            |text: &[u8], spans: &mut Vec<Span>| self.engine.find(text, &pseudonym::masks_in(text), spans);
        find_escaped(text, &undone, spans, find);
        let unquoted = unquoted::unquoted(text);
        let before = spans.len();
        find_escaped(text, &unquoted, spans, find);
        inside_strings(text, spans, before);
        find_in_lines(text, &peeled::peeled(text), spans, find);
        find_in_words(text, &word_lists::commands(text), spans, find);
        if self.learn_from_text {
            // What overlaps a mask holds pieces of it, and those are no secrets.
            let ours = |range: &Range<usize>| {
                let next = masks.partition_point(|mask| mask.end <= range.start);
                masks.get(next).is_some_and(|mask| mask.start < range.end)
            };
            let is_known_whole = |span: &Span| !span.open || extent.ends(text, &span.range);
            let new = |span: &&Span| {
                span.learn && span.range.start >= new && is_known_whole(span) && !ours(&span.range)
            };
            let bare = |value: &[u8]| bare_places(text, value, &spans[from..]);
            for span in spans[from..].iter().filter(new) {
                let is_many = span.rule.is_some_and(|rule| self.engine.rules()[rule].many);
                if is_many && self.learned.is_half_full() {
                    continue;
                }
                let value = crate::plausible::trim_end_punctuation(&text[span.range.clone()]);
                let lists = self.engine.lists();
                self.learned.learn_beside(value, Source::Text, &self.key, lists, &mut { bare });
                for token in parts(value) {
                    self.learned.learn_beside(token, Source::Text, &self.key, lists, &mut { bare });
                }
            }
        }
        self.learned.find(text, false, spans);
        find_escaped(text, &undone, spans, |text, spans| self.learned.find(text, false, spans));
        let before = spans.len();
        find_escaped(text, &unquoted, spans, |text, spans| self.learned.find(text, false, spans));
        inside_strings(text, spans, before);
        self.find_encoded(text, masks, spans, ENCODED_TWICE);
        let find = |text: &[u8], spans: &mut Vec<Span>| {
            self.find_encoded(text, &pseudonym::masks_in(text), spans, ENCODED_TWICE);
        };
        find_escaped(text, &undone, spans, find);
        let before = spans.len();
        find_escaped(text, &unquoted, spans, find);
        inside_strings(text, spans, before);
    }

    /// Texts in base64, hex and the like that hold a secret are masked as a whole.
    fn find_encoded(&self, text: &[u8], masks: &[Range<usize>], spans: &mut Vec<Span>, depth: usize) {
        let is_ours = |piece: &Range<usize>| {
            let next = masks.partition_point(|mask| mask.end <= piece.start);
            masks.get(next).is_some_and(|mask| mask.start < piece.end)
        };
        for run in encoded::runs(text) {
            if run.pieces.iter().any(is_ours) {
                continue;
            }
            let mut inner = Vec::new();
            self.engine.find(&run.text, &[], &mut inner);
            if self.learn_from_text {
                for span in inner.iter().filter(|span| span.learn && !span.open) {
                    let value = crate::plausible::trim_end_punctuation(&run.text[span.range.clone()]);
                    self.learned.learn(value, Source::Text, &self.key, self.engine.lists());
                }
            }
            self.learned.find(&run.text, false, &mut inner);
            if depth > 0 {
                self.find_encoded(&run.text, &[], &mut inner, depth - 1);
            }
            for span in &inner {
                for range in run.pieces_of(&span.range) {
                    let open = range.end == text.len();
                    let wrap = wrap_of_list(text, &range);
                    spans.push(Span {
                        range,
                        rule: span.rule,
                        pseudonym: None,
                        open,
                        learn: false,
                        wide: None,
                        wrap,
                    });
                }
            }
        }
    }

    /// Appends what is learned and stands in `text`. `alone`: without the base64 around it.
    pub(crate) fn find_learned(&self, text: &[u8], alone: bool, spans: &mut Vec<Span>) {
        self.learned.find(text, alone, spans);
    }

    /// Id of the rule of a span.
    pub(crate) fn rule_id(&self, span: &Span) -> &str {
        span.rule.map_or(LEARNED_RULE, |rule| &self.engine.rules()[rule].id)
    }

    /// Appends the mask of a span and counts it.
    pub(crate) fn push_mask(&self, text: &[u8], span: &Span, out: &mut Vec<u8>, hits: &mut Vec<Hit>) {
        let rule = self.rule_id(span);
        let pseudonym = span.pseudonym.unwrap_or_else(|| self.key.pseudonym(&text[span.range.clone()]));
        let quote = span.wrap.map_or_else(String::new, |backslashes| "\\".repeat(backslashes) + "\"");
        match span.wide {
            None => {
                out.extend_from_slice(quote.as_bytes());
                pseudonym::push_mask(out, rule, pseudonym);
                out.extend_from_slice(quote.as_bytes());
            }
            Some(order) => {
                let mask = format!("{quote}{}{quote}", pseudonym::mask(rule, pseudonym));
                out.extend_from_slice(&wide::unfold(mask.as_bytes(), order, None));
            }
        }
        match hits.iter_mut().find(|hit| hit.rule == rule) {
            Some(hit) => hit.count += 1,
            None => hits.push(Hit { rule: rule.to_owned(), count: 1 }),
        }
    }

    /// Masks `text`, which is in an encoding that keeps ASCII where it is, until nothing changes: so a second call on
    /// the result changes nothing either.
    pub(crate) fn plain<'t>(&self, text: &'t [u8], extent: Extent) -> (Cow<'t, [u8]>, Vec<Hit>) {
        // The first line begins behind it.
        let behind = text.strip_prefix(wide::MARK).unwrap_or(text);
        let (redacted, hits) = self.until_nothing_changes(behind, extent);
        match redacted {
            Cow::Owned(redacted) if behind.len() < text.len() => {
                (Cow::Owned([wide::MARK, &redacted].concat()), hits)
            }
            Cow::Borrowed(_) => (Cow::Borrowed(text), hits),
            redacted => (redacted, hits),
        }
    }

    fn until_nothing_changes<'t>(&self, text: &'t [u8], extent: Extent) -> (Cow<'t, [u8]>, Vec<Hit>) {
        let mut current = Cow::Borrowed(text);
        let mut hits = Vec::new();
        for _ in 0..ROUNDS_MAX {
            let spans = self.spans(&current, 0, extent);
            if spans.is_empty() {
                break;
            }
            let mut out = Vec::with_capacity(current.len() + spans.len() * 32);
            let mut at = 0;
            for span in &spans {
                out.extend_from_slice(&current[at..span.range.start]);
                self.push_mask(&current, span, &mut out, &mut hits);
                at = span.range.end;
            }
            out.extend_from_slice(&current[at..]);
            current = Cow::Owned(out);
        }
        (current, hits)
    }

    fn any_encoding<'t>(&self, bytes: &'t [u8]) -> (Cow<'t, [u8]>, Vec<Hit>) {
        let Some(order) = wide::detect(bytes) else { return self.plain(bytes, Extent::Whole) };
        let folded = wide::fold(bytes, order);
        let (redacted, hits) = self.plain(&folded.text, Extent::Whole);
        match redacted {
            Cow::Borrowed(_) => (Cow::Borrowed(bytes), hits),
            Cow::Owned(text) => (Cow::Owned(wide::unfold(&text, order, folded.rest)), hits),
        }
    }

    /// Copies of everything learned.
    pub(crate) fn learned_values(&self) -> Vec<Zeroizing<Vec<u8>>> {
        self.learned.values()
    }

    /// Remembers a value that a process was started with, if it looks like a secret, for the search in its memory.
    pub(crate) fn remember_of_process(&self, value: &[u8]) {
        let looks_like_one = plausible::is_strong(value, Strength::Token) || plausible::is_uuid(value);
        let mut values = self.of_process.lock().unwrap_or_else(PoisonError::into_inner);
        let fits =
            (OF_PROCESS_MIN..=OF_PROCESS_LONGEST).contains(&value.len()) && values.len() < OF_PROCESS_MAX;
        if looks_like_one
            && fits
            && !self.engine.allows(value)
            && !values.iter().any(|known| known.as_slice() == value)
        {
            values.push(Zeroizing::new(value.to_vec()));
        }
    }

    /// What was remembered so.
    pub(crate) fn values_of_process(&self) -> Vec<Zeroizing<Vec<u8>>> {
        self.of_process.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Learns a value that a rule found by the name of a variable or option.
    pub(crate) fn learn_told(&self, value: &[u8]) -> bool {
        !self.engine.allows(value) && self.learned.learn(value, Source::Told, &self.key, self.engine.lists())
    }
}

/// What is found once escapes are undone.
fn find_escaped(
    text: &[u8],
    undone: &[escapes::Unescaped],
    spans: &mut Vec<Span>,
    find: impl Fn(&[u8], &mut Vec<Span>),
) {
    for undone in undone {
        let mut inner = Vec::new();
        find(&undone.text, &mut inner);
        spans.extend(inner.into_iter().filter_map(|span| {
            let mut range = undone.source(&span.range)?;
            // The end of the line that goes on belongs to it only where the value goes on, too.
            range.end -= text[range.clone()].iter().rev().take_while(|b| matches!(b, b'\r' | b'\n')).count();
            let open = span.open && range.end == text.len();
            // As it stands it is no value: its escapes belong to the text around it.
            Some(Span { range, open, learn: false, wrap: None, ..span })
        }));
    }
}

/// What is found in documents without what a logger put around their lines: line by line.
fn find_in_lines(
    text: &[u8],
    documents: &[escapes::Unescaped],
    spans: &mut Vec<Span>,
    find: impl Fn(&[u8], &mut Vec<Span>),
) {
    for document in documents {
        let mut inner = Vec::new();
        find(&document.text, &mut inner);
        for span in inner {
            let mut start = span.range.start;
            for line in document.text[span.range.clone()].split(|b| *b == b'\n') {
                let blank = line.len() - line.trim_ascii_start().len();
                let range = start + blank..start + line.trim_ascii_end().len().max(blank);
                start += line.len() + 1;
                if let Some(range) = document.source(&range).filter(|range| !range.is_empty()) {
                    let open = span.open && range.end == text.len();
                    spans.push(Span { range, open, learn: false, wrap: None, ..span.clone() });
                }
            }
        }
    }
}

/// What is found in commands that are lists of words: in one word each.
fn find_in_words(
    text: &[u8],
    commands: &[escapes::Unescaped],
    spans: &mut Vec<Span>,
    find: impl Fn(&[u8], &mut Vec<Span>),
) {
    let from = spans.len();
    find_escaped(text, commands, spans, find);
    let mut index = 0;
    spans.retain(|span| {
        index += 1;
        // What was found before may be of the text around this one.
        index <= from || {
            let value = &text[span.range.clone()];
            !value.is_empty() && memchr::memchr2(b'"', b'\'', value).is_none()
        }
    });
}

/// Bytes of a UUID as text.
const UUID_LENGTH: usize = 36;

/// What stands elsewhere without the rest of a value: the end of an address, and the runs of an address or of a token of several
/// parts (`pi_x1_secret_x2`) that nobody writes by hand.
fn parts(value: &[u8]) -> Vec<&[u8]> {
    let is_run = |part: &&[u8]| {
        part.len() >= PART_MIN && part.len() < value.len() && plausible::has_random_run(part, PART_MIN)
    };
    // Base64 has such runs between its signs, and the parts of web tokens are those of many.
    let has_parts =
        value.iter().any(|b| matches!(b, b'_' | b'@' | b'?' | b':')) && !value.starts_with(b"eyJ");
    let runs = value.split(|b| !b.is_ascii_alphanumeric()).filter(is_run).filter(|_| has_parts);
    let mut parts: Vec<&[u8]> = runs.take(PARTS_MAX).collect();
    // `PVEAPIToken=app@pve!ci=7c9e6679-...`: the end of a token that has a name.
    if let Some(uuid) = value.len().checked_sub(UUID_LENGTH).map(|start| &value[start..])
        && value[..value.len() - UUID_LENGTH].last().is_some_and(|b| b"=:!@".contains(b))
        && plausible::is_uuid(uuid)
    {
        parts.push(uuid);
    }
    if let Some(end) = end_of_address(value)
        && !parts.contains(&end)
    {
        parts.push(end);
    }
    parts
}

/// `hooks.example.com/services/T0/B0/x1`: the secret of an address that is one as a whole stands elsewhere without it.
fn end_of_address(value: &[u8]) -> Option<&[u8]> {
    let value = value.strip_suffix(b"/").unwrap_or(value);
    let (address, token) = value.split_at(memchr::memrchr(b'/', value)? + 1);
    let host = address.strip_suffix(b"/").unwrap_or(address);
    let is_host =
        host.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-'))
            && host.iter().rev().take_while(|b| b.is_ascii_lowercase()).count() >= 2;
    let has_host =
        address.contains(&b'.') && (is_host || address.iter().filter(|b| **b == b'/').count() >= 2);
    (has_host && token.len() >= 8 && (plausible::has_random_run(token, 8) || plausible::is_no_word(token)))
        .then_some(token)
}

/// What was found in strings in strings ends with the inner one.
fn inside_strings(text: &[u8], spans: &mut Vec<Span>, from: usize) {
    for span in &mut spans[from..] {
        span.range = unquoted::inside(text, span.range.clone());
    }
    let mut at = 0;
    spans.retain(|span| {
        at += 1;
        at <= from || !span.range.is_empty()
    });
}

/// How often a value stands in `text` as a word of its own where no rule masks it.
fn bare_places(text: &[u8], value: &[u8], spans: &[Span]) -> usize {
    let is_inside = |at: Option<&u8>| at.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    memchr::memmem::find_iter(text, value)
        .take(BARE_TRIED)
        .filter(|at| !is_inside(at.checked_sub(1).and_then(|before| text.get(before))))
        .filter(|at| !is_inside(text.get(at + value.len())))
        .filter(|at| !spans.iter().any(|span| span.range.start < at + value.len() && *at < span.range.end))
        .take(BARE_COUNTED)
        .count()
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor")
            .field("rules", &self.engine.rules().len())
            .field("learned", &self.generation())
            .finish_non_exhaustive()
    }
}

/// Numbers alone between brackets: what stands for them needs quotes, or the JSON around is none any more.
fn wrap_of_list(text: &[u8], range: &Range<usize>) -> Option<usize> {
    let is_list = text[..range.start].trim_ascii_end().ends_with(b"[")
        && text[range.end..].trim_ascii_start().starts_with(b"]")
        && text[range.clone()].iter().all(|b| b.is_ascii_digit() || matches!(b, b',' | b' '));
    let outer = crate::quote::open_quote_before(text, range.start).filter(|open| open.quote == b'"');
    is_list.then(|| outer.map_or(0, |open| 2 * open.backslashes + 1))
}
