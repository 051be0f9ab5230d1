//! Where the functions are that hand out memory and take it back: in the C library, in another allocator that is loaded, or in the
//! program that has one built in.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use biopsy_elf::raw::{SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC, Sym64};
use biopsy_elf::{FileHeader, LE, LittleEndian, Section, place_of, read_up_to, rows};
use biopsy_model::Pid;
use biopsy_model::module::ModuleKind;

use super::super::kernel::allocations::Kind;
use super::super::maps::{self, MapsEntry};

/// A function of an allocator.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Function {
    /// The file, by the mapping that it is in: the same one whatever has become of its name.
    pub(crate) path: PathBuf,
    /// Where the function begins in it.
    pub(crate) offset: u64,
    /// What it does.
    pub(crate) kind: Kind,
}

/// Names, as the C and C++ standards and POSIX have them, and what the functions do.
const NAMES: [(&str, Kind); 7] = [
    ("malloc", Kind::Malloc),
    ("calloc", Kind::Calloc),
    ("realloc", Kind::Realloc),
    ("aligned_alloc", Kind::Aligned),
    ("memalign", Kind::Aligned),
    ("posix_memalign", Kind::PosixMemalign),
    ("free", Kind::Free),
];
/// `operator new`, `new[]`, and `delete` in their forms: those of the C++ library call malloc and free, those of other allocators do not.
const OPERATORS: [(&str, Kind); 8] = [
    ("_Znwm", Kind::Malloc),
    ("_Znam", Kind::Malloc),
    ("_ZnwmRKSt9nothrow_t", Kind::Malloc),
    ("_ZnamRKSt9nothrow_t", Kind::Malloc),
    ("_ZdlPv", Kind::Free),
    ("_ZdaPv", Kind::Free),
    ("_ZdlPvm", Kind::Free),
    ("_ZdaPvm", Kind::Free),
];
/// What allocators that are built into a program put before their names: jemalloc, that of Rust programs, mimalloc.
const PREFIXES: [&str; 3] = ["je_", "_rjem_", "mi_"];

/// Most symbols and bytes of names of one file, sections and program headers: those of the largest programs, with room.
const SYMBOL_BYTES: u64 = 256 << 20;
const NAME_BYTES: u64 = 512 << 20;
const HEADERS: u64 = 4096;
const SECTION_NAMES: u64 = 1 << 20;
/// Longer names are of nothing that is looked for.
const LONGEST_NAME: usize = 64;

/// The functions of a process. Empty: it has no allocator that is known by its names.
pub(crate) fn find(pid: Pid) -> io::Result<Vec<Function>> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for entry in maps::read(pid.0)? {
        if entry.kind() == ModuleKind::Elf && seen.insert(entry.path.clone()) {
            let path = PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", entry.start, entry.end));
            // A file that cannot be read has no function that a probe could be set at.
            found.extend(of_file(&path, &entry).unwrap_or_default());
        }
    }
    found.sort();
    found.dedup_by(|a, b| (&a.path, a.offset) == (&b.path, b.offset));
    Ok(found)
}

fn of_file(path: &std::path::Path, entry: &MapsEntry) -> Option<Vec<Function>> {
    let file = biopsy_files::open(path, biopsy_files::Links::Follow).ok()?.file;
    let header = FileHeader::read(&file, 0).ok()?;
    let segments = header.read_segments(&file, HEADERS).ok()?;
    let sections = header.read_sections(&file, HEADERS, SECTION_NAMES).ok()?;
    let mut symbols = Vec::new();
    for table in sections.iter().filter(|section| section.kind == SHT_DYNSYM || section.kind == SHT_SYMTAB) {
        let Some(names) = sections.get(table.link as usize) else { continue };
        of_table(&file, table, names, |name, address| symbols.push((name, address)))?;
    }
    let owner = Owner::of(&entry.path, symbols.iter().any(|(name, _)| name == OF_C_LIBRARY));
    let mut found = Vec::new();
    for (name, address) in &symbols {
        if let Some(kind) = kind_of(name, owner)
            && let Some((offset, _)) = place_of(&segments, *address)
        {
            found.push(Function { path: path.to_owned(), offset, kind });
        }
    }
    // Without something that takes memory back, nothing could be said of what stays.
    found.iter().any(|one: &Function| one.kind == Kind::Free).then_some(found)
}

/// Whose malloc it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    /// That of the C library, in a program that is linked statically, too.
    CLibrary,
    /// A library that replaces it, with `operator new`.
    Allocator,
    /// Any other file, whose `operator new` would call a malloc that is counted.
    Other,
}

/// The C libraries have it, and nobody else.
const OF_C_LIBRARY: &str = "__libc_malloc";

impl Owner {
    fn of(path: &[u8], has_own: bool) -> Self {
        let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        if has_own
            || file.starts_with(b"libc.so")
            || file.starts_with(b"libc-")
            || file.starts_with(b"ld-musl")
        {
            Self::CLibrary
        } else if file.windows(5).any(|part| part == b"alloc") {
            Self::Allocator
        } else {
            Self::Other
        }
    }
}

/// What a function does, by its name.
fn kind_of(name: &str, owner: Owner) -> Option<Kind> {
    let known = |names: &[(&str, Kind)], name: &str| names.iter().find(|one| one.0 == name).map(|one| one.1);
    let bare = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    match (known(&NAMES, bare), owner) {
        // That of the C library calls its own malloc, which is counted, when it is given nothing to grow.
        (Some(Kind::Realloc), Owner::CLibrary) => Some(Kind::ReallocOfCLibrary),
        (Some(kind), _) => Some(kind),
        (None, Owner::Allocator) => known(&OPERATORS, name),
        (None, Owner::CLibrary | Owner::Other) => None,
    }
}

/// Hands over the functions of a symbol table that are defined in this file, with their addresses.
fn of_table(file: &File, table: &Section, names: &Section, mut each: impl FnMut(String, u64)) -> Option<()> {
    let symbols = read_up_to(file, table.offset, table.size.min(SYMBOL_BYTES)).ok()?;
    let names = read_up_to(file, names.offset, names.size.min(NAME_BYTES)).ok()?;
    for symbol in rows::<Sym64<LittleEndian>>(&symbols) {
        let value = symbol.st_value.get(LE);
        if value == 0 || symbol.st_info.st_type() != STT_FUNC || symbol.st_shndx.get(LE) == SHN_UNDEF {
            continue;
        }
        let name = names.get(symbol.st_name.get(LE) as usize..).unwrap_or_default();
        let name =
            name.get(..LONGEST_NAME).unwrap_or(name).split(|&byte| byte == 0).next().unwrap_or_default();
        if let Ok(name) = std::str::from_utf8(name)
            && is_of_interest(name)
        {
            each(name.to_owned(), value);
        }
    }
    Some(())
}

fn is_of_interest(name: &str) -> bool {
    name == OF_C_LIBRARY || kind_of(name, Owner::Allocator).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_told_by_their_names_and_by_whose_they_are() {
        let c = Owner::of(b"/usr/lib/libc.so.6", false);
        let (jemalloc, program) =
            (Owner::of(b"/usr/lib/libjemalloc.so.2", false), Owner::of(b"/bin/x", false));
        assert_eq!(Owner::of(b"/bin/static", true), c);
        for (name, owner, kind) in [
            ("malloc", c, Some(Kind::Malloc)),
            ("je_calloc", program, Some(Kind::Calloc)),
            ("_rjem_realloc", program, Some(Kind::Realloc)),
            ("realloc", c, Some(Kind::ReallocOfCLibrary)),
            ("_Znwm", jemalloc, Some(Kind::Malloc)),
            ("_Znwm", c, None),
            ("_Znwm", program, None),
            ("malloc_usable_size", jemalloc, None),
            ("xmalloc", program, None),
        ] {
            assert_eq!(kind_of(name, owner), kind, "{name}");
        }
    }

    #[test]
    fn those_of_this_process_are_in_its_c_library() {
        // The files of mappings are for those who may look into processes.
        if !biopsy_testkit::require(biopsy_testkit::Privilege::Bpf) {
            return;
        }
        let found = find(Pid(std::process::id())).unwrap();
        for kind in [Kind::Malloc, Kind::Calloc, Kind::Free] {
            assert!(found.iter().any(|one| one.kind == kind), "{kind:?} in {found:?}");
        }
    }
}
