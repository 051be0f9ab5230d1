//! Sums of allocations by hand.

use super::*;
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace, StackEnd, StackNode};
use biopsy_model::symbol::{FrameSymbols, Function, SymbolSource};
use biopsy_model::timeline::{AllocationCount, Release};
use biopsy_model::{Avma, LookupAddress, MonoNanos, Pid, Tid};

const MILLISECOND: u64 = 1_000_000;

/// Functions `serve` → `parse`, `serve` → `store`.
fn timeline(watches: &[(u64, u64)], end: u64) -> Timeline {
    let named = |number: u32, name: &str| {
        let function = Function { name: name.to_owned(), file: None, line: None };
        Some(FrameSymbols {
            frame: FrameHandle(number),
            functions: vec![function],
            source: SymbolSource::ElfSymbols,
        })
    };
    let frame = |address| Frame { space: FrameSpace::User, module: None, address: LookupAddress(address) };
    let node =
        |caller: Option<u32>, frame| StackNode { caller: caller.map(StackHandle), frame: FrameHandle(frame) };
    let watch = |&(from, to): &(u64, u64)| AllocationWatch {
        from: MonoNanos(from * MILLISECOND),
        to: MonoNanos(to * MILLISECOND),
        released_to: MonoNanos(to * MILLISECOND),
        calls: 100,
        bytes: 1_000_000,
        interval: 1000,
    };
    Timeline {
        frames: vec![frame(1), frame(2), frame(3)],
        symbols: vec![named(0, "serve"), named(1, "parse"), named(2, "store")],
        stacks: vec![node(None, 0), node(Some(0), 1), node(Some(0), 2)],
        allocation_watches: watches.iter().map(watch).collect(),
        span: Some((MonoNanos(1), MonoNanos(end * MILLISECOND))),
        ..Timeline::default()
    }
}

fn allocate(timeline: &mut Timeline, at: u64, stack: u32, address: u64, weight: u64) {
    timeline.allocations.push(Allocation {
        time: MonoNanos(at * MILLISECOND),
        pid: Pid(7),
        tid: Tid(7),
        stack: Some(StackHandle(stack)),
        end: StackEnd::Root,
        address: Avma(address),
        size: weight,
        weight,
    });
}

fn release(timeline: &mut Timeline, at: u64, address: u64) {
    timeline.releases.push(Release {
        time: MonoNanos(at * MILLISECOND),
        pid: Pid(7),
        address: Avma(address),
    });
}

fn summary(timeline: &Timeline) -> (AllocationSummary, Vec<String>) {
    let frames = FrameTable::new(timeline);
    let summary = AllocationSummary::new(timeline, &frames).expect("it was watched");
    let names = summary.sites.iter().map(|site| frames.row(site.place).expect("a function").name.clone());
    let names = names.collect();
    (summary, names)
}

#[test]
fn what_is_not_given_back_comes_first_with_who_allocated_it() {
    let mut one = timeline(&[(0, 1000), (1000, 2000)], 2010);
    for (number, stack) in [1, 1, 1, 2].into_iter().enumerate() {
        allocate(&mut one, 10 + number as u64, stack, number as u64, 1000);
    }
    for address in 0..3 {
        release(&mut one, 20, address);
    }
    let (summary, names) = summary(&one);
    assert!(summary.is_whole());
    assert_eq!((summary.allocated, summary.calls, summary.samples), (2_000_000, 200, 4));
    assert_eq!(names, ["store", "parse"]);
    let sites: Vec<_> = summary.sites.iter().map(|site| (site.allocated, site.kept, site.samples)).collect();
    assert_eq!(sites, [(500_000, 500_000, 1), (1_500_000, 0, 3)]);
    assert_eq!(summary.kept, 500_000);
    assert_eq!(summary.sites[0].stack.len(), 2);
}

#[test]
fn what_was_watched_stands_for_the_pauses_too() {
    let mut one = timeline(&[(0, 100), (900, 1000)], 2000);
    allocate(&mut one, 10, 1, 1, 1000);
    let (summary, _) = summary(&one);
    assert!((summary.watched - 0.1).abs() < 1e-9, "{}", summary.watched);
    assert_eq!((summary.counted, summary.allocated), (2_000_000, 20_000_000));
    assert_eq!(summary.sites[0].kept, 20_000_000, "nobody saw it go");
    assert!((summary.seconds - 2.0).abs() < 1e-9);
}

#[test]
fn an_address_that_is_handed_out_again_was_given_back() {
    let mut one = timeline(&[(0, 1000)], 1000);
    release(&mut one, 5, 1);
    allocate(&mut one, 10, 1, 1, 1000);
    allocate(&mut one, 30, 2, 1, 1000);
    let kept = |one: &Timeline| one.allocations_kept().map(|(_, kept)| kept).collect::<Vec<_>>();
    assert_eq!(kept(&one), [false, true], "the release before it is of another");
    release(&mut one, 40, 1);
    assert_eq!(kept(&one), [false, false]);
}

#[test]
fn nobody_watched_is_no_summary() {
    let one = timeline(&[], 1000);
    assert!(AllocationSummary::new(&one, &FrameTable::new(&one)).is_none());
}

#[test]
fn what_a_place_had_in_the_middle_tells_whether_it_grows() {
    let second = 1_000_000_000;
    let count = |at: u64, stack: Option<u32>, bytes, released_bytes| AllocationCount {
        time: MonoNanos(at * second),
        pid: Pid(7),
        stack: stack.map(StackHandle),
        calls: 1,
        bytes,
        released: 0,
        released_bytes,
        temporary: 0,
        peak: bytes,
    };
    let of = |counts: Vec<AllocationCount>| {
        let mut one = timeline(&[], 40_000);
        one.allocation_counts = counts;
        let frames = FrameTable::new(&one);
        let summary = counted::summary(&one, &frames).expect("it was counted");
        let row = |site: &AllocationSite| {
            let name = frames.row(site.place).expect("a function").name.clone();
            (name, site.kept, site.then)
        };
        (summary.then.map(|then| then.0 / second), summary.sites.iter().map(row).collect::<Vec<_>>())
    };
    // `store` has not changed since it was read first; what `parse` has at 20 s is there, and goes again.
    let (then, sites) = of(vec![
        count(1, Some(2), 500, 100),
        count(1, Some(1), 10, 0),
        count(18, Some(1), 1000, 200),
        count(19, None, 1500, 300),
        count(30, Some(1), 5000, 200),
        count(40, Some(1), 9000, 8900),
        count(40, None, 9500, 9000),
    ]);
    assert_eq!(then, Some(18));
    assert_eq!(sites, [("store".to_owned(), 400, 400), ("parse".to_owned(), 100, 800)]);
    // Read at the beginning and at the end alone: nothing to compare with.
    let (then, sites) = of(vec![count(1, Some(1), 10, 0), count(40, Some(1), 20, 0), count(40, None, 20, 0)]);
    assert_eq!((then, sites), (None, vec![("parse".to_owned(), 20, 0)]));
}
