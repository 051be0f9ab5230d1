//! A core of a copy is the core of the process, to the byte, and the process is not needed for it any more.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use biopsy_image::write::{CopiedImage, CopyRoom, write_minidump};
use biopsy_image::{Absence, Image, ReadError};

use super::synthetic::PAGE;
use super::*;

const KINDS: [CoreKind; 3] = [CoreKind::Full, CoreKind::Heap, CoreKind::Stacks];

fn core_of(image: &dyn Image, kind: CoreKind) -> (CoreSummary, Vec<u8>) {
    let mut bytes = Vec::new();
    let options = options(kind, Compression::None);
    let summary = write_core(image, &options, CoreOutput::Stream(&mut bytes), &NoProgress).unwrap();
    (summary, bytes)
}

#[test]
fn a_core_of_the_copy_is_the_core_of_the_process() {
    let image = one_of_everything();
    let room = CopyRoom::new(64 << 20);
    for kind in KINDS {
        for around in [0, 16 << 10] {
            let copied = CopiedImage::copy(&image, kind, around, &room).unwrap().unwrap();
            assert!(room.used() >= copied.size() && copied.size() > 0, "{kind:?}");
            let (of_process, expected) = core_of(&image, kind);
            let (of_copy, found) = core_of(&copied, kind);
            assert!(of_process.is_whole() && of_copy.is_whole(), "{kind:?}");
            assert!(expected == found, "{kind:?}, {around} around: the cores differ");
            drop(copied);
            assert_eq!(room.used(), 0);
        }
    }
    let copied = CopiedImage::copy(&image, CoreKind::Stacks, 0, &room).unwrap().unwrap();
    let (mut expected, mut found) = (Vec::new(), Vec::new());
    write_minidump(&image, &mut expected, &NoProgress).unwrap();
    write_minidump(&copied, &mut found, &NoProgress).unwrap();
    assert!(expected == found, "the minidumps differ");
}

#[test]
fn what_is_not_copied_is_missing_and_says_why() {
    let image = one_of_everything();
    let room = CopyRoom::new(64 << 20);
    let copied = CopiedImage::copy(&image, CoreKind::Heap, 0, &room).unwrap().unwrap();
    let why = |address| match copied.read(address, &mut [0; 8]) {
        Err(ReadError::Missing { why, .. }) => why,
        other => panic!("{other:?} at {address:#x}"),
    };
    // A page of the program that it did not change, and nothing at all.
    assert_eq!(why(0x40_0000 + 40 * PAGE), Absence::LeftOut);
    assert_eq!(why(0x1), Absence::Unmapped);
    // Reads go across parts, and end where the copy ends.
    let mut two = vec![0; 4 * PAGE as usize];
    let read = copied.read(0x80_0000, &mut two).unwrap();
    assert_eq!(read, 3 * PAGE as usize);
    assert_eq!(two[..PAGE as usize], image.truth(0x80_0000));
    assert_eq!(copied.read(0x80_0000, &mut []).unwrap(), 0);
}

#[test]
fn what_does_not_fit_into_the_room_is_not_copied() {
    let image = one_of_everything();
    let room = CopyRoom::new(8 * PAGE);
    assert!(CopiedImage::copy(&image, CoreKind::Heap, 0, &room).unwrap().is_none());
    assert_eq!(room.used(), 0);
}

#[test]
fn what_has_no_room_in_memory_goes_into_a_file() {
    let image = one_of_everything();
    let room = CopyRoom::new(64 << 20);
    let (_, expected) = core_of(&image, CoreKind::Full);
    let asked = AtomicU64::new(0);
    let spill = |bytes: u64| {
        asked.fetch_add(bytes, Relaxed);
        tempfile::tempfile().ok()
    };
    let in_memory = CopiedImage::copy_or_spill(&image, CoreKind::Full, 0, &room, &spill).unwrap().unwrap();
    assert_eq!(asked.load(Relaxed), 0, "there is room");
    // The room is too small for a second one, and nobody waits for it.
    let room = CopyRoom::new(room.used() + PAGE);
    let first = CopiedImage::copy(&image, CoreKind::Full, 0, &room).unwrap().unwrap();
    let used = room.used();
    let second = CopiedImage::copy_or_spill(&image, CoreKind::Full, 0, &room, &spill).unwrap().unwrap();
    assert_eq!(asked.load(Relaxed), in_memory.size());
    assert_eq!(room.used(), used);
    drop(first);
    let (summary, found) = core_of(&second, CoreKind::Full);
    assert!(summary.is_whole() && expected == found, "the cores differ");
    // A file that takes nothing: memory, when there is room again.
    let read_only = |_| std::fs::File::open("/proc/self/exe").ok();
    let holder = CopiedImage::copy(&image, CoreKind::Full, 0, &room).unwrap().unwrap();
    let third = std::thread::scope(|scope| {
        let third = scope.spawn(|| {
            CopiedImage::copy_or_spill(&image, CoreKind::Full, 0, &room, &read_only).unwrap().unwrap()
        });
        drop(holder);
        third.join().unwrap()
    });
    assert!(room.used() >= third.size());
    assert!(core_of(&third, CoreKind::Full).1 == expected, "the cores differ");
}

#[test]
fn what_goes_away_while_it_is_copied_is_missing_in_the_core() {
    let mut image = one_of_everything();
    let all = CopiedImage::copy(&image, CoreKind::Heap, 0, &CopyRoom::new(64 << 20)).unwrap().unwrap();
    let pages = image.log.lock().unwrap().len() as u64;
    for left in [pages / 4, pages / 2, pages - 1] {
        image.reads_left = Some(AtomicU64::new(left));
        let copied = CopiedImage::copy(&image, CoreKind::Heap, 0, &CopyRoom::new(64 << 20)).unwrap().unwrap();
        assert!(copied.size() < all.size(), "{left} of {pages}");
        let (summary, bytes) = core_of(&copied, CoreKind::Heap);
        assert!(!summary.is_whole(), "{left} of {pages}: {:?}", summary.missing);
        read_back(bytes);
    }
}
