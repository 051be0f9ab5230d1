//! What spans become before anything is masked.

use proptest::prelude::*;

use super::*;
use crate::pseudonym::{BundleKey, masks_in, push_mask};

fn span(range: Range<usize>, rule: Option<usize>) -> Span {
    Span { range, rule, pseudonym: None, open: false, learn: false, wide: None, wrap: None }
}

fn ranges(text: &str, spans: &[(Range<usize>, Option<usize>)]) -> Vec<(Range<usize>, Option<usize>)> {
    let spans = spans.iter().map(|(range, rule)| span(range.clone(), *rule)).collect();
    let masks = masks_in(text.as_bytes());
    tidy(text.as_bytes(), &masks, spans).into_iter().map(|span| (span.range, span.rule)).collect()
}

#[test]
fn overlapping_spans_become_one_with_the_name_of_the_larger() {
    let text = "0123456789";
    for (spans, wanted) in [
        // Apart, side by side, the same twice.
        (vec![(4..6, Some(2)), (0..2, Some(1))], vec![(0..2, Some(1)), (4..6, Some(2))]),
        (vec![(0..2, Some(1)), (2..4, Some(2))], vec![(0..2, Some(1)), (2..4, Some(2))]),
        (vec![(0..4, Some(3)), (0..4, Some(1))], vec![(0..4, Some(1))]),
        (vec![(0..4, None), (0..4, Some(3))], vec![(0..4, Some(3))]),
        // One in the other, one over the end of the other.
        (vec![(0..8, Some(3)), (2..4, Some(1))], vec![(0..8, Some(3))]),
        (vec![(0..4, Some(3)), (2..8, Some(1))], vec![(0..8, Some(3))]),
        (vec![(0..4, None), (2..8, Some(1))], vec![(0..8, Some(1))]),
        (vec![(3..3, Some(1))], vec![]),
    ] {
        assert_eq!(ranges(text, &spans), wanted, "{spans:?}");
    }
}

#[test]
fn a_value_keeps_its_pseudonym_only_while_it_is_whole() {
    let pseudonym = BundleKey::from_bytes([1; 32]).pseudonym(b"x");
    let learned = |range| Span { pseudonym: Some(pseudonym), ..span(range, None) };
    let of = |text: &[u8], spans| {
        tidy(text, &masks_in(text), spans).into_iter().map(|span| span.pseudonym).collect::<Vec<_>>()
    };
    assert_eq!(of(b"0123456789", vec![learned(0..4)]), [Some(pseudonym)]);
    assert_eq!(of(b"0123456789", vec![learned(0..4), span(0..4, Some(1))]), [Some(pseudonym)]);
    assert_eq!(of(b"0123456789", vec![learned(0..4), span(2..8, Some(1))]), [None]);
    let mut text = b"ab".to_vec();
    push_mask(&mut text, "rule", pseudonym);
    text.extend_from_slice(b"cd");
    let whole = 0..text.len();
    assert_eq!(of(&text, vec![learned(whole)]), [None, None], "two pieces around a mask");
}

#[test]
fn punctuation_between_masks_is_not_masked() {
    let mut text = Vec::new();
    for between in [", ", "x"] {
        push_mask(&mut text, "rule", BundleKey::from_bytes([1; 32]).pseudonym(b"x"));
        text.extend_from_slice(between.as_bytes());
    }
    let text = String::from_utf8(text).expect("ASCII");
    assert_eq!(ranges(&text, &[(0..text.len(), Some(1))]), [(text.len() - 1..text.len(), Some(1))]);
}

/// Text with masks and characters of several bytes in it, and stretches of it.
fn spans_of_text() -> impl Strategy<Value = (String, Vec<(usize, usize, Option<usize>)>)> {
    let piece = prop_oneof![
        4 => "[a-z ,ä€😀]{0,8}",
        1 => Just("[redacted:rule:0123abcd]".to_owned()),
    ];
    prop::collection::vec(piece, 1..12).prop_map(|pieces| pieces.concat()).prop_flat_map(|text| {
        let place = 0..=text.len();
        let spans = prop::collection::vec((place.clone(), place, prop::option::of(0usize..3)), 0..8);
        (Just(text), spans)
    })
}

proptest! {
    #[test]
    fn what_is_found_is_masked_once_whole_and_never_in_a_mask((text, spans) in spans_of_text()) {
        let spans: Vec<_> = spans.into_iter().map(|(a, b, rule)| (a.min(b)..a.max(b), rule)).collect();
        let masks = masks_in(text.as_bytes());
        let tidied = ranges(&text, &spans);
        let mut end = 0;
        for (range, _) in &tidied {
            prop_assert!(end <= range.start && range.start < range.end, "{tidied:?}");
            prop_assert!(text.is_char_boundary(range.start) && text.is_char_boundary(range.end), "{range:?}");
            prop_assert!(masks.iter().all(|mask| mask.end <= range.start || range.end <= mask.start));
            end = range.end;
        }
        // Letters are never lost; punctuation may be, beside a mask.
        for at in spans.iter().flat_map(|(range, _)| range.clone()) {
            let is_letter = text.as_bytes()[at].is_ascii_alphanumeric() || text.as_bytes()[at] >= 0x80;
            let is_ours = masks.iter().any(|mask| mask.contains(&at));
            let is_masked = tidied.iter().any(|(range, _)| range.contains(&at));
            prop_assert!(!is_letter || is_ours || is_masked, "byte {at} of `{text}` is left of {spans:?}");
        }
        // Nothing changes when it is done again.
        prop_assert_eq!(ranges(&text, &tidied), tidied);
    }
}
