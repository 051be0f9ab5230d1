//! Where the value of a name stands: behind a sign, in an element, beside or below it.

use std::ops::Range;

use crate::element::element;
use crate::plausible;
use crate::quote::Quote;
use crate::rules::Strength;
use crate::value::{How, KeyQuote, Place, skip_blank, skip_space};
use crate::{answered, attribute, below, declared, fallback, lead, marks, reported};

/// Operations of WildFly on what the name in front of the colon is called.
const CALLS: [&[u8]; 3] =
    [b"add(value=", b"write-attribute(name=value,value=", b"write-attribute(name=value, value="];

/// The place found last in a text: several rules ask about one name, one after the other.
#[derive(Default, Debug)]
pub(crate) struct LastPlace {
    of: Option<(Range<usize>, Option<Place>)>,
}

impl LastPlace {
    /// Where the value of a name is, and how it is attached. Every call is about the same text.
    pub(crate) fn place_of_value(&mut self, text: &[u8], name: &Range<usize>) -> Option<Place> {
        match &self.of {
            Some((known, place)) if known == name => *place,
            _ => {
                let place = place_of_value(text, name.clone());
                self.of = Some((name.clone(), place));
                place
            }
        }
    }
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
    // `"user[key]":"x"`: the bracket stands inside of the quotes.
    let is_member = key > 0
        && text[key - 1] == b'['
        && text.get(name.end) == Some(&b']')
        && Quote::at(text, name.end + 1).is_some();
    let mut at = name.end + usize::from(is_member);
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
    at += marks::around(text, &name, at, quote);
    // `key[$e]=x` of KDE
    if text[at..].starts_with(b"[$") {
        let flags = text[at + 2..].iter().take(3).take_while(|b| b.is_ascii_lowercase()).count();
        at += if flags > 0 && text.get(at + 2 + flags) == Some(&b']') { flags + 3 } else { 0 };
    }
    let behind = behind_dots(text, at, behind_accessors(text, skip_blank(text, at)));
    if text.get(behind) == Some(&b':')
        && let Some(place) = answered::below_heading(text, &name)
    {
        return Some(place);
    }
    if let Some((value_at, how, whole_line)) = assigned(text, &name, behind, key_quote.is_some()) {
        let is_dialogue = whole_line || key_quote.is_none();
        if is_dialogue && let Some(word) = answer(text, &name, value_at) {
            return Some(Place { key, at: word, how: How::Beside, key_quote, whole_line: false });
        }
        return Some(Place { key, at: value_at, how, key_quote, whole_line });
    }
    element(text, &name)
        .or_else(|| reported::place(text, &name))
        .or_else(|| answered::place(text, &name))
        .or_else(|| flag(text, &name, at, behind, key_quote.is_some()))
        .or_else(|| attribute::attribute(text, &name, key_quote.is_some()))
        .or_else(|| declared::place(text, &name))
        .or_else(|| beside(text, key, at, behind))
        .or_else(|| said(text, &name, at, behind))
        .or_else(|| below_sentence(text, &name))
}

/// `=`, `:`, `=>`, `->`, `:=`, `==`, percent-encoded or as `\u003d`.
fn assigned(text: &[u8], name: &Range<usize>, at: usize, quoted_key: bool) -> Option<(usize, How, bool)> {
    let rest = text.get(at..)?;
    let mut lower = [0; 7];
    let length = rest.len().min(lower.len());
    lower[..length].copy_from_slice(&rest[..length]);
    lower.make_ascii_lowercase();
    let lower = &lower[..length];
    let mut percent = false;
    let mut colon = false;
    let length = match lower {
        // The colon of full width that Chinese and Japanese texts have.
        [0xef, 0xbc, 0x9a, ..] => {
            colon = true;
            3
        }
        [b'=' | b'!', b'=', b'=', ..] => 3,
        // `gpg-preset-passphrase -> ../gnupg/gpg-preset-passphrase`: a link.
        [b'-', b'>', b' ', b'.' | b'/', ..] => return None,
        // `feature/api-keys -> origin/main`: so is that.
        [b'-', b'>', b' ', rest @ ..] if text[..name.start].ends_with(b"/") && is_branch(rest) => {
            return None;
        }
        [b'=', b'>' | b'=', ..] | [b'-', b'>', ..] => 2,
        // `token - 'x'`
        [b'-', b' ', b'\'' | b'"' | b'`', ..] if text.get(at.wrapping_sub(1)) == Some(&b' ') => {
            colon = true;
            1
        }
        // `DB_TOKEN - x1` alone in a line
        [b'-', b' ', ..] if marks::is_dash_of_line(text, name, at) => {
            colon = true;
            1
        }
        // `password - [x]`
        [b'-', b' ', b'[', ..] if text.get(at.wrapping_sub(1)) == Some(&b' ') => {
            colon = true;
            3
        }
        // `<-` of R, `?=` of make, `!=`, `+=`.
        [b'<', b'-', ..] | [b'?' | b'!' | b'+', b'=', ..] => 2,
        [b'=', ..] => 1,
        // `userPassword:: S2Q4` of LDIF.
        [b':', b':', b' ', ..] if !quoted_key => 2,
        [b':', b':', ..] => return None,
        // `${NAME:?it is not set}` of a shell.
        [b':', b'?', ..] if text[..name.start].ends_with(b"${") => return None,
        [b':', b'=', ..] => 2,
        [b':', ..] => {
            colon = true;
            1
        }
        // `s:8:"key";s:10:"x"`, as PHP writes it.
        [b';', b's', b':', b'0'..=b'9', ..] if quoted_key => {
            2 + memchr::memchr(b'"', &rest[..rest.len().min(16)])?.checked_sub(2)?
        }
        // `password ~> x` of Puppet and its kin.
        [b'~', b'>', ..] => 2,
        [b'%', b'3', b'd' | b'a', ..] => {
            percent = true;
            3
        }
        [b'\\', b'u', b'0', b'0', b'3', b'd' | b'a', ..] => 6,
        _ => return None,
    };
    let separator_end = at + length;
    // `**password:** x`: what makes the name bold ends behind the colon.
    let is_bold = colon && text[separator_end..].starts_with(b"**") && text[..name.start].ends_with(b"**");
    let separator_end = separator_end + if is_bold { 2 } else { 0 };
    // `/system-property=key:add(value="x")`
    let call = CALLS.iter().find(|call| colon && text[separator_end..].starts_with(call));
    let separator_end = separator_end + call.map_or(0, |call| call.len());
    let first = skip_blank(text, separator_end);
    let mut value = fallback::of_expression(text, first).unwrap_or_else(|| lead::quote_behind(text, first));
    // A value that begins on the next line, behind a backslash.
    if !quoted_key
        && text.get(value) == Some(&b'\\')
        && let Some(line) = below::newline(text, value + 1)
    {
        value = skip_blank(text, below::next_line(text, name.start, line)?);
    }
    let line_ends = matches!(text.get(value), Some(b'\n' | b'\r'));
    if line_ends
        && quoted_key
        && let Some(quote) = lead::quote_below(text, value)
    {
        value = quote;
    } else if line_ends && quoted_key {
        // The value may stand on the next line, unless that is the next key.
        value = skip_space(text, value);
        let (quote, length) = Quote::at(text, value).filter(|_| colon)?;
        let (end, _) = quote.close(text, value + length);
        let behind = Quote::at(text, end).map_or(end, |(_, length)| end + length);
        if text.get(skip_blank(text, behind)) == Some(&b':') {
            return None;
        }
    }
    // `const apiKey =` with the value on the next line.
    if line_ends && !quoted_key && text[..separator_end].ends_with(b"=") {
        let next = skip_space(text, value);
        value = Quote::at(text, next).map_or(value, |_| next);
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
    let line = &line[number_of_line(line)..];
    // `* *key*: x`
    let is_starred = line.ends_with(b"*") && text[..at].ends_with(b"*");
    let setting = starts_line
        && line
            .iter()
            .all(|b| b.is_ascii_whitespace() || matches!(b, b'-' | b'#') || is_starred && *b == b'*');
    let spaced = value > separator_end;
    // `X-Vault-Token: x` is a header wherever it stands.
    // So is what `curl -v` says that it sent or got.
    let is_header = name.len() > 4 && text[name.start..name.start + 2].eq_ignore_ascii_case(b"x-")
        || matches!(line, b"> " | b"< ");
    let prose = colon && spaced && !quoted_key && !setting && !is_header;
    let query = !percent && name.start > 0 && matches!(text[name.start - 1], b'?' | b'&') && !colon;
    let compared = lower.starts_with(b"==") || lower.starts_with(b"!=");
    if colon && let Some(default) = behind_type(text, value) {
        return Some((
            default,
            How::Assigned { prose: false, percent: false, query: false, compared: false },
            false,
        ));
    }
    // Only there may a value without quotes hold blanks: `password: two words`, `password = two words`.
    let whole_line =
        (setting || matches!(line, b"> " | b"< ")) && !quoted_key && spaced && (colon || at > name.end);
    Some((value, How::Assigned { prose, percent, query, compared }, whole_line))
}

/// Length of `   41<tab>`, `41:`, `41 | `: the number that a program puts in front of each line that it shows.
fn number_of_line(line: &[u8]) -> usize {
    let blanks = line.iter().take_while(|b| **b == b' ').count();
    let digits = line[blanks..].iter().take_while(|b| b.is_ascii_digit()).count();
    let behind = line[blanks + digits..].trim_ascii_start();
    let sign = line.len() - behind.len();
    match behind.first() {
        _ if !(1..=6).contains(&digits) => 0,
        _ if line[blanks + digits..].starts_with(b"\t") => sign,
        Some(b':' | b'|') => sign + 1,
        _ => 0,
    }
}

/// `Password { get; set; } = "x"`: the accessors of a property of C# stand between.
fn behind_accessors(text: &[u8], at: usize) -> usize {
    let rest = &text[at..text.len().min(at + 48)];
    if !rest.starts_with(b"{ get") {
        return at;
    }
    memchr::memmem::find(rest, b"} = ").map_or(at, |close| at + close + 2)
}

/// `key .......... : x`, `key.....: x`: dots lead to the sign.
fn behind_dots(text: &[u8], at: usize, behind: usize) -> usize {
    let dots = text[behind..].iter().take(96).take_while(|b| **b == b'.').count();
    let sign = skip_blank(text, behind + dots);
    let is_leader = dots >= 3 && (behind > at || dots >= 4) && matches!(text.get(sign), Some(b':' | b'='));
    if is_leader { sign } else { behind }
}

/// `: String = "x"`, `: &str = "x"`, `: Option<string> = 'x'`: what is assigned behind a type.
fn behind_type(text: &[u8], at: usize) -> Option<usize> {
    let rest = &text[at..text.len().min(at + 48)];
    let kind = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || b"_&<>[]?.: |'".contains(b)).count();
    let value = rest.get(kind..)?.strip_prefix(b"=")?.trim_ascii_start();
    let is_type = kind > 1 && rest[kind - 1] == b' ' && rest[0].is_ascii_alphabetic() | (rest[0] == b'&');
    (is_type && matches!(value.first(), Some(b'"' | b'\'' | b'`'))).then(|| at + rest.len() - value.len())
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
    if !text[..at].ends_with(b":") && !text[..at].ends_with(b": ") {
        return None;
    }
    let word = below::word_below(text, name.start, line)?;
    let value = &text[word.clone()];
    let is_answer = if asks { plausible::is_of_a_cell(value) } else { plausible::is_no_word(value) };
    is_answer.then_some(word.start)
}

/// `Password for the user x (see y):` with the value alone on the next line.
fn below_sentence(text: &[u8], name: &Range<usize>) -> Option<Place> {
    let rest = &text[name.end..text.len().min(name.end + SENTENCE_MAX)];
    let line = memchr::memchr(b'\n', rest)?;
    let sentence = rest[..line].trim_ascii_end();
    let is_sentence = sentence.starts_with(b" ") && sentence.ends_with(b":") && !sentence.contains(&b'"');
    let word = below::word_below(text, name.start, name.end + sentence.len()).filter(|_| is_sentence)?;
    let behind = &text[word.end..text.len().min(word.end + SENTENCE_MAX)];
    let is_alone = behind.iter().find(|b| !matches!(b, b' ' | b'\r')).is_none_or(|b| *b == b'\n');
    let place =
        Place { key: name.start, at: word.start, how: How::Beside, key_quote: None, whole_line: false };
    (is_alone && plausible::is_of_a_cell(&text[word])).then_some(place)
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

/// `--key value`, `-Key value`, and as JSON or Python lists: `"--key", "value"`.
fn flag(text: &[u8], name: &Range<usize>, at: usize, behind: usize, quoted: bool) -> Option<Place> {
    let dash = name.start.checked_sub(1)?;
    let dash = dash_of_sections(text, name.start).unwrap_or(dash);
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
        // `--no-password        never prompt for a password`: what a program's help says of the option.
        let rest = &text[behind..text.len().min(behind + 64)];
        let word = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        if behind > at + 1
            && rest[..word].iter().all(u8::is_ascii_alphabetic)
            && rest.get(word) == Some(&b' ')
        {
            return None;
        }
        // `  -pass val                  Private key and cert file`: and what it says of the option's argument.
        let gap = rest[word..].iter().take_while(|b| **b == b' ').count();
        if gap >= 3
            && rest[..word].iter().all(u8::is_ascii_lowercase)
            && rest.get(word + gap).is_some_and(u8::is_ascii_uppercase)
            && is_first_of_line(text, dash)
        {
            return None;
        }
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

/// `--Shop:Db:Password x`: where the dash is of an option that names a setting by its sections.
fn dash_of_sections(text: &[u8], name: usize) -> Option<usize> {
    const SECTIONS_MAX: usize = 64;
    let is_of_section = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b':' | b'_' | b'.');
    let length = text[..name].iter().rev().take(SECTIONS_MAX).take_while(is_of_section).count();
    let sections = text[name - length..name].strip_suffix(b":")?;
    sections.first().filter(|b| b.is_ascii_alphabetic())?;
    (name - length).checked_sub(1).filter(|dash| text[*dash] == b'-')
}

/// Does a name of a branch come first: words, and slashes between them?
fn is_branch(text: &[u8]) -> bool {
    let length = text.iter().take_while(|b| !b.is_ascii_whitespace()).count();
    let words = &text[..length];
    words.contains(&b'/')
        && words.iter().all(|b| b.is_ascii_lowercase() || matches!(b, b'/' | b'-' | b'_' | b'.'))
}

/// Stands nothing but blanks in front of this on its line?
fn is_first_of_line(text: &[u8], at: usize) -> bool {
    let before = &text[..at];
    let before = before.strip_suffix(b"-").unwrap_or(before);
    matches!(before.iter().rev().find(|b| **b != b' '), None | Some(b'\n'))
}

/// Behind a slash: one word, and a value that could be one.
fn is_windows_option(text: &[u8], name: &Range<usize>, behind: usize) -> bool {
    let value = text.get(behind..).unwrap_or_default();
    let value = &value[..value.iter().position(u8::is_ascii_whitespace).unwrap_or(value.len())];
    text[name.clone()].iter().all(u8::is_ascii_alphanumeric)
        && !value.contains(&b'=')
        && !value.iter().all(u8::is_ascii_alphabetic)
}

/// `password 'x'`, `password is "x"`, and `passphrase for key.pem: "x"`.
fn beside(text: &[u8], key: usize, at: usize, behind: usize) -> Option<Place> {
    if behind == at || !is_whole_of_quotes(text, key, at) {
        return None;
    }
    let rest = &text[behind..];
    let word = [b"is ".as_slice(), b"was ", b"of "].into_iter().find(|word| rest.starts_with(word));
    let value = match word {
        Some(word) => behind + word.len(),
        // `set shop.key to "x"`
        None if rest.starts_with(b"to ") && is_set(text, key) => behind + 3,
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

/// Does `set` stand in front of the path that ends with the name?
fn is_set(text: &[u8], key: usize) -> bool {
    let is_path = |b: &&u8| b.is_ascii_alphanumeric() || b":_.-/[]".contains(b);
    let path = key - text[..key].iter().rev().take(96).take_while(is_path).count();
    let before = &text[path.saturating_sub(8)..path];
    [&b"set "[..], b"Set ", b"setting ", b"Setting "].iter().any(|word| before.ends_with(word))
}

/// Is the name, which has a quote behind it, all that stands in its quotes? `"https://x/choose-a-password" "x"` has two cells.
fn is_whole_of_quotes(text: &[u8], key: usize, at: usize) -> bool {
    let Some(quote) = at.checked_sub(1).and_then(|last| text.get(last)).filter(|b| matches!(b, b'"' | b'\''))
    else {
        return true;
    };
    let is_path = |b: &&u8| b.is_ascii_alphanumeric() || *b >= &0x80 || b":_.-/ []".contains(b);
    let path = text[..key].iter().rev().take(96).take_while(is_path).count();
    let path = &text[key - path..key];
    path.is_empty()
        || text.get(key.wrapping_sub(path.len() + 1)) == Some(quote)
            && !path.starts_with(b"/")
            && memchr::memmem::find(path, b"//").is_none()
            && !path.contains(&b' ')
}

/// `DB_PASSWORD x1` as a directive, `password is x1`, `temporary password generated for root: x1`: only what looks like nothing
/// else is taken there.
fn said(text: &[u8], name: &Range<usize>, at: usize, behind: usize) -> Option<Place> {
    // `example.com/key 0a1b` is a name with a hash.
    if at != name.end || text[..name.start].ends_with(b"/") {
        return None;
    }
    // `PASSWORD(x1)`
    if text.get(at) == Some(&b'(') {
        let at = at + 1 + Quote::at(text, at + 1).map_or(0, |(_, length)| length);
        let inside = &text[at..text.len().min(at + 65)];
        let end = inside
            .iter()
            .position(|b| matches!(b, b')' | b'"' | b'\''))
            .filter(|end| plausible::is_no_word(&inside[..*end]))?;
        return (end > 0).then_some(Place {
            key: name.start,
            at,
            how: How::Beside,
            key_quote: None,
            whole_line: false,
        });
    }
    if behind == at {
        return None;
    }
    let rest = &text[behind..text.len().min(behind + 128)];
    let rest = &rest[..rest
        .iter()
        .position(|b| matches!(b, b'\n' | b'\r' | b'"' | b'<' | b'{' | 0))
        .unwrap_or(rest.len())];
    let is_directive = text[name.clone()].contains(&b'_') || is_line_of_two(text, name, behind);
    let place = |offset: usize| {
        let at = skip_blank(text, behind + offset);
        Some(Place { key: name.start, at, how: How::Beside, key_quote: None, whole_line: false })
    };
    let is_value = |offset: usize| {
        let behind = rest[offset..].trim_ascii_start();
        let word = &behind[..behind
            .iter()
            .position(|b| b.is_ascii_whitespace() || matches!(b, b'`' | b'\'' | b')' | b'\\'))
            .unwrap_or(behind.len())];
        let word = plausible::trim_end_punctuation(word.trim_ascii());
        plausible::is_strong(word, Strength::Token)
            || plausible::is_uuid(word)
            || Quote::at(behind, 0).is_some()
    };
    // Between the name and such a word stand a few words.
    let mut blanks = 0;
    let between = rest.iter().take_while(|b| {
        blanks += usize::from(**b == b' ');
        (b.is_ascii_alphabetic() || b" '@.-_".contains(b)) && blanks <= 7
    });
    let begins = |start: &usize| {
        matches!(rest.get(*start), Some(b'i' | b'w' | b'a' | b':' | b'f' | b't' | b'l' | b'e' | b'j' | 0xc3))
    };
    let found = (0..=between.count()).filter(begins).filter_map(|start| {
        let word = SAID.iter().position(|word| rest[start..].starts_with(word))?;
        is_value(start + SAID[word].len()).then_some((word, start))
    });
    if let Some((word, start)) = found.min() {
        return place(start + SAID[word].len());
    }
    // `password 0 x1`, `password ENC x1` of devices.
    for kind in [&b"0 "[..], b"5 ", b"7 ", b"8 ", b"9 ", b"ENC "] {
        if rest.starts_with(kind) && is_value(kind.len()) {
            return place(kind.len());
        }
    }
    // `Session Token x1`, `PASSWORD(x1)`: only what nobody writes in a sentence.
    let word = rest.iter().position(|b| b" \t,;`')]\\".contains(b)).unwrap_or(rest.len());
    if is_directive || plausible::is_no_word(plausible::trim_end_punctuation(&rest[..word])) {
        return place(0);
    }
    None
}

/// `  password x1;`: nothing but a name and one word that no sentence has.
fn is_line_of_two(text: &[u8], name: &Range<usize>, behind: usize) -> bool {
    let before = &text[name.start.saturating_sub(64)..name.start];
    let before = &before[before.iter().rposition(|b| *b == b'\n').map_or(0, |newline| newline + 1)..];
    let rest = &text[behind..text.len().min(behind + 128)];
    let line = rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())].trim_ascii_end();
    let line = line.strip_suffix(b";").unwrap_or(line);
    let is_one = !line.is_empty()
        && !line.iter().any(|b| b.is_ascii_whitespace() || *b == b'/')
        && text[name.end..behind].iter().all(|b| *b == b' ');
    let begins = before.iter().all(|b| matches!(b, b' ' | b'\t'))
        || text[name.clone()].contains(&b'-') && before.iter().all(|b| b.is_ascii_lowercase() || *b == b' ');
    is_one && begins && line.iter().any(u8::is_ascii_digit)
}

/// Longest sentence with its value below, in bytes.
const SENTENCE_MAX: usize = 160;

/// What stands between a name and a value in a sentence.
const SAID: [&[u8]; 13] = [
    b"lautet ",
    b"ist ",
    b"es ",
    b"est ",
    b"jest ",
    b"\xc3\xa8 ",
    b"is: ",
    b"is ",
    b"was ",
    b"are ",
    b": ",
    b"from ",
    b"to ",
];
