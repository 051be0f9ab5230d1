//! Learned values, known only by keyed fingerprints.

use std::collections::HashMap;
use std::fmt;

use crate::pseudonym::BundleKey;

/// Bytes at the start of a value that are compared first.
const HEAD: usize = 6;
/// Bits of the filter that most positions fail at.
const FILTER_BITS: usize = 1 << 18;
/// Modulus of the hash of whole values: a Mersenne prime.
const PRIME: u64 = (1 << 61) - 1;

/// Finds learned values without knowing them: a keyed hash of their first bytes says where to look, a keyed hash of as many
/// bytes as they have whether to look closer, and HMAC-SHA256 decides. Lives in memory only; nothing of it is written.
///
/// The second hash is that of any stretch of a text in one step, from hashes of all its beginnings. Without it, a text full of
/// the beginning that many long values share would have to be hashed whole for each of them at each place.
pub struct Fingerprints {
    key: BundleKey,
    seeds: [u64; 2],
    base: u64,
    filter: Vec<u64>,
    by_head: HashMap<u64, Vec<OfLength>>,
    /// Values that a policy calls none.
    allowed: Vec<Vec<u8>>,
}

/// Values of one length: hash and HMAC of each.
struct OfLength {
    length: usize,
    values: HashMap<u64, [u8; 32]>,
}

/// Hashes of all beginnings of a text.
struct Beginnings {
    hashes: Vec<u64>,
    /// Powers of the base.
    powers: Vec<u64>,
}

fn times(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    let folded = (product & u128::from(PRIME)) + (product >> 61);
    let folded = u64::try_from(folded).unwrap_or_default();
    if folded >= PRIME { folded - PRIME } else { folded }
}

impl Beginnings {
    fn of(text: &[u8], base: u64) -> Self {
        let (mut hashes, mut powers) =
            (Vec::with_capacity(text.len() + 1), Vec::with_capacity(text.len() + 1));
        let (mut hash, mut power) = (0, 1);
        hashes.push(hash);
        powers.push(power);
        for byte in text {
            hash = (times(hash, base) + u64::from(*byte) + 1) % PRIME;
            power = times(power, base);
            hashes.push(hash);
            powers.push(power);
        }
        Self { hashes, powers }
    }

    /// Hash of the stretch.
    fn hash(&self, start: usize, length: usize) -> Option<u64> {
        let (first, last) = (self.hashes.get(start)?, self.hashes.get(start + length)?);
        Some((last + PRIME - times(*first, *self.powers.get(length)?)) % PRIME)
    }
}

impl Fingerprints {
    /// None yet.
    pub(crate) fn new(key: &BundleKey) -> Self {
        let seed = key.mac(b"verify: seeds of the hash of heads");
        let word = |at: usize| u64::from_le_bytes(seed[at..at + 8].try_into().unwrap_or_default());
        Self {
            key: key.clone(),
            seeds: [word(0), word(8) | 1],
            base: word(16) % (PRIME - 257) + 257,
            filter: vec![0; FILTER_BITS / 64],
            by_head: HashMap::new(),
            allowed: Vec::new(),
        }
    }

    /// With values that are no secrets, whatever stands in front of them.
    pub(crate) fn allowing(mut self, values: impl Iterator<Item = Vec<u8>>) -> Self {
        self.allowed.extend(values);
        self
    }

    /// Whether one of them stands there.
    pub(crate) fn is_allowed_at(&self, text: &[u8], at: usize) -> bool {
        text.get(at..).is_some_and(|rest| self.allowed.iter().any(|value| rest.starts_with(value)))
    }

    /// Adds a value; the shortest that can be found again has 6 bytes.
    pub(crate) fn add(&mut self, value: &[u8]) {
        let Some(head) = value.first_chunk::<HEAD>() else { return };
        let hash = self.hash(head);
        let bit = Self::bit(hash);
        self.filter[bit / 64] |= 1 << (bit % 64);
        let lengths = self.by_head.entry(hash).or_default();
        let at = lengths.iter().position(|of| of.length == value.len()).unwrap_or_else(|| {
            lengths.push(OfLength { length: value.len(), values: HashMap::new() });
            lengths.len() - 1
        });
        let whole = Beginnings::of(value, self.base).hash(0, value.len()).unwrap_or_default();
        lengths[at].values.insert(whole, self.key.mac(value));
    }

    /// How many values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_head.values().flatten().map(|of| of.values.len()).sum()
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
        let mut beginnings = None;
        for (at, window) in text.windows(HEAD).enumerate() {
            let Some(head) = window.first_chunk::<HEAD>() else { break };
            let hash = self.hash(head);
            let bit = Self::bit(hash);
            if self.filter[bit / 64] & (1 << (bit % 64)) == 0 {
                continue;
            }
            for OfLength { length, values } in self.by_head.get(&hash).into_iter().flatten() {
                let beginnings = beginnings.get_or_insert_with(|| Beginnings::of(text, self.base));
                let known = beginnings.hash(at, *length).and_then(|hash| values.get(&hash));
                let Some(mac) = known else { continue };
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
