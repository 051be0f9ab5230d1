//! Finds the names of frames while the recording runs, on a thread of its own, so that little is left to do at its end.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use biopsy_dotnet::methods::display_perf_map_name;
use biopsy_model::module::ModuleKind;
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace};
use biopsy_model::symbol::{FrameSymbols, Function, SymbolSource};
use biopsy_model::timeline::TimelineEvent;
use biopsy_model::{Avma, Svma};
use biopsy_stacks::elf::ElfCache;
use biopsy_stacks::symbols::{ModuleSource, Options, Resolved, Symbolizer};
use rustc_hash::FxHashMap;

use super::kernel::KernelNames;
use super::processes::DefinedModule;
use super::sink::Sink;

/// At the end, the symboliser gets this long to catch up.
const PATIENCE: Duration = Duration::from_secs(20);

enum Request {
    Modules(Vec<DefinedModule>),
    Frames(Vec<(FrameHandle, Frame)>),
    /// Code that had no name may have one by now: JIT compilers write their maps late.
    TryAgain,
}

#[derive(Default)]
struct Answer {
    symbols: Vec<FrameSymbols>,
    /// Message and hint.
    problems: Vec<(String, Option<&'static str>)>,
}

/// The asking end.
#[derive(Debug)]
pub(crate) struct Names {
    /// `None` while ending.
    requests: Option<Sender<Request>>,
    /// `None` while ending.
    answers: Option<Receiver<Answer>>,
    thread: Option<JoinHandle<()>>,
    modules_sent: usize,
    pending: usize,
}

impl Names {
    /// Starts the thread; it ends with this value. `debug_bytes`: unpacked DWARF that it holds at most.
    pub(crate) fn start(cache: Arc<ElfCache>, debug_bytes: u64) -> io::Result<Self> {
        let (requests, asked) = channel();
        let (tell, answers) = channel();
        let thread = std::thread::Builder::new().name("biopsy-names".to_owned()).spawn(move || {
            let mut finder = Finder::new(cache, debug_bytes);
            while let Ok(request) = asked.recv() {
                let Some(answer) = finder.handle(request) else { continue };
                if tell.send(answer).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self {
            requests: Some(requests),
            answers: Some(answers),
            thread: Some(thread),
            modules_sent: 0,
            pending: 0,
        })
    }

    fn send(&self, request: Request) -> bool {
        self.requests.as_ref().is_some_and(|requests| requests.send(request).is_ok())
    }

    /// Asks for the names of new frames.
    pub(crate) fn ask(&mut self, frames: Vec<(FrameHandle, Frame)>, modules: &[DefinedModule]) {
        if modules.len() > self.modules_sent {
            self.send(Request::Modules(modules[self.modules_sent..].to_vec()));
            self.modules_sent = modules.len();
        }
        if !frames.is_empty() && self.send(Request::Frames(frames)) {
            self.pending += 1;
        }
    }

    /// Writes the names that have been found; with `last`, waits for the rest of them.
    pub(crate) fn write_answers(&mut self, last: bool, sink: &mut Sink) -> io::Result<()> {
        if last && self.send(Request::TryAgain) {
            self.pending += 1;
        }
        let deadline = Instant::now() + PATIENCE;
        while let Some(answers) = &self.answers {
            let answer = if last && self.pending > 0 {
                answers.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
            } else {
                answers.try_recv().ok()
            };
            let Some(answer) = answer else { break };
            self.pending -= 1;
            for symbols in answer.symbols {
                sink.push(&TimelineEvent::Symbols(symbols))?;
            }
            for (message, hint) in answer.problems {
                sink.warn("trace.symbols", message, hint.map(str::to_owned))?;
            }
        }
        if last && self.pending > 0 {
            sink.warn(
                "trace.symbols-late",
                "finding names took too long: some frames have none".to_owned(),
                None,
            )?;
        }
        Ok(())
    }
}

impl Drop for Names {
    /// Waits until the symbol tables are freed: what follows a recording needs the memory.
    fn drop(&mut self) {
        self.requests = None;
        // Nobody waits for what is still to be found: it ends with the next answer, not with the last.
        self.answers = None;
        if let Some(thread) = self.thread.take() {
            // It panicked, or it ended: there is nothing to be done about either.
            let _ = thread.join();
        }
    }
}

struct Finder {
    symbolizer: Symbolizer,
    /// Not there before the first frame of the kernel; `None` within: it does not answer, and its list is read.
    kernel: Option<Option<KernelNames>>,
    modules: Vec<DefinedModule>,
    sources: FxHashMap<u32, ModuleSource>,
    processes: FxHashMap<u32, JitFiles>,
    nameless_jit: Vec<(FrameHandle, Frame)>,
}

/// Where the JIT compiler of a process may say what it compiled.
#[derive(Clone, Default)]
struct JitFiles {
    owner: Option<u32>,
    perf_map: PathBuf,
    jit_dump: Option<PathBuf>,
}

impl Finder {
    fn new(cache: Arc<ElfCache>, debug_bytes: u64) -> Self {
        let options = Options { debug_bytes, ..Options::default() };
        Self {
            symbolizer: Symbolizer::new(options, cache),
            kernel: None,
            modules: Vec::new(),
            sources: FxHashMap::default(),
            processes: FxHashMap::default(),
            nameless_jit: Vec::new(),
        }
    }

    fn handle(&mut self, request: Request) -> Option<Answer> {
        let frames = match request {
            Request::Modules(modules) => {
                self.modules.extend(modules);
                return None;
            }
            Request::Frames(frames) => frames,
            Request::TryAgain => std::mem::take(&mut self.nameless_jit),
        };
        let mut answer = Answer::default();
        let mut by_module: FxHashMap<u32, Vec<(FrameHandle, Frame)>> = FxHashMap::default();
        for (handle, frame) in frames {
            if let Some(module) = frame.module {
                by_module.entry(module.0).or_default().push((handle, frame));
            }
        }
        for (module, frames) in by_module {
            let names = self.names(module, &frames);
            for ((frame, of), resolved) in frames.into_iter().zip(names) {
                match resolved {
                    Some(Resolved { functions, source }) => {
                        answer.symbols.push(FrameSymbols { frame, functions, source });
                    }
                    None if self.is_jit(module) => self.nameless_jit.push((frame, of)),
                    None => {}
                }
            }
        }
        let problems = self.symbolizer.take_problems();
        answer.problems.extend(problems.iter().map(|problem| (problem.to_string(), problem.hint())));
        Some(answer)
    }

    fn is_jit(&self, module: u32) -> bool {
        self.modules.get(module as usize).is_some_and(|module| module.kind == ModuleKind::Jit)
    }

    fn names(&mut self, module: u32, frames: &[(FrameHandle, Frame)]) -> Vec<Option<Resolved>> {
        let Some(defined) = self.modules.get(module as usize) else { return vec![None; frames.len()] };
        let avmas = || frames.iter().map(|(_, frame)| Avma(frame.address.0)).collect::<Vec<_>>();
        match defined.kind {
            ModuleKind::Kernel => {
                debug_assert!(frames.iter().all(|(_, frame)| frame.space == FrameSpace::Kernel));
                self.kernel(&avmas())
            }
            ModuleKind::Elf | ModuleKind::Vdso => {
                let source = self.sources.entry(module).or_insert_with(|| source_of(defined));
                let svmas: Vec<_> = frames.iter().map(|(_, frame)| Svma(frame.address.0)).collect();
                self.symbolizer.elf(source, &svmas)
            }
            ModuleKind::Jit => {
                let pid = defined.pid;
                let addresses = avmas();
                let files = self.jit_files(pid);
                let mut names = match &files.jit_dump {
                    Some(path) => self.symbolizer.jit_dump(path, files.owner, &addresses),
                    None => vec![None; addresses.len()],
                };
                if names.iter().any(Option::is_none) {
                    let second = self.symbolizer.perf_map(&files.perf_map, files.owner, &addresses);
                    for (name, other) in names.iter_mut().zip(second) {
                        *name = name.take().or(other.map(as_written));
                    }
                }
                names
            }
            ModuleKind::OtherFile | ModuleKind::Source => vec![None; frames.len()],
        }
    }

    fn kernel(&mut self, addresses: &[Avma]) -> Vec<Option<Resolved>> {
        let asked = self.kernel.get_or_insert_with(|| {
            let opened = KernelNames::open();
            opened.inspect_err(|error| tracing::debug!(%error, "the kernel does not tell names")).ok()
        });
        let numbers: Vec<u64> = addresses.iter().map(|address| address.0).collect();
        let found = asked.as_ref().and_then(|names| {
            let found = names.find(&numbers);
            found.inspect_err(|error| tracing::debug!(%error, "the kernel does not tell names")).ok()
        });
        let Some(found) = found else {
            self.kernel = Some(None);
            return self.symbolizer.kernel(addresses);
        };
        let resolved = |name| Resolved {
            functions: vec![Function { name, file: None, line: None }],
            source: SymbolSource::Kallsyms,
        };
        found.into_iter().map(|name| name.map(resolved)).collect()
    }

    fn jit_files(&mut self, pid: u32) -> JitFiles {
        let files = self.processes.entry(pid).or_insert_with(|| {
            use std::os::unix::fs::MetadataExt;
            let owner = std::fs::metadata(format!("/proc/{pid}")).ok().map(|meta| meta.uid());
            let inner = inner_pid(pid).unwrap_or(pid);
            let perf_map = PathBuf::from(format!("/proc/{pid}/root/tmp/perf-{inner}.map"));
            JitFiles { owner, perf_map, jit_dump: None }
        });
        if files.jit_dump.is_none() {
            // A JIT compiler maps a page of its dump executable for us to see (tools/perf's jitdump specification).
            files.jit_dump = self
                .modules
                .iter()
                .find(|module| {
                    module.pid == pid && module.path.ends_with(".dump") && module.path.contains("/jit-")
                })
                .map(|module| PathBuf::from(format!("/proc/{pid}/root{}", module.path)));
        }
        files.clone()
    }
}

/// Methods of .NET as the programmer wrote them.
fn as_written(mut resolved: Resolved) -> Resolved {
    for function in &mut resolved.functions {
        if let Some(shown) = display_perf_map_name(&function.name) {
            function.name = shown;
        }
    }
    resolved
}

fn source_of(module: &DefinedModule) -> ModuleSource {
    ModuleSource {
        kind: module.kind,
        path: module.path.clone(),
        candidates: module.candidates.clone(),
        build_id: module.file.as_ref().and_then(|file| file.build_id()).map(<[u8]>::to_vec),
        root: Some(PathBuf::from(format!("/proc/{}/root", module.pid))),
        image: module.image.clone(),
    }
}

/// The pid in the process's own pid namespace: the last number of `NSpid` in proc_pid_status(5).
fn inner_pid(pid: u32) -> Option<u32> {
    let status = biopsy_files::read_kernels(format!("/proc/{pid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find(|line| line.starts_with("NSpid:"))?;
    line.split_whitespace().last()?.parse().ok()
}
