//! The recorded processes: what is mapped where, which threads there are.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use biopsy_model::module::{Module, ModuleHandle, ModuleKind};
use biopsy_model::process::ThreadInfo;
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace};
use biopsy_model::timeline::TimelineEvent;
use biopsy_model::{Avma, FileOffset, LookupAddress, MonoNanos, Pid, Tid};
use biopsy_stacks::elf::{ElfCache, ElfFile};
use biopsy_stacks::unwind::{CompiledCode, ExecutableMapping, ProcessUnwinder};
use rustc_hash::FxHashMap;

use super::intern::Interner;
use super::managed::{KnownRules, Rules};
use super::maps::{self, MapsEntry};
use super::sink::Sink;

/// Unknown addresses make the maps be read again, at most this often.
const REREAD_NANOS: u64 = 1_000_000_000;

/// One process that is recorded.
#[derive(Debug)]
pub(crate) struct Process {
    unwinder: ProcessUnwinder,
    mappings: Vec<(ExecutableMapping, Option<Arc<ElfFile>>)>,
    /// All its executable memory that belongs to no file.
    jit: Option<ModuleHandle>,
    maps_read: u64,
    /// How frames of managed code unwind.
    rules: Arc<Rules>,
}

/// What the thread of managed code should know of a process.
#[derive(Debug)]
pub(crate) enum ProcessChange {
    /// It is recorded from now on.
    Started(u32, Arc<Rules>),
    /// It executes another program.
    Exec(u32),
    /// It has ended.
    Exited(u32),
    /// It began as a copy of another one.
    Forked { parent: u32, child: u32 },
}

/// Frames that may be managed code, each with its process, and the others.
pub(crate) type SplitFrames = (Vec<(u32, FrameHandle, Frame)>, Vec<(FrameHandle, Frame)>);

/// All of them.
#[derive(Debug)]
pub(crate) struct Processes {
    by_pid: FxHashMap<u32, Process>,
    /// tid → pid of every live thread.
    threads: FxHashMap<u32, u32>,
    elf: Arc<ElfCache>,
    kernel: ModuleHandle,
    /// Modules by handle, for the symboliser.
    pub(crate) defined: Vec<DefinedModule>,
    /// Since they were taken last.
    pub(crate) changes: Vec<ProcessChange>,
    unreadable: HashSet<String>,
}

/// What is known of a module beyond what the timeline says.
#[derive(Clone, Debug)]
pub(crate) struct DefinedModule {
    pub(crate) pid: u32,
    pub(crate) kind: ModuleKind,
    pub(crate) path: String,
    pub(crate) candidates: Vec<PathBuf>,
    pub(crate) file: Option<Arc<ElfFile>>,
    /// The vdso's bytes.
    pub(crate) image: Option<Arc<[u8]>>,
}

impl Processes {
    pub(crate) fn new(interner: &mut Interner, sink: &mut Sink, now: u64) -> io::Result<Self> {
        let kernel = interner.module(
            Module {
                pid: Pid(0),
                kind: ModuleKind::Kernel,
                path: "[kernel.kallsyms]".to_owned(),
                build_id: None,
                start: Avma(0),
                end: Avma(0),
                offset: FileOffset(0),
                since: MonoNanos(now),
                deleted: false,
            },
            sink,
        )?;
        let defined = DefinedModule {
            pid: 0,
            kind: ModuleKind::Kernel,
            path: String::new(),
            candidates: Vec::new(),
            file: None,
            image: None,
        };
        Ok(Self {
            by_pid: FxHashMap::default(),
            threads: FxHashMap::default(),
            elf: Arc::new(ElfCache::new(biopsy_stacks::elf::Limits::default())),
            kernel,
            defined: vec![defined],
            changes: Vec::new(),
            unreadable: HashSet::new(),
        })
    }

    /// Starts with a process that is there: its threads and mappings as `/proc` shows them.
    pub(crate) fn add(
        &mut self,
        pid: u32,
        interner: &mut Interner,
        sink: &mut Sink,
        now: u64,
    ) -> io::Result<()> {
        self.insert(pid, Process::new(pid));
        match task_ids(pid) {
            Ok(tids) => {
                for tid in tids {
                    self.thread_started(pid, tid, None, now, sink)?;
                }
            }
            Err(error) => {
                let message = format!(
                    "threads of process {pid} that never run are not known: they cannot be listed: {error}"
                );
                sink.warn("trace.threads-unknown", message, None)?;
            }
        }
        self.read_maps(pid, interner, sink, now)
    }

    /// A recorded process made another one, which starts as a copy of it.
    pub(crate) fn fork(&mut self, pid: u32, parent: u32, time: u64, sink: &mut Sink) -> io::Result<()> {
        let mut child = Process::new(pid);
        if let Some(parent) = self.by_pid.get(&parent) {
            for (mapping, file) in &parent.mappings {
                child.unwinder.add_module(mapping, file.clone());
            }
            child.mappings.clone_from(&parent.mappings);
            child.jit = parent.jit;
        }
        self.insert(pid, child);
        self.changes.push(ProcessChange::Forked { parent, child: pid });
        let (time, pid, parent) = (MonoNanos(time), Pid(pid), Pid(parent));
        sink.push(&TimelineEvent::ProcessStart { time, pid, parent })
    }

    fn insert(&mut self, pid: u32, process: Process) {
        self.changes.push(ProcessChange::Started(pid, Arc::clone(&process.rules)));
        self.by_pid.insert(pid, process);
    }

    /// It executes another program: nothing of its memory is left.
    pub(crate) fn exec(&mut self, pid: u32) {
        if let Some(process) = self.by_pid.get_mut(&pid) {
            process.unwinder.clear();
            process.unwinder.set_compiled(Some(Box::new(KnownRules(Arc::clone(&process.rules)))));
            // The descriptor meant the memory that is gone.
            process.unwinder.read_code_from(biopsy_files::open_kernels(format!("/proc/{pid}/mem")).ok());
            process.mappings.clear();
            process.jit = None;
            process.maps_read = 0;
            self.changes.push(ProcessChange::Exec(pid));
        }
    }

    /// Who knows how code outside of files unwinds.
    pub(crate) fn set_compiled(&mut self, pid: u32, code: Box<dyn CompiledCode>) {
        if let Some(process) = self.by_pid.get_mut(&pid) {
            process.unwinder.set_compiled(Some(code));
        }
    }

    /// Whether a module is executable memory that belongs to no file.
    pub(crate) fn is_anonymous(&self, module: Option<ModuleHandle>) -> bool {
        let defined = module.and_then(|module| self.defined.get(module.0 as usize));
        defined.is_some_and(|module| module.kind == ModuleKind::Jit)
    }

    /// New rules of managed code are there for a process.
    pub(crate) fn rules_changed(&mut self, pid: u32) {
        if let Some(process) = self.by_pid.get_mut(&pid) {
            process.unwinder.forget_compiled();
        }
    }

    /// The processes in which code was met whose rules are not known.
    pub(crate) fn rules_wanted(&self) -> impl Iterator<Item = u32> {
        self.by_pid.iter().filter(|(_, process)| process.rules.has_wanted()).map(|(&pid, _)| pid)
    }

    pub(crate) fn contains(&self, pid: u32) -> bool {
        self.by_pid.contains_key(&pid)
    }

    pub(crate) fn elf_cache(&self) -> Arc<ElfCache> {
        Arc::clone(&self.elf)
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.by_pid.keys().copied().collect()
    }

    pub(crate) fn process_of(&self, tid: u32) -> Option<u32> {
        self.threads.get(&tid).copied()
    }

    pub(crate) fn unwinder(&mut self, pid: u32) -> Option<&mut ProcessUnwinder> {
        self.by_pid.get_mut(&pid).map(|process| &mut process.unwinder)
    }

    pub(crate) fn thread_count(&self) -> usize {
        self.threads.len()
    }

    /// A thread is there; `by`: born now, made by that thread.
    pub(crate) fn thread_started(
        &mut self,
        pid: u32,
        tid: u32,
        by: Option<u32>,
        time: u64,
        sink: &mut Sink,
    ) -> io::Result<()> {
        if by.is_none() && self.threads.contains_key(&tid) {
            return Ok(());
        }
        self.threads.insert(tid, pid);
        let name = thread_name(pid, tid).unwrap_or_default();
        sink.push(&TimelineEvent::ThreadStart {
            time: MonoNanos(time),
            thread: ThreadInfo { tid: Tid(tid), pid: Pid(pid), name },
            born: by.is_some(),
            by: by.map(Tid),
        })
    }

    /// Whether no other thread of the process is there.
    pub(crate) fn is_last(&self, pid: u32, tid: u32) -> bool {
        !self.threads.iter().any(|(other, of)| *of == pid && *other != tid)
    }

    /// A thread ended. Returns true when it was the last one of its process.
    pub(crate) fn thread_ended(
        &mut self,
        pid: u32,
        tid: u32,
        time: u64,
        sink: &mut Sink,
    ) -> io::Result<bool> {
        if self.threads.remove(&tid).is_none() {
            return Ok(false);
        }
        let time = MonoNanos(time);
        sink.push(&TimelineEvent::ThreadExit { time, tid: Tid(tid), pid: Pid(pid) })?;
        if self.threads.values().any(|&of| of == pid) {
            return Ok(false);
        }
        self.by_pid.remove(&pid);
        self.changes.push(ProcessChange::Exited(pid));
        sink.push(&TimelineEvent::ProcessExit { time, pid: Pid(pid) })?;
        Ok(true)
    }

    /// Executable memory appeared.
    pub(crate) fn mapped(
        &mut self,
        pid: u32,
        entry: &MapsEntry,
        time: u64,
        interner: &mut Interner,
        sink: &mut Sink,
    ) -> io::Result<()> {
        let Some(process) = self.by_pid.get(&pid) else { return Ok(()) };
        let kind = entry.kind();
        let path = entry.display_path();
        let mut image = None;
        let (file, candidates) = match kind {
            ModuleKind::Elf | ModuleKind::OtherFile => {
                let candidates = maps::candidates(pid, entry);
                match self.elf.open(&path, &candidates) {
                    Ok(file) => (Some(file), candidates),
                    Err(error) => {
                        let other = maps::is_another_format(&candidates);
                        let is_told = kind == ModuleKind::Elf && !other && !entry.is_ours();
                        if is_told && self.unreadable.insert(path.clone()) {
                            let message = format!(
                                "`{path}` of process {pid} cannot be read: its frames have no names: {error}"
                            );
                            sink.warn("trace.module-unreadable", message, None)?;
                        }
                        (None, candidates)
                    }
                }
            }
            ModuleKind::Vdso => {
                image = maps::read_vdso(pid, entry);
                let file = image
                    .clone()
                    .and_then(|bytes| ElfFile::from_bytes("[vdso]", bytes, self.elf.limits()).ok());
                (file.map(Arc::new), Vec::new())
            }
            ModuleKind::Jit | ModuleKind::Kernel | ModuleKind::Source => (None, Vec::new()),
        };
        // A program in one file holds assemblies behind its ELF image: what is mapped of them is no ELF code.
        let file = file.filter(|file| {
            file.svma_of_offset(FileOffset(entry.offset)).is_some() || kind == ModuleKind::Vdso
        });
        let kind = if kind == ModuleKind::Elf && file.is_none() { ModuleKind::OtherFile } else { kind };
        let known_jit = if kind == ModuleKind::Jit { process.jit } else { None };
        let handle = match known_jit {
            Some(handle) => handle,
            None => {
                let module = Module {
                    pid: Pid(pid),
                    kind,
                    path: if kind == ModuleKind::Jit { "[jit]".to_owned() } else { path.clone() },
                    build_id: file.as_ref().and_then(|file| file.build_id()).map(<[u8]>::to_vec),
                    start: Avma(entry.start),
                    end: Avma(entry.end),
                    offset: FileOffset(entry.offset),
                    since: MonoNanos(time),
                    deleted: entry.deleted,
                };
                self.defined.push(DefinedModule { pid, kind, path, candidates, file: file.clone(), image });
                interner.module(module, sink)?
            }
        };
        let mapping = ExecutableMapping {
            start: Avma(entry.start),
            end: Avma(entry.end),
            file_offset: FileOffset(entry.offset),
            tag: handle.0,
        };
        let Some(process) = self.by_pid.get_mut(&pid) else { return Ok(()) };
        if kind == ModuleKind::Jit {
            process.jit = Some(handle);
        }
        process.unwinder.add_module(&mapping, file.clone());
        process.mappings.retain(|(old, _)| old.end <= mapping.start || mapping.end <= old.start);
        process.mappings.push((mapping, file));
        Ok(())
    }

    /// Defines a source file of a language whose frames have no addresses.
    pub(crate) fn source_module(
        &mut self,
        pid: u32,
        path: &str,
        interner: &mut Interner,
        sink: &mut Sink,
    ) -> io::Result<ModuleHandle> {
        let module = Module {
            pid: Pid(pid),
            kind: ModuleKind::Source,
            path: path.to_owned(),
            build_id: None,
            start: Avma(0),
            end: Avma(0),
            offset: FileOffset(0),
            since: MonoNanos(biopsy_sys::clock::monotonic_nanos()),
            deleted: false,
        };
        self.defined.push(DefinedModule {
            pid,
            kind: ModuleKind::Source,
            path: path.to_owned(),
            candidates: Vec::new(),
            file: None,
            image: None,
        });
        interner.module(module, sink)
    }

    /// Reads `/proc/PID/maps` and adds what is not known yet.
    pub(crate) fn read_maps(
        &mut self,
        pid: u32,
        interner: &mut Interner,
        sink: &mut Sink,
        now: u64,
    ) -> io::Result<()> {
        let Some(process) = self.by_pid.get_mut(&pid) else { return Ok(()) };
        process.maps_read = now;
        let entries = match maps::read(pid) {
            Ok(entries) => entries,
            Err(error) => {
                let message = format!("the memory map of process {pid} cannot be read: {error}");
                return sink.warn("trace.maps-unreadable", message, None);
            }
        };
        for entry in entries {
            let known = self.by_pid.get(&pid).is_some_and(|process| {
                process.mappings.iter().any(|(mapping, _)| {
                    mapping.start.0 == entry.start
                        && mapping.end.0 == entry.end
                        && mapping.file_offset.0 == entry.offset
                })
            });
            if !known {
                self.mapped(pid, &entry, now, interner, sink)?;
            }
        }
        Ok(())
    }

    /// An address lies in no known mapping: has the record of it been lost? Looks again, now and then.
    pub(crate) fn heal(
        &mut self,
        pid: u32,
        address: u64,
        now: u64,
        interner: &mut Interner,
        sink: &mut Sink,
    ) -> io::Result<()> {
        let Some(process) = self.by_pid.get(&pid) else { return Ok(()) };
        if process.unwinder.find(Avma(address)).is_some() || now < process.maps_read + REREAD_NANOS {
            return Ok(());
        }
        self.read_maps(pid, interner, sink, now)
    }

    /// Frames that may be managed code, each with its process, and the others.
    pub(crate) fn split_managed(&self, frames: Vec<(FrameHandle, Frame)>) -> SplitFrames {
        let (mut managed, mut native) = (Vec::new(), Vec::new());
        for (handle, frame) in frames {
            let module = frame.module.and_then(|module| self.defined.get(module.0 as usize));
            match module {
                Some(module) if matches!(module.kind, ModuleKind::Jit | ModuleKind::OtherFile) => {
                    managed.push((module.pid, handle, frame));
                }
                _ => native.push((handle, frame)),
            }
        }
        (managed, native)
    }

    /// The frame at a user address.
    pub(crate) fn user_frame(&self, pid: u32, address: Avma) -> Frame {
        let module = self.by_pid.get(&pid).and_then(|process| process.unwinder.find(address));
        let space = FrameSpace::User;
        match module {
            Some(module) => Frame {
                space,
                module: Some(ModuleHandle(module.tag())),
                address: module.svma(address).map_or_else(|| address.into(), LookupAddress::from),
            },
            None => Frame { space, module: None, address: address.into() },
        }
    }

    /// The frame at a kernel address.
    pub(crate) fn kernel_frame(&self, address: u64) -> Frame {
        Frame { space: FrameSpace::Kernel, module: Some(self.kernel), address: LookupAddress(address) }
    }
}

impl Process {
    fn new(pid: u32) -> Self {
        let mut unwinder = ProcessUnwinder::new();
        // Compiled code has no unwind information: its first instructions are read to see whether a sample fell
        // before the frame pointer was saved. Without the right to, one caller is missing there.
        unwinder.read_code_from(biopsy_files::open_kernels(format!("/proc/{pid}/mem")).ok());
        let rules = Arc::new(Rules::default());
        unwinder.set_compiled(Some(Box::new(KnownRules(Arc::clone(&rules)))));
        Self { unwinder, mappings: Vec::new(), jit: None, maps_read: 0, rules }
    }
}

/// The threads of a process now; none if it is gone. A list that breaks off is an error: it looks like a whole one.
pub(crate) fn task_ids(pid: u32) -> io::Result<Vec<u32>> {
    let listed = std::fs::read_dir(format!("/proc/{pid}/task")).and_then(|tasks| {
        let number = |name: &std::ffi::OsStr| name.to_str().and_then(|name| name.parse().ok());
        tasks.filter_map(|task| task.map(|task| number(&task.file_name())).transpose()).collect()
    });
    match listed {
        Err(error) if is_gone(&error) => Ok(Vec::new()),
        listed => listed,
    }
}

/// It has ended meanwhile.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// A thread's name now.
pub(crate) fn thread_name(pid: u32, tid: u32) -> Option<String> {
    let bytes = biopsy_files::read_kernels(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(&bytes)).into_owned())
}
