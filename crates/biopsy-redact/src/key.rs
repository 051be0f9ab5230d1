//! Key rules: a secret that is told by the name in front of it.
//!
//! A keyword was found; this file looks at the name around it, decides whether the name says "secret", finds how the
//! value is attached, reads it and asks whether it can be one.

use std::collections::HashSet;
use std::ops::Range;

use crate::check::Check;
use crate::key_name::{NAME_REACH, ends_word, name_bounds, starts_word, word_before};
use crate::mention::is_mentioned;
use crate::place::LastPlace;
use crate::plausible::{self, Lists};
use crate::published::is_in_digest;
use crate::quote::Quote;
use crate::rules::{Boundary, Rule, Strength};
use crate::scrambled::{is_no_name, is_unspoken};
use crate::source::{
    begins_sentence, is_count, is_declaration, is_metavariable, is_own_name, is_remark, is_sentence,
    is_source, is_variable,
};
use crate::value::{self, How, Value};
use crate::words::words_of;
use crate::{aligned, cells, composite, harmless, phrase};

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
    check: Option<Check>,
    compound: bool,
    random_run: usize,
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
            check: rule.check,
            compound: rule.compound,
            random_run: rule.random_run,
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
            // The search knows the two cases of ASCII alone.
            if !word.is_ascii() {
                let mut letters = word.chars();
                let capital = letters.next().map(|first| first.to_uppercase().chain(letters).collect());
                keywords.extend(capital);
                keywords.push(word.to_uppercase());
            }
        }
        keywords
    }

    /// The values that belong to the keyword at `word`, if its name says that they are secrets.
    /// `last` is of this text, for the rules that are asked about one name.
    pub(crate) fn find(
        &self,
        text: &[u8],
        word: Range<usize>,
        lists: &Lists,
        last: &mut LastPlace,
    ) -> Vec<Value> {
        let Some(name) = self.name_around(text, word.clone(), lists) else { return Vec::new() };
        let Some(place) = last.place_of_value(text, &name) else {
            return self.in_cells(text, &name, lists);
        };
        let is_said = place.how == How::Beside && Quote::at(text, place.at).is_none();
        // `Option DBPASS is "x"`
        let is_told = place.how == How::Beside
            && name.end < place.at
            && matches!(text[name.end..place.at].trim_ascii(), b"is" | b"was");
        if place.how == How::Beside
            && !self.beside
            && !is_said
            && !is_told
            && !is_statement(text, &place)
            && !is_compound(text, &name, &word)
        {
            return Vec::new();
        }
        let is_token = |value: &Value| {
            let bytes = &text[value.range.clone()];
            plausible::is_strong(bytes, Strength::Token)
                || phrase::is_phrase(bytes)
                || text[name.clone()].contains(&b'_') && plausible::is_uuid(bytes)
                || (self.uuid || value.quoted || self.strength == Strength::Any) && plausible::is_uuid(bytes)
                || value.quoted && bytes.len() >= 8 && bytes.iter().all(u8::is_ascii_digit)
                // `apiKey 692376ab-...` in a block of settings.
                || is_compound(text, &name, &word)
                    && plausible::is_uuid(bytes)
                    && is_alone_in_line(text, &value.range)
                || value.quoted
                    && bytes.len() >= 8
                    && plausible::is_of_a_cell(bytes)
                    && plausible::is_mixed(bytes)
        };
        let mut values = composite::read(text, place);
        // `--- PASS: TestVet (0.07s)`
        let is_timed = |value: &Value| {
            text[value.range.end..].starts_with(b" (")
                && text.get(value.range.end + 2).is_some_and(u8::is_ascii_digit)
        };
        if text[name.clone()] == *b"PASS"
            && (text[..name.start].ends_with(b"--- ") || values.iter().any(is_timed))
        {
            return Vec::new();
        }
        if is_said {
            for value in &mut values {
                value.range.end =
                    value.range.start + plausible::trim_end_punctuation(&text[value.range.clone()]).len();
            }
        }
        if place.how == How::Beside && (!self.beside || is_said) && !is_set(text, &name) {
            values.retain(is_token);
        }
        // A passphrase of several words goes to the end of its line.
        if place.whole_line && self.strength == Strength::Mixed {
            for value in values.iter_mut().filter(|value| !value.quoted) {
                let mut whole = value.clone();
                value::extend_to_line(text, &mut whole);
                if phrase::is_phrase(&text[whole.range.clone()]) {
                    *value = whole;
                }
            }
        }
        let is_of_phrase = text[name.clone()].to_ascii_lowercase().ends_with(b"phrase");
        let may_be_sentence = matches!(self.strength, Strength::Any | Strength::Mixed);
        let is_made_up = |value: &Value| {
            let bytes = &text[value.range.clone()];
            is_of_phrase && phrase::is_made_up_sentence(bytes)
                || may_be_sentence && phrase::is_numbered_sentence(bytes)
        };
        if is_of_phrase || may_be_sentence && matches!(place.how, How::Assigned { .. }) {
            for value in values.iter_mut().filter(|value| {
                !value.quoted && text.get(value.range.start).is_some_and(u8::is_ascii_uppercase)
            }) {
                let mut whole = value.clone();
                value::extend_to_line(text, &mut whole);
                if is_made_up(&whole) {
                    *value = whole;
                }
            }
        }
        // `pin the runner to windows-2019`: codes stand at once behind their name.
        if is_said && self.strength == Strength::Code {
            values.retain(|value| value.range.start <= name.end + 6);
        }
        // `key: |` of a workflow, with templates and paths below it.
        if place.how == How::Block
            && matches!(self.strength, Strength::Token | Strength::Random)
            && !values.iter().any(|value| plausible::is_strong(&text[value.range.clone()], self.strength))
        {
            return Vec::new();
        }
        // `InstrumentationKey: 7f3c...` behind a logger is a setting, and not a sentence.
        let is_identifier = !text[name.clone()].contains(&b' ');
        let part = word.clone();
        let word = &text[word];
        let is_id = |value: &Value| {
            is_identifier
                && self.uuid
                && self.strength == Strength::Token
                && matches!(place.how, How::Assigned { .. })
                && plausible::is_uuid(&text[value.range.clone()])
        };
        values.retain(|value| {
            is_made_up(value)
                || (self.accepts(text, value, place.how, lists) || is_id(value))
                    && !harmless::is_harmless(text, &name, &value.range, value.quoted)
                    && !is_variable(text, value, word)
                    && (!is_own_name(text, value, word) || !is_declaration(text, value.range.start))
                    && !is_metavariable(text, value, word)
                    && (plausible::is_random_with_brackets(&text[value.range.clone()])
                        || phrase::is_spoken_phrase(&text[value.range.clone()])
                        || !is_mentioned(text, &name, &part, value))
        });
        if self.strength == Strength::Any && place.whole_line {
            for value in values.iter_mut().filter(|value| !value.quoted) {
                value::extend_to_line(text, value);
            }
            values.retain(|value| {
                value.quoted || is_made_up(value) || !is_sentence(&text[value.range.clone()], lists)
            });
        } else if self.strength == Strength::Any {
            values.retain(|value| {
                value.quoted || is_made_up(value) || !begins_sentence(text, &value.range, lists)
            });
        }
        // `using RSA key 5BE8A3F6C8A5C01D106C0AD820B1A390B168D356`: the name of a public one.
        let is_id_of_key = |value: &[u8]| {
            matches!(value.len(), 8 | 16 | 40)
                && value.iter().all(|b| b.is_ascii_digit() || matches!(b, b'A'..=b'F'))
        };
        if is_said {
            values.retain(|value| {
                !is_about(
                    text.get(name.end..value.range.start).unwrap_or_default(),
                    &text[value.range.clone()],
                )
            });
            values.retain(|value| !is_setting(&text[value.range.clone()]));
            values.retain(|value| !is_word_of_code(text, &value.range));
            values.retain(|value| !is_id_of_key(&text[value.range.clone()]));
        }
        // A cell behind a tab looks like a word behind a blank.
        if values.is_empty() && is_said { self.in_cells(text, &name, lists) } else { values }
    }

    /// Values in cells of their own, beside or below the name.
    fn in_cells(&self, text: &[u8], name: &Range<usize>, lists: &Lists) -> Vec<Value> {
        // `"Unseal Key 1","x"`
        let number = text[name.end..].iter().skip(1).take(2).take_while(|b| b.is_ascii_digit()).count();
        let is_numbered = number > 0
            && text[name.end] == b' '
            && matches!(text.get(name.end + 1 + number), Some(b'"' | b'\t' | b'|'));
        let name = &(name.start..name.end + if is_numbered { 1 + number } else { 0 });
        // `the password of`: what goes on behind one blank is no cell, no row, no element and no header.
        let goes_on = text[name.end..].starts_with(b" ")
            && text.get(name.end + 1).is_some_and(|b| b.is_ascii_alphanumeric() || *b >= 0x80);
        if goes_on {
            return Vec::new();
        }
        let accepted = |how: How, mut values: Vec<Value>| {
            values.retain(|value| self.accepts(text, value, how, lists));
            values
        };
        if let Some(value) = cells::of_row(text, name).or_else(|| cells::of_elements(text, name)) {
            return accepted(How::Column, vec![value]);
        }
        let beside = accepted(How::Cell, cells::beside(text, name).into_iter().collect());
        // The cell behind the name of a column is the name of another one.
        if !beside.is_empty() {
            return beside;
        }
        let below = accepted(How::Column, cells::below(text, name));
        if below.is_empty() { accepted(How::Column, aligned::below(text, name)) } else { below }
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
            && self.is_random_enough(value)
            && (self.min_entropy <= 0.0 || plausible::entropy(value) >= self.min_entropy)
    }

    /// Has the value as long a random run as the rule asks for, and is it no id of a document (24 digits of hex)?
    fn is_random_enough(&self, value: &[u8]) -> bool {
        self.random_run == 0
            || (plausible::has_random_run(value, self.random_run)
                || plausible::is_random_between(value, self.random_run))
                && !(value.len() == 24 && value.iter().all(u8::is_ascii_hexdigit))
    }

    fn accepts(&self, text: &[u8], value: &Value, how: How, lists: &Lists) -> bool {
        let bytes = &text[value.range.clone()];
        if bytes.len() < self.min_length || plausible::is_placeholder(bytes, lists) {
            return false;
        }
        if self.check.is_some_and(|check| check.part(text, value.range.clone()).is_none()) {
            return false;
        }
        if how == How::Block {
            return true;
        }
        // Pairs of hex behind the name of a secret are its bytes.
        let is_of_bytes =
            !bytes.starts_with(b"SHA256:") && !bytes.starts_with(b"MD5:") && self.strength == Strength::Any;
        if is_fingerprint(bytes) && !is_of_bytes {
            return false;
        }
        let is_code = self.strength == Strength::Code && (4..=8).contains(&bytes.len());
        if how == How::Cell && !plausible::is_of_a_cell(bytes) && !is_code {
            return false;
        }
        if (value.quoted || matches!(how, How::Assigned { .. })) && lists.is_label(bytes) {
            return false;
        }
        if !value.quoted && is_count(text, &value.range) {
            return false;
        }
        // Rules of validation are quoted.
        if value.quoted && bytes.contains(&b'|') && plausible::is_code(bytes, lists) {
            return false;
        }
        let may_be_code =
            !value.quoted && !plausible::is_random_with_brackets(bytes) && !phrase::is_spoken_phrase(bytes);
        if may_be_code
            && (is_remark(text, value.range.start)
                || is_source(text, &value.range)
                || plausible::is_code(bytes, lists))
        {
            return false;
        }
        let (prose, compared) = match how {
            How::Assigned { prose, compared, .. } => (prose, compared),
            _ => (false, false),
        };
        if prose && !value.quoted && (is_setting(bytes) || is_word_of_code(text, &value.range)) {
            return false;
        }
        let goes_on = matches!(text.get(value.range.end..), Some([b' ', b'a'..=b'z', ..]));
        if (prose || compared || goes_on || how == How::Flag) && !value.quoted && lists.is_prose_word(bytes) {
            return false;
        }
        if ((prose && self.strict_prose) || (compared && !value.quoted))
            && !bytes.iter().any(|b| b.is_ascii_digit() || b"!@#$%^&*+=~".contains(b))
            && !(bytes.len() >= 8 && (is_no_name(bytes) || is_unspoken(bytes)))
            && !(value.quoted && phrase::is_phrase(bytes))
        {
            return false;
        }
        let is_attached = matches!(
            how,
            How::Assigned { prose: false, .. } | How::Flag | How::Element | How::Cell | How::Column
        ) || value.quoted
            // `secret_id             ae8ff90c-...`, `subscriberKey 8368a1ad-...` on a line of their own.
            || how == How::Beside && is_alone_in_line(text, &value.range);
        let is_uuid =
            self.strength == Strength::Token && self.uuid && is_attached && plausible::is_uuid(bytes);
        // `'db-pass': '60039199'`
        let is_number_in_quotes = self.strength == Strength::Mixed
            && value.quoted
            && bytes.len() >= 6
            && bytes.iter().all(u8::is_ascii_digit);
        (is_uuid
            || is_number_in_quotes
            || plausible::is_strong(bytes, self.strength) && self.is_random_enough(bytes))
            && (self.min_entropy <= 0.0 || plausible::entropy(bytes) >= self.min_entropy)
    }

    /// The name that the keyword is part of, unless its other words make it harmless.
    fn name_around(&self, text: &[u8], word: Range<usize>, lists: &Lists) -> Option<Range<usize>> {
        let name = name_bounds(text, word.clone());
        if is_in_digest(text, name.start) {
            return None;
        }
        if is_of_resource(text, name.clone()) || self.compound && name.len() == word.len() {
            return None;
        }
        if self.boundary == Boundary::Word
            && !(starts_word(text, word.start, name.start) && ends_word(text, word.end, name.end))
        {
            return None;
        }
        if self.boundary == Boundary::End {
            let before = text[name.start..word.start].to_ascii_lowercase();
            let is_joined = before.last().is_some_and(u8::is_ascii_alphabetic)
                && !starts_word(text, word.start, name.start);
            if word.end != name.end
                || !is_joined
                || self.neutral_before.iter().any(|neutral| before.ends_with(neutral))
            {
                return None;
            }
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
        // `ApiKeyHeader2` is as harmless as `ApiKeyHeader`.
        let without_number = |word: &[u8]| {
            let digits = word.iter().rev().take_while(|b| b.is_ascii_digit()).count();
            word.len() - digits
        };
        let is_listed = |word: &[u8]| lists.is_neutral_after(word) || in_set(&self.neutral_after, word);
        let is_neutral =
            |word: &[u8]| is_listed(word) || word.len() > 3 && word.strip_suffix(b"s").is_some_and(is_listed);
        if words_of(after).any(|word| is_neutral(word) || is_neutral(&word[..without_number(word)])) {
            return None;
        }
        Some(name)
    }
}

/// `SHA256:uNiVztks...`: what everybody may know of a key.
fn is_fingerprint(value: &[u8]) -> bool {
    let is_pair = |pair: &[u8]| pair.len() == 2 && pair.iter().all(u8::is_ascii_hexdigit);
    value.starts_with(b"SHA256:")
        || value.starts_with(b"MD5:")
        || value.len() == 47 && value.split(|b| *b == b':').all(is_pair)
}

/// What numbers of errors and warnings begin with: .NET's tokens, compilers, build, packages, sign-on of Azure, Oracle, TypeScript.
const CODES: [&[u8]; 14] = [
    b"IDX", b"CS", b"BC", b"FS", b"CA", b"MSB", b"NU", b"NETSDK", b"AADSTS", b"ORA", b"TNS", b"PLS", b"TS",
    b"SYSLIB",
];

/// `IDX10223:` is the number of an error, `rabbit_password_hashing_sha256` the name of a module.
fn is_word_of_code(text: &[u8], value: &Range<usize>) -> bool {
    let bytes = &text[value.clone()];
    let is_colon = bytes.ends_with(b":") || text.get(value.end) == Some(&b':');
    let bare = bytes.strip_suffix(b":").unwrap_or(bytes);
    let letters = bare.iter().take_while(|b| b.is_ascii_uppercase()).count();
    let is_number = is_colon
        && CODES.contains(&&bare[..letters])
        && (3..=7).contains(&(bare.len() - letters))
        && bare[letters..].iter().all(u8::is_ascii_digit);
    let digits = bare.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let words = &bare[..bare.len() - digits];
    let is_module = digits <= 3
        && words.iter().filter(|b| **b == b'_').count() >= 2
        && words.iter().all(|b| b.is_ascii_lowercase() || *b == b'_')
        && [&b"password"[..], b"hash", b"token", b"secret", b"auth"]
            .iter()
            .any(|word| memchr::memmem::find(words, word).is_some());
    is_number || is_module
}

/// ` id: ` behind `user secrets`, ` type: ` behind `token`: one word, and it says that it is about the secret. More of them
/// are a sentence that may end in it: `Passphrase for key 'id_rsa': x`. What is said of a secret may be the secret, where it looks like one; behind
/// ` revoked: ` and ` hint: `, unless it is a plain word.
fn is_about(between: &[u8], value: &[u8]) -> bool {
    let Some(word) = between.trim_ascii().strip_suffix(b":") else { return false };
    match word {
        b"id" | b"ids" | b"name" | b"length" | b"version" | b"type" => !plausible::is_no_word(value),
        b"revoked" | b"hint" => value.iter().all(|b| b.is_ascii_alphabetic()),
        _ => false,
    }
}

/// `min_length=12`: in a sentence, the name and value of something else.
fn is_setting(value: &[u8]) -> bool {
    let Some(sign) = memchr::memchr(b'=', value) else { return false };
    let (name, setting) = (&value[..sign], &value[sign + 1..]);
    name.len() >= 3
        && name.iter().all(|b| b.is_ascii_lowercase() || matches!(b, b'_' | b'.' | b'-'))
        && (setting.iter().all(|b| b.is_ascii_digit() || *b == b'.')
            || setting.iter().all(u8::is_ascii_alphabetic))
}

/// Does the value end its line, and stand behind a wide gap, or as the second of two words on it?
fn is_alone_in_line(text: &[u8], value: &Range<usize>) -> bool {
    let rest = text[value.end..].iter().find(|b| !matches!(b, b' ' | b'\r'));
    let before = &text[value.start.saturating_sub(2 * NAME_REACH)..value.start];
    let line = memchr::memrchr(b'\n', before).map_or(before, |newline| &before[newline + 1..]);
    matches!(rest, None | Some(b'\n'))
        && (line.ends_with(b"  ") || !line.trim_ascii().iter().any(u8::is_ascii_whitespace))
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

/// `secret "x";`, `user "ann" pass "x"` at the end of a line: nothing follows that a sentence would go on with.
fn is_statement(text: &[u8], place: &value::Place) -> bool {
    let Some(value) = value::quoted(text, place.at) else { return false };
    let Some((_, length)) = Quote::at(text, value.range.end) else { return false };
    let behind = value::skip_blank(text, value.range.end + length);
    matches!(text.get(behind), None | Some(b';' | b'\n' | b'\r' | b'}' | b'"' | b'\\' | b'<' | b'&'))
}

/// `(setq key "x")`, `set $key "x"`, `app config set key x`: statements that set a variable.
fn is_set(text: &[u8], name: &Range<usize>) -> bool {
    let before = &text[name.start.saturating_sub(80)..name.start];
    let is_command = [
        &b"config set "[..],
        b"config:set ",
        b"secret set ",
        b"secrets set ",
        b"variable set ",
        b"env set ",
        b"CONFIG SET ",
    ]
    .iter()
    .any(|command| before.ends_with(command));
    if is_command {
        return true;
    }
    let is_path = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b':' | b'_' | b'.' | b'-' | b'$');
    let before = &before[..before.len() - before.iter().rev().take_while(is_path).count()];
    [&b"(setq "[..], b"(define ", b"(def ", b"(setf ", b"(defvar "]
        .iter()
        .any(|start| before.ends_with(start))
        || before.trim_ascii_start() == b"set " && text[name.start] == b'$'
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_code_and_words_about_secrets_are_told() {
        for (text, wanted) in [
            ("IDX10223: Lifetime", true),
            ("ORA-01017: x", false),
            ("HUNTER22 now", false),
            ("HUNTER2024: wrong", false),
            ("rabbit_password_hashing_sha256", true),
            ("blue_tea_pot77", false),
            ("Kd83jsQm2x", false),
        ] {
            let end = text.find([':', ' ']).unwrap_or(text.len());
            assert_eq!(is_word_of_code(text.as_bytes(), &(0..end)), wanted, "{text}");
        }
        for (between, value, wanted) in [
            (" id: ", "shop-orders", true),
            (" id: ", "7Gh2kLm9QpXz4sVb1", false),
            (" type: ", "Bearer", true),
            (" revoked: ", "billing", true),
            (" revoked: ", "q6zt5f", false),
            (" hint: ", "horse-7", false),
            (": ", "billing", false),
            (" for key 'id_rsa': ", "billing", false),
            (" of id 7 is ", "billing", false),
        ] {
            assert_eq!(is_about(between.as_bytes(), value.as_bytes()), wanted, "{between}{value}");
        }
    }
}
