//! The code cache: which piece an address is in, and which calls were compiled into it.

use proptest::prelude::*;

use super::{DATA, Made, packed};
use crate::jvm::compressed::Form;

/// Bits of a segment of the made heaps.
const BITS: u32 = 6;
/// Bytes of the header of a piece of code here.
const HEADER: u64 = 0x60;

/// A piece of code: its segments; the first instruction tells pieces apart.
fn blob(made: &mut Made, at: u64, code: u64, words: i32, complete: u16, compiled: bool) {
    let apart = made.layout.code.short_frame_complete;
    let name = made.names[usize::from(!compiled)];
    match apart {
        true => made.image.word(at, if compiled { 3 } else { 2 }),
        false => made.image.word(at, name),
    }
    made.image.put(at + 8, &words.to_le_bytes());
    made.image.put(at + 12, &u32::from(complete).to_le_bytes());
    match apart {
        true => made.image.half(at + 16, (code - at) as u32),
        false => made.image.word(at + 16, code),
    }
}

/// A heap of pieces of so many segments, those that are `None` free. Gives where each begins.
fn heap(made: &mut Made, pieces: &[(usize, bool)]) -> Vec<(u64, u64)> {
    let segments: usize = pieces.iter().map(|(count, _)| count).sum();
    let bytes = (segments as u64) << BITS;
    let memory = made.room(bytes);
    let mut map = Vec::new();
    let mut places = Vec::new();
    for (count, used) in pieces {
        let start = memory + ((map.len() as u64) << BITS);
        places.push((start, (*count as u64) << BITS));
        // `CodeHeap::mark_segmap_as_used`
        let mut back = 0;
        for _ in 0..*count {
            map.push(if *used { back } else { 0xff });
            back = if back == 254 { 1 } else { back + 1 };
        }
    }
    let map = made.bytes(&map);
    let heap = made.words(&[memory, memory + bytes, map, map + segments as u64, BITS.into()]);
    made.heaps.push(heap);
    places
}

proptest! {
    #[test]
    fn an_address_is_in_the_piece_around_it(
        apart in any::<bool>(),
        heaps in prop::collection::vec(prop::collection::vec((2..400_usize, any::<bool>()), 1..6), 1..4),
        asked in prop::collection::vec(any::<prop::sample::Index>(), 1..40),
    ) {
        let mut made = Made::new(apart, Form::WithoutZero);
        // Address, bytes, and first instruction of what is there.
        let mut all: Vec<(u64, u64, Option<u64>)> = Vec::new();
        for pieces in &heaps {
            let places = heap(&mut made, pieces);
            for ((start, bytes), (_, used)) in places.into_iter().zip(pieces) {
                // Behind the block's header.
                blob(&mut made, start + 16, start + 16 + HEADER, 4, 0, true);
                all.push((start, bytes, used.then_some(start + 16 + HEADER)));
            }
        }
        let total: u64 = all.iter().map(|(_, bytes, _)| bytes).sum();
        made.read(|_, code| {
            for asked in &asked {
                let mut left = asked.index(total as usize) as u64;
                let (start, _, expected) = *all.iter().find(|(_, bytes, _)| {
                    let here = left < *bytes;
                    left -= if here { 0 } else { *bytes };
                    here
                }).expect("one of them");
                let found = code.blob(start + left);
                assert_eq!(found.map(|found| found.code), expected, "{:#x}", start + left);
                assert!(code.contains(start + left));
            }
            // What is in no heap is no code.
            for pc in [0, DATA - 1, u64::MAX, super::STACK] {
                assert!(code.blob(pc).is_none() && !code.contains(pc), "{pc:#x}");
            }
        });
    }

    /// A map whose steps lead anywhere still has an answer, and one that is in the heap.
    #[test]
    fn any_map_of_segments_has_an_answer(map in prop::collection::vec(any::<u8>(), 64), asked in 0..4096_u64) {
        let mut made = Made::new(false, Form::WithoutZero);
        let places = heap(&mut made, &[(64, true)]);
        let at = made.image.word_at(made.heaps[0] + 16);
        made.image.put(at, &map);
        made.read(|_, code| {
            let mut segment = (asked >> BITS) as usize;
            let expected = loop {
                match map[segment] {
                    0 => break Some(segment),
                    0xff => break None,
                    back => match segment.checked_sub(back.into()) {
                        Some(before) => segment = before,
                        None => break None,
                    },
                }
            };
            assert_eq!(code.blob(places[0].0 + asked).is_some(), expected.is_some());
        });
    }

    #[test]
    fn calls_are_those_that_were_compiled_in(
        apart in any::<bool>(),
        form in prop::sample::select(vec![Form::WithZero, Form::WithoutZero]),
        // Of each scope: which one before it is around it, which method, at which byte code.
        scopes in prop::collection::vec((any::<prop::sample::Index>(), 0..4_usize, 0..300_u32), 1..24),
        // Of each place: how far behind the one before, and which scope.
        places in prop::collection::vec((1..50_u32, any::<prop::sample::Index>()), 1..30),
        asked in prop::collection::vec(0..1_500_u32, 1..20),
    ) {
        let mut made = Made::new(apart, form);
        let methods = methods(&mut made);
        let (mut stream, mut offsets) = (vec![0xff], Vec::new());
        let mut chains: Vec<Vec<(usize, u32)>> = Vec::new();
        for (around, method, code) in &scopes {
            // The first has nothing around it; the others mostly have.
            let around = Some(around.index(offsets.len() + 1)).filter(|one| *one < offsets.len());
            let own = (*method, *code);
            chains.push(std::iter::once(own).chain(around.into_iter().flat_map(|one| chains[one].clone())).collect());
            offsets.push(stream.len() as u32);
            packed(&mut stream, around.map_or(0, |one| offsets[one]), form);
            packed(&mut stream, *method as u32 + 1, form);
            packed(&mut stream, code + 1, form);
        }
        let mut at = 0;
        let mut rows: Vec<(u32, usize)> = Vec::new();
        for (behind, scope) in &places {
            at += behind;
            rows.push((at, scope.index(scopes.len())));
        }
        let pcs: Vec<(i32, u32)> = std::iter::once((-1, 0))
            .chain(rows.iter().map(|(pc, scope)| (*pc as i32, offsets[*scope])))
            .chain([(i32::MAX, 0)])
            .collect();
        let code = compiled(&mut made, &methods, &stream, &pcs);
        // A place is kept by its address alone, so that each question has a cache of its own.
        for exact in [false, true] {
            made.read(|_, cache| {
                let blob = cache.blob(code).expect("it is there");
                for asked in &asked {
                    let row = match exact {
                        true => rows.iter().find(|(pc, _)| pc >= asked),
                        false => rows.iter().find(|(pc, _)| pc == asked),
                    };
                    // Where nothing is said of the place there is the method itself.
                    let expected: Vec<(String, Option<u32>, bool)> = match row {
                        None => vec![("Main.m0".to_owned(), None, false)],
                        Some((_, scope)) => {
                            let chain = &chains[*scope];
                            let last = chain.len() - 1;
                            let shown = |(place, (method, code)): (usize, &(usize, u32))| {
                                (format!("Main.m{method}"), Some(code / 10 + 1), place < last)
                            };
                            chain.iter().enumerate().map(shown).collect()
                        }
                    };
                    let found = cache.frames(&blob, code + u64::from(*asked), 0, exact);
                    let found: Vec<(String, Option<u32>, bool)> =
                        found.iter().map(|one| (one.function.to_string(), one.line, one.inlined)).collect();
                    assert_eq!(found, expected, "{asked} {exact}");
                }
            });
        }
    }

    /// Debug information of any bytes leads to calls or to none, and to no more than are allowed.
    #[test]
    fn any_debug_information_has_an_answer(
        apart in any::<bool>(),
        stream in prop::collection::vec(any::<u8>(), 1..80),
        pcs in prop::collection::vec((any::<i32>(), 0..90_u32), 0..10),
        asked in 0..200_u64,
    ) {
        let mut made = Made::new(apart, Form::WithoutZero);
        let methods = methods(&mut made);
        let code = compiled(&mut made, &methods, &stream, &pcs);
        made.read(|_, cache| {
            let blob = cache.blob(code).expect("it is there");
            assert!((1..=256).contains(&cache.frames(&blob, code + asked, 0, true).len()));
        });
    }
}

/// Methods `Main.m0` to `m3`, with ten byte codes a line.
fn methods(made: &mut Made) -> Vec<u64> {
    let class = made.class("Main", &["m0", "m1", "m2", "m3", "Main.java"]);
    let rows: Vec<(i32, i32)> = (0..40).map(|line| (line * 10, line + 1)).collect();
    let lines = super::line_table(&rows, made.form);
    (1..=4).map(|name| made.method(class, name, 400, Some(&lines), 0)).collect()
}

/// A compiled method in a heap of its own; gives its first instruction.
fn compiled(made: &mut Made, methods: &[u64], scopes: &[u8], pcs: &[(i32, u32)]) -> u64 {
    let apart = made.layout.code.short_frame_complete;
    let rows: Vec<u64> = pcs
        .iter()
        .flat_map(|(pc, scope)| [u64::from(pc.cast_unsigned()) | u64::from(*scope) << 32, 0])
        .collect();
    let places = heap(made, &[(64, true)]);
    let at = places[0].0 + 16;
    let code = at + HEADER;
    blob(made, at, code, 4, 0, true);
    made.image.word(at + 24, methods[0]);
    let never = at + 0xf00;
    if apart {
        // Places first, scopes behind them; the numbers of methods in a part of their own, behind relocations.
        let constant = made.words(&rows);
        made.bytes(scopes);
        let scopes_at = 8 * rows.len() as u32;
        let mutable = made.words(&[0xbad, 0xbad]);
        made.words(methods);
        made.image.half(at + 36, (never - at) as u32);
        made.image.word(at + 40, constant);
        made.image.half(at + 48, scopes_at + scopes.len() as u32);
        made.image.half(at + 52, 0);
        made.image.half(at + 56, scopes_at);
        made.image.word(at + 64, mutable);
        made.image.half(at + 72, 16 + 8 * methods.len() as u32);
        made.image.half(at + 76, 16);
        return code;
    }
    let metadata = made.words(methods);
    let scopes_at = made.bytes(scopes);
    let pcs_at = made.words(&rows);
    made.image.word(at + 40, never);
    made.image.word(at + 48, scopes_at);
    for (place, address) in [(56, pcs_at), (60, pcs_at + 8 * rows.len() as u64), (64, metadata)] {
        made.image.half(at + place, (address - at) as u32);
    }
    code
}

/// What was compiled no longer held: where the frame was to go on is in it.
#[test]
fn a_method_that_was_given_up_is_where_it_was_to_go_on() {
    for apart in [false, true] {
        let form = Form::WithoutZero;
        let mut made = Made::new(apart, form);
        let methods = methods(&mut made);
        let mut stream = vec![0xff];
        for number in [0, 2, 31] {
            packed(&mut stream, number, form);
        }
        let code = compiled(&mut made, &methods, &stream, &[(-1, 0), (8, 1), (i32::MAX, 0)]);
        let at = code - HEADER;
        made.image.half(at + 32, 24);
        made.image.word(super::STACK + 24, code + 8);
        made.read(|_, cache| {
            let blob = cache.blob(code).expect("it is there");
            let lines = |pc: u64| {
                cache.frames(&blob, pc, super::STACK, false).iter().map(|one| one.line).collect::<Vec<_>>()
            };
            assert_eq!(lines(at + 0xf00), [Some(4)], "{apart}");
            assert_eq!(lines(at + 0xf01), [None]);
        });
    }
}

#[test]
fn numbers_of_a_piece_that_cannot_be_are_none() {
    for (words, complete, expected) in
        [(4, 7, (32, 7)), (0, 0, (0, 0)), (-1, 0xffff, (0, 0)), (1 << 20, 0, (0, 0)), (i32::MIN, 1, (0, 1))]
    {
        let mut made = Made::new(true, Form::WithoutZero);
        let places = heap(&mut made, &[(8, true)]);
        let at = places[0].0 + 16;
        blob(&mut made, at, at + HEADER, words, complete, false);
        let found = made.read(|_, cache| cache.blob(at)).expect("it is there");
        assert_eq!((found.frame_bytes, found.frame_complete), expected, "{words} {complete}");
        assert!(!found.compiled);
    }
}

#[test]
fn a_heap_with_segments_of_an_unlikely_size_is_left_out() {
    for (bits, there) in [(3_u64, false), (4, true), (16, true), (17, false), (64, false), (1 << 31, false)] {
        let mut made = Made::new(true, Form::WithoutZero);
        let places = heap(&mut made, &[(8, true)]);
        made.image.word(made.heaps[0] + 32, bits);
        assert_eq!(made.read(|_, cache| cache.contains(places[0].0)), there, "{bits}");
    }
}
