//! Entries that cover the same code, or none: what linkers leave behind, and what nobody should.

use super::super::rule::Rule;
use super::tests::{Function, function, table};
use super::*;
use proptest::prelude::*;

fn start_of(functions: &[Function], svma: u64) -> [Option<u64>; 2] {
    [false, true].map(|with_header| table(functions, with_header).function_start(svma))
}

/// A linker that drops a function leaves its entry at address 0, or without a length.
#[test]
fn entries_of_functions_that_were_dropped_hide_nobody() {
    let kept = function(0x40_0000, 0x100, &[]);
    for dropped in [
        function(0x40_0000, 0, &[]),
        function(0x40_0080, 0, &[]),
        function(0, 0x40, &[]),
        function(0, 0x4000, &[]),
    ] {
        for functions in [[kept.clone(), dropped.clone()], [dropped.clone(), kept.clone()]] {
            let built = table(&functions, false);
            for at in [0x40_0000, 0x40_0080, 0x40_00ff] {
                assert_eq!(built.function_start(at), Some(0x40_0000), "{at:#x} {dropped:?}");
            }
            assert_eq!(built.function_start(0x40_0100), None);
        }
    }
}

/// Code written by hand: an entry for all of it, and others for parts. The innermost is meant.
#[test]
fn an_entry_inside_of_another_hides_its_own_part_only() {
    let functions =
        [function(0x1000, 0x1000, &[]), function(0x1400, 0x10, &[0x0e, 0x20]), function(0x1800, 0x10, &[])];
    let built = table(&functions, false);
    for (at, start) in [
        (0x1000, 0x1000),
        (0x13ff, 0x1000),
        (0x1400, 0x1400),
        (0x140f, 0x1400),
        (0x1410, 0x1000),
        (0x1800, 0x1800),
        (0x1fff, 0x1000),
    ] {
        assert_eq!(built.function_start(at), Some(start), "{at:#x}");
    }
    assert_eq!(start_of(&functions, 0x2000), [None, None]);
}

#[test]
fn entries_that_go_round_the_end_of_addresses_cover_nothing_else() {
    let round = function(u64::MAX - 0xf, 0x100, &[]);
    let built = table(&[round, function(0x40, 0x10, &[])], false);
    assert_eq!(built.function_start(0x40), Some(0x40));
    assert_eq!(built.function_start(0), None);
    assert_ne!(built.rule(&mut Context::new(), 0x45), Rule::Nothing);
}

proptest! {
    /// Whatever overlaps: an address is covered if any entry covers it, and by one that does.
    #[test]
    fn an_address_has_a_rule_if_any_entry_covers_it(
        rows in prop::collection::vec((0..400_u64, 0..120_u64), 1..12),
    ) {
        let functions: Vec<Function> =
            rows.iter().map(|(start, length)| function(0x1000 + start, *length, &[])).collect();
        let built = table(&functions, false);
        for at in 0x1000..0x1000 + 530 {
            let covers = |one: &Function| (one.start..one.start + one.length).contains(&at);
            // The innermost: the one that begins last.
            let expected = functions.iter().filter(|one| covers(one)).map(|one| one.start).max();
            prop_assert_eq!(built.function_start(at), expected, "{:#x}", at);
        }
    }
}
