//! What a timeline says of itself, held against what each rule says in one sentence, over many that are made by chance.

use biopsy_model::module::{Module, ModuleHandle, ModuleKind};
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace, StackEnd, StackHandle, StackNode};
use biopsy_model::timeline::{Allocation, Release, Timeline};
use biopsy_model::{Avma, FileOffset, LookupAddress, MonoNanos, Pid, Tid};
use proptest::prelude::*;

/// The same numbers in each run (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[test]
fn kept_is_what_nobody_gave_back_and_nothing_else_took_the_place_of() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for round in 0..3_000 {
        let mut allocations: Vec<Allocation> = (0..numbers.below(8))
            .map(|_| Allocation {
                time: MonoNanos(numbers.below(6)),
                pid: Pid(numbers.below(2) as u32),
                tid: Tid(1),
                stack: None,
                end: StackEnd::Root,
                address: Avma(numbers.below(3)),
                size: 1,
                weight: 1,
            })
            .collect();
        let mut releases: Vec<Release> = (0..numbers.below(8))
            .map(|_| Release {
                time: MonoNanos(numbers.below(7)),
                pid: Pid(numbers.below(2) as u32),
                address: Avma(numbers.below(3)),
            })
            .collect();
        allocations.sort_by_key(|one| one.time);
        releases.sort_by_key(|one| one.time);
        let expected: Vec<bool> = allocations
            .iter()
            .enumerate()
            .map(|(index, one)| {
                let same = |pid, address| (pid, address) == (one.pid, one.address);
                let again = allocations.iter().skip(index + 1).any(|later| same(later.pid, later.address));
                let given = releases.iter().any(|it| same(it.pid, it.address) && it.time >= one.time);
                !again && !given
            })
            .collect();
        let timeline = Timeline { allocations, releases, ..Timeline::default() };
        let found: Vec<bool> = timeline.allocations_kept().map(|(_, kept)| kept).collect();
        assert_eq!(found, expected, "round {round}: {timeline:#?}");
    }
}

#[test]
fn any_table_of_stacks_ends() {
    let mut numbers = Numbers(7);
    for _ in 0..2_000 {
        let count = numbers.below(12) + 1;
        let stacks: Vec<StackNode> = (0..count)
            .map(|number| StackNode {
                caller: (numbers.below(4) > 0).then(|| StackHandle(numbers.below(count + 2) as u32)),
                frame: FrameHandle(number as u32),
            })
            .collect();
        let timeline = Timeline { stacks, ..Timeline::default() };
        for handle in 0..count + 2 {
            let frames: Vec<u32> =
                timeline.frames_of(Some(StackHandle(handle as u32))).map(|frame| frame.0).collect();
            // Each is the caller that its callee names, and was defined before it.
            assert!(frames.windows(2).all(|pair| pair[1] < pair[0]));
            for pair in frames.windows(2) {
                let named = timeline.stacks[pair[0] as usize].caller;
                assert_eq!(named, Some(StackHandle(pair[1])));
            }
            assert_eq!(frames.is_empty(), handle >= count);
        }
    }
}

fn allocation((time, pid, address): (u64, u32, u64)) -> Allocation {
    Allocation {
        time: MonoNanos(time),
        pid: Pid(pid),
        tid: Tid(pid),
        stack: None,
        end: StackEnd::Root,
        address: Avma(address),
        size: 8,
        weight: 8,
    }
}

fn release((time, pid, address): (u64, u32, u64)) -> Release {
    Release { time: MonoNanos(time), pid: Pid(pid), address: Avma(address) }
}

/// Of these allocations, by address and time, whether each was kept.
fn kept(allocations: &[Allocation], releases: &[Release]) -> Vec<bool> {
    let timeline =
        Timeline { allocations: allocations.to_vec(), releases: releases.to_vec(), ..Timeline::default() };
    timeline.allocations_kept().map(|(_, kept)| kept).collect()
}

#[test]
fn of_many_allocations_at_one_moment_the_last_at_an_address_is_kept() {
    let same: Vec<Allocation> = (0..1000).map(|number| allocation((5, 1, number % 10))).collect();
    let found = kept(&same, &[]);
    assert!(found[..990].iter().all(|kept| !kept) && found[990..].iter().all(|kept| *kept));
    // Given back at the very moment: all of them are gone, as a release is never before its allocation.
    let releases: Vec<Release> = (0..10).map(|address| release((5, 1, address))).collect();
    assert!(kept(&same, &releases).iter().all(|kept| !kept));
    // An instant before, it was the one before them.
    let before: Vec<Release> = (0..10).map(|address| release((4, 1, address))).collect();
    assert_eq!(kept(&same, &before), found);
}

#[test]
fn memory_at_the_ends_of_time_and_space_is_kept_like_any_other() {
    let ends = [(0, 0, 0), (0, u32::MAX, u64::MAX), (u64::MAX, 0, u64::MAX)];
    assert_eq!(kept(&ends.map(allocation), &[]), [true; 3]);
    assert_eq!(kept(&ends.map(allocation), &ends.map(release)), [false; 3]);
}

fn events() -> impl Strategy<Value = Vec<(u64, u32, u64)>> {
    prop::collection::vec((0..6_u64, 0..3_u32, 0..4_u64), 0..20).prop_map(|mut rows| {
        rows.sort_by_key(|row| row.0);
        rows
    })
}

proptest! {
    /// What one process does changes nothing of another's.
    #[test]
    fn a_process_keeps_what_it_keeps_alone(made in events(), given in events()) {
        let (made, given): (Vec<_>, Vec<_>) = (made.into_iter().map(allocation).collect(), given.into_iter().map(release).collect());
        let together = kept(&made, &given);
        for pid in (0..3).map(Pid) {
            let own: Vec<Allocation> = made.iter().filter(|one| one.pid == pid).copied().collect();
            let own_given: Vec<Release> = given.iter().filter(|one| one.pid == pid).copied().collect();
            let of_it: Vec<bool> = made.iter().zip(&together).filter(|(one, _)| one.pid == pid).map(|(_, kept)| *kept).collect();
            prop_assert_eq!(kept(&own, &own_given), of_it);
        }
    }

    /// Two releases of one moment have no order, and one more only ever takes away.
    #[test]
    fn a_release_never_brings_memory_back(made in events(), given in events(), more in (0..6_u64, 0..3_u32, 0..4_u64)) {
        let made: Vec<Allocation> = made.into_iter().map(allocation).collect();
        let mut given: Vec<Release> = given.into_iter().map(release).collect();
        let found = kept(&made, &given);
        let mut turned = given.clone();
        turned.reverse();
        turned.sort_by_key(|one| one.time);
        prop_assert_eq!(kept(&made, &turned), found.clone());
        given.push(release(more));
        given.sort_by_key(|one| one.time);
        for (before, after) in found.iter().zip(kept(&made, &given)) {
            prop_assert!(*before || !after);
        }
        // No address is held twice.
        let held: Vec<_> = made.iter().zip(&found).filter(|(_, kept)| **kept).map(|(one, _)| (one.pid, one.address)).collect();
        prop_assert!((1..held.len()).all(|number| !held[..number].contains(&held[number])));
    }

    /// Any tables: a frame has the module that it names, if that is there, and the number that it names it by.
    #[test]
    fn the_module_of_a_frame_is_the_one_at_its_number(
        named in prop::collection::vec(prop::option::of(0..6_u32), 0..8), count in 0..5_u64, asked in 0..10_u32,
    ) {
        let module = |number| Module {
            pid: Pid(1),
            kind: ModuleKind::Elf,
            path: format!("/lib/{number}"),
            build_id: None,
            start: Avma(number << 12),
            end: Avma((number + 1) << 12),
            offset: FileOffset(0),
            since: MonoNanos(0),
            deleted: false,
        };
        let frame = |module: &Option<u32>| Frame {
            space: FrameSpace::User,
            module: module.map(ModuleHandle),
            address: LookupAddress(0),
        };
        let timeline = Timeline {
            modules: (0..count).map(module).collect(),
            frames: named.iter().map(frame).collect(),
            ..Timeline::default()
        };
        let expected = named.get(asked as usize).copied().flatten().filter(|number| u64::from(*number) < count);
        let found = timeline.module_of(FrameHandle(asked)).map(|(handle, module)| (handle.0, module.path.clone()));
        prop_assert_eq!(found, expected.map(|number| (number, format!("/lib/{number}"))));
    }
}
