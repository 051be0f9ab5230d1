//! Lists and names of bearable length: what a hostile file says without end is cut here.

use crate::limits::{RUNTIME_NAME, RUNTIME_ROWS};
use biopsy_model::order::Order as _;

/// A name of bearable length.
pub(crate) fn cut(name: &str) -> String {
    match name.char_indices().nth(RUNTIME_NAME) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()),
        None => name.to_owned(),
    }
}

/// Cuts a list that is in its final order.
pub(super) fn first<T>(mut rows: Vec<T>) -> Vec<T> {
    rows.truncate(RUNTIME_ROWS);
    rows
}

/// Words of the runtime that are counted: it has some ten of each kind, a hostile file may make up as many as it likes.
const WORDS: usize = 20;

/// Those that were counted most first.
pub(super) fn most_first(words: &mut [(String, u64)]) {
    words.order_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
}

/// Counts one more of a word.
pub(super) fn count_word(words: &mut Vec<(String, u64)>, word: String) {
    if let Some((_, count)) = words.iter_mut().find(|(known, _)| *known == word) {
        *count += 1;
    } else if words.len() < WORDS {
        words.push((word, 1));
    }
}
