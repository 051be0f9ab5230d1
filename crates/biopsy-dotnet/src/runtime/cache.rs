//! Answers that were given before, as many as there is room for.

use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

/// Answers by what was asked; all are dropped when there are more than there is room for.
pub(super) struct Cache<K, V> {
    kept: Mutex<Kept<K, V>>,
    most: usize,
    most_bytes: usize,
    /// What an answer takes besides its place, in bytes.
    weigh: fn(&V) -> usize,
}

struct Kept<K, V> {
    map: FxHashMap<K, V>,
    bytes: usize,
}

impl<K, V> fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("most", &self.most).finish_non_exhaustive()
    }
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    /// Up to so many answers of about the same size.
    pub(super) fn new(most: usize) -> Self {
        Self::weighed(most, usize::MAX, |_| 0)
    }

    /// Up to so many answers, and bytes of them.
    pub(super) fn weighed(most: usize, most_bytes: usize, weigh: fn(&V) -> usize) -> Self {
        let kept = Mutex::new(Kept { map: FxHashMap::default(), bytes: 0 });
        Self { kept, most, most_bytes, weigh }
    }

    fn kept(&self) -> MutexGuard<'_, Kept<K, V>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, key: &K) -> Option<V> {
        self.kept().map.get(key).cloned()
    }

    /// Keeps an answer, and gives it back.
    pub(super) fn put(&self, key: K, value: V) -> V {
        let bytes = (self.weigh)(&value);
        let mut kept = self.kept();
        if kept.map.len() >= self.most || kept.bytes.saturating_add(bytes) > self.most_bytes {
            *kept = Kept { map: FxHashMap::default(), bytes: 0 };
        }
        kept.bytes = kept.bytes.saturating_add(bytes);
        if let Some(before) = kept.map.insert(key, value.clone()) {
            kept.bytes = kept.bytes.saturating_sub((self.weigh)(&before));
        }
        value
    }

    /// Drops all.
    pub(super) fn clear(&self) {
        *self.kept() = Kept { map: FxHashMap::default(), bytes: 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_and_their_bytes_are_bounded() {
        let cache: Cache<u32, String> = Cache::weighed(3, 10, String::len);
        for (key, text) in [(1, "one"), (2, "two"), (1, "on"), (3, "three")] {
            assert_eq!(cache.put(key, text.to_owned()), text);
        }
        let kept = |keys: [u32; 5]| keys.map(|key| cache.get(&key));
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(kept([1, 2, 3, 4, 5]), [some("on"), some("two"), some("three"), None, None]);
        // A fourth, and then one with more bytes than there is room for besides.
        cache.put(4, "four".to_owned());
        assert_eq!(kept([1, 2, 3, 4, 5]), [None, None, None, some("four"), None]);
        cache.put(5, "seventeen".to_owned());
        assert_eq!(kept([1, 2, 3, 4, 5]), [None, None, None, None, some("seventeen")]);
        cache.clear();
        assert_eq!(kept([1, 2, 3, 4, 5]), [const { None }; 5]);
    }
}
