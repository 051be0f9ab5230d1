//! One pass over a text: keywords first, rules only where a keyword is, spans without overlap.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use regex_automata::util::captures::Captures;
use rustc_hash::FxHashMap;

use crate::RedactError;
use crate::cells;
use crate::columns;
use crate::key::KeyRule;
use crate::keywords::{KeywordHit, Keywords};
use crate::manifest;
use crate::outline::Outline;
use crate::parameters;
use crate::place::LastPlace;
use crate::plausible::{self, Lists};
use crate::pseudonym::Pseudonym;
use crate::rules::{self, Kind, Rule, RuleSet, Words};
use crate::run_shapes;
use crate::shape::Shape;
use crate::unlisted;
use crate::wide::Order;

/// All rules, compiled.
#[derive(Debug)]
pub(crate) struct Engine {
    keywords: Keywords,
    /// Rules by keyword.
    by_keyword: Vec<Vec<Asked>>,
    matchers: Vec<Matcher>,
    rules: Vec<Rule>,
    allowed: HashSet<Vec<u8>>,
    lists: Lists,
    /// Rule of credentials that no keyword announces.
    of_run_shapes: Option<usize>,
    /// Rule of those of unknown issuers.
    of_unlisted: Option<usize>,
    /// Of searches that have ended, for those to come: every line is one.
    scratch: Mutex<Vec<Scratch>>,
}

/// What a search needs for itself.
#[derive(Debug)]
struct Scratch {
    /// By rule: where its previous match ended.
    floors: Vec<usize>,
    /// Rules that have matched.
    matched: Vec<usize>,
    captures: Vec<Option<Captures>>,
    hits: Vec<KeywordHit>,
}

/// Rule whose name credentials without a beginning get.
const RUN_SHAPES_RULE: &str = "issued";
/// The same of those of unknown issuers. The last of all, so that whatever else finds one gives its name.
const UNLISTED_RULE: &str = "unlisted";
/// Scratch that is kept: as many threads as search at once, and texts in texts.
const SCRATCH_KEPT: usize = 16;

/// A rule that is asked about a keyword.
#[derive(Debug)]
struct Asked {
    rule: usize,
    /// What it must look like there.
    outline: Option<Outline>,
}

#[derive(Debug)]
enum Matcher {
    Shape(Shape),
    Key(KeyRule),
    Columns,
}

/// A stretch of text to be masked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    /// Where.
    pub(crate) range: Range<usize>,
    /// By which rule; `None`: a learned value.
    pub(crate) rule: Option<usize>,
    /// Known beforehand for learned values, so that a value in another encoding keeps its pseudonym.
    pub(crate) pseudonym: Option<Pseudonym>,
    /// The text ended before the value did.
    pub(crate) open: bool,
    /// The value is worth learning.
    pub(crate) learn: bool,
    /// It stands in a stretch of UTF-16, and so does its mask.
    pub(crate) wide: Option<Order>,
    /// The mask needs `"` behind this many backslashes around it.
    pub(crate) wrap: Option<usize>,
}

impl Engine {
    /// Compiles the built-in packs and `extra` ones.
    pub(crate) fn new(personal: bool, extra: &[String]) -> Result<Self, RedactError> {
        let RuleSet { rules, allowed } = rules::load(personal, extra)?;
        let lists = Lists::new(Words::load()?);
        // What users wrote is checked at once.
        let compile = if extra.is_empty() { Shape::new } else { Shape::compile };
        let mut literals: Vec<String> = Vec::new();
        let mut known: FxHashMap<String, usize> = FxHashMap::default();
        let mut by_keyword: Vec<Vec<Asked>> = Vec::new();
        let mut matchers = Vec::with_capacity(rules.len());
        for (index, rule) in rules.iter().enumerate() {
            let keywords = match rule.kind {
                Kind::Shape | Kind::Columns => rule.keywords.clone(),
                Kind::Key => KeyRule::keywords(rule),
            };
            let outline = rule.outline();
            for keyword in keywords {
                let outline = rule.outline_at(&keyword, outline.as_ref());
                let keyword = keyword.to_ascii_lowercase();
                // There are thousands of them, and this is done at the start of each recording.
                let pattern = *known.entry(keyword).or_insert_with_key(|keyword| {
                    literals.push(keyword.clone());
                    by_keyword.push(Vec::new());
                    literals.len() - 1
                });
                // The same keyword in two cases, or of two forms.
                match by_keyword[pattern].iter_mut().find(|asked| asked.rule == index) {
                    Some(asked) => {
                        asked.outline =
                            asked.outline.take().zip(outline).and_then(|(one, other)| one.or(&other));
                    }
                    None => by_keyword[pattern].push(Asked { rule: index, outline }),
                }
            }
            matchers.push(match rule.kind {
                Kind::Key => Matcher::Key(KeyRule::new(rule)),
                Kind::Columns => Matcher::Columns,
                Kind::Shape => Matcher::Shape(compile(rule).map_err(|problem| RedactError::Rule {
                    pack: "-".to_owned(),
                    rule: rule.id.clone(),
                    problem,
                })?),
            });
        }
        let keywords = Keywords::new(&literals).map_err(RedactError::Keywords)?;
        let rule_called = |id: &str| rules.iter().position(|rule| rule.id == id);
        let (of_run_shapes, of_unlisted) = (rule_called(RUN_SHAPES_RULE), rule_called(UNLISTED_RULE));
        let scratch = Mutex::default();
        Ok(Self {
            keywords,
            by_keyword,
            matchers,
            rules,
            allowed,
            lists,
            of_run_shapes,
            of_unlisted,
            scratch,
        })
    }

    /// The rules in force.
    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The shared word lists.
    pub(crate) fn lists(&self) -> &Lists {
        &self.lists
    }

    /// Values that a pack says are no secrets.
    pub(crate) fn allowed(&self) -> impl Iterator<Item = Vec<u8>> {
        self.allowed.iter().cloned()
    }

    /// Whether a pack says that this is no secret.
    pub(crate) fn allows(&self, value: &[u8]) -> bool {
        !self.allowed.is_empty() && self.allowed.contains(value)
    }

    /// Appends what the rules find in `text`, in no order. Keywords inside `masks` are ours.
    pub(crate) fn find(&self, text: &[u8], masks: &[Range<usize>], spans: &mut Vec<Span>) {
        let mut scratch = self.scratch();
        self.find_with(&mut scratch, text, masks, spans);
        self.find_run_shapes(text, masks, spans);
        for rule in scratch.matched.drain(..) {
            scratch.floors[rule] = 0;
        }
        let mut kept = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < SCRATCH_KEPT {
            kept.push(scratch);
        }
    }

    fn scratch(&self) -> Scratch {
        let kept = self.scratch.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let rules = self.matchers.len();
        kept.unwrap_or_else(|| Scratch {
            floors: vec![0; rules],
            matched: Vec::new(),
            captures: vec![None; rules],
            hits: Vec::new(),
        })
    }

    fn find_with(&self, scratch: &mut Scratch, text: &[u8], masks: &[Range<usize>], spans: &mut Vec<Span>) {
        // Values found so far, by where they begin.
        let mut values = BTreeMap::new();
        let mut mask = 0;
        let mut place = LastPlace::default();
        self.keywords.find(text, &mut scratch.hits);
        for hit in &scratch.hits {
            while masks.get(mask).is_some_and(|range| range.end <= hit.start()) {
                mask += 1;
            }
            if masks.get(mask).is_some_and(|range| range.start < hit.end()) {
                continue;
            }
            for Asked { rule, outline } in &self.by_keyword[hit.keyword()] {
                if outline.as_ref().is_some_and(|outline| !outline.fits(text, hit.start())) {
                    continue;
                }
                match &self.matchers[*rule] {
                    Matcher::Shape(shape) => {
                        let captures = scratch.captures[*rule].get_or_insert_with(|| shape.captures());
                        let floor = &mut scratch.floors[*rule];
                        let Some(found) = shape.find(text, hit.start(), *floor, &self.lists, captures) else {
                            continue;
                        };
                        if *floor == 0 {
                            scratch.matched.push(*rule);
                        }
                        *floor = found.end;
                        for range in
                            found.values.into_iter().filter(|range| !self.allows(&text[range.clone()]))
                        {
                            let open = range.end == text.len();
                            let learn = self.rules[*rule].learn;
                            spans.push(Span {
                                range,
                                rule: Some(*rule),
                                pseudonym: None,
                                open,
                                learn,
                                wide: None,
                                wrap: None,
                            });
                        }
                    }
                    Matcher::Columns => self.find_columns(*rule, text, hit.start(), spans),
                    Matcher::Key(key) => {
                        // A name inside a value that is masked as a whole needs no look; this also bounds the work
                        // on `password=password=password=...`.
                        let before = values.range(..=hit.start()).next_back();
                        if before.is_some_and(|(_, end)| hit.start() < *end) {
                            continue;
                        }
                        for value in key.find(text, hit.range(), &self.lists, &mut place) {
                            if self.allows(&text[value.range.clone()]) {
                                continue;
                            }
                            let end = values.entry(value.range.start).or_insert(value.range.end);
                            *end = value.range.end.max(*end);
                            spans.push(Span {
                                range: value.range,
                                rule: Some(*rule),
                                pseudonym: None,
                                open: value.open,
                                learn: self.rules[*rule].learn,
                                wide: None,
                                wrap: value.wrap,
                            });
                        }
                    }
                }
            }
        }
    }

    /// Credentials that begin with nothing.
    fn find_run_shapes(&self, text: &[u8], masks: &[Range<usize>], spans: &mut Vec<Span>) {
        let shapes = run_shapes::find(text).into_iter().map(|range| (range, self.of_run_shapes));
        let unlisted = unlisted::find(text, &self.lists).into_iter().map(|range| (range, self.of_unlisted));
        for (range, rule) in shapes.chain(unlisted) {
            let next = masks.partition_point(|mask| mask.end <= range.start);
            let is_ours = masks.get(next).is_some_and(|mask| mask.start < range.end);
            if !is_ours && !self.allows(&text[range.clone()]) {
                spans.push(Span {
                    open: range.end == text.len(),
                    range,
                    rule,
                    pseudonym: None,
                    learn: true,
                    wide: None,
                    wrap: None,
                });
            }
        }
    }

    /// Values of a statement in columns whose name is that of a secret.
    fn find_columns(&self, rule: usize, text: &[u8], at: usize, spans: &mut Vec<Span>) {
        let mut push = |range: Range<usize>| {
            spans.push(Span {
                open: range.end == text.len(),
                range,
                rule: Some(rule),
                pseudonym: None,
                learn: self.rules[rule].learn,
                wide: None,
                wrap: None,
            });
        };
        let names_a_secret = |name: Range<usize>, value: Range<usize>| {
            let (name, value) = (String::from_utf8_lossy(&text[name]), String::from_utf8_lossy(&text[value]));
            self.rule_for_name(&name, &value).is_some()
        };
        match text.get(at) {
            Some(b'#') => {
                for (name, range) in cells::fields(text, at) {
                    let is_header =
                        [&b"cs(cookie)"[..], b"cs(authorization)", b"sc(set-cookie)", b"cs(set-cookie)"]
                            .iter()
                            .any(|header| header.eq_ignore_ascii_case(&text[name.clone()]));
                    if &text[range.clone()] != b"-" && (is_header || names_a_secret(name, range.clone())) {
                        push(range);
                    }
                }
                return;
            }
            Some(b'p' | b'P') => {
                parameters::find(text, at)
                    .into_iter()
                    .filter(|(name, value)| names_a_secret(name.clone(), value.clone()))
                    .for_each(|(_, value)| push(value));
                return;
            }
            Some(b'[') => {
                parameters::named(text, at)
                    .into_iter()
                    .filter(|(name, value)| names_a_secret(name.clone(), value.clone()))
                    .for_each(|(_, value)| push(value));
                return;
            }
            Some(b'k' | b'K') => {
                let is_value =
                    |range: &Range<usize>| !plausible::is_placeholder(&text[range.clone()], &self.lists);
                manifest::find(text, at).into_iter().filter(is_value).for_each(push);
                return;
            }
            Some(b'"') => {
                manifest::find_in_json(text, at).into_iter().for_each(push);
                return;
            }
            _ => {}
        }
        columns::nameless(text, at)
            .into_iter()
            .filter(|range| {
                let value = &text[range.clone()];
                value.len() >= 8
                    && plausible::is_no_word(value)
                    && plausible::is_strong(value, rules::Strength::Token)
            })
            .for_each(&mut push);
        let is_copied = matches!(text.get(at), Some(b'c' | b'C'));
        let fields = if is_copied { columns::copied(text, at) } else { columns::find(text, at) };
        for field in fields {
            let (name, value) = (&text[field.column], &text[field.value.clone()]);
            let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
            if self.rule_for_name(&name, &value).is_some() {
                spans.push(Span {
                    range: field.value,
                    rule: Some(rule),
                    pseudonym: None,
                    open: field.open,
                    learn: self.rules[rule].learn,
                    wide: None,
                    wrap: None,
                });
            }
        }
    }

    /// The key rule that says that variables or options of this name hold secrets.
    pub(crate) fn rule_for_name(&self, name: &str, value: &str) -> Option<usize> {
        if self.allows(value.as_bytes()) {
            return None;
        }
        let mut hits = Vec::new();
        self.keywords.find(name.as_bytes(), &mut hits);
        hits.into_iter().find_map(|hit| {
            self.by_keyword[hit.keyword()].iter().map(|asked| asked.rule).find(|rule| {
                match &self.matchers[*rule] {
                    Matcher::Key(key) => {
                        key.names_a_secret(name.as_bytes(), hit.range(), &self.lists)
                            && key.accepts_value(value.as_bytes(), &self.lists)
                    }
                    Matcher::Shape(_) | Matcher::Columns => false,
                }
            })
        })
    }
}

/// Sorted, without overlap, without empty spans, without what is already masked, and on whole characters.
pub(crate) fn tidy(text: &[u8], masks: &[Range<usize>], mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by(|a, b| {
        (a.range.start, std::cmp::Reverse(a.range.end), a.rule).cmp(&(
            b.range.start,
            std::cmp::Reverse(b.range.end),
            b.rule,
        ))
    });
    let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
    for mut span in spans {
        span.range = whole_characters(text, span.range);
        span.range.end = before_escaped_quote(text, &span.range);
        match merged.last_mut() {
            Some(last) if span.range.start < last.range.end => join(last, &span),
            _ => merged.push(span),
        }
    }
    let mut tidy = Vec::with_capacity(merged.len());
    let mut first_mask = 0;
    for span in merged {
        without_masks(text, masks, &mut first_mask, span, &mut tidy);
    }
    tidy
}

/// Two spans that overlap become one. The rule that the packs name first gives its name, unless one span holds the
/// other whole: then the larger one does, since it is what stands behind the key.
fn join(into: &mut Span, other: &Span) {
    let same = into.range == other.range;
    if same {
        into.pseudonym = into.pseudonym.or(other.pseudonym);
        into.wrap = into.wrap.or(other.wrap);
        // `None` is a learned value: a rule that sees it too says more.
        into.rule = match (into.rule, other.rule) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    } else if other.range.end > into.range.end {
        into.range.end = other.range.end;
        into.pseudonym = None;
        into.wrap = None;
        into.wide = into.wide.filter(|order| other.wide == Some(*order));
        into.rule = into.rule.or(other.rule);
    }
    into.open |= other.open;
    into.learn |= other.learn;
}

/// Cuts existing masks out of a span. Punctuation left between masks is none of a secret.
fn without_masks(text: &[u8], masks: &[Range<usize>], first: &mut usize, span: Span, out: &mut Vec<Span>) {
    while masks.get(*first).is_some_and(|mask| mask.end <= span.range.start) {
        *first += 1;
    }
    let mut start = span.range.start;
    let mut cut = false;
    for mask in masks[*first..].iter().take_while(|mask| mask.start < span.range.end) {
        cut = true;
        push_piece(text, start..mask.start.max(start), &span, true, out);
        start = mask.end;
    }
    push_piece(text, start..span.range.end.max(start), &span, cut, out);
}

fn push_piece(text: &[u8], range: Range<usize>, span: &Span, cut: bool, out: &mut Vec<Span>) {
    let bytes = &text[range.clone()];
    if bytes.is_empty() || (cut && !bytes.iter().any(|b| b.is_ascii_alphanumeric() || *b >= 0x80)) {
        return;
    }
    let pseudonym = if cut { None } else { span.pseudonym };
    out.push(Span {
        range,
        pseudonym,
        learn: span.learn && !cut,
        wrap: span.wrap.filter(|_| !cut),
        ..span.clone()
    });
}

/// The end of a range without the backslashes that belong to the quote behind it.
fn before_escaped_quote(text: &[u8], range: &Range<usize>) -> usize {
    if !matches!(text.get(range.end), Some(b'"' | b'\'')) {
        return range.end;
    }
    let backslashes = text[range.clone()].iter().rev().take_while(|b| **b == b'\\').count();
    if backslashes == range.len() { range.end } else { range.end - backslashes }
}

/// Widens a range that cuts a UTF-8 character in two.
fn whole_characters(text: &[u8], range: Range<usize>) -> Range<usize> {
    let continues = |at: usize| text.get(at).is_some_and(|b| b & 0xc0 == 0x80);
    let mut start = range.start;
    while start > 0 && range.start - start < 3 && continues(start) {
        start -= 1;
    }
    let mut end = range.end;
    while end - range.end < 3 && continues(end) {
        end += 1;
    }
    start..end
}

#[cfg(test)]
mod tests;
