//! Commands as lists of words (`["mysql", "-u", "root", "-p", "x"]`, as JSON, YAML and Python write them): as one would type them, with a
//! way back, so that the rules for programs read them.

use crate::escapes::Unescaped;
use crate::quote::Quote;

/// Most words of one command.
const WORDS_MAX: usize = 128;
/// Longest command, in bytes.
const BYTES_MAX: usize = 8 << 10;

/// The lists of words in `text` that have an option among them.
pub(crate) fn commands(text: &[u8]) -> Vec<Unescaped> {
    let mut found = Vec::new();
    let mut behind = 0;
    for at in memchr::memchr_iter(b'[', text) {
        if at < behind {
            continue;
        }
        if let Some((command, end)) = command(text, at + 1) {
            found.push(command);
            behind = end;
        }
    }
    found
}

/// The command whose list begins at `start`, and where it ends.
fn command(text: &[u8], start: usize) -> Option<(Unescaped, usize)> {
    let limit = text.len().min(start + BYTES_MAX);
    let mut undone = Unescaped { text: Vec::new(), at: Vec::new() };
    let mut at = skip_space(text, start);
    let (mut words, mut has_option, mut word_end) = (0, false, start);
    loop {
        let (quote, length) = Quote::at(text, at)?;
        let from = at + length;
        let (end, open) = quote.close(text, from);
        if open || end > limit || words >= WORDS_MAX {
            return None;
        }
        let word = &text[from..end];
        if words > 0 {
            undone.text.push(b' ');
            undone.at.push(word_end);
        }
        has_option |= words > 0 && word.len() > 1 && matches!(word[0], b'-' | b'/');
        has_option |= words == 0 && word.len() > 1 && word[0] == b'-';
        // A word of several needs its quotes.
        let is_quoted = word.contains(&b' ');
        let mut push = |byte: u8, place: usize| {
            undone.text.push(byte);
            undone.at.push(place);
        };
        if is_quoted {
            push(b'"', from);
        }
        word.iter().enumerate().for_each(|(index, byte)| push(*byte, from + index));
        if is_quoted {
            push(b'"', end);
        }
        words += 1;
        word_end = end;
        at = skip_space(text, end + Quote::at(text, end).map_or(1, |(_, length)| length));
        match text.get(at) {
            Some(b',') => at = skip_space(text, at + 1),
            Some(b']') => break,
            _ => return None,
        }
        if text.get(at) == Some(&b']') {
            break;
        }
    }
    // What follows the last word is its quote.
    let last = undone.at.last().map_or(at, |last| last + 1);
    undone.at.push(last);
    (words >= 2 && has_option).then_some((undone, at))
}

fn skip_space(text: &[u8], at: usize) -> usize {
    at + text.get(at..).unwrap_or_default().iter().take(256).take_while(|b| b.is_ascii_whitespace()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> Vec<String> {
        commands(text.as_bytes()).iter().map(|one| String::from_utf8_lossy(&one.text).into_owned()).collect()
    }

    #[test]
    fn lists_with_options_are_commands() {
        assert_eq!(typed("{\"args\":[\"mysql\", \"-p\",\"x y\"]}"), ["mysql -p \"x y\""]);
        assert_eq!(typed("cmd: ['a',\n  '-b']"), ["a -b"]);
        for text in ["[\"a\",\"b\"]", "[1,\"-p\"]", "[\"-p\"]", "[\"a\",\"-b\"", "[\"a\" \"-b\"]"] {
            assert!(typed(text).is_empty(), "{text}");
        }
        let text = "[\"x\",\"-p\",\"pw\"]";
        let one = &commands(text.as_bytes())[0];
        let at = one.text.len() - 2;
        assert_eq!(one.source(&(at..at + 2)).map(|place| &text[place]), Some("pw"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(text in "[\\[\\]\"',a \\\\-]{0,60}") {
            for one in commands(text.as_bytes()) {
                proptest::prop_assert_eq!(one.at.len(), one.text.len() + 1);
                proptest::prop_assert!(one.at.iter().all(|at| *at <= text.len()));
            }
        }
    }
}
