//! What mappings are, by what a dump says of them.

use super::*;
use biopsy_image::mapping::Protection;
use proptest::prelude::*;

const PAGE: u64 = 4096;
const AT: u64 = 0x7f00_0000_0000;

fn mapping(rights: &str, backing: Backing) -> Mapping {
    let has = |right| rights.contains(right);
    let protection = Protection { read: has('r'), write: has('w'), execute: has('x') };
    Mapping { start: AT, end: AT + 4 * PAGE, protection, shared: has('s'), backing, not_frozen: false }
}

fn anonymous(label: &str) -> Backing {
    Backing::Anonymous { label: label.to_owned() }
}

fn file(path: &str) -> Backing {
    Backing::File { path: path.as_bytes().to_vec(), offset: 0, deleted: false, identity: (0, 0) }
}

#[test]
fn rights_and_backing_tell_what_memory_is() {
    use MemoryClass::*;
    let kernel = |label: &str| Backing::Kernel { label: label.to_owned() };
    #[rustfmt::skip]
    let table: &[(&str, Backing, MemoryClass, &str)] = &[
        ("rw", anonymous(""), Anonymous, "[anonymous memory]"),
        ("rw", anonymous("[heap]"), Heap, "[heap]"),
        ("rw", anonymous("[stack]"), Stack, "[stack]"),
        ("rw", anonymous("[stack:71]"), Stack, "[stack:71]"),
        ("rwx", anonymous(""), JitCode, "[compiled at run time]"),
        ("rx", anonymous("[anon:code]"), JitCode, "[anon:code]"),
        ("rws", anonymous(""), Shared, "[shared memory]"),
        ("", anonymous(""), Reserved, "[reserved]"),
        ("", anonymous("[heap]"), Reserved, "[heap]"),
        ("", file("/lib/libc.so.6"), Reserved, "/lib/libc.so.6"),
        ("rx", file("/lib/libc.so.6"), FileCode, "/lib/libc.so.6"),
        ("rw", file("/lib/libc.so.6"), FileData, "/lib/libc.so.6"),
        ("rws", file("/var/lib/data"), File, "/var/lib/data"),
        ("r", file("/lib/libc.so.6"), File, "/lib/libc.so.6"),
        ("rws", file("/memfd:doublemapper"), Shared, "/memfd:doublemapper"),
        ("rxs", file("/memfd:doublemapper"), JitCode, "/memfd:doublemapper"),
        ("rw", file("/SYSV00000000"), Shared, "/SYSV00000000"),
        ("rw", file("/dev/shm/ring"), Shared, "/dev/shm/ring"),
        ("rx", kernel("[vdso]"), Kernel, "[vdso]"),
        ("", kernel("[vvar]"), Kernel, "[vvar]"),
        ("rw", Backing::Unknown, Unknown, "[not known]"),
        ("", Backing::Unknown, Unknown, "[not known]"),
    ];
    for (rights, backing, class, expected) in table {
        let mapping = mapping(rights, backing.clone());
        let found = classify(&mapping, &[]);
        assert_eq!(found, *class, "{rights} {backing:?}");
        assert_eq!(name(&mapping, found), *expected);
    }
    let mut vsyscall = mapping("rx", Backing::Unknown);
    (vsyscall.start, vsyscall.end) = (0xffff_ffff_ff60_0000, 0xffff_ffff_ff60_1000);
    assert_eq!(classify(&vsyscall, &[]), MemoryClass::Kernel);
}

#[test]
fn a_stack_is_where_a_stack_pointer_is_and_can_be_written() {
    let is_stack = |rights: &str, backing: Backing, pointers: &[u64]| {
        classify(&mapping(rights, backing), pointers) == MemoryClass::Stack
    };
    let end = AT + 4 * PAGE;
    for (pointers, expected) in [
        (&[AT][..], true),
        (&[end - 8], true),
        (&[end], false),
        (&[AT - 8], false),
        (&[1, AT - 8, AT + 8, end + 8], true),
        (&[1, AT - 8, end, end + 8], false),
        (&[], false),
    ] {
        assert_eq!(is_stack("rw", anonymous(""), pointers), expected, "{pointers:x?}");
        assert_eq!(is_stack("rw", Backing::Unknown, pointers), expected, "{pointers:x?}");
    }
    assert!(!is_stack("r", anonymous(""), &[AT]) && !is_stack("rw", file("/data"), &[AT]));
    assert!(is_stack("rws", anonymous(""), &[AT]), "one that processes share is one all the same");
}

#[test]
fn what_is_not_there_has_a_reason() {
    use MissingReason::*;
    for (absent, class, expected) in [
        (None, MemoryClass::FileCode, InFile),
        (None, MemoryClass::FileData, InFile),
        (None, MemoryClass::File, InFile),
        (None, MemoryClass::Anonymous, Zeros),
        (None, MemoryClass::Stack, Zeros),
        (Some(Absence::LeftOut), MemoryClass::File, LeftOut),
        (Some(Absence::NotOfKind), MemoryClass::Anonymous, LeftOut),
        (Some(Absence::Unmapped), MemoryClass::Anonymous, LeftOut),
        (Some(Absence::OverLimit), MemoryClass::Anonymous, OverLimit),
        (Some(Absence::NoTime), MemoryClass::Anonymous, NoTime),
        (Some(Absence::Unreadable), MemoryClass::Anonymous, Unreadable),
        (Some(Absence::Truncated), MemoryClass::Anonymous, Truncated),
        (Some(Absence::Gone), MemoryClass::Anonymous, Gone),
    ] {
        assert_eq!(reason(absent, class), expected, "{absent:?} {class:?}");
        // What a writer leaves out on purpose is no damage.
        let is_damage = matches!(expected, OverLimit | NoTime | Truncated | Gone);
        assert_eq!(expected.is_damage(), is_damage);
    }
}

proptest! {
    /// However many rows there are, few are told, and their sums are those of all.
    #[test]
    fn what_is_folded_stays_in_the_sums(rows in prop::collection::vec((0_u64..1000, 0_u64..1000), 0..150)) {
        let row = |(at, (mapped, in_dump)): (usize, &(u64, u64))| MemoryRow {
            class: MemoryClass::File,
            name: format!("/file{at}"),
            mappings: 1,
            mapped: *mapped,
            in_dump: *in_dump,
        };
        let all = sorted(rows.iter().enumerate().map(row));
        prop_assert!(all.is_sorted_by(|a, b| a.in_dump >= b.in_dump));
        let folded = fold(all.clone());
        prop_assert!(folded.len() <= ROWS && folded.len() == all.len().min(ROWS));
        let sums = |rows: &[MemoryRow]| {
            let sum = |of: fn(&MemoryRow) -> u64| rows.iter().map(of).sum::<u64>();
            (sum(|row| row.mappings), sum(|row| row.mapped), sum(|row| row.in_dump))
        };
        prop_assert_eq!(sums(&folded), sums(&all));
        if all.len() > ROWS {
            let rest = folded.last().map(|row| row.name.clone());
            prop_assert_eq!(rest, Some(format!("{} others", all.len() - ROWS + 1)));
        }
    }
}
