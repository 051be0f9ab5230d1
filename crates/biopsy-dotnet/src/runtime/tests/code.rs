//! From an address to the code that was compiled at run time.

use biopsy_model::Avma;

use super::made::Made;
use super::methods::method_desc;
use crate::runtime::{CodeKind, Method, RuntimeError, UnwindInfo};

/// Memory for code: 128 KiB of one entry of the map.
pub(super) const CODE: u64 = 0x7f00_0000_0000;
const CODE_BYTES: usize = 1 << 17;

/// A range of code; `module` of code that was compiled ahead, `heap` of other code. Gives the fragment.
pub(super) fn range(made: &mut Made, begin: u64, end: u64, module: u64, heap: u64) -> u64 {
    let section = made.words(&[begin, end, 0, 0, module, heap]);
    let fragment = made.words(&[0, begin, end, section]);
    let mut table = made.code_map;
    for level in (1..5).rev() {
        let slot = table + ((begin >> 17 >> (8 * level)) & 0xff) * 8;
        if made.read(slot) == 0 {
            let next = made.alloc(0x800);
            // Parts that may be unloaded are marked.
            made.put(slot, next | 1);
        }
        table = made.read(slot) & !1;
    }
    made.put(table + ((begin >> 17) & 0xff) * 8, fragment | 1);
    fragment
}

/// A heap of code of the whole range, and its map.
fn heap(made: &mut Made) -> (u64, u64) {
    made.memory.areas.push((CODE, vec![0; CODE_BYTES]));
    let map = made.alloc(CODE_BYTES as u64 / 256 * 4);
    let heap = made.words(&[0, 0, CODE, CODE + 0x8000, CODE, map]);
    (heap, map)
}

/// A method at this offset: the map of code (version 1 of it) and a header with pieces {begin, end, unwind information}.
fn compiled(made: &mut Made, map: u64, offset: u64, method: u64, pieces: &[[u32; 3]]) -> u64 {
    let nibble = (offset % 32 / 4) as u32 + 1;
    let word = map + offset / 256 * 4;
    let old = made.read(word) as u32;
    made.put32(word, old | nibble << (28 - 4 * (offset / 32 % 8)));
    let header = made.alloc(64 + 12 * pieces.len() as u64);
    made.put(header + 24, method);
    made.put32(header + 32, pieces.len() as u32);
    for (number, piece) in pieces.iter().enumerate() {
        let bytes = piece.map(u32::to_le_bytes).concat();
        made.bytes(header + 36 + 12 * number as u64, &bytes);
    }
    made.memory.put(CODE + offset - 8, header);
    header
}

fn found(made: &mut Made, offset: u64) -> Option<Method> {
    made.open().find_method(Avma(CODE + offset)).expect("readable")
}

#[test]
fn code_belongs_to_the_method_that_starts_before_it() {
    let mut made = Made::new();
    let object = made.object;
    let (heap, map) = heap(&mut made);
    range(&mut made, CODE, CODE + 0x1_0000, 0, heap);
    let one = method_desc(&mut made, object, 1, 0, 0);
    let stub = method_desc(&mut made, object, 1, 7, 0);
    // A body and two funclets, then a method that was made at run time.
    let pieces = [[0x120, 0x180, 0x500], [0x180, 0x1a0, 0x540], [0x1a0, 0x1f0, 0x580]];
    let header = compiled(&mut made, map, 0x120, one, &pieces);
    compiled(&mut made, map, 0x400, stub, &[[0x400, 0x480, 0x600]]);
    let method = found(&mut made, 0x130).expect("a method");
    assert_eq!((method.method_desc, method.kind), (Some(one.into()), CodeKind::Jit));
    assert_eq!((method.code_start, method.code_end), (Avma(CODE + 0x120), Some(Avma(CODE + 0x1f0))));
    assert_eq!((method.range_begin, method.code_header), (Avma(CODE), Some(Avma(header))));
    for (offset, [start, end, address]) in
        [(0x120, pieces[0]), (0x17f, pieces[0]), (0x180, pieces[1]), (0x1ef, pieces[2])]
    {
        let at = |offset: u32| Avma(CODE + u64::from(offset));
        let wanted = UnwindInfo { start: at(start), end: at(end), address: at(address) };
        assert_eq!(found(&mut made, offset).expect("a method").unwind, Some(wanted), "{offset:#x}");
    }
    assert_eq!(found(&mut made, 0x440).expect("a method").kind, CodeKind::Dynamic);
    for offset in [0, 0x11f, 0x1f0, 0x3ff, 0x480, 0x8000, 0xffff, 0x1_0000] {
        assert_eq!(found(&mut made, offset), None, "{offset:#x}");
    }
    assert_eq!(found(&mut made, 0x7000_0000), None, "no range at all");
}

#[test]
fn glue_has_a_small_number_in_place_of_its_header() {
    let mut made = Made::new();
    let (heap, map) = heap(&mut made);
    range(&mut made, CODE, CODE + 0x1_0000, 0, heap);
    compiled(&mut made, map, 0x200, 0, &[]);
    made.memory.put(CODE + 0x200 - 8, 4);
    let stub = found(&mut made, 0x210).expect("a stub");
    assert_eq!((stub.kind, stub.method_desc, stub.unwind), (CodeKind::Stub(4), None, None));
    // The last of them is named by the layout.
    made.memory.put(CODE + 0x200 - 8, 0xf);
    assert_eq!(found(&mut made, 0x210).map(|stub| stub.kind), Some(CodeKind::Stub(15)));
    made.memory.put(CODE + 0x200 - 8, 0x10);
    assert!(made.open().find_method(Avma(CODE + 0x210)).is_err(), "there is no header at 0x10");
    // A range without a heap: stubs that are listed nowhere.
    range(&mut made, CODE, CODE + 0x1_0000, 0, 0);
    assert_eq!(found(&mut made, 0x210), None);
}

#[test]
fn a_method_without_a_desc_or_pieces_is_code_all_the_same() {
    let mut made = Made::new();
    let (heap, map) = heap(&mut made);
    range(&mut made, CODE, CODE + 0x1_0000, 0, heap);
    compiled(&mut made, map, 0x200, 0, &[]);
    let method = found(&mut made, 0x210).expect("code");
    assert_eq!((method.method_desc, method.unwind, method.code_end), (None, None, None));
}

#[test]
fn headers_that_lie_are_refused() {
    let mut made = Made::new();
    let object = made.object;
    let (heap, map) = heap(&mut made);
    range(&mut made, CODE, CODE + 0x1_0000, 0, heap);
    let method = method_desc(&mut made, object, 1, 0, 0);
    let header = compiled(&mut made, map, 0x200, method, &[[0x200, 0x300, 0x500]]);
    let refused = |made: &mut Made| made.open().find_method(Avma(CODE + 0x210)).expect_err("it lies");
    made.put32(header + 32, 100_001);
    let many = refused(&mut made);
    assert!(matches!(many, RuntimeError::TooMany { what: "unwind information of a method", limit: 100_000 }));
    made.put32(header + 32, 100_000);
    assert!(matches!(refused(&mut made), RuntimeError::Memory(_)), "so many are not there");
    made.put32(header + 32, 1);
    made.put(header + 24, 0x7777_0000);
    assert!(matches!(refused(&mut made), RuntimeError::Memory(_)), "nothing is known of the method");
}

#[test]
fn fragments_are_followed_to_the_end_and_not_in_a_circle() {
    let mut made = Made::new();
    let (heap, map) = heap(&mut made);
    let first = range(&mut made, CODE, CODE + 0x100, 0, 0);
    let section = made.words(&[CODE, CODE + 0x1_0000, 0, 0, 0, heap]);
    let second = made.words(&[0, CODE + 0x200, CODE + 0x1_0000, section]);
    made.put(first, second | 1);
    compiled(&mut made, map, 0x200, 0, &[]);
    assert!(found(&mut made, 0x210).is_some());
    assert_eq!(found(&mut made, 0x110), None, "between the two");
    made.put(second, first);
    assert!(found(&mut made, 0x210).is_some());
    let circle = made.open().find_method(Avma(CODE + 0x110)).expect_err("it has no end");
    assert!(matches!(circle, RuntimeError::TooMany { what: "the list of code ranges", .. }), "{circle}");
    let (map, root) = (made.code_map, made.alloc(0x800));
    made.put(map, root);
    made.put(root, 0x7777_0000);
    assert!(made.open().find_method(Avma(0x1000)).is_err(), "a table that leads nowhere");
}

#[test]
fn what_was_found_is_kept_until_it_is_to_be_forgotten() {
    let mut made = Made::new();
    let (heap, map) = heap(&mut made);
    range(&mut made, CODE, CODE + 0x1_0000, 0, heap);
    compiled(&mut made, map, 0x200, 0, &[]);
    let found = made.found();
    made.thread(1, 2);
    let runtime = made.open_at(&found).expect("it fits");
    let at = Avma(CODE + 0x210);
    let first = runtime.find_method(at).expect("readable");
    assert!(first.is_some());
    assert_eq!(runtime.find_method(at).expect("kept"), first);
    runtime.forget();
    assert_eq!(runtime.find_method(at).expect("read again"), first);
}
