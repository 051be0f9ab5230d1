//! Tests over texts, and over our own memory.

use std::fs::File;
use std::io::Write;
use std::ops::Range;

use biopsy_image::{Absence, Backing, Mapping, ReadError, mapping};
use biopsy_model::Pid;
use proptest::prelude::*;

use super::mappings::{parse, parse_line};
use super::{ProcessMemory, read_mappings};

fn myself() -> (ProcessMemory, Vec<Mapping>) {
    let pid = Pid(std::process::id());
    (ProcessMemory::open(pid).unwrap(), read_mappings(pid).unwrap())
}

fn address<T>(of: &[T]) -> u64 {
    of.as_ptr().addr() as u64
}

fn bytes(runs: &[Range<u64>]) -> u64 {
    runs.iter().map(|run| run.end - run.start).sum()
}

#[track_caller]
fn backing(line: &[u8]) -> Backing {
    parse_line(line).unwrap().backing
}

#[test]
fn a_line() {
    let mapping =
        parse_line(b"7f0a1000-7f0a3000 r-xs 00001000 08:11 1234    /usr/lib/a b (deleted)").unwrap();
    assert_eq!((mapping.start, mapping.end), (0x7f0a_1000, 0x7f0a_3000));
    assert!(mapping.protection.read && !mapping.protection.write && mapping.protection.execute);
    assert!(mapping.shared);
    let expected = Backing::File {
        path: b"/usr/lib/a b".to_vec(),
        offset: 0x1000,
        deleted: true,
        identity: (rustix::fs::makedev(8, 0x11), 1234),
    };
    assert_eq!(mapping.backing, expected);
}

#[test]
fn names() {
    let anonymous = |label: &str| Backing::Anonymous { label: label.to_owned() };
    let kernel = |label: &str| Backing::Kernel { label: label.to_owned() };
    assert_eq!(backing(b"1000-2000 rw-p 00000000 00:00 0 "), anonymous(""));
    assert_eq!(backing(b"1000-2000 rw-p 00000000 00:00 0"), anonymous(""));
    assert_eq!(backing(b"1000-2000 rw-p 00000000 00:00 0      [heap]"), anonymous("[heap]"));
    assert_eq!(backing(b"1000-2000 rw-p 00000000 00:00 0   [anon:a b]"), anonymous("[anon:a b]"));
    assert_eq!(backing(b"1000-2000 r-xp 00000000 00:00 0      [vdso]"), kernel("[vdso]"));
    let huge = b"1000-2000 rw-p 00000000 00:10 77   /anon_hugepage (deleted)";
    assert_eq!(backing(huge), anonymous("[anon_hugepage]"));
    let path = |line: &[u8]| match backing(line) {
        Backing::File { path, deleted, .. } => (path, deleted),
        other => panic!("{other:?}"),
    };
    let (name, deleted) = path(b"1000-2000 rw-s 00000000 00:01 9   /memfd:doublemapper (deleted)");
    assert_eq!((name.as_slice(), deleted), (b"/memfd:doublemapper".as_slice(), true));
    let (name, _) = path(b"1000-2000 r--p 00000000 08:01 9   /a\\012b\\011 \xff");
    assert_eq!(name, b"/a\nb\\011 \xff");
    // A name that an area of shared memory was given is no label of private memory.
    let (name, _) = path(b"1000-2000 rw-s 00000000 00:01 9   [anon_shmem:x]");
    assert_eq!(name, b"[anon_shmem:x]");
}

#[test]
fn lines_that_are_none() {
    for line in
        [&b""[..], b"x", b"2000-1000 rw-p 0 00:00 0", b"1000-2000 rw 0 00:00 0", b"1000-2000 rw-p 0 00 0"]
    {
        assert!(parse_line(line).is_none(), "{line:?}");
    }
    let error = parse(&b"1000-2000 rw-p 00000000 00:00 0\nnonsense\x1b\n"[..]).unwrap_err();
    assert_eq!(error.to_string(), "not a line of `maps`: `nonsense\\u{1b}\\n`");
}

#[test]
fn a_list_that_changed_while_it_was_read() {
    let text = b"1000-3000 rw-p 00000000 00:00 0\n2000-3000 rw-p 00000000 00:00 0\n\
        2000-5000 r--p 00001000 08:01 7    /x\n";
    let mappings = parse(&text[..]).unwrap();
    let ranges: Vec<_> = mappings.iter().map(Mapping::range).collect();
    assert_eq!(ranges, [0x1000..0x3000, 0x3000..0x5000]);
    assert!(matches!(mappings[1].backing, Backing::File { offset: 0x2000, .. }));
}

proptest! {
    #[test]
    fn any_text_gives_mappings_in_order_or_an_error(text in proptest::collection::vec(
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..80),
            "[0-9a-f]{1,6}-[0-9a-f]{1,6} [r-][w-][x-][ps] [0-9a-f]{8} 0[08]:01 [0-9]{1,3} [ -~]{0,20}\n"
                .prop_map(String::into_bytes),
        ],
        0..20,
    )) {
        if let Ok(mappings) = parse(&text.concat()[..]) {
            prop_assert!(mappings.iter().all(|one| one.start < one.end));
            prop_assert!(mappings.windows(2).all(|two| two[0].end <= two[1].start));
        }
    }
}

#[test]
fn own_mappings_are_read_whole() {
    let (_, mappings) = myself();
    let text = [7u8; 16];
    assert!(mapping::find(&mappings, address(&text)).unwrap().protection.write);
    assert!(
        mappings.iter().any(|one| matches!(&one.backing, Backing::Kernel { label } if label == "[vdso]"))
    );
    let exe = std::fs::read_link("/proc/self/exe").unwrap();
    assert!(mappings.iter().any(|one| one.path() == Some(exe.as_os_str().as_encoded_bytes())));
}

#[test]
fn memory_is_read_and_what_is_not_there_is_missing() {
    let (memory, _) = myself();
    let text = *b"the patient";
    let mut buffer = [0; 11];
    assert_eq!(memory.read(address(&text), &mut buffer).unwrap(), 11);
    assert_eq!(buffer, text);
    assert_eq!(memory.read(0, &mut []).unwrap(), 0);
    let error = memory.read(0x1000, &mut buffer).unwrap_err();
    assert!(matches!(error, ReadError::Missing { address: 0x1000, why: Absence::Unmapped }), "{error:?}");
}

#[test]
fn only_pages_that_were_written_count_and_counting_makes_none() {
    const SIZE: usize = 16 << 20;
    // Large enough to be a mapping of its own, never touched.
    let mut large: Vec<u8> = Vec::with_capacity(SIZE);
    let start = address(large.spare_capacity_mut()).next_multiple_of(4096);
    let range = start..start + (8 << 20);
    let (memory, mappings) = myself();
    let mapping = mapping::find(&mappings, start).unwrap();

    let mut runs = Vec::new();
    memory.written(mapping, range.clone(), &mut runs).unwrap();
    assert_eq!(bytes(&runs), 0, "nothing was written");

    for page in [0, 1, 2, 700] {
        let at = usize::try_from(start - address(large.spare_capacity_mut())).unwrap() + page * 4096;
        large.spare_capacity_mut()[at].write(1);
    }
    memory.written(mapping, range.clone(), &mut runs).unwrap();
    // Where huge pages are made for every mapping, more than was written exists.
    let has = |address: u64| runs.iter().any(|run| run.contains(&address));
    assert!(has(start) && has(start + 2 * 4096) && has(start + 700 * 4096));
    assert!(runs.iter().all(|run| run.start >= range.start && run.end <= range.end));
    let before = bytes(&runs);
    runs.clear();
    memory.written(mapping, range, &mut runs).unwrap();
    assert_eq!(bytes(&runs), before);
}

#[test]
fn the_table_of_pages_says_the_same_as_the_scan() {
    let (memory, mappings) = myself();
    let (plain, _) = myself();
    plain.no_scan.store(true, std::sync::atomic::Ordering::Relaxed);
    let data = vec![3u8; 3 << 20];
    let at = address(&data).next_multiple_of(4096);
    let (mut by_scan, mut by_table) = (Vec::new(), Vec::new());
    let mapping = mapping::find(&mappings, at).cloned().unwrap_or(Mapping {
        start: at,
        end: at + (2 << 20),
        ..mappings[0].clone()
    });
    let mapping = Mapping { backing: Backing::Anonymous { label: String::new() }, shared: false, ..mapping };
    memory.written(&mapping, at..at + (2 << 20), &mut by_scan).unwrap();
    plain.written(&mapping, at..at + (2 << 20), &mut by_table).unwrap();
    assert_eq!(by_scan, by_table);
    drop(data);
}

#[test]
fn own_copies_of_file_pages_count_and_the_others_do_not() {
    let (memory, mappings) = myself();
    let file_text = mappings
        .iter()
        .find(|one| one.protection.execute && one.path().is_some() && !one.shared)
        .expect("a program has code");
    let mut runs = Vec::new();
    memory.written(file_text, file_text.range(), &mut runs).unwrap();
    assert_eq!(bytes(&runs), 0, "nobody writes to code");
    let data = mappings.iter().find(|one| one.protection.write && one.path().is_some() && !one.shared);
    let data = data.expect("a program has data");
    memory.written(data, data.range(), &mut runs).unwrap();
    assert!(bytes(&runs) > 0, "relocations were written");
}

#[test]
fn counts_grow_with_memory() {
    const SIZE: usize = 8 << 20;
    let data = vec![5u8; SIZE];
    let (memory, mappings) = myself();
    let counts = memory.present_counts(&mappings).unwrap();
    assert!(counts.own_bytes() >= SIZE as u64, "{counts:?}");
    assert_eq!(counts.mappings, mappings.len() as u64);
    drop(data);
}

#[test]
fn after_the_end_it_is_gone() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = Pid(child.id());
    // Between fork and exec the memory is that of the test: wait for the program's own.
    let program = |one: &Mapping| one.path().is_some_and(|path| path.ends_with(b"/sleep"));
    let mut mappings = read_mappings(pid).unwrap();
    while !mappings.iter().any(program) {
        mappings = read_mappings(pid).unwrap();
    }
    let memory = ProcessMemory::open(pid).unwrap();
    let stack = mappings
        .iter()
        .find(|one| matches!(&one.backing, Backing::Anonymous { label } if label == "[stack]"));
    let stack = stack.unwrap().clone();
    let mut runs = Vec::new();
    memory.written(&stack, stack.range(), &mut runs).unwrap();
    assert!(!runs.is_empty());
    let at = runs[0].start;
    assert_eq!(memory.read(at, &mut [0; 8]).unwrap(), 8);
    child.kill().unwrap();
    child.wait().unwrap();
    let gone = |error: &ReadError| matches!(error, ReadError::Missing { why: Absence::Gone, .. });
    assert!(gone(&memory.read(at, &mut [0; 8]).unwrap_err()));
    assert!(gone(&memory.written(&stack, stack.range(), &mut runs).unwrap_err()));
    assert!(ProcessMemory::open(pid).is_err());
}

#[test]
fn a_mapped_file_that_was_made_private_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = File::create(folder.path().join("x")).unwrap();
    file.write_all(&[1; 4096]).unwrap();
    let inode = std::os::unix::fs::MetadataExt::ino(&file.metadata().unwrap());
    let line = format!("1000-2000 rw-p 00000000 08:01 {inode}   /x");
    assert!(
        matches!(parse_line(line.as_bytes()).unwrap().backing, Backing::File { identity: (_, i), .. } if i == inode)
    );
}
