//! Contents of notes, each by itself: whole, cut at each byte, and with counts that lie.

use biopsy_elf::raw::{NT_PRSTATUS, NT_SIGINFO};
use proptest::prelude::*;

use super::*;
use crate::storage::BytesStorage;
use crate::testing::CoreBuilder;

/// Bytes of a structure: words of so many bytes each.
fn bytes(words: &[(u64, usize)]) -> Vec<u8> {
    words.iter().flat_map(|(word, size)| word.to_le_bytes().into_iter().take(*size)).collect()
}

/// `struct elf_prstatus` of a thread, registers included.
fn thread(tid: u64, signal: u64) -> Vec<u8> {
    let mut contents = bytes(&[(0, 8), (0, 4), (signal, 2), (0, 2), (0, 8), (0xff00, 8)]);
    contents.extend(bytes(&[(tid, 4), (2, 4), (3, 4), (4, 4)]));
    contents.resize(112, 0);
    contents.extend((1..=27_u64).flat_map(u64::to_le_bytes));
    contents
}

#[test]
fn a_thread_is_what_its_note_says_and_registers_are_all_or_none() {
    let whole = thread(4711, 11);
    let found = prstatus(&whole, Machine::X86_64).expect("a thread");
    assert_eq!((found.tid, found.signal_of_dump, found.blocked), (4711, 11, 0xff00));
    assert_eq!((found.parent, found.group, found.session), (2, 3, 4));
    let registers = found.registers.expect("x86-64");
    assert_eq!((registers.r15, registers.gs), (1, 27));
    for cut in 0..whole.len() {
        let found = prstatus(&whole[..cut], Machine::X86_64);
        assert_eq!(found.is_some(), cut >= 112, "{cut}");
        assert!(found.is_none_or(|found| found.registers.is_none()), "{cut}");
    }
    assert!(prstatus(&whole, Machine::Aarch64).is_some_and(|found| found.registers.is_none()));
}

#[test]
fn a_process_has_ids_a_name_and_arguments_up_to_the_first_zero() {
    let mut whole = bytes(&[(0, 8), (0, 8), (1000, 4), (100, 4), (7, 4), (1, 4), (5, 4), (6, 4)]);
    whole.extend(b"server\0behind\0\0\0");
    whole.extend([b'x'; 80]);
    let found = prpsinfo(&whole).expect("a process");
    assert_eq!((found.user, found.group_id, found.pid, found.parent), (1000, 100, 7, 1));
    assert_eq!((found.group, found.session), (5, 6));
    assert_eq!((found.name.as_slice(), found.arguments.len()), (&b"server"[..], 80));
    assert!((0..whole.len()).all(|cut| prpsinfo(&whole[..cut]).is_none()));
}

#[test]
fn a_signal_has_an_address_where_it_is_a_fault_of_the_kernel() {
    for (number, code, address) in [
        (11, 1, Some(0xdead)),
        (7, 2, Some(0xdead)),
        (4, 1, Some(0xdead)),
        (8, 1, Some(0xdead)),
        (5, 1, Some(0xdead)),
        // Sent by somebody, by the kernel without a fault, and of other kinds.
        (11, 0, None),
        (11, 0x80, None),
        (11, 0xffff_fffa, None),
        (6, 1, None),
        (9, 0, None),
    ] {
        let contents = bytes(&[(number, 4), (0, 4), (code, 4), (0, 4), (0xdead, 8)]);
        let found = siginfo(contents.clone()).expect("a signal");
        assert_eq!((found.number, found.address), (number as i32, address.map(Avma)), "{number} {code:#x}");
        assert_eq!((found.code, found.info), (Some((code as u32).cast_signed()), Some(contents)));
    }
    assert_eq!(siginfo(bytes(&[(0, 4), (0, 4), (0, 4), (0, 4), (0, 8)])), None, "no signal");
    let short = siginfo(bytes(&[(11, 4), (0, 4), (1, 4), (0, 4)])).expect("without an address");
    assert_eq!((short.number, short.address), (11, None));
    assert!((0..16).all(|cut| siginfo(vec![11; cut]).is_none()));
}

#[test]
fn an_auxiliary_vector_ends_with_its_zero_or_its_bytes() {
    let entries = |words: &[u64]| auxv(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
    assert_eq!(entries(&[3, 0x40, 33, 0x7fff, 0, 0, 9, 9]), [(3, 0x40), (33, 0x7fff)]);
    assert_eq!(entries(&[3, 0x40, 33]), [(3, 0x40)]);
    assert_eq!(entries(&[]), []);
    assert_eq!(entries(&vec![7; 4000]).len(), MOST_AUXILIARY);
}

/// NT_FILE of these files: start, end, offset in pages.
fn file_note(count: u64, entries: &[[u64; 3]], names: &[u8]) -> Vec<u8> {
    let mut contents: Vec<u8> = [count, 4096].iter().flat_map(|word| word.to_le_bytes()).collect();
    contents.extend(entries.as_flattened().iter().flat_map(|word| word.to_le_bytes()));
    contents.extend(names);
    contents
}

#[test]
fn files_have_names_as_far_as_there_are_some_and_lies_are_left_out() {
    let seen = |contents: &[u8]| -> Vec<(u64, u64, u64, Vec<u8>)> {
        files(contents).into_iter().map(|file| (file.start, file.end, file.offset, file.path)).collect()
    };
    let two = [[0x1000, 0x2000, 0], [0x3000, 0x5000, 2]];
    let one = (0x1000, 0x2000, 0, b"/a".to_vec());
    let other = |path: &[u8]| (0x3000, 0x5000, 8192, path.to_vec());
    assert_eq!(seen(&file_note(2, &two, b"/a\0/b c\0")), [one.clone(), other(b"/b c")]);
    assert_eq!(seen(&file_note(2, &two, b"/a\0")), [one.clone(), other(b"")]);
    assert_eq!(seen(&file_note(2, &two, b"/a")), [one.clone(), other(b"")]);
    // The end before the start: its name is its own all the same.
    let backwards = [[0x2000, 0x1000, 0], [0x3000, 0x5000, 2]];
    assert_eq!(seen(&file_note(2, &backwards, b"/a\0/b\0")), [other(b"/b")]);
    let far = [[0x1000, 0x2000, u64::MAX]];
    assert_eq!(seen(&file_note(1, &far, b"/a\0"))[0].2, u64::MAX, "no place in any file");
    // Counts beyond what there is: the names are taken for entries then, and nothing beyond the end is.
    for count in [3, 1 << 40, u64::MAX] {
        assert!(seen(&file_note(count, &two, b"/a\0/b c\0")).len() <= 2, "{count}");
    }
    assert!(seen(&file_note(0, &two, b"/a\0")).is_empty() && seen(&[1; 15]).is_empty());
}

/// Where the notes of a core without memory begin, and how many bytes they have.
fn place(core: &CoreBuilder) -> (u64, u64) {
    let begin = 64 + 56;
    (begin, core.head_size() as u64 - 64 - begin)
}

/// Reads the notes of these bytes of a core, and what is said of them.
fn read_notes(core: &CoreBuilder, length: usize, limits: &Limits) -> (Notes, String) {
    let bytes = core.build();
    let storage = BytesStorage(bytes.get(..length).unwrap_or(&bytes).into());
    let mut warnings = Vec::new();
    let notes = read(&storage, &[place(core)], Machine::X86_64, limits, &mut warnings);
    (notes, warnings.into_iter().map(|warning| warning.message).collect())
}

/// Two threads, the second with a signal and extended registers.
fn core() -> CoreBuilder {
    CoreBuilder::new()
        .note("CORE", NT_PRSTATUS.0, thread(11, 0))
        .note("CORE", NT_PRSTATUS.0, thread(12, 11))
        .note("CORE", NT_SIGINFO.0, bytes(&[(11, 4), (0, 4), (1, 4), (0, 4), (0xdead, 8)]))
        .note("CORE", NT_FPREGSET.0, vec![7; 512])
        .note("LINUX", NT_X86_XSTATE.0, vec![9; 1000])
        .note("GDB", 1, vec![1; 8])
        .auxiliary(&[(3, 0x40)])
}

#[test]
fn notes_of_a_thread_follow_it() {
    let (notes, warnings) = read_notes(&core(), usize::MAX, &Limits::default());
    assert_eq!(warnings, "");
    let [first, second] = notes.threads.as_slice() else { panic!("{:?}", notes.threads) };
    assert!(first.signal.is_none() && first.floating.is_empty() && first.extended.is_empty());
    assert_eq!(second.signal.as_ref().and_then(|signal| signal.address), Some(Avma(0xdead)));
    assert_eq!((second.floating.len(), second.extended.len()), (512, 1000));
    assert!(notes.of_gdb && notes.process.is_none() && notes.files.is_none());
    assert_eq!(notes.auxiliary, [(3, 0x40)]);
    assert_eq!(notes.first_types.len(), 7);
}

#[test]
fn a_file_that_is_cut_in_its_notes_says_so_and_keeps_those_before() {
    let core = core();
    let (begin, size) = place(&core);
    let whole = (begin + size) as usize;
    for length in (begin as usize..whole).step_by(7) {
        let (notes, warnings) = read_notes(&core, length, &Limits::default());
        assert!(warnings.starts_with("not all notes of the core can be read: "), "{length}: {warnings}");
        assert!(notes.threads.len() <= 2, "{length}");
        let threads = (length - begin as usize) / (20 + 328);
        assert_eq!(notes.threads.len(), threads.min(2), "{length}");
    }
    assert_eq!(read_notes(&core, whole, &Limits::default()).1, "");
}

#[test]
fn what_is_above_a_limit_is_said_or_left_out() {
    let with = |limits: Limits| read_notes(&core(), usize::MAX, &limits);
    let said = |limits: Limits| with(limits).1;
    let usual = Limits::default;
    assert!(said(Limits { notes: 6, ..usual() }).ends_with("there are more than the limit"));
    assert_eq!(said(Limits { notes: 7, ..usual() }), "");
    assert!(said(Limits { note_bytes: 999, ..usual() }).contains("claims 1000 bytes, the limit is 999"));
    assert!(said(Limits { note_bytes_of_all: 1000, ..usual() }).ends_with("they are larger than the limit"));
    let (notes, warnings) = with(Limits { threads: 1, ..usual() });
    assert!(warnings.ends_with("there are more threads than the limit"), "{warnings}");
    assert_eq!(notes.threads.len(), 1);
    // Registers beyond the general ones are no loss that anybody has to know of.
    let extended = |limits: Limits| {
        let (notes, warnings) = with(limits);
        assert_eq!(warnings, "");
        (notes.threads[1].floating.len(), notes.threads[1].extended.len())
    };
    assert_eq!(extended(Limits { extended_bytes: 999, ..usual() }), (512, 0));
    assert_eq!(extended(Limits { extended_bytes_of_all: 1511, ..usual() }), (512, 0));
    assert_eq!(extended(Limits { extended_bytes_of_all: 1512, ..usual() }), (512, 1000));
}

proptest! {
    #[test]
    fn any_contents_are_read_or_left_out(contents in prop::collection::vec(any::<u8>(), 0..400)) {
        for machine in [Machine::X86_64, Machine::Aarch64] {
            let _ = prstatus(&contents, machine);
        }
        let _ = (prpsinfo(&contents), siginfo(contents.clone()));
        prop_assert!(auxv(&contents).len() <= contents.len() / 16);
        prop_assert!(files(&contents).len() <= contents.len() / 24);
    }
}
