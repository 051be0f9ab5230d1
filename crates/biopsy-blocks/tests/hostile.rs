//! Images that were made by hand: what is held, what is lost, and bytes that no process has.

mod holders;

use biopsy_allocators::UsedBlock;
use biopsy_blocks::{MOST_BLOCKS, read};
use biopsy_image::{
    Absence, Backing, GeneralRegisters, Image, ImageModule, Mapping, ProcessFacts, Protection, ReadError,
    Thread,
};
use biopsy_model::{Avma, Tid};
use proptest::prelude::*;

const HEAP: u64 = 0x5500_0000_0000;
const DATA: u64 = 0x7000_0000_0000;
const BYTES: u64 = 0x4000;
/// Bytes of each block, and from one to the next.
const SIZE: u64 = 40;
const STEP: u64 = 48;

/// A heap and memory beside it, in which anything may stand.
struct Made {
    mappings: Vec<Mapping>,
    bytes: Vec<Vec<u8>>,
    threads: Vec<Thread>,
    process: ProcessFacts,
}

impl Made {
    fn new() -> Self {
        let mapping = |start| Mapping {
            start,
            end: start + BYTES,
            protection: Protection { read: true, write: true, execute: false },
            shared: false,
            backing: Backing::Anonymous { label: String::new() },
            not_frozen: false,
        };
        Self {
            mappings: vec![mapping(HEAP), mapping(DATA)],
            bytes: vec![vec![0; BYTES as usize]; 2],
            threads: Vec::new(),
            process: ProcessFacts::default(),
        }
    }

    fn put(&mut self, address: u64, word: u64) {
        let number = usize::from(address >= DATA);
        let at = (address - self.mappings[number].start) as usize;
        self.bytes[number][at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
}

impl Image for Made {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let missing = ReadError::Missing { address, why: Absence::Unmapped };
        let number = self.mappings.iter().position(|one| one.contains(address)).ok_or(missing)?;
        let rest = &self.bytes[number][(address - self.mappings[number].start) as usize..];
        let count = buffer.len().min(rest.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[Thread] {
        &self.threads
    }

    fn modules(&self) -> &[ImageModule] {
        &[]
    }

    fn process(&self) -> &ProcessFacts {
        &self.process
    }
}

fn address(number: u64) -> u64 {
    HEAP + 16 + number * STEP
}

fn blocks(count: u64) -> Vec<UsedBlock> {
    (0..count).map(|number| UsedBlock { start: Avma(address(number)), size: SIZE }).collect()
}

/// What holds each block.
fn holders_of(made: &Made, count: u64) -> Vec<String> {
    let area = HEAP..HEAP + BYTES;
    let heap = read(made, blocks(count), std::slice::from_ref(&area), &Default::default(), MOST_BLOCKS)
        .expect("nothing is spilled");
    let ways = holders::ways(&heap).into_iter();
    ways.map(|way| way.split(" → ").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn what_nothing_leads_to_is_lost_and_the_rest_is_held() {
    let mut made = Made::new();
    // A word in other memory leads to the first, that to the second; a third leads to a fourth; two that lead to each other.
    made.put(DATA + 64, address(0));
    made.put(address(0) + 8, address(1) + 16);
    made.put(address(2), address(3));
    made.put(address(4), address(5));
    made.put(address(5), address(4));
    assert_eq!(holders_of(&made, 6), ["other", "other", "lost", "lost", "lost", "lost"]);
}

#[test]
fn below_the_stack_pointer_nothing_is_held() {
    let mut made = Made::new();
    let registers = GeneralRegisters { rsp: DATA + 0x1000, rbx: address(2), ..GeneralRegisters::default() };
    made.threads = vec![Thread { tid: Tid(7), registers: Some(registers), ..Thread::default() }];
    made.put(DATA + 0x800, address(0));
    made.put(DATA + 0x1800, address(1));
    assert_eq!(holders_of(&made, 3), ["lost", "stack", "stack"]);
}

#[test]
fn a_chain_as_long_as_the_heap_needs_no_stack() {
    let mut made = Made::new();
    let count = (BYTES - 64) / STEP;
    for number in 0..count - 1 {
        made.put(address(number), address(number + 1));
    }
    made.put(DATA, address(0));
    assert!(holders_of(&made, count).iter().all(|holder| holder == "other"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_bytes_give_a_heap(
        words in prop::collection::vec((0..BYTES / 8, any::<bool>(), 0..400_u64, any::<u64>(), 0..4_u8), 0..600),
        sizes in prop::collection::vec(0..5000_u64, 0..100),
        rsp in any::<u64>(),
        fs_base in any::<u64>(),
    ) {
        let mut made = Made::new();
        for (at, in_heap, block, other, what) in words {
            let word = match what {
                0 => other,
                1 => DATA + other % BYTES,
                _ => address(block) + other % 64,
            };
            made.put(if in_heap { HEAP } else { DATA } + at * 8, word);
        }
        let registers = GeneralRegisters { rsp, fs_base, ..GeneralRegisters::default() };
        made.threads = vec![Thread { tid: Tid(7), registers: Some(registers), ..Thread::default() }];
        // Blocks that overlap, and that reach behind the end of memory.
        let mut all = blocks(100);
        all.extend(sizes.iter().enumerate().map(|(number, size)| UsedBlock { start: Avma(HEAP + number as u64 * 160), size: size * size }));
        let heap = read(&made, all, &[], &Default::default(), MOST_BLOCKS).expect("nothing is spilled");
        let totals = heap.graph.totals();
        prop_assert_eq!(totals.1, Some(totals.0), "what is lost has a root too");
    }
}

/// Blocks that are named in tests of chance, and words of each that may lead elsewhere.
const BLOCKS: u64 = 40;
const SLOTS: u64 = SIZE / 8;

/// A word of a block that leads to a place in, or right behind, another.
#[derive(Clone, Debug)]
struct Link {
    from: u64,
    slot: u64,
    to: u64,
    /// Bytes into it: behind its last byte nothing is held.
    into: u64,
}

fn links() -> impl Strategy<Value = Vec<Link>> {
    let link = (0..BLOCKS, 0..SLOTS, 0..BLOCKS, prop_oneof![3 => Just(0), 2 => 0..STEP]);
    let link = link.prop_map(|(from, slot, to, into)| Link { from, slot, to, into });
    prop::collection::vec(link, 0..90)
}

/// What the links and roots hold, gone through one by one.
fn reached(words: &std::collections::BTreeMap<(u64, u64), (u64, u64)>, roots: &[u64]) -> Vec<bool> {
    let mut held = vec![false; BLOCKS as usize];
    let mut waiting: Vec<u64> = roots.to_vec();
    while let Some(block) = waiting.pop() {
        if std::mem::replace(&mut held[block as usize], true) {
            continue;
        }
        let own = words.range((block, 0)..=(block, SLOTS));
        waiting.extend(own.filter(|(_, (_, into))| *into < SIZE).map(|(_, (to, _))| *to));
    }
    held
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// What is called lost is exactly what no root leads to, whatever the way: else a leak is missed, or memory in use is called one.
    #[test]
    fn lost_is_what_nothing_leads_to_and_nothing_else(
        links in links(),
        roots in prop::collection::vec(0..BLOCKS, 0..6),
        on_stack in prop::collection::vec(0..BLOCKS, 0..4),
        below in prop::collection::vec(0..BLOCKS, 0..4),
    ) {
        let mut made = Made::new();
        // A later link of the same word takes the place of the earlier.
        let mut words = std::collections::BTreeMap::new();
        for link in &links {
            made.put(address(link.from) + link.slot * 8, address(link.to) + link.into);
            words.insert((link.from, link.slot), (link.to, link.into));
        }
        let stack = DATA + 0x2000;
        let registers = GeneralRegisters { rsp: stack, ..GeneralRegisters::default() };
        made.threads = vec![Thread { tid: Tid(7), registers: Some(registers), ..Thread::default() }];
        for (number, block) in (0..).zip(roots.iter().chain(&on_stack)) {
            made.put(stack + 0x400 + number * 8, address(*block));
        }
        // What was on the stack once holds nothing.
        for (number, block) in (0..).zip(&below) {
            made.put(stack - 0x800 + number * 8, address(*block));
        }
        let all: Vec<u64> = roots.iter().chain(&on_stack).copied().collect();
        let held = reached(&words, &all);
        let area = HEAP..HEAP + BYTES;
        let heap = read(&made, blocks(BLOCKS), std::slice::from_ref(&area), &Default::default(), MOST_BLOCKS).expect("nothing is spilled");
        let is_lost = |at| heap.graph.static_at(at).is_some_and(|(_, name)| name == "lost");
        let lost: Vec<u64> = heap.graph.roots().iter().filter(|root| is_lost(root.address)).map(|root| root.object.0.into()).collect();
        for block in &lost {
            prop_assert!(!held[*block as usize], "{} is in use, and called lost", block);
        }
        let below_lost = reached(&words, &lost);
        for (number, held) in held.iter().enumerate() {
            prop_assert!(*held || below_lost[number], "{} is lost, and nobody says so", number);
        }
    }

    /// Each block that is lost is told once: it has a root, and so few have one that no root leads to another's.
    #[test]
    fn what_is_lost_has_as_few_roots_as_there_are_beginnings(links in links()) {
        let mut made = Made::new();
        let mut words = std::collections::BTreeMap::new();
        for link in &links {
            made.put(address(link.from) + link.slot * 8, address(link.to) + link.into);
            words.insert((link.from, link.slot), (link.to, link.into));
        }
        let area = HEAP..HEAP + BYTES;
        let heap = read(&made, blocks(BLOCKS), std::slice::from_ref(&area), &Default::default(), MOST_BLOCKS).expect("nothing is spilled");
        let roots: Vec<u64> = heap.graph.roots().iter().map(|root| u64::from(root.object.0)).collect();
        let held = reached(&words, &roots);
        prop_assert!(held.iter().all(|held| *held), "each has a way: {:?} of {:?}", held, roots);
        // Whom another refers to, outside of circles, begins nothing.
        for root in &roots {
            let others: Vec<u64> = roots.iter().copied().filter(|other| other != root).collect();
            let referred = words.iter().any(|((from, _), (to, into))| to == root && from != root && *into < SIZE);
            let without = reached(&words, &others);
            prop_assert!(referred || !without[*root as usize], "{} begins something", root);
            if !referred {
                continue;
            }
            // It is on a circle: it leads back to itself, and no other root leads to it.
            let ways: Vec<u64> = words.range((*root, 0)..=(*root, SLOTS)).filter(|(_, (_, into))| *into < SIZE).map(|(_, (to, _))| *to).collect();
            prop_assert!(reached(&words, &ways)[*root as usize], "{} is told although others hold it", root);
        }
    }
}
