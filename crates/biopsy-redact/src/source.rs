//! Source code and documentation in the place of a value: variables, types, calls, names of things that are called after secrets.

use std::ops::Range;

use crate::plausible::{self, Lists};
use crate::value::Value;

/// `secret: Kind = x`, `ptr = state->secret;`, `key = svld1(p)`: source code, in which nothing that is no string is a value. A space
/// in front tells it from `password=a->b`.
pub(crate) fn is_source(text: &[u8], range: &Range<usize>) -> bool {
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
    // Types: `Option<u16>,`, `&'a [u8],`, and what is made: `Offer {`.
    let head =
        value.iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':' | b'.')).count();
    let is_type = head > 0
        && value[0].is_ascii_uppercase()
        && value.get(head) == Some(&b'<')
        && value.get(head + 1).is_some_and(|b| b.is_ascii_alphabetic() || *b == b'&');
    // Names that have no digit: one that has may be a password. What logs put between two fields, ` - ` and ` | `, is no sign of code.
    let is_plain = |bytes: &[u8]| is_name(bytes) && !bytes.iter().any(u8::is_ascii_digit);
    let goes_on = [&b" + "[..], b" * ", b" . ", b" ||", b" &&", b" ? ", b" <<"];
    let variable = value.strip_prefix(b"$").unwrap_or(value);
    let is_made = is_plain(variable)
        && (goes_on.iter().any(|sign| behind.starts_with(sign))
            || value[0].is_ascii_uppercase() && behind.starts_with(b" {"));
    let is_go = text[..range.start].trim_ascii_end().ends_with(b":=")
        && is_plain(&value[..value.iter().position(|b| b"([{".contains(b)).unwrap_or(value.len())]);
    let is_borrowed =
        [&b"&'a "[..], b"&'a", b"&'_", b"&'static"].iter().any(|start| value.starts_with(start));
    if is_type || is_made || is_go || is_borrowed || value.starts_with(b"[]") {
        return true;
    }
    // Variables of Perl, PHP and shells: `$pass,`, `\&fetch`.
    let bare = value.trim_ascii_end();
    let bare = bare.strip_suffix(b";").or_else(|| bare.strip_suffix(b",")).unwrap_or(bare);
    let is_word =
        |bytes: &[u8]| bytes.len() > 1 && bytes.iter().all(|b| b.is_ascii_lowercase() || *b == b'_');
    if bare.strip_prefix(b"$").or_else(|| bare.strip_prefix(b"\\&")).is_some_and(is_word)
        || is_declared(text, range) && (is_plain(bare) || is_name(bare) && bare.contains(&b'.'))
    {
        return true;
    }
    // References and pointers.
    let target = value.strip_prefix(b"&").or_else(|| value.strip_prefix(b"*")).unwrap_or(value);
    let target = target.strip_prefix(b"mut ").unwrap_or(target);
    let named = &target[..target.iter().position(|b| matches!(b, b'<' | b'{')).unwrap_or(target.len())];
    if target.len() < value.len() && (target.starts_with(b"[") || is_name(named.trim_ascii_end())) {
        return true;
    }
    // Calls, members and paths.
    let head = value.iter().position(|b| matches!(b, b'(' | b'-' | b'[' | b'{')).unwrap_or(value.len());
    let (name, rest) = value.split_at(head);
    let goes_on = [&b"("[..], b"->", b"["].iter().any(|sign| rest.starts_with(sign))
        || rest.starts_with(b"{") && is_plain(name);
    (is_name(name) && (goes_on || memchr::memmem::find(name, b"::").is_some()))
        || (rest.is_empty() && is_statement(text, range, value))
}

/// Is it on a line that declares something: `let secret = self`, `type PrivateKey = ed25519.PrivateKey`?
pub(crate) fn is_declared(text: &[u8], range: &Range<usize>) -> bool {
    matches!(text.get(range.end), None | Some(b'\n' | b'\r' | b';' | b','))
        && is_declaration(text, range.start)
}

/// Does the line of this place begin as a declaration in source code does?
pub(crate) fn is_declaration(text: &[u8], at: usize) -> bool {
    let line = &text[at.saturating_sub(128)..at];
    let line = memchr::memrchr(b'\n', line).map_or(line, |newline| &line[newline + 1..]).trim_ascii_start();
    let words = [&b"let "[..], b"pub ", b"fn ", b"type ", b"func ", b"static ", b"var ", b"const "];
    words.iter().any(|word| line.starts_with(word))
}

/// `const COMMAND: &str = "request-secret"`: words in quotes with the name's own word among them name something.
pub(crate) fn is_own_name(text: &[u8], value: &Value, word: &[u8]) -> bool {
    let bytes = &text[value.range.clone()];
    let parts = bytes.split(|b| matches!(b, b'-' | b'_' | b'.'));
    value.quoted
        && bytes.len() > word.len() + 1
        && bytes.iter().all(|b| b.is_ascii_lowercase() || matches!(b, b'-' | b'_' | b'.'))
        && parts.clone().count() > 1
        && parts.clone().any(|part| part.eq_ignore_ascii_case(word))
}

/// `x = name;` at the end of a line: a name that no password generator and no person makes.
pub(crate) fn is_statement(text: &[u8], range: &Range<usize>, value: &[u8]) -> bool {
    let ends = match value.strip_suffix(b";") {
        Some(_) => matches!(text.get(range.end), None | Some(b'\n' | b'\r' | b' ')),
        None => matches!(text.get(range.end..range.end + 2), Some(b";\n" | b";\r")),
    };
    let name = value.strip_suffix(b";").unwrap_or(value);
    ends && name.iter().all(|b| b.is_ascii_alphabetic() || *b == b'_')
}

/// `password: (attempt 2)`: words in brackets.
pub(crate) fn is_remark(text: &[u8], at: usize) -> bool {
    let rest = &text[at..text.len().min(at + 128)];
    let Some(inside) = rest.strip_prefix(b"(") else { return false };
    let Some(end) = inside.iter().position(|b| matches!(b, b')' | b'\n')) else { return false };
    let words = &inside[..end];
    inside[end] == b')'
        && words.contains(&b' ')
        && words.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b' ' | b',' | b'-' | b'/' | b'\''))
}

/// `--password=PASSWORD`, as a program's help says it.
pub(crate) fn is_metavariable(text: &[u8], value: &Value, word: &[u8]) -> bool {
    let bytes = &text[value.range.clone()];
    bytes.len() >= word.len()
        && bytes.iter().all(|b| b.is_ascii_uppercase() || *b == b'_')
        && bytes[bytes.len() - word.len()..].eq_ignore_ascii_case(word)
        && !word.iter().any(u8::is_ascii_uppercase)
}

/// `secrets = ledger.Secrets`, `password=form.password`, `dbPassword: newPassword`: a variable that carries the name on.
pub(crate) fn is_variable(text: &[u8], value: &Value, word: &[u8]) -> bool {
    // `x = newPassword` is code; `x=newPassword` is a connection string.
    let spaced = value.range.start > 0 && text[value.range.start - 1].is_ascii_whitespace();
    let is_hump = |pair: &[u8]| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
    let bytes = &text[value.range.clone()];
    let bytes = bytes.strip_suffix(b",").or_else(|| bytes.strip_suffix(b";")).unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b"s").unwrap_or(bytes);
    !value.quoted
        && (bytes.contains(&b'.') || (spaced && bytes.windows(2).any(is_hump)))
        && bytes.len() >= word.len()
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphabetic() || matches!(b, b'.' | b'_') || spaced && b.is_ascii_digit())
        && bytes[bytes.len() - word.len()..].eq_ignore_ascii_case(word)
}

/// What sentences about a secret begin with in other languages: `wird bei der Anmeldung erfragt`.
const VERBS: [&[u8]; 20] = [
    b"wird", b"werden", b"wurde", b"wurden", b"kann", b"muss", b"darf", b"soll", b"sera", b"seront", b"doit",
    b"peut", b"debe", b"puede", b"viene", b"deve", b"wordt", b"moet", b"bude", b"musi",
];

/// `Passwords: see the administrator.`
pub(crate) fn is_sentence(value: &[u8], lists: &Lists) -> bool {
    let is_word = |word: &[u8]| word.iter().all(|b| b.is_ascii_alphabetic() || *b >= 0x80);
    let words = plausible::trim_end_punctuation(value);
    let mut all = words.split(|b| *b == b' ');
    let first = all.next().unwrap_or_default();
    let is_said = value.ends_with(b".")
        || lists.is_prose_word(first)
        || lists.is_trivial(first)
        || first.iter().all(u8::is_ascii_lowercase) && lists.is_of_sentence(first)
        // A passphrase may begin so, too, and has no article in it.
        || VERBS.contains(&first) && all.clone().take(3).any(|word| lists.is_of_sentence(word));
    is_said && words.contains(&b' ') && is_word(first) && all.all(is_word)
}

/// `Your password: keep it to yourself.`: a word that a sentence goes on behind.
pub(crate) fn begins_sentence(text: &[u8], value: &Range<usize>, lists: &Lists) -> bool {
    let rest = &text[value.start..text.len().min(value.start + 120)];
    let line = &rest[..memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len())];
    let words = plausible::trim_end_punctuation(line.trim_ascii_end());
    let is_word = |word: &[u8]| {
        !word.is_empty() && word.iter().all(|b| b.is_ascii_lowercase() || matches!(b, b'\'' | b','))
    };
    let all = || words.split(|b| *b == b' ');
    let said = all().skip(1).filter(|word| lists.is_of_sentence(word)).count();
    let is_told = VERBS.contains(&&text[value.clone()])
        && all().count() >= 3
        && all().skip(1).take(3).any(|word| lists.is_of_sentence(word));
    is_told
        || text[value.clone()].iter().all(u8::is_ascii_lowercase)
            && all().count() >= 3
            && all().all(is_word)
            && (line.trim_ascii_end().ends_with(b".") && said > 0 || said >= 2)
}

/// `password: 3 failures`, `password:  16 bytes`, `string password = 3;`, `{type: string}`: a count, a field's number, a schema.
pub(crate) fn is_count(text: &[u8], range: &Range<usize>) -> bool {
    let value = &text[range.clone()];
    let behind = &text[range.end..text.len().min(range.end + 4)];
    let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
    let is_spaced = range.start > 0 && text[range.start - 1].is_ascii_whitespace();
    let is_short = (1..=4).contains(&digits);
    let counts = is_short && digits == value.len() && matches!(behind, [b' ', b'a'..=b'z', b'a'..=b'z', ..]);
    let is_field = is_short
        && is_spaced
        && (digits == value.len() && behind.starts_with(b";") || value[digits..] == *b";");
    let is_schema = value.starts_with(b"{")
        && value.len() > 2
        && value[1..value.len() - 1].iter().all(|b| b.is_ascii_alphabetic() || *b == b'$')
        && value.ends_with(b":");
    counts || is_field || is_schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Words;

    fn lists() -> Lists {
        Lists::new(Words::load().expect("the lists are right"))
    }

    /// The value that stands behind the first sign of a line.
    fn value_of(text: &str) -> Range<usize> {
        let sign = text.find([':', '=']).unwrap_or_default();
        let start = text.len() - text[sign..].trim_start_matches([':', '=', '>', ' ']).len();
        start..text.len()
    }

    #[test]
    fn source_code_is_told_from_values() {
        for (text, wanted) in [
            ("password: Option<String>,", true),
            ("secret = state->secret;", true),
            ("key = svld1(p)", true),
            ("password: &str", true),
            ("secret := newSecret(", true),
            ("token: []byte", true),
            ("pass: $pass,", true),
            ("let key = self;", true),
            ("secret = ledger::Secret", true),
            ("password: hunter2", false),
            ("password=a->b", false),
            ("password=newSecret(", false),
            ("password: Kq7x-m2pz", false),
            ("password: x9,y7", false),
            ("password = kq7x(m2", true),
        ] {
            assert_eq!(is_source(text.as_bytes(), &value_of(text)), wanted, "{text}");
        }
    }

    #[test]
    fn sentences_are_told_from_passphrases() {
        let lists = lists();
        for (text, wanted) in [
            ("see the administrator", true),
            ("is kept in the vault.", true),
            ("wird bei der Anmeldung erfragt", true),
            ("sera demandé à la connexion", true),
            ("muss in der Konsole gesetzt werden", true),
            ("muss garden goblet coral cricket", false),
            ("muss zebra comet bronze saddle", false),
            ("wird", false),
            ("amber garden goblet coral", false),
            ("Amber Garden Goblet Coral", false),
            ("the9 garden goblet", false),
        ] {
            assert_eq!(is_sentence(text.as_bytes(), &lists), wanted, "{text}");
        }
        for (text, wanted) in [
            ("password: keep it to yourself.", true),
            ("password: hunter2 is the one", false),
            ("password: wird bei der Anmeldung erfragt", true),
            ("password: muss garden goblet coral", false),
            ("password: keep", false),
        ] {
            let value = value_of(text);
            let end = text[value.start..].find(' ').map_or(text.len(), |blank| value.start + blank);
            assert_eq!(begins_sentence(text.as_bytes(), &(value.start..end), &lists), wanted, "{text}");
        }
    }

    #[test]
    fn counts_remarks_and_metavariables_are_none() {
        for (text, value, wanted) in [
            ("password: 3 failures", "3", true),
            ("password: 12345 failures", "12345", false),
            ("string password = 3;", "3;", true),
            ("password: 3", "3", false),
            ("password=3", "3", false),
            ("password: 33kern", "33kern", false),
        ] {
            let at = text.find(value).expect("the value");
            assert_eq!(is_count(text.as_bytes(), &(at..at + value.len())), wanted, "{text}");
        }
        for (text, wanted) in [
            ("(attempt 2)", true),
            ("(Kq7x)", false),
            ("(two words", false),
            ("two words", false),
            ("(a;b c)", false),
        ] {
            assert_eq!(is_remark(text.as_bytes(), 0), wanted, "{text}");
        }
        let bare = |text: &str| Value { range: 0..text.len(), quoted: false, open: false, wrap: None };
        for (text, word, wanted) in [
            ("PASSWORD", &b"password"[..], true),
            ("DB_PASSWORD", b"password", true),
            ("DB_PASSWORD", b"PASSWORD", false),
            ("HUNTERS", b"password", false),
            ("PASSWORD9", b"password", false),
        ] {
            assert_eq!(is_metavariable(text.as_bytes(), &bare(text), word), wanted, "{text}");
        }
        let quoted = |text: &str| Value { range: 0..text.len(), quoted: true, open: false, wrap: None };
        for (text, wanted) in [
            ("request-secret", true),
            ("secret", false),
            ("request-secret7", false),
            ("request-river", false),
            ("Request-Secret", false),
        ] {
            assert_eq!(is_own_name(text.as_bytes(), &quoted(text), b"secret"), wanted, "{text}");
        }
    }

    #[test]
    fn variables_carry_the_name_on() {
        for (text, word, wanted) in [
            ("x = form.password", &b"password"[..], true),
            ("x=form.password", b"password", true),
            ("x = newPassword", b"Password", true),
            // A connection string has no blank there.
            ("x=newPassword", b"Password", false),
            ("x = Kq7xPassword!", b"Password", false),
            ("x = password", b"password", false),
        ] {
            let value = Value { range: value_of(text), quoted: false, open: false, wrap: None };
            assert_eq!(is_variable(text.as_bytes(), &value, word), wanted, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_place_is_taken(text in "[a-zA-Z0-9&*$:;=<>()\\[\\]{} .\n-]{0,60}", start in 0_usize..60, length in 0_usize..40) {
            let start = start.min(text.len());
            let range = start..text.len().min(start + length);
            let value = Value { range: range.clone(), quoted: false, open: false, wrap: None };
            let (bytes, lists) = (text.as_bytes(), lists());
            is_source(bytes, &range);
            is_count(bytes, &range);
            is_remark(bytes, start);
            is_variable(bytes, &value, b"key");
            is_metavariable(bytes, &value, b"key");
            is_sentence(&bytes[range.clone()], &lists);
            begins_sentence(bytes, &range, &lists);
        }
    }
}
