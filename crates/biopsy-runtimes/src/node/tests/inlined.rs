//! Compiled code that says what was put into it.

use super::{Heap, smi};
use crate::Limits;
use crate::node::inlined::Inlined;
use crate::node::symbols::CodeLayout;

/// Type of compiled code here, and where its instructions begin.
const CODE: u16 = 900;
const START: u64 = 0x7f00_0000;
const SIZE: u64 = 100;
const LAYOUT: CodeLayout = CodeLayout {
    kind: CODE,
    of_function: 40,
    deoptimization: 16,
    positions: 24,
    start: 40,
    flags: 48,
    size: 56,
    literals: 0,
    inlined: 1,
    kind_mask: 15,
    baseline: 11,
};

/// A position: place in the script, and what was put in there.
fn position(place: u64, number: Option<u64>) -> u64 {
    (place + 1) << 1 | number.map_or(0, |number| (number + 1) << 31)
}

fn table(heap: &mut Heap, bytes: &[u8]) -> u64 {
    let table = heap.object(heap.layout.types.bytes[1], &vec![smi(bytes.len() as i64); 2 + bytes.len() / 8]);
    heap.image.put(table - 1 + heap.layout.array_data, bytes);
    table
}

/// `{ steps of code, steps of position } ...`
fn steps(rows: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut code, mut position) = (-1i64, 0i64);
    for (at, place) in rows {
        for value in [*at as i64 - code, *place as i64 - position] {
            let mut rest = (value << 1 ^ value >> 63).cast_unsigned();
            while rest >= 0x80 {
                bytes.push(0x80 | (rest & 0x7f) as u8);
                rest >>= 7;
            }
            bytes.push(rest as u8);
        }
        (code, position) = (*at as i64, *place as i64);
    }
    bytes
}

/// Of `flags`, with `keep` in `pass` in the function at instruction 30, and nothing at 10. Also: what both share.
fn made(flags: u64, of: [u64; 2]) -> (Heap, u64, [u64; 2]) {
    let mut heap = Heap::new();
    heap.layout.code = Some(LAYOUT);
    let shared = ["pass", "keep"].map(|name| {
        let name = heap.string(name);
        heap.object(heap.layout.types.shared, &[0, name, 0, 0])
    });
    let positions = steps(&[(10, position(3, None)), (30, position(7, Some(1)))]);
    let positions = table(&mut heap, &positions);
    // The first was put into the function itself, the second one into the first.
    let rows = [(position(4, None), of[0]), (position(5, Some(0)), of[1])];
    let rows: Vec<u8> =
        rows.iter().flat_map(|(place, which)| [place.to_le_bytes(), which.to_le_bytes()]).flatten().collect();
    let rows = table(&mut heap, &rows);
    let literals = heap.object(800, &[smi(2), shared[0], shared[1]]);
    let data = heap.object(800, &[smi(2), literals, rows]);
    let code = heap.object(CODE, &[0, data, positions, 0, START, flags, SIZE]);
    let function = heap.object(1_000, &[0, 0, 0, 0, code]);
    (heap, function, shared)
}

fn read(heap: &Heap, function: u64, offset: u64) -> Vec<Inlined> {
    heap.read(&Limits::default(), |objects| objects.inlined_at(function, START + offset))
}

#[test]
fn what_was_put_in_is_told_innermost_first() {
    let (heap, function, [pass, keep]) = made(13, [0, 1]);
    let wanted = [Inlined { shared: keep, position: Some(7) }, Inlined { shared: pass, position: Some(5) }];
    assert_eq!(read(&heap, function, 30), wanted);
    assert_eq!(read(&heap, function, 50), wanted, "inside of the call");
    assert_eq!(read(&heap, function, 99), [], "a call of V8 itself, far behind it");
    assert_eq!(read(&heap, function, 10), [], "a call of its own");
    assert_eq!(read(&heap, function, 5), [], "before the first call");
    assert_eq!(read(&heap, function, SIZE), [], "other code");
}

#[test]
fn what_does_not_hold_together_says_nothing() {
    let (heap, function, _) = made(11, [0, 1]);
    assert_eq!(read(&heap, function, 30), [], "a compiler that puts nothing into anything");
    let (heap, function, _) = made(13, [0, 2]);
    assert_eq!(read(&heap, function, 30), [], "a function that is not there");
    let (mut heap, function, _) = made(13, [0, 1]);
    heap.layout.code = None;
    assert_eq!(read(&heap, function, 30), [], "a version that is not known");
}
