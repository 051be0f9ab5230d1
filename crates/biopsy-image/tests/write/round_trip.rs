//! Written and read back.

use biopsy_image::vendor::CaptureMethod;
use biopsy_image::{Absence, Backing, Image, MemoryExt, ReadError};
use proptest::prelude::*;

use super::synthetic::{PAGE, Synthetic};
use super::*;

/// What must be true of a page of memory in a core of this kind.
fn check_page(image: &Synthetic, kind: CoreKind, core: &dyn Image, address: u64) {
    let inside = biopsy_image::mapping::find(&image.mappings, address).expect("mapped");
    let mut bytes = vec![0xaa; PAGE as usize];
    let read = core.read_exact(address, &mut bytes);
    let unreadable = !inside.protection.read
        || matches!(&inside.backing, Backing::Kernel { label } if label != "[vdso]")
        || inside.path().is_some_and(|path| path.starts_with(b"/dev/dri"));
    if unreadable {
        let why = match read {
            Err(ReadError::Missing { why, .. }) => why,
            other => panic!("{address:#x} cannot be there: {other:?}"),
        };
        assert_eq!(why, Absence::Unreadable, "{address:#x}");
        return;
    }
    let is_file = inside.path().is_some_and(|path| !path.starts_with(b"/memfd"));
    let own = image.written.contains_key(&address);
    let must_be_there = match kind {
        CoreKind::Full => true,
        CoreKind::Heap => !is_file || own && !inside.shared,
        CoreKind::Stacks => image.threads.iter().any(|thread| {
            let sp = thread.registers.as_ref().expect("given").rsp;
            inside.contains(sp) && address + PAGE > sp - 128
        }),
    };
    match read {
        Ok(()) => assert!(bytes == image.truth(address), "{address:#x} has other bytes"),
        Err(ReadError::Missing { why: Absence::LeftOut | Absence::NotOfKind, .. }) if !must_be_there => {}
        Err(error) => panic!("{address:#x}: {error}"),
    }
}

fn check_all(image: &Synthetic, kind: CoreKind, core: &dyn Image) {
    for mapping in &image.mappings {
        for at in 0..mapping.size() / PAGE {
            check_page(image, kind, core, mapping.start + at * PAGE);
        }
    }
}

/// A thread that could not be stopped in time is known when the core is written, and must be when it is opened.
#[test]
fn what_a_core_lacks_for_how_it_was_taken_is_told_when_it_is_opened() {
    let image = one_of_everything();
    let lacking = ["thread 7 was in an uninterruptible wait", "thread 8 ended: \u{e9}"].map(String::from);
    let options = CoreOptions { warnings: lacking.to_vec(), ..options(CoreKind::Heap, ZSTD) };
    let opened = read_back(written(&image, &options).1);
    let told: Vec<_> = opened.warnings.iter().map(|one| (one.code.as_str(), one.message.as_str())).collect();
    assert_eq!(told, lacking.each_ref().map(|message| ("dump.as-taken", message.as_str())));
}

#[test]
fn every_kind_reads_back_as_it_was() {
    let image = one_of_everything();
    for kind in [CoreKind::Full, CoreKind::Heap, CoreKind::Stacks] {
        for compression in [ZSTD, Compression::None] {
            let (summary, bytes) = written(&image, &options(kind, compression));
            assert!(summary.is_whole(), "{summary:?}");
            assert_eq!(summary.written_bytes, bytes.len() as u64);
            let opened = read_back(bytes);
            assert!(opened.warnings.is_empty(), "{:?}", opened.warnings);
            let core = &*opened.image;
            assert_eq!(core.mappings(), image.mappings());
            assert_eq!(core.threads(), image.threads());
            let mut facts = core.process().clone();
            facts.writer = None;
            // The kernel's note has the arguments as one text.
            assert_eq!(facts.command_line.concat().len(), "/opt/odd--x".len());
            facts.command_line.clone_from(&image.process.command_line);
            assert_eq!(facts, image.process);
            let dump = opened.dump.as_ref().expect("our note");
            assert_eq!((dump.kind, dump.method), (Some(kind), CaptureMethod::Unknown));
            assert_eq!(dump.pause_nanos, Some(3_000_000));
            check_all(&image, kind, core);
        }
    }
}

#[test]
fn compressed_and_plain_cores_are_the_same_file() {
    let image = one_of_everything();
    let (_, plain) = written(&image, &options(CoreKind::Full, Compression::None));
    for threads in [1, 2, 7] {
        let options = CoreOptions {
            threads: std::num::NonZero::new(threads),
            ..options(CoreKind::Full, Compression::SeekableZstd { level: -1 })
        };
        let (_, packed) = written(&image, &options);
        assert!(packed.len() < plain.len() / 2);
        assert!(zstd::decode_all(&*packed).unwrap() == plain, "{threads} threads");
    }
    // And in a file with holes.
    let file = tempfile::tempfile().unwrap();
    let options = options(CoreKind::Full, Compression::None);
    let summary = write_core(&image, &options, CoreOutput::File(&file), &NoProgress).unwrap();
    assert!(summary.written_bytes < summary.logical_bytes);
    let mut sparse = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Seek::rewind(&mut &file).map(|()| &file).unwrap(), &mut sparse)
        .unwrap();
    assert!(sparse == plain);
}

#[test]
fn an_absent_run_is_a_segment_without_bytes_and_a_short_one_is_zeros() {
    let mut image = Synthetic::new();
    let heap = image.anonymous(0x10_0000, 1000);
    image.write(heap.start, 1);
    image.write(heap.start + 60 * PAGE, 2); // 59 pages are absent: less than 256 KiB
    image.write(heap.start + 500 * PAGE, 3);
    let (summary, _) = written(&image, &options(CoreKind::Heap, Compression::None));
    // Two runs, two gaps, two segments of notes.
    assert_eq!(summary.segments, 6);
    assert_eq!(summary.contents.total(), 62 * PAGE);
}

/// Buffers are used again, and only what lies between runs is made zero in them.
#[test]
fn a_block_shows_nothing_of_the_one_before() {
    let mut image = Synthetic::new();
    let full = image.anonymous(0x1000_0000, 1024);
    for at in 0..1024 {
        image.write(full.start + at * PAGE, at + 1);
    }
    let sparse = image.anonymous(0x2000_0000, 1024);
    for at in (0..1024).filter(|at| at % 100 == 7) {
        image.write(sparse.start + at * PAGE, at + 1);
    }
    let one = options(CoreKind::Heap, ZSTD);
    for compression in [ZSTD, Compression::None] {
        let options = CoreOptions { compression, threads: std::num::NonZero::new(1), ..one.clone() };
        let (summary, bytes) = written(&image, &options);
        assert!(summary.contents.total() > 1900 * PAGE, "gaps are written, too: {summary:?}");
        check_all(&image, CoreKind::Heap, &*read_back(bytes).image);
        let mut file = tempfile::tempfile().unwrap();
        write_core(&image, &options, CoreOutput::File(&file), &NoProgress).unwrap();
        let mut bytes = Vec::new();
        std::io::Seek::rewind(&mut file).unwrap();
        std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();
        check_all(&image, CoreKind::Heap, &*read_back(bytes).image);
    }
}

#[test]
fn more_segments_than_a_header_can_count_are_read_back() {
    let mut image = Synthetic::new();
    let count = 70_000;
    for at in 0..count {
        let one = image.anonymous(0x10_0000 + at * 2 * PAGE, 1);
        if at % 10_000 == 0 {
            image.write(one.start, at + 1);
        }
    }
    image.thread(1, 0x10_0000);
    let (summary, bytes) = written(&image, &options(CoreKind::Heap, Compression::None));
    assert_eq!(summary.segments as u64, count + 2);
    assert_eq!(bytes[56..58], 0xffffu16.to_le_bytes(), "PN_XNUM");
    let opened = read_back(bytes);
    assert_eq!(opened.image.mappings().len() as u64, count);
    check_all(&image, CoreKind::Heap, &*opened.image);
}

#[derive(Clone, Debug)]
struct Area {
    gap: u64,
    pages: u64,
    kind: u8,
    writes: Vec<(u64, u64)>,
}

fn area() -> impl Strategy<Value = Area> {
    (0u64..4, 1u64..400, 0u8..5, prop::collection::vec((0u64..400, 0u64..9), 0..12))
        .prop_map(|(gap, pages, kind, writes)| Area { gap, pages, kind, writes })
}

fn build(areas: &[Area]) -> Synthetic {
    let mut image = Synthetic::new();
    let mut at = 0x1_0000;
    let mut stack = None;
    for (number, area) in areas.iter().enumerate() {
        at += area.gap * PAGE;
        let range = match area.kind {
            0 | 1 => image.anonymous(at, area.pages),
            2 => image.file(at, area.pages, &format!("/lib/{number}.so")),
            3 => {
                let path = b"/memfd:x".to_vec();
                let backing = Backing::File { path, offset: 0, deleted: true, identity: (0, number as u64) };
                image.map(at, area.pages, "rw", true, backing)
            }
            _ => image.map(at, area.pages, "", false, Backing::Anonymous { label: String::new() }),
        };
        for (page, seed) in &area.writes {
            if *page < area.pages && area.kind != 4 {
                image.write(range.start + page * PAGE, *seed);
            }
        }
        if area.kind == 0 {
            stack = Some(range.start + area.pages / 2 * PAGE + 24);
        }
        at = range.end;
    }
    image.thread(1, stack.unwrap_or(8));
    image
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_address_space_reads_back(areas in prop::collection::vec(area(), 1..12), kind in 0..3usize) {
        let image = build(&areas);
        let kind = [CoreKind::Full, CoreKind::Heap, CoreKind::Stacks][kind];
        let (summary, packed) = written(&image, &options(kind, ZSTD));
        prop_assert!(summary.is_whole());
        let (_, plain) = written(&image, &options(kind, Compression::None));
        prop_assert!(zstd::decode_all(&*packed).unwrap() == plain);
        let opened = read_back(packed);
        prop_assert_eq!(opened.image.mappings(), image.mappings());
        check_all(&image, kind, &*opened.image);
    }
}

#[test]
fn stacks_have_the_locks_that_threads_wait_for() {
    let mut image = one_of_everything();
    let heap = 0x80_0000;
    let lock = heap + 201 * PAGE + 40;
    let registers = image.threads[1].registers.as_mut().unwrap();
    (registers.orig_rax, registers.rdi) = (202, lock);
    let (summary, bytes) = written(&image, &options(CoreKind::Stacks, ZSTD));
    assert!(summary.is_whole(), "{summary:?}");
    let core = read_back(bytes).image;
    assert_eq!(core.read_up_to(heap + 201 * PAGE, PAGE as usize).unwrap(), image.truth(heap + 201 * PAGE));
    // Nothing else of the heap, but for the page in front of it, which is within reach of a lock.
    assert!(core.read(heap + 5 * PAGE, &mut [0]).unwrap_err().is_missing());
    // Any address may stand there.
    for odd in [0, 8, u64::MAX, 1 << 63] {
        image.threads[1].registers.as_mut().unwrap().rdi = odd;
        assert!(written(&image, &options(CoreKind::Stacks, ZSTD)).0.is_whole());
    }
}

#[test]
fn a_hundred_thousand_mapped_files() {
    let mut image = Synthetic::new();
    for at in 0..100_000 {
        image.file(0x10_0000_0000 + at * 2 * PAGE, 1, &format!("/srv/data/part-{at:06}.idx"));
    }
    let stack = image.anonymous(0x7000_0000_0000, 4);
    (0..4).for_each(|at| image.write(stack.start + at * PAGE, at + 1));
    image.thread(4711, stack.start + PAGE);
    let (summary, bytes) = written(&image, &options(CoreKind::Heap, ZSTD));
    assert!(summary.is_whole());
    let core = read_back(bytes).image;
    assert_eq!(core.mappings().len(), image.mappings.len());
    for at in [0, 1, 49_999, 99_999] {
        let path = format!("/srv/data/part-{at:06}.idx");
        assert_eq!(core.mappings()[at].path(), Some(path.as_bytes()));
    }
}
