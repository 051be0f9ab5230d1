//! Where the objects of a span begin, and which one begins where.

/// A bitmap is taken while objects are at most this many units apart on average; beyond it a sorted list is smaller.
const SPARSE: u64 = 128;

/// Positions of object starts in a span, in units of that span from its start, ascending.
#[derive(Clone, Debug)]
pub(crate) enum Starts {
    /// One bit for each possible start, and how many starts lie before each word. 0.19 bits per byte of the heap.
    Bitmap { words: Vec<u64>, before: Vec<u32> },
    /// The positions.
    List(Vec<u32>),
}

impl Starts {
    /// From ascending positions; `length` is that of the span, in units.
    pub(crate) fn new(positions: Vec<u32>, length: u64) -> Self {
        let units = length.saturating_add(1);
        let sparse = (positions.len() as u64).saturating_mul(SPARSE) < length;
        let fits = usize::try_from(units.div_ceil(64));
        let (Ok(count), false) = (fits, sparse) else {
            let mut positions = positions;
            positions.shrink_to_fit();
            return Self::List(positions);
        };
        let mut words = vec![0u64; count];
        for position in &positions {
            if let Some(word) = words.get_mut(*position as usize / 64) {
                *word |= 1 << (position % 64);
            }
        }
        let mut before = Vec::with_capacity(count);
        let mut sum = 0u32;
        for word in &words {
            before.push(sum);
            sum = sum.saturating_add(word.count_ones());
        }
        Self::Bitmap { words, before }
    }

    /// The number of the object that begins exactly at `position`.
    #[inline]
    pub(crate) fn find(&self, position: u32) -> Option<u32> {
        match self {
            Self::Bitmap { words, before } => {
                let at = position as usize / 64;
                let word = *words.get(at)?;
                let bit = position % 64;
                if word >> bit & 1 == 0 {
                    return None;
                }
                let below = word & ((1u64 << bit) - 1);
                Some(before.get(at)? + below.count_ones())
            }
            Self::List(positions) => u32::try_from(positions.binary_search(&position).ok()?).ok(),
        }
    }

    /// The number of the last object that begins at or before `position`.
    pub(crate) fn find_before(&self, position: u32) -> Option<u32> {
        let after = match self {
            Self::Bitmap { words, before } => {
                let at = (position as usize / 64).min(words.len().checked_sub(1)?);
                let bit = if position as usize / 64 > at { 63 } else { position % 64 };
                let upto = words.get(at)? & (!0u64 >> (63 - bit));
                before.get(at)? + upto.count_ones()
            }
            Self::List(positions) => {
                u32::try_from(positions.partition_point(|start| *start <= position)).ok()?
            }
        };
        after.checked_sub(1)
    }

    /// Where the object of this number begins.
    pub(crate) fn position(&self, number: u32) -> Option<u32> {
        match self {
            Self::Bitmap { words, before } => {
                let at = before.partition_point(|sum| *sum <= number).checked_sub(1)?;
                let mut word = *words.get(at)?;
                for _ in 0..number.checked_sub(*before.get(at)?)? {
                    word &= word.wrapping_sub(1);
                }
                (word != 0).then(|| at as u32 * 64 + word.trailing_zeros())
            }
            Self::List(positions) => positions.get(number as usize).copied(),
        }
    }

    /// All positions, ascending.
    pub(crate) fn iter(&self) -> Positions<'_> {
        match self {
            Self::Bitmap { words, .. } => Positions { words, at: 0, word: 0, list: &[] },
            Self::List(list) => Positions { words: &[], at: 0, word: 0, list },
        }
    }

    /// Bytes that it takes.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Bitmap { words, before } => words.capacity() * 8 + before.capacity() * 4,
            Self::List(positions) => positions.capacity() * 4,
        }
    }
}

/// Iterator over positions.
#[derive(Clone, Debug)]
pub(crate) struct Positions<'a> {
    words: &'a [u64],
    /// Index behind the word that is being emptied.
    at: usize,
    word: u64,
    list: &'a [u32],
}

impl Iterator for Positions<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        if let Some((first, rest)) = self.list.split_first() {
            self.list = rest;
            return Some(*first);
        }
        while self.word == 0 {
            self.word = *self.words.get(self.at)?;
            self.at += 1;
        }
        let bit = self.word.trailing_zeros();
        self.word &= self.word - 1;
        Some((self.at as u32 - 1) * 64 + bit)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_forms_answer_alike(set in proptest::collection::btree_set(0u32..5000, 60..400), probe in 0u32..6000) {
            let positions: Vec<u32> = set.into_iter().collect();
            let list = Starts::List(positions.clone());
            let bitmap = Starts::new(positions.clone(), 5000);
            let is_bitmap = matches!(bitmap, Starts::Bitmap { .. });
            prop_assert!(is_bitmap);
            prop_assert_eq!(list.iter().collect::<Vec<_>>(), positions.clone());
            prop_assert_eq!(bitmap.iter().collect::<Vec<_>>(), positions.clone());
            prop_assert_eq!(list.find(probe), bitmap.find(probe));
            prop_assert_eq!(list.find_before(probe), bitmap.find_before(probe));
            for (number, position) in positions.iter().enumerate() {
                let number = number as u32;
                prop_assert_eq!(list.position(number), Some(*position));
                prop_assert_eq!(bitmap.position(number), Some(*position));
                prop_assert_eq!(bitmap.find(*position), Some(number));
            }
            prop_assert_eq!(bitmap.position(positions.len() as u32), None);
        }
    }
}
