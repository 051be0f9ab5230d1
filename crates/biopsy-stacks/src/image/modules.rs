//! Which code lies where in an image, and where its unwind information and names come from.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use biopsy_elf::raw::ELFMAG;
use biopsy_image::process::auxiliary;
use biopsy_image::{Backing, Image, ImageModule, Mapping, MemoryExt, Protection, mapping};
use biopsy_model::module::ModuleKind;
use biopsy_model::{Avma, FileOffset};
use rustc_hash::{FxHashMap, FxHashSet};

use super::options::Options;
use crate::elf::{ElfCache, ElfFile, Parts};
use crate::symbols::Names;
use crate::unwind::{ExecutableMapping, ProcessUnwinder};

/// The vdso has two to four pages.
const VDSO: usize = 64 << 10;
/// Unwind information and symbols of all modules that are copied from the image, in bytes: a browser has 100 MB of them.
/// Mappings of a hostile dump may all lead to the same memory.
const COPIED: u64 = 512 << 20;
/// More modules than any process has; their number comes from the dump.
const MODULES: usize = 1 << 16;

/// Code of one file, or of a runtime, or the vdso.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeModule {
    /// What kind of code.
    pub kind: ModuleKind,
    /// Path as the process saw it, made UTF-8 lossily; `[vdso]`; empty for memory without a name.
    pub path: String,
    /// Lowest address that is mapped.
    pub start: Avma,
    /// Behind the highest.
    pub end: Avma,
    /// GNU build id, from the image's memory, or from the file where the image has none.
    pub build_id: Option<Vec<u8>>,
    /// The file of this machine at that path.
    pub file: LocalFile,
    /// Headers, unwind information or symbols were read from the image's memory.
    pub from_memory: bool,
    /// What names of its functions come from.
    pub names: Names,
    /// Its name was gone when it was looked at.
    pub deleted: bool,
}

/// What became of the file of this machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LocalFile {
    /// Not a file.
    None,
    /// There was no folder to look for it in.
    NotLooked,
    /// There is none, or it is not ELF.
    Missing,
    /// The same build id, or the same headers.
    Same,
    /// None at its path, but one with its build id was got from elsewhere.
    Fetched,
    /// Another one: not used.
    Different,
    /// The image has nothing to compare it with: not used.
    Unverified,
}

/// Modules and an unwinder that knows them.
pub(super) struct Code {
    pub(super) unwinder: ProcessUnwinder,
    pub(super) modules: Vec<CodeModule>,
    pub(super) files: Vec<Option<Arc<ElfFile>>>,
    /// There were more than are looked at.
    pub(super) too_many: bool,
    /// Bytes that may still be copied from the image.
    room: u64,
}

impl Code {
    pub(super) fn gather(image: &dyn Image, options: &Options<'_>, cache: &ElfCache) -> Self {
        let mut code = Self {
            unwinder: ProcessUnwinder::new(),
            modules: Vec::new(),
            files: Vec::new(),
            too_many: false,
            room: COPIED,
        };
        code.mappings(image, options, cache);
        code.modules_without_mappings(image, options, cache);
        code.vdso(image, cache);
        code
    }

    fn mappings(&mut self, image: &dyn Image, options: &Options<'_>, cache: &ElfCache) {
        let mut room = self.room;
        // gdb leaves text out of its cores altogether, and then no mapping of the file is executable: its headers can
        // say which is code.
        let paths =
            image.mappings().iter().filter(|mapping| mapping.protection.execute).filter_map(Mapping::path);
        let with_code: FxHashSet<&[u8]> = paths.collect();
        let mut loads: FxHashMap<(&[u8], u64), Load> = FxHashMap::default();
        let mut bases: FxHashMap<&[u8], (u64, u64)> = FxHashMap::default();
        for mapping in image.mappings() {
            let Backing::File { path, offset, .. } = &mapping.backing else {
                let code = mapping.protection.execute && !is_vdso(mapping) && !is_vsyscall(mapping);
                if code && let Some(index) = self.nameless(mapping) {
                    self.add(index, mapping);
                }
                continue;
            };
            let start = base(&mut bases, image.modules(), mapping, path, *offset);
            let told = mapping.protection.execute;
            if !told && (mapping.protection.write || with_code.contains(path.as_slice())) {
                continue;
            }
            if loads.len() >= MODULES && !loads.contains_key(&(path.as_slice(), start)) {
                self.too_many = true;
                continue;
            }
            let load = loads.entry((path, start)).or_insert_with(|| {
                let hint = module_at(image, mapping.start);
                let (module, file) = file_module(image, options, cache, path, start, hint, &mut room);
                Load::Prepared(Box::new(module), file)
            });
            // Files of managed code are not ELF, and what a runtime compiles is in a file that is memory.
            let managed = load.file(&self.files).is_none() && may_be_managed(path);
            let code = load.file(&self.files).is_some_and(|file| is_code(file, *offset));
            if !(told || code || managed) {
                continue;
            }
            if let Load::Prepared(module, file) = load {
                let Some(index) = self.push(CodeModule::clone(module), file.take()) else { break };
                *load = Load::Pushed(index);
            }
            if let Load::Pushed(index) = *load {
                self.add(index, mapping);
            }
        }
        self.room = room;
    }

    fn add(&mut self, index: usize, mapping: &Mapping) {
        let offset = match &mapping.backing {
            Backing::File { offset, .. } => *offset,
            _ => 0,
        };
        let Some(module) = self.modules.get_mut(index) else { return };
        module.start = module.start.min(Avma(mapping.start));
        module.end = module.end.max(Avma(mapping.end));
        let executable = ExecutableMapping {
            start: Avma(mapping.start),
            end: Avma(mapping.end),
            file_offset: FileOffset(offset),
            tag: index as u32,
        };
        self.unwinder.add_module(&executable, self.files.get(index).cloned().flatten());
    }

    /// Modules of a dump that does not list mappings, or lists none of code (minidumps).
    fn modules_without_mappings(&mut self, image: &dyn Image, options: &Options<'_>, cache: &ElfCache) {
        let mut known: Vec<(u64, u64)> =
            self.modules.iter().map(|module| (module.start.0, module.end.0)).collect();
        known.sort_unstable();
        for module in image.modules() {
            let after = known.partition_point(|(start, _)| *start < module.end);
            let covered = after
                .checked_sub(1)
                .and_then(|last| known.get(last))
                .is_some_and(|(_, end)| *end > module.start);
            // A module whose mappings are listed and none of which is code (a .NET assembly) has none.
            let mapping = mapping::find(image.mappings(), module.start);
            let listed = mapping.is_some_and(|mapping| mapping.protection != Protection::default());
            if covered || (listed && !module.is_elf) {
                continue;
            }
            let hint = Some(module);
            let (made, file) =
                file_module(image, options, cache, &module.path, module.start, hint, &mut self.room);
            let Some(index) = self.push(made, file) else { return };
            if let Some(made) = self.modules.get_mut(index) {
                made.end = Avma(module.end);
            }
            let whole = ExecutableMapping {
                start: Avma(module.start),
                end: Avma(module.end),
                file_offset: FileOffset(0),
                tag: index as u32,
            };
            let Some(file) = self.files.get(index).cloned().flatten() else {
                self.unwinder.add_module(&whole, None);
                continue;
            };
            let first = file.loads().next().map_or(0, |load| load.address.wrapping_sub(load.offset));
            for load in file.loads().filter(|load| load.is_executable()) {
                let start = module.start.wrapping_add(load.address.wrapping_sub(first));
                let mapping = ExecutableMapping {
                    start: Avma(start),
                    end: Avma(start.saturating_add(load.memory_size).min(module.end)),
                    file_offset: FileOffset(load.offset),
                    tag: index as u32,
                };
                self.unwinder.add_module(&mapping, Some(Arc::clone(&file)));
            }
        }
    }

    /// Up to `length` bytes of code, from the image or from the file.
    pub(super) fn bytes(&self, image: &dyn Image, address: u64, length: usize) -> Vec<u8> {
        if let Ok(bytes) = image.read_up_to(address, length) {
            return bytes;
        }
        let found = self.unwinder.find(Avma(address));
        let code = found.and_then(|found| found.file()?.code_at(found.svma(Avma(address))?.0, length as u64));
        code.unwrap_or_default()
    }

    /// Address of glibc's `__abort_msg`.
    pub(super) fn abort_message(&self) -> Option<Avma> {
        self.modules.iter().zip(&self.files).find_map(|(module, file)| {
            if !module.name().starts_with("libc.so") && !module.name().starts_with("libc-") {
                return None;
            }
            let file = file.as_ref()?;
            let svma = crate::symbols::find_data(file, "__abort_msg")?;
            let first = file.loads().next().map_or(0, |load| load.address.wrapping_sub(load.offset));
            Some(Avma(module.start.0.wrapping_add(svma.wrapping_sub(first))))
        })
    }

    fn push(&mut self, module: CodeModule, file: Option<Arc<ElfFile>>) -> Option<usize> {
        if self.modules.len() >= MODULES {
            self.too_many = true;
            return None;
        }
        self.modules.push(module);
        self.files.push(file);
        Some(self.modules.len() - 1)
    }

    fn nameless(&mut self, mapping: &Mapping) -> Option<usize> {
        let label = match &mapping.backing {
            Backing::Anonymous { label } | Backing::Kernel { label } => label.clone(),
            Backing::File { .. } | Backing::Unknown => String::new(),
        };
        self.push(
            CodeModule { path: label, ..CodeModule::new(ModuleKind::Jit, mapping.start, mapping.end) },
            None,
        )
    }

    fn vdso(&mut self, image: &dyn Image, cache: &ElfCache) {
        let mapping = image.mappings().iter().find(|mapping| is_vdso(mapping));
        let stated = image.process().auxiliary.iter().find(|(kind, _)| *kind == auxiliary::SYSINFO_EHDR);
        let Some(start) = mapping.map(|mapping| mapping.start).or(stated.map(|(_, value)| *value)) else {
            return;
        };
        let mut bytes = vec![0; mapping.map_or(VDSO, |found| VDSO.min(found.size() as usize))];
        let there = image.read_available(start, &mut bytes);
        bytes.truncate(there);
        let end = start.saturating_add((bytes.len() as u64).max(4096));
        let file = ElfFile::from_bytes("[vdso]", bytes, cache.limits()).ok().map(Arc::new);
        let module = CodeModule {
            path: String::from("[vdso]"),
            build_id: file.as_ref().and_then(|file| file.build_id().map(<[u8]>::to_vec)),
            from_memory: file.is_some(),
            ..CodeModule::new(ModuleKind::Vdso, start, end)
        };
        let Some(index) = self.push(module, file.clone()) else { return };
        let mapping = ExecutableMapping {
            start: Avma(start),
            end: Avma(end),
            file_offset: FileOffset(0),
            tag: index as u32,
        };
        self.unwinder.add_module(&mapping, file);
    }
}

impl CodeModule {
    fn new(kind: ModuleKind, start: u64, end: u64) -> Self {
        Self {
            kind,
            path: String::new(),
            start: Avma(start),
            end: Avma(end),
            build_id: None,
            file: LocalFile::None,
            from_memory: false,
            names: Names::None,
            deleted: false,
        }
    }

    /// The last part of its path, or what it is.
    #[must_use]
    pub fn name(&self) -> &str {
        match self.path.rsplit('/').next() {
            Some(name) if !name.is_empty() => name,
            _ if self.kind == ModuleKind::Jit => "[compiled code]",
            _ => "[unnamed]",
        }
    }
}

/// One load of a file: pushed when its first code is met.
enum Load {
    Prepared(Box<CodeModule>, Option<Arc<ElfFile>>),
    Pushed(usize),
}

impl Load {
    fn file<'a>(&'a self, files: &'a [Option<Arc<ElfFile>>]) -> Option<&'a ElfFile> {
        match self {
            Self::Prepared(_, file) => file.as_deref(),
            Self::Pushed(index) => files.get(*index)?.as_deref(),
        }
    }
}

/// Where the load that a mapping belongs to begins. A mapping of the file's beginning starts one; dlmopen and some runtimes
/// map a file more than once. So does one far behind the last, unless the module is as large as that: runtimes map parts of
/// a file again anywhere, which made loads of gigabytes. What a runtime compiles into a file of memory is one all the same.
fn base<'a>(
    bases: &mut FxHashMap<&'a [u8], (u64, u64)>,
    modules: &[ImageModule],
    mapping: &Mapping,
    path: &'a [u8],
    offset: u64,
) -> u64 {
    let starts = offset == 0 && !mapping.protection.write;
    let belongs = |start: u64, end: u64| {
        mapping.start.saturating_sub(end) <= mapping::MODULE_GAP
            || mapping::is_memory_file(path)
            || module_of(modules, mapping.start)
                .is_some_and(|module| module.path == path && module.start <= start)
    };
    let start = match bases.get(path) {
        Some(&(start, end)) if mapping.start == end || !starts && belongs(start, end) => start,
        _ => mapping.start,
    };
    bases.insert(path, (start, mapping.end));
    start
}

/// What the file has at `offset` is code.
fn is_code(file: &ElfFile, offset: u64) -> bool {
    file.loads().any(|load| {
        let page_start = load.offset & !0xfff;
        load.is_executable() && (page_start..load.offset.saturating_add(load.file_size)).contains(&offset)
    })
}

/// A mapping whose protection is not known, that may be managed code: assemblies, and the memory that .NET maps a second
/// time to write its code.
fn may_be_managed(path: &[u8]) -> bool {
    path.starts_with(b"/memfd:doublemapper") || path.to_ascii_lowercase().ends_with(b".dll")
}

pub(super) fn file_module(
    image: &dyn Image,
    options: &Options<'_>,
    cache: &ElfCache,
    path: &[u8],
    start: u64,
    hint: Option<&ImageModule>,
    room: &mut u64,
) -> (CodeModule, Option<Arc<ElfFile>>) {
    let name = String::from_utf8_lossy(path).into_owned();
    let read_memory = |address, buffer: &mut [u8]| image.read_available(address, buffer);
    let from_memory = |parts| ElfFile::from_mapped(&name, start, &read_memory, cache.limits(), parts).ok();
    let mapped = from_memory(Parts::Identity);
    let stated = hint.and_then(|hint| hint.build_id.clone());
    let build_id = mapped.as_ref().and_then(|file| file.build_id().map(<[u8]>::to_vec)).or(stated);
    let mut module = CodeModule {
        deleted: hint.is_some_and(|hint| hint.deleted),
        ..CodeModule::new(ModuleKind::Elf, start, start)
    };
    let (file, local) = find_local(options, cache, path, build_id.as_deref(), mapped.as_ref());
    module.file = file;
    let mut magic = ELFMAG;
    let other = image.read_available(start, &mut magic) == 4 && magic != ELFMAG || may_be_managed(path);
    if mapped.is_none() && local.is_none() && other {
        module.kind = ModuleKind::OtherFile;
    }
    module.build_id =
        build_id.or_else(|| local.as_ref().and_then(|file| file.build_id().map(<[u8]>::to_vec)));
    module.from_memory = local.is_none() && mapped.is_some();
    let parts = if *room > 0 { Parts::All } else { Parts::Identity };
    let file = local.or_else(|| mapped.and_then(|_| from_memory(parts)).map(Arc::new));
    *room = room.saturating_sub(file.as_ref().map_or(0, |file| file.held_bytes()));
    module.path = name;
    (module, file)
}

fn is_vdso(mapping: &Mapping) -> bool {
    matches!(&mapping.backing, Backing::Kernel { label } if label == "[vdso]")
}

fn is_vsyscall(mapping: &Mapping) -> bool {
    mapping.start >= 1 << 63
}

fn module_at(image: &dyn Image, address: u64) -> Option<&ImageModule> {
    module_of(image.modules(), address)
}

fn module_of(modules: &[ImageModule], address: u64) -> Option<&ImageModule> {
    let after = modules.partition_point(|module| module.start <= address);
    modules.get(after.checked_sub(1)?).filter(|module| address < module.end)
}

/// The file of this machine at a path of the process.
fn find_local(
    options: &Options<'_>,
    cache: &ElfCache,
    path: &[u8],
    build_id: Option<&[u8]>,
    mapped: Option<&ElfFile>,
) -> (LocalFile, Option<Arc<ElfFile>>) {
    let Ok(path) = std::str::from_utf8(path) else { return (LocalFile::Missing, None) };
    // Names of memory (`/memfd:x`, `/SYSV00000000`, `[...]`) lead nowhere; `/proc` and `/dev` are not where programs lie.
    let foreign = !path.starts_with('/') || path.starts_with("/proc/") || path.starts_with("/dev/");
    if foreign {
        return (LocalFile::Missing, None);
    }
    let fetched = || {
        let file = cache.open_by_id(path, options.programs.get(build_id?)?).ok()?;
        (file.build_id() == build_id).then_some(file)
    };
    if options.roots.is_empty() {
        return fetched().map_or((LocalFile::NotLooked, None), |file| (LocalFile::Fetched, Some(file)));
    }
    let candidates: Vec<PathBuf> = options.roots.iter().map(|root| below(root, Path::new(path))).collect();
    let mut worst = LocalFile::Missing;
    for candidate in &candidates {
        let Ok(file) = cache.open(path, std::slice::from_ref(candidate)) else { continue };
        let same = match (build_id, file.build_id()) {
            (Some(wanted), Some(found)) => Some(wanted == found),
            (Some(_), None) => Some(false),
            _ => mapped.map(|mapped| mapped.same_headers(&file)),
        };
        match same {
            Some(true) => return (LocalFile::Same, Some(file)),
            Some(false) => worst = LocalFile::Different,
            None => worst = LocalFile::Unverified,
        }
    }
    fetched().map_or((worst, None), |file| (LocalFile::Fetched, Some(file)))
}

/// `path` as seen below `root`; `..` does not lead out.
fn below(root: &Path, path: &Path) -> PathBuf {
    let mut joined = root.to_owned();
    joined.extend(path.components().filter(|part| matches!(part, Component::Normal(_))));
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_file_that_is_mapped_far_away_is_a_load_of_its_own() {
        const GIB: u64 = 1 << 30;
        let mapping = |start: u64, offset: u64| Mapping {
            start,
            end: start + 0x1000,
            protection: Protection { read: true, write: false, execute: true },
            shared: false,
            backing: Backing::File {
                path: b"/opt/program".to_vec(),
                offset,
                deleted: false,
                identity: (0, 0),
            },
            not_frozen: false,
        };
        let module = |start, end| ImageModule {
            start,
            end,
            path: b"/opt/program".to_vec(),
            build_id: None,
            bias: start,
            is_elf: true,
            deleted: false,
        };
        let loads = |path: &'static [u8], modules: &[ImageModule]| {
            let mut bases = FxHashMap::default();
            [(GIB, 0), (GIB + 0x2000, 0x1000), (3 * GIB, 0x2000), (3 * GIB + 0x1000, 0x3000)]
                .map(|(start, offset)| base(&mut bases, modules, &mapping(start, offset), path, offset))
        };
        assert_eq!(loads(b"/opt/program", &[]), [GIB, GIB, 3 * GIB, 3 * GIB]);
        let small = [module(GIB, GIB + 0x3000), module(3 * GIB, 3 * GIB + 0x2000)];
        assert_eq!(loads(b"/opt/program", &small), [GIB, GIB, 3 * GIB, 3 * GIB]);
        assert_eq!(loads(b"/opt/program", &[module(GIB, 4 * GIB)]), [GIB; 4], "its headers say so");
        assert_eq!(loads(b"/memfd:doublemapper", &[]), [GIB; 4]);
    }
}
