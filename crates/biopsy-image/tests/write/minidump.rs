//! Minidumps of stacks, read by the readers of others and ours.

use biopsy_image::vendor::{MissingRange, Reason};
use biopsy_image::write::{CoreError, CoreProgress, NoProgress, write_minidump};
use biopsy_image::{Absence, DumpKind, MemoryExt};
use biopsy_model::Avma;

use super::synthetic::PAGE;
use super::*;

#[test]
fn a_minidump_has_threads_registers_and_stacks() {
    let image = one_of_everything();
    let mut bytes = Vec::new();
    let summary = write_minidump(&image, &mut bytes, &NoProgress).unwrap();
    assert!(summary.is_whole(), "{summary:?}");
    assert!(summary.contents.total() > 0 && summary.contents.total() < summary.written_bytes, "{summary:?}");
    assert_eq!(summary.written_bytes, bytes.len() as u64);

    let opened = read_back(bytes);
    assert_eq!(opened.kind, DumpKind::Minidump);
    let core = &*opened.image;
    assert_eq!(core.process().pid, image.process.pid);
    assert_eq!(core.threads().len(), 2);
    for (ours, theirs) in image.threads.iter().zip(core.threads()) {
        let (a, b) = (ours.registers.unwrap(), theirs.registers.unwrap());
        assert_eq!((a.rip, a.rsp, a.r15, a.rbp), (b.rip, b.rsp, b.r15, b.rbp));
        assert_eq!((ours.tid, &ours.name), (theirs.tid, &theirs.name));
        let start = a.rsp / PAGE * PAGE;
        assert_eq!(core.read_up_to(start, PAGE as usize).unwrap(), image.truth(start));
    }
    assert_eq!(core.crash().and_then(|crash| crash.address), Some(Avma(0xdead)));
    // Memory that is not of stacks is missing, not zeros.
    assert!(core.read(0x80_0000, &mut [0]).unwrap_err().is_missing());
    let paths: Vec<_> = core.mappings().iter().filter_map(|one| one.path()).collect();
    assert!(paths.iter().any(|path| path.starts_with(b"/memfd:doublemapper")), "{paths:?}");
}

#[test]
fn a_minidump_says_why_a_part_of_a_stack_is_missing() {
    let mut image = one_of_everything();
    let stack = image.threads[1].registers.unwrap().rsp / PAGE * PAGE;
    let told = [
        (Absence::NoTime, Reason::NoTime),
        (Absence::NoTime, Reason::NoTime),
        (Absence::OverLimit, Reason::Ceiling),
        (Absence::LeftOut, Reason::Kind),
        (Absence::Unreadable, Reason::Unreadable),
        (Absence::Gone, Reason::Gone),
    ];
    for (at, (why, _)) in told.iter().enumerate() {
        image.absent.insert(stack + at as u64 * PAGE, *why);
    }
    let summary = write_minidump(&image, &mut Vec::new(), &NoProgress).unwrap();
    let range = |from: u64, to: u64| stack + from * PAGE..stack + to * PAGE;
    let expected = [(0, 2, 0), (2, 3, 2), (3, 4, 3), (4, 5, 4), (5, 6, 5)]
        .map(|(from, to, at)| MissingRange { range: range(from, to), reason: told[at].1 });
    assert_eq!(summary.missing, expected);
}

#[test]
fn a_minidump_ends_where_it_is_told_to() {
    struct Enough;
    impl CoreProgress for Enough {
        fn keep_going(&self) -> bool {
            false
        }
    }
    let stopped = write_minidump(&one_of_everything(), &mut Vec::new(), &Enough).unwrap_err();
    assert!(matches!(stopped, CoreError::Stopped { .. }), "{stopped}");
}
