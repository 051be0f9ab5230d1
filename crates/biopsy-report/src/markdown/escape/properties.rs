//! What a reader of Markdown makes of a name, whatever is in it.

use proptest::prelude::*;

use super::{code, plain};
use crate::synthetic::commonmark::{ends_of_cells, outside_code};

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
        prop_assert!(ends_of_cells(&text) == 0, "{:?} is {:?}", name, text);
        let commands = text.contains(['\n', '\u{1b}']);
        prop_assert!(!commands, "{:?} is {:?}", name, text);
    }

    #[test]
    fn code_is_code_or_escaped(name in names()) {
        let text = code(&name);
        let outside = outside_code(&text);
        prop_assert!(!outside.contains(['<', '[', '*', '&', '#']), "{:?} is {:?}: {:?}", name, text, outside);
        prop_assert!(ends_of_cells(&text) == 0, "{:?} is {:?}", name, text);
    }

    /// In a sentence of ours, around which are back-ticks of our own.
    #[test]
    fn a_sentence_with_a_name_is_no_markup(name in names()) {
        let text = plain(&format!("in `{name}`, which `main` calls"));
        let outside = outside_code(&text);
        prop_assert!(!outside.contains(['<', '[', '*', '&', '#']), "{:?} is {:?}: {:?}", name, text, outside);
        prop_assert!(ends_of_cells(&text) == 0, "{:?} is {:?}", name, text);
    }
}
