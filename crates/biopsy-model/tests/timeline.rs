//! What a timeline says of itself, held against what each rule says in one sentence, over many that are made by chance.

use biopsy_model::stack::{FrameHandle, StackEnd, StackHandle, StackNode};
use biopsy_model::timeline::{Allocation, Release, Timeline};
use biopsy_model::{Avma, MonoNanos, Pid, Tid};

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
