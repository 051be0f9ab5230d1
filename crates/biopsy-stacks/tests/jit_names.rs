//! Names of compiled code and of the kernel, from files that are written while they are read.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote")]

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use biopsy_model::Avma;
use biopsy_model::symbol::{Function, SymbolSource};
use biopsy_stacks::elf::ElfCache;
use biopsy_stacks::symbols::{Options, Symbolizer};
use proptest::prelude::*;

fn symbolizer() -> Symbolizer {
    Symbolizer::new(Options::default(), Arc::new(ElfCache::default()))
}

/// The one name that a perf map of these bytes gives.
fn in_perf_map(bytes: &[u8], address: u64) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("perf-7.map");
    std::fs::write(&path, bytes).expect("a file");
    name_of(symbolizer().perf_map(&path, None, &[Avma(address)]).remove(0))
}

fn name_of(resolved: Option<biopsy_stacks::symbols::Resolved>) -> Option<String> {
    resolved.map(|mut resolved| resolved.functions.remove(0).name)
}

/// One name for each runtime that writes such a map: what it wrote is what the user knows the function by.
#[test]
fn names_of_compiled_code_are_those_that_the_runtime_wrote() {
    for (written, shown) in [
        ("void [app] Service::Handle(int32)[Tier1]", "void [app] Service::Handle(int32)[Tier1]"),
        (
            "JS:*render /app/node_modules/@scope/view/lib/index.js:10:3",
            "JS:*render /app/node_modules/@scope/view/lib/index.js:10:3",
        ),
        ("JS:~ file:///srv/a@1.2.3/main.mjs:1:1", "JS:~ file:///srv/a@1.2.3/main.mjs:1:1"),
        ("py::<lambda>:/srv/a.b@c/x.py", "py::<lambda>:/srv/a.b@c/x.py"),
        ("LazyCompile:~warm.cold", "LazyCompile:~warm.cold"),
        ("Lorg/app/Cache;::get$@inner", "Lorg/app/Cache;::get$@inner"),
        ("@entry", "@entry"),
        ("_ZN4JOIN10exec_innerEv", "JOIN::exec_inner"),
        ("_RNvCskwGfYPst2Cb_3foo3bar", "foo::bar"),
        ("name  with   blanks", "name  with   blanks"),
        ("grüße::日本", "grüße::日本"),
    ] {
        let map = format!("1000 100 {written}\n");
        assert_eq!(in_perf_map(map.as_bytes(), 0x1010).as_deref(), Some(shown), "{written}");
    }
}

#[test]
fn code_is_named_from_its_first_to_its_last_byte() {
    for (map, address, expected) in [
        (&b"1000 10 one\n"[..], 0x0fff, None),
        (b"1000 10 one\n", 0x1000, Some("one")),
        (b"1000 10 one\n", 0x100f, Some("one")),
        (b"1000 10 one\n", 0x1010, None),
        (b"1000 10 one\n1010 10 two\n", 0x1010, Some("two")),
        // Later lines are of code that lies there now.
        (b"1000 100 old\n1000 10 new\n", 0x1008, Some("new")),
        (b"1000 100 old\n1000 10 new\n", 0x1010, Some("old")),
        (b"1008 10 old\n1000 100 new\n", 0x1010, Some("new")),
        // Numbers as runtimes write them.
        (b"0x1000 0x10 one\n", 0x1001, Some("one")),
        (b"00007F0000001000 00000010 one\n", 0x7f00_0000_1001, Some("one")),
        // At the end of all addresses.
        (b"fffffffffffffff0 f end\n", u64::MAX - 1, Some("end")),
        (b"fffffffffffffff0 ffffffffffffffff end\n", u64::MAX, Some("end")),
        (b"0 ffffffffffffffff all\n", 0, Some("all")),
        // What is no entry hides none.
        (b"1000 10 one\n1000 10\n1000 10 \n1000\n\n", 0x1000, Some("one")),
        (b"1000 10 one\n10000000000000000 10 too long\n", 0x1000, Some("one")),
        (b"1000 10 one\n1000 0 empty\n", 0x1000, Some("one")),
        (b"1000 10 one\r\n", 0x1000, Some("one")),
        // The last line is still being written.
        (b"1000 10 one\n1000 10 tw", 0x1000, Some("one")),
        (b"1000 10 on", 0x1000, None),
        (b"", 0x1000, None),
    ] {
        let text = String::from_utf8_lossy(map);
        assert_eq!(in_perf_map(map, address).as_deref(), expected, "{address:#x} in {text:?}");
    }
}

/// A file of a runtime that grows between questions, by any pieces: no line is lost, none is read twice or half.
#[test]
fn lines_that_are_written_in_pieces_are_each_read_once() {
    let lines: Vec<String> =
        (0..40).map(|number| format!("{:x} 10 method number {number}\n", 0x1000 + number * 16)).collect();
    let whole = lines.concat();
    for piece in [1, 2, 7, 64, 1000] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("perf-7.map");
        let mut file = std::fs::File::create(&path).expect("a file");
        let mut symbolizer = symbolizer();
        let mut written = 0;
        for bytes in whole.as_bytes().chunks(piece) {
            file.write_all(bytes).expect("written");
            written += bytes.len();
            let complete = whole[..written].matches('\n').count();
            let asked: Vec<Avma> = (0..40).map(|number| Avma(0x1008 + number * 16)).collect();
            let found = symbolizer.perf_map(&path, None, &asked);
            let named = found.iter().flatten().count();
            assert_eq!(named, complete, "after {written} bytes in pieces of {piece}");
        }
        assert!(symbolizer.take_problems().is_empty());
    }
}

#[test]
fn a_map_that_was_begun_anew_names_nothing_of_the_old_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("perf-7.map");
    std::fs::write(&path, "1000 10 a rather long name of old\n2000 10 old\n").expect("a file");
    let mut symbolizer = symbolizer();
    let ask = |symbolizer: &mut Symbolizer| -> Vec<Option<String>> {
        symbolizer.perf_map(&path, None, &[Avma(0x1000), Avma(0x2000)]).into_iter().map(name_of).collect()
    };
    assert_eq!(ask(&mut symbolizer), [Some("a rather long name of old".to_owned()), Some("old".to_owned())]);
    // The process executed itself again under the same pid: the file was cut, and is shorter.
    std::fs::write(&path, "1000 10 new\n").expect("a file");
    assert_eq!(ask(&mut symbolizer), [Some("new".to_owned()), None]);
    // Another file in its place.
    let other = folder.path().join("other");
    std::fs::write(&other, "2000 10 another\n").expect("a file");
    std::fs::rename(&other, &path).expect("renamed");
    assert_eq!(ask(&mut symbolizer), [None, Some("another".to_owned())]);
    // The target ended and took it along: what was read stays.
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(ask(&mut symbolizer), [None, Some("another".to_owned())]);
}

#[test]
fn a_map_that_cannot_be_used_is_reported_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("perf-7.map");
    std::fs::create_dir(&path).expect("a folder of its name");
    let mut symbolizer = symbolizer();
    for _ in 0..3 {
        assert_eq!(symbolizer.perf_map(&path, None, &[Avma(0x1000)]), [None]);
    }
    let problems: Vec<String> = symbolizer.take_problems().iter().map(ToString::to_string).collect();
    assert_eq!(problems, [format!("cannot use `{}` for the names of compiled code", path.display())]);
    assert_eq!(symbolizer.perf_map(Path::new("/nonexistent/perf-7.map"), None, &[Avma(0x1000)]), [None]);
    assert!(symbolizer.take_problems().is_empty(), "most processes have none");
}

const HEADER: usize = 40;

fn header(size: u32) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        [0x4a69_5444, 1, size, 62, 0, 7].iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
    bytes.resize(HEADER, 0);
    bytes
}

fn record(id: u32, words: &[u64], rest: &[u8]) -> Vec<u8> {
    let size = u32::try_from(16 + words.len() * 8 + rest.len()).expect("a small record");
    let mut bytes = [id.to_le_bytes(), size.to_le_bytes()].concat();
    bytes.extend(1_u64.to_le_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend(rest);
    bytes
}

fn load(address: u64, size: u64, index: u64, name: &str) -> Vec<u8> {
    let mut rest = name.as_bytes().to_vec();
    rest.push(0);
    rest.resize(rest.len() + usize::try_from(size.min(64)).expect("small"), 0x90);
    record(0, &[7, address, address, size, index], &rest)
}

fn moved(from: u64, to: u64, size: u64, index: u64) -> Vec<u8> {
    record(1, &[7, 0, from, to, size, index], &[])
}

fn lines(address: u64, rows: &[(u64, u32, &[u8])]) -> Vec<u8> {
    let mut rest = Vec::new();
    for (at, line, file) in rows {
        rest.extend(at.to_le_bytes());
        rest.extend(line.to_le_bytes());
        rest.extend([0; 4]);
        rest.extend(*file);
        rest.push(0);
    }
    record(2, &[address, rows.len() as u64], &rest)
}

/// What a jitdump of these records gives for an address.
fn in_dump(records: &[Vec<u8>], address: u64) -> Option<Function> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("jit-7.dump");
    std::fs::write(&path, [header(HEADER as u32), records.concat()].concat()).expect("a file");
    let found = symbolizer().jit_dump(&path, None, &[Avma(address)]).remove(0)?;
    assert_eq!(found.source, SymbolSource::JitDump);
    found.functions.into_iter().next()
}

fn function(name: &str, file: Option<&str>, line: Option<u32>) -> Option<Function> {
    Some(Function { name: name.to_owned(), file: file.map(str::to_owned), line })
}

#[test]
fn code_that_moved_or_was_replaced_has_the_name_of_what_runs_now() {
    let two = || vec![load(0x1000, 0x20, 1, "one"), load(0x2000, 0x20, 2, "two")];
    for (more, address, expected) in [
        (vec![], 0x1000, Some("one")),
        (vec![], 0x101f, Some("one")),
        (vec![], 0x1020, None),
        (vec![moved(0x2000, 0x3000, 0x20, 2)], 0x3010, Some("two")),
        (vec![moved(0x2000, 0x3000, 0x20, 2), moved(0x3000, 0x4000, 0x20, 2)], 0x4010, Some("two")),
        // To where other code was.
        (vec![moved(0x2000, 0x1000, 0x20, 2)], 0x1010, Some("two")),
        // Of a number that nobody loaded: nothing is known of it.
        (vec![moved(0x2000, 0x5000, 0x20, 9)], 0x5010, None),
        (vec![load(0x1000, 0x20, 3, "three")], 0x1010, Some("three")),
        // A number that is given again is the newest code.
        (vec![load(0x6000, 0x20, 1, "again"), moved(0x6000, 0x7000, 0x20, 1)], 0x7010, Some("again")),
        // Records of other kinds are stepped over.
        (
            vec![record(3, &[], &[]), record(99, &[1, 2, 3], &[]), load(0x8000, 8, 4, "four")],
            0x8007,
            Some("four"),
        ),
        // Without a name, or without room for one.
        (vec![load(0x9000, 8, 4, "")], 0x9000, None),
        (vec![record(0, &[7, 1, 1, 1], &[])], 1, None),
        // At the end of all addresses.
        (vec![load(u64::MAX - 7, 8, 4, "last")], u64::MAX, Some("last")),
        (vec![load(u64::MAX - 7, u64::MAX, 4, "last")], u64::MAX, Some("last")),
    ] {
        let records = [two(), more].concat();
        let found = in_dump(&records, address).map(|found| found.name);
        assert_eq!(found.as_deref(), expected, "{address:#x} of {} records", records.len());
    }
}

#[test]
fn lines_belong_to_the_code_that_follows_and_to_no_other() {
    let same = &b"\xff"[..];
    let table = || lines(0x1000, &[(0x1000, 10, b"A.java"), (0x1008, 12, same), (0x1010, 7, b"B.java")]);
    let one = || load(0x1000, 0x20, 1, "one");
    for (records, address, expected) in [
        (vec![table(), one()], 0x1000, function("one", Some("A.java"), Some(10))),
        (vec![table(), one()], 0x1007, function("one", Some("A.java"), Some(10))),
        (vec![table(), one()], 0x1008, function("one", Some("A.java"), Some(12))),
        (vec![table(), one()], 0x101f, function("one", Some("B.java"), Some(7))),
        // Of other code, or of none yet.
        (vec![table(), load(0x2000, 0x20, 1, "two"), one()], 0x1008, function("one", None, None)),
        (vec![one(), table()], 0x1008, function("one", None, None)),
        (vec![table(), one(), one()], 0x1008, function("one", None, None)),
        // Before the first of them, and rows that are not in order.
        (vec![lines(0x1000, &[(0x1010, 3, b"A")]), one()], 0x1008, function("one", None, None)),
        (
            vec![lines(0x1000, &[(0x1010, 3, b"A"), (0x1000, 1, b"B")]), one()],
            0x1018,
            function("one", Some("A"), Some(3)),
        ),
        // Moved code: its lines say where it was.
        (vec![table(), one(), moved(0x1000, 0x4000, 0x20, 1)], 0x4008, function("one", None, None)),
        // A file name that does not end.
        (vec![record(2, &[0x1000, 1, 0x1000, 5], b"no end"), one()], 0x1008, function("one", None, None)),
    ] {
        assert_eq!(in_dump(&records, address), expected, "{address:#x}");
    }
}

/// Compilers map the file first, which is how its path becomes known, and write its header with a buffer of megabytes.
#[test]
fn a_dump_whose_header_is_not_written_yet_is_looked_at_again() {
    let whole = [header(HEADER as u32), load(0x1000, 0x20, 1, "one")].concat();
    for first in [0, 1, 8, 39, 40, 41, 60] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("jit-7.dump");
        std::fs::write(&path, &whole[..first]).expect("a file");
        let mut symbolizer = symbolizer();
        assert_eq!(symbolizer.jit_dump(&path, None, &[Avma(0x1000)]), [None], "{first} bytes");
        let file = std::fs::OpenOptions::new().append(true).open(&path);
        file.expect("it is there").write_all(&whole[first..]).expect("written");
        let found = name_of(symbolizer.jit_dump(&path, None, &[Avma(0x1000)]).remove(0));
        assert_eq!(found.as_deref(), Some("one"), "{first} bytes were there at first");
        assert!(symbolizer.take_problems().is_empty(), "{first}");
    }
}

#[test]
fn what_is_no_dump_is_reported_once_and_names_nothing() {
    let mut wrong_magic = header(HEADER as u32);
    wrong_magic[0] ^= 1;
    for (bytes, problems) in [
        (header(39), 1),
        (header(0), 1),
        (wrong_magic, 1),
        (vec![b'x'; 4096], 1),
        // A header that claims to be larger than the file: nothing is behind it.
        (header(u32::MAX), 0),
        (header(4096), 0),
        // Records that claim nothing, or more than there is.
        ([header(HEADER as u32), vec![0; 64]].concat(), 0),
        ([header(HEADER as u32), vec![0xff; 64]].concat(), 0),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("jit-7.dump");
        std::fs::write(&path, &bytes).expect("a file");
        let mut symbolizer = symbolizer();
        for _ in 0..3 {
            assert_eq!(symbolizer.jit_dump(&path, None, &[Avma(0)]), [None]);
        }
        assert_eq!(symbolizer.take_problems().len(), problems, "{:?}", &bytes[..HEADER]);
    }
}

#[derive(Clone, Debug)]
struct Code {
    start: u64,
    size: u64,
}

fn codes() -> impl Strategy<Value = Vec<Code>> {
    prop::collection::vec((0..200_u64, 1..40_u64), 1..40)
        .prop_map(|all| all.into_iter().map(|(start, size)| Code { start: 0x1000 + start, size }).collect())
}

/// Who lies at an address by a walk over all: the one that was written last.
fn last_at(all: &[Code], address: u64) -> Option<String> {
    let covers = |code: &Code| (code.start..code.start + code.size).contains(&address);
    all.iter().rposition(covers).map(|number| format!("f{number}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Code that comes and goes at overlapping places, as memory of a code heap is used again.
    #[test]
    fn the_code_written_last_is_named_in_maps_and_dumps(all in codes(), asked in 0x0ff0..0x1100_u64) {
        let map: String = all.iter().enumerate()
            .map(|(number, code)| format!("{:x} {:x} f{number}\n", code.start, code.size))
            .collect();
        prop_assert_eq!(in_perf_map(map.as_bytes(), asked), last_at(&all, asked));
        let records: Vec<Vec<u8>> = (0..).zip(&all)
            .map(|(number, code)| load(code.start, code.size, number, &format!("f{number}")))
            .collect();
        prop_assert_eq!(in_dump(&records, asked).map(|found| found.name), last_at(&all, asked));
    }

    /// Any damage, any cut: an answer, and no name that is in none of the records.
    #[test]
    fn a_damaged_dump_names_nothing_that_is_not_in_it(
        all in codes(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        keep in any::<prop::sample::Index>(),
        asked in 0x0ff0..0x1100_u64,
    ) {
        let records: Vec<Vec<u8>> = (0..).zip(&all).map(|(number, code)| load(code.start, code.size, number, "f")).collect();
        let mut bytes = records.concat();
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(keep.index(bytes.len() + 1));
        if let Some(found) = in_dump(std::slice::from_ref(&bytes), asked) {
            let name = found.name.replace('\u{fffd}', "");
            let text = String::from_utf8_lossy(&bytes).into_owned();
            prop_assert!(text.contains(&name), "{:?}", name);
        }
    }
}

/// What a file of kernel symbols gives for an address.
fn in_kernel(text: &str, address: u64) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kallsyms");
    std::fs::write(&path, text).expect("a file");
    let options = Options { kallsyms: path, ..Options::default() };
    let mut symbolizer = Symbolizer::new(options, Arc::new(ElfCache::default()));
    name_of(symbolizer.kernel(&[Avma(address)]).remove(0))
}

#[test]
fn frames_of_the_kernel_are_named_after_the_function_before_them() {
    const TEXT: &str = "ffffffff81000000 T first\n\
        ffffffff81000100 t __pfx_second\n\
        ffffffff81000110 t second\n\
        ffffffff81000110 t second_alias\n\
        ffffffff81000200 D not_code\n\
        ffffffff81000300 W weak\n\
        ffffffffc0000000 t in_module\t[module]\n\
        ffffffffc0100000 t bpf_prog_6deef7357e7b4530_count\t[bpf]\n\
        fffffffffffffff0 t last\n";
    for (address, expected) in [
        (0xffff_ffff_80ff_ffff, None),
        (0xffff_ffff_8100_0000, Some("first")),
        (0xffff_ffff_8100_00ff, Some("first")),
        (0xffff_ffff_8100_0110, Some("second")),
        (0xffff_ffff_8100_0210, Some("second")),
        (0xffff_ffff_8100_0300, Some("weak")),
        (0xffff_ffff_8110_02ff, Some("weak")),
        (0xffff_ffff_8110_0300, None),
        (0xffff_ffff_c000_0001, Some("in_module [module]")),
        (0xffff_ffff_c010_0001, Some("bpf_prog_6deef7357e7b4530_count [bpf]")),
        (u64::MAX, Some("last")),
        (0, None),
    ] {
        assert_eq!(in_kernel(TEXT, address).as_deref(), expected, "{address:#x}");
    }
}
