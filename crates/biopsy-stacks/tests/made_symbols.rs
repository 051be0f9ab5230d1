//! Names from symbol tables made by hand, against a search that looks at every symbol.

use std::cmp::Reverse;
use std::sync::Arc;

use biopsy_elf::raw::Sym64;
use biopsy_elf::raw::{
    SHF_ALLOC, SHF_EXECINSTR, SHT_DYNSYM, SHT_PROGBITS, SHT_STRTAB, SHT_SYMTAB, SymbolInfo, SymbolOther,
    SymbolSection,
};
use biopsy_elf::testing::ElfBuilder;
use biopsy_elf::{LittleEndian, bytes_of};
use biopsy_model::Svma;
use biopsy_stacks::elf::ElfCache;
use biopsy_stacks::symbols::{ModuleSource, Options, Symbolizer};
use proptest::prelude::*;

const BASE: u64 = 0x10_0000;
/// Bytes of each of two sections of code.
const CODE: u64 = 0x400;
const GLOBAL: u8 = 1;
const WEAK: u8 = 2;
const LOCAL: u8 = 0;
const FUNC: u8 = 2;
const NOTYPE: u8 = 0;
const OBJECT: u8 = 1;

/// A symbol: where in the first section of code, its size, binding, type, name.
#[derive(Clone, Debug)]
struct Symbol {
    at: u64,
    size: u64,
    binding: u8,
    kind: u8,
    name: String,
    /// Defined in a section of this file.
    defined: bool,
}

fn symbol(at: u64, size: u64, binding: u8, kind: u8, name: &str) -> Symbol {
    Symbol { at, size, binding, kind, name: name.to_owned(), defined: true }
}

/// A file with these symbols, and where its code begins.
fn file(symbols: &[Symbol], dynamic: bool) -> (Vec<u8>, u64) {
    let code_flags = SHF_ALLOC | SHF_EXECINSTR;
    let mut built =
        ElfBuilder::new(BASE).section(".text", SHT_PROGBITS, code_flags, 0, &[0x90; CODE as usize]);
    // All that was appended so far ends with the code.
    let end = built.append(&[]);
    let code = built.address(end) - CODE;
    built = built.section(".more", SHT_PROGBITS, code_flags, 0, &[0x90; CODE as usize]);
    let mut names = vec![0];
    let mut table = vec![0; size_of::<Sym64<LittleEndian>>()];
    for symbol in symbols {
        let raw = Sym64::<LittleEndian> {
            st_name: if symbol.name.is_empty() { 0 } else { names.len() as u32 }.into(),
            st_info: SymbolInfo(symbol.binding << 4 | symbol.kind),
            st_other: SymbolOther(0),
            st_shndx: SymbolSection(if symbol.defined { 1 } else { 0 }).into(),
            st_value: (code + symbol.at).into(),
            st_size: symbol.size.into(),
        };
        table.extend_from_slice(bytes_of(&raw));
        names.extend_from_slice(symbol.name.as_bytes());
        names.push(0);
    }
    let (kind, name) = if dynamic { (SHT_DYNSYM, ".dynsym") } else { (SHT_SYMTAB, ".symtab") };
    let built = built.section(name, kind, SHF_ALLOC, 4, &table);
    (built.section(".strtab", SHT_STRTAB, SHF_ALLOC, 0, &names).build(), code)
}

fn names(symbols: &[Symbol], dynamic: bool, asked: &[u64]) -> Vec<Option<String>> {
    let (bytes, code) = file(symbols, dynamic);
    let mut symbolizer = Symbolizer::new(Options::default(), Arc::new(ElfCache::default()));
    let asked: Vec<Svma> = asked.iter().map(|at| Svma(code + at)).collect();
    let found = symbolizer.elf(&ModuleSource::vdso(bytes), &asked);
    assert!(symbolizer.take_problems().is_empty());
    found.into_iter().map(|found| found.map(|found| found.functions[0].name.clone())).collect()
}

/// The name that a symbol table has for a place, found by looking at all of it.
fn expected(symbols: &[Symbol], dynamic: bool, at: u64) -> Option<String> {
    let is_code = |one: &&Symbol| one.defined && matches!(one.kind, FUNC | NOTYPE) && !one.name.is_empty();
    let code: Vec<&Symbol> = symbols.iter().filter(is_code).collect();
    let next = code.iter().map(|one| one.at).filter(|start| *start > at).min().unwrap_or(u64::MAX);
    let last = code.iter().map(|one| one.at).filter(|start| *start <= at).max();
    let reaches = |one: &&&Symbol| match one.size {
        // Without a size: to the next one, and no further than its section.
        0 => {
            let most = if dynamic { one.at + 4096 } else { u64::MAX };
            Some(one.at) == last && at >= one.at && at < next.min(CODE).min(most)
        }
        size => at >= one.at && at - one.at < size,
    };
    let is_label = |name: &str| name.starts_with('$') || name.starts_with(".L");
    let named = code.iter().filter(reaches).filter(|one| !is_label(&one.name));
    let rank = |one: &Symbol| match one.binding {
        GLOBAL => 0,
        WEAK => 1,
        _ => 2,
    };
    let underscores = |one: &Symbol| one.name.bytes().take_while(|byte| *byte == b'_').count();
    // The innermost; of several names for it the one that a program would use.
    let best = named
        .min_by_key(|one| (Reverse(one.at), rank(one), underscores(one), one.name.len(), one.name.clone()));
    best.map(|one| one.name.clone())
}

fn symbols() -> impl Strategy<Value = Vec<Symbol>> {
    let one = (
        (0..40_u64).prop_map(|at| at * 8),
        prop_oneof![2 => Just(0), 5 => 1..64_u64, 1 => 64..CODE, 1 => Just(1 << 40)],
        prop::sample::select(vec![GLOBAL, WEAK, LOCAL]),
        prop::sample::select(vec![FUNC, FUNC, FUNC, NOTYPE, OBJECT]),
        prop_oneof![8 => "_{0,2}[a-e]{1,3}", 1 => Just(".Lend".to_owned()), 1 => Just("$x".to_owned()), 1 => Just(String::new())],
        prop::bool::weighted(0.9),
    );
    let all = one.prop_map(|(at, size, binding, kind, name, defined)| Symbol {
        at,
        size,
        binding,
        kind,
        name,
        defined,
    });
    // As many as are looked at around one place.
    prop::collection::vec(all, 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_place_has_the_name_of_the_innermost_function_around_it(symbols in symbols(), dynamic in any::<bool>()) {
        let asked: Vec<u64> = (0..0x1c0).step_by(3).chain(CODE - 4..CODE + 4).collect();
        let found = names(&symbols, dynamic, &asked);
        for (at, found) in asked.iter().zip(found) {
            prop_assert_eq!(found, expected(&symbols, dynamic, *at), "{:#x}", at);
        }
    }
}

#[test]
fn a_function_without_a_size_ends_with_the_next_or_with_its_section() {
    let made = [
        symbol(0, 0, GLOBAL, FUNC, "first"),
        symbol(0x20, 0x10, GLOBAL, FUNC, "second"),
        symbol(0x40, 0, LOCAL, NOTYPE, "third"),
    ];
    let found = names(&made, false, &[0, 0x1f, 0x20, 0x2f, 0x30, 0x3f, 0x40, CODE - 1, CODE]);
    let found: Vec<&str> = found.iter().map(|name| name.as_deref().unwrap_or("-")).collect();
    assert_eq!(found, ["first", "first", "second", "second", "-", "-", "third", "third", "-"]);
}

/// Assemblers put labels of their own in the middle of functions: `$x` where code begins again behind data.
#[test]
fn a_label_in_a_function_does_not_hide_it() {
    for label in ["$x", ".Lloop", "$d.17"] {
        let made = [symbol(0, 0x100, GLOBAL, FUNC, "function"), symbol(0x40, 0, LOCAL, NOTYPE, label)];
        let found = names(&made, false, &[0x3f, 0x40, 0xff, 0x100]);
        let found: Vec<&str> = found.iter().map(|name| name.as_deref().unwrap_or("-")).collect();
        assert_eq!(found, ["function", "function", "function", "-"], "{label}");
    }
}

#[test]
fn names_that_are_long_or_cut_are_read_as_far_as_they_go() {
    let long = "n".repeat(4_000);
    let found = names(
        &[symbol(0, 8, GLOBAL, FUNC, &long), symbol(16, 8, GLOBAL, FUNC, "é\u{fffd}")],
        false,
        &[0, 16],
    );
    assert_eq!(found, [Some(long.clone()), Some("é\u{fffd}".to_owned())]);
    let endless = "n".repeat(20_000);
    let found = names(&[symbol(0, 8, GLOBAL, FUNC, &endless)], false, &[0]);
    let found = found[0].as_ref().expect("it has a name");
    assert!(found.starts_with(&long) && found.len() < 4_100, "as long as any name is: {}", found.len());
}

/// Each byte of the file in turn: names are those that were, others or none.
#[test]
fn a_table_that_is_damaged_has_an_answer() {
    let made = [symbol(0, 0x20, GLOBAL, FUNC, "first"), symbol(0x20, 0x10, WEAK, FUNC, "second")];
    let (bytes, code) = file(&made, false);
    for at in 0..bytes.len() {
        for value in [0, 0xff, bytes[at] ^ 1] {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            let mut symbolizer = Symbolizer::new(Options::default(), Arc::new(ElfCache::default()));
            let asked = [Svma(code), Svma(code + 0x24), Svma(0), Svma(u64::MAX)];
            let found = symbolizer.elf(&ModuleSource::vdso(bytes), &asked);
            assert_eq!(found.len(), 4);
            assert!(found[3].is_none(), "the last address is nobody's");
        }
    }
}
