//! Learned values, known only by keyed fingerprints.

use std::collections::HashMap;
use std::fmt;

use crate::pseudonym::BundleKey;

/// Bytes at the start of a value that are compared first.
const HEAD: usize = 6;
/// Bits of the filter that most positions fail at.
const FILTER_BITS: usize = 1 << 18;

/// Finds learned values without knowing them: a keyed hash of their first bytes says where to look, their length and
/// HMAC-SHA256 decide. Lives in memory only; nothing of it is written.
pub struct Fingerprints {
    key: BundleKey,
    seeds: [u64; 2],
    filter: Vec<u64>,
    by_head: HashMap<u64, Vec<(usize, [u8; 32])>>,
}

impl Fingerprints {
    /// None yet.
    pub(crate) fn new(key: &BundleKey) -> Self {
        let seed = key.mac(b"verify: seeds of the hash of heads");
        let word = |at: usize| u64::from_le_bytes(seed[at..at + 8].try_into().unwrap_or_default());
        Self {
            key: key.clone(),
            seeds: [word(0), word(8) | 1],
            filter: vec![0; FILTER_BITS / 64],
            by_head: HashMap::new(),
        }
    }

    /// Adds a value; the shortest that can be found again has 6 bytes.
    pub(crate) fn add(&mut self, value: &[u8]) {
        let Some(head) = value.first_chunk::<HEAD>() else { return };
        let hash = self.hash(head);
        let bit = Self::bit(hash);
        self.filter[bit / 64] |= 1 << (bit % 64);
        self.by_head.entry(hash).or_default().push((value.len(), self.key.mac(value)));
    }

    /// How many values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_head.values().map(Vec::len).sum()
    }

    /// No values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_head.is_empty()
    }

    /// Reports where a value starts in `text`; returns whether one did.
    pub(crate) fn find(&self, text: &[u8], report: &mut impl FnMut(usize)) -> bool {
        if self.by_head.is_empty() {
            return false;
        }
        let mut any = false;
        for (at, window) in text.windows(HEAD).enumerate() {
            let Some(head) = window.first_chunk::<HEAD>() else { break };
            let hash = self.hash(head);
            let bit = Self::bit(hash);
            if self.filter[bit / 64] & (1 << (bit % 64)) == 0 {
                continue;
            }
            for (length, mac) in self.by_head.get(&hash).into_iter().flatten() {
                if text.get(at..at + length).is_some_and(|value| self.key.mac(value) == *mac) {
                    report(at);
                    any = true;
                }
            }
        }
        any
    }

    fn hash(&self, head: &[u8; HEAD]) -> u64 {
        let [a, b, c, d, e, f] = *head;
        let word = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
        let mixed = (word ^ self.seeds[0]).wrapping_mul(self.seeds[1]);
        mixed ^ (mixed >> 29)
    }

    fn bit(hash: u64) -> usize {
        // The upper bits of a product are the well mixed ones.
        usize::try_from(hash >> 46).unwrap_or_default() % FILTER_BITS
    }
}

impl fmt::Debug for Fingerprints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fingerprints").field("values", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_whole_and_only_whole() {
        let mut fingerprints = Fingerprints::new(&BundleKey::from_bytes([3; 32]));
        fingerprints.add(b"correct horse");
        let places = |text: &[u8]| {
            let mut places = Vec::new();
            fingerprints.find(text, &mut |at| places.push(at));
            places
        };
        assert_eq!(places(b"a correct horse, a correct horse"), [2, 19]);
        assert_eq!(places(b"a correct house"), Vec::<usize>::new());
        assert_eq!(places(b"correct hors"), Vec::<usize>::new());
        assert!(!format!("{fingerprints:?}").contains("horse"));
    }
}
