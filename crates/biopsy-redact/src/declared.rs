//! What a declaration of Terraform gives to a name: `variable "db_password" { default = "x" }`.

use std::ops::Range;

use crate::quote::Quote;
use crate::value::{How, Place, skip_blank};

/// How far behind the name its value is looked for, in bytes.
const REACH: usize = 512;

/// Where the value of the variable is that is called so.
pub(crate) fn place(text: &[u8], name: &Range<usize>) -> Option<Place> {
    const WORD_MAX: usize = 64;
    let before = &text[name.start.saturating_sub(WORD_MAX)..name.start];
    let quote = before.iter().rposition(|b| *b == b'"')?;
    let is_variable = before[..quote].ends_with(b"variable ")
        && before[quote + 1..].iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    let behind = &text[name.end..text.len().min(name.end + REACH)];
    let word = behind.iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')).count();
    if !is_variable || !behind[word..].starts_with(b"\" {") {
        return None;
    }
    let body = &behind[..behind.iter().position(|b| *b == b'}').unwrap_or(behind.len())];
    // A description may have the word, too.
    let at = memchr::memmem::find_iter(body, b"default").find_map(|word| {
        let sign = skip_blank(text, name.end + word + b"default".len());
        let at = skip_blank(text, sign + 1);
        (text.get(sign) == Some(&b'=') && Quote::at(text, at).is_some()).then_some(at)
    })?;
    let how = How::Assigned { prose: false, percent: false, query: false, compared: false };
    Some(Place { key: name.start, at, how, key_quote: None, whole_line: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'t>(text: &'t str, name: &str) -> Option<&'t str> {
        let at = text.find(name).expect("the name");
        place(text.as_bytes(), &(at..at + name.len())).map(|place| &text[place.at..])
    }

    #[test]
    fn a_variable_has_its_default() {
        for (text, wanted) in [
            ("variable \"app_pwd\" {\n  type    = string\n  default = \"v1\"", Some("\"v1\"")),
            ("+variable \"pwd_of_app\" {\n+  default=\"v1\"", Some("\"v1\"")),
            (
                "variable \"app_pwd\" {\n  description = \"the default one\"\n  default = \"v1\"",
                Some("\"v1\""),
            ),
            ("variable \"app_pwd\" {\n  type = string\n}\nx { default = \"v1\"", None),
            ("variable \"app_pwd\" {\n  default = var.other", None),
            ("output \"app_pwd\" {\n  default = \"v1\"", None),
            ("variable app_pwd {\n  default = \"v1\"", None),
            ("variable \"the pwd\" {\n  default = \"v1\"", None),
        ] {
            assert_eq!(of(text, "pwd"), wanted, "{text}");
        }
    }
}
