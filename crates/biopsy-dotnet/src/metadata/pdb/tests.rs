//! Debug information made by hand: lines of methods, paths of documents, and what is none.

use std::sync::Arc;

use proptest::prelude::*;

use super::sequence_points::points;
use super::{PdbError, PortablePdb};

fn compress(number: u32) -> Vec<u8> {
    match number {
        0..0x80 => vec![number as u8],
        0x80..0x4000 => ((number | 0x8000) as u16).to_be_bytes().to_vec(),
        _ => (number | 0xc000_0000).to_be_bytes().to_vec(),
    }
}

/// A signed number: the sign is the lowest bit of what is stored, which is as short as it can be.
fn compress_signed(number: i32) -> Vec<u8> {
    for (bits, mark) in [(7, 0u32), (14, 0x8000), (29, 0xc000_0000)] {
        if (-(1 << (bits - 1))..1 << (bits - 1)).contains(&number) {
            let rotated = (number as u32) << 1 & ((1 << bits) - 1) | u32::from(number < 0);
            let bytes = (rotated | mark).to_be_bytes();
            return bytes[match bits {
                7 => 3,
                14 => 2,
                _ => 0,
            }..]
                .to_vec();
        }
    }
    panic!("{number} is too large")
}

/// IL offset, document, and the line; `None`: hidden.
type Place = (u32, u32, Option<u32>);

/// Sequence points as compilers write them. The first document is the method's own where `own` says so.
fn encode(places: &[Place], own: bool) -> Vec<u8> {
    let mut blob = compress(0x1100_0001 & 0x1fff_ffff);
    let mut document = places.first().map_or(1, |place| place.1);
    if !own {
        blob.extend(compress(document));
    }
    let (mut il_before, mut line_before) = (0, None);
    for (number, (il, of, line)) in places.iter().enumerate() {
        if *of != document {
            blob.extend([compress(0), compress(*of)].concat());
            document = *of;
        }
        blob.extend(compress(if number == 0 { *il } else { il - il_before }));
        il_before = *il;
        let Some(line) = line else {
            blob.extend([0, 0]);
            continue;
        };
        // One line of seven columns, or two lines of which the second is shorter.
        match line % 2 {
            0 => blob.extend([0, 7]),
            _ => blob.extend([compress(1), compress_signed(-5)].concat()),
        }
        match line_before {
            None => blob.extend([compress(*line), compress(9)].concat()),
            Some(before) => {
                blob.extend([compress_signed(*line as i32 - before), compress_signed(-2)].concat())
            }
        }
        line_before = Some(*line as i32);
    }
    blob
}

/// Places with offsets that only grow.
fn places() -> impl Strategy<Value = Vec<Place>> {
    let place = (1u32..300, 1u32..4, prop::option::weighted(0.8, 1u32..70_000));
    prop::collection::vec(place, 1..30).prop_map(|steps| {
        let mut il = 0;
        let grow = |(number, (step, document, line)): (usize, (u32, u32, Option<u32>))| {
            il += if number == 0 { step - 1 } else { step };
            (il, document, line)
        };
        steps.into_iter().enumerate().map(grow).collect()
    })
}

/// Debug information with these methods, and documents `/src/a.cs`, `/src/b.cs`, `/src/c.cs`.
fn file(methods: &[Vec<u8>]) -> Vec<u8> {
    let mut blobs = vec![0];
    let mut add = |bytes: &[u8]| {
        let at = blobs.len() as u32;
        blobs.extend(compress(bytes.len() as u32));
        blobs.extend(bytes);
        at
    };
    let empty = add(b"");
    let source = add(b"src");
    let names = [b"a.cs", b"b.cs", b"c.cs"].map(|name| add(name));
    let documents =
        names.map(|name| add(&[vec![b'/'], compress(empty), compress(source), compress(name)].concat()));
    let methods: Vec<u32> = methods.iter().map(|blob| add(blob)).collect();
    let mut tables = vec![0, 0, 0, 0, 2, 0, 4, 1];
    tables.extend((3u64 << 0x30).to_le_bytes());
    tables.extend([0; 8]);
    tables.extend((documents.len() as u32).to_le_bytes());
    tables.extend((methods.len() as u32).to_le_bytes());
    for document in documents {
        tables.extend([document.to_le_bytes().to_vec(), vec![0; 8]].concat());
    }
    for blob in methods {
        tables.extend([vec![1, 0], blob.to_le_bytes().to_vec()].concat());
    }
    let id: Vec<u8> = (1..=20).chain([0; 12]).collect();
    let streams = [("#Pdb", id), ("#~", tables), ("#Blob", blobs)];
    let mut whole = b"BSJB\x01\0\x01\0\0\0\0\0\x0c\0\0\0PDB v1.0\0\0\0\0\0\0\x03\0".to_vec();
    let head: usize = streams.iter().map(|(name, _)| 8 + (name.len() + 4) / 4 * 4).sum();
    let mut at = whole.len() + head;
    for (name, body) in &streams {
        whole.extend((at as u32).to_le_bytes());
        whole.extend((body.len() as u32).to_le_bytes());
        whole.extend(name.as_bytes());
        whole.extend(vec![0; 4 - name.len() % 4]);
        at += body.len();
    }
    streams.iter().for_each(|(_, body)| whole.extend(body));
    whole
}

fn parsed(methods: &[Vec<u8>]) -> PortablePdb {
    PortablePdb::parse(Arc::from(file(methods))).expect("it is debug information")
}

#[test]
fn a_place_has_the_line_of_the_point_before_it() {
    let places = [(4, 1, Some(10)), (9, 1, None), (12, 2, Some(8)), (20, 2, Some(70_000))];
    let pdb = parsed(&[encode(&[], true), encode(&places, true)]);
    let line = |il| pdb.line(0x0600_0002, il).map(|line| (line.file, line.line));
    let at = |file: &str, line| Some((format!("/src/{file}"), line));
    for (il, wanted) in [
        (None, at("a.cs", 10)),
        (Some(0), at("a.cs", 10)),
        (Some(4), at("a.cs", 10)),
        (Some(11), at("a.cs", 10)),
        (Some(12), at("b.cs", 8)),
        (Some(19), at("b.cs", 8)),
        (Some(20), at("b.cs", 70_000)),
        (Some(u32::MAX), at("b.cs", 70_000)),
    ] {
        assert_eq!(line(il), wanted, "{il:?}");
    }
    for token in [0x0600_0001, 0x0600_0000, 0x0600_0003, 0x0200_0002, 0x06ff_ffff] {
        assert_eq!(pdb.line(token, None), None, "{token:#x}");
    }
    assert_eq!((pdb.id()[0], pdb.id()[19], pdb.method_count()), (1, 20, 2));
}

#[test]
fn a_document_that_is_not_there_gives_no_line() {
    let pdb = parsed(&[encode(&[(0, 1, Some(1)), (5, 4, Some(2))], true)]);
    assert_eq!(pdb.line(0x0600_0001, Some(4)).map(|line| line.line), Some(1));
    assert_eq!(pdb.line(0x0600_0001, Some(5)), None);
}

#[test]
fn what_is_no_debug_information_is_refused() {
    let whole = file(&[]);
    let windows = b"Microsoft C/C++ MSF 7.00\r\n".to_vec();
    assert!(matches!(PortablePdb::parse(Arc::from(windows)), Err(PdbError::NotPortable { .. })));
    let mut without_id = whole.clone();
    let at = whole.windows(4).position(|four| four == b"#Pdb").expect("it is named");
    without_id[at + 1] = b'x';
    assert!(matches!(PortablePdb::parse(Arc::from(without_id)), Err(PdbError::NotPortable { .. })));
    for cut in 0..whole.len() {
        if let Ok(pdb) = PortablePdb::parse(Arc::from(&whole[..cut])) {
            assert_eq!(pdb.line(0x0600_0001, None), None);
        }
    }
}

proptest! {
    #[test]
    fn points_are_read_as_they_were_written(places in places(), own: bool) {
        let document = if own { places[0].1 } else { 0 };
        let found: Vec<_> = points(&encode(&places, own), document).map(|point| (point.il_offset, point.document, Some(point.line))).collect();
        let wanted: Vec<_> = places.into_iter().filter(|(_, _, line)| line.is_some()).collect();
        prop_assert_eq!(found, wanted);
    }

    #[test]
    fn any_blob_ends(blob in prop::collection::vec(any::<u8>(), 0..200), document in 0u32..3) {
        prop_assert!(points(&blob, document).count() <= blob.len());
    }

    #[test]
    fn damage_gives_another_line_or_none(at: prop::sample::Index, value: u8, places in places()) {
        let mut bytes = file(&[encode(&places, true)]);
        let at = at.index(bytes.len());
        bytes[at] = value;
        if let Ok(pdb) = PortablePdb::parse(Arc::from(bytes)) {
            let _ = pdb.line(0x0600_0001, Some(5));
        }
    }
}
