//! What functions are called: by their scopes, and by where they are written.

use proptest::prelude::*;

use super::{Heap, smi};
use crate::Limits;

const SOURCE: &str = "const first = (a, b) => a + b;\n\
    Module.prototype.load = function (name) {\n  return name;\n};\n\
    list.forEach(async one => take(one));\n";

/// A function in a script, with these words in its scope behind its flags.
fn function(heap: &mut Heap, scope: &[u64]) -> u64 {
    let (source, path) = (heap.string(SOURCE), heap.string("/srv/main.js"));
    let script = heap.object(heap.layout.types.script, &[source, path]);
    let scope = heap.object(heap.layout.types.scope, scope);
    let shared = heap.object(heap.layout.types.shared, &[0, scope, 0, script]);
    heap.object(1_000, &[0, 0, 0, shared])
}

/// From where to where a piece of the source is, as two small numbers.
fn place(text: &str) -> [u64; 2] {
    let start = SOURCE.find(text).expect("it is in the source");
    [smi(start as i64), smi((start + text.len()) as i64)]
}

fn name(heap: &Heap, function: u64) -> Option<String> {
    heap.read(&Limits::default(), |objects| objects.function(function).map(|found| found.name.to_string()))
}

#[test]
fn a_function_is_called_as_what_it_is_assigned_to() {
    for (text, called) in [
        ("(a, b) => a + b", "first"),
        ("(name) {\n  return name;\n}", "Module.load"),
        // Nothing is assigned: what it is passed to is not its name.
        ("one => take(one)", ""),
    ] {
        let mut heap = Heap::new();
        let [start, end] = place(text);
        let words = [smi(0), smi(2), smi(0), start, end, smi(0), smi(0), smi(0), smi(0), smi(0), smi(0)];
        let at = function(&mut heap, &words);
        assert_eq!(name(&heap, at).as_deref(), Some(called), "{text}");
        let written = heap.read(&Limits::default(), |objects| objects.text_of(at, 1_000));
        assert_eq!(written.as_deref(), Some(text));
        let cut = heap.read(&Limits::default(), |objects| objects.text_of(at, 5));
        assert_eq!(cut.as_deref(), text.get(..5));
    }
}

#[test]
fn numbers_that_are_no_place_of_a_function_are_passed_over() {
    let [start, end] = place("(a, b) => a + b");
    for wrong in [
        vec![smi(-1), smi(5)],
        vec![end, start],
        vec![smi(3), smi(9)],
        vec![smi(1 << 30), smi((1 << 30) + 10)],
        vec![smi(0), smi(SOURCE.len() as i64 + 1)],
        vec![],
    ] {
        let mut heap = Heap::new();
        let mut words = vec![smi(0), smi(0), smi(0)];
        words.extend(wrong);
        words.extend([start, end]);
        words.resize(16, smi(0));
        let at = function(&mut heap, &words);
        assert_eq!(name(&heap, at).as_deref(), Some("first"));
    }
    // No place at all: the scope ends before one is found.
    let mut heap = Heap::new();
    let at = function(&mut heap, &[smi(0); 8]);
    assert_eq!(name(&heap, at).as_deref(), Some(""));
    assert_eq!(heap.read(&Limits::default(), |objects| objects.text_of(at, 10)), None);
}

proptest! {
    /// Names of so many variables, what is known of each, some numbers more, and the function's own name.
    #[test]
    fn the_name_is_behind_what_is_known_of_variables(
        variables in 0..100_usize,
        numbers in 0..6_usize,
        positions in 0..3_usize,
        own in "[a-z]{1,9}",
    ) {
        let mut heap = Heap::new();
        let local = heap.string("local");
        let own_text = heap.string(&own);
        let mut words = vec![smi(0), smi(1), smi(variables as i64)];
        if variables > 0 {
            words.extend(vec![smi(7); positions]);
        }
        match variables {
            // A table has the names of many.
            75.. => words.push(heap.object(900, &[0])),
            _ => words.extend(vec![local; variables]),
        }
        words.extend(vec![smi(9); variables + numbers]);
        words.push(own_text);
        let at = function(&mut heap, &words);
        prop_assert_eq!(name(&heap, at), Some(own));
    }

    #[test]
    fn any_words_are_a_scope_or_none(words in prop::collection::vec(prop_oneof![
        any::<u64>(), (0..64_u64).prop_map(|at| super::HEAP + 8 * at + 1), (-2..200_i64).prop_map(smi),
    ], 0..24)) {
        let mut heap = Heap::new();
        let at = function(&mut heap, &words);
        let limits = Limits { text: 100, ..Limits::default() };
        let found = heap.read(&limits, |objects| {
            (objects.function(at).map(|one| one.name.chars().count()), objects.text_of(at, 50))
        });
        // A name of the source is at most what is looked through before the function; one in memory is cut at the limit.
        prop_assert!(found.0.is_none_or(|name| name <= 210), "{:?}", found);
        prop_assert!(found.1.is_none_or(|text| text.encode_utf16().count() <= 50));
    }
}
