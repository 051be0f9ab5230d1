//! A name and a value side by side with a comma between them: a tuple (`{key, <<"x">>}`, `(key, "x")`), a call (`define( 'key', 'x' )`), or
//! two neighbours in a row of quotes (`'key', 'x' 'other', 'y'`).

use std::ops::Range;

use crate::lead;
use crate::made_up;
use crate::plausible;
use crate::quote::Quote;
use crate::value::{Value, quoted, skip_blank};

/// Blanks that align the values of several lines.
const BLANKS_MAX: usize = 48;

/// Longest arguments in front of the value of a setter, in bytes.
const ARGUMENTS_MAX: usize = 64;

/// The value beside the name.
pub(crate) fn find(text: &[u8], name: &Range<usize>, begin: usize) -> Option<Value> {
    match Quote::at(text, name.end) {
        Some((quote, length)) => beside_in_quotes(text, begin, quote, name.end + length),
        None => in_tuple(text, begin, name.end)
            .or_else(|| in_braces(text, name.end))
            .or_else(|| in_setter(text, name)),
    }
}

/// `{key, <<"x">>}`
fn in_tuple(text: &[u8], begin: usize, end: usize) -> Option<Value> {
    let open = blanks_before(text, begin);
    matches!(text.get(open.checked_sub(1)?), Some(b'{' | b'(')).then_some(())?;
    let comma = skip_blank(text, end);
    // `(key . "x")` of Lisp
    let is_dotted = comma > end && text[comma..].starts_with(b". ");
    (is_dotted || text.get(comma) == Some(&b',')).then_some(())?;
    let value = quoted(text, lead::quote_behind(text, skip_blank(text, comma + 1)))?;
    let (_, length) = Quote::at(text, value.range.end)?;
    let mut behind = value.range.end + length;
    behind += if text[behind..].starts_with(b">>") { 2 } else { 0 };
    let behind = skip_blank(text, behind);
    matches!(text.get(behind), None | Some(b'}' | b')' | b',')).then_some(value)
}

/// `key{"x"}`: a variable of C++ with its first value.
fn in_braces(text: &[u8], end: usize) -> Option<Value> {
    text.get(end..)?.strip_prefix(b"{")?;
    let value = quoted(text, end + 1)?;
    let (_, length) = Quote::at(text, value.range.end)?;
    (text.get(value.range.end + length) == Some(&b'}')).then_some(value)
}

/// `set_key(user, "x")`
fn in_setter(text: &[u8], name: &Range<usize>) -> Option<Value> {
    let called = &text[name.clone()];
    let is_setter = [&b"set"[..], b"change", b"update", b"with", b"reset"]
        .iter()
        .any(|verb| called.len() > verb.len() && called[..verb.len()].eq_ignore_ascii_case(verb));
    let rest = &text[name.end..text.len().min(name.end + ARGUMENTS_MAX)];
    let at = match rest {
        [b'(', arguments @ ..] if is_setter => {
            let last = arguments.iter().position(|b| b"\"'()\n".contains(b))?;
            arguments[..last].ends_with(b", ").then_some(last + 1)?
        }
        _ => return None,
    };
    let value = quoted(text, name.end + at)?;
    let (_, length) = Quote::at(text, value.range.end)?;
    (text.get(value.range.end + length) == Some(&b')')).then_some(value)
}

/// `( 'key',   'x' )`, `'key', 'x' 'other', 'y'`
fn beside_in_quotes(text: &[u8], begin: usize, quote: Quote<'_>, behind: usize) -> Option<Value> {
    let length = match quote {
        Quote::Escaped { backslashes, .. } => backslashes + 1,
        Quote::Coded(code) => code.len(),
    };
    let outer = begin.checked_sub(length)?;
    (Quote::at(text, outer).map(|(outer, _)| outer) == Some(quote)).then_some(())?;
    let open = blanks_before(text, outer);
    let is_call = open.checked_sub(1).is_some_and(|open| matches!(text[open], b'(' | b'{'));
    let is_in_row = open < outer || outer == 0 || matches!(text[outer - 1], b',' | b'[' | b'{');
    let is_separated = text.get(behind) == Some(&b',');
    if !is_separated || !is_call && !is_in_row {
        return None;
    }
    let at = lead::quote_behind(text, skip_blank(text, behind + 1));
    let (again, _) = Quote::at(text, at)?;
    // `{'key',"x"}`: each in quotes of its own.
    let is_mixed = is_call
        && matches!(
            (quote, again),
            (Quote::Escaped { backslashes: 0, .. }, Quote::Escaped { backslashes: 0, .. })
        );
    let value = quoted(text, at).filter(|_| again == quote || is_mixed)?;
    let end = skip_blank(text, value.range.end + length);
    let bytes = &text[value.range.clone()];
    let ends = text.get(end).is_none_or(|next| b",)]}\n\r".contains(next) || end > value.range.end + length);
    // In a row the neighbour of a name may be the next name: `'password', 'address2'`.
    let is_value = is_call
        || !made_up::is_named_like_code(bytes)
            && plausible::is_mixed(bytes)
            && bytes.iter().any(|b| b.is_ascii_digit() || b"!#$%^&*~?".contains(b));
    (ends && is_value).then_some(value)
}

fn blanks_before(text: &[u8], at: usize) -> usize {
    at - text[..at].iter().rev().take(BLANKS_MAX).take_while(|b| **b == b' ').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'t>(text: &'t str, name: &str) -> Option<&'t str> {
        let at = text.find(name).expect("the name");
        find(text.as_bytes(), &(at..at + name.len()), at).map(|value| &text[value.range])
    }

    #[test]
    fn names_and_values_stand_side_by_side() {
        for (text, value) in [
            ("{key, <<\"v1\">>}", Some("v1")),
            ("(key, \"v1\")", Some("v1")),
            ("(key . \"v1\")", Some("v1")),
            ("define( 'key',      'v1' );", Some("v1")),
            ("complete: ':path', '/a' 'key', 'Bl4u77' 'accept', '*/*'", Some("Bl4u77")),
            ("key{\"v1\"};", Some("v1")),
            ("f(key, v1)", None),
            ("['user', 'key', 'address2']", None),
            ("key, \"v1\"", None),
        ] {
            assert_eq!(of(text, "key"), value, "{text}");
        }
        assert_eq!(of("set_key(user, \"v1\")", "set_key"), Some("v1"));
        assert_eq!(of("get_key(user, \"v1\")", "get_key"), None);
    }
}
