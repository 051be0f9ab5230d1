//! What is shown of texts that others wrote: nothing that commands a terminal or hides, and all that was there.

use biopsy_model::printable::{is_harmful, printable, printable_json, printable_lines};
use proptest::prelude::*;

/// What has been put into names and log lines, and what is seen of it.
#[test]
fn a_text_that_means_harm_is_seen_as_what_it_is() {
    for (what, text, seen) in [
        ("colours", "\u{1b}[31mred\u{1b}[0m", "\\u{1b}[31mred\\u{1b}[0m"),
        ("the title of the window", "\u{1b}]0;root#\u{7}", "\\u{1b}]0;root#\\u{7}"),
        ("the same with one character for two", "\u{9d}0;root#\u{9c}", "\\u{9d}0;root#\\u{9c}"),
        ("a link that leads elsewhere", "\u{1b}]8;;http://a\u{1b}\\b", "\\u{1b}]8;;http://a\\u{1b}\\b"),
        ("a line that looks like ours", "x\r\nerror: none", "x\\r\\nerror: none"),
        ("a name that overwrites itself", "evil\u{8}\u{8}\u{8}\u{8}good", "evil\\u{8}\\u{8}\\u{8}\\u{8}good"),
        ("the end of a text in C", "lib\0.so", "lib\\u{0}.so"),
        ("a name written from the right", "gpj.\u{202e}exe", "gpj.\\u{202e}exe"),
        ("isolated directions", "\u{2066}a\u{2069}\u{2068}b", "\\u{2066}a\\u{2069}\\u{2068}b"),
        ("marks of direction", "\u{200e}a\u{200f}\u{61c}", "\\u{200e}a\\u{200f}\\u{61c}"),
        ("lines and paragraphs of Unicode", "a\u{2028}b\u{2029}c\u{85}d", "a\\u{2028}b\\u{2029}c\\u{85}d"),
        (
            "characters without a width",
            "a\u{200b}\u{200d}\u{2060}\u{feff}b",
            "a\\u{200b}\\u{200d}\\u{2060}\\u{feff}b",
        ),
        (
            "letters that are blank",
            "a\u{115f}\u{1160}\u{3164}\u{ffa0}b",
            "a\\u{115f}\\u{1160}\\u{3164}\\u{ffa0}b",
        ),
        ("marks that join nothing", "a\u{34f}\u{17b4}\u{180b}b", "a\\u{34f}\\u{17b4}\\u{180b}b"),
        ("a text in tags", "a\u{e0068}\u{e0069}\u{e007f}", "a\\u{e0068}\\u{e0069}\\u{e007f}"),
        ("selectors of ideographs", "葛\u{e0100}", "葛\\u{e0100}"),
        ("notes and music that nobody sees", "\u{fff9}a\u{1d173}", "\\u{fff9}a\\u{1d173}"),
    ] {
        assert_eq!(printable(text), seen, "{what}");
        assert!(!printable_lines(text).chars().any(|one| is_harmful(one) && one != '\n'), "{what}");
    }
}

#[test]
fn a_text_of_any_language_stays_what_it_is() {
    for text in [
        "Überprüfung — 100 %",
        "实例 インスタンス 인스턴스",
        "Ελληνικά, русский, ไทย, ខ្មែរ",
        "שלום ومرحبا",
        "naïve (e\u{301} with a mark of its own)",
        "⚠\u{fe0f} 3 retries left 🙂",
        "a\u{a0}b",
        "C:\\folder\\new `code` <b> & \"quotes\"",
        "",
    ] {
        assert_eq!(printable(text), text);
        assert_eq!(printable_lines(text), text);
        assert_eq!(printable_json(text.to_owned()), text);
    }
}

/// Names are bytes: any of them, made UTF-8 lossily, alone and between others.
#[test]
fn each_byte_of_a_name_is_shown_on_one_line() {
    for byte in 0..=u8::MAX {
        for bytes in [vec![byte], vec![b'a', byte, b'b'], vec![0xc3, byte], vec![0xe2, 0x80, byte]] {
            let text = String::from_utf8_lossy(&bytes);
            let line = printable(&text);
            assert!(!line.chars().any(is_harmful), "{bytes:x?}: {line}");
            assert!(!line.is_empty() && line.lines().count() == 1, "{bytes:x?}: {line}");
        }
    }
}

#[test]
fn of_a_text_with_lines_only_line_ends_and_tabs_stay() {
    let text = "one\r\n\ttwo\u{b}\u{c}three\u{2028}\n";
    assert_eq!(printable_lines(text), "one\\r\n\ttwo\\u{b}\\u{c}three\\u{2028}\n");
    assert_eq!(printable(text), "one\\r\\n\\ttwo\\u{b}\\u{c}three\\u{2028}\\n");
}

/// A name of a megabyte of nothing but escapes: each character is ten at the most.
#[test]
fn a_very_long_text_grows_by_a_bounded_factor() {
    for (character, length) in [('\u{1b}', 6), ('\n', 2), ('\u{202e}', 8), ('\u{e0041}', 9), ('x', 1)] {
        let count = 1 << 18;
        let text: String = std::iter::repeat_n(character, count).collect();
        assert_eq!(printable(&text).len(), count * length, "{character:?}");
    }
}

/// Puts escapes back that this crate writes, as a reader does in the head.
fn unescaped(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escape = &rest[at + 1..];
        let (character, length) = match escape.chars().next()? {
            'n' => ('\n', 1),
            'r' => ('\r', 1),
            't' => ('\t', 1),
            'u' => {
                let end = escape.find('}')?;
                let number = u32::from_str_radix(escape.get(2..end)?, 16).ok()?;
                (char::from_u32(number)?, end + 1)
            }
            _ => return None,
        };
        out.push(character);
        rest = &escape[length..];
    }
    out.push_str(rest);
    Some(out)
}

/// The value of a JSON string, between its quotes.
fn of_json(text: &str) -> Option<String> {
    let mut units: Vec<u16> = Vec::new();
    let mut buffer = [0; 2];
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if let Some(escape) = rest.strip_prefix("\\u") {
            units.push(u16::from_str_radix(escape.get(..4)?, 16).ok()?);
            rest = &escape[4..];
        } else {
            units.extend_from_slice(character.encode_utf16(&mut buffer));
            rest = &rest[character.len_utf8()..];
        }
    }
    String::from_utf16(&units).ok()
}

/// Characters of all kinds; of those that harm far more than chance would give.
fn any_character() -> impl Strategy<Value = char> {
    prop_oneof![
        any::<char>(),
        (0..0xa0_u32).prop_filter_map("a character", char::from_u32),
        (0x2000..0x2070_u32).prop_filter_map("a character", char::from_u32),
        (0xe_0000..0xe_1000_u32).prop_filter_map("a character", char::from_u32),
    ]
}

fn any_text() -> impl Strategy<Value = String> {
    prop::collection::vec(any_character(), 0..40).prop_map(String::from_iter)
}

proptest! {
    #[test]
    fn a_text_that_was_shown_is_shown_the_same_again(text in any_text()) {
        let line = printable(&text);
        prop_assert_eq!(printable(&line), line.as_str());
        prop_assert!(!line.chars().any(is_harmful));
        let lines = printable_lines(&text);
        prop_assert_eq!(printable_lines(&lines), lines.as_ref());
        prop_assert!(lines.chars().all(|one| !is_harmful(one) || matches!(one, '\n' | '\t')));
    }

    /// Whatever is joined before or after, so that no two harmless pieces make a harmful whole.
    #[test]
    fn pieces_are_shown_as_the_whole_is(one in any_text(), other in any_text()) {
        let whole = format!("{one}{other}");
        prop_assert_eq!(printable(&whole), printable(&one) + &printable(&other));
        prop_assert_eq!(printable_lines(&whole), format!("{}{}", printable_lines(&one), printable_lines(&other)));
        prop_assert_eq!(printable_json(whole), printable_json(one) + &printable_json(other));
    }

    /// Nothing is lost: where no backslash was in it, what was there can be read from what is shown.
    #[test]
    fn escapes_say_which_character_was_there(text in any_text()) {
        let text = text.replace('\\', "/");
        prop_assert_eq!(unescaped(&printable(&text)), Some(text.clone()));
        prop_assert_eq!(unescaped(&printable_lines(&text)), Some(text.clone()));
        prop_assert_eq!(of_json(&printable_json(text.clone())), Some(text));
    }

    #[test]
    fn a_text_of_several_lines_keeps_them(text in any_text()) {
        let ends = |text: &str| text.matches('\n').count();
        prop_assert_eq!(ends(&printable_lines(&text)), ends(&text));
        prop_assert_eq!(ends(&printable_json(text.clone())), ends(&text));
        prop_assert_eq!(ends(&printable(&text)), 0);
    }
}
