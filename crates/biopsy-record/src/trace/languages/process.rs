//! The interpreter of one process: its calls by name, and the frames of threads that sleep.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use biopsy_model::module::ModuleHandle;
use biopsy_model::stack::{Frame, FrameSpace};
use biopsy_model::symbol::{Function, SymbolSource};
use biopsy_model::{Pid, Tid};
use biopsy_runtimes::python::{Call, RawStack, Run, SampledPython};
use biopsy_runtimes::{Limits, StrandFrame};
use biopsy_target::address_space::LiveImage;
use rustc_hash::FxHashMap;

use super::super::intern::Interner;
use super::super::processes::{Processes, task_ids};
use super::super::sink::Sink;

/// A code object is asked so often whether it is still the same: the memory of one that is gone is used again.
const CHECK_AFTER: u64 = 1_000_000_000;
/// Threads that are not known are looked for so often.
const THREADS_AFTER: u64 = 100_000_000;
/// Calls that are kept by name.
const KEPT: usize = 1 << 17;
/// Frames of a thread that sleeps, and of what a sample may have: the same as in the sampling program.
const MOST: usize = 256;
/// In place of callers that were left out.
const LEFT_OUT: &str = "(more calls, left out)";
/// In place of a call whose code object could not be read.
const NOT_READ: &str = "(function not read)";

/// A code object that was met.
#[derive(Debug, Default)]
struct Code {
    mark: Option<[u64; 3]>,
    checked: u64,
    /// By instruction.
    calls: FxHashMap<i64, Frame>,
}

/// An interpreter that is sampled.
#[derive(Debug)]
pub(crate) struct Language {
    pid: u32,
    python: Arc<SampledPython>,
    image: Option<LiveImage>,
    /// When its memory was opened in vain.
    refused: Option<u64>,
    codes: FxHashMap<u64, Code>,
    modules: FxHashMap<Arc<str>, ModuleHandle>,
    functions: FxHashMap<(ModuleHandle, Arc<str>, Option<u32>), Frame>,
    threads: FxHashMap<u32, u64>,
    threads_read: u64,
    limits: Limits,
}

impl Language {
    pub(crate) fn new(pid: u32, python: Arc<SampledPython>) -> Self {
        Self {
            pid,
            python,
            image: None,
            refused: None,
            codes: FxHashMap::default(),
            modules: FxHashMap::default(),
            functions: FxHashMap::default(),
            threads: FxHashMap::default(),
            threads_read: 0,
            limits: Limits::default(),
        }
    }

    /// The same in a process that began as a copy of this one.
    pub(crate) fn of_child(&self, pid: u32) -> Self {
        Self::new(pid, Arc::clone(&self.python))
    }

    pub(crate) fn python(&self) -> &SampledPython {
        &self.python
    }

    /// The function that runs code.
    pub(crate) fn evaluates(&self) -> Range<u64> {
        self.python.evaluates.clone()
    }

    pub(crate) fn runs(&self, stack: &RawStack, word: &dyn Fn(u64) -> Option<u64>) -> Vec<Run> {
        self.python.runs(stack, word)
    }

    fn image(&mut self, now: u64) -> Option<&LiveImage> {
        if self.image.is_none() && self.refused.is_none_or(|at| now >= at + CHECK_AFTER) {
            self.image = LiveImage::open(Pid(self.pid)).ok();
            self.refused = self.image.is_none().then_some(now);
        }
        self.image.as_ref()
    }

    /// The frames of a thread that sleeps: the caller makes sure that it sleeps on meanwhile.
    pub(crate) fn stack_now(&mut self, tid: u32, now: u64) -> Option<RawStack> {
        if !self.threads.contains_key(&tid) {
            if now < self.threads_read + THREADS_AFTER {
                return None;
            }
            self.read_threads(now);
        }
        let state = *self.threads.get(&tid)?;
        let python = Arc::clone(&self.python);
        let stack = python.stack_of(self.image(now)?, state, MOST);
        (!stack.frames.is_empty()).then_some(stack)
    }

    /// A thread has ended.
    pub(crate) fn forget_thread(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }

    fn read_threads(&mut self, now: u64) {
        self.threads_read = now;
        let tids = task_ids(self.pid).unwrap_or_default();
        let numbers = inner_numbers(self.pid, &tids);
        let (python, limits) = (Arc::clone(&self.python), self.limits.clone());
        let Some(image) = self.image(now) else { return };
        let found = python.threads(image, &limits, &|own| numbers.get(&own).copied().map(Tid));
        self.threads = found.into_iter().map(|(tid, state)| (tid.0, state)).collect();
    }

    /// Appends the frames of a run of calls, innermost first.
    pub(crate) fn frames(
        &mut self,
        calls: &[Call],
        now: u64,
        processes: &mut Processes,
        interner: &mut Interner,
        sink: &mut Sink,
        out: &mut Vec<Frame>,
    ) -> io::Result<()> {
        for call in calls {
            out.push(self.frame(*call, now, processes, interner, sink)?);
        }
        Ok(())
    }

    /// What stands for callers that were left out.
    pub(crate) fn left_out(
        &mut self,
        processes: &mut Processes,
        interner: &mut Interner,
        sink: &mut Sink,
    ) -> io::Result<Frame> {
        let frame = StrandFrame { function: LEFT_OUT.into(), ..StrandFrame::default() };
        self.named(&frame, processes, interner, sink)
    }

    fn frame(
        &mut self,
        call: Call,
        now: u64,
        processes: &mut Processes,
        interner: &mut Interner,
        sink: &mut Sink,
    ) -> io::Result<Frame> {
        self.check(call.code, now);
        let known = self.codes.get(&call.code).and_then(|code| code.calls.get(&call.offset));
        if let Some(known) = known {
            return Ok(*known);
        }
        let (python, limits) = (Arc::clone(&self.python), self.limits.clone());
        let read = self.image(now).and_then(|image| python.function(image, &limits, call));
        let found =
            read.unwrap_or_else(|| StrandFrame { function: NOT_READ.into(), ..StrandFrame::default() });
        let frame = self.named(&found, processes, interner, sink)?;
        if let Some(code) = self.codes.get_mut(&call.code) {
            code.calls.insert(call.offset, frame);
        }
        Ok(frame)
    }

    /// Forgets what is known of a code object where another one is by now.
    fn check(&mut self, code: u64, now: u64) {
        if self.codes.get(&code).is_some_and(|known| now < known.checked + CHECK_AFTER) {
            return;
        }
        let python = Arc::clone(&self.python);
        let mark = self.image(now).and_then(|image| python.mark_of(image, code));
        if self.codes.len() >= KEPT {
            self.codes.clear();
        }
        let known = self.codes.entry(code).or_default();
        known.checked = now;
        // What cannot be read any more was right as long as it could be.
        if mark.is_some() && known.mark != mark {
            known.mark = mark;
            known.calls.clear();
        }
    }

    fn named(
        &mut self,
        call: &StrandFrame,
        processes: &mut Processes,
        interner: &mut Interner,
        sink: &mut Sink,
    ) -> io::Result<Frame> {
        let path = call.file.clone().unwrap_or_else(|| "[python]".into());
        let module = match self.modules.get(&path) {
            Some(known) => *known,
            None => {
                let handle = processes.source_module(self.pid, &path, interner, sink)?;
                self.modules.insert(path, handle);
                handle
            }
        };
        let key = (module, Arc::clone(&call.function), call.line);
        if let Some(known) = self.functions.get(&key) {
            return Ok(*known);
        }
        let address = self.functions.len() as u64;
        let frame = Frame { space: FrameSpace::User, module: Some(module), address };
        let file = call.file.as_ref().map(ToString::to_string);
        let function = Function { name: call.function.to_string(), file, line: call.line };
        interner.named(frame, vec![function], SymbolSource::RuntimeMemory, sink)?;
        self.functions.insert(key, frame);
        Ok(frame)
    }
}

/// Threads by the numbers that they have for themselves: others where the process is in a pid namespace of its own
/// (`NSpid` in proc_pid_status(5)).
fn inner_numbers(pid: u32, tids: &[u32]) -> FxHashMap<u32, u32> {
    let inner = |tid: u32| -> Option<u32> {
        let status = biopsy_files::read_kernels(format!("/proc/{pid}/task/{tid}/status")).ok()?;
        let status = String::from_utf8_lossy(&status);
        let line = status.lines().find(|line| line.starts_with("NSpid:"))?;
        line.split_whitespace().last()?.parse().ok()
    };
    let same = inner(pid).is_none_or(|own| own == pid);
    tids.iter().filter_map(|tid| Some((if same { *tid } else { inner(*tid)? }, *tid))).collect()
}
