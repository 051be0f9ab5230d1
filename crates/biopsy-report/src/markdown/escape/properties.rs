//! What a reader of Markdown makes of a name, whatever is in it.

use proptest::prelude::*;

use super::{code, plain};

/// What is neither escaped nor in code (CommonMark 0.31, 2.4 and 6.1), and whether all of it is code.
fn outside_code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let run = |at: usize| chars[at..].iter().take_while(|char| **char == '`').count();
    let (mut at, mut outside) = (0, String::new());
    while at < chars.len() {
        match chars[at] {
            '\\' if chars.get(at + 1).is_some_and(char::is_ascii_punctuation) => at += 2,
            '`' => {
                let length = run(at);
                let mut end = at + length;
                // The next run of the same length.
                while end < chars.len() && run(end) != length {
                    end += run(end).max(1);
                }
                at = if end < chars.len() { end + length } else { at + length };
            }
            other => {
                outside.push(other);
                at += 1;
            }
        }
    }
    outside
}

/// A table ends its cell at a bar that no backslash escapes, in code too (GFM 4.10).
fn ends_a_cell(text: &str) -> bool {
    let mut escaped = false;
    text.chars().any(|char| {
        let ends = char == '|' && !escaped;
        escaped = char == '\\' && !escaped;
        ends
    })
}

fn names() -> impl Strategy<Value = String> {
    let odd = prop::sample::select(vec![
        '`', '`', '<', '>', '|', '\\', '[', '*', '&', '#', ' ', '\n', 'a', '\u{1b}',
    ]);
    prop::collection::vec(odd, 0..12).prop_map(String::from_iter)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_096, ..ProptestConfig::default() })]

    #[test]
    fn text_is_no_markup(name in names()) {
        let text = plain(&name);
        let outside = outside_code(&text);
        prop_assert!(!outside.contains(['<', '[', '*', '&', '#']), "{:?} is {:?}: {:?}", name, text, outside);
        prop_assert!(!ends_a_cell(&text), "{:?} is {:?}", name, text);
        let commands = text.contains(['\n', '\u{1b}']);
        prop_assert!(!commands, "{:?} is {:?}", name, text);
    }

    #[test]
    fn code_is_code_or_escaped(name in names()) {
        let text = code(&name);
        let outside = outside_code(&text);
        prop_assert!(!outside.contains(['<', '[', '*', '&', '#']), "{:?} is {:?}: {:?}", name, text, outside);
        prop_assert!(!ends_a_cell(&text), "{:?} is {:?}", name, text);
    }

    /// In a sentence of ours, around which are back-ticks of our own.
    #[test]
    fn a_sentence_with_a_name_is_no_markup(name in names()) {
        let text = plain(&format!("in `{name}`, which `main` calls"));
        let outside = outside_code(&text);
        prop_assert!(!outside.contains(['<', '[', '*', '&', '#']), "{:?} is {:?}: {:?}", name, text, outside);
        prop_assert!(!ends_a_cell(&text), "{:?} is {:?}", name, text);
    }
}
