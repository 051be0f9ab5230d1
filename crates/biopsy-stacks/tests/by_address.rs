//! What lies where: mappings that come and go, and the functions of a kernel, against lists that are looked through from end to end.

use std::io::Write;
use std::sync::Arc;

use biopsy_elf::testing::ElfBuilder;
use biopsy_model::{Avma, FileOffset, Svma};
use biopsy_stacks::elf::{ElfCache, ElfFile, Limits};
use biopsy_stacks::symbols::{Options, Symbolizer};
use biopsy_stacks::unwind::{ExecutableMapping, ProcessUnwinder};
use proptest::prelude::*;

/// What happens to the mappings of a process.
#[derive(Clone, Debug)]
enum Deed {
    /// From one address up to another, both in pages.
    Add(u64, u64),
    Remove(u64, u64),
    Clear,
}

const PAGES: u64 = 40;
const PAGE: u64 = 0x1000;

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        6 => (0..PAGES, 0..PAGES).prop_map(|(start, end)| Deed::Add(start, end)),
        4 => (0..PAGES, 0..PAGES).prop_map(|(start, end)| Deed::Remove(start, end)),
        1 => Just(Deed::Clear),
    ];
    prop::collection::vec(deed, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn an_address_is_of_the_mapping_that_came_last_and_was_not_taken_away(deeds in deeds()) {
        let mut unwinder = ProcessUnwinder::new();
        let mut pages: Vec<Option<u32>> = vec![None; PAGES as usize];
        for (tag, deed) in (0_u32..).zip(&deeds) {
            match deed {
                Deed::Add(start, end) => {
                    let mapping = ExecutableMapping {
                        start: Avma(start * PAGE),
                        end: Avma(end * PAGE),
                        file_offset: FileOffset(0),
                        tag,
                    };
                    unwinder.add_module(&mapping, None);
                    (*start..*end).for_each(|page| pages[page as usize] = Some(tag));
                }
                Deed::Remove(start, end) => {
                    unwinder.remove(Avma(start * PAGE), Avma(end * PAGE));
                    (*start..*end).for_each(|page| pages[page as usize] = None);
                }
                Deed::Clear => {
                    unwinder.clear();
                    pages.fill(None);
                }
            }
            for (page, expected) in (0..).zip(&pages) {
                for at in [page * PAGE, page * PAGE + PAGE - 1] {
                    let found = unwinder.find(Avma(at)).map(|module| module.tag());
                    prop_assert_eq!(found, *expected, "{:#x} after {:?}", at, &deeds[..=tag as usize]);
                }
            }
            for nobodys in [PAGES * PAGE, u64::MAX] {
                prop_assert!(unwinder.find(Avma(nobodys)).is_none());
            }
            // A mapping in pieces is several; none is empty, so that there are no more than pages.
            prop_assert!(unwinder.module_count() <= pages.iter().flatten().count());
        }
    }

    #[test]
    fn an_address_of_the_kernel_has_the_last_function_that_begins_before_it(
        rows in prop::collection::vec((0..0x40_0000_u64, prop::sample::select(vec!['T', 't', 'W', 'w', 'D', 'b', 'r', 'U']), "[a-z_]{1,8}", any::<bool>()), 0..30),
        asked in prop::collection::vec(0..0x60_0000_u64, 1..30),
    ) {
        const KERNEL: u64 = 0xffff_ffff_8100_0000;
        let mut file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
        for (offset, kind, name, of_module) in &rows {
            let module = if *of_module { "\t[made]" } else { "" };
            writeln!(file, "{:016x} {kind} {name}{module}", KERNEL + offset).expect("it is written");
        }
        // What is no row is passed over.
        write!(file, "\n\nnothing of this\nffffffff81000000\nzz T hex\n").expect("it is written");
        let options = Options { kallsyms: file.path().to_owned(), ..Options::default() };
        let mut symbolizer = Symbolizer::new(options, Arc::new(ElfCache::default()));
        let asked: Vec<Avma> = asked.iter().map(|offset| Avma(KERNEL + offset)).collect();
        let found = symbolizer.kernel(&asked);
        for (at, found) in asked.iter().zip(found) {
            let code: Vec<_> = rows.iter().filter(|(_, kind, ..)| matches!(kind, 'T' | 't' | 'W' | 'w')).collect();
            let start = code.iter().map(|(offset, ..)| KERNEL + offset).filter(|start| *start <= at.0).max();
            // Code of modules ends without saying so.
            let start = start.filter(|start| at.0 - start < 1 << 20);
            // Of several names for one address the first stands.
            let name = start.and_then(|start| code.iter().find(|(offset, ..)| KERNEL + offset == start)).map(|(_, _, name, _)| name);
            let found = found.map(|found| found.functions[0].name.clone());
            match (&found, name) {
                (Some(found), Some(name)) => prop_assert!(found.starts_with(name.as_str()), "{} is {}", found, name),
                (found, name) => prop_assert_eq!(found.is_some(), name.is_some(), "{:#x}", at.0),
            }
        }
    }
}

#[test]
fn a_kernel_that_hides_its_addresses_is_told_from_one_without_symbols() {
    for (text, problems) in [
        ("0000000000000000 T hidden\n0000000000000000 t too\n", 1),
        ("", 0),
        ("ffffffff81000000 T seen\n", 0),
    ] {
        let mut file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
        file.write_all(text.as_bytes()).expect("it is written");
        let options = Options { kallsyms: file.path().to_owned(), ..Options::default() };
        let mut symbolizer = Symbolizer::new(options, Arc::new(ElfCache::default()));
        for _ in 0..2 {
            symbolizer.kernel(&[Avma(0xffff_ffff_8100_0010)]);
        }
        let told = symbolizer.take_problems();
        assert_eq!(told.len(), problems, "{text}: {told:?}");
        assert!(told.iter().all(|problem| problem.hint().is_some_and(|hint| hint.contains("kptr_restrict"))));
    }
}

/// What is left of a mapping when its middle goes is the same file at the same addresses; an offset that the file does not have is none of it.
#[test]
fn pieces_of_a_file_keep_their_addresses() {
    let mut made = ElfBuilder::new(0x40_0000);
    made.append(&[0x90; 0x4000]);
    let file = Arc::new(ElfFile::from_bytes("made", made.build(), &Limits::default()).expect("a file"));
    let mapping = |offset| ExecutableMapping {
        start: Avma(0x7000_0000),
        end: Avma(0x7000_4000),
        file_offset: FileOffset(offset),
        tag: 5,
    };
    let mut unwinder = ProcessUnwinder::new();
    unwinder.add_module(&mapping(0), Some(Arc::clone(&file)));
    unwinder.remove(Avma(0x7000_1000), Avma(0x7000_2000));
    for (at, svma) in [
        (0, Some(0x40_0000)),
        (0xfff, Some(0x40_0fff)),
        (0x1000, None),
        (0x2000, Some(0x40_2000)),
        (0x3fff, Some(0x40_3fff)),
    ] {
        let found =
            unwinder.find(Avma(0x7000_0000 + at)).and_then(|module| module.svma(Avma(0x7000_0000 + at)));
        assert_eq!(found, svma.map(Svma), "{at:#x}");
    }
    unwinder.add_module(&mapping(1 << 30), Some(file));
    let found = unwinder.find(Avma(0x7000_1000)).expect("it is mapped");
    assert!(found.file().is_none() && found.svma(Avma(0x7000_1000)).is_none());
}
