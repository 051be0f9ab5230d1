//! Windows that remember what they have seen, against windows that begin anew.

use proptest::prelude::*;

use super::*;

fn window(
    windows: &mut Windows<'_>,
    at: usize,
    encoding: Encoding,
    before: usize,
    after: usize,
) -> (Vec<u8>, usize, Range<usize>) {
    let window = windows.around(at, encoding, before, after);
    (window.text.to_vec(), window.at, window.place(0..window.text.len()))
}

#[test]
fn text_ends_where_no_text_can_go_on() {
    let of = |bytes: &[u8], at| {
        let (text, at, place) = window(&mut Windows::new(bytes, Vec::new()), at, Encoding::Bytes, 100, 100);
        assert_eq!(&bytes[place], text);
        (String::from_utf8_lossy(&text).into_owned(), at)
    };
    assert_eq!(of(b"\0key=x\0y", 1), ("key=x".to_owned(), 0));
    assert_eq!(of(b"\x1b[1m a\tb\r\n key\x07", 11), ("\u{1b}[1m a\tb\r\n key".to_owned(), 11));
    assert_eq!(of("key=ä€".as_bytes(), 0), ("key=ä€".to_owned(), 0));
    assert_eq!(of(b"key=\xe2\x82", 0), ("key=".to_owned(), 0), "a character that is cut");
    assert_eq!(of(b"key=\x80x", 0), ("key=".to_owned(), 0));
    assert_eq!(of(b"\x7fkey", 1), ("key".to_owned(), 0));
}

#[test]
fn utf16_ends_at_units_that_are_no_text_of_scripts_with_few_characters() {
    let of = |units: &[u16], at: usize| {
        let bytes: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let little = window(&mut Windows::new(&bytes, Vec::new()), 2 * at, Encoding::Little, 100, 100);
        let bytes: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        let big = window(&mut Windows::new(&bytes, Vec::new()), 2 * at + 1, Encoding::Big, 100, 100);
        assert_eq!(little, big);
        little.0
    };
    let text = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
    assert_eq!(of(&text("key=x"), 0), b"key=x");
    assert_eq!(of(&text("key=äЖ€“x"), 0), b"key=\xff\xff\xff\xffx");
    assert_eq!(of(&text("key=😀x"), 0), b"key=\xff\xffx");
    assert_eq!(of(&text("key=中x"), 0), b"key=");
    assert_eq!(of(&[0x6b, 0xd83d, 0x41], 0), b"k", "half a character");
    assert_eq!(of(&text("中ab\0key"), 4), b"key");
}

/// Memory with text of all kinds in it.
fn mixed() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => "[ -~]{1,90}".prop_map(String::into_bytes),
        2 => "[ä€😀\t\n]{1,20}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 1..6),
        1 => Just(vec![0; 3]),
        1 => "[ -~ä]{1,30}".prop_map(|text| text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
    ];
    prop::collection::vec(piece, 1..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn what_was_seen_before_changes_no_window(
        bytes in mixed(),
        mut asked in prop::collection::vec((any::<prop::sample::Index>(), 0u8..3, 0usize..200, 0usize..600), 1..20),
    ) {
        asked.sort_by_key(|(at, ..)| at.index(bytes.len()));
        let mut windows = Windows::new(&bytes, Vec::new());
        for (at, encoding, before, after) in asked {
            let at = at.index(bytes.len());
            // Anchors begin with a character of ASCII.
            if !(b' '..0x7f).contains(&bytes[at]) {
                continue;
            }
            let encoding = [Encoding::Bytes, Encoding::Little, Encoding::Big][usize::from(encoding)];
            let remembering = window(&mut windows, at, encoding, before, after);
            let anew = window(&mut Windows::new(&bytes, Vec::new()), at, encoding, before, after);
            prop_assert_eq!(&remembering, &anew, "{} {:?} {} {}", at, encoding, before, after);
            let (text, place_of_anchor, place) = remembering;
            let steps = if encoding == Encoding::Bytes { 1 } else { 2 };
            prop_assert!(place.end <= bytes.len() && place.len() == text.len() * steps);
            prop_assert!(place_of_anchor <= before && text.len() - place_of_anchor.min(text.len()) <= after.max(1));
        }
    }
}
