//! Addresses and ids: how they are written, read back and put in order.

use std::collections::{BTreeSet, HashSet};

use biopsy_model::stack::{FrameHandle, StackHandle};
use biopsy_model::{Avma, BootId, FileOffset, LookupAddress, Pid, ProcessKey, Svma, Tid};
use proptest::prelude::*;

/// The ends of the address space of the kernel and of processes, and of the numbers that say them.
const EDGES: [u64; 12] = [
    0,
    1,
    0xfff,
    0x1000,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff,
    0x8000_0000_0000,
    0xffff_8000_0000_0000,
    0xffff_ffff_ff60_0000,
    u64::MAX - 1,
    u64::MAX,
];

fn read_back(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

#[test]
fn an_address_at_either_end_is_written_and_read_back() {
    for number in EDGES {
        let address = Avma(number);
        assert_eq!(read_back(&address.to_string()), Some(number), "{address}");
        assert_eq!(format!("{address:#x}"), address.to_string());
        assert_eq!(format!("0x{address:x}"), address.to_string());
        // With zeros in front, as tables of mappings have it.
        assert_eq!(format!("{address:016x}").len(), 16);
        assert_eq!(u64::from_str_radix(&format!("{address:016x}"), 16), Ok(number));
    }
    let addresses = EDGES.map(Svma);
    assert!(addresses.is_sorted(), "they are not signed: the kernel is above all processes");
}

#[test]
fn each_space_names_itself_and_nothing_else_does() {
    let all = [
        format!("{:?}", Avma(16)),
        format!("{:?}", Svma(16)),
        format!("{:?}", LookupAddress(16)),
        format!("{:?}", FileOffset(16)),
    ];
    assert_eq!(all, ["Avma(0x10)", "Svma(0x10)", "LookupAddress(0x10)", "FileOffset(0x10)"]);
    let shown = [Avma(16).to_string(), Svma(16).to_string(), LookupAddress(16).to_string()];
    assert!(shown.iter().all(|one| one == "0x10"), "for people the number is enough: {shown:?}");
}

#[test]
fn ids_are_numbers_for_people() {
    for number in [0, 1, 4_194_304, u32::MAX] {
        assert_eq!(Pid(number).to_string(), number.to_string());
        assert_eq!(Tid(number).to_string().parse(), Ok(number));
        assert_eq!(Tid::from(Pid(number)).0, number);
    }
    assert_eq!(format!("{:?} {:?}", Pid(1), Tid(1)), "Pid(1) Tid(1)", "for us they say which");
    assert_eq!((Pid::default(), Tid::default()), (Pid(0), Tid(0)));
}

#[test]
fn handles_are_in_the_order_in_which_they_were_given_out() {
    assert!([0, 1, 9, 10, u32::MAX].map(FrameHandle).is_sorted());
    assert!([0, 1, 9, 10, u32::MAX].map(StackHandle).is_sorted());
}

fn any_key() -> impl Strategy<Value = ProcessKey> {
    (0..3_u32, 0..3_u32, 0..3_u64).prop_map(|(boot, pid, start_ticks)| ProcessKey {
        boot_id: BootId(format!("boot-{boot}")),
        pid: Pid(pid),
        start_ticks,
    })
}

proptest! {
    #[test]
    fn addresses_are_in_the_order_of_their_numbers(one in any::<u64>(), other in any::<u64>()) {
        prop_assert_eq!(Avma(one).cmp(&Avma(other)), one.cmp(&other));
        prop_assert_eq!(LookupAddress::from(Avma(one)) == LookupAddress::from(Svma(other)), one == other);
        prop_assert_eq!(read_back(&FileOffset(one).to_string()), Some(one));
    }

    /// Sets of either kind have each process once: what is equal has one order and one hash.
    #[test]
    fn a_process_is_once_in_any_set(keys in prop::collection::vec(any_key(), 0..30)) {
        let parts = |key: &ProcessKey| (key.boot_id.0.clone(), key.pid.0, key.start_ticks);
        let expected: BTreeSet<_> = keys.iter().map(parts).collect();
        let ordered: BTreeSet<ProcessKey> = keys.iter().cloned().collect();
        let hashed: HashSet<ProcessKey> = keys.into_iter().collect();
        prop_assert_eq!(hashed.len(), expected.len());
        prop_assert_eq!(ordered.iter().map(parts).collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
    }
}
