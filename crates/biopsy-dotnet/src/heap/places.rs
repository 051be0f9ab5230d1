//! Addresses of the heap as 32-bit numbers, so that a reference takes 4 bytes before all objects are known.

use biopsy_model::Avma;
use rustc_hash::FxHashMap;

use super::{HeapError, Segment};

/// Bytes of address space in one entry of the table, as a power of two.
const PAGE: u32 = 22;
/// Bytes per number: 8 is what addresses are aligned to. 16 still tells objects apart, since none is shorter than 24.
const SHIFTS: [u32; 2] = [3, 4];

/// All segments in a row without the gaps between them.
#[derive(Debug)]
pub(super) struct Places {
    segments: Vec<Place>,
    /// The first segment that reaches into each page of addresses.
    pages: FxHashMap<u64, u32>,
    /// The first segment that reaches into each page of numbers.
    numbers: Vec<u32>,
    shift: u32,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    start: u64,
    end: u64,
    /// Number of `start`.
    first: u64,
}

/// Where the last address was found: the next one is often near.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Hint(u32);

impl Places {
    /// Of segments by address that do not overlap.
    pub(super) fn new(segments: &[Segment]) -> Result<Self, HeapError> {
        let bytes = segments.iter().fold(0u64, |sum, one| sum.saturating_add(one.bytes().saturating_add(16)));
        let limit = |shift: u32| u64::from(u32::MAX) << shift;
        let shift = SHIFTS
            .into_iter()
            .find(|shift| bytes < limit(*shift))
            .ok_or(HeapError::TooLarge { bytes, limit: limit(SHIFTS[1]) })?;
        let mut places =
            Self { segments: Vec::new(), pages: FxHashMap::default(), numbers: Vec::new(), shift };
        let mut first = 0;
        for segment in segments {
            let (Avma(start), Avma(end)) = (segment.start, segment.end);
            let number = places.segments.len() as u32;
            for page in start >> PAGE..=(end - 1) >> PAGE {
                places.pages.entry(page).or_insert(number);
            }
            let length = (segment.bytes() >> shift) + 1;
            let pages = ((first + length) >> (PAGE - shift)) + 1;
            places.numbers.resize(usize::try_from(pages).unwrap_or(usize::MAX), number);
            places.segments.push(Place { start, end, first });
            first += length;
        }
        Ok(places)
    }

    /// The number of an address; `None`: it is not in the heap.
    #[inline]
    pub(super) fn number(&self, address: u64, hint: &mut Hint) -> Option<u32> {
        if let Some(place) = self.segments.get(hint.0 as usize)
            && place.start <= address
            && address < place.end
        {
            return Some((place.first + ((address - place.start) >> self.shift)) as u32);
        }
        self.number_anywhere(address, hint)
    }

    fn number_anywhere(&self, address: u64, hint: &mut Hint) -> Option<u32> {
        let mut at = *self.pages.get(&(address >> PAGE))?;
        loop {
            let place = self.segments.get(at as usize).filter(|place| place.start <= address)?;
            if address < place.end {
                hint.0 = at;
                return Some((place.first + ((address - place.start) >> self.shift)) as u32);
            }
            at += 1;
        }
    }

    /// The address of a number, and how many bytes it stands for.
    #[inline]
    pub(super) fn address(&self, number: u32) -> Option<(u64, u64)> {
        let mut at = *self.numbers.get((number >> (PAGE - self.shift)) as usize)? as usize;
        let number = u64::from(number);
        while self.segments.get(at + 1).is_some_and(|next| next.first <= number) {
            at += 1;
        }
        let place = self.segments.get(at)?;
        let address = place.start + ((number.checked_sub(place.first)?) << self.shift);
        (address < place.end).then_some((address, 1 << self.shift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Generation;

    #[test]
    fn a_heap_above_the_limit_is_refused_with_both_numbers() {
        let segment = |bytes: u64| Segment {
            heap: 0,
            start: Avma(1 << 40),
            end: Avma((1 << 40) + bytes),
            generation: Generation::Gen2,
        };
        let error = Places::new(&[segment(64 << 30)]).unwrap_err();
        let said = "the heap has 68719476752 bytes, more than the 68719476720 that can be walked";
        assert_eq!(error.to_string(), said);
        assert!(Places::new(&[segment(1 << 30)]).is_ok());
        // As damaged numbers of a segment may say.
        let all = Segment { heap: 0, start: Avma(0), end: Avma(u64::MAX - 7), generation: Generation::Gen2 };
        assert!(matches!(Places::new(&[all]), Err(HeapError::TooLarge { .. })));
    }

    #[test]
    fn every_address_comes_back() {
        let segment = |start: u64, end: u64| Segment {
            heap: 0,
            start: Avma(start),
            end: Avma(end),
            generation: Generation::Gen0,
        };
        let segments = [
            segment(0x1000, 0x1018),
            segment(0x1020, 0x1400),
            segment(0x7f00_0000_0000, 0x7f00_0100_0008),
            segment(0x7f00_4000_0000, 0x7f00_4000_0018),
        ];
        let places = Places::new(&segments).unwrap();
        let mut seen = std::collections::HashSet::new();
        let mut hint = Hint::default();
        for one in &segments {
            for address in (one.start.0..one.end.0).step_by(8) {
                let number = places.number(address, &mut hint).unwrap();
                assert_eq!(places.address(number), Some((address, 8)));
                assert!(seen.insert(number), "{address:#x}");
            }
            assert_eq!(places.number(one.end.0, &mut hint), None);
        }
        assert!([0xfff, u64::MAX].iter().all(|none| places.number(*none, &mut hint).is_none()));
        assert_eq!(places.address(u32::MAX), None);
    }
}
