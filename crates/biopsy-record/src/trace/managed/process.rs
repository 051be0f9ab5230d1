//! One recorded process: its runtime, where there is one, and who else may know names.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use biopsy_dotnet::methods::Tier as Told;
use biopsy_dotnet::methods::{MethodMap, NameAddresses};
use biopsy_dotnet::runtime::{
    CodeKind, Method, MethodDesc, Options, Runtime, RuntimeError, Tier, find_runtimes,
};
use biopsy_dotnet::stack::{ManagedUnwind, method_text};
use biopsy_model::process::RuntimeKind;
use biopsy_model::stack::{Frame, FrameHandle};
use biopsy_model::symbol::{FrameSymbols, Function, SymbolSource};
use biopsy_model::{Avma, Pid};
use biopsy_stacks::unwind::{CompiledCode, CompiledRule};
use biopsy_target::address_space::LiveImage;
use rustc_hash::FxHashMap;

use super::lines::Lines;
use super::messages::{Answer, SharedMethods};
use super::rules::Rules;
use super::rundown;

/// Names of methods that are kept.
const SHOWN: usize = 1 << 17;
/// Rules that are looked for at once.
const RULES_AT_ONCE: usize = 2048;
/// A process without a runtime is looked at again when it has code outside of files: so often, and not more often than this.
const LOOKS: u32 = 8;
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// A runtime that cannot be opened yet is starting up. Slow machines take seconds for it.
const TRIES: u32 = 12;
/// An event session that another part of the recording has may tell the methods; after so long there is none.
const SESSION_WITHIN: Duration = Duration::from_secs(2);
/// What was read of the runtime is read again when it does not know an address, but not more often than this.
const BETWEEN_READS: Duration = Duration::from_millis(100);

/// What a look at a process found.
pub(super) enum Looked {
    /// Its runtime can be read.
    Open,
    /// It has none.
    NotManaged,
    /// It has one, or is about to, that cannot be read yet.
    NotYet,
    /// It has one that cannot be read.
    Failed,
}

/// One process.
pub(super) struct ManagedProcess {
    pid: u32,
    rules: Arc<Rules>,
    /// Of pages of the target, which are kept beside a production server.
    cached_bytes: usize,
    runtimes: Vec<Runtime<'static>>,
    methods: Option<SharedMethods>,
    /// It is one of .NET.
    managed: bool,
    /// Why its runtime is not read.
    failed: Option<(String, Instant)>,
    /// Why it was not at the last try.
    not_yet: Option<String>,
    /// What the runtime told when it was asked for all its methods.
    told: Option<MethodMap>,
    read: Option<Instant>,
    tries: u32,
    looks: u32,
    looked: Option<Instant>,
    lines: Lines,
    /// Shown names by method.
    shown: FxHashMap<MethodDesc, Arc<str>>,
}

impl ManagedProcess {
    pub(super) fn new(pid: u32, rules: Arc<Rules>, cached_bytes: usize) -> Self {
        Self {
            pid,
            rules,
            cached_bytes,
            runtimes: Vec::new(),
            methods: None,
            managed: false,
            failed: None,
            not_yet: None,
            told: None,
            read: None,
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
        *self = Self::new(self.pid, Arc::clone(&self.rules), self.cached_bytes);
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
        let (why, may_pass) = match self.open() {
            Ok(true) => return Looked::Open,
            Ok(false) => ("no runtime was found in its memory".to_owned(), true),
            Err(error) => (with_causes(&error), may_pass(&error)),
        };
        if self.tries < TRIES && may_pass {
            self.not_yet = Some(why);
            return Looked::NotYet;
        }
        self.failed(why)
    }

    fn failed(&mut self, why: String) -> Looked {
        tracing::debug!(pid = self.pid, why, "the runtime cannot be read from memory");
        self.failed = Some((why, Instant::now()));
        Looked::Failed
    }

    fn open(&mut self) -> Result<bool, RuntimeError> {
        let Ok(image) = LiveImage::open(Pid(self.pid)) else { return Ok(false) };
        let found = find_runtimes(&image);
        let mut options = Options::default();
        options.cached_bytes = self.cached_bytes;
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
            let opened = match Runtime::open(Box::new(image), runtime, &options) {
                // What is read here holds still; threads and rooms for objects do not, in a process under load.
                Err(error) if error.is_of_the_moment() => {
                    let Ok(image) = LiveImage::open(Pid(self.pid)) else { break };
                    Runtime::open_unchecked(Box::new(image), runtime, &options)
                }
                opened => opened,
            };
            self.runtimes.push(opened?);
        }
        Ok(!self.runtimes.is_empty())
    }

    /// Names frames; gives back those that it cannot name, and says whether asking again soon may help.
    pub(super) fn name(
        &mut self,
        frames: Vec<(FrameHandle, Frame)>,
        answer: &mut Answer,
    ) -> (Vec<(FrameHandle, Frame)>, bool) {
        if self.failed.as_ref().is_some_and(|(_, since)| since.elapsed() > SESSION_WITHIN)
            && self.methods.is_none()
            && self.told.is_none()
        {
            self.ask_runtime(answer);
        }
        let mut without = self.name_known(frames, answer);
        if !self.managed {
            answer.unnamed.append(&mut without);
        }
        if without.is_empty() || self.runtimes.is_empty() {
            return (without, false);
        }
        // It may have been compiled since.
        if !self.read_again() {
            return (without, true);
        }
        (self.name_known(without, answer), false)
    }

    /// Forgets what was read, unless that was a moment ago.
    fn read_again(&mut self) -> bool {
        if self.read.is_some_and(|at| at.elapsed() < BETWEEN_READS) {
            return false;
        }
        self.read = Some(Instant::now());
        for runtime in &self.runtimes {
            runtime.forget();
        }
        true
    }

    fn name_known(
        &mut self,
        frames: Vec<(FrameHandle, Frame)>,
        answer: &mut Answer,
    ) -> Vec<(FrameHandle, Frame)> {
        let mut without = Vec::new();
        for (handle, frame) in frames {
            match self.name_of(Avma(frame.address.0)) {
                Some((function, source)) => {
                    let functions = vec![function];
                    answer.symbols.push(FrameSymbols { frame: handle, functions, source });
                }
                None => without.push((handle, frame)),
            }
        }
        without
    }

    /// Frames that nothing has named until the end.
    pub(super) fn last_names(&mut self, frames: Vec<(FrameHandle, Frame)>, answer: &mut Answer) {
        self.read = None;
        let (mut frames, _) = self.name(frames, answer);
        if let Some(why) = self.not_yet.take()
            && self.runtimes.is_empty()
            && self.failed.is_none()
        {
            let _ = self.failed(why);
        }
        if self.failed.is_some() && !frames.is_empty() {
            self.ask_runtime(answer);
            frames = self.name_known(frames, answer);
        }
        if self.runtimes.is_empty() {
            if let Some((why, _)) = &self.failed
                && !frames.is_empty()
            {
                let message = format!(
                    "{} places in code of .NET process {} have no method names: its runtime cannot be read from memory: {why}",
                    frames.len(),
                    self.pid
                );
                answer.problems.push((message, None));
            }
            answer.unnamed.append(&mut frames);
        }
        for (handle, frame) in frames {
            // Glue that the runtime does not list: write barriers, entries of methods, call counters.
            let glue = ManagedUnwind::new(self.runtimes.iter()).glue(Avma(frame.address.0));
            let name = glue.unwrap_or_else(|| "(stub of the runtime)".to_owned());
            let function = Function { name, file: None, line: None };
            let source = SymbolSource::RuntimeMemory;
            answer.symbols.push(FrameSymbols { frame: handle, functions: vec![function], source });
        }
    }

    fn ask_runtime(&mut self, answer: &mut Answer) {
        match rundown::methods(Pid(self.pid)) {
            Ok(told) => {
                self.told = Some(told.methods);
                if let Some(why) = told.incomplete {
                    let message =
                        format!("the runtime of process {} did not list all of its methods: {why}", self.pid);
                    answer.problems.push((message, None));
                }
            }
            Err(error) => {
                self.told.get_or_insert_default();
                let message =
                    format!("the runtime of process {} did not list its methods: {error}", self.pid);
                answer.problems.push((message, None));
            }
        }
    }

    fn name_of(&mut self, address: Avma) -> Option<(Function, SymbolSource)> {
        for position in 0..self.runtimes.len() {
            let Some(runtime) = self.runtimes.get(position) else { break };
            let Ok(Some(method)) = runtime.find_method(address) else { continue };
            if let Some(function) = self.function(position, &method, address) {
                return Some((function, SymbolSource::RuntimeMemory));
            }
        }
        let session = self.methods.clone();
        let session = session.as_ref().map(|methods| methods.lock().unwrap_or_else(PoisonError::into_inner));
        let (name, place) =
            session.as_deref().into_iter().chain(&self.told).find_map(|methods| methods.find(address)).map(
                |method| {
                    let native = u32::try_from(address.0 - method.start.0).ok();
                    let il = native.zip(method.il.as_ref()).and_then(|(native, il)| il.il_offset(native));
                    let place = method.module.clone().map(|path| (path, method.token, il));
                    (method.name.display(), place)
                },
            )?;
        drop(session);
        let line = place.and_then(|(path, token, il)| self.lines.line(&path, token, il));
        let (file, line) = line.map(|line| (line.file, line.line)).unzip();
        Some((Function { name, file, line }, SymbolSource::RuntimeEvents))
    }

    fn function(&mut self, runtime: usize, method: &Method, address: Avma) -> Option<Function> {
        let runtime = self.runtimes.get(runtime)?;
        let Some(method_desc) = method.method_desc else {
            return ManagedUnwind::new([runtime]).name(address);
        };
        let shown = match self.shown.get(&method_desc) {
            Some(shown) => Arc::clone(shown),
            None => {
                let shown: Arc<str> = method_text(runtime, method_desc)?.shown.into();
                if self.shown.len() >= SHOWN {
                    self.shown.clear();
                }
                self.shown.insert(method_desc, Arc::clone(&shown));
                shown
            }
        };
        let name = runtime.method_name(method_desc).ok();
        let place = name.and_then(|name| Some((runtime.module(name.module).ok()?, name.token)));
        let line = place
            .filter(|(module, _)| !module.path.is_empty())
            .filter(|(module, _)| self.lines.has(&module.path))
            .and_then(|(module, token)| {
                self.lines.line(&module.path, token, runtime.il_offset(method, address))
            });
        let (file, line) = line.map(|line| (line.file, line.line)).unzip();
        let tier = match method.kind {
            CodeKind::Jit => runtime.tier(method).ok().flatten().or_else(|| self.told_tier(address)),
            CodeKind::ReadyToRun | CodeKind::Dynamic | CodeKind::Stub(_) => None,
        };
        let name = match tier.and_then(Tier::mark) {
            Some(mark) => format!("{shown} {mark}"),
            None => shown.to_string(),
        };
        Some(Function { name, file, line })
    }

    /// How well the code at an address is optimised, where an event told of it: the list of versions has not the first one of a
    /// method.
    fn told_tier(&self, address: Avma) -> Option<Tier> {
        let methods = self.methods.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(match methods.find(address)?.tier {
            Told::Tier0 => Tier::Tier0,
            Told::Tier1 => Tier::Tier1,
            Told::OnStack => Tier::OnStackReplacement,
            Told::Optimized => Tier::Optimized,
            Told::Tier0Instrumented => Tier::Tier0Instrumented,
            Told::Tier1Instrumented => Tier::Tier1Instrumented,
            Told::MinOpts | Told::ReadyToRun | Told::Unknown => return None,
        })
    }

    /// Finds wanted rules. Says whether there are new ones, and whether others may be found soon.
    pub(super) fn find_rules(&mut self) -> (bool, bool) {
        if self.runtimes.is_empty() {
            return (false, false);
        }
        let wanted = self.rules.take_wanted(RULES_AT_ONCE);
        let (found, missing) = self.known_rules(wanted);
        let mut any = !found.is_empty();
        self.rules.tell(found.into_iter().map(|(address, rule)| (address, Some(rule))));
        if missing.is_empty() {
            return (any, false);
        }
        if !self.read_again() {
            self.rules.want(missing);
            return (any, true);
        }
        let (found, missing) = self.known_rules(missing);
        any |= !found.is_empty();
        self.rules.tell(found.into_iter().map(|(address, rule)| (address, Some(rule))));
        self.rules.tell(missing.into_iter().map(|(address, _)| (address, None)));
        (any, false)
    }

    #[expect(clippy::type_complexity, reason = "two lists")]
    fn known_rules(&self, wanted: Vec<(u64, bool)>) -> (Vec<(u64, CompiledRule)>, Vec<(u64, bool)>) {
        let code = ManagedUnwind::new(self.runtimes.iter());
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for (address, exact) in wanted {
            match code.rule(Avma(address), exact) {
                Some(rule) => found.push((address, rule)),
                None => missing.push((address, exact)),
            }
        }
        (found, missing)
    }
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
