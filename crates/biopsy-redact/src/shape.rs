//! Shape rules: a regular expression, tried only where one of its keywords is.

use std::ops::Range;
use std::sync::OnceLock;

use regex_automata::meta::Regex;
use regex_automata::util::{captures::Captures, syntax};
use regex_automata::{Anchored, Input};

use crate::below;
use crate::check::Check;
use crate::made_up;
use crate::plausible::{self, Lists};
use crate::precheck::Precheck;
use crate::rules::Rule;
use crate::scrambled::{is_no_name, is_unspoken};

/// Rules whose values have many lines.
const PRIVATE_KEYS: [&str; 3] = ["private-key", "putty-key", "putty-key-in-log"];

/// A compiled shape rule.
#[derive(Debug)]
pub(crate) struct Shape {
    expression: Expression,
    begins: Begins,
    precheck: Precheck,
    before: usize,
    after: usize,
    pairs: Option<u8>,
    keep: Vec<String>,
    runs: Option<usize>,
    hex_pairs: bool,
    min_length: usize,
    min_entropy: f64,
    random_run: usize,
    mixed: bool,
    generated: bool,
    check: Option<Check>,
    /// Its value may have many lines, of which each is a record of a log.
    is_private_key: bool,
    /// A match begins where a word does.
    at_word: bool,
    /// What is listed are beginnings of credentials.
    prefixes: Vec<Vec<u8>>,
    /// What goes on behind a match belongs to it: issuers lengthen their credentials.
    goes_on: bool,
}

/// An expression that is compiled when the first of its keywords is met: of some two hundred, most programs need ten, and compiling all of
/// them takes a tenth of a second at each start.
#[derive(Debug)]
struct Expression {
    pattern: String,
    compiled: OnceLock<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    regex: Regex,
    /// Index of `secret`.
    group: usize,
}

impl Expression {
    fn get(&self) -> &Compiled {
        let compile =
            || Compiled::new(&self.pattern).expect("the built-in rules are compiled by their tests");
        self.compiled.get_or_init(compile)
    }
}

impl Compiled {
    fn new(pattern: &str) -> Result<Self, String> {
        let regex = Regex::builder()
            // Bytes, not characters: logs hold what they hold, and byte classes keep the automata small.
            .syntax(syntax::Config::new().unicode(false).utf8(false))
            .configure(Regex::config().utf8_empty(false).nfa_size_limit(Some(4 << 20)))
            .build(pattern)
            .map_err(|error| format!("`regex` does not compile: {error}"))?;
        let group = regex
            .group_info()
            .to_index(regex_automata::PatternID::ZERO, "secret")
            .ok_or_else(|| "`regex` has no group `secret`".to_owned())?;
        Ok(Self { regex, group })
    }
}

/// Where a match begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Begins {
    AtKeyword,
    /// Where a word begins or ends, at the keyword or in front of it.
    AtEdge,
    /// At the keyword, in front of it or behind.
    Anywhere,
}

/// Where a shape rule matched.
pub(crate) struct ShapeMatch {
    /// The values.
    pub(crate) values: Vec<Range<usize>>,
    /// End of the whole match: the rule is not tried again in front of it.
    pub(crate) end: usize,
}

/// Longest rest of a credential behind what its form says, in bytes.
const REST_MAX: usize = 400;
/// What a line may have behind the end of a match, in bytes.
const LINE_REST_MAX: usize = 256;
/// Shortest beginning of a credential that no name of code has, in bytes.
const LONG_PREFIX: usize = 10;
/// Shortest part of one behind a colon or point, in bytes.
const PART_MIN: usize = 16;

/// Where a credential ends whose form has matched up to `end`: with its run of letters and digits, and with further runs behind a
/// colon or point that no word makes.
fn whole_of_credential(text: &[u8], end: usize) -> usize {
    let run = |from: usize| {
        from + text[from..]
            .iter()
            .take(REST_MAX)
            .take_while(|b| b.is_ascii_alphanumeric() || **b == b'_')
            .count()
    };
    let mut end = if text[..end].last().is_some_and(u8::is_ascii_alphanumeric) { run(end) } else { end };
    while matches!(text.get(end), Some(b':' | b'.')) {
        let next = run(end + 1);
        let part = &text[end + 1..next];
        if part.len() < PART_MIN || !plausible::has_random_run(part, PART_MIN) {
            break;
        }
        end = next;
    }
    end
}

impl Shape {
    /// The rule, with its expression compiled now.
    pub(crate) fn compile(rule: &Rule) -> Result<Self, String> {
        let shape = Self::new(rule)?;
        let compiled = Compiled::new(&shape.expression.pattern)?;
        // Nobody has met it before.
        let _ = shape.expression.compiled.set(compiled);
        Ok(shape)
    }

    /// The rule, with an expression that is known to be right.
    pub(crate) fn new(rule: &Rule) -> Result<Self, String> {
        let pattern = rule.regex.as_deref().unwrap_or_default();
        // A `\b` in front is looked at here, since escapes make boundaries that `\b` does not know.
        let (at_word, pattern) = match pattern.strip_prefix("\\b") {
            Some(rest) if rule.before == 0 => (true, rest),
            _ => (false, pattern),
        };
        let pairs = match rule.pairs {
            None => None,
            Some(separator) => Some(u8::try_from(separator).map_err(|_| "`pairs` must be ASCII".to_owned())?),
        };
        Ok(Self {
            expression: Expression { pattern: pattern.to_owned(), compiled: OnceLock::new() },
            begins: match rule.before {
                0 => Begins::AtKeyword,
                _ if pattern.starts_with("\\b") => Begins::AtEdge,
                _ => Begins::Anywhere,
            },
            precheck: Precheck::new(rule),
            before: rule.before,
            after: rule.after,
            pairs,
            keep: rule.keep.iter().map(|name| name.to_ascii_lowercase()).collect(),
            runs: rule.runs,
            hex_pairs: rule.hex_pairs,
            min_length: rule.min_length,
            min_entropy: rule.min_entropy,
            random_run: rule.random_run,
            mixed: rule.mixed,
            generated: rule.generated,
            check: rule.check,
            is_private_key: PRIVATE_KEYS.contains(&rule.id.as_str()),
            at_word,
            prefixes: rule.prefixes.iter().map(|prefix| prefix.as_bytes().to_vec()).collect(),
            goes_on: !rule.forms.is_empty() || !rule.prefixes.is_empty(),
        })
    }

    /// Place for the groups of one match.
    pub(crate) fn captures(&self) -> Captures {
        self.expression.get().regex.create_captures()
    }

    /// Tries the rule at a keyword that starts at `at`; `floor` is where its previous match ended.
    pub(crate) fn find(
        &self,
        text: &[u8],
        at: usize,
        floor: usize,
        lists: &Lists,
        captures: &mut Captures,
    ) -> Option<ShapeMatch> {
        let end = text.len().min(at.saturating_add(self.after));
        let from = at.saturating_sub(self.before).max(floor);
        if from > end || at < floor && self.before == 0 || (self.at_word && !begins_word(text, at)) {
            return None;
        }
        if !self.precheck.allows(text, at, &(from..end)) {
            return None;
        }
        let Compiled { regex, group } = self.expression.get();
        let mut search = |start: usize, anchored: Anchored| {
            regex.search_captures(&Input::new(text).span(start..end).anchored(anchored), captures);
            captures.get_match()
        };
        let whole = match self.begins {
            Begins::AtKeyword => search(at, Anchored::Yes),
            // Most edges end the attempt at once, and a search goes on to the end of the window.
            Begins::AtEdge => (from..=at.min(end))
                .filter(|start| is_edge(text, *start))
                .find_map(|start| search(start, Anchored::Yes)),
            Begins::Anywhere => search(from, Anchored::No),
        }?;
        let mut secret = captures.get_group(*group)?;
        if secret.end == end {
            // The window ended, not the value.
            secret.end +=
                text[end..].iter().take_while(|b| b.is_ascii_graphic() && !b"\"'<>`".contains(b)).count();
        }
        if self.goes_on {
            secret.end = whole_of_credential(text, secret.end);
        }
        let mut values = Vec::new();
        if let Some(least) = self.runs {
            base64_runs(text, secret.start..secret.end, least, &mut values);
            return Some(ShapeMatch { values, end: whole.end() });
        }
        if self.hex_pairs {
            hex_pairs(text, &(secret.start..secret.end), &mut values);
            return Some(ShapeMatch { values, end: whole.end() });
        }
        match self.pairs {
            None => values.push(secret.start..secret.end),
            Some(separator) => self.split_pairs(text, secret.start..secret.end, separator, &mut values),
        }
        values.iter_mut().for_each(|value| *value = without_end(text, value.clone()));
        if let Some(check) = self.check {
            values = values.into_iter().filter_map(|value| check.part(text, value)).collect();
            // What was no address may hold the beginning of one.
            let end = values.last().map_or(at + 1, |value| value.end);
            values.retain(|value| self.accepts(&text[value.clone()], lists));
            return Some(ShapeMatch { values, end });
        }
        if self.is_private_key {
            // Code that has both lines of a key, and no key.
            values.retain(|value| holds_key(&text[value.clone()]));
        }
        if self.is_private_key && values.iter().any(|value| starts_in_log(text, whole.start(), value)) {
            values = values.iter().flat_map(|value| behind_logger(text, whole.start(), value)).collect();
        }
        values.retain(|value| self.accepts(&text[value.clone()], lists));
        Some(ShapeMatch { values, end: whole.end().max(secret.end) })
    }

    fn accepts(&self, value: &[u8], lists: &Lists) -> bool {
        value.len() >= self.min_length
            && !plausible::is_placeholder(value, lists)
            && (self.min_entropy <= 0.0 || plausible::entropy(value) >= self.min_entropy)
            && (!self.mixed || plausible::is_mixed(value))
            && (!self.generated || made_up::is_generated(value))
            && (self.prefixes.is_empty() || !is_setting(value, self.random_run))
            && (self.random_run == 0
                || self.is_random_behind_prefix(value)
                || !self.prefixes.is_empty()
                    && value.len() > 36
                    && plausible::is_uuid(&value[value.len() - 36..])
                || plausible::has_random_run(value, self.random_run)
                || plausible::is_random_between(value, self.random_run))
    }

    /// `Mid-server-IVeerBTEsUT-cDkMzdopJtrS`: a long beginning says so much that what follows need not have digits.
    fn is_random_behind_prefix(&self, value: &[u8]) -> bool {
        let known = self.prefixes.iter().filter(|prefix| prefix.len() >= LONG_PREFIX);
        let longest = known.filter(|prefix| value.starts_with(prefix)).map(Vec::len).max();
        longest.is_some_and(|length| {
            let rest: Vec<u8> = value[length..].iter().copied().filter(u8::is_ascii_alphanumeric).collect();
            rest.len() >= PART_MIN && (is_unspoken(&rest) || is_no_name(&rest))
        })
    }

    /// `name=value; name=value`: the values, except those of names that stay. A part without a name is a value.
    fn split_pairs(&self, text: &[u8], list: Range<usize>, separator: u8, values: &mut Vec<Range<usize>>) {
        let mut start = list.start;
        while start < list.end {
            let end = memchr::memchr(separator, &text[start..list.end]).map_or(list.end, |at| start + at);
            let part = &text[start..end];
            let equals = memchr::memchr(b'=', part);
            let name = part[..equals.unwrap_or(0)].trim_ascii().to_ascii_lowercase();
            let stays = self.keep.iter().any(|keep| {
                keep.as_bytes() == name
                    || (equals.is_none() && part.trim_ascii().eq_ignore_ascii_case(keep.as_bytes()))
            });
            if !stays {
                let from = start + equals.map_or(0, |at| at + 1);
                let blank = text[from..end].len() - text[from..end].trim_ascii_start().len();
                let to = from + text[from..end].trim_ascii_end().len();
                if from + blank < to {
                    values.push(from + blank..to);
                }
            }
            start = end + 1;
        }
    }
}

/// `private_key=x1`, `ion_id=x1`: a name that begins like a credential, its sign, and the value that is another rule's.
fn is_setting(value: &[u8], random_run: usize) -> bool {
    let sign = value.iter().position(|b| *b == b'=').unwrap_or(value.len());
    value[sign..].iter().any(|b| *b != b'=') && !plausible::has_random_run(&value[..sign], random_run)
}

/// A run of base64 as a key has, however short.
fn holds_key(value: &[u8]) -> bool {
    value.split(|b| !b.is_ascii_alphanumeric() && !b"+/=".contains(b)).any(|run| {
        let has = |of: fn(&u8) -> bool| run.iter().any(of);
        // Static keys of VPNs are hex.
        let is_hex = run.len() >= 32 && run.iter().all(u8::is_ascii_hexdigit) && has(u8::is_ascii_digit);
        is_hex
            || run.len() >= 8
                && has(u8::is_ascii_uppercase)
                && (has(u8::is_ascii_lowercase) || has(u8::is_ascii_digit))
    })
}

/// Without the end of its line, and without the backslashes of the quote behind it.
fn without_end(text: &[u8], value: Range<usize>) -> Range<usize> {
    let bytes = &text[value.clone()];
    if bytes.trim_ascii_end().contains(&b'\n') {
        return value;
    }
    let mut end = value.start + bytes.trim_ascii_end().len();
    // The element around it ends here.
    let mut closing = memchr::memmem::find_iter(bytes, b"</");
    if let Some(at) = closing.find(|at| *at > 0 && bytes.get(at + 2).is_some_and(u8::is_ascii_alphabetic)) {
        end = end.min(value.start + at);
    }
    if matches!(text.get(end), Some(b'"' | b'\'')) {
        end -= text[value.start..end].iter().rev().take_while(|b| **b == b'\\').count();
    }
    value.start..end
}

/// Does a logger, or a diff, write something in front of each line of the key that begins at `head`?
fn starts_in_log(text: &[u8], head: usize, value: &Range<usize>) -> bool {
    memchr::memchr(b'\n', &text[value.clone()])
        .and_then(|newline| {
            Some((value.start + newline, below::next_line(text, head, value.start + newline)?))
        })
        .is_some_and(|(newline, next)| next > newline + 1 && next < value.end)
}

/// The lines of a key without what a logger wrote in front of them.
fn behind_logger(text: &[u8], head: usize, value: &Range<usize>) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    for newline in memchr::memchr_iter(b'\n', &text[value.clone()]).map(|at| value.start + at) {
        let Some(start) = below::next_line(text, head, newline).filter(|start| *start < value.end) else {
            break;
        };
        let line = &text[start..value.end];
        let line = &line[..memchr::memchr(b'\n', line).unwrap_or(line.len())];
        let blank = line.len() - line.trim_ascii_start().len();
        let length = line.trim_ascii().len();
        if length > 0 {
            lines.push(start + blank..start + blank + length);
        }
    }
    lines
}

/// Runs of base64 in a stretch of text; words and paths have no capitals and digits.
fn base64_runs(text: &[u8], range: Range<usize>, least: usize, values: &mut Vec<Range<usize>>) {
    let mut start = range.start;
    for at in range.start..=range.end {
        let inside =
            at < range.end && (text[at].is_ascii_alphanumeric() || matches!(text[at], b'+' | b'/' | b'='));
        if inside {
            continue;
        }
        let run = &text[start..at];
        let is_key = run.len() >= least
            && run.iter().any(u8::is_ascii_digit)
            && run.iter().any(u8::is_ascii_uppercase)
            && run.iter().any(u8::is_ascii_lowercase)
            // `github.com/RustCrypto/formats/pkcs8` is a path.
            && crate::scrambled::bits_per_pair(run).is_none_or(|bits| bits >= 4.75);
        if is_key {
            // The `n` of an escaped line end is no part of the key.
            let escape = usize::from(start > range.start && text[start - 1] == b'\\');
            values.push(start + escape..at);
        }
        start = at + 1;
    }
}

/// Pairs of hex with colons between them (`fb:15:8b:`) at the end of each line: what a logger writes stands in front.
fn hex_pairs(text: &[u8], range: &Range<usize>, values: &mut Vec<Range<usize>>) {
    let limit = text.len().min(range.end + LINE_REST_MAX);
    let end = memchr::memchr(b'\n', &text[range.end..limit]).map_or(range.end, |newline| range.end + newline);
    let is_pair = |pair: &[u8]| pair.len() == 2 && pair.iter().all(u8::is_ascii_hexdigit);
    let mut from = range.start;
    for line in text[range.start..end].split(|b| *b == b'\n') {
        let body = line.trim_ascii_end();
        let length = body.iter().rev().take_while(|b| b.is_ascii_hexdigit() || **b == b':').count();
        let run = &body[body.len() - length..];
        if run.strip_suffix(b":").unwrap_or(run).split(|b| *b == b':').all(is_pair) {
            values.push(from + body.len() - length..from + body.len());
        }
        from += line.len() + 1;
    }
}

/// Does a word begin or end here, as `\b` sees it?
fn is_edge(text: &[u8], at: usize) -> bool {
    let is_of_word = |at: usize| text.get(at).is_some_and(|b: &u8| b.is_ascii_alphanumeric() || *b == b'_');
    is_of_word(at) != at.checked_sub(1).is_some_and(is_of_word)
}

/// Is there no letter, digit or `_` in front, or only as the end of an escape: `%3D`, `\n`, `\u0022`?
fn begins_word(text: &[u8], at: usize) -> bool {
    let before = &text[..at];
    match before {
        [] => true,
        [.., last] if !last.is_ascii_alphanumeric() && *last != b'_' => true,
        [.., b'm'] if is_colour(before) => true,
        _ => escape_before(before),
    }
}

/// Does the text end with a colour code of a terminal: `\x1b[93m`?
fn is_colour(before: &[u8]) -> bool {
    let body = &before[..before.len() - 1];
    let digits = body.iter().rev().take(12).take_while(|b| b.is_ascii_digit() || **b == b';').count();
    let head = &body[..body.len() - digits];
    [&b"\x1b["[..], b"\\x1b[", b"\\u001b[", b"\\033[", b"\\e[", b"#033[", b"^[["]
        .iter()
        .any(|start| head.ends_with(start))
}

/// Does the text end with an escape of a character?
pub(crate) fn escape_before(before: &[u8]) -> bool {
    match before {
        [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., b'%', a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => true,
        _ => {
            before.len() >= 6
                && before[before.len() - 6..].starts_with(b"\\u")
                && before[before.len() - 4..].iter().all(u8::is_ascii_hexdigit)
        }
    }
}

#[cfg(test)]
mod tests;
