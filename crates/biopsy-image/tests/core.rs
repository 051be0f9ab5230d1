//! Synthetic cores: what is in them is what is read, and what is not is missing for the right reason.

use biopsy_image::testing::{CoreBuilder, Segment};
use biopsy_image::{
    Absence, Backing, CrashKind, DumpKind, GeneralRegisters, Image, Limits, MemoryExt, OpenProblem, Opened,
    ReadError, open_bytes,
};
use biopsy_model::Avma;

const PAGE: usize = 4096;

fn registers(magic: u64) -> GeneralRegisters {
    GeneralRegisters { r15: magic, rip: 0x40_0123, rsp: 0x7000_0800, ..GeneralRegisters::default() }
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8) ^ seed).collect()
}

/// A core in the kernel's order: the crashed thread (12) is not the main one (11).
fn kernel_like() -> CoreBuilder {
    CoreBuilder::new()
        .thread(12, 11, &registers(0x12))
        .process(11, "server", "server --port 80")
        .signal(11, 1, 0xdead_0000)
        .auxiliary(&[(3, 0x40_0040), (33, 0x7fff_1000), (25, 0x7000_0900)])
        .files(&[
            (0x40_0000, 0x40_2000, 0, b"/opt/server"),
            (0x40_2000, 0x40_3000, 2, b"/opt/server"),
            (0x50_0000, 0x50_4000, 1, b"/memfd:doublemapper (deleted)"),
        ])
        .note("CORE", 2, vec![7; 512])
        .note("LINUX", 0x202, vec![9; 2688])
        .thread(11, 11, &registers(0x11))
        .note("OTHER", 1, vec![1; 33])
        .memory(0x40_0000, 5, pattern(PAGE, 1))
        .segment(Segment { start: 0x40_1000, bytes: Vec::new(), size: 0x1000, flags: 5 })
        .memory(0x40_2000, 6, pattern(PAGE, 2))
        .memory(0x50_0000, 6, pattern(4 * PAGE, 3))
        .segment(Segment { start: 0x60_0000, bytes: pattern(PAGE, 4), size: 0x3000, flags: 6 })
        .segment(Segment { start: 0x60_3000, bytes: Vec::new(), size: 0x1000, flags: 0 })
        .memory(0x7000_0000, 6, pattern(PAGE, 5))
        .memory(0x7fff_1000, 5, pattern(PAGE, 6))
        .memory(0xffff_ffff_ff60_0000, 5, pattern(PAGE, 7))
}

fn opened(core: &CoreBuilder) -> Opened {
    open_bytes("core", core.build(), &Limits::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn absence(image: &dyn Image, address: u64) -> Option<Absence> {
    match image.read(address, &mut [0; 16]) {
        Err(ReadError::Missing { why, address: at }) if at == address => Some(why),
        _ => None,
    }
}

#[test]
fn memory_is_read_across_segments_and_up_to_what_was_left_out() {
    let opened = opened(&kernel_like());
    assert_eq!((opened.kind, opened.warnings.len()), (DumpKind::Core, 0), "{:?}", opened.warnings);
    let image = &*opened.image;
    // From one page into the tail of a segment that was left out: as many bytes as there are.
    assert_eq!(image.read_up_to(0x60_0ff0, 64).unwrap(), pattern(PAGE, 4)[0xff0..]);
    assert_eq!(absence(image, 0x60_1000), Some(Absence::LeftOut));
    assert_eq!(absence(image, 0x60_3000), Some(Absence::Unreadable));
    assert_eq!(absence(image, 0x60_4000), Some(Absence::Unmapped));
    assert_eq!(absence(image, 0), Some(Absence::Unmapped));
    assert_eq!(absence(image, u64::MAX), Some(Absence::Unmapped));
    // Two segments that touch.
    let two = CoreBuilder::new().memory(0x1000, 6, pattern(PAGE, 1)).memory(0x2000, 4, pattern(PAGE, 2));
    let read = self::opened(&two).image.read_up_to(0x1fff, 2).unwrap();
    assert_eq!(read, [pattern(PAGE, 1)[PAGE - 1], pattern(PAGE, 2)[0]]);
}

#[test]
fn threads_come_with_registers_and_the_crashed_one_first() {
    let opened = opened(&kernel_like());
    let threads = opened.image.threads();
    assert_eq!(threads.iter().map(|thread| thread.tid.0).collect::<Vec<_>>(), [12, 11]);
    assert_eq!(threads[0].registers, Some(registers(0x12)));
    assert_eq!(threads[0].extended, vec![9; 2688], "XSAVE counts, not the FXSAVE area in front of it");
    assert_eq!(threads[1].registers, Some(registers(0x11)));
    let signal = threads[0].signal.as_ref().expect("it died of a signal");
    assert_eq!((signal.number, signal.code, signal.address), (11, Some(1), Some(Avma(0xdead_0000))));
    assert_eq!(threads[1].signal, None, "the kernel writes the signal into all threads");
    let crash = opened.crash().expect("the process died");
    assert_eq!(crash.kind, CrashKind::Signal { number: 11, code: Some(1) });
    assert_eq!((crash.description.as_str(), crash.address), ("SIGSEGV", Some(Avma(0xdead_0000))));
}

#[test]
fn without_a_signal_the_main_thread_is_first() {
    let core = CoreBuilder::new()
        .process(21, "a", "")
        .thread(22, 0, &registers(2))
        .signal(19, 0, 0) // gdb stopped it with SIGSTOP
        .thread(21, 0, &registers(1))
        .memory(0x1000, 4, pattern(PAGE, 0));
    let opened = opened(&core);
    assert_eq!(opened.image.threads().iter().map(|one| one.tid.0).collect::<Vec<_>>(), [21, 22]);
    assert_eq!(opened.crash(), None);
}

#[test]
fn mappings_are_segments_joined_with_files() {
    let opened = opened(&kernel_like());
    let image = &*opened.image;
    let at = |address| biopsy_image::mapping::find(image.mappings(), address).expect("something is mapped");
    assert_eq!(at(0x40_1000).path(), Some(&b"/opt/server"[..]));
    let Backing::File { offset, deleted, .. } = &at(0x40_2000).backing else { panic!("not a file") };
    assert_eq!((*offset, *deleted), (0x2000, false));
    let memfd = at(0x50_0000);
    assert_eq!(
        memfd.backing,
        Backing::File {
            path: b"/memfd:doublemapper".to_vec(),
            offset: 0x1000,
            deleted: true,
            identity: (0, 0)
        }
    );
    assert!(memfd.shared);
    assert_eq!(at(0x60_0000).backing, Backing::Anonymous { label: String::new() });
    assert_eq!(at(0x7000_0000).backing, Backing::Anonymous { label: "[stack]".into() });
    assert_eq!(at(0x7fff_1000).backing, Backing::Kernel { label: "[vdso]".into() });
    assert_eq!(at(0xffff_ffff_ff60_0000).backing, Backing::Kernel { label: "[vsyscall]".into() });
    let facts = image.process();
    assert_eq!((facts.pid.0, facts.name.as_slice()), (11, &b"server"[..]));
    assert_eq!(facts.command_line, [&b"server"[..], b"--port", b"80"]);
    assert_eq!(facts.executable.as_deref(), Some(&b"/opt/server"[..]));
    assert_eq!(facts.writer.as_deref(), Some("linux"));
}

#[test]
fn files_without_segments_are_mappings_whose_bytes_were_left_out() {
    let core = CoreBuilder::new()
        .process(1, "a", "a")
        .auxiliary(&[])
        .files(&[(0x1000, 0x5000, 0, b"/lib/a.so"), (0x8000, 0x9000, 0, b"/lib/b.so")])
        .memory(0x2000, 6, pattern(PAGE, 1));
    let opened = opened(&core);
    let image = &*opened.image;
    let found: Vec<_> =
        image.mappings().iter().map(|one| (one.start, one.end, one.protection.write)).collect();
    assert_eq!(
        found,
        [(0x1000, 0x2000, false), (0x2000, 0x3000, true), (0x3000, 0x5000, false), (0x8000, 0x9000, false)]
    );
    assert_eq!(absence(image, 0x1000), Some(Absence::LeftOut));
    assert_eq!(absence(image, 0x8fff), Some(Absence::LeftOut));
    let Backing::File { offset, .. } = image.mappings()[2].backing else { panic!("not a file") };
    assert_eq!(offset, 0x2000);
    // One module of three mappings, and another.
    let modules: Vec<_> = image.modules().iter().map(|one| (one.start, one.end)).collect();
    assert_eq!(modules, [(0x1000, 0x5000), (0x8000, 0x9000)]);
    assert_eq!(image.process().writer.as_deref(), Some("createdump"));
}

/// The first page of an ELF file with these program headers: type, offset, address, size.
fn elf_page(headers: &[(u32, u64, u64, u64)]) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    page[..6].copy_from_slice(b"\x7fELF\x02\x01");
    page[32..40].copy_from_slice(&64u64.to_le_bytes()); // e_phoff
    page[54..58].copy_from_slice(&[56, 0, headers.len() as u8, 0]); // e_phentsize, e_phnum
    for (index, &(kind, offset, address, size)) in headers.iter().enumerate() {
        let at = 64 + 56 * index;
        page[at..at + 4].copy_from_slice(&kind.to_le_bytes());
        for (field, value) in [(8, offset), (16, address), (32, size), (40, size)] {
            page[at + field..at + field + 8].copy_from_slice(&value.to_le_bytes());
        }
    }
    page
}

/// The program of a single-file .NET application maps its parts flat a second time, gigabytes away; with them as one module
/// any stray address in between was "in a module".
#[test]
fn a_module_ends_where_its_segments_end_and_not_where_its_file_is_mapped_again() {
    const PROGRAM: u64 = 0x5500_0000_0000;
    const FLAT: u64 = 0x7f00_0000_0000;
    // The second segment lies further from the first than any gap that is guessed at.
    let segments = [(1, 0, 0, 0x1000), (1, 0x1000, 0x4000_0000, 0x1000)];
    let core = CoreBuilder::new()
        .process(1, "a", "a")
        .auxiliary(&[])
        .files(&[
            (PROGRAM, PROGRAM + 0x1000, 0, b"/opt/program"),
            (PROGRAM + 0x4000_0000, PROGRAM + 0x4000_1000, 1, b"/opt/program"),
            (PROGRAM + 0x4000_1000, PROGRAM + 0x4000_2000, 2, b"/opt/program"),
            (FLAT, FLAT + 0x1000, 5, b"/opt/program"),
            (FLAT + 0x2000, FLAT + 0x3000, 0, b"/opt/managed.dll"),
            (FLAT + 0x10_0000, FLAT + 0x10_1000, 1, b"/opt/managed.dll"),
            (FLAT + 0x8000_0000, FLAT + 0x8000_1000, 9, b"/opt/managed.dll"),
        ])
        .memory(PROGRAM, 4, elf_page(&segments))
        .memory(FLAT + 0x2000, 4, pattern(PAGE, 1));
    let opened = opened(&core);
    let modules: Vec<_> = opened.image.modules().iter().map(|one| (one.start, one.end)).collect();
    assert_eq!(
        modules,
        [
            (PROGRAM, PROGRAM + 0x4000_1000),
            (PROGRAM + 0x4000_1000, PROGRAM + 0x4000_2000),
            (FLAT, FLAT + 0x1000),
            (FLAT + 0x2000, FLAT + 0x10_1000),
            (FLAT + 0x8000_0000, FLAT + 0x8000_1000),
        ]
    );
}

#[test]
fn a_module_says_its_build_id_and_bias_in_memory() {
    // The file was linked at 1 MiB.
    let mut page = elf_page(&[(1, 0, 0x10_0000, 0x1000), (4, 0x200, 0x10_0200, 36)]);
    page[0x200..0x224].copy_from_slice(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0abcdefghijklmnopqrst");
    let core = CoreBuilder::new()
        .process(1, "a", "a")
        .files(&[(0x7f00_0000_0000, 0x7f00_0000_1000, 0, b"/lib/odd\nname\xff.so")])
        .memory(0x7f00_0000_0000, 5, page);
    let opened = opened(&core);
    let [module] = opened.image.modules() else { panic!("one module") };
    assert!(module.is_elf);
    assert_eq!(module.bias, 0x7f00_0000_0000 - 0x10_0000);
    assert_eq!(module.build_id.as_deref(), Some(&b"abcdefghijklmnopqrst"[..]));
    assert_eq!(module.path, b"/lib/odd\nname\xff.so");
}

#[test]
fn more_program_headers_than_16_bits_can_count() {
    let mut core =
        CoreBuilder::new().page(16).process(1, "a", "a").thread(1, 0, &registers(1)).extended_count();
    let count = 70_000u64;
    for index in 0..count {
        core = core.memory(0x1000 + index * 0x2000, 4, (index as u32).to_le_bytes());
    }
    let opened = opened(&core);
    assert_eq!(opened.image.mappings().len() as u64, count);
    assert_eq!(opened.image.read_u32(0x1000 + 69_999 * 0x2000).unwrap(), 69_999);
}

#[test]
fn a_million_mappings_and_files_take_no_quadratic_time() {
    let count = 1_000_000u64;
    let mut core = CoreBuilder::new().page(1).process(1, "a", "a").extended_count();
    let files: Vec<(u64, u64, u64, &[u8])> =
        (0..count).map(|at| (at * 0x4000 + 0x1000, at * 0x4000 + 0x3000, 0, &b"/f"[..])).collect();
    core = core.files(&files);
    for index in 0..count {
        core =
            core.segment(Segment { start: 0x2000 + index * 0x4000, bytes: vec![1], size: 0x1000, flags: 4 });
    }
    let opened = opened(&core);
    assert_eq!(opened.image.mappings().len() as u64, 2 * count);
    assert_eq!(opened.image.read_up_to(0x2000 + 999_999 * 0x4000, 9).unwrap(), [1]);
    assert_eq!(opened.image.modules().len() as u64, count, "a module begins where the file begins");
}

#[test]
fn overlapping_and_lying_headers_are_cut_and_told() {
    let core = CoreBuilder::new()
        .memory(0x1000, 6, pattern(2 * PAGE, 1))
        .memory(0x2000, 6, pattern(2 * PAGE, 2))
        .memory(0x2000, 6, pattern(PAGE, 3))
        .segment(Segment { start: u64::MAX - 10, bytes: vec![1], size: 4096, flags: 6 })
        .segment(Segment { start: 0x9000, bytes: pattern(2 * PAGE, 4), size: 0x1000, flags: 6 });
    let opened = opened(&core);
    assert!(
        opened.warnings.iter().any(|warning| warning.code == "dump.odd-headers"),
        "{:?}",
        opened.warnings
    );
    let image = &*opened.image;
    assert_eq!(
        image.read_up_to(0x2fff, 2).unwrap(),
        [pattern(2 * PAGE, 1)[0x1fff], pattern(2 * PAGE, 2)[0x1000]]
    );
    assert_eq!(image.read_up_to(0x9fff, 2).unwrap().len(), 1, "p_filesz is larger than p_memsz");
    assert_eq!(absence(image, u64::MAX - 10), Some(Absence::Unmapped));
}

#[test]
fn a_truncated_core_opens_and_says_what_is_missing() {
    let core = kernel_like();
    let whole = core.build();
    let cut = whole.len() - PAGE - 100;
    let opened = open_bytes("core", &whole[..cut], &Limits::default()).unwrap();
    assert_eq!(opened.warnings.len(), 1);
    assert_eq!(opened.warnings[0].code, "dump.truncated");
    assert!(opened.warnings[0].message.contains(&format!("{} bytes", PAGE + 100)), "{:?}", opened.warnings);
    let image = &*opened.image;
    assert_eq!(image.read_up_to(0x7fff_1000, PAGE).unwrap(), pattern(PAGE, 6)[..PAGE - 100]);
    assert_eq!(absence(image, 0x7fff_1000 + 4000), Some(Absence::Truncated));
    assert_eq!(absence(image, 0xffff_ffff_ff60_0000), Some(Absence::Truncated));
    assert_eq!(image.threads().len(), 2);
}

#[test]
fn notes_with_absurd_sizes_are_told_and_the_rest_is_read() {
    let mut core = kernel_like().build();
    let at = core
        .windows(4)
        .position(|four| four == b"SIGI".map(|byte| byte).as_slice() || four == [0x49, 0x47, 0x49, 0x53]);
    // `n_descsz` of NT_SIGINFO, four bytes before its type.
    let at = at.expect("the core has NT_SIGINFO") - 4;
    core[at..at + 4].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
    let opened = open_bytes("core", core, &Limits::default()).unwrap();
    assert_eq!(opened.image.threads().len(), 1, "the note behind it cannot be found");
    assert!(
        opened.warnings.iter().any(|one| one.message.contains("claims 4294967280 bytes")),
        "{:?}",
        opened.warnings
    );
    assert_eq!(opened.image.read_up_to(0x50_0000, 16).unwrap(), pattern(16, 3));
}

#[test]
fn what_is_no_core_of_this_kind_is_said_plainly() {
    let message = |bytes: Vec<u8>| open_bytes("x", bytes, &Limits::default()).unwrap_err().to_string();
    let with = |class, data, e_type, machine| CoreBuilder::new().header(class, data, e_type, machine).build();
    assert_eq!(
        message(with(1, 1, 4, 3)),
        "cannot open `x` as a dump: it is of a 32-bit process, which is not supported"
    );
    assert!(message(with(2, 2, 4, 22)).contains("big-endian"));
    assert!(message(with(2, 1, 4, 243)).contains("RISC-V"));
    assert!(message(with(2, 1, 4, 0x4242)).contains("16962"));
    assert!(message(b"\x7fELF\x02".to_vec()).ends_with(
        "it is damaged: the file ends in the file header at 0x0: 64 bytes are needed, 5 are there"
    ));
    assert!(message(b"hello, this is text".to_vec()).contains("neither a core nor a minidump"));
    assert!(message(Vec::new()).contains("empty"));
    let library = open_bytes("x", with(2, 1, 3, 62), &Limits::default()).unwrap_err();
    assert!(matches!(library.problem, OpenProblem::NotACore { e_type: 3 }));
    assert!(library.hint().is_some());
    let many = CoreBuilder::new().memory(0, 4, vec![1]).memory(8, 4, vec![1]).build();
    let mut limits = Limits::small();
    limits.program_headers = 2;
    assert!(
        open_bytes("x", many, &limits).unwrap_err().to_string().contains("3 program headers, the limit is 2")
    );
}

#[test]
fn a_core_of_aarch64_has_threads_without_registers() {
    let core = CoreBuilder::new()
        .header(2, 1, 4, 183)
        .thread(7, 6, &registers(7))
        .process(7, "a", "a")
        .memory(0x1000, 4, pattern(PAGE, 1));
    let opened = opened(&core);
    let [thread] = opened.image.threads() else { panic!("one thread") };
    assert_eq!((thread.tid.0, thread.registers), (7, None));
    assert!(opened.warnings.iter().any(|warning| warning.code == "dump.no-registers"));
    assert_eq!(opened.image.read_up_to(0x1000, 4).unwrap(), pattern(4, 1));
}

#[test]
fn written_is_what_is_in_the_file_and_what_may_have_been() {
    let opened = opened(&kernel_like());
    let mut runs = Vec::new();
    opened.image.written(0x40_0000..0x70_0000, &mut runs).unwrap();
    assert_eq!(
        runs,
        [
            0x40_0000..0x40_1000, // the rest of this segment was left out, but it is in the file that was mapped
            0x40_2000..0x40_3000,
            0x50_0000..0x50_4000,
            0x60_0000..0x60_1000,
            0x60_1000..0x60_3000, // left out, and nobody knows whether it was zeros; what is behind cannot be read
        ]
    );
}

#[test]
fn shared_memory_that_was_left_out_is_not_said_to_be_on_disk() {
    let core = CoreBuilder::new()
        .process(1, "a", "a")
        .files(&[(0x1000, 0x2000, 0, b"/lib/a.so"), (0x8000, 0x9000, 0, b"/dev/zero (deleted)")])
        .memory(0x2000, 6, pattern(PAGE, 1));
    let opened = opened(&core);
    let mut runs = Vec::new();
    opened.image.written(0..0x10000, &mut runs).unwrap();
    assert_eq!(runs, [0x2000..0x3000, 0x8000..0x9000]);
    assert_eq!(absence(&*opened.image, 0x8000), Some(Absence::LeftOut));
}
