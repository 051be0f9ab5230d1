//! Text from processes and files, made safe to show.
//!
//! A name may hold escape sequences that command a terminal, characters that turn the direction of writing, and line ends
//! that make a second line look like ours.

use std::borrow::Cow;

/// On one line: control characters and characters that turn the direction of writing become visible escapes.
#[must_use]
pub fn printable(text: &str) -> String {
    shown(text, |_| false).into_owned()
}

/// The same for a text of several lines: its line ends and tabs stay.
#[must_use]
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    shown(text, |character| matches!(character, '\n' | '\t'))
}

/// A JSON document in which the same characters are written as escapes. JSON has them in strings only, so that the
/// document means what it meant.
#[must_use]
pub fn printable_json(document: String) -> String {
    let stays = |character: char| character == '\n' || !is_harmful(character);
    if document.chars().all(stays) {
        return document;
    }
    let mut out = String::with_capacity(document.len() + 64);
    let mut units = [0; 2];
    for character in document.chars() {
        if stays(character) {
            out.push(character);
        } else {
            for unit in character.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

fn shown(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|character| is_harmful(character) && !stays(character)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_harmful(character) && !stays(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
}

/// Whether a character must not reach a terminal as it is: control characters (of ASCII, and C1), marks and overrides of the
/// direction of writing, separators of lines, and what has no width and hides differences between names (`Default_Ignorable_Code_Point` of
/// Unicode). Of these only the variation selectors stay that are behind signs in ordinary text.
#[must_use]
pub fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_not_commanded() {
        assert_eq!(printable("a b(c)é"), "a b(c)é");
        assert_eq!(printable("x\ny\u{1b}[2J\u{202e}\u{9b}"), "x\\ny\\u{1b}[2J\\u{202e}\\u{9b}");
        assert_eq!(printable_lines("a\n\tb\r\u{7f}"), "a\n\tb\\r\\u{7f}");
    }

    /// Every character there is: nothing harmful comes out, and what comes out is not changed again.
    #[test]
    fn of_all_characters_none_that_harms_is_shown() {
        for character in '\0'..=char::MAX {
            let text = format!("a{character}b");
            let (line, lines, json) = (
                printable(&text),
                printable_lines(&text).into_owned(),
                printable_json(format!("\"{text}\"")),
            );
            let harms = |text: &str| text.chars().any(is_harmful);
            assert!(!harms(&line), "{character:?}");
            assert!(!harms(&lines) || matches!(character, '\n' | '\t'), "{character:?}");
            assert!(!harms(&json) || character == '\n', "{character:?}");
            assert_eq!(printable(&line), line);
            assert_eq!(line == text, !is_harmful(character), "{character:?}");
        }
    }

    #[test]
    fn documents_mean_what_they_meant() {
        let document = "{\n  \"a\": \"x\u{9b}\u{202e}é\u{e0041}\u{7f}\"\n}";
        assert_eq!(
            printable_json(document.to_owned()),
            "{\n  \"a\": \"x\\u009b\\u202eé\\udb40\\udc41\\u007f\"\n}"
        );
    }

    /// Whoever reads a document reads what was in it: each escape, put back, is the character that it stands for.
    #[test]
    fn escapes_of_a_document_are_the_characters_that_were_there() {
        let harmful: Vec<char> = ('\0'..=char::MAX).filter(|one| is_harmful(*one) && *one != '\n').collect();
        assert!(harmful.len() > 150, "{}", harmful.len());
        for character in harmful {
            let shown = printable_json(character.to_string());
            let units: Vec<u16> = shown
                .split("\\u")
                .skip(1)
                .map(|unit| u16::from_str_radix(unit, 16).expect("four digits each"))
                .collect();
            assert_eq!(shown.len(), units.len() * 6, "{shown}");
            assert_eq!(String::from_utf16(&units).unwrap(), character.to_string());
        }
    }

    #[test]
    fn what_harms_nobody_is_not_copied() {
        for text in ["", "plain", "tab\tand\nlines", "ü 漢 🙂"] {
            assert!(matches!(printable_lines(text), Cow::Borrowed(same) if same == text), "{text}");
        }
        let document = "{\"a\": 1}\n".to_owned();
        let place = document.as_ptr();
        let same = printable_json(document);
        assert_eq!(same.as_ptr(), place, "a large report is not written twice");
    }
}
