//! Address spaces: what was mapped where in each process, as far as perf wrote it down.

use super::files::{Files, Found, is_file};
use super::record::Mapping;
use biopsy_model::module::{Module, ModuleHandle, ModuleKind};
use biopsy_model::stack::{Frame, FrameSpace};
use biopsy_model::{Avma, FileOffset, LookupAddress, MonoNanos, Pid};
use biopsy_stacks::unwind::{ExecutableMapping, ProcessUnwinder};
use rustc_hash::FxHashMap;

/// The name of the kernel's module.
pub(crate) const KERNEL: &str = "[kernel.kallsyms]";

/// One mapping.
#[derive(Debug)]
struct Known {
    mapping: Mapping,
    since: MonoNanos,
    found: Option<Found>,
    /// Its module, once a frame lies in it.
    module: Option<ModuleHandle>,
}

/// One process: the numbers of its mappings in order, and an unwinder as soon as it is needed.
#[derive(Debug, Default)]
struct Space {
    mappings: Vec<u32>,
    unwinder: Option<ProcessUnwinder>,
}

/// All processes.
#[derive(Debug)]
pub(crate) struct Spaces {
    pub(crate) files: Files,
    mappings: Vec<Known>,
    spaces: FxHashMap<Pid, Space>,
    /// Mapping numbers held by all spaces together.
    held: usize,
    limit: usize,
    pub(crate) modules: Vec<Module>,
    kernel: Option<ModuleHandle>,
    /// Files of modules, where they were found.
    pub(crate) found: FxHashMap<ModuleHandle, Found>,
    pub(crate) build_ids: FxHashMap<String, Vec<u8>>,
    /// Mappings were left out for want of room.
    pub(crate) over_limit: bool,
}

impl Spaces {
    pub(crate) fn new(files: Files, build_ids: FxHashMap<String, Vec<u8>>, limit: usize) -> Spaces {
        Spaces {
            files,
            mappings: Vec::new(),
            spaces: FxHashMap::default(),
            held: 0,
            limit,
            modules: Vec::new(),
            kernel: None,
            found: FxHashMap::default(),
            build_ids,
            over_limit: false,
        }
    }

    pub(crate) fn is_empty(&self, pid: Pid) -> bool {
        self.spaces.get(&pid).is_none_or(|space| space.mappings.is_empty())
    }

    pub(crate) fn map(&mut self, mut mapping: Mapping, time: MonoNanos) {
        if !mapping.executable || mapping.size == 0 {
            return;
        }
        if self.held >= self.limit {
            self.over_limit = true;
            return;
        }
        if mapping.build_id.is_none() {
            mapping.build_id = self.build_ids.get(&mapping.path).cloned();
        }
        let pid = Pid(mapping.pid);
        let number = self.mappings.len() as u32;
        self.mappings.push(Known { mapping, since: time, found: None, module: None });
        self.held += 1;
        let space = self.spaces.entry(pid).or_default();
        space.mappings.push(number);
        if let (Some(unwinder), Some(known)) = (&mut space.unwinder, self.mappings.last_mut()) {
            add(unwinder, known, number, &mut self.files);
        }
    }

    /// A new process begins with what its parent has.
    pub(crate) fn fork(&mut self, parent: Pid, child: Pid) {
        let mappings = self.spaces.get(&parent).map(|space| space.mappings.clone()).unwrap_or_default();
        if self.held + mappings.len() > self.limit {
            self.over_limit = true;
            return;
        }
        self.held += mappings.len();
        let gone = self.spaces.insert(child, Space { mappings, unwinder: None });
        self.held -= gone.map_or(0, |gone| gone.mappings.len());
    }

    /// Forgets what was mapped (exec, exit).
    pub(crate) fn clear(&mut self, pid: Pid) {
        let gone = self.spaces.remove(&pid);
        self.held -= gone.map_or(0, |gone| gone.mappings.len());
    }

    /// The unwinder of a process.
    pub(crate) fn unwinder(&mut self, pid: Pid) -> &mut ProcessUnwinder {
        let space = self.spaces.entry(pid).or_default();
        let (mappings, files) = (&mut self.mappings, &mut self.files);
        space.unwinder.get_or_insert_with(|| {
            let mut unwinder = ProcessUnwinder::new();
            for &number in &space.mappings {
                if let Some(known) = mappings.get_mut(number as usize) {
                    add(&mut unwinder, known, number, files);
                }
            }
            unwinder
        })
    }

    /// The frame at an address of the process.
    pub(crate) fn user_frame(&mut self, pid: Pid, address: Avma) -> Frame {
        let unknown = Frame { space: FrameSpace::User, module: None, address: address.into() };
        let Some((number, svma)) =
            self.unwinder(pid).find(address).map(|module| (module.tag(), module.svma(address)))
        else {
            return unknown;
        };
        let Some(known) = self.mappings.get_mut(number as usize) else { return unknown };
        let kind = kind(&known.mapping.path);
        let module = *known.module.get_or_insert_with(|| {
            let handle = ModuleHandle(self.modules.len() as u32);
            self.modules.push(module(&known.mapping, known.since, kind));
            if let Some(found) = &known.found {
                self.found.insert(handle, found.clone());
            }
            handle
        });
        // Without the file nobody knows what address it states; the offset in the file is the same for most programs.
        let offset = address.0.wrapping_sub(known.mapping.start).wrapping_add(known.mapping.file_offset);
        let address = match kind {
            ModuleKind::Elf | ModuleKind::Vdso => svma.map_or(offset, |svma| svma.0),
            ModuleKind::Kernel | ModuleKind::Jit | ModuleKind::OtherFile | ModuleKind::Source => address.0,
        };
        Frame { module: Some(module), address: LookupAddress(address), ..unknown }
    }

    /// The frame at an address of the kernel.
    pub(crate) fn kernel_frame(&mut self, address: Avma) -> Frame {
        let module = *self.kernel.get_or_insert_with(|| {
            let handle = ModuleHandle(self.modules.len() as u32);
            let mapping = Mapping {
                path: KERNEL.to_owned(),
                start: 1 << 63,
                size: u64::MAX >> 1,
                ..Mapping::default()
            };
            let mut kernel = module(&mapping, MonoNanos(0), ModuleKind::Kernel);
            kernel.build_id = self.build_ids.get(KERNEL).cloned();
            self.modules.push(kernel);
            handle
        });
        Frame { space: FrameSpace::Kernel, module: Some(module), address: address.into() }
    }

    /// Where the kernel's reference symbol was: name and address, from the record perf makes of the kernel itself.
    pub(crate) fn kernel_reference(&self) -> Option<(&str, Avma)> {
        let space = self.spaces.get(&Pid(u32::MAX))?;
        let known = space.mappings.iter().filter_map(|&number| self.mappings.get(number as usize));
        known
            .filter_map(|known| {
                let symbol = known.mapping.path.strip_prefix(KERNEL)?;
                (!symbol.is_empty()).then_some((symbol, Avma(known.mapping.file_offset)))
            })
            .next()
    }
}

fn add(unwinder: &mut ProcessUnwinder, known: &mut Known, number: u32, files: &mut Files) {
    known.found = files.find(&known.mapping);
    let mapping = ExecutableMapping {
        start: Avma(known.mapping.start),
        end: Avma(known.mapping.start.saturating_add(known.mapping.size)),
        file_offset: FileOffset(known.mapping.file_offset),
        tag: number,
    };
    unwinder.add_module(&mapping, known.found.as_ref().map(|found| found.file.clone()));
}

fn kind(path: &str) -> ModuleKind {
    match path {
        "[vdso]" => ModuleKind::Vdso,
        path if is_file(path) => ModuleKind::Elf,
        _ => ModuleKind::Jit,
    }
}

fn module(mapping: &Mapping, since: MonoNanos, kind: ModuleKind) -> Module {
    let deleted = mapping.path.ends_with(" (deleted)");
    Module {
        pid: Pid(if kind == ModuleKind::Kernel { 0 } else { mapping.pid }),
        kind,
        path: if kind == ModuleKind::Jit { "[jit]".to_owned() } else { mapping.path.clone() },
        build_id: mapping.build_id.clone(),
        start: Avma(mapping.start),
        end: Avma(mapping.start.saturating_add(mapping.size)),
        offset: FileOffset(mapping.file_offset),
        since,
        deleted,
    }
}
