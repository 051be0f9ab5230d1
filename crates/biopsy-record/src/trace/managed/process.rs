//! One recorded process: its runtime, where there is one, and who else may know names.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use biopsy_dotnet::names::{self, Machine};
use biopsy_dotnet::runtime::{CodeKind, Method, MethodName, Options, Runtime, RuntimeError, find_runtimes};
use biopsy_model::Pid;
use biopsy_model::process::RuntimeKind;
use biopsy_model::stack::{Frame, FrameHandle};
use biopsy_model::symbol::{FrameSymbols, Function, SymbolSource};
use biopsy_stacks::unwind::CompiledRule;
use biopsy_target::address_space::LiveImage;
use rustc_hash::FxHashMap;

use super::lines::Lines;
use super::rules::Rules;
use super::{Answer, SharedMethods};

/// Pages of the target that are kept; beside a production server.
const CACHED_BYTES: usize = 16 << 20;
/// Rules that are looked for at once.
const RULES_AT_ONCE: usize = 2048;
/// A process without a runtime is looked at again when it has code outside of files: so often, and not more often than this.
const LOOKS: u32 = 8;
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// A runtime that cannot be opened yet is starting up. Slow machines take seconds for it.
const TRIES: u32 = 12;

/// What a look at a process found.
pub(super) enum Looked {
    /// Its runtime can be read.
    Open,
    /// It has none.
    NotManaged,
    /// It has one, or is about to, that cannot be read yet.
    NotYet,
    /// It has one that cannot be read: message and hint.
    Failed((String, Option<&'static str>)),
}

/// One process.
pub(super) struct ManagedProcess {
    pid: u32,
    rules: Arc<Rules>,
    runtimes: Vec<Runtime<'static>>,
    methods: Option<SharedMethods>,
    /// It is one of .NET.
    managed: bool,
    /// Why its runtime is not read.
    failed: Option<String>,
    tries: u32,
    looks: u32,
    looked: Option<Instant>,
    lines: Lines,
    /// Shown names by method.
    shown: FxHashMap<u64, Arc<str>>,
}

impl ManagedProcess {
    pub(super) fn new(pid: u32, rules: Arc<Rules>) -> Self {
        Self {
            pid,
            rules,
            runtimes: Vec::new(),
            methods: None,
            managed: false,
            failed: None,
            tries: 0,
            looks: 0,
            looked: None,
            lines: Lines::new(pid),
            shown: FxHashMap::default(),
        }
    }

    /// Nothing of what was read is there any more.
    pub(super) fn exec(&mut self) {
        self.rules.forget();
        *self = Self::new(self.pid, Arc::clone(&self.rules));
    }

    pub(super) fn set_methods(&mut self, methods: SharedMethods) {
        self.methods = Some(methods);
    }

    /// Whether another look may find a runtime that the last one did not.
    pub(super) fn look_again(&self) -> Option<Instant> {
        if self.managed || self.looks >= LOOKS {
            return None;
        }
        self.looked.map(|at| at + BETWEEN_LOOKS)
    }

    /// Looks for the runtime.
    pub(super) fn look(&mut self) -> Looked {
        if !self.runtimes.is_empty() {
            return Looked::Open;
        }
        self.looked = Some(Instant::now());
        if !self.managed {
            self.looks += 1;
            self.managed = biopsy_target::runtime::detect(Pid(self.pid)).kind == RuntimeKind::DotNet;
            if !self.managed {
                return Looked::NotManaged;
            }
        }
        self.tries += 1;
        match self.open() {
            Ok(true) => Looked::Open,
            Ok(false) if self.tries < TRIES => Looked::NotYet,
            Ok(false) => self.failed("no runtime was found in its memory".to_owned()),
            Err(error) if self.tries < TRIES && may_pass(&error) => Looked::NotYet,
            Err(error) => self.failed(with_causes(&error)),
        }
    }

    fn failed(&mut self, why: String) -> Looked {
        let message = format!(
            "the .NET runtime of process {} cannot be read from memory: its methods are named by events or perf maps: {why}",
            self.pid
        );
        self.failed = Some(why);
        Looked::Failed((message, None))
    }

    fn open(&mut self) -> Result<bool, RuntimeError> {
        let Ok(image) = LiveImage::open(Pid(self.pid)) else { return Ok(false) };
        let found = find_runtimes(&image);
        let mut options = Options::default();
        options.cached_bytes = CACHED_BYTES;
        let mut image = Some(image);
        for runtime in &found {
            // Each runtime has an image of its own; there is one, in all but the oddest processes.
            let image = match image.take() {
                Some(image) => image,
                None => match LiveImage::open(Pid(self.pid)) {
                    Ok(image) => image,
                    Err(_) => break,
                },
            };
            self.runtimes.push(Runtime::open(Box::new(image), runtime, &options)?);
        }
        Ok(!self.runtimes.is_empty())
    }

    /// Names frames; gives back those that it cannot name.
    pub(super) fn name(
        &mut self,
        frames: Vec<(FrameHandle, Frame)>,
        answer: &mut Answer,
    ) -> Vec<(FrameHandle, Frame)> {
        // What was compiled since is not in the pages that were read before.
        self.forget_pages();
        let mut without = Vec::new();
        for (handle, frame) in frames {
            match self.name_of(frame.address) {
                Some((functions, source)) => {
                    answer.symbols.push(FrameSymbols { frame: handle, functions, source });
                }
                None => without.push((handle, frame)),
            }
        }
        if !self.managed {
            answer.unnamed.append(&mut without);
        }
        without
    }

    /// Frames that nothing has named until the end.
    pub(super) fn last_names(&mut self, frames: Vec<(FrameHandle, Frame)>, answer: &mut Answer) {
        let runtime = !self.runtimes.is_empty();
        for (handle, frame) in frames {
            // Glue of the runtime: jumps to methods that are not compiled yet, write barriers, call counters.
            if runtime && self.is_runtime_memory(frame.address) {
                let function = Function { name: "[stub of the runtime]".to_owned(), file: None, line: None };
                let source = SymbolSource::RuntimeMemory;
                answer.symbols.push(FrameSymbols { frame: handle, functions: vec![function], source });
            } else {
                answer.unnamed.push((handle, frame));
            }
        }
    }

    fn is_runtime_memory(&self, _address: u64) -> bool {
        true
    }

    fn name_of(&mut self, address: u64) -> Option<(Vec<Function>, SymbolSource)> {
        for position in 0..self.runtimes.len() {
            let Some(runtime) = self.runtimes.get(position) else { break };
            let Ok(Some(method)) = runtime.find_method(address) else { continue };
            if let Some(function) = self.function(position, &method, address) {
                return Some((vec![function], SymbolSource::RuntimeMemory));
            }
        }
        let methods = self.methods.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        let method = methods.find(address)?;
        let (name, native) = (method.name.display(), u32::try_from(address - method.start).ok());
        let il = native.zip(method.il.as_ref()).and_then(|(native, il)| il.il_offset(native));
        let place = method.module.clone().map(|path| (path, method.token));
        drop(methods);
        let line = place.and_then(|(path, token)| self.lines.line(&path, token, il));
        let (file, line) = line.map(|line| (line.file, line.line)).unzip();
        Some((vec![Function { name, file, line }], SymbolSource::RuntimeEvents))
    }

    fn function(&mut self, runtime: usize, method: &Method, address: u64) -> Option<Function> {
        let runtime = self.runtimes.get(runtime)?;
        if let CodeKind::Stub(_) = method.kind {
            return Some(Function { name: "[stub of the runtime]".to_owned(), file: None, line: None });
        }
        let name = runtime.method_name(method.method_desc).ok()?;
        let shown = match self.shown.get(&method.method_desc) {
            Some(shown) => Arc::clone(shown),
            None => {
                let shown: Arc<str> = shown(runtime, &name).into();
                self.shown.insert(method.method_desc, Arc::clone(&shown));
                shown
            }
        };
        let module = runtime.module(name.module).ok();
        let line = module.filter(|module| !module.path.is_empty()).and_then(|module| {
            self.lines.line(&module.path, name.token, il_offset(runtime, method, address))
        });
        let (file, line) = line.map(|line| (line.file, line.line)).unzip();
        Some(Function { name: shown.to_string(), file, line })
    }

    /// Finds wanted rules. Says whether there are new ones.
    pub(super) fn find_rules(&mut self) -> bool {
        let wanted = self.rules.take_wanted(RULES_AT_ONCE);
        if self.runtimes.is_empty() || wanted.is_empty() {
            return false;
        }
        self.forget_pages();
        let found: Vec<_> =
            wanted.into_iter().map(|(address, exact)| (address, self.rule(address, exact))).collect();
        let any = found.iter().any(|(_, rule)| rule.is_some());
        self.rules.tell(found);
        any
    }

    fn rule(&self, _address: u64, _exact: bool) -> Option<CompiledRule> {
        None
    }

    fn forget_pages(&self) {
        for runtime in &self.runtimes {
            runtime.forget();
        }
    }
}

/// The name as the programmer wrote it; the fields of a state machine tell what it was made of.
fn shown(runtime: &Runtime<'_>, name: &MethodName) -> String {
    if name.dynamic && name.type_name.is_empty() {
        return names::display("dynamicClass", &name.method);
    }
    let mut machine = Machine::Async;
    if names::is_state_machine(&name.type_name, &name.method) {
        let has = |field| matches!(runtime.find_field(name.method_table, field), Ok(Some(_)));
        machine = match (has("<>t__builder"), has("<>2__current")) {
            (true, true) => Machine::AsyncIterator,
            (false, true) => Machine::Iterator,
            _ => Machine::Async,
        };
    }
    names::display_as(&name.type_name, &name.method, machine)
}

fn il_offset(_runtime: &Runtime<'_>, _method: &Method, _address: u64) -> Option<u32> {
    None
}

/// A runtime that is starting up has structures that are not filled in yet; a version that is not known stays so.
fn may_pass(error: &RuntimeError) -> bool {
    !matches!(error, RuntimeError::Layout(_))
}

/// An error with its chain of causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
