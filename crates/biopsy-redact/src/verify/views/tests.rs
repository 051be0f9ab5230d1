//! What the redactor can write in other forms, the verification can read: two pieces of code that know nothing of each other.

use proptest::prelude::*;

use super::*;
use crate::forms::{self, FormKind};

fn contains(bytes: &[u8], value: &[u8]) -> bool {
    memchr::memmem::find(bytes, value).is_some()
}

/// Whether the value is in the window, decoded in any way; places that are named lie inside of it.
fn is_seen(window: &[u8], value: &[u8]) -> bool {
    let mut seen = contains(window, value);
    each(window, &mut |view| {
        seen |= contains(&view.bytes, value);
        assert!((0..view.bytes.len()).all(|at| view.source(at) < window.len()));
    });
    each_run(window, &mut |bytes, _, at| {
        seen |= contains(bytes, value);
        assert!(at < window.len());
    });
    seen
}

fn base64(bytes: &[u8], alphabet: &[u8; 64]) -> Vec<u8> {
    let mut out = Vec::new();
    for three in bytes.chunks(3) {
        let group =
            three.iter().fold(0u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for number in 0..4 {
            let digit = alphabet[(group >> (18 - 6 * number) & 63) as usize];
            out.push(if number <= three.len() { digit } else { b'=' });
        }
    }
    out
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

#[test]
fn places_of_a_view_are_those_of_the_window() {
    let window = b"0123456789abcdef%41%42%43%44%45%46%47%48%49%4a%4b%4c%4d%4e%4f%50%51 end";
    let view = percent(window, false);
    assert_eq!(view.bytes, b"0123456789abcdefABCDEFGHIJKLMNOPQ end");
    assert_eq!([0, 15, 16, 31, 32].map(|at| view.source(at)), [0, 0, 16, 16, 64]);
    assert_eq!(backslashes(br#"a\"b\u00e4\ud83d\ude00\n"#).bytes, "a\"bä😀\n".as_bytes());
    assert_eq!(backslashes(b"\\u00g1\\ud800x\\").bytes, b"\\u00g1\\x");
    assert_eq!(entities(b"&amp;lt;&#39;&unknown;&").bytes, b"&lt;'&unknown;&");
}

#[test]
fn single_zeros_separate_and_zeros_between_join() {
    let wide: Vec<u8> = "abc".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(without_zeros(b"A=1\0B=2\0").bytes, b"", "an environment block");
    assert_eq!(without_zeros(&[&wide[..], &wide].concat()).bytes, b"abcabc");
    assert_eq!(without_zeros(&[&wide[..], b"plain", &wide].concat()).bytes, b"abcp\nabc");
}

proptest! {
    #[test]
    fn every_form_that_is_searched_for_is_read_back(
        value in "[!-~]([ -~äöß€😀]{4,30})[!-~]",
        before in "[a-z ]{0,12}",
        behind in "( [a-z ]{0,12})?",
    ) {
        for form in forms::of(value.as_bytes()) {
            // Short runs of hex are everywhere, and not decoded; base64 is below.
            let is_short = form.kind == FormKind::Hex && value.len() < RUN_MIN;
            if form.kind == FormKind::Base64 || is_short {
                continue;
            }
            // What hex goes on with belongs to it.
            let before = if form.kind == FormKind::Hex { "" } else { before.as_str() };
            let window = [before.as_bytes(), &form.bytes, behind.as_bytes()].concat();
            prop_assert!(is_seen(&window, value.as_bytes()), "`{}`", String::from_utf8_lossy(&window));
        }
    }

    #[test]
    fn base64_is_read_at_every_offset_in_both_alphabets(
        value in "[ -~]{6,40}", before in prop::collection::vec(any::<u8>(), 0..6), behind in prop::collection::vec(any::<u8>(), 0..6),
    ) {
        let whole = [&before[..], value.as_bytes(), &behind].concat();
        let wide: Vec<u8> = value.encode_utf16().flat_map(u16::to_le_bytes).collect();
        for alphabet in [STANDARD, URL_SAFE] {
            prop_assert!(is_seen(&base64(&whole, alphabet), value.as_bytes()));
            prop_assert!(is_seen(&base64(&wide, alphabet), value.as_bytes()));
        }
    }

    #[test]
    fn utf16_is_read_at_any_parity(value in "[ -~ä]{6,40}", big: bool, before in "[a-z]{0,5}") {
        let units = value.encode_utf16();
        let wide: Vec<u8> = units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect();
        let window = [before.as_bytes(), &[0xff; 2], &wide].concat();
        prop_assert!(is_seen(&window, value.as_bytes()));
    }
}
