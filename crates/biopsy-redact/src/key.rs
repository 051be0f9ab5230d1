//! Key rules: a secret that is told by the name in front of it.
//!
//! A keyword was found; this file looks at the name around it, decides whether the name says "secret", finds how the
//! value is attached, reads it and asks whether it can be one.

use std::collections::HashSet;
use std::ops::Range;

use crate::below;
use crate::cells;
use crate::plausible::{self, Lists};
use crate::quote::Quote;
use crate::rules::{Boundary, Rule, Strength};
use crate::shape::escape_before;
use crate::value::{self, How, KeyQuote, Place, Value, skip_blank, skip_space};

/// Longest name looked at on each side of the keyword, in bytes.
const NAME_REACH: usize = 64;
/// How far an attribute `value=` may be from `name="password"`, in bytes.
const ATTRIBUTE_REACH: usize = 256;
/// How far the end of an element may be from its beginning, in bytes: longer than any token.
const CLOSING_REACH: usize = 16 << 10;

/// A key rule, ready to be asked.
#[derive(Debug)]
pub(crate) struct KeyRule {
    boundary: Boundary,
    neutral_before: HashSet<Vec<u8>>,
    neutral_after: HashSet<Vec<u8>>,
    strength: Strength,
    strict_prose: bool,
    beside: bool,
    uuid: bool,
    min_length: usize,
    min_entropy: f64,
}

impl KeyRule {
    /// Takes over a rule of a pack.
    pub(crate) fn new(rule: &Rule) -> Self {
        let set = |words: &[String]| words.iter().map(|word| word.as_bytes().to_ascii_lowercase()).collect();
        Self {
            boundary: rule.boundary,
            neutral_before: set(&rule.neutral_before),
            neutral_after: set(&rule.neutral_after),
            strength: rule.strength,
            strict_prose: rule.strict_prose,
            beside: rule.beside,
            uuid: rule.uuid,
            min_length: rule.min_length,
            min_entropy: rule.min_entropy,
        }
    }

    /// The literals to search for: each word with its spaces replaced.
    pub(crate) fn keywords(rule: &Rule) -> Vec<String> {
        let mut keywords = Vec::new();
        for word in &rule.words {
            if word.contains(' ') {
                keywords.extend(["", "_", "-", " ", "."].iter().map(|joiner| word.replace(' ', joiner)));
            } else {
                keywords.push(word.clone());
            }
        }
        keywords
    }

    /// The values that belong to the keyword at `word`, if its name says that they are secrets.
    pub(crate) fn find(&self, text: &[u8], word: Range<usize>, lists: &Lists) -> Vec<Value> {
        let Some(name) = self.name_around(text, word.clone(), lists) else { return Vec::new() };
        let Some(place) = place_of_value(text, name.clone()) else {
            return self.in_cells(text, &name, lists);
        };
        let is_said = place.how == How::Beside && Quote::at(text, place.at).is_none();
        if place.how == How::Beside && !self.beside && !is_said && !is_compound(text, &name, &word) {
            return Vec::new();
        }
        let is_token = |value: &Value| {
            let value = &text[value.range.clone()];
            plausible::is_strong(value, Strength::Token) || self.uuid && plausible::is_uuid(value)
        };
        let mut values = value::read(text, place);
        if is_said {
            for value in &mut values {
                value.range.end =
                    value.range.start + plausible::trim_end_punctuation(&text[value.range.clone()]).len();
            }
        }
        if place.how == How::Beside && (!self.beside || is_said) {
            values.retain(is_token);
        }
        let word = &text[word];
        values.retain(|value| {
            self.accepts(text, value, place.how, lists)
                && !is_variable(text, value, word)
                && !is_metavariable(text, value, word)
        });
        if self.strength == Strength::Any && place.whole_line {
            for value in values.iter_mut().filter(|value| !value.quoted) {
                value::extend_to_line(text, value);
            }
            values.retain(|value| value.quoted || !is_sentence(&text[value.range.clone()], lists));
        }
        values
    }

    /// Values in cells of their own, beside or below the name.
    fn in_cells(&self, text: &[u8], name: &Range<usize>, lists: &Lists) -> Vec<Value> {
        let (how, mut values) = match cells::beside(text, name) {
            Some(value) => (How::Cell, vec![value]),
            None => (How::Column, cells::below(text, name)),
        };
        values.retain(|value| self.accepts(text, value, how, lists));
        values
    }

    /// Is this the name of an environment variable or an option whose value is a secret? The whole of `name` is
    /// looked at, whatever its value is.
    pub(crate) fn names_a_secret(&self, name: &[u8], word: Range<usize>, lists: &Lists) -> bool {
        self.name_around(name, word, lists).is_some_and(|range| range == (0..name.len()))
    }

    /// Could this be the value of such a name?
    pub(crate) fn accepts_value(&self, value: &[u8], lists: &Lists) -> bool {
        value.len() >= self.min_length
            && !plausible::is_placeholder(value, lists)
            && !plausible::is_code(value, lists)
            && (plausible::is_strong(value, self.strength) || self.uuid && plausible::is_uuid(value))
            && (self.min_entropy <= 0.0 || plausible::entropy(value) >= self.min_entropy)
    }

    fn accepts(&self, text: &[u8], value: &Value, how: How, lists: &Lists) -> bool {
        let bytes = &text[value.range.clone()];
        if bytes.len() < self.min_length || plausible::is_placeholder(bytes, lists) {
            return false;
        }
        if how == How::Block {
            return true;
        }
        if how == How::Cell && !plausible::is_of_a_cell(bytes) {
            return false;
        }
        if !value.quoted && (is_remark(text, value.range.start) || is_source(text, &value.range)) {
            return false;
        }
        if !value.quoted && plausible::is_code(bytes, lists) {
            return false;
        }
        let (prose, compared) = match how {
            How::Assigned { prose, compared, .. } => (prose, compared),
            _ => (false, false),
        };
        if (prose || compared) && !value.quoted && lists.is_prose_word(bytes) {
            return false;
        }
        if ((prose && self.strict_prose) || (compared && !value.quoted))
            && !bytes.iter().any(|b| b.is_ascii_digit() || b"!@#$%^&*+=".contains(b))
        {
            return false;
        }
        let is_attached = matches!(
            how,
            How::Assigned { prose: false, .. } | How::Flag | How::Element | How::Cell | How::Column
        );
        let is_uuid =
            self.strength == Strength::Token && self.uuid && is_attached && plausible::is_uuid(bytes);
        (is_uuid || plausible::is_strong(bytes, self.strength))
            && (self.min_entropy <= 0.0 || plausible::entropy(bytes) >= self.min_entropy)
    }

    /// The name that the keyword is part of, unless its other words make it harmless.
    fn name_around(&self, text: &[u8], word: Range<usize>, lists: &Lists) -> Option<Range<usize>> {
        let name = name_bounds(text, word.clone());
        if is_of_resource(text, name.clone()) {
            return None;
        }
        if self.boundary == Boundary::Word
            && !(starts_word(text, word.start, name.start) && ends_word(text, word.end, name.end))
        {
            return None;
        }
        let before = &text[name.start..word.start];
        if !self.neutral_before.is_empty()
            && words_of(before)
                .chain(word_before(text, name.start))
                .any(|word| in_set(&self.neutral_before, word))
        {
            return None;
        }
        // A plural's `s` is part of the word.
        let after = &text[word.end..name.end];
        let after = match after {
            [b's' | b'S', rest @ ..] if rest.first().is_none_or(|b| !b.is_ascii_lowercase()) => rest,
            other => other,
        };
        if words_of(after).any(|word| lists.is_neutral_after(word) || in_set(&self.neutral_after, word)) {
            return None;
        }
        Some(name)
    }
}

/// `secret: Kind = x`, `ptr = state->secret;`, `key = svld1(p)`: source code, in which nothing that is no string is a value. A space
/// in front tells it from `password=a->b`.
fn is_source(text: &[u8], range: &Range<usize>) -> bool {
    let is_spaced = range.start > 0 && text[range.start - 1].is_ascii_whitespace();
    let value = &text[range.clone()];
    let is_name = |bytes: &[u8]| {
        bytes.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_')
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':'))
    };
    if !is_spaced {
        return false;
    }
    // The type of what is declared: it is followed by what it gets.
    let behind = &text[range.end..text.len().min(range.end + 3)];
    if is_name(value) && behind.starts_with(b" =") && !behind.starts_with(b" ==") {
        return true;
    }
    // References and pointers.
    let target = value.strip_prefix(b"&").or_else(|| value.strip_prefix(b"*")).unwrap_or(value);
    let target = target.strip_prefix(b"mut ").unwrap_or(target);
    if target.len() < value.len() && (target.starts_with(b"[") || is_name(target.trim_ascii_end())) {
        return true;
    }
    // Calls, members and paths.
    let head = value.iter().position(|b| matches!(b, b'(' | b'-' | b'[')).unwrap_or(value.len());
    let (name, rest) = value.split_at(head);
    let goes_on = rest.starts_with(b"(") || rest.starts_with(b"->") || rest.starts_with(b"[");
    (is_name(name) && (goes_on || memchr::memmem::find(name, b"::").is_some()))
        || (rest.is_empty() && is_statement(text, range, value))
}

/// `x = name;` at the end of a line: a name that no password generator and no person makes.
fn is_statement(text: &[u8], range: &Range<usize>, value: &[u8]) -> bool {
    let ends = match value.strip_suffix(b";") {
        Some(_) => matches!(text.get(range.end), None | Some(b'\n' | b'\r' | b' ')),
        None => matches!(text.get(range.end..range.end + 2), Some(b";\n" | b";\r")),
    };
    let name = value.strip_suffix(b";").unwrap_or(value);
    ends && name.iter().all(|b| b.is_ascii_alphabetic() || *b == b'_')
}

/// `password: (attempt 2)`: words in brackets.
fn is_remark(text: &[u8], at: usize) -> bool {
    let rest = &text[at..text.len().min(at + 128)];
    let Some(inside) = rest.strip_prefix(b"(") else { return false };
    let Some(end) = inside.iter().position(|b| matches!(b, b')' | b'\n')) else { return false };
    let words = &inside[..end];
    inside[end] == b')'
        && words.contains(&b' ')
        && words.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b' ' | b',' | b'-' | b'/' | b'\''))
}

/// A name of several words (`AUTH_KEY`), or one that Lisp sets: `(setq psk "x")`.
fn is_compound(text: &[u8], name: &Range<usize>, word: &Range<usize>) -> bool {
    let before = &text[name.start.saturating_sub(16)..name.start];
    name.len() > word.len()
        || [&b"(setq "[..], b"(define ", b"(def ", b"(setf ", b"(defvar "]
            .iter()
            .any(|start| before.ends_with(start))
        || text[word.clone()].contains(&b'_')
}

/// `--password=PASSWORD`, as a program's help says it.
fn is_metavariable(text: &[u8], value: &Value, word: &[u8]) -> bool {
    let bytes = &text[value.range.clone()];
    bytes.len() >= word.len()
        && bytes.iter().all(|b| b.is_ascii_uppercase() || *b == b'_')
        && bytes[bytes.len() - word.len()..].eq_ignore_ascii_case(word)
        && !word.iter().any(u8::is_ascii_uppercase)
}

/// `secrets = ledger.Secrets`, `password=form.password`, `dbPassword: newPassword`: a variable that carries the name on.
fn is_variable(text: &[u8], value: &Value, word: &[u8]) -> bool {
    // `x = newPassword` is code; `x=newPassword` is a connection string.
    let spaced = value.range.start > 0 && text[value.range.start - 1].is_ascii_whitespace();
    let is_hump = |pair: &[u8]| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
    let bytes = &text[value.range.clone()];
    let bytes = bytes.strip_suffix(b",").or_else(|| bytes.strip_suffix(b";")).unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b"s").unwrap_or(bytes);
    !value.quoted
        && (bytes.contains(&b'.') || (spaced && bytes.windows(2).any(is_hump)))
        && bytes.len() >= word.len()
        && bytes.iter().all(|b| b.is_ascii_alphabetic() || matches!(b, b'.' | b'_'))
        && bytes[bytes.len() - word.len()..].eq_ignore_ascii_case(word)
}

/// `Passwords: see the administrator.`
fn is_sentence(value: &[u8], lists: &Lists) -> bool {
    let is_word = |word: &[u8]| word.iter().all(|b| b.is_ascii_alphabetic() || *b >= 0x80);
    let words = plausible::trim_end_punctuation(value);
    let mut all = words.split(|b| *b == b' ');
    let first = all.next().unwrap_or_default();
    let is_said = value.ends_with(b".") || lists.is_prose_word(first) || lists.is_trivial(first);
    is_said && words.contains(&b' ') && is_word(first) && all.all(is_word)
}

/// `arn:aws:secretsmanager:eu-west-1:1:secret:shop/db`: a part of a resource's name.
fn is_of_resource(text: &[u8], name: Range<usize>) -> bool {
    if name.start == 0 || text[name.start - 1] != b':' || text.get(name.end) != Some(&b':') {
        return false;
    }
    let before = &text[name.start.saturating_sub(256)..name.start];
    let start = before
        .iter()
        .rposition(|b| !b.is_ascii_alphanumeric() && !b":-_/".contains(b))
        .map_or(0, |at| at + 1);
    before[start..].starts_with(b"arn:") || before[start..].starts_with(b"urn:")
}

fn in_set(set: &HashSet<Vec<u8>>, word: &[u8]) -> bool {
    word.len() <= NAME_REACH && set.contains(word.to_ascii_lowercase().as_slice())
}

/// The name around a keyword: letters, digits, `_`, `$`, and `-` or `.` between them.
fn name_bounds(text: &[u8], word: Range<usize>) -> Range<usize> {
    let is_foreign = !text[word.clone()].is_ascii();
    let plain =
        |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'$' || is_foreign && b >= 0x80 && b != 0xef;
    let mut start = word.start;
    let floor = word.start.saturating_sub(NAME_REACH);
    // `?key` and `&key` begin where they say.
    let begins = matches!(text.get(word.start), Some(b'?' | b'&'));
    while start > floor && !begins {
        let byte = text[start - 1];
        let joined =
            matches!(byte, b'-' | b'.') && start - 1 > floor && text[start - 2].is_ascii_alphanumeric();
        if !plain(byte) && !joined {
            break;
        }
        start -= 1;
    }
    // The `n` of an escaped line end is no part of the name behind it, nor is the `3D` of `%3D` or the `u0022` of `\u0022`.
    if start > 0 {
        let escape = match text[start - 1] {
            b'\\' if matches!(text[start], b'n' | b'r' | b't') => 1,
            b'\\' if text[start] == b'u' => 5,
            b'%' => 2,
            _ => 0,
        };
        if escape > 0 && start + escape <= word.start && escape_before(&text[..start + escape]) {
            start += escape;
        }
        // Nor is the end of a colour code: `[1;32mpassword`.
        if matches!(text[start - 1], b'[' | b';') {
            let digits = text[start..word.start].iter().take_while(|b| b.is_ascii_digit()).count();
            if digits > 0 && text[start + digits] == b'm' && start + digits < word.start {
                start += digits + 1;
            }
        }
    }
    let mut end = word.end;
    let ceiling = text.len().min(word.end + NAME_REACH);
    while end < ceiling {
        let byte = text[end];
        let joined = matches!(byte, b'-' | b'.') && text.get(end + 1).is_some_and(u8::is_ascii_alphanumeric);
        if !plain(byte) && !joined {
            break;
        }
        end += 1;
    }
    start..end
}

/// The word in front of a name, one blank away: `cache key`.
fn word_before(text: &[u8], at: usize) -> Option<&[u8]> {
    let before = text[..at].strip_suffix(b" ")?;
    let length = before.iter().rev().take(NAME_REACH).take_while(|b| b.is_ascii_alphabetic()).count();
    (length > 0).then(|| &before[before.len() - length..])
}

fn starts_word(text: &[u8], at: usize, name_start: usize) -> bool {
    if at == name_start {
        return true;
    }
    let (before, first) = (text[at - 1], text[at]);
    !before.is_ascii_alphabetic()
        || (before.is_ascii_lowercase() && first.is_ascii_uppercase())
        || (before.is_ascii_uppercase()
            && first.is_ascii_uppercase()
            && text.get(at + 1).is_some_and(u8::is_ascii_lowercase))
}

fn ends_word(text: &[u8], at: usize, name_end: usize) -> bool {
    if at == name_end {
        return true;
    }
    let (last, next) = (text[at - 1], text[at]);
    if matches!(next, b's' | b'S') && (at + 1 == name_end || !text[at + 1].is_ascii_alphabetic()) {
        return true;
    }
    !next.is_ascii_alphabetic() || (next.is_ascii_uppercase() && last.is_ascii_lowercase())
}

/// The words of a name: split at what is no letter or digit, and at capitals.
fn words_of(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < name.len() && !name[at].is_ascii_alphanumeric() {
            at += 1;
        }
        if at >= name.len() {
            return None;
        }
        let start = at;
        at += 1;
        while at < name.len() && name[at].is_ascii_alphanumeric() {
            let (last, next) = (name[at - 1], name[at]);
            let capital = next.is_ascii_uppercase() && !last.is_ascii_uppercase();
            let acronym_ends = last.is_ascii_uppercase()
                && next.is_ascii_uppercase()
                && name.get(at + 1).is_some_and(u8::is_ascii_lowercase);
            if capital || acronym_ends {
                break;
            }
            at += 1;
        }
        Some(&name[start..at])
    })
}

/// Where the value of a name is, and how it is attached.
fn place_of_value(text: &[u8], name: Range<usize>) -> Option<Place> {
    let key = name.start;
    // `Unseal Key 1: x`
    let number = text[name.end..].iter().skip(1).take(2).take_while(|b| b.is_ascii_digit()).count();
    let is_numbered = number > 0
        && text[name.end] == b' '
        && text.get(name.end + 1 + number).is_some_and(|b| matches!(b, b':' | b'=' | b'"' | b'\t'));
    let name = if is_numbered { name.start..name.end + 1 + number } else { name };
    let mut at = name.end;
    let quote = Quote::at(text, at);
    let doubled = text[at..].starts_with(b"\"\"") && text[..key].ends_with(b"\"\"");
    let key_quote = quote.map(|(quote, _)| match quote {
        _ if doubled => KeyQuote::Doubled,
        Quote::Escaped { quote: b'"', backslashes } => KeyQuote::Json(backslashes),
        _ => KeyQuote::Other,
    });
    at += quote.map_or(0, |(_, length)| if doubled { 2 } else { length });
    if text.get(at) == Some(&b']') {
        at += 1;
        // `["key"]` closes its quote first, `user[key]` has none.
    }
    let behind = skip_blank(text, at);
    if let Some((value_at, how, whole_line)) = assigned(text, &name, behind, key_quote.is_some()) {
        let is_dialogue = !whole_line && key_quote.is_none() || whole_line;
        if is_dialogue && let Some(word) = answer(text, &name, value_at) {
            return Some(Place { key, at: word, how: How::Beside, key_quote, whole_line: false });
        }
        return Some(Place { key, at: value_at, how, key_quote, whole_line });
    }
    element(text, &name)
        .or_else(|| flag(text, &name, at, behind, key_quote.is_some()))
        .or_else(|| attribute(text, &name, key_quote.is_some()))
        .or_else(|| beside(text, key, at, behind))
        .or_else(|| said(text, &name, at, behind))
}

/// `=`, `:`, `=>`, `->`, `:=`, `==`, percent-encoded or as `\u003d`.
fn assigned(text: &[u8], name: &Range<usize>, at: usize, quoted_key: bool) -> Option<(usize, How, bool)> {
    let rest = text.get(at..)?;
    let lower: Vec<u8> = rest.iter().take(7).map(u8::to_ascii_lowercase).collect();
    let mut percent = false;
    let mut colon = false;
    let length = match lower.as_slice() {
        // The colon of full width that Chinese and Japanese texts have.
        [0xef, 0xbc, 0x9a, ..] => {
            colon = true;
            3
        }
        [b'=', b'=', b'=', ..] => 3,
        [b'=', b'>' | b'=', ..] | [b'-', b'>', ..] => 2,
        [b'=', ..] => 1,
        [b':', b':', ..] => return None,
        [b':', b'=', ..] => 2,
        [b':', ..] => {
            colon = true;
            1
        }
        [b'%', b'3', b'd' | b'a', ..] => {
            percent = true;
            3
        }
        [b'\\', b'u', b'0', b'0', b'3', b'd' | b'a', ..] => 6,
        _ => return None,
    };
    let separator_end = at + length;
    let mut value = skip_blank(text, separator_end);
    // A value that begins on the next line, behind a backslash.
    if !quoted_key
        && text.get(value) == Some(&b'\\')
        && let Some(line) = below::newline(text, value + 1)
    {
        value = skip_blank(text, below::next_line(text, name.start, line)?);
    }
    let line_ends = matches!(text.get(value), Some(b'\n' | b'\r'));
    if line_ends && quoted_key {
        // The value may stand on the next line, unless that is the next key.
        value = skip_space(text, value);
        let (quote, length) = Quote::at(text, value).filter(|_| colon)?;
        let (end, _) = quote.close(text, value + length);
        let behind = Quote::at(text, end).map_or(end, |(_, length)| end + length);
        if text.get(skip_blank(text, behind)) == Some(&b':') {
            return None;
        }
    }
    if colon && let Some(block) = yaml_block(text, value) {
        return Some((block, How::Block, false));
    }
    // `password: x` at the start of a line is a setting, elsewhere it is running text.
    let before = &text[name.start.saturating_sub(64)..name.start];
    let line = memchr::memrchr2(b'\n', 0, before).map_or(before, |newline| &before[newline + 1..]);
    let starts_line = name.start < 64 && line.len() == name.start || line.len() < before.len();
    // A byte order mark may stand in front.
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let setting = starts_line && line.iter().all(|b| b.is_ascii_whitespace() || matches!(b, b'-' | b'#'));
    let spaced = value > separator_end;
    let prose = colon && spaced && !quoted_key && !setting;
    let query = !percent && name.start > 0 && matches!(text[name.start - 1], b'?' | b'&') && !colon;
    let compared = lower.starts_with(b"==");
    // Only there may a value without quotes hold blanks: `password: two words`, `password = two words`.
    let whole_line = setting && !quoted_key && spaced && (colon || at > name.end);
    Some((value, How::Assigned { prose, percent, query, compared }, whole_line))
}

/// `Enter password:` with what was typed on the next line.
fn answer(text: &[u8], name: &Range<usize>, at: usize) -> Option<usize> {
    let line = below::newline(text, at)?;
    let before = &text[name.start.saturating_sub(64)..name.start];
    let start =
        memchr::memrchr(b'\n', before).map_or(before, |newline| &before[newline + 1..]).to_ascii_lowercase();
    let asks = [&b"enter "[..], b"type ", b"your ", b"new ", b"retype ", b"give "]
        .iter()
        .any(|word| memchr::memmem::find(&start, word).is_some());
    if !asks || !text[..at].ends_with(b":") && !text[..at].ends_with(b": ") {
        return None;
    }
    let word = below::word_below(text, name.start, line)?;
    plausible::is_of_a_cell(&text[word.clone()]).then_some(word.start)
}

/// `|`, `>`, `|-`, `>+2` at the end of the line: the start of the next line.
fn yaml_block(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    if !matches!(rest.first(), Some(b'|' | b'>')) {
        return None;
    }
    let line = memchr::memchr(b'\n', &rest[..rest.len().min(8)])?;
    rest[1..line]
        .iter()
        .all(|b| matches!(b, b'-' | b'+' | b'0'..=b'9' | b' ' | b'\r'))
        .then_some(at + line + 1)
}

/// `<key>` or `<x:key a="b">`.
fn element(text: &[u8], name: &Range<usize>) -> Option<Place> {
    let before = &text[..name.start];
    let before = match before.split_last() {
        Some((b':', prefix)) => {
            let length =
                prefix.iter().rev().take(16).take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
            &prefix[..prefix.len() - length]
        }
        _ => before,
    };
    if let Some(outer) = before.strip_suffix(b"&lt;") {
        let rest = &text[name.end..];
        if rest
            .strip_prefix(b"&gt;")
            .is_some_and(|behind| is_type_argument(outer, &text[name.clone()], behind))
        {
            return None;
        }
        return rest.starts_with(b"&gt;").then_some(Place {
            key: name.start,
            at: name.end + 4,
            how: How::CodedElement,
            key_quote: None,
            whole_line: false,
        });
    }
    let outer = before.strip_suffix(b"<")?;
    if text[name.end..]
        .strip_prefix(b">")
        .is_some_and(|behind| is_type_argument(outer, &text[name.clone()], behind))
    {
        return None;
    }
    let tag = &text[name.end..text.len().min(name.end + ATTRIBUTE_REACH)];
    let close = memchr::memchr2(b'>', b'<', tag)?;
    let opens =
        tag[close] == b'>' && (close == 0 || (tag[0].is_ascii_whitespace() && tag[close - 1] != b'/'));
    opens.then_some(Place {
        key: name.start,
        at: name.end + close + 1,
        how: How::Element,
        key_quote: None,
        whole_line: false,
    })
}

/// Whether what looks like an element is part of the name of code: `ValueTask<AccessToken>.GetAwaiter`, `<GetAccessToken>d__5.MoveNext`.
/// Seen in the stacks of every program with `Azure.Core`: the rest of the name was learned as a secret, found everywhere, and no
/// bundle was made.
fn is_type_argument(outer: &[u8], name: &[u8], behind: &[u8]) -> bool {
    // An element that is closed is one, whatever stands in it.
    if is_closed(name, behind) {
        return false;
    }
    // What compilers make: `d__5`, `g__Inner|3_0`, `c__DisplayClass`.
    if let [b'b' | b'c' | b'd' | b'g', b'_', b'_', ..] = behind {
        return true;
    }
    let of_type = outer.last().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let goes_on = behind.first().is_none_or(|byte| {
        byte.is_ascii_whitespace()
            || matches!(byte, b'.' | b'(' | b')' | b'[' | b']' | b',' | b'>' | b':' | b'+' | b'"' | b'\\')
    });
    of_type && (goes_on || behind.starts_with(b"&gt;"))
}

/// Whether the element `name` ends in what follows its beginning: `</name>`, `</space:name>`, also coded.
fn is_closed(name: &[u8], behind: &[u8]) -> bool {
    let reach = &behind[..behind.len().min(CLOSING_REACH)];
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'_' | b'-' | b'.');
    memchr::memmem::find_iter(reach, name).any(|at| {
        let start = reach[..at].iter().rposition(|byte| !is_of_name(byte)).map_or(0, |last| last + 1);
        [&b"</"[..], b"<\\/", b"&lt;/"].iter().any(|opening| reach[..start].ends_with(opening))
    })
}

/// `--key value`, `-Key value`, and as JSON or Python lists: `"--key", "value"`.
fn flag(text: &[u8], name: &Range<usize>, at: usize, behind: usize, quoted: bool) -> Option<Place> {
    let dash = name.start.checked_sub(1)?;
    let before = if text[dash] == b'-' {
        text[..dash].strip_suffix(b"-").unwrap_or(&text[..dash])
    } else {
        &text[..dash]
    };
    let is_flag = matches!(text[dash], b'-' | b'/')
        && before.last().is_none_or(|b| {
            // Beyond ASCII: a byte order mark, or an opening quote of typography.
            b.is_ascii_whitespace()
                || matches!(b, b'"' | b'\'' | b'`' | b'[' | b'(' | b'=' | b':' | b',' | 0 | 0x80..)
        });
    // `/password x` of Windows, and no path: `/secret-santa page=2`, `GET /password reset`.
    if !is_flag || (text[dash] == b'/' && !is_windows_option(text, name, behind)) {
        return None;
    }
    let value = if quoted && text.get(behind) == Some(&b',') {
        let value = skip_space(text, behind + 1);
        Quote::at(text, value)?;
        value
    } else if behind > at && !quoted {
        behind
    } else if text.get(at) == Some(&0) && !quoted {
        // `/proc/PID/cmdline` separates arguments with NUL.
        at + 1
    } else {
        return None;
    };
    if let Some(line) = text.get(value).filter(|b| **b == b'\\').and_then(|_| below::newline(text, value + 1))
    {
        let start = below::next_line(text, name.start, line)?;
        let value = skip_blank(text, start);
        return (value > start && text.get(value).is_some_and(|b| b.is_ascii_graphic() && *b != b'-'))
            .then_some(Place {
                key: name.start,
                at: value,
                how: How::Flag,
                key_quote: None,
                whole_line: false,
            });
    }
    (text
        .get(value)
        .is_some_and(|b| !matches!(b, b'-' | b'|' | b'>' | b'<' | b'[' | b'&' | b';' | b')' | b'\n' | b'\r')))
    .then_some(Place { key: name.start, at: value, how: How::Flag, key_quote: None, whole_line: false })
}

/// Behind a slash: one word, and a value that could be one.
fn is_windows_option(text: &[u8], name: &Range<usize>, behind: usize) -> bool {
    let value = text.get(behind..).unwrap_or_default();
    let value = &value[..value.iter().position(u8::is_ascii_whitespace).unwrap_or(value.len())];
    text[name.clone()].iter().all(u8::is_ascii_alphanumeric)
        && !value.contains(&b'=')
        && !value.iter().all(u8::is_ascii_alphabetic)
}

/// `name="key" value="x"`, `{"name": "KEY", "value": "x"}`, `- name: KEY` with `value: x` on the next line,
/// `<setting name="key"><value>x</value>`.
fn attribute(text: &[u8], name: &Range<usize>, quoted: bool) -> Option<Place> {
    // `Database:Password` is a path.
    let path = text[..name.start]
        .iter()
        .rev()
        .take(64)
        .take_while(|b| b.is_ascii_alphanumeric() || b":_.-".contains(b))
        .count();
    let start =
        if path > 0 && text[name.start - 1] == b':' && path < 64 { name.start - path } else { name.start };
    let mut before = &text[start.saturating_sub(32)..start];
    if quoted {
        let trimmed = before.iter().rposition(|b| !matches!(b, b'"' | b'\'' | b'\\')).map_or(0, |at| at + 1);
        before = &before[..trimmed];
    }
    before = before.trim_ascii_end();
    let before = before.strip_suffix(b"=").or_else(|| before.strip_suffix(b":"))?;
    let before = before.trim_ascii_end();
    let end = before.iter().rposition(|b| !matches!(b, b'"' | b'\'' | b'\\')).map_or(0, |at| at + 1);
    let label_start = before[..end].iter().rposition(|b| !b.is_ascii_alphabetic()).map_or(0, |at| at + 1);
    let label = before[label_start..end].to_ascii_lowercase();
    if !matches!(
        label.as_slice(),
        b"name"
            | b"key"
            | b"property"
            | b"variable"
            | b"field"
            | b"setting"
            | b"option"
            | b"type"
            | b"id"
            | b"param"
            | b"parameter"
    ) {
        return None;
    }
    let quote = Quote::at(text, name.end).map_or(0, |(_, length)| length);
    let behind = name.end + quote;
    if quoted
        && text.get(behind) == Some(&b'>')
        && text.get(behind + 1).is_some_and(|b| *b != b'<' && !b.is_ascii_whitespace())
    {
        return Some(Place {
            key: name.start,
            at: behind + 1,
            how: How::Element,
            key_quote: None,
            whole_line: false,
        });
    }
    if quoted
        && label == b"name"
        && let Some(part) = below::of_part(text, name.start, behind)
    {
        return Some(Place {
            key: name.start,
            at: part.start,
            how: How::Part,
            key_quote: None,
            whole_line: false,
        });
    }
    let reach = &text[name.end..text.len().min(name.end + ATTRIBUTE_REACH)];
    let stop = [b"}".as_slice(), b"/>", b"</", b"\n\n", b"- name"]
        .iter()
        .filter_map(|end| memchr::memmem::find(reach, end))
        .min()
        .unwrap_or(reach.len());
    let found = (0..stop.saturating_sub(4)).find(|at| {
        reach[*at..].len() >= 5
            && reach[*at..*at + 5].eq_ignore_ascii_case(b"value")
            && *at > 0
            && (!reach[*at - 1].is_ascii_alphanumeric()
                || reach[..*at].to_ascii_lowercase().ends_with(b"new"))
            && !reach.get(*at + 5).is_some_and(u8::is_ascii_alphanumeric)
    });
    let Some(found) = found else { return value_in_front(text, name, &label) };
    let mut at = name.end + found + 5;
    at += Quote::at(text, at).map_or(0, |(_, length)| length);
    at = skip_blank(text, at);
    match text.get(at)? {
        b'=' | b':' => {
            let how = How::Assigned { prose: false, percent: false, query: false, compared: false };
            Some(Place {
                key: name.start,
                at: skip_space(text, at + 1),
                how,
                key_quote: quoted.then_some(KeyQuote::Other),
                whole_line: false,
            })
        }
        b'>' => {
            Some(Place { key: name.start, at: at + 1, how: How::Element, key_quote: None, whole_line: false })
        }
        _ => None,
    }
}

/// `value="x" key="password"`, `{"value":"x","name":"password"}`: the value stands in front of the name.
fn value_in_front(text: &[u8], name: &Range<usize>, label: &[u8]) -> Option<Place> {
    if label == b"type" {
        return None;
    }
    let from = name.start.saturating_sub(ATTRIBUTE_REACH);
    let before = &text[from..name.start];
    let open =
        before.iter().rposition(|b| matches!(b, b'{' | b'<' | b'\n' | b'>' | b'}')).map_or(0, |at| at + 1);
    let at = open + memchr::memmem::rfind(&before[open..].to_ascii_lowercase(), b"value")?;
    let is_word = at > 0 && matches!(before[at - 1], b' ' | b'"' | b'\'' | b'{' | b',');
    let mut behind = from + at + 5;
    behind += Quote::at(text, behind).map_or(0, |(_, length)| length);
    behind = skip_blank(text, behind);
    let is_assigned = matches!(text.get(behind), Some(b'=' | b':'));
    let value = skip_blank(text, behind + 1);
    let how = How::Assigned { prose: false, percent: false, query: false, compared: false };
    (is_word && is_assigned && Quote::at(text, value).is_some()).then_some(Place {
        key: name.start,
        at: value,
        how,
        key_quote: Some(KeyQuote::Other),
        whole_line: false,
    })
}

/// `password 'x'`, `password is "x"`, and `passphrase for key.pem: "x"`.
fn beside(text: &[u8], key: usize, at: usize, behind: usize) -> Option<Place> {
    if behind == at {
        return None;
    }
    let rest = &text[behind..];
    let word = [b"is ".as_slice(), b"was ", b"of "].into_iter().find(|word| rest.starts_with(word));
    let value = match word {
        Some(word) => behind + word.len(),
        None if rest.starts_with(b"for ") => {
            let reach = &rest[..rest.len().min(100)];
            let end = reach.iter().position(|b| matches!(b, b'\n' | b'\r' | b'"' | 0)).unwrap_or(reach.len());
            behind + memchr::memmem::find(&reach[..end], b": ")? + 2
        }
        None => behind,
    };
    let (quote, length) = Quote::at(text, value)?;
    // An apostrophe is no quote, and a value must follow at once.
    let next = text.get(value + length)?;
    let plain = matches!(quote, Quote::Escaped { .. }) && !next.is_ascii_whitespace();
    plain.then_some(Place { key, at: value, how: How::Beside, key_quote: None, whole_line: false })
}

/// `DB_PASSWORD x1` as a directive, `password is x1`, `temporary password generated for root: x1`: only what looks like nothing
/// else is taken there.
fn said(text: &[u8], name: &Range<usize>, at: usize, behind: usize) -> Option<Place> {
    if behind == at || at != name.end {
        return None;
    }
    let rest = &text[behind..text.len().min(behind + 128)];
    let rest = &rest[..rest
        .iter()
        .position(|b| matches!(b, b'\n' | b'\r' | b'"' | b'<' | b'{' | 0))
        .unwrap_or(rest.len())];
    let is_directive = text[name.clone()].contains(&b'_');
    let place = |offset: usize| {
        let at = skip_blank(text, behind + offset);
        Some(Place { key: name.start, at, how: How::Beside, key_quote: None, whole_line: false })
    };
    for (start, word) in SAID.iter().filter_map(|word| Some((memchr::memmem::find(rest, word)?, word))) {
        let between = &rest[..start];
        let is_of_words = between.iter().all(|b| b.is_ascii_alphabetic() || b" '@.-_".contains(b));
        if is_of_words && between.iter().filter(|b| **b == b' ').count() <= 5 {
            return place(start + word.len());
        }
    }
    if is_directive { place(0) } else { None }
}

/// What stands between a name and a value in a sentence.
const SAID: [&[u8]; 7] = [b"is: ", b"is ", b"was ", b"are ", b": ", b"from ", b"to "];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_into_words() {
        let words = |name: &str| {
            words_of(name.as_bytes()).map(|w| String::from_utf8_lossy(w).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(words("DbPasswordHash"), ["Db", "Password", "Hash"]);
        assert_eq!(words("_min_length"), ["min", "length"]);
        assert_eq!(words("HTTPToken"), ["HTTP", "Token"]);
        assert_eq!(words("__"), Vec::<String>::new());
    }

    #[test]
    fn words_begin_and_end_where_case_or_separators_say() {
        let bounds = |text: &str, word: &str| {
            let at = text.find(word).expect("the word");
            let name = name_bounds(text.as_bytes(), at..at + word.len());
            (
                starts_word(text.as_bytes(), at, name.start),
                ends_word(text.as_bytes(), at + word.len(), name.end),
            )
        };
        assert_eq!(bounds("tokenizer=", "token"), (true, false));
        assert_eq!(bounds("authToken=", "Token"), (true, true));
        assert_eq!(bounds("AUTH_TOKEN=", "TOKEN"), (true, true));
        assert_eq!(bounds("APIToken=", "Token"), (true, true));
        assert_eq!(bounds("tokens=", "token"), (true, true));
        assert_eq!(bounds("betoken=", "token"), (false, true));
    }
}
