//! Rows by key, in the order in which their keys came.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Rows by key.
#[derive(Debug)]
pub(crate) struct Keyed<K, T> {
    rows: Vec<T>,
    index: FxHashMap<K, usize>,
}

impl<K, T> Default for Keyed<K, T> {
    fn default() -> Self {
        Self { rows: Vec::new(), index: FxHashMap::default() }
    }
}

impl<K: Hash + Eq, T> Keyed<K, T> {
    /// The row of a key, made where there is none yet.
    pub(crate) fn of(&mut self, key: K, new: impl FnOnce() -> T) -> &mut T {
        let next = self.rows.len();
        let at = *self.index.entry(key).or_insert(next);
        if at == next {
            self.rows.push(new());
        }
        &mut self.rows[at]
    }

    /// All of them, those whose keys came first in front.
    pub(crate) fn into_rows(self) -> Vec<T> {
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_made_once_and_stay_in_order() {
        let mut rows: Keyed<&str, (usize, u32)> = Keyed::default();
        let mut made = 0;
        for (key, value) in [("b", 1), ("a", 2), ("b", 4), ("c", 8), ("a", 16)] {
            rows.of(key, || {
                made += 1;
                (made, 0)
            })
            .1 += value;
        }
        assert_eq!(rows.into_rows(), [(1, 5), (2, 18), (3, 8)]);
    }
}
