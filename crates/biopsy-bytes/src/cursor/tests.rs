//! Tests of the cursor: each kind of read, each kind of error, and that nothing moves on error.

use proptest::prelude::*;

use crate::{Cursor, ReadError, ReadErrorKind, put_varint, put_zigzag, unzigzag, zigzag};

#[test]
fn integers_are_little_endian_and_offsets_are_absolute() {
    let bytes = [
        0x01, // u8
        0x02, 0x01, // u16
        0x04, 0x03, 0x02, 0x01, // u32
        0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, // u64
        0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, // i64
    ];
    let mut cursor = Cursor::at(&bytes, 0x100);
    assert_eq!(cursor.u8("a"), Ok(1));
    assert_eq!(cursor.u16("b"), Ok(0x0102));
    assert_eq!(cursor.u32("c"), Ok(0x0102_0304));
    assert_eq!(cursor.u64("d"), Ok(0x0102_0304_0506_0708));
    assert_eq!(cursor.i64("e"), Ok(-2));
    assert_eq!(cursor.offset(), 0x100 + 23);
    assert!(cursor.is_empty());
}

#[test]
fn a_read_past_the_end_says_what_is_missing_and_does_not_move() {
    let mut cursor = Cursor::at(&[1, 2, 3], 0x1f40);
    let error = cursor.u32("length").unwrap_err();
    assert_eq!(
        error,
        ReadError {
            field: "length",
            offset: 0x1f40,
            kind: ReadErrorKind::UnexpectedEnd { needed: 4, found: 3 }
        }
    );
    assert_eq!(error.to_string(), "field `length` at offset 0x1f40 needs 4 bytes, 3 remain");
    assert_eq!(cursor.take("bytes", 3), Ok(&[1, 2, 3][..]));
    assert!(cursor.take("more", usize::MAX).is_err());
}

#[test]
fn a_sub_cursor_cannot_see_past_its_size() {
    let mut outer = Cursor::at(&[9, 1, 2, 3, 4], 10);
    outer.skip("tag", 1).unwrap();
    let mut inner = outer.sub("body", 2).unwrap();
    assert_eq!((inner.offset(), inner.remaining()), (11, 2));
    assert_eq!(inner.u16("x"), Ok(0x0201));
    assert!(inner.u8("y").is_err());
    assert_eq!((outer.offset(), outer.rest()), (13, &[3, 4][..]));
}

#[test]
fn a_varint_of_more_than_64_bits_is_an_error() {
    let mut cursor = Cursor::new(&[0xff; 16]);
    assert_eq!(cursor.varint("n").unwrap_err().kind, ReadErrorKind::VarintTooLong);
    // Ten bytes of which the last carries more than bit 63.
    let mut cursor = Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]);
    assert_eq!(cursor.varint("n").unwrap_err().kind, ReadErrorKind::VarintTooLong);
    let mut cursor = Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
    assert_eq!(cursor.varint("n"), Ok(u64::MAX));
    // Cut short.
    let mut cursor = Cursor::new(&[0x80, 0x80]);
    assert_eq!(cursor.varint("n").unwrap_err().kind, ReadErrorKind::UnexpectedEnd { needed: 3, found: 2 });
}

#[test]
fn hostile_lengths_are_refused_before_anything_is_allocated() {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, 1 << 40);
    let mut cursor = Cursor::at(&bytes, 0x2a8);
    let error = cursor.varint_len("note", 64 << 20).unwrap_err();
    assert_eq!(error.to_string(), "field `note` at offset 0x2a8 claims 1099511627776, the limit is 67108864");
    assert_eq!(cursor.varint_count("entries", 8).unwrap_err().offset, 0x2a8);
    assert!(cursor.varint_u32("handle").is_err());
    assert_eq!(cursor.varint("n"), Ok(1 << 40), "errors did not move the cursor");
    // Three elements of two bytes fit six bytes, four do not.
    assert_eq!(Cursor::new(&[3, 0, 0, 0, 0, 0, 0]).varint_count("n", 2), Ok(3));
    assert!(Cursor::new(&[4, 0, 0, 0, 0, 0, 0]).varint_count("n", 2).is_err());
}

#[test]
fn a_wrong_magic_number_shows_both() {
    let mut cursor = Cursor::new(b"ELF!");
    let error = cursor.expect_u32("magic", 0x1234_5678).unwrap_err();
    assert_eq!(error.to_string(), "field `magic` at offset 0x0 is 0x21464c45, expected 0x12345678");
    assert_eq!(cursor.offset(), 0);
}

#[test]
fn numbers_up_to_a_limit_are_read_and_the_next_one_is_refused_with_both() {
    let encoded = |value: u64| {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, value);
        bytes.extend([0; 8]);
        bytes
    };
    let over = |claimed, limit| ReadErrorKind::OverLimit { claimed, limit };
    for (value, limit, found) in
        [(0, 0, Ok(0)), (1, 0, Err(over(1, 0))), (127, 127, Ok(127)), (128, 127, Err(over(128, 127)))]
    {
        let bytes = encoded(value);
        let read = Cursor::new(&bytes).varint_len("n", limit).map_err(|error| error.kind);
        assert_eq!(read, found, "{value} of {limit}");
    }
    let most = u64::from(u32::MAX);
    for (value, found) in
        [(most, Ok(u32::MAX)), (most + 1, Err(over(most + 1, most))), (u64::MAX, Err(over(u64::MAX, most)))]
    {
        assert_eq!(
            Cursor::new(&encoded(value)).varint_u32("n").map_err(|error| error.kind),
            found,
            "{value}"
        );
    }
    // Eight bytes remain; elements without a size take one each.
    for (value, size, found) in [
        (8, 1, Ok(8)),
        (9, 1, Err(over(9, 8))),
        (8, 0, Ok(8)),
        (9, 0, Err(over(9, 8))),
        (1, 9, Err(over(1, 0))),
    ] {
        let bytes = encoded(value);
        let read = Cursor::new(&bytes).varint_count("n", size).map_err(|error| error.kind);
        assert_eq!(read, found, "{value} of {size} bytes");
    }
}

proptest! {
    #[test]
    fn varints_round_trip(value: u64) {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, value);
        let mut cursor = Cursor::new(&bytes);
        prop_assert_eq!(cursor.varint("v"), Ok(value));
        prop_assert!(cursor.is_empty());
    }

    #[test]
    fn zigzag_round_trips(value: i64) {
        prop_assert_eq!(unzigzag(zigzag(value)), value);
        let mut bytes = Vec::new();
        put_zigzag(&mut bytes, value);
        prop_assert_eq!(Cursor::new(&bytes).zigzag("v"), Ok(value));
        if value.unsigned_abs() < 64 {
            prop_assert_eq!(bytes.len(), 1);
        }
    }

    /// Any sequence of reads over any bytes: no panic, and position and remainder always add up.
    #[test]
    fn any_reads_over_any_bytes_stay_inside(
        bytes in proptest::collection::vec(any::<u8>(), 0..64),
        base: u64,
        reads in proptest::collection::vec((0_u8..12, any::<usize>()), 0..32),
    ) {
        let mut cursor = Cursor::at(&bytes, base);
        for (kind, argument) in reads {
            let before = cursor;
            let failed = match kind {
                0 => cursor.u8("f").is_err(),
                1 => cursor.u16("f").is_err(),
                2 => cursor.u32("f").is_err(),
                3 => cursor.u64("f").is_err(),
                4 => cursor.i64("f").is_err(),
                5 => cursor.varint("f").is_err(),
                6 => cursor.zigzag("f").is_err(),
                7 => cursor.take("f", argument % 100).is_err(),
                8 => cursor.varint_len("f", argument).is_err(),
                9 => cursor.varint_count("f", argument % 4).is_err(),
                10 => cursor.varint_u32("f").is_err(),
                _ => cursor.sub("f", argument).is_err(),
            };
            if failed {
                prop_assert_eq!(cursor.offset(), before.offset());
                prop_assert_eq!(cursor.rest(), before.rest());
            }
            let moved = before.remaining() - cursor.remaining();
            prop_assert_eq!(cursor.offset(), before.offset().saturating_add(moved as u64));
        }
    }
}
