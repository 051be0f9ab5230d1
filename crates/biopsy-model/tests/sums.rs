//! What is counted and looked up, against what a sentence says of it: sums of blocks, parts of a footprint, fields of objects, peers.

use biopsy_model::Pid;
use biopsy_model::footprint::{Blocks, Footprint, FootprintPart, MemoryKind};
use biopsy_model::heap::HeapType;
use biopsy_model::loss::LossKind;
use biopsy_model::peers::{PeerLook, PeerProcess};
use biopsy_model::runtime_trace::Kept;
use proptest::prelude::*;

fn any_bytes() -> impl Strategy<Value = u64> {
    prop_oneof![0..4096_u64, any::<u64>()]
}

fn sum(sizes: &[u64]) -> Blocks {
    let mut blocks = Blocks::default();
    sizes.iter().for_each(|bytes| blocks.add(*bytes));
    blocks
}

fn any_kind() -> impl Strategy<Value = MemoryKind> {
    prop_oneof![
        Just(MemoryKind::Allocated),
        Just(MemoryKind::AllocatorFree),
        Just(MemoryKind::Stacks),
        Just(MemoryKind::Unknown),
        Just(MemoryKind::Other("gpu".to_owned())),
        Just(MemoryKind::Other("npu".to_owned())),
    ]
}

proptest! {
    #[test]
    fn blocks_add_up_in_any_order(sizes in prop::collection::vec(any_bytes(), 0..20), at in 0..20_usize) {
        let blocks = sum(&sizes);
        prop_assert_eq!(blocks.count, sizes.len() as u64);
        let exact: u128 = sizes.iter().map(|bytes| u128::from(*bytes)).sum();
        prop_assert_eq!(u128::from(blocks.bytes), exact.min(u128::from(u64::MAX)));
        let mut turned = sizes.clone();
        turned.rotate_left(at.min(sizes.len()));
        prop_assert_eq!(sum(&turned), blocks);
    }

    /// A document may name a kind twice; the first one is told, and never that of another kind.
    #[test]
    fn memory_of_a_kind_is_that_of_its_first_part(rows in prop::collection::vec((any_kind(), any::<u64>()), 0..8), asked in any_kind()) {
        let parts: Vec<FootprintPart> =
            rows.iter().map(|(kind, resident)| FootprintPart { kind: kind.clone(), resident: *resident, reserved: 0 }).collect();
        let footprint = Footprint { parts, ..Footprint::default() };
        let expected = rows.iter().find(|(kind, _)| *kind == asked).map_or(0, |(_, resident)| *resident);
        prop_assert_eq!(footprint.resident(&asked), expected);
        prop_assert_eq!(footprint.resident(&MemoryKind::from(asked.as_str())), expected, "as it is written");
    }

    /// An array of structures has the fields of its element again and again; an object has them once.
    #[test]
    fn references_are_in_the_fields_that_a_count_by_hand_gives(count in 0..5_usize, repeats in any::<bool>(), asked in 0..40_usize) {
        let fields: Vec<String> = (0..count).map(|number| format!("_field{number}")).collect();
        let of = HeapType { fields: fields.clone(), repeats, ..HeapType::default() };
        let turns = if repeats { 40 } else { 1 };
        let expected = std::iter::repeat_n(&fields, turns).flatten().nth(asked);
        prop_assert_eq!(of.field_of(asked), expected.map(String::as_str));
    }

    #[test]
    fn a_number_that_was_noted_is_found_at_its_first_place(names in prop::collection::vec("[ab]{0,2}", 0..8), asked in "[ab]{0,2}") {
        let of = HeapType { noted: names.clone(), ..HeapType::default() };
        match of.noted(&asked) {
            Some(place) => {
                prop_assert_eq!(&names[place], &asked);
                prop_assert!(!names[..place].contains(&asked));
            }
            None => prop_assert!(!names.contains(&asked)),
        }
    }

    /// Pids are given away again, so that a look may have one twice: the first is the one that was asked for first.
    #[test]
    fn a_peer_is_the_first_of_its_number(pids in prop::collection::vec(0..6_u32, 0..8), asked in 0..6_u32) {
        let processes = (0..).zip(&pids).map(|(number, pid)| PeerProcess {
            pid: Pid(*pid),
            name: format!("process {number}"),
            ..PeerProcess::default()
        });
        let look = PeerLook { processes: processes.collect(), hidden: 0 };
        let expected = pids.iter().position(|pid| *pid == asked).map(|number| format!("process {number}"));
        prop_assert_eq!(look.process(Pid(asked)).map(|one| one.name.clone()), expected);
    }
}

#[test]
fn what_nothing_was_kept_of_has_no_total() {
    struct NotEvenClone;
    let kept = Kept::<NotEvenClone>::default();
    assert!(kept.items.is_empty() && kept.total == 0);
}

/// Losses are sorted by kind in reports: what a profile misses comes before what a machine's readings miss.
#[test]
fn losses_of_samples_come_before_those_of_readings() {
    let mut kinds =
        [LossKind::Metrics, LossKind::Switches, LossKind::Samples, LossKind::Disk, LossKind::Waits];
    kinds.sort_unstable();
    assert_eq!(
        kinds,
        [LossKind::Samples, LossKind::Waits, LossKind::Metrics, LossKind::Disk, LossKind::Switches]
    );
}
