//! Names of what lies at fixed places in the data of an image's modules: global and static variables, tables of virtual functions,
//! variables of threads. And of functions by their first address.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use biopsy_elf::raw::{PF_W, PT_TLS};
use biopsy_image::Image;
use biopsy_model::Avma;
use rustc_hash::FxHashSet;

use super::Options;
use super::modules::file_module;
use crate::elf::{ElfCache, ElfFile, Limits};
use crate::symbols::{
    DataSymbol, DebugPlaces, FileSources, SymbolTable, data_symbols, demangle, full_or_dynamic,
    has_all_symbols,
};

/// More modules than any process has.
const MODULES: usize = 1 << 14;
/// Bytes of symbols that are copied from the image where there are no files.
const COPIED: u64 = 256 << 20;

/// The data of one module.
#[derive(Debug)]
pub struct ModuleVariables {
    /// Path as the process saw it, made UTF-8 lossily.
    pub path: String,
    /// Where its memory is, what the loader adds behind the file included.
    pub range: Range<u64>,
    /// Its parts that can be written, or could until the loader was done.
    pub data: Vec<Range<u64>>,
    /// Bytes before a thread's own pointer (`fs`) in which its variables of threads are, where it is the program itself.
    pub thread_bytes: u64,
    /// It is the program itself.
    pub is_program: bool,
    bias: u64,
    symbols: Vec<DataSymbol>,
    thread: Vec<DataSymbol>,
    functions: Option<SymbolTable>,
}

/// All modules of the image that are ELF files, by address. `sources`: where their files are looked for.
#[must_use]
pub fn variables(image: &dyn Image, sources: &FileSources) -> Vec<ModuleVariables> {
    let options = Options::of(sources);
    let cache = ElfCache::without_links(Limits::default());
    let mut room = COPIED;
    let mut seen = FxHashSet::default();
    let mut all = Vec::new();
    for module in image.modules().iter().filter(|module| module.is_elf).take(MODULES) {
        if !seen.insert(module.start) {
            continue;
        }
        let (_, file) =
            file_module(image, &options, &cache, &module.path, module.start, Some(module), &mut room);
        let Some(file) = file else { continue };
        // A live process is not asked to wait until symbols of debug files are read; who asks others for them has time.
        let separate = options.symbols.elsewhere.is_some() && !has_all_symbols(&file);
        let places = DebugPlaces::of(&options.symbols, options.roots.first().map(PathBuf::as_path));
        let path = String::from_utf8_lossy(&module.path);
        let separate = separate.then(|| places.find(&cache, &file, &path)).flatten();
        all.push(ModuleVariables::of(&file, separate.as_ref(), &path, module.start, module.end));
    }
    let entry = image.process().auxiliary.iter().find(|(kind, _)| *kind == AT_ENTRY).map(|(_, value)| *value);
    for one in &mut all {
        one.is_program = entry.is_some_and(|entry| one.range.contains(&entry));
    }
    all.sort_by_key(|one| one.range.start);
    all
}

/// Where the program begins to run (getauxval(3)).
const AT_ENTRY: u64 = 9;

impl ModuleVariables {
    /// `separate`: its debug file, where that has the symbols.
    fn of(file: &Arc<ElfFile>, separate: Option<&Arc<ElfFile>>, path: &str, start: u64, end: u64) -> Self {
        let named = separate.unwrap_or(file);
        let first = file.loads().next().map_or(0, |load| load.address.wrapping_sub(load.offset) & !0xfff);
        let bias = start.wrapping_sub(first);
        let range_of = |address: u64, size: u64| {
            let start = bias.wrapping_add(address);
            start..start.saturating_add(size)
        };
        let data: Vec<Range<u64>> = file
            .loads()
            .filter(|load| load.flags.contains(PF_W))
            .map(|load| range_of(load.address, load.memory_size))
            .collect();
        let end = data.iter().map(|range| range.end).chain([end]).max().unwrap_or(end);
        let (symbols, mut thread) = data_symbols(named);
        let tls = file.segment(PT_TLS).next();
        let thread_bytes = tls.map_or(0, |tls| {
            tls.memory_size.checked_next_multiple_of(tls.alignment.max(1)).unwrap_or(tls.memory_size)
        });
        // Those of one object file may be listed with a place that is behind the segment.
        thread.retain(|one| one.svma < thread_bytes);
        Self {
            path: path.to_owned(),
            range: start..end,
            data,
            thread_bytes,
            is_program: false,
            bias,
            symbols,
            thread,
            functions: full_or_dynamic(named),
        }
    }

    /// Its file's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The variable that an address is in: its first byte, and its name, readable.
    #[must_use]
    pub fn at(&self, address: Avma) -> Option<(Avma, String)> {
        let one = find(&self.symbols, address.0.wrapping_sub(self.bias))?;
        Some((Avma(one.svma.wrapping_add(self.bias)), readable(&one.name)))
    }

    /// The variable of the threads that is so many bytes behind the beginning of the module's part of a thread's memory.
    #[must_use]
    pub fn of_thread(&self, offset: u64) -> Option<String> {
        find(&self.thread, offset).map(|one| readable(&one.name))
    }

    /// The function that an address is in, readable.
    #[must_use]
    pub fn function(&self, address: Avma) -> Option<String> {
        let name = self.functions.as_ref()?.find(address.0.wrapping_sub(self.bias))?;
        Some(demangle(&name))
    }

    /// There are names of its functions or variables.
    #[must_use]
    pub fn has_names(&self) -> bool {
        !self.symbols.is_empty()
    }
}

/// The symbol that reaches over this place; they are by place.
fn find(symbols: &[DataSymbol], svma: u64) -> Option<&DataSymbol> {
    let after = symbols.partition_point(|one| one.svma <= svma);
    let one = symbols.get(after.checked_sub(1)?)?;
    (svma - one.svma < one.size.max(1)).then_some(one)
}

/// As the programmer wrote it: compilers number variables of functions (`cache.0`, `cache.12`).
fn readable(name: &str) -> String {
    let plain = match name.rsplit_once('.') {
        Some((plain, number))
            if !plain.is_empty()
                && !number.is_empty()
                && number.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            plain
        }
        _ => name,
    };
    demangle(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_the_name_of_what_reaches_over_it() {
        let of = |svma, size, name: &str| DataSymbol { svma, size, name: name.to_owned() };
        let symbols = [of(0x100, 16, "a"), of(0x120, 8, "b"), of(0x128, 0, "c")];
        let name = |svma| find(&symbols, svma).map(|one| one.name.as_str());
        assert_eq!(
            [0xff, 0x100, 0x10f, 0x110, 0x127, 0x128, 0x129].map(name),
            [None, Some("a"), Some("a"), None, Some("b"), Some("c"), None]
        );
    }

    #[test]
    fn numbers_of_the_compiler_are_no_part_of_a_name() {
        for (name, plain) in [
            ("minutes.0", "minutes"),
            ("minutes.12", "minutes"),
            (".0", ".0"),
            ("a.b", "a.b"),
            ("_ZL8sessions", "sessions"),
            ("_ZZ4openvE5cache", "open()::cache"),
        ] {
            assert_eq!(readable(name), plain, "{name}");
        }
    }
}
