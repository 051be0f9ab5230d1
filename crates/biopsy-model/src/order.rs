//! Stable sorts that share their code. The standard library's are made anew for each type and comparison, five kilobytes each, and there are hundreds
//! of tables to be put in order: here places are sorted, by one function for all, and then each item is moved to its own.
//!
//! For tables and lists; it takes eight bytes for each item while it runs. What has millions of rows is sorted by the standard library.

use std::cmp::Ordering;

/// Sorting by code that is shared. Equals keep their order, as with the standard library's `sort_by`.
pub trait Order<T> {
    /// Sorts by a comparison.
    fn order_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// Sorts by a key, which is worked out for each comparison.
    fn order_by_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K);
}

impl<T> Order<T> for [T] {
    fn order_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let mut to = places(self.len(), &mut |a, b| compare(&self[a], &self[b]));
        for at in 0..to.len() {
            while to[at] != at {
                let place = to[at];
                self.swap(at, place);
                to.swap(at, place);
            }
        }
    }

    fn order_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.order_by(|a, b| key(a).cmp(&key(b)));
    }
}

/// Where each of `count` items goes.
fn places(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut from: Vec<usize> = (0..count).collect();
    from.sort_by(|a, b| compare(*a, *b));
    let mut to = vec![0; count];
    from.into_iter().enumerate().for_each(|(place, item)| to[item] = place);
    to
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_what_the_standard_library_does(items in proptest::collection::vec((0..8_u8, any::<u32>()), 0..200)) {
            let (mut by_key, mut by, mut expected) = (items.clone(), items.clone(), items);
            by_key.order_by_key(|item| item.0);
            by.order_by(|a, b| b.0.cmp(&a.0));
            expected.sort_by_key(|item| item.0);
            prop_assert_eq!(by_key, &expected[..]);
            expected.sort_by_key(|item| item.1);
            expected.sort_by_key(|item| item.0);
            by.sort_by_key(|item| item.1);
            by.order_by_key(|item| item.0);
            prop_assert_eq!(by, expected);
        }
    }

    #[test]
    fn equals_keep_their_order() {
        let mut words = ["b2", "a1", "b1", "a2"].map(str::to_owned);
        words.order_by_key(|word| word.as_bytes()[0]);
        assert_eq!(words, ["a1", "a2", "b2", "b1"]);
    }
}
