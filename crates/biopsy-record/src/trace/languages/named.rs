//! Calls of a language as frames of the recording.

use std::io;
use std::sync::Arc;

use biopsy_model::module::ModuleHandle;
use biopsy_model::stack::{Frame, FrameSpace};
use biopsy_model::symbol::{Function, SymbolSource};
use biopsy_model::{LookupAddress, Pid};
use biopsy_runtimes::StrandFrame;
use biopsy_target::address_space::LiveImage;
use rustc_hash::FxHashMap;

use super::super::intern::Interner;
use super::super::processes::Processes;
use super::super::sink::Sink;

/// Memory that could not be opened is tried again after so many nanoseconds.
const TRY_AFTER: u64 = 1_000_000_000;

/// Where frames and modules are defined.
pub(crate) struct Timeline<'a> {
    pub(crate) processes: &'a mut Processes,
    pub(crate) interner: &'a mut Interner,
    pub(crate) sink: &'a mut Sink,
}

/// The frames of one process by what they are called.
#[derive(Debug)]
pub(super) struct Named {
    pid: u32,
    /// Stands for the file of what has none.
    without_file: &'static str,
    modules: FxHashMap<Arc<str>, ModuleHandle>,
    functions: FxHashMap<(ModuleHandle, Arc<str>, Option<u32>), Frame>,
}

impl Named {
    pub(super) fn new(pid: u32, without_file: &'static str) -> Self {
        Self { pid, without_file, modules: FxHashMap::default(), functions: FxHashMap::default() }
    }

    /// The frame of a call, defined when it is met first.
    pub(super) fn frame(&mut self, call: &StrandFrame, timeline: &mut Timeline<'_>) -> io::Result<Frame> {
        let path = call.file.clone().unwrap_or_else(|| self.without_file.into());
        let module = match self.modules.get(&path) {
            Some(known) => *known,
            None => {
                let Timeline { processes, interner, sink } = timeline;
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
        let frame = Frame { space: FrameSpace::User, module: Some(module), address: LookupAddress(address) };
        let file = call.file.as_ref().map(ToString::to_string);
        let function = Function { name: call.function.to_string(), file, line: call.line };
        timeline.interner.named(frame, vec![function], SymbolSource::RuntimeMemory, timeline.sink)?;
        self.functions.insert(key, frame);
        Ok(frame)
    }

    /// The same of something that is no function.
    pub(super) fn words(&mut self, words: &str, timeline: &mut Timeline<'_>) -> io::Result<Frame> {
        self.frame(&StrandFrame { function: words.into(), ..StrandFrame::default() }, timeline)
    }
}

/// Memory of a process that runs on, opened when it is first needed.
#[derive(Debug)]
pub(super) struct Memory {
    pid: u32,
    image: Option<LiveImage>,
    refused: Option<u64>,
}

impl Memory {
    pub(super) fn new(pid: u32) -> Self {
        Self { pid, image: None, refused: None }
    }

    pub(super) fn image(&mut self, now: u64) -> Option<&LiveImage> {
        if self.image.is_none() && self.refused.is_none_or(|at| now >= at + TRY_AFTER) {
            self.image = LiveImage::open(Pid(self.pid)).ok();
            self.refused = self.image.is_none().then_some(now);
        }
        self.image.as_ref()
    }
}
