//! Packed dumps: the same image whatever a core is packed with, and damage is never taken for memory.

use std::io::{Seek, SeekFrom, Write};
use std::sync::Arc;

use biopsy_image::testing::{CoreBuilder, gzip, seekable_zstd, zstd_frames, zstd_stream};
use biopsy_image::{
    Absence, Encoding, Image, Limits, MemoryExt, OpenProblem, PAGE_SIZE, ReadError, open, open_bytes,
};

const SIZE: usize = 300_000;
const START: u64 = 0x7000_0000;

fn pattern() -> Vec<u8> {
    // Repeats enough to be packed well, and says where it is.
    (0..SIZE as u32 / 4).flat_map(|at| (at / 3).to_le_bytes()).collect()
}

fn core() -> Vec<u8> {
    CoreBuilder::new()
        .process(9, "packed", "packed")
        .thread(9, 6, &Default::default())
        .files(&[])
        .memory(0x1000, 6, vec![0; 65536])
        .memory(START, 6, pattern())
        .build()
}

fn check(image: &dyn Image) {
    assert_eq!(image.threads().len(), 1);
    assert_eq!(image.read_up_to(START, SIZE + 10).unwrap(), pattern());
    for at in [0usize, 1, 4095, 65_535, 65_536, 131_071, SIZE - 1] {
        let read = image.read_up_to(START + at as u64, 5000).unwrap();
        assert_eq!(read, pattern()[at..SIZE.min(at + 5000)]);
    }
}

#[test]
fn every_packing_gives_the_same_image() {
    let core = core();
    for (packed, encoding) in [
        (core.clone(), Encoding::Plain),
        (seekable_zstd(&core, 65_536, true), Encoding::SeekableZstd),
        (seekable_zstd(&core, 1000, false), Encoding::SeekableZstd),
        (zstd_frames(&core, 50_000), Encoding::FramedZstd),
        (zstd_stream(&core), Encoding::Zstd),
        (gzip(&core), Encoding::Gzip),
        // gzip of two members, as `cat a.gz b.gz` makes it.
        ([gzip(&core[..5000]), gzip(&core[5000..])].concat(), Encoding::Gzip),
    ] {
        let opened = open_bytes("core", packed, &Limits::default()).unwrap();
        assert_eq!(opened.encoding, encoding);
        assert!(opened.warnings.is_empty(), "{encoding}: {:?}", opened.warnings);
        check(&*opened.image);
    }
}

/// By the programs themselves, where they are installed: what systemd-coredump of older distributions leaves.
#[test]
fn lz4_and_xz_are_unpacked_too() {
    let folder = biopsy_testkit::temp_dir("packed");
    let path = folder.path().join("core");
    std::fs::write(&path, core()).unwrap();
    for (tool, encoding) in [("lz4", Encoding::Lz4), ("xz", Encoding::Xz)] {
        if !biopsy_testkit::require_program(tool, &["--version"]) {
            continue;
        }
        let output = std::process::Command::new(tool).arg("-c").arg(&path).output().unwrap();
        let packed = output.stdout;
        let opened = open_bytes("core", &packed[..], &Limits::default()).unwrap();
        assert_eq!(opened.encoding, encoding);
        assert!(opened.warnings.is_empty(), "{encoding}: {:?}", opened.warnings);
        check(&*opened.image);
        let cut = open_bytes("core", &packed[..packed.len() / 2], &Limits::default());
        // xz has blocks larger than this core, so there may be nothing whole.
        assert!(cut.is_err() || cut.is_ok_and(|cut| cut.warnings[0].code == "dump.cut-off"), "{encoding}");
    }
}

#[test]
fn several_threads_may_read_frames_at_once() {
    let mut limits = Limits::default();
    limits.cached_bytes = 10_000; // fewer than the readers need
    let opened = open_bytes("core", seekable_zstd(&core(), 4096, true), &limits).unwrap();
    let image: Arc<dyn Image> = Arc::from(opened.image);
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let image = Arc::clone(&image);
            scope.spawn(move || {
                let expected = pattern();
                for step in 0..300 {
                    let at = (thread * 7919 + step * 10_007) % (SIZE - 100);
                    let read = image.read_up_to(START + at as u64, 100).unwrap();
                    assert_eq!(read, expected[at..at + 100]);
                }
            });
        }
    });
}

#[test]
fn a_damaged_frame_is_an_error_there_and_nowhere_else() {
    let core = core();
    let good = seekable_zstd(&core, 65_536, true);
    // Every byte of every frame, in turn: never a wrong byte of memory.
    let expected = pattern();
    let mut damaged = 0;
    for at in (0..good.len() - 9 - 8 - 12 * 6).step_by(61) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        let Ok(opened) = open_bytes("core", bad, &Limits::default()) else { continue };
        for offset in (0..SIZE).step_by(20_000) {
            let mut buffer = [0; 64];
            match opened.image.read(START + offset as u64, &mut buffer) {
                Ok(read) => assert_eq!(buffer[..read], expected[offset..offset + read]),
                Err(ReadError::Damaged { what, .. }) => {
                    assert!(what.contains("of the compressed file"), "{what}");
                    damaged += 1;
                }
                Err(ReadError::Missing { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(damaged > 10, "the damage was seen {damaged} times");
}

#[test]
fn a_lying_seek_table_is_not_believed() {
    let core = core();
    let good = seekable_zstd(&core, 65_536, true);
    let entries = good.len() - 9 - 12 * core.len().div_ceil(65_536);
    // The size of the first frame: the sum is wrong, so frames are found by walking.
    let mut bad = good.clone();
    bad[entries] ^= 1;
    let opened = open_bytes("core", bad, &Limits::default()).unwrap();
    assert_eq!(opened.encoding, Encoding::FramedZstd);
    check(&*opened.image);
    // A frame that claims 4 GiB is not allocated.
    let mut bad = good.clone();
    bad[entries + 4..entries + 8].copy_from_slice(&u32::MAX.to_le_bytes());
    check(&*open_bytes("core", bad, &Limits::default()).unwrap().image);
    // A checksum that is wrong is damage.
    let mut bad = good;
    bad[entries + 8 + 12 * 2] ^= 1;
    let opened = open_bytes("core", bad, &Limits::default()).unwrap();
    let error = opened.image.read(START + 70_000, &mut [0; 8]).unwrap_err();
    assert!(matches!(&error, ReadError::Damaged { what, .. } if what.contains("checksum")), "{error}");
}

#[test]
fn a_packed_core_that_is_cut_off_gives_what_is_there() {
    let core = core();
    for (packed, encoding) in [
        (seekable_zstd(&core, 16_384, true), Encoding::FramedZstd),
        (zstd_frames(&core, 16_384), Encoding::FramedZstd),
        (zstd_stream(&core), Encoding::Zstd),
        (gzip(&core), Encoding::Gzip),
    ] {
        let cut = packed.len() * 7 / 10;
        let opened = open_bytes("core", &packed[..cut], &Limits::default()).unwrap();
        assert_eq!(opened.encoding, encoding);
        let codes: Vec<&str> = opened.warnings.iter().map(|warning| warning.code.as_str()).collect();
        assert_eq!(codes, ["dump.cut-off", "dump.truncated"], "{encoding}");
        let image = &*opened.image;
        let there = image.read_up_to(START, SIZE).unwrap();
        assert!(!there.is_empty() && there.len() < SIZE, "{encoding}: {}", there.len());
        assert_eq!(there, pattern()[..there.len()]);
        let error = image.read(START + there.len() as u64, &mut [0; 1]).unwrap_err();
        assert!(matches!(error, ReadError::Missing { why: Absence::Truncated, .. }), "{encoding}: {error}");
    }
}

#[test]
fn bombs_stop_at_the_limits() {
    let zeros = vec![0; 100 << 20];
    let mut limits = Limits::small();
    limits.unpacked_bytes = 50 << 20;
    for packed in [gzip(&zeros), zstd_stream(&zeros)] {
        let error = open_bytes("bomb", packed, &limits).unwrap_err();
        assert!(matches!(error.problem, OpenProblem::OverLimit { .. }), "{error}");
    }
    let ones = vec![1; 20 << 20];
    let error = open_bytes("bomb", gzip(&ones), &Limits::small()).unwrap_err();
    assert!(error.to_string().contains("other than zeros"), "{error}");
    // A frame header that claims a terabyte.
    let mut claims = zstd_frames(b"x", 10);
    claims[4] = 0xe0; // size in 8 bytes, single segment
    claims.splice(5..6, (1u64 << 40).to_le_bytes());
    assert!(open_bytes("bomb", claims, &Limits::default()).is_err());
}

#[test]
fn other_packings_are_named_with_the_command_that_unpacks_them() {
    let error = open_bytes("core.bz2", b"BZh91AY&SY".to_vec(), &Limits::default()).unwrap_err();
    assert_eq!(error.to_string(), "cannot open `core.bz2` as a dump: it is packed as bzip2");
    assert_eq!(error.hint().as_deref(), Some("unpack it first: `bzip2 -dk core.bz2`"));
    let text = open_bytes("text.gz", gzip(b"hello, world"), &Limits::default()).unwrap_err();
    assert!(text.to_string().contains("what is packed in it is neither"));
}

#[test]
fn things_that_are_no_files_are_refused_without_waiting() {
    let folder = biopsy_testkit::temp_dir("open");
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let error = open(&pipe, &Limits::default()).unwrap_err();
    assert!(error.to_string().ends_with("it is a pipe"), "{error}");
    assert!(error.hint().is_some());
    assert!(open(folder.path(), &Limits::default()).unwrap_err().to_string().ends_with("it is a folder"));
    let absent = open(folder.path().join("absent"), &Limits::default()).unwrap_err();
    assert!(matches!(absent.problem, OpenProblem::Io { doing: "find", .. }));
}

/// 1 TiB of memory, of which three pages are in the file and the rest are holes: reads cost what they read.
#[test]
fn a_sparse_core_larger_than_memory_opens_and_says_where_its_data_is() {
    let folder = biopsy_testkit::temp_dir("sparse");
    let path = folder.path().join("core");
    let size = 1u64 << 40;
    let mut head =
        CoreBuilder::new().process(1, "large", "large").files(&[]).memory(START, 6, vec![1]).build();
    let at = head.len() as u64 - 1;
    // p_filesz and p_memsz of the second program header.
    for field in [32, 40] {
        head[64 + 56 + field..64 + 56 + field + 8].copy_from_slice(&size.to_le_bytes());
    }
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(&head).unwrap();
    file.set_len(at + size).unwrap();
    let far = 0xab_cdef_0000u64;
    file.seek(SeekFrom::Start(at + far)).unwrap();
    file.write_all(&[7; 4096]).unwrap();
    let opened = open(&path, &Limits::default()).unwrap();
    let image = &*opened.image;
    assert_eq!(image.read_u64(START + far).unwrap(), 0x0707_0707_0707_0707);
    assert_eq!(image.read_u64(START + far - 8).unwrap(), 0, "a hole in anonymous memory is zeros");
    let mut runs = Vec::new();
    image.written(START..START + size, &mut runs).unwrap();
    assert!(runs.iter().any(|run| run.contains(&(START + far))), "{runs:x?}");
    let total: u64 = runs.iter().map(|run| run.end - run.start).sum();
    assert!(total <= 64 * PAGE_SIZE, "{runs:x?}");
}

/// 256 GiB of memory in frames of 1 MiB that are all the same: none of them is unpacked before it is asked for.
#[test]
fn a_seekable_core_larger_than_memory_opens_at_once() {
    const FRAME: usize = 1 << 20;
    let frames = 256u64 << 10;
    let size = frames * FRAME as u64;
    // The head in a frame of its own: memory begins with the second one.
    let mut head = CoreBuilder::new()
        .page(FRAME as u64)
        .process(1, "large", "large")
        .thread(1, 0, &Default::default())
        .files(&[])
        .memory(START, 6, vec![1])
        .build();
    head.truncate(FRAME);
    for field in [32, 40] {
        head[64 + 56 + field..64 + 56 + field + 8].copy_from_slice(&size.to_le_bytes());
    }
    let memory: Vec<u8> = (0..FRAME as u32 / 4).flat_map(u32::to_le_bytes).collect();
    let mut packed = zstd_frames(&head, FRAME);
    let mut table = [packed.len() as u32, FRAME as u32].map(u32::to_le_bytes).concat();
    let one = zstd::bulk::compress(&memory[..4096].repeat(FRAME / 4096), 1).unwrap();
    for _ in 0..frames {
        packed.extend_from_slice(&one);
        table.extend([one.len() as u32, FRAME as u32].map(u32::to_le_bytes).concat());
    }
    packed.extend([0x184D_2A5E, table.len() as u32 + 9].map(u32::to_le_bytes).concat());
    packed.extend(&table);
    packed.extend((frames as u32 + 1).to_le_bytes());
    packed.push(0);
    packed.extend(0x8F92_EAB1_u32.to_le_bytes());
    let opened = open_bytes("large", packed, &Limits::default()).unwrap();
    assert_eq!(opened.encoding, Encoding::SeekableZstd);
    assert!(opened.warnings.is_empty(), "{:?}", opened.warnings);
    for address in [START, START + size / 3 / 4096 * 4096, START + size - 4096] {
        assert_eq!(opened.image.read_up_to(address, 4096).unwrap(), memory[..4096]);
    }
    assert!(opened.image.read(START + size, &mut [0]).is_err_and(|error| error.is_missing()));
}
