//! A stream in pieces of any size gives what the same bytes give at once, in every encoding.

use biopsy_redact::{BundleKey, Options, Redactor};
use proptest::prelude::*;

thread_local! {
    static REDACTOR: Redactor = Redactor::new(Options {
        key: Some(BundleKey::from_bytes([3; 32])),
        learn_from_text: false,
        ..Options::default()
    })
    .expect("the built-in packs are right");
}

/// Lines with secrets in all kinds of frames, look-alikes, and pieces that mean something at their edges.
fn lines() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        "[a-z]{1,6}=[A-Za-z0-9]{1,20}",
        "(password|api_key|DbPassword|token)(=|: |\": \")[A-Za-z0-9+/]{4,24}",
        "postgres://app:[A-Za-z0-9]{6,20}@db:5432/shop",
        "\\{\"token\":\"[A-Za-z0-9]{8,30}\",\"n\":[0-9]{1,5}\\}",
        "Authorization: (Bearer|Basic) [A-Za-z0-9+/]{8,40}={0,2}",
        Just("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7\n-----END PRIVATE KEY-----".to_owned()),
        Just("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w".to_owned()),
        "[ -~]{0,40}",
        "\\PC{0,20}",
    ];
    (prop::collection::vec(line, 0..12), any::<bool>())
        .prop_map(|(lines, dos)| lines.join(if dos { "\r\n" } else { "\n" }))
}

fn utf16(text: &str, little: bool) -> Vec<u8> {
    let unit = |unit: u16| if little { unit.to_le_bytes() } else { unit.to_be_bytes() };
    text.encode_utf16().flat_map(unit).collect()
}

/// The bytes, cut where `sizes` say, again and again.
fn in_pieces(bytes: &[u8], sizes: &[usize]) -> (Vec<u8>, u64) {
    REDACTOR.with(|redactor| {
        let (mut out, mut rest) = (Vec::new(), bytes);
        let mut chunks = redactor.chunks();
        for size in sizes.iter().cycle().take_while(|_| !sizes.is_empty()) {
            if rest.is_empty() {
                break;
            }
            let (piece, behind) = rest.split_at((*size).min(rest.len()));
            chunks.push(piece, &mut out);
            rest = behind;
        }
        chunks.push(rest, &mut out);
        let summary = chunks.finish(&mut out);
        assert_eq!((summary.bytes_in, summary.bytes_out), (bytes.len() as u64, out.len() as u64));
        let hits = summary.hits.iter().map(|hit| hit.count).sum();
        (out, hits)
    })
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![Just(vec![1]), Just(vec![2]), Just(vec![3, 1]), prop::collection::vec(1..90_usize, 1..6)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_size_of_pieces_does_not_matter(text in lines(), sizes in sizes(), wide: Option<bool>) {
        // The encoding is known from the first kilobytes on: from there on pieces are taken as they come.
        let text = "filler and more of it, \u{e9}\u{1f980}\n".repeat(200) + &text;
        let bytes = wide.map_or_else(|| text.clone().into_bytes(), |little| utf16(&text, little));
        let (whole, pieces) = (in_pieces(&bytes, &[]), in_pieces(&bytes, &sizes));
        prop_assert_eq!(String::from_utf8_lossy(&whole.0), String::from_utf8_lossy(&pieces.0), "{:?}", text);
        prop_assert_eq!(whole.1, pieces.1);
    }

    #[test]
    fn a_stream_masks_what_a_text_masks(text in lines()) {
        let at_once = REDACTOR.with(|redactor| redactor.text(&text).text.into_owned());
        let (streamed, _) = in_pieces(text.as_bytes(), &[7]);
        prop_assert_eq!(String::from_utf8_lossy(&streamed), at_once, "{:?}", text);
    }

    /// Bytes that are no text, or change their encoding.
    #[test]
    fn whatever_the_bytes_are(bytes in prop::collection::vec(any::<u8>(), 0..300), text in lines(), sizes in sizes(), little: bool) {
        let mixed = [bytes.as_slice(), text.as_bytes(), &utf16(&text, little), &bytes].concat();
        prop_assert!(in_pieces(&mixed, &[]) == in_pieces(&mixed, &sizes), "{:?}", mixed);
    }
}
