//! Outputs that fail, processes that end midway, ceilings, and who is told what when.

use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use biopsy_image::write::{Class, Reason};
use biopsy_image::{Absence, MemoryExt, ReadError};

use super::synthetic::{PAGE, Synthetic};
use super::*;

/// 24 MiB of written memory, a stack of 64 KiB, and a file.
fn large() -> Synthetic {
    let mut image = Synthetic::new();
    image.file(0x40_0000, 512, "/lib/text.so");
    let heap = image.anonymous(0x1000_0000, 6144);
    for at in 0..6144 {
        image.write(heap.start + at * PAGE, at + 1);
    }
    let stack = image.anonymous(0x7000_0000, 16);
    for at in 0..16 {
        image.write(stack.start + at * PAGE, at + 1);
    }
    image.thread(1, stack.start + 200);
    image
}

/// Takes so many bytes, then is full.
struct Full {
    taken: Vec<u8>,
    room: usize,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.room - self.taken.len());
        if taken == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.taken.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_is_whole_when_the_disk_is_full_can_be_read_and_is_not_called_complete() {
    let image = large();
    for compression in [ZSTD, Compression::None] {
        let mut output = Full { taken: Vec::new(), room: 7 << 20 };
        let options = options(CoreKind::Heap, compression);
        let error = write_core(&image, &options, CoreOutput::Stream(&mut output), &NoProgress).unwrap_err();
        let CoreError::Output { written, whole, source, .. } = error else { panic!("{error}") };
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        assert!(written <= output.room as u64 && whole >= 5 << 20, "{written} {whole}");
        let opened = read_back(output.taken);
        assert!(!opened.warnings.is_empty(), "it must not look complete");
        let core = &*opened.image;
        // Stacks are first.
        for at in 0..16 {
            let address = 0x7000_0000 + at * PAGE;
            assert_eq!(core.read_up_to(address, PAGE as usize).unwrap(), image.truth(address));
        }
        // Of the heap there is the beginning, and no bytes that are wrong.
        let mut there = 0;
        for at in 0..6144 {
            let address = 0x1000_0000 + at * PAGE;
            match core.read_up_to(address, PAGE as usize) {
                Ok(bytes) if bytes.len() == PAGE as usize => {
                    assert!(bytes == image.truth(address), "{address:#x}");
                    there += 1;
                }
                Ok(_) => {}
                Err(error) => assert!(error.is_missing(), "{error}"),
            }
        }
        assert!((1000..6144).contains(&there), "{there}");
    }
}

#[test]
fn memory_of_a_process_that_is_gone_midway_is_missing_and_never_zeros() {
    for compression in [ZSTD, Compression::None] {
        let mut image = large();
        image.reads_left = Some(AtomicU64::new(3000));
        let (summary, bytes) = written(&image, &options(CoreKind::Heap, compression));
        assert!(!summary.is_whole());
        assert!(summary.missing.iter().all(|one| one.reason == Reason::Gone), "{:?}", summary.missing);
        let missing: u64 = summary.missing.iter().map(|one| one.range.end - one.range.start).sum();
        let opened = read_back(bytes);
        let mut absent = 0;
        for at in 0..6144 {
            let address = 0x1000_0000 + at * PAGE;
            match opened.image.read_up_to(address, PAGE as usize) {
                Ok(bytes) => assert!(bytes == image.truth(address), "{address:#x}"),
                Err(ReadError::Missing { why: Absence::Gone, .. }) => absent += PAGE,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(absent, missing);
        assert!(absent > 8 << 20);
    }
}

#[test]
fn a_ceiling_keeps_stacks_and_says_what_it_dropped() {
    let mut image = large();
    let bytes = image.anonymous(0x7100_0000, 256);
    for at in 0..256 {
        image.write(bytes.start + at * PAGE, at + 9);
    }
    // Planned, for a plain core.
    let ceiling = 3 << 20;
    let plain = CoreOptions { max_size: Some(ceiling), ..options(CoreKind::Full, Compression::None) };
    let (summary, bytes) = written(&image, &plain);
    assert!(bytes.len() as u64 <= ceiling && bytes.len() as u64 > 1 << 20, "{}", bytes.len());
    assert!(!summary.is_whole());
    assert_eq!(summary.contents.of(Class::Stacks), 16 * PAGE);
    assert_eq!(summary.contents.of(Class::Files), 0);
    let opened = read_back(bytes);
    assert_eq!(opened.image.read_up_to(0x7000_0000, 16).unwrap(), image.truth(0x7000_0000)[..16]);
    let error = opened.image.read(0x1000_0000, &mut [0]).unwrap_err();
    assert!(matches!(error, ReadError::Missing { why: Absence::OverLimit, .. }), "{error}");
    // While it is written, for a compressed one.
    let packed = CoreOptions { max_size: Some(4 << 20), ..options(CoreKind::Full, ZSTD) };
    let (summary, bytes) = written(&image, &packed);
    assert!(bytes.len() < 8 << 20, "{}", bytes.len());
    assert!(summary.missing.iter().all(|one| one.reason == Reason::Ceiling) && !summary.missing.is_empty());
    let opened = read_back(bytes);
    assert_eq!(opened.image.read_up_to(0x7000_0000, 16).unwrap(), image.truth(0x7000_0000)[..16]);
    let end = 0x1000_0000 + 6143 * PAGE;
    let error = opened.image.read(end, &mut [0]).unwrap_err();
    assert!(matches!(error, ReadError::Missing { why: Absence::OverLimit, .. }), "{error}");
}

/// Readers take what a core says was not written from the file: what the process wrote must not be among it.
#[test]
fn pages_of_a_file_that_may_have_been_written_are_not_said_to_be_in_the_file() {
    let mut image = one_of_everything();
    let library = Backing::File { path: b"/lib/a.so".to_vec(), offset: 0, deleted: false, identity: (1, 9) };
    let at = 0x6000_0000;
    let data = image.map(at, 64, "rw", false, library);
    image.mappings.sort_by_key(|one| one.start);
    for index in 10..50 {
        image.write(at + index * PAGE, 5);
    }
    let told = |options: &CoreOptions| {
        let opened = read_back(written(&image, options).1);
        let Err(ReadError::Missing { why, .. }) = opened.image.read(at + 20 * PAGE, &mut [0]) else {
            panic!("it is there");
        };
        let mut runs = Vec::new();
        opened.image.written(data.clone(), &mut runs).unwrap();
        (why, runs.iter().any(|run| run.contains(&(at + 20 * PAGE))))
    };
    assert_eq!(told(&options(CoreKind::Stacks, Compression::None)), (Absence::NotOfKind, true));
    let little = CoreOptions { max_size: Some(400 << 10), ..options(CoreKind::Heap, Compression::None) };
    assert_eq!(told(&little), (Absence::OverLimit, true));
}

/// Notes when the freeze may end, and stops at a block.
#[derive(Default)]
struct Watch<'a> {
    image: Option<&'a Synthetic>,
    done: AtomicUsize,
    read_before: Mutex<Vec<u64>>,
    stop_at: Option<u64>,
    blocks: AtomicU64,
}

impl CoreProgress for Watch<'_> {
    fn anonymous_memory_done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
        if let Some(image) = self.image {
            self.read_before.lock().unwrap().clone_from(&image.log.lock().unwrap());
        }
    }

    fn keep_going(&self) -> bool {
        let block = self.blocks.fetch_add(1, Ordering::Relaxed);
        self.stop_at.is_none_or(|stop| block < stop)
    }
}

#[test]
fn the_freeze_may_end_before_files_are_read_and_that_is_said_once() {
    let image = large();
    for threads in [1, 4] {
        image.log.lock().unwrap().clear();
        let watch = Watch { image: Some(&image), ..Watch::default() };
        let options =
            CoreOptions { threads: std::num::NonZero::new(threads), ..options(CoreKind::Full, ZSTD) };
        let (summary, _) = write_to_memory(&image, &options, &watch);
        assert!(summary.unwrap().is_whole());
        assert_eq!(watch.done.load(Ordering::Relaxed), 1);
        let before = watch.read_before.lock().unwrap();
        for at in image.written.keys() {
            assert!(before.contains(at), "{at:#x} is read after the freeze ended");
        }
        let files = before.iter().filter(|at| **at < 0x60_0000).count();
        // Blocks hold a little of what follows, and other threads are ahead.
        assert!(files < 512 * 3 / 4 || threads > 1, "{files} pages of files were read first");
    }
}

#[test]
fn stopping_stops_and_leaves_no_thread_behind() {
    let image = large();
    let watch = Watch { stop_at: Some(3), ..Watch::default() };
    let (result, bytes) = write_to_memory(&image, &options(CoreKind::Full, ZSTD), &watch);
    assert!(matches!(result, Err(CoreError::Stopped { written }) if written == bytes.len() as u64));
    assert!(!read_back(bytes).warnings.is_empty(), "it must not look complete");
}

#[test]
fn a_plain_file_that_was_stopped_ends_where_it_is_whole() {
    let image = large();
    let file = tempfile::NamedTempFile::new().unwrap();
    let watch = Watch { stop_at: Some(6), ..Watch::default() };
    let options = options(CoreKind::Heap, Compression::None);
    write_core(&image, &options, CoreOutput::File(file.as_file()), &watch).unwrap_err();
    let opened = biopsy_image::open(file.path(), &Limits::default()).unwrap();
    assert!(!opened.warnings.is_empty(), "it must not look complete");
    let mut there = 0;
    for at in 0..6144 {
        let address = 0x1000_0000 + at * PAGE;
        match opened.image.read_up_to(address, PAGE as usize) {
            Ok(bytes) => assert!(bytes == image.truth(address)[..bytes.len()], "{address:#x}"),
            Err(error) => assert!(error.is_missing(), "{error}"),
        }
        there += u64::from(opened.image.read(address, &mut [0]).is_ok());
    }
    assert!((1000..2000).contains(&there), "{there}");
}

#[test]
fn an_image_with_nothing_in_it_is_a_core() {
    let image = Synthetic::new();
    let (summary, bytes) = written(&image, &options(CoreKind::Full, Compression::None));
    assert_eq!(summary.contents.total(), 0);
    let opened = open_bytes("core", bytes, &Limits::default());
    assert!(opened.is_ok_and(|opened| opened.image.mappings().is_empty()));
}
