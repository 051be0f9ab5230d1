//! A set of object indexes, one bit each.

/// One bit for each of a fixed number of objects.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Bits {
    words: Vec<u64>,
    length: usize,
}

impl Bits {
    /// All bits clear.
    #[must_use]
    pub fn new(length: usize) -> Self {
        Self { words: vec![0; length.div_ceil(64)], length }
    }

    /// From words, lowest bit first; bits behind `length` are cleared, words that are missing are zero.
    #[must_use]
    pub fn from_words(mut words: Vec<u64>, length: usize) -> Self {
        words.resize(length.div_ceil(64), 0);
        if let (Some(last), rest @ 1..) = (words.last_mut(), length % 64) {
            *last &= (1 << rest) - 1;
        }
        Self { words, length }
    }

    /// The words, lowest bit first.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// How many bits there are, set or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no bits at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether the bit is set; bits that are not there are not.
    #[must_use]
    #[inline]
    pub fn contains(&self, index: usize) -> bool {
        self.words.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// Sets the bit; `true`: it was clear, and is there.
    #[inline]
    pub fn insert(&mut self, index: usize) -> bool {
        if index >= self.length {
            return false;
        }
        let Some(word) = self.words.get_mut(index / 64) else { return false };
        let bit = 1 << (index % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// How many are set.
    #[must_use]
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_is_new_once_and_never_behind_the_end() {
        let mut bits = Bits::new(70);
        assert!(bits.insert(69) && !bits.insert(69) && !bits.insert(70));
        assert!(bits.contains(69) && !bits.contains(68) && !bits.contains(1000));
        assert_eq!(bits.count(), 1);
        let again = Bits::from_words(bits.words().to_vec(), 70);
        assert_eq!(again, bits);
        assert_eq!(Bits::from_words(vec![!0; 5], 70).count(), 70);
    }
}
