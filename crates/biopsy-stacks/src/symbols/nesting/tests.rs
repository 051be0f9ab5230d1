//! Units of debug information put together by hand: which of them an address may be of, and which are too deep.

use std::sync::Arc;

use gimli::{Dwarf, EndianArcSlice, LittleEndian, SectionId};
use proptest::prelude::*;

use super::{DEEPEST, Nesting, Reader};

/// How a unit says where its code is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Its first address and how many bytes.
    Size(u64, u64),
    /// Its first address and the one behind its last.
    Ends(u64, u64),
    /// Nothing is said.
    Nowhere,
}

/// A unit with so many inlined calls in one another, between them as many blocks as are said.
#[derive(Clone, Copy, Debug)]
struct Unit {
    place: Place,
    depth: usize,
    blocks: usize,
}

const ABBREVIATIONS: &[u8] = &[
    1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0, // a compile unit: low_pc, high_pc as a size
    2, 0x11, 1, 0x11, 1, 0x12, 1, 0, 0, // one with high_pc as an address
    3, 0x11, 1, 0, 0, // one without
    4, 0x1d, 1, 0, 0, // an inlined call
    5, 0x0b, 1, 0, 0, // a block
    6, 0x3c, 1, 0x11, 1, 0, 0, // a unit that is a part of others: low_pc
    0,
];

impl Unit {
    fn bytes(self) -> Vec<u8> {
        // Version 4, abbreviations from 0 on, addresses of 8 bytes.
        let mut info = vec![4, 0, 0, 0, 0, 0, 8];
        match self.place {
            Place::Size(start, size) => {
                info.push(1);
                info.extend([start, size].map(u64::to_le_bytes).concat());
            }
            Place::Ends(start, end) => {
                info.push(2);
                info.extend([start, end].map(u64::to_le_bytes).concat());
            }
            Place::Nowhere => info.push(3),
        }
        let nested = [vec![5; self.blocks], vec![4]].concat().repeat(self.depth);
        info.extend(&nested);
        // Each ends, and so does the unit.
        info.extend(vec![0; nested.len() + 1]);
        [&(info.len() as u32).to_le_bytes()[..], &info].concat()
    }

    fn covers(self, svma: u64) -> bool {
        match self.place {
            Place::Size(start, size) => {
                start.checked_add(size).is_some_and(|end| (start..end).contains(&svma))
            }
            Place::Ends(start, end) => (start..end).contains(&svma),
            Place::Nowhere => false,
        }
    }

    /// Whether addresses cannot be told to be of it or not.
    fn is_everywhere(self) -> bool {
        match self.place {
            Place::Size(start, size) => start >= start.wrapping_add(size),
            Place::Ends(start, end) => start >= end,
            Place::Nowhere => true,
        }
    }
}

fn dwarf(info: Vec<u8>) -> Dwarf<Reader> {
    let section = |id| {
        let bytes = match id {
            SectionId::DebugAbbrev => ABBREVIATIONS.to_vec(),
            SectionId::DebugInfo => info.clone(),
            _ => Vec::new(),
        };
        Ok::<_, std::convert::Infallible>(EndianArcSlice::new(Arc::from(bytes), LittleEndian))
    };
    Dwarf::load(section).expect("nothing can fail")
}

fn asked(units: &[Unit], svma: u64) -> bool {
    let dwarf = dwarf(units.iter().flat_map(|unit| unit.bytes()).collect());
    Nesting::read(&dwarf).is_too_deep(&dwarf, svma)
}

#[test]
fn a_unit_is_refused_from_one_call_too_many_on() {
    for (depth, blocks, refused) in [
        (0, 0, false),
        (DEEPEST, 0, false),
        (DEEPEST + 1, 0, true),
        (DEEPEST, 3, false),
        (DEEPEST + 1, 3, true),
    ] {
        let unit = Unit { place: Place::Size(0x1000, 0x100), depth, blocks };
        assert_eq!(asked(&[unit], 0x1010), refused, "{depth} {blocks}");
        assert!(!asked(&[unit], 0xfff) && !asked(&[unit], 0x1100));
        let nowhere = Unit { place: Place::Nowhere, ..unit };
        assert_eq!(asked(&[nowhere], 0x9_0000), refused, "it may be of anywhere");
    }
}

/// Calls beside each other are not in one another.
#[test]
fn many_calls_are_not_deep() {
    let mut info = vec![4, 0, 0, 0, 0, 0, 8, 1];
    info.extend([0x1000_u64, 0x100].map(u64::to_le_bytes).concat());
    info.extend([4, 0].repeat(10_000));
    info.push(0);
    let dwarf = dwarf([&(info.len() as u32).to_le_bytes()[..], &info].concat());
    assert!(!Nesting::read(&dwarf).is_too_deep(&dwarf, 0x1010));
}

proptest! {
    #[test]
    fn an_address_is_refused_if_a_unit_that_may_have_it_is(
        units in prop::collection::vec(
            (
                prop_oneof![
                    6 => (0..64_u64, 0..24_u64).prop_map(|(start, size)| Place::Size(0x1000 + start, size)),
                    3 => (0..64_u64, 0..80_u64).prop_map(|(start, end)| Place::Ends(0x1000 + start, 0x1000 + end)),
                    1 => Just(Place::Size(u64::MAX - 7, 0x100)),
                    1 => Just(Place::Nowhere),
                ],
                prop_oneof![8 => Just(3), 1 => Just(DEEPEST + 1)],
                0..2_usize,
            )
                .prop_map(|(place, depth, blocks)| Unit { place, depth, blocks }),
            0..8,
        ),
        svma in 0x1000..0x1060_u64,
    ) {
        let deep = |unit: &&Unit| unit.depth > DEEPEST;
        let expected = units.iter().filter(deep).any(|unit| unit.covers(svma) || unit.is_everywhere());
        prop_assert_eq!(asked(&units, svma), expected);
    }

    /// Any bytes behind a head that is right have an answer.
    #[test]
    fn any_unit_has_an_answer(bytes in prop::collection::vec(0..8_u8, 0..600), svma in any::<u64>()) {
        let info = [&[4, 0, 0, 0, 0, 0, 8][..], &bytes].concat();
        let info = [&(info.len() as u32).to_le_bytes()[..], &info].concat();
        let dwarf = dwarf(info);
        let nesting = Nesting::read(&dwarf);
        prop_assert_eq!(nesting.is_too_deep(&dwarf, svma), nesting.is_too_deep(&dwarf, svma));
    }
}
