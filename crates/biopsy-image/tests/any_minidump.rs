//! Minidumps of any shape, of Windows and of Breakpad: each byte that is read is the one that was written, threads, modules and
//! exceptions are those that were put in, and a file that is cut has what is before the cut.

use biopsy_image::testing::{MinidumpBuilder, gzip, seekable_zstd, zstd_stream};
use biopsy_image::{Absence, Backing, CrashKind, Limits, MemoryExt, Opened, ReadError, mapping, open_bytes};
use biopsy_model::Avma;
use proptest::prelude::*;

const FIRST: u64 = 0x10_0000;

/// A thread: its number, three registers, its name.
type Shown = (u32, Option<(u64, u64, u64)>, Option<String>);

#[derive(Clone, Debug)]
struct Shape {
    windows: bool,
    threads: Vec<(u32, u64, u64, Option<String>)>,
    /// Bytes behind the one before, bytes, path.
    modules: Vec<(u64, u32, String, bool)>,
    /// Bytes behind the range before, bytes.
    memory: Vec<(u64, usize)>,
    packing: u8,
}

fn shapes() -> impl Strategy<Value = Shape> {
    (
        any::<bool>(),
        prop::collection::btree_map(
            1..1_000_000_u32,
            (any::<u64>(), any::<u64>(), prop::option::of("[a-zé😀 ]{1,12}")),
            1..8,
        ),
        prop::collection::vec((0..0x3000_u64, 1..0x5000_u32, "/[a-zé]{1,9}", any::<bool>()), 0..6),
        prop::collection::vec((0..400_u64, 1..900_usize), 0..9),
        0..4_u8,
    )
        .prop_map(|(windows, threads, modules, memory, packing)| Shape {
            windows,
            threads: threads.into_iter().map(|(tid, (ip, sp, name))| (tid, ip, sp, name)).collect(),
            modules,
            memory,
            packing,
        })
}

impl Shape {
    /// Ranges of memory: where, and what is there.
    fn ranges(&self) -> Vec<(u64, Vec<u8>)> {
        let mut at = FIRST;
        let range = |(number, (gap, size)): (usize, &(u64, usize))| {
            let start = at + gap;
            at = start + *size as u64;
            (start, (0..*size).map(|byte| (byte * 13 + number * 29) as u8).collect())
        };
        self.memory.iter().enumerate().map(range).collect()
    }

    /// Start, end and path of each module.
    fn places(&self) -> Vec<(u64, u64, String, bool)> {
        let mut at = 0x7f00_0000_0000;
        let place = |(gap, size, path, is_elf): &(u64, u32, String, bool)| {
            let start = at + gap;
            at = start + u64::from(*size);
            (start, at, path.clone(), *is_elf)
        };
        self.modules.iter().map(place).collect()
    }

    fn builder(&self) -> MinidumpBuilder {
        let mut builder = if self.windows { MinidumpBuilder::windows() } else { MinidumpBuilder::breakpad() };
        for (tid, ip, sp, name) in &self.threads {
            builder = builder.thread(*tid, *ip, *sp);
            if let Some(name) = name {
                builder = builder.name(*tid, name);
            }
        }
        // The file has them in the order of its writer.
        for (start, end, path, is_elf) in self.places().iter().rev() {
            let record =
                if *is_elf { [b"LEpB".as_slice(), &start.to_le_bytes(), &[7]].concat() } else { Vec::new() };
            builder = builder.module(*start, (end - start) as u32, path, &record);
        }
        for (start, bytes) in self.ranges() {
            builder = builder.memory(start, &bytes);
        }
        builder
    }
}

fn opened(bytes: Vec<u8>) -> Result<Opened, TestCaseError> {
    open_bytes("made.dmp", bytes, &Limits::default()).map_err(|error| TestCaseError::fail(error.to_string()))
}

/// Bytes that lie behind each other from an address on, as they were written.
fn there(ranges: &[(u64, Vec<u8>)], address: u64, most: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < most {
        let at = address + bytes.len() as u64;
        let Some((start, here)) =
            ranges.iter().find(|(start, here)| (*start..start + here.len() as u64).contains(&at))
        else {
            break;
        };
        let from = (at - start) as usize;
        bytes.extend(here[from..].iter().take(most - bytes.len()));
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_minidump_says_what_was_put_into_it(shape in shapes(), reads in prop::collection::vec((0..9_000_u64, 1..2_000_usize), 1..8)) {
        let bytes = shape.builder().build();
        let bytes = match shape.packing {
            0 => bytes,
            1 => gzip(&bytes),
            2 => seekable_zstd(&bytes, 700, true),
            _ => zstd_stream(&bytes),
        };
        let opened = opened(bytes)?;
        prop_assert!(opened.warnings.is_empty(), "{:?}", opened.warnings);
        let image = &*opened.image;
        let threads: Vec<Shown> = image
            .threads()
            .iter()
            .map(|one| {
                let registers = one.registers.map(|registers| (registers.rip, registers.rsp, registers.r15));
                (one.tid.0, registers, one.name.clone().map(|name| String::from_utf8(name).expect("it was text")))
            })
            .collect();
        let expected: Vec<_> =
            shape.threads.iter().map(|(tid, ip, sp, name)| (*tid, Some((*ip, *sp, u64::from(*tid))), name.clone())).collect();
        prop_assert_eq!(threads, expected);
        let modules: Vec<(u64, u64, String, bool)> = image
            .modules()
            .iter()
            .map(|one| (one.start, one.end, String::from_utf8_lossy(&one.path).into_owned(), one.is_elf))
            .collect();
        prop_assert_eq!(modules, shape.places());
        for module in image.modules().iter().filter(|module| module.is_elf) {
            let id = [module.start.to_le_bytes().as_slice(), &[7]].concat();
            prop_assert_eq!(module.build_id.as_ref(), Some(&id));
        }
        let ranges = shape.ranges();
        for (offset, count) in reads {
            let address = FIRST - 200 + offset;
            let expected = there(&ranges, address, count);
            let mut buffer = vec![0xee; count];
            prop_assert_eq!(image.read_available(address, &mut buffer), expected.len(), "at {:#x}", address);
            prop_assert_eq!(&buffer[..expected.len()], &expected);
            if expected.len() < count {
                let at = address + expected.len() as u64;
                let exact = image.read_exact(address, &mut buffer);
                prop_assert!(matches!(exact, Err(ReadError::Missing { address, why: Absence::Unmapped }) if address == at), "{:?}", exact);
            }
            // What can be read is mapped, and what is mapped was said by nobody but the memory itself.
            let found = mapping::find(image.mappings(), address);
            prop_assert_eq!(found.is_some(), !expected.is_empty());
            prop_assert!(found.is_none_or(|found| found.backing == Backing::Unknown));
        }
    }

    /// Of Windows memory is at the end: what is before a cut is there, and what is behind it is said to be cut off.
    #[test]
    fn a_cut_takes_what_is_behind_it(shape in shapes(), cut in any::<prop::sample::Index>()) {
        let shape = Shape { windows: true, ..shape };
        let bytes = shape.builder().build();
        let ranges = shape.ranges();
        let size: usize = ranges.iter().map(|(_, bytes)| bytes.len()).sum();
        let head = bytes.len() - size;
        let left = cut.index(size + 1);
        let opened = opened(bytes[..head + left].to_vec())?;
        prop_assert_eq!(opened.warnings.iter().any(|warning| warning.code == "dump.truncated"), left < size);
        prop_assert_eq!(opened.image.threads().len(), shape.threads.len());
        let mut place = 0;
        for (start, bytes) in &ranges {
            let here = left.saturating_sub(place).min(bytes.len());
            let mut buffer = vec![0; bytes.len()];
            prop_assert_eq!(opened.image.read_available(*start, &mut buffer), here);
            prop_assert_eq!(&buffer[..here], &bytes[..here]);
            if here < bytes.len() {
                let missing = opened.image.read(start + here as u64, &mut [0]);
                prop_assert!(matches!(missing, Err(ReadError::Missing { why: Absence::Truncated, .. })), "{:?}", missing);
            }
            place += bytes.len();
        }
    }

    /// Maps of the kernel beside memory: what was mapped and not written is left out, what is in no map is unknown.
    #[test]
    fn maps_say_what_memory_is(
        shape in shapes(),
        lines in prop::collection::vec((0..3_u64, 1..4_u64, 0..3_usize), 1..6),
        asked in prop::collection::vec(0..0x8000_u64, 1..20),
    ) {
        let shape = Shape { windows: false, ..shape };
        let (mut at, mut text, mut maps) = (FIRST, String::new(), Vec::new());
        for (gap, pages, kind) in lines {
            let start = at + gap * 0x1000;
            at = start + pages * 0x1000;
            let path = ["/lib/made.so", "[heap]", ""][kind];
            let (write, file) = if kind == 0 { ('-', "00002000 08:01 77") } else { ('w', "00000000 00:00 0") };
            text += &format!("{start:08x}-{at:08x} r{write}-p {file}   {path}\n");
            maps.push((start, at, kind));
        }
        let opened = opened(shape.builder().maps(text.as_bytes()).build())?;
        let ranges = shape.ranges();
        for address in asked.into_iter().map(|offset| FIRST - 0x800 + offset) {
            let is_there = !there(&ranges, address, 1).is_empty();
            let map = maps.iter().find(|(start, end, _)| (*start..*end).contains(&address));
            let found = mapping::find(opened.image.mappings(), address);
            match map {
                None => prop_assert_eq!(found.map(|found| &found.backing), is_there.then_some(&Backing::Unknown)),
                Some((start, _, kind)) => {
                    let found = found.expect("it is mapped");
                    prop_assert_eq!((found.protection.read, found.protection.write), (true, *kind > 0));
                    match &found.backing {
                        Backing::File { path, offset, .. } => {
                            prop_assert_eq!((*kind, path.as_slice()), (0, b"/lib/made.so".as_slice()));
                            prop_assert_eq!(offset + address - found.start, 0x2000 + address - start);
                        }
                        backing => prop_assert!(*kind > 0 && found.is_anonymous(), "{:?}", backing),
                    }
                }
            }
            let expected = match (is_there, map) {
                (true, _) => None,
                (false, Some(_)) => Some(Absence::LeftOut),
                (false, None) => Some(Absence::Unmapped),
            };
            match opened.image.read(address, &mut [0]) {
                Ok(_) => prop_assert_eq!(expected, None),
                Err(ReadError::Missing { why, .. }) => prop_assert_eq!(Some(why), expected, "{:#x}", address),
                Err(error) => prop_assert!(false, "{}", error),
            }
        }
    }

    /// Any bytes in place of any word: an image, or why not.
    #[test]
    fn words_that_lie_are_no_panic(shape in shapes(), changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![
        any::<u32>(), 0..64_u32, Just(u32::MAX), Just(1 << 31), Just(i32::MAX as u32),
    ]), 1..5)) {
        let mut bytes = shape.builder().exception(1, 11, 1, 8).pid(7).build();
        for (at, word) in changes {
            let at = at.index(bytes.len() / 4) * 4;
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        if let Ok(opened) = open_bytes("made.dmp", bytes, &Limits::small()) {
            biopsy_image::fuzz::check_image(&*opened.image);
        }
    }
}

/// What the system of the dump calls what happened, and whether anything did.
#[test]
fn exceptions_are_told_as_their_system_means_them() {
    let signal = |number, code| Some(CrashKind::Signal { number, code });
    for (windows, code, flags, kind, address) in [
        (false, 11, 1, signal(11, Some(1)), Some(0x18)),
        // Breakpad once wrote no code: 0 says nothing.
        (false, 11, 0, signal(11, None), Some(0x18)),
        (false, 7, 2, signal(7, Some(2)), Some(0x18)),
        // These are no faults: the address is that of the code.
        (false, 6, 0xffff_fffa, signal(6, Some(-6)), None),
        (false, 9, 0, signal(9, None), None),
        // The dump was asked for.
        (false, 0, 0, None, None),
        (false, 0xffff_ffff, 0, None, None),
        (true, 0xc000_0005, 0, Some(CrashKind::WindowsException { code: 0xc000_0005 }), Some(0x18)),
        (true, 0xe043_4352, 1, Some(CrashKind::WindowsException { code: 0xe043_4352 }), None),
    ] {
        let builder = if windows { MinidumpBuilder::windows() } else { MinidumpBuilder::breakpad() };
        let builder = builder.thread(1, 0x1000, 0x2000).thread(2, 0x3000, 0x4000);
        for (tid, order) in [(2, [2, 1]), (1, [1, 2]), (99, [1, 2])] {
            let bytes = builder.clone().exception(tid, code, flags, 0x18).build();
            let opened = opened(bytes).unwrap_or_else(|error| panic!("{error}"));
            let crash = opened.crash();
            assert_eq!(crash.as_ref().map(|crash| crash.kind), kind, "{code:#x}");
            if let Some(crash) = crash {
                assert_eq!(
                    (crash.thread.map(|tid| tid.0), crash.address),
                    (Some(tid), address.map(Avma)),
                    "{code:#x}"
                );
                assert!(!crash.description.is_empty());
            }
            let threads: Vec<u32> = opened.image.threads().iter().map(|thread| thread.tid.0).collect();
            assert_eq!(threads, order, "the one it happened in is first, where it is there");
        }
    }
}

#[test]
fn a_pid_is_that_of_the_dump_and_a_name_that_of_its_first_module() {
    for (path, name) in
        [("/opt/app/server", "server"), (r"C:\Apps\Server.exe", "Server.exe"), ("alone", "alone")]
    {
        let bytes = MinidumpBuilder::windows()
            .pid(4711)
            .thread(1, 1, 1)
            .module(0x9000, 16, path, &[])
            .module(0x1000, 16, "/other", &[])
            .build();
        let opened = opened(bytes).unwrap_or_else(|error| panic!("{error}"));
        let facts = opened.image.process();
        assert_eq!((facts.pid.0, facts.name.as_slice()), (4711, name.as_bytes()));
        assert_eq!(facts.executable.as_deref(), Some(path.as_bytes()));
        assert_eq!(facts.taken_at_unix_nanos, Some(1_700_000_000 * 1_000_000_000));
        assert_eq!(opened.image.modules()[0].path, b"/other", "modules are by address");
    }
}
