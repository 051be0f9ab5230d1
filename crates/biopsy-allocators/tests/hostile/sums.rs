//! All memory of a process is of one kind, and of no other: whatever runtimes and allocators say, the parts add up to the whole.

use std::ops::Range;

use biopsy_allocators::{Managed, footprint, with_blocks, with_runtimes};
use biopsy_image::Backing;
use biopsy_model::footprint::{Footprint, MemoryKind, MemoryPool, RuntimeArea, RuntimeHeap, RuntimeMemory};
use proptest::prelude::*;

use crate::made::{Block, HEAD_OF_TODAY, Made};
use crate::processes::{ARENA, HEAP, HEAP_BYTES, INFO, LIBC, LIBC_BYTES, SECOND, process, total, two_arenas};

/// Bytes of addresses, of all kinds.
fn reserved(footprint: &Footprint) -> u64 {
    footprint.parts.iter().map(|part| part.reserved).fold(0, u64::saturating_add)
}

/// Everything is in memory in these processes, so that both sums are the same.
#[track_caller]
fn adds_up(what: &str, footprint: &Footprint, made: &Made) {
    assert_eq!(total(footprint), made.resident(), "{what}: {footprint:#?}");
    assert_eq!(reserved(footprint), made.resident(), "{what}, of addresses: {footprint:#?}");
    assert!(
        footprint.parts.is_sorted_by(|one, next| one.resident >= next.resident),
        "{what}: the largest is first"
    );
    for (number, part) in footprint.parts.iter().enumerate() {
        assert!(part.resident <= part.reserved, "{what}: {part:?}");
        assert!(
            !footprint.parts[..number].iter().any(|one| one.kind == part.kind),
            "{what}: {:?} twice",
            part.kind
        );
    }
}

fn labelled(label: &str) -> Backing {
    Backing::Anonymous { label: label.to_owned() }
}

fn file(path: &str) -> Backing {
    Backing::File { path: path.into(), offset: 0, deleted: false, identity: (1, 2) }
}

#[test]
fn each_mapping_counts_as_what_it_is_for() {
    let mut made = Made::default();
    let rows = [
        (labelled("[heap]"), false, false, MemoryKind::Unaccounted),
        (labelled("[stack]"), false, false, MemoryKind::Stacks),
        (labelled("[anon:thread stack]"), false, false, MemoryKind::Unaccounted),
        (labelled(""), true, false, MemoryKind::Shared),
        (labelled(""), false, true, MemoryKind::CompiledCode),
        (file("/opt/app"), false, false, MemoryKind::ChangedFiles),
        (file("/opt/app"), false, true, MemoryKind::ChangedFiles),
        (file("/SYSV00000000"), true, false, MemoryKind::Shared),
        (Backing::Unknown, false, false, MemoryKind::Unaccounted),
    ];
    let mut expected: Vec<(MemoryKind, u64)> = Vec::new();
    for (number, (backing, shared, execute, kind)) in (1..).zip(rows) {
        made.map_as(number << 20, number * 0x1000, backing, shared, execute);
        match expected.iter_mut().find(|(one, _)| *one == kind) {
            Some((_, bytes)) => *bytes += number * 0x1000,
            None => expected.push((kind, number * 0x1000)),
        }
    }
    let found = footprint(&made, &[]);
    for (kind, bytes) in expected {
        assert_eq!(found.resident(&kind), bytes, "{kind:?}: {found:#?}");
    }
    adds_up("all kinds", &found, &made);
}

/// A file that others see as well, and what the kernel maps, are no memory of the process.
#[test]
fn memory_of_others_is_not_counted() {
    let mut made = Made::default();
    made.map_as(1 << 20, 0x1000, file("/var/lib/data"), true, false);
    made.map_as(2 << 20, 0x1000, Backing::Kernel { label: "[vvar]".to_owned() }, false, false);
    assert_eq!(footprint(&made, &[]).parts, []);
    assert_eq!(footprint(&Made::default(), &[]).parts, [], "a process without memory");
}

#[test]
fn memory_on_which_a_thread_stands_is_its_stack() {
    let mut made = Made::default();
    for number in 1..4 {
        made.map(number << 20, 0x1000, None);
    }
    for pointer in [(1 << 20) - 1, (2 << 20) + 0xff8, (3 << 20) + 0x1000, u64::MAX, 0] {
        made.thread(pointer);
    }
    let found = footprint(&made, &[]);
    assert_eq!(found.resident(&MemoryKind::Stacks), 0x1000, "{found:#?}");
    adds_up("three mappings", &found, &made);
}

/// What a managed runtime says of its segments is read from its memory, too.
#[test]
fn managed_memory_is_counted_once_whatever_the_runtime_says() {
    let (start, end) = (1 << 20, (1 << 20) + 0x8000);
    for (what, ranges, managed) in [
        ("nothing", vec![], 0),
        ("a part", vec![start + 0x1000..start + 0x3000; 1], 0x2000),
        ("all", vec![start..end; 1], 0x8000),
        ("all of memory", vec![0..u64::MAX; 1], 0x8000),
        ("what is not mapped", vec![0..start, end..u64::MAX], 0),
        ("the same twice", vec![start..start + 0x1000, start..start + 0x1000], 0x1000),
        ("parts that overlap", vec![start..start + 0x3000, start + 0x1000..start + 0x2000], 0x3000),
        ("parts in no order", vec![start + 0x4000..start + 0x5000, start..start + 0x1000], 0x2000),
        ("an empty one", vec![start..start, start + 0x1000..start + 0x2000], 0x1000),
        ("one that ends before it begins", vec![Range { start: end, end: start }], 0),
    ] {
        let mut made = Made::default();
        made.map(start, end - start, None);
        let found = footprint(&made, &ranges);
        assert_eq!(found.resident(&MemoryKind::ManagedHeap), managed, "{what}");
        assert!(found.warnings.is_empty(), "{what}: {:?}", found.warnings);
        adds_up(what, &found, &made);
    }
}

/// A runtime with pools of these kinds.
fn runtime(name: &str, kinds: &[MemoryKind], areas: Vec<(Range<u64>, usize, u64)>) -> RuntimeHeap {
    let pool = |kind: &MemoryKind| MemoryPool { kind: kind.clone(), ..MemoryPool::default() };
    let area = |(range, pool, used)| RuntimeArea { range, pool, used };
    let pools = kinds.iter().map(pool).collect();
    RuntimeHeap {
        memory: RuntimeMemory { name: name.to_owned(), pools, ..RuntimeMemory::default() },
        areas: areas.into_iter().map(area).collect(),
        warnings: Vec::new(),
    }
}

/// What is in use of a pool is of its kind, what is not is free, and what a pool has in memory is said of it.
#[test]
fn memory_of_a_runtime_is_told_by_pool_and_given_to_nobody_else() {
    const START: u64 = 1 << 20;
    let mut made = Made::default();
    made.map(START, 0x8000, None);
    let kinds = [MemoryKind::ManagedHeap, MemoryKind::RuntimeData];
    let go = runtime(
        "Go 1.22.5",
        &kinds,
        vec![
            (START..START + 0x2000, 0, 0x800),
            (START + 0x2000..START + 0x3000, 1, 0x1000),
            // Half of it is mapped.
            (START + 0x7000..START + 0x9000, 0, 0x2000),
        ],
    );
    // The first keeps what both say to have; a pool that is not there has nothing.
    let java = runtime("Java 17", &kinds, vec![(START..START + 0x4000, 1, 0x4000), (0..START, 9, 1)]);
    let runtimes = vec![go, java, runtime("not read", &[], vec![])];
    let found = with_runtimes(&made, Managed { heaps: &[], runtimes }, 0).footprint;
    adds_up("two runtimes", &found, &made);
    for (kind, bytes) in [
        (MemoryKind::ManagedHeap, 0x1800),
        (MemoryKind::ManagedFree, 0x1800),
        (MemoryKind::RuntimeData, 0x2000),
        (MemoryKind::Unaccounted, 0x3000),
    ] {
        assert_eq!(found.resident(&kind), bytes, "{kind:?}: {found:#x?}");
    }
    let pools: Vec<(&str, u64, u64)> = found
        .runtimes
        .iter()
        .flat_map(|one| one.pools.iter().map(|pool| (one.name.as_str(), pool.resident, pool.reserved)))
        .collect();
    let expected = [("Go 1.22.5", 0x3000, 0x3000), ("Go 1.22.5", 0x1000, 0x1000), ("Java 17", 0, 0)];
    assert_eq!(pools, [&expected[..], &[("Java 17", 0x1000, 0x1000)]].concat());
}

/// Both say to have it: it is the arena's, of which each block is known, and that is said.
#[test]
fn managed_memory_in_an_arena_is_not_counted_twice() {
    for (what, range, managed) in [
        ("in the middle", HEAP + 0x1000..HEAP + 0x2000, 0),
        ("all of it", HEAP..HEAP + HEAP_BYTES, 0),
        ("all there is", 0..u64::MAX, LIBC_BYTES),
    ] {
        let made = process(HEAD_OF_TODAY, &[Block::Used(0x4000), Block::Free(0x1000), Block::Used(64)]);
        let alone = footprint(&made, &[]);
        let found = footprint(&made, std::slice::from_ref(&range));
        adds_up(what, &found, &made);
        assert_eq!(found.resident(&MemoryKind::ManagedHeap), managed, "{what}");
        assert_eq!(found.resident(&MemoryKind::Allocated), alone.resident(&MemoryKind::Allocated), "{what}");
        assert!(
            found.warnings.iter().any(|one| one.contains("managed heap")),
            "{what}: {:?}",
            found.warnings
        );
    }
}

/// How much an arena has from the system is only a number in it.
#[test]
fn an_arena_that_lies_about_its_memory_changes_no_sum() {
    let blocks = [Block::Used(64), Block::Free(4096), Block::Used(0x3000)];
    for system in [0, 1, HEAP_BYTES - 1, HEAP_BYTES, HEAP_BYTES + 1, 1 << 46, u64::MAX] {
        let mut made = process(HEAD_OF_TODAY, &blocks);
        made.word(ARENA + 96 + 16 + 127 * 16 + 16 + 24, system);
        let found = footprint(&made, &[]);
        assert_eq!(found.allocators[0].arenas[0].system, system, "it is told as it is said");
        assert_eq!(found.resident(&MemoryKind::Allocated), 64 + 0x3000);
        adds_up(&format!("{system:#x}"), &found, &made);
    }
}

/// A heap that says to be larger than what is mapped of it, or smaller than its blocks.
#[test]
fn a_heap_that_lies_about_its_size_changes_no_sum() {
    let some: &[Block] = &[Block::Used(64), Block::Free(4096), Block::Used(64)];
    for size in [0, 16, INFO, 0x800, HEAP_BYTES - 8, HEAP_BYTES + 0x1000, 64 << 20, (64 << 20) + 1, u64::MAX]
    {
        for heap in SECOND {
            let mut made = two_arenas([some, some, some]);
            made.word(heap + 16, size);
            let memory = with_blocks(&made, &[], 1000);
            adds_up(&format!("{size:#x} bytes at {heap:#x}"), &memory.footprint, &made);
        }
    }
}

proptest! {
    #[test]
    fn the_parts_add_up_whatever_runtimes_say(
        rows in prop::collection::vec((0..0x40_u64, 0..0x10_u64, 0..3_usize, any::<u64>()), 0..20),
        heap in 0..0x20_u64,
    ) {
        let made = process(HEAD_OF_TODAY, &[Block::Used(0x4000), Block::Free(0x1000), Block::Used(64)]);
        let mut at = HEAP - 0x4000;
        let mut areas = Vec::new();
        for (gap, pages, pool, used) in rows {
            let start = at + gap * 0x400;
            at = start + pages * 0x800;
            areas.push((start..at, pool, used.min(at - start)));
        }
        let kinds = [MemoryKind::ManagedHeap, MemoryKind::Stacks];
        let text = format!("{areas:x?}");
        let managed_heap = HEAP..HEAP + heap * 0x400;
        let heaps = std::slice::from_ref(&managed_heap);
        let managed = Managed { heaps, runtimes: vec![runtime("Go 1.22.5", &kinds, areas)] };
        adds_up(&text, &with_runtimes(&made, managed, 0).footprint, &made);
    }

    #[test]
    fn the_parts_add_up_whatever_is_said_to_be_managed(
        rows in prop::collection::vec((0..4_usize, 0..0x22_u64, 0..0x22_u64), 0..6),
    ) {
        let some: &[Block] = &[Block::Used(0x2000), Block::Free(4096), Block::Fast(32), Block::Used(64)];
        let made = two_arenas([some, some, some]);
        let places = [HEAP, SECOND[0], SECOND[1], LIBC];
        let managed: Vec<Range<u64>> = rows
            .into_iter()
            .map(|(place, from, pages)| places[place] + from * 0x1000..places[place] + (from + pages) * 0x1000)
            .collect();
        let found = footprint(&made, &managed);
        adds_up(&format!("{managed:x?}"), &found, &made);
    }

    /// Any words of the bookkeeping may be anything.
    #[test]
    fn the_parts_add_up_whatever_arenas_say(
        changes in prop::collection::vec((0..4_usize, 0..0x400_u64, any::<u64>(), 0..64_u32), 1..20),
    ) {
        let some: &[Block] = &[Block::Used(64), Block::Free(4096), Block::Fast(32), Block::Used(0x290)];
        let mut made = two_arenas([some, some, some]);
        let places = [HEAP, SECOND[0], SECOND[1], ARENA];
        for (at, word, number, shift) in changes {
            made.word(places[at] + word * 8, number >> shift);
        }
        let found = footprint(&made, &[]);
        prop_assert_eq!(total(&found), made.resident());
        prop_assert_eq!(reserved(&found), made.resident());
    }
}
