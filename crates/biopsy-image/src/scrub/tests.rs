//! A mask that stars out the digits behind `#`, over an image with holes.

use std::sync::Mutex;

use super::*;
use crate::{Absence, Backing, Protection};

/// Masks runs of digits behind a `#`, up to 64 of them.
struct Digits(Vec<String>);

impl Mask for Digits {
    fn rules(&self) -> &[String] {
        &self.0
    }

    fn overlap(&self) -> usize {
        64
    }

    fn mask(&self, bytes: &mut [u8], inner: Range<usize>, counts: &mut MaskCounts) {
        let before = bytes.to_vec();
        for at in (0..before.len()).filter(|at| before[*at] == b'#') {
            let digits = before[at + 1..].iter().take(64).take_while(|b| b.is_ascii_digit()).count();
            let secret = at + 1..at + 1 + digits;
            for place in secret.clone().filter(|place| inner.contains(place)) {
                bytes[place] = b'*';
            }
            if digits > 0 && inner.contains(&secret.start) {
                counts.add(0, secret.start);
            }
        }
    }
}

/// Mappings with their bytes; pages that were never written; what was read.
struct Pieces {
    mappings: Vec<Mapping>,
    bytes: Vec<Vec<u8>>,
    unwritten: Vec<Range<u64>>,
    reads: Mutex<Vec<Range<u64>>>,
}

impl Pieces {
    fn new(pieces: Vec<(u64, Vec<u8>)>) -> Self {
        let mapping = |start: u64, end: u64| Mapping {
            start,
            end,
            protection: Protection { read: true, write: true, execute: false },
            shared: false,
            backing: Backing::Anonymous { label: String::new() },
            not_frozen: false,
        };
        Self {
            mappings: pieces
                .iter()
                .map(|(start, bytes)| mapping(*start, start + bytes.len() as u64))
                .collect(),
            bytes: pieces.into_iter().map(|(_, bytes)| bytes).collect(),
            unwritten: Vec::new(),
            reads: Mutex::default(),
        }
    }
}

impl Image for Pieces {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let found = self.mappings.iter().position(|one| one.contains(address));
        let index = found.ok_or(ReadError::Missing { address, why: Absence::Unmapped })?;
        let rest = &self.bytes[index][(address - self.mappings[index].start) as usize..];
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        self.reads.lock().expect("no panic").push(address..address + length as u64);
        Ok(length)
    }

    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[Thread] {
        &[]
    }

    fn modules(&self) -> &[ImageModule] {
        &[]
    }

    fn process(&self) -> &ProcessFacts {
        static FACTS: std::sync::OnceLock<ProcessFacts> = std::sync::OnceLock::new();
        FACTS.get_or_init(ProcessFacts::default)
    }

    fn written(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        let mut at = range.start;
        for hole in self.unwritten.iter().filter(|hole| hole.start < range.end && hole.end > range.start) {
            if at < hole.start {
                runs.push(at..hole.start);
            }
            at = hole.end;
        }
        if at < range.end {
            runs.push(at..range.end);
        }
        Ok(())
    }
}

fn scrubbed(pieces: Vec<(u64, Vec<u8>)>) -> ScrubbedImage<Pieces, Digits> {
    ScrubbedImage::new(Pieces::new(pieces), Digits(vec!["digits".to_owned()]))
}

fn text(length: usize) -> Vec<u8> {
    b"some #123456789 text #42 and #7 ".iter().copied().cycle().take(length).collect()
}

#[test]
fn what_is_masked_does_not_depend_on_the_cut() {
    let whole = {
        let image = scrubbed(vec![(0x1000, text(3000))]);
        let mut bytes = vec![0; 3000];
        assert_eq!(image.read(0x1000, &mut bytes).expect("it is there"), 3000);
        bytes
    };
    assert!(whole.starts_with(b"some #********* text #** and #* some"));
    for step in [1usize, 7, 63, 64, 65, 500] {
        let image = scrubbed(vec![(0x1000, text(3000))]);
        let mut bytes = Vec::new();
        while bytes.len() < 3000 {
            let mut piece = vec![0; step.min(3000 - bytes.len())];
            let read = image.read(0x1000 + bytes.len() as u64, &mut piece).expect("it is there");
            bytes.extend_from_slice(&piece[..read]);
        }
        assert!(bytes == whole, "in steps of {step}");
        let expected = whole.windows(2).filter(|pair| *pair == b"#*").count() as u64;
        assert_eq!(
            image.counts(),
            [MaskCount { rule: "digits".to_owned(), count: expected }],
            "steps of {step}"
        );
    }
}

#[test]
fn what_is_read_twice_is_counted_once() {
    let image = scrubbed(vec![(0x1000, b"a #12 b".to_vec())]);
    let mut bytes = [0; 7];
    for _ in 0..3 {
        image.read(0x1000, &mut bytes).expect("it is there");
    }
    assert_eq!(&bytes, b"a #** b");
    assert_eq!(image.counts()[0].count, 1);
}

#[test]
fn mappings_that_touch_are_one_text_and_holes_are_edges() {
    let image =
        scrubbed(vec![(0x1000, b"#12".to_vec()), (0x1003, b"34 #5".to_vec()), (0x2000, b"67".to_vec())]);
    let mut bytes = [0; 5];
    assert_eq!(image.read(0x1003, &mut bytes).expect("it is there"), 5);
    assert_eq!(&bytes, b"** #*");
    let mut bytes = [0; 2];
    assert_eq!(image.read(0x2000, &mut bytes).expect("it is there"), 2);
    assert_eq!(&bytes, b"67");
}

#[test]
fn what_is_missing_stays_missing() {
    let image = scrubbed(vec![(0x1000, b"#12".to_vec())]);
    let mut bytes = [0; 16];
    assert_eq!(image.read(0x1000, &mut bytes).expect("it is there"), 3);
    assert!(image.read(0x3000, &mut bytes).expect_err("nothing is there").is_missing());
}

#[test]
fn pages_that_were_never_written_are_not_read_around_a_piece() {
    let mut pieces = Pieces::new(vec![(0x1000, vec![0; 0x3000])]);
    pieces.unwritten = vec![0x1000..0x2000, 0x3000..0x4000];
    let image = ScrubbedImage::new(pieces, Digits(vec!["digits".to_owned()]));
    let mut bytes = vec![0; 0x1000];
    image.read(0x2000, &mut bytes).expect("it is there");
    let reads = image.inner().reads.lock().expect("no panic");
    assert!(reads.iter().all(|read| read.start >= 0x2000 && read.end <= 0x3000), "{reads:?}");
}
