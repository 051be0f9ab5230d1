//! What is told of the memory of a real process with one area of each kind, and that looking changes nothing.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]

use std::collections::HashMap;
use std::ops::Range;

use biopsy_image::{Absence, Backing, Mapping, ReadError, mapping};
use biopsy_model::Pid;
use biopsy_target::address_space::{ProcessMemory, read_area_flags, read_mappings};
use biopsy_testkit::{Privilege, Program, Survival, TargetProcess, require_all, temp_dir};

const PAGE: u64 = 4096;

/// The target, its areas by name, and what is needed to look at it.
struct Subject {
    target: TargetProcess,
    areas: HashMap<String, Range<u64>>,
    memory: ProcessMemory,
    mappings: Vec<Mapping>,
    _folder: biopsy_testkit::TempDir,
}

fn start() -> Subject {
    let folder = temp_dir("areas");
    let file = folder.path().join("mapped \u{e4}\nfile");
    std::fs::write(&file, [b'x'; 16 * 4096]).unwrap();
    let target = TargetProcess::start(Program::Areas, &[file.to_str().unwrap()]);
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let area = |word: &str| {
        let (name, place) = word.split_once('=')?;
        let (start, length) = place.split_once(',')?;
        let start = number(start);
        Some((name.to_owned(), start..start + length.parse::<u64>().ok()?))
    };
    let areas = target.ready_line().split_ascii_whitespace().filter_map(area).collect();
    let pid = Pid(target.pid());
    let memory = ProcessMemory::open(pid).unwrap();
    let mappings = read_mappings(pid).unwrap();
    Subject { target, areas, memory, mappings, _folder: folder }
}

impl Subject {
    fn mapping(&self, name: &str) -> &Mapping {
        mapping::find(&self.mappings, self.areas[name].start).unwrap()
    }

    /// Numbers of the pages of an area that are told to be written.
    fn pages(&self, name: &str) -> Vec<u64> {
        let area = &self.areas[name];
        let mut runs = Vec::new();
        self.memory.written(self.mapping(name), area.clone(), &mut runs).unwrap();
        assert!(runs.windows(2).all(|two| two[0].end < two[1].start), "{runs:?}");
        runs.iter().flat_map(|run| (run.start - area.start) / PAGE..(run.end - area.start) / PAGE).collect()
    }

    fn byte(&self, name: &str, page: u64) -> u8 {
        let mut byte = [0];
        assert_eq!(self.memory.read(self.areas[name].start + page * PAGE, &mut byte).unwrap(), 1);
        byte[0]
    }
}

#[test]
fn each_kind_of_memory_has_the_pages_that_it_has() {
    if !require_all(&[Privilege::Cc, Privilege::Root]) {
        return;
    }
    let subject = start();
    let survival = Survival::before(subject.target.pid());
    let expected: Vec<u64> = (0..10).chain([512]).collect();
    assert_eq!(subject.pages("plain"), expected, "the page that was only read is not one that was written");
    assert_eq!(subject.pages("file"), [3], "own copies of pages of a file");
    assert_eq!(subject.pages("memfd"), [7, 9], "whoever wrote them, by whatever way");
    assert_eq!(subject.pages("shared"), [5]);
    assert_eq!(subject.pages("closed"), [0, 1]);
    assert_eq!(subject.pages("wipeonfork"), [0, 1, 2, 3]);
    for (name, page, byte) in [
        ("plain", 512, b'b'),
        ("closed", 1, b'c'),
        ("file", 3, b'd'),
        ("memfd", 7, b'e'),
        ("memfd", 9, b'f'),
        ("shared", 5, b'g'),
        ("dontfork", 0, b'h'),
    ] {
        assert_eq!(subject.byte(name, page), byte, "{name}");
    }
    survival.assert_unharmed();
}

/// P10: `gcore` makes pages that were not there before, and the process is larger for ever after.
#[test]
fn p10_looking_at_all_of_it_makes_no_page() {
    if !require_all(&[Privilege::Cc, Privilege::Root]) {
        return;
    }
    let subject = start();
    let before = subject.memory.present_counts(&subject.mappings).unwrap();
    let mut buffer = vec![0; 1 << 20];
    for mapping in &subject.mappings {
        let mut runs = Vec::new();
        subject.memory.written(mapping, mapping.range(), &mut runs).unwrap();
        for run in runs {
            let length = usize::try_from(run.end - run.start).unwrap().min(buffer.len());
            match subject.memory.read(run.start, &mut buffer[..length]) {
                Ok(read) => assert!(read > 0),
                Err(error) => assert!(error.is_missing(), "{error}"),
            }
        }
    }
    assert_eq!(subject.memory.present_counts(&subject.mappings).unwrap(), before);
    assert_eq!(subject.pages("memfd"), [7, 9], "nor in shared memory, where others would find it");
    assert_eq!(subject.pages("plain").len(), 11);
}

#[test]
fn counts_tell_what_a_fork_copies() {
    if !require_all(&[Privilege::Cc, Privilege::Root]) {
        return;
    }
    let subject = start();
    let area = |name: &str| vec![subject.mapping(name).clone()];
    let plain = subject.memory.present_counts(&area("plain")).unwrap();
    assert_eq!((plain.pages_4k, plain.huge_pages, plain.swapped), (11, 0, 0));
    assert_eq!(plain.others, 1, "the page of zeros has an entry too");
    assert_eq!(plain.own_bytes(), 11 * PAGE);
    let file = subject.memory.present_counts(&area("file")).unwrap();
    assert!(file.pages_4k == 1 && file.others >= 1, "{file:?}");
    assert_eq!(subject.memory.present_counts(&area("memfd")).unwrap().small_entries(), 0);
}

#[test]
fn mappings_have_their_names_and_flags() {
    if !require_all(&[Privilege::Cc, Privilege::Root]) {
        return;
    }
    let subject = start();
    assert!(subject.mapping("file").path().unwrap().ends_with("mapped \u{e4}\nfile".as_bytes()));
    let memfd = subject.mapping("memfd");
    assert_eq!(memfd.path(), Some(&b"/memfd:patient"[..]));
    assert!(memfd.shared && matches!(memfd.backing, Backing::File { deleted: true, .. }));
    assert!(!subject.mapping("closed").protection.read);
    let flags = read_area_flags(Pid(subject.target.pid())).unwrap();
    let flag = |name: &str| {
        *flags
            .iter()
            .find(|one| one.start <= subject.areas[name].start && one.end > subject.areas[name].start)
            .unwrap()
    };
    assert!(flag("dontfork").dont_fork && !flag("plain").dont_fork);
    assert!(flag("wipeonfork").wipe_on_fork && !flag("plain").wipe_on_fork);
}

#[test]
fn pages_of_files_come_from_the_file() {
    if !require_all(&[Privilege::Cc, Privilege::Root]) {
        return;
    }
    let subject = start();
    let own = subject.mapping("file");
    let before = subject.memory.present_counts(std::slice::from_ref(own)).unwrap();
    let mut buffer = [0; 8192];
    assert_eq!(subject.memory.read_file(own, own.start + 14 * PAGE, &mut buffer).unwrap(), 8192);
    assert!(buffer.iter().all(|&byte| byte == b'x'));
    assert_eq!(subject.memory.read_file(own, own.start + 15 * PAGE, &mut buffer).unwrap(), 4096);
    assert_eq!(
        subject.memory.present_counts(std::slice::from_ref(own)).unwrap(),
        before,
        "nothing was faulted in"
    );
    let outside = subject.memory.read_file(own, own.end, &mut buffer).unwrap_err();
    assert!(matches!(outside, ReadError::Missing { why: Absence::Unmapped, .. }), "{outside}");
    assert!(subject.memory.read_file(subject.mapping("plain"), own.start, &mut buffer).is_err());
}
