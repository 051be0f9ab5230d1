//! The filter against a search that looks at every place.

use proptest::prelude::*;

use super::*;

/// How an anchor is written into memory.
#[derive(Clone, Copy, Debug)]
enum Written {
    Bytes,
    Little,
    Big,
}

/// Letters that share halves of bytes, and some that stand in no word.
const ALPHABET: &str = "[aAbBcpPqQ0@`_{=:/-]{3,9}";

fn memory(length: usize, fill: u8, plants: &[(usize, Vec<u8>, Written)]) -> Vec<u8> {
    let mut bytes = vec![fill; length];
    for (at, text, how) in plants {
        let written: Vec<u8> = match how {
            Written::Bytes => text.clone(),
            Written::Little => text.iter().flat_map(|byte| [*byte, 0]).collect(),
            Written::Big => text.iter().flat_map(|byte| [0, *byte]).collect(),
        };
        for (place, byte) in bytes.iter_mut().skip(*at).zip(written) {
            *place = byte;
        }
    }
    bytes
}

fn found(anchors: &[(Vec<u8>, bool)], bytes: &[u8]) -> Vec<(usize, usize, usize)> {
    let anchors: Vec<_> =
        anchors.iter().map(|(text, exact)| Text { bytes: text, exact: *exact, run: 0 }).collect();
    let mut found = Vec::new();
    Filter::new(&anchors).scan(bytes, &mut Vec::new(), |candidate| {
        found.push((candidate.start, candidate.anchor, candidate.stride));
    });
    found
}

/// Whether the anchor stands there. Of four characters of UTF-16 and more the last half is left out: what stands there is
/// that of the next character, high byte first.
fn stands(bytes: &[u8], start: usize, stride: usize, (anchor, exact): &(Vec<u8>, bool)) -> bool {
    anchor.iter().enumerate().all(|(number, wanted)| {
        let at = start + number * stride;
        let is_it = |byte: &u8| if *exact { byte == wanted } else { byte.eq_ignore_ascii_case(wanted) };
        let between = stride == 1
            || number + 1 == anchor.len() && number > 2
            || bytes.get(at + 1).is_none_or(|half| *half == 0);
        bytes.get(at).is_some_and(is_it) && between
    })
}

#[test]
fn anchors_at_the_very_edges_of_memory_are_found() {
    let anchors = [(b"key".to_vec(), false), (b"Bearer".to_vec(), true)];
    for length in [3, 4, 7, 8, 63, 64, 65, 70, 71, 72, 128, 4096, 4097, 8192] {
        for fill in [0, b'.', 0xff] {
            let bytes = memory(length, fill, &[(0, b"KEY".to_vec(), Written::Bytes)]);
            assert!(found(&anchors, &bytes).contains(&(0, 0, 1)), "{length} bytes of {fill}");
            let bytes = memory(length, fill, &[(length - 3, b"kEy".to_vec(), Written::Bytes)]);
            assert!(found(&anchors, &bytes).contains(&(length - 3, 0, 1)), "{length} bytes of {fill}");
        }
    }
    let cut = memory(5, 0, &[(0, b"key".to_vec(), Written::Little)]);
    assert_eq!(found(&anchors, &cut), [(0, 0, 2)], "without the last half");
    assert_eq!(
        found(&anchors, &memory(40, b'.', &[(3, b"bearer".to_vec(), Written::Bytes)])),
        [],
        "case matters"
    );
    assert_eq!(found(&anchors, b""), []);
}

#[test]
fn what_begins_a_run_is_found_in_front_of_one() {
    let text = b"ghp_0123456789ab";
    let anchors = [Text { bytes: &text[..4], exact: true, run: text.len() }];
    let filter = Filter::new(&anchors);
    let found = |bytes: &[u8]| {
        let mut found = Vec::new();
        filter.scan(bytes, &mut Vec::new(), |candidate| found.push((candidate.start, candidate.stride)));
        found
    };
    for how in [Written::Bytes, Written::Little, Written::Big] {
        for at in 0..260 {
            let bytes = memory(400, b'.', &[(at, text.to_vec(), how)]);
            let (start, stride) = match how {
                Written::Bytes => (at, 1),
                Written::Little => (at, 2),
                Written::Big => (at + 1, 2),
            };
            assert!(found(&bytes).contains(&(start, stride)), "{how:?} at {at}");
        }
    }
    let mut short = memory(400, b' ', &[(100, text[..11].to_vec(), Written::Bytes)]);
    assert_eq!(found(&short), [], "too short a run");
    short[111] = b'x';
    assert_eq!(found(&short), [(100, 1)]);
    // The last vectors are gone over without asking for a run.
    assert_eq!(found(&memory(110, b' ', &[(100, text.to_vec(), Written::Bytes)])), [(100, 1)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn whatever_a_search_at_every_place_finds_the_filter_finds(
        anchors in prop::collection::vec((ALPHABET.prop_map(String::into_bytes), any::<bool>()), 1..30),
        length in prop_oneof![1usize..300, 4000usize..4200, 8100usize..8300],
        fill in prop::sample::select(vec![0u8, b'a', b'P', b' ', 0xe1]),
        plants in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0u8..3, any::<bool>()), 0..20),
    ) {
        let plants: Vec<_> = plants.into_iter().map(|(at, which, how, upper)| {
            let (text, _) = &anchors[which.index(anchors.len())];
            let text = if upper { text.to_ascii_uppercase() } else { text.clone() };
            let how = [Written::Bytes, Written::Little, Written::Big][usize::from(how)];
            (at.index(length), text, how)
        }).collect();
        let bytes = memory(length, fill, &plants);
        let found = found(&anchors, &bytes);
        for (number, anchor) in anchors.iter().enumerate() {
            for stride in [1, 2] {
                for start in 0..length {
                    prop_assert!(
                        !stands(&bytes, start, stride, anchor) || found.contains(&(start, number, stride)),
                        "{:?} at {start} in steps of {stride} of {length}", String::from_utf8_lossy(&anchor.0)
                    );
                }
            }
        }
        let mut once = found.clone();
        once.sort_unstable();
        once.dedup();
        prop_assert_eq!(once.len(), found.len(), "none is told twice");
    }
}
