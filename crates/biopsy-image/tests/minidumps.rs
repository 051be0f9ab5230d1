//! Synthetic minidumps of Windows and Breakpad.

use biopsy_image::testing::{MinidumpBuilder, gzip, seekable_zstd};
use biopsy_image::{Absence, Backing, CrashKind, DumpKind, Limits, MemoryExt, Opened, ReadError, open_bytes};
use biopsy_model::Avma;

fn windows() -> MinidumpBuilder {
    let mut pdb = b"RSDS".to_vec();
    pdb.extend([7; 20]);
    pdb.extend(b"octopus.pdb\0");
    MinidumpBuilder::windows()
        .pid(4711)
        .thread(1, 0x1_4000_1000, 0x10_0000)
        .thread(2, 0x1_4000_2000, 0x20_0000)
        .name(2, "worker é")
        .module(0x1_4000_0000, 0x8000, r"C:\Program Files\Octopus\Octopus.Server.exe", &pdb)
        .module(0x7ff8_0000_0000, 0x1000, r"C:\Windows\System32\ntdll.dll", &[])
        .exception(2, 0xc000_0005, 0, 0xdead)
        .memory(0x10_0000, &[1; 4096])
        .memory(0x20_0000, &[2; 5000])
}

fn opened(bytes: Vec<u8>) -> Opened {
    open_bytes("x.dmp", bytes, &Limits::default()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_windows_minidump_has_threads_modules_memory_and_its_exception() {
    let bytes = windows().build();
    for bytes in [bytes.clone(), gzip(&bytes), seekable_zstd(&bytes, 512, true)] {
        let opened = opened(bytes);
        assert_eq!(opened.kind, DumpKind::Minidump);
        assert!(opened.warnings.is_empty(), "{:?}", opened.warnings);
        let image = &*opened.image;
        let threads = image.threads();
        assert_eq!(
            threads.iter().map(|one| one.tid.0).collect::<Vec<_>>(),
            [2, 1],
            "the one with the exception first"
        );
        let registers = threads[0].registers.expect("x86-64");
        assert_eq!((registers.r15, registers.rip, registers.rsp), (2, 0x1_4000_2000, 0x20_0000));
        assert_eq!(threads[0].name.as_deref(), Some("worker é".as_bytes()));
        assert_eq!((threads[0].extended.len(), threads[0].extended[0]), (512, 0x7f), "the FXSAVE area");
        assert_eq!(threads[0].signal, None);
        let crash = opened.crash().expect("it crashed");
        assert_eq!(crash.kind, CrashKind::WindowsException { code: 0xc000_0005 });
        assert_eq!((crash.thread.map(|one| one.0), crash.address), (Some(2), Some(Avma(0xdead))));
        assert!(crash.description.contains("ACCESS_VIOLATION"), "{}", crash.description);
        let modules = image.modules();
        assert_eq!(
            (modules[0].start, modules[0].end, modules[0].is_elf),
            (0x1_4000_0000, 0x1_4000_8000, false)
        );
        assert_eq!(modules[1].path, br"C:\Windows\System32\ntdll.dll");
        let facts = image.process();
        assert_eq!((facts.pid.0, facts.name.as_slice()), (4711, &b"Octopus.Server.exe"[..]));
        assert_eq!(image.read_up_to(0x20_0000, 9000).unwrap(), [2; 5000]);
        assert!(matches!(
            image.read(0x20_0000 + 5000, &mut [0]),
            Err(ReadError::Missing { why: Absence::Unmapped, .. })
        ));
    }
}

#[test]
fn a_breakpad_minidump_has_a_signal_build_ids_and_mappings() {
    let mut elf = b"LEpB".to_vec();
    elf.extend([0xab; 20]);
    let bytes = MinidumpBuilder::breakpad()
        .thread(10, 0x40_1000, 0x7ffc_0000)
        .thread(11, 0x40_2000, 0x7ffd_0000)
        .module(0x40_0000, 0x4000, "/opt/server", &elf)
        .exception(11, 11, 1, 0x18)
        .maps(b"00400000-00404000 r-xp 00000000 08:01 77    /opt/server\n7ffd0000-7ffd4000 rw-p 00000000 00:00 0  [stack]\n")
        .memory(0x7ffd_0000, &[5; 4096])
        .memory(0x9000, &[6; 16])
        .build();
    let opened = opened(bytes);
    let image = &*opened.image;
    assert_eq!(opened.crash().map(|crash| crash.kind), Some(CrashKind::Signal { number: 11, code: Some(1) }));
    let signal = image.threads()[0].signal.as_ref().expect("SIGSEGV");
    assert_eq!((image.threads()[0].tid.0, signal.number, signal.address), (11, 11, Some(Avma(0x18))));
    let module = &image.modules()[0];
    assert_eq!((module.is_elf, module.build_id.as_deref()), (true, Some(&[0xab; 20][..])));
    assert_eq!(module.bias, 0, "a program at 4 MiB was linked there");
    assert_eq!(image.process().writer.as_deref(), Some("breakpad"));
    let mappings = image.mappings();
    assert_eq!(mappings[0].backing, Backing::Unknown, "memory that is in no map");
    assert_eq!(mappings[1].path(), Some(&b"/opt/server"[..]));
    assert!(mappings[2].is_anonymous());
    assert!(matches!(image.read(0x40_0000, &mut [0]), Err(ReadError::Missing { why: Absence::LeftOut, .. })));
    assert_eq!(image.read_up_to(0x7ffd_0ff8, 100).unwrap(), [5; 8]);
}

#[test]
fn a_truncated_minidump_says_what_is_missing() {
    let bytes = windows().build();
    let opened = opened(bytes[..bytes.len() - 1000].to_vec());
    assert_eq!(opened.warnings.iter().map(|one| one.code.as_str()).collect::<Vec<_>>(), ["dump.truncated"]);
    assert_eq!(opened.image.read_up_to(0x20_0000, 9000).unwrap().len(), 4000);
    let missing = opened.image.read(0x20_0000 + 4000, &mut [0]);
    assert!(matches!(missing, Err(ReadError::Missing { why: Absence::Truncated, .. })));
    assert_eq!(opened.image.threads().len(), 2);
}

#[test]
fn names_that_are_too_long_to_be_copied_for_each_module_are_left_out() {
    let long = "x".repeat(40_000);
    let bytes = MinidumpBuilder::breakpad().module(0x1000, 0x1000, &long, &[]).thread(1, 1, 1).build();
    let opened = opened(bytes);
    assert!(opened.image.modules().is_empty());
    assert!(opened.warnings.iter().any(|one| one.code == "dump.limit"), "{:?}", opened.warnings);
    assert_eq!(opened.image.threads().len(), 1);
}

/// A directory that names one list of memory 4,000 times: each is read once at most.
#[test]
fn a_list_that_is_named_many_times_is_no_work_without_end() {
    let mut bytes = MinidumpBuilder::breakpad().thread(1, 1, 1).memory(0x1000, &[1; 64]).build();
    let streams = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
    let entry = (0..streams).map(|at| 32 + at * 12).find(|at| bytes[*at] == 5).expect("a list of memory");
    let entry: [u8; 12] = bytes[entry..entry + 12].try_into().unwrap();
    let directory = bytes.len() as u32;
    bytes[8..12].copy_from_slice(&4000u32.to_le_bytes());
    bytes[12..16].copy_from_slice(&directory.to_le_bytes());
    bytes.extend(entry.repeat(4000));
    let opened = opened(bytes);
    assert_eq!(opened.image.read_up_to(0x1000, 100).unwrap(), [1; 64]);
    assert_eq!(opened.image.mappings().len(), 1);
}
