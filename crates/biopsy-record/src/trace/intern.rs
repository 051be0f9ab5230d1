//! Frames and stacks, each written once.

use std::io;

use biopsy_model::module::{Module, ModuleHandle};
use biopsy_model::stack::{Frame, FrameHandle, StackHandle, StackNode};
use biopsy_model::symbol::{FrameSymbols, Function, SymbolSource};
use biopsy_model::timeline::TimelineEvent;
use biopsy_recording::timeline::Shift;
use rustc_hash::FxHashMap;

use super::sink::Sink;

/// Gives each distinct frame and stack its handle, and writes its definition the first time.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    modules: u32,
    frames: FxHashMap<Frame, FrameHandle>,
    stacks: FxHashMap<StackNode, StackHandle>,
    /// Frames and stacks that somebody else has defined.
    others: Shift,
    /// Frames that nobody has tried to name yet.
    unnamed: Vec<(FrameHandle, Frame)>,
}

impl Interner {
    /// Defines a module.
    pub(crate) fn module(&mut self, module: Module, sink: &mut Sink) -> io::Result<ModuleHandle> {
        let handle = ModuleHandle(self.modules);
        self.modules += 1;
        sink.push(&TimelineEvent::Module(module))?;
        Ok(handle)
    }

    /// Defines a stack from frames that come innermost first. `None` for no frames.
    pub(crate) fn stack(&mut self, frames: &[Frame], sink: &mut Sink) -> io::Result<Option<StackHandle>> {
        let mut caller = None;
        for frame in frames.iter().rev() {
            let frame = self.frame(*frame, sink)?;
            let node = StackNode { caller, frame };
            let next = StackHandle(number(self.stacks.len()).saturating_add(self.others.stacks));
            caller = Some(match self.stacks.entry(node) {
                std::collections::hash_map::Entry::Occupied(known) => *known.get(),
                std::collections::hash_map::Entry::Vacant(new) => {
                    sink.push(&TimelineEvent::Stack(node))?;
                    *new.insert(next)
                }
            });
        }
        Ok(caller)
    }

    fn frame(&mut self, frame: Frame, sink: &mut Sink) -> io::Result<FrameHandle> {
        if let Some(known) = self.frames.get(&frame) {
            return Ok(*known);
        }
        let handle = FrameHandle(number(self.frames.len()).saturating_add(self.others.frames));
        self.frames.insert(frame, handle);
        self.unnamed.push((handle, frame));
        sink.push(&TimelineEvent::Frame(frame))?;
        Ok(handle)
    }

    /// Defines a frame whose names are known.
    pub(crate) fn named(
        &mut self,
        frame: Frame,
        functions: Vec<Function>,
        source: SymbolSource,
        sink: &mut Sink,
    ) -> io::Result<()> {
        if self.frames.contains_key(&frame) {
            return Ok(());
        }
        let handle = self.frame(frame, sink)?;
        self.unnamed.pop();
        sink.push(&TimelineEvent::Symbols(FrameSymbols { frame: handle, functions, source }))
    }

    /// The frames defined since the last call.
    pub(crate) fn take_unnamed(&mut self) -> Vec<(FrameHandle, Frame)> {
        std::mem::take(&mut self.unnamed)
    }

    /// How many modules, frames and stacks there are.
    pub(crate) fn shift(&self) -> Shift {
        Shift {
            modules: self.modules,
            frames: number(self.frames.len()).saturating_add(self.others.frames),
            stacks: number(self.stacks.len()).saturating_add(self.others.stacks),
        }
    }

    /// Somebody else has defined some: there are so many now.
    pub(crate) fn skip_to(&mut self, all: Shift) {
        let had = self.shift();
        self.modules = all.modules;
        self.others.frames += all.frames.saturating_sub(had.frames);
        self.others.stacks += all.stacks.saturating_sub(had.stacks);
    }

    /// Distinct frames and stacks.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.frames.len(), self.stacks.len())
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
