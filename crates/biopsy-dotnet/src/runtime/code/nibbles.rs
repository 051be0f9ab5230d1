//! The map of code: where each piece of compiled code starts (`nibblemapmacros.h` of dotnet/runtime).
//!
//! A word of 32 bits is about 256 bytes of code, a nibble of it, the highest first, about 32. A nibble of 1 to 8 says that code
//! starts there, at 4 * (nibble - 1) bytes. In version 2 a word whose lowest nibble is above 8 is no row of nibbles but says where
//! the code starts that all of its 256 bytes belong to.

use super::super::{Memory, RuntimeError};

/// Words that are walked back: a method of 64 MiB.
const BACK: u64 = 1 << 18;

/// Where the code starts that `ip` is in.
pub(super) fn code_start(
    memory: &Memory<'_>,
    base: u64,
    map: u64,
    pointers: bool,
    ip: u64,
) -> Result<Option<u64>, RuntimeError> {
    let Some(offset) = ip.checked_sub(base) else { return Ok(None) };
    let word_at = |index: u64| memory.u32(map.wrapping_add(index * 4));
    let pointer = |word: u32| {
        let rounded = u64::from(word & !15);
        base.wrapping_add(rounded).wrapping_add(u64::from((word & 15) - 9) << 2)
    };
    let start = |index: u64, position: u32, nibble: u32| {
        base.wrapping_add(index * 256 + u64::from(position) * 32 + u64::from(nibble - 1) * 4)
    };
    let index = offset >> 8;
    let within = ((offset & 31) >> 2) as u32 + 1;
    let position = ((offset >> 5) & 7) as u32;
    let word = word_at(index)?;
    if pointers && word & 15 > 8 {
        return Ok(Some(pointer(word)));
    }
    let mut bits = word >> (28 - 4 * position);
    // Code that starts in the same 32 bytes, before the address.
    if bits & 15 != 0 && bits & 15 <= within {
        return Ok(Some(start(index, position, bits & 15)));
    }
    let mut at = position;
    while at > 0 {
        bits >>= 4;
        at -= 1;
        if bits & 15 != 0 {
            return Ok(valid(bits & 15).map(|nibble| start(index, at, nibble)));
        }
    }
    for back in 1..=BACK.min(index) {
        let index = index - back;
        let word = word_at(index)?;
        if word == 0 {
            if pointers {
                return Ok(None);
            }
            continue;
        }
        if pointers && word & 15 > 8 {
            return Ok(Some(pointer(word)));
        }
        let mut bits = word;
        let mut at = 7;
        while bits & 15 == 0 {
            bits >>= 4;
            at -= 1;
        }
        return Ok(valid(bits & 15).map(|nibble| start(index, at, nibble)));
    }
    Ok(None)
}

fn valid(nibble: u32) -> Option<u32> {
    (1..=8).contains(&nibble).then_some(nibble)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::made_up::MadeUp;

    const BASE: u64 = 0x7f00_0000_0000;
    const MAP: u64 = 0x5000_0000;
    /// Code of 64 KiB.
    const WORDS: usize = 256;

    /// The map as the runtime writes it. `pointers`: version 2, in which words that lie all in one method say where it starts.
    fn map_of(starts: &[(u64, u64)], pointers: bool) -> Vec<u32> {
        let mut words = vec![0u32; WORDS];
        for (start, _) in starts {
            let nibble = (start % 32 / 4) as u32 + 1;
            words[(start / 256) as usize] |= nibble << (28 - 4 * (start / 32 % 8));
        }
        if pointers {
            for (start, length) in starts {
                let first = (start / 256 + 1) as usize;
                let behind = ((start + length) / 256) as usize;
                for word in &mut words[first..behind.max(first)] {
                    *word = (start & !15) as u32 | (9 + (start % 16 / 4) as u32);
                }
            }
        }
        words
    }

    fn asked(words: &[u32], pointers: bool, ip: u64) -> Option<u64> {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let image = MadeUp::new(vec![(MAP, bytes)]);
        let memory = Memory::new(Box::new(image), None, 0);
        code_start(&memory, BASE, MAP, pointers, ip).expect("the map is there")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Methods begin at multiples of 4, none in the 32 bytes of another.
        #[test]
        fn every_address_of_a_method_leads_to_its_start(
            lengths in proptest::collection::vec((0u64..40, 8u64..600), 1..40),
            offset in 0u64..8,
        ) {
            let mut starts = Vec::new();
            let mut at = offset * 4;
            for (gap, length) in lengths {
                let start = at + gap * 4;
                let length = length * 4;
                if start + length >= WORDS as u64 * 256 {
                    break;
                }
                starts.push((start, length));
                at = (start + length).next_multiple_of(32);
            }
            for pointers in [false, true] {
                let words = map_of(&starts, pointers);
                for (start, length) in &starts {
                    for probe in [0, 1, 3, 4, 31, 32, 255, 256, length / 2, length - 1] {
                        let ip = BASE + start + probe.min(length - 1);
                        prop_assert_eq!(asked(&words, pointers, ip), Some(BASE + start), "{:#x}, {}", ip, pointers);
                    }
                }
                let first = starts.first().map_or(0, |(start, _)| *start);
                prop_assert_eq!(asked(&words, pointers, BASE + first.saturating_sub(1)), (first == 0).then_some(BASE));
                prop_assert_eq!(asked(&words, pointers, BASE - 1), None);
            }
        }

        #[test]
        fn any_map_gives_a_start_before_the_address_or_none(
            words in proptest::collection::vec(prop_oneof![Just(0u32), any::<u32>()], WORDS),
            offset in 0u64..WORDS as u64 * 256,
            pointers: bool,
        ) {
            if let Some(start) = asked(&words, pointers, BASE + offset) {
                prop_assert!(pointers || (BASE..=BASE + offset).contains(&start));
            }
        }
    }
}
