//! Lines of methods, written as HotSpot writes them.

use proptest::prelude::*;

use super::{Made, line_table};
use crate::jvm::compressed::Form;

fn forms() -> impl Strategy<Value = Form> {
    prop::sample::select(vec![Form::WithZero, Form::WithoutZero])
}

proptest! {
    #[test]
    fn a_byte_code_is_on_the_line_of_the_last_row_before_it(
        form in forms(),
        rows in prop::collection::vec((0..4_000_i32, 1..70_000_i32), 0..20),
        asked in 0..4_100_u32,
        of_a_row in prop::option::of(any::<prop::sample::Index>()),
    ) {
        // As often as not the very place of a row.
        let row = of_a_row.and_then(|row| rows.get(row.index(rows.len().max(1))));
        let asked = row.map_or(asked, |(code, _)| *code as u32);
        let mut made = Made::new(false, form);
        let class = made.class("Main", &["work", "Main.java"]);
        let method = made.method(class, 1, 5_000, Some(&line_table(&rows, form)), 0);
        let line = made.read(|vm, _| vm.method(method).expect("it is one").line(asked, form));
        // Rows need not be in order (a compiler may move code): of those before it the nearest; a row of the very place wins, the
        // first of several, else the last of those that are as near.
        let asked = asked as i32;
        let exact = rows.iter().find(|(code, _)| *code == asked);
        let before = rows.iter().filter(|(code, _)| *code < asked).max_by_key(|(code, _)| *code);
        let expected = exact.or(before).map(|(_, line)| *line as u32);
        prop_assert_eq!(line, expected, "{:?} of {:?}", asked, rows);
    }

    /// Whatever the bytes, a line is a number from 1 on or none, and the table that is kept has an end.
    #[test]
    fn any_bytes_are_a_table(form in forms(), table in prop::collection::vec(any::<u8>(), 0..60), asked in any::<u32>()) {
        let mut made = Made::new(true, form);
        let class = made.class("Main", &["work", "Main.java"]);
        let method = made.method(class, 1, 16, Some(&table), 0);
        made.read(|vm, _| {
            let method = vm.method(method).expect("it is one");
            assert!(method.lines.len() <= 1 << 18);
            assert_ne!(method.line(asked, form), Some(0));
        });
    }
}

#[test]
fn a_method_says_what_it_is() {
    let mut made = Made::new(false, Form::WithoutZero);
    let class = made.class("java/lang/Main$$Lambda+0x0000000800c03000", &["work", "Main.java"]);
    let lines = line_table(&[(0, 7), (9, 8)], Form::WithoutZero);
    let with = made.method(class, 1, 20, Some(&lines), 0);
    let without = made.method(class, 1, 20, None, 0);
    let native = made.method(class, 1, 20, Some(&lines), 0x100);
    made.read(|vm, _| {
        for (method, place, line) in [
            (with, Some(0), Some(7)),
            (with, Some(8), Some(7)),
            (with, Some(9), Some(8)),
            (with, None, None),
            (without, Some(9), None),
            (native, Some(9), None),
        ] {
            let frame = vm.method(method).expect("it is one").frame(place, vm.form);
            assert_eq!(&*frame.function, "java.lang.Main$$Lambda/0x0000000800c03000.work");
            assert_eq!((frame.file.as_deref(), frame.line), (Some("Main.java"), line));
        }
    });
}

/// What is done to a method and what it is made of.
type Change = fn(&mut Made, u64, u64);

#[test]
fn what_leads_to_no_names_is_no_method() {
    // Each is one word, or half of one, of a method that is read as it is.
    let broken: [(&str, Change); 9] = [
        ("its constants are nowhere", |made, method, _| made.image.word(method + 8, 0x10)),
        ("nor the pool", |made, _, constant| made.image.word(constant, u64::MAX)),
        ("no name", |made, _, constant| made.image.put(constant + 12, &[0, 0])),
        ("a name behind the last constant", |made, _, constant| made.image.put(constant + 12, &[3, 0])),
        ("a pool of nobody", |made, _, constant| {
            let pool = made.image.word_at(constant);
            made.image.word(pool + 8, 0);
        }),
        ("a class without a name", |made, _, constant| {
            let class = made.image.word_at(made.image.word_at(constant) + 8);
            made.image.word(class + 8, 0);
        }),
        ("a name of no letters", |made, _, constant| {
            let symbol = made.image.word_at(made.image.word_at(constant) + 32);
            made.image.put(symbol, &[0, 0]);
        }),
        ("a name with a bell", |made, _, constant| {
            let symbol = made.image.word_at(made.image.word_at(constant) + 32);
            made.image.put(symbol + 2, &[7]);
        }),
        ("a name longer than any", |made, _, constant| {
            let symbol = made.image.word_at(made.image.word_at(constant) + 32);
            made.image.put(symbol, &[0xff, 0xff]);
        }),
    ];
    for (what, change) in broken {
        let mut made = Made::new(false, Form::WithoutZero);
        let class = made.class("Main", &["work", "Main.java"]);
        let method = made.method(class, 1, 20, None, 0);
        assert!(made.read(|vm, _| vm.method(method).is_some()));
        let constant = made.image.word_at(method + 8);
        change(&mut made, method, constant);
        assert!(made.read(|vm, _| vm.method(method).is_none()), "{what}");
    }
}
