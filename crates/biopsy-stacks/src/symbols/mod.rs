//! Names of code addresses.
//!
//! Made to be asked again and again while a recording runs, each time with the addresses that are new: files are read
//! once, perf maps and jitdumps from where they were read last. Then little is left to do when the recording stops.

mod call_names;
mod debug_file;
mod demangle;
mod dwarf;
mod elsewhere;
mod file;
mod file_source;
mod jit_dump;
mod jit_files;
mod kallsyms;
mod mini_debug;
mod nesting;
mod perf_map;
mod plt;
mod problem;
mod source;
mod table;
mod units;
mod variables;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use biopsy_model::module::ModuleKind;
use biopsy_model::symbol::{SymbolSource, place_name};
use biopsy_model::{Avma, Svma};
use rustc_hash::FxHashMap;

pub use demangle::demangle;
pub use elsewhere::{FileSources, FilesElsewhere, Wanted};
pub use kallsyms::KallsymsError;
pub use problem::SymbolProblem;
pub use source::{ModuleSource, Names, Options, Resolved};

use crate::elf::{ElfCache, ElfFile, FileIdentity};
use file::{FileSymbols, Loader};
use jit_dump::JitDump;
use jit_files::JitFiles;
use kallsyms::Kallsyms;
use perf_map::PerfMap;

pub(crate) use call_names::CallNames;
pub(crate) use debug_file::DebugPlaces;
pub(crate) use table::{SymbolTable, find_data};
pub(crate) use variables::{DataSymbol, data_symbols, full_or_dynamic, has_all_symbols};

pub(crate) use dwarf::fuzz as fuzz_dwarf;
pub(crate) use perf_map::fuzz as fuzz_perf_map;

/// Parses arbitrary bytes as `/proc/kallsyms` and looks addresses up in it.
pub(crate) fn fuzz_kallsyms(bytes: &[u8]) {
    if let Ok(kallsyms) = Kallsyms::read(bytes) {
        for address in [0, 1 << 40, 0xffff_ffff_8100_0000, u64::MAX] {
            kallsyms.find(address);
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum FileKey {
    File(FileIdentity),
    Image(Arc<[u8]>),
    /// An open file, by where it is in memory: it is held as long as its names are.
    Open(usize),
}

/// What is known of some addresses in one open file.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) resolved: Vec<Option<Resolved>>,
    pub(crate) starts: Vec<Option<Svma>>,
    pub(crate) names: Names,
}

/// Finds names, and keeps what it read for the next question.
#[derive(Debug)]
pub struct Symbolizer {
    options: Options,
    cache: Arc<ElfCache>,
    files: FxHashMap<FileKey, FileSymbols>,
    /// Which file a source led to; `None`: to nothing that can be read.
    known: FxHashMap<(String, Vec<PathBuf>), Option<FileKey>>,
    kallsyms: Option<Option<Kallsyms>>,
    perf_maps: JitFiles<PerfMap>,
    jit_dumps: JitFiles<JitDump>,
    problems: Vec<SymbolProblem>,
}

impl Symbolizer {
    /// `cache`: the one the unwinders use, so that files are opened once.
    pub fn new(options: Options, cache: Arc<ElfCache>) -> Self {
        Self {
            options,
            cache,
            files: FxHashMap::default(),
            known: FxHashMap::default(),
            kallsyms: None,
            perf_maps: JitFiles::default(),
            jit_dumps: JitFiles::default(),
            problems: Vec::new(),
        }
    }

    /// Names for stated addresses in one file, in the order of the addresses. Without a name, the function is called by where it
    /// begins ([`SymbolSource::FunctionStart`]). `None`: that is not known either, and the frame is shown as module + offset.
    pub fn elf(&mut self, source: &ModuleSource, addresses: &[Svma]) -> Vec<Option<Resolved>> {
        let Some(key) = self.file_key(source) else { return vec![None; addresses.len()] };
        let Some(file) = self.files.get(&key) else { return vec![None; addresses.len()] };
        let start = |svma: &Svma| {
            let name = place_name(&source.path, file.function_start(*svma)?.0);
            Some(Resolved::name(name, SymbolSource::FunctionStart))
        };
        addresses.iter().map(|svma| file.resolve(*svma, &self.options).or_else(|| start(svma))).collect()
    }

    /// Names and function starts for stated addresses in an open file, whose path in the process is `label`. `root`: as in
    /// [`ModuleSource`].
    pub(crate) fn open_file(
        &mut self,
        file: &Arc<ElfFile>,
        label: &str,
        root: Option<&Path>,
        addresses: &[Svma],
    ) -> Found {
        let key = FileKey::Open(Arc::as_ptr(file).addr());
        // A file that is mapped twice is asked twice; what is read of it answers for one list of addresses.
        if let Some(before) = self.files.remove(&key) {
            self.problems.extend(before.take_problem().map(SymbolProblem::from));
        }
        let source = ModuleSource { root: root.map(Path::to_owned), ..ModuleSource::elf(label) };
        self.load(key.clone(), Arc::clone(file), &source, Some(addresses));
        let Some(symbols) = self.files.get(&key) else {
            let count = addresses.len();
            return Found { resolved: vec![None; count], starts: vec![None; count], names: Names::None };
        };
        Found {
            resolved: addresses.iter().map(|svma| symbols.resolve(*svma, &self.options)).collect(),
            starts: addresses.iter().map(|svma| symbols.function_start(*svma)).collect(),
            names: symbols.names(),
        }
    }

    /// Build id of the file of a module that `elf` was asked about, or opens it.
    pub fn build_id(&mut self, source: &ModuleSource) -> Option<Vec<u8>> {
        let key = self.file_key(source)?;
        self.files.get(&key)?.build_id().map(<[u8]>::to_vec)
    }

    /// Names for kernel addresses.
    pub fn kernel(&mut self, addresses: &[Avma]) -> Vec<Option<Resolved>> {
        if self.kallsyms.is_none() {
            let opened = Kallsyms::open(&self.options.kallsyms);
            self.kallsyms = Some(opened.map_err(|error| self.problems.push(error.into())).ok());
        }
        let Some(Some(kallsyms)) = &self.kallsyms else { return vec![None; addresses.len()] };
        let name = |address: &Avma| kallsyms.find(address.0).map(str::to_owned);
        let resolved = |name| Resolved::name(name, SymbolSource::Kallsyms);
        addresses.iter().map(|address| name(address).map(resolved)).collect()
    }

    /// Names for addresses in code of a JIT compiler, from the perf map at `path`: `/proc/PID/root/tmp/perf-NSPID.map`,
    /// with the pid as the target's own namespace has it. `owner`: the target's uid; a map that belongs neither to it
    /// nor to root is not believed. What the runtime appended since the last call is read first.
    pub fn perf_map(&mut self, path: &Path, owner: Option<u32>, addresses: &[Avma]) -> Vec<Option<Resolved>> {
        let map = self.perf_maps.get(path, owner, &mut self.problems);
        let found = |address: &Avma| map?.find(address.0);
        // What looks like the version of a symbol is a path here (`JS:*get /app/node_modules/@scope/x.js`).
        let is_mangled = |name: &str| name.starts_with("_Z") || name.starts_with("_R");
        let readable = |name: String| if is_mangled(&name) { demangle(&name) } else { name };
        let resolved = |name: String| Resolved::name(readable(name), SymbolSource::PerfMap);
        addresses.iter().map(|address| found(address).map(resolved)).collect()
    }

    /// Names and lines for addresses in code of a JIT compiler, from a jitdump file. The compiler maps a page of the
    /// file executable, which is how a recorder learns its path (`jit-PID.dump`).
    pub fn jit_dump(&mut self, path: &Path, owner: Option<u32>, addresses: &[Avma]) -> Vec<Option<Resolved>> {
        let dump = self.jit_dumps.get(path, owner, &mut self.problems);
        let found = |address: &Avma| dump?.find(address.0);
        let resolved = |function| Resolved { functions: vec![function], source: SymbolSource::JitDump };
        addresses.iter().map(|address| found(address).map(resolved)).collect()
    }

    /// What went wrong since the last call. The same thing is told once.
    pub fn take_problems(&mut self) -> Vec<SymbolProblem> {
        let too_deep = self.files.values().filter_map(FileSymbols::take_problem).map(SymbolProblem::from);
        self.problems.extend(too_deep);
        std::mem::take(&mut self.problems)
    }

    fn file_key(&mut self, source: &ModuleSource) -> Option<FileKey> {
        if !matches!(source.kind, ModuleKind::Elf | ModuleKind::Vdso) {
            return None;
        }
        if let Some(image) = &source.image {
            let key = FileKey::Image(Arc::clone(image));
            if !self.files.contains_key(&key) {
                let opened = ElfFile::from_bytes(&source.path, Arc::clone(image), self.cache.limits());
                let file = opened.map_err(|error| self.problems.push(error.into())).ok()?;
                self.load(key.clone(), Arc::new(file), source, None);
            }
            return Some(key);
        }
        let question = (source.path.clone(), source.candidates.clone());
        if let Some(known) = self.known.get(&question) {
            return known.clone();
        }
        let key = self.open(source);
        self.known.insert(question, key.clone());
        key
    }

    fn open(&mut self, source: &ModuleSource) -> Option<FileKey> {
        let opened = self.cache.open(&source.path, &source.candidates);
        let file = opened.map_err(|error| self.problems.push(error.into())).ok()?;
        let replaced =
            source.build_id.as_deref().is_some_and(|mapped| file.build_id().is_some_and(|id| id != mapped));
        if replaced {
            self.problems.push(SymbolProblem::Replaced { path: source.path.clone() });
            return None;
        }
        let key = FileKey::File(file.identity()?);
        if !self.files.contains_key(&key) {
            self.load(key.clone(), file, source, None);
        }
        Some(key)
    }

    /// `only`: nothing else will be asked for.
    fn load(&mut self, key: FileKey, file: Arc<ElfFile>, source: &ModuleSource, only: Option<&[Svma]>) {
        let used: u64 = self.files.values().map(FileSymbols::debug_size).sum();
        let mut errors = Vec::new();
        let mut loader = Loader {
            cache: &self.cache,
            options: &self.options,
            places: DebugPlaces::of(&self.options, source.root.as_deref()),
            only,
            debug_budget: self.options.debug_bytes.saturating_sub(used),
            errors: &mut errors,
        };
        let symbols = FileSymbols::load(file, &source.path, &mut loader);
        self.problems.extend(errors.into_iter().map(SymbolProblem::from));
        self.files.insert(key, symbols);
    }
}
