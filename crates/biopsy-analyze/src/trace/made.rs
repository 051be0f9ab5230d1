//! Timelines for tests: frames by name, stacks from the outside to the inside, samples by the millisecond.

use biopsy_model::module::{Module, ModuleHandle, ModuleKind};
use biopsy_model::process::ThreadInfo;
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace, StackEnd, StackHandle, StackNode};
use biopsy_model::symbol::{FrameSymbols, Function, SymbolSource};
use biopsy_model::timeline::{Sample, StateSlice, ThreadLife, Timeline, WaitSample, WaitState};
use biopsy_model::{Avma, FileOffset, LookupAddress, MonoNanos, Nanos, Pid, Tid};
use std::collections::HashMap;

pub(crate) const MS: u64 = 1_000_000;

/// A timeline that is being made.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) timeline: Timeline,
    frames: HashMap<String, FrameHandle>,
    stacks: HashMap<(Option<StackHandle>, FrameHandle), StackHandle>,
}

impl Made {
    /// A stack of `k:function`, `jit!function`, `file.dll!function`, `module!function` or `function` of the program, outermost first. `a<b`:
    /// `a` is inlined into `b`; without a name: nobody knows it; `?`: in no module.
    pub(crate) fn stack(&mut self, frames: &[&str]) -> Option<StackHandle> {
        let mut at = None;
        for text in frames {
            let frame = self.frame(text);
            let next = StackHandle(self.timeline.stacks.len() as u32);
            let known = *self.stacks.entry((at, frame)).or_insert(next);
            if known == next {
                self.timeline.stacks.push(StackNode { caller: at, frame });
            }
            at = Some(known);
        }
        at
    }

    pub(crate) fn frame(&mut self, text: &str) -> FrameHandle {
        if let Some(frame) = self.frames.get(text) {
            return *frame;
        }
        let (space, module, name) = match (text.strip_prefix("k:"), text.split_once('!')) {
            (Some(name), _) => (FrameSpace::Kernel, "[kernel.kallsyms]", name),
            (None, Some((module, name))) => (FrameSpace::User, module, name),
            (None, None) => (FrameSpace::User, "server", text),
        };
        let module = (text != "?").then(|| self.module(module));
        let frame = FrameHandle(self.timeline.frames.len() as u32);
        self.timeline.frames.push(Frame {
            space,
            module,
            address: LookupAddress(0x1000 + u64::from(frame.0) * 16),
        });
        let function = |name: &str| Function { name: name.to_owned(), file: None, line: None };
        let is_named = !name.is_empty() && text != "?";
        self.timeline.symbols.push(is_named.then(|| FrameSymbols {
            frame,
            functions: name.split('<').map(function).collect(),
            source: SymbolSource::ElfSymbols,
        }));
        self.frames.insert(text.to_owned(), frame);
        frame
    }

    fn module(&mut self, name: &str) -> ModuleHandle {
        let path = if name.starts_with('[') { name.to_owned() } else { format!("/opt/{name}") };
        let known = self.timeline.modules.iter().position(|module| module.path == path);
        let at = known.unwrap_or_else(|| {
            let kind = match name {
                "[kernel.kallsyms]" => ModuleKind::Kernel,
                "[vdso]" => ModuleKind::Vdso,
                "jit" => ModuleKind::Jit,
                name if name.ends_with(".dll") => ModuleKind::OtherFile,
                name if name.ends_with(".py") => ModuleKind::Source,
                _ => ModuleKind::Elf,
            };
            self.timeline.modules.push(Module {
                pid: Pid(1),
                kind,
                path,
                build_id: None,
                start: Avma(0),
                end: Avma(u64::MAX),
                offset: FileOffset(0),
                since: MonoNanos(0),
                deleted: false,
            });
            self.timeline.modules.len() - 1
        });
        ModuleHandle(at as u32)
    }

    /// A thread took the CPU for so many milliseconds up to a moment.
    pub(crate) fn cpu(&mut self, tid: u32, at_ms: u64, ms: u64, stack: Option<StackHandle>) -> &mut Self {
        let (time, weight) = (MonoNanos(at_ms * MS), Nanos(ms * MS));
        let tid = Tid(tid);
        self.timeline.samples.push(Sample { time, tid, cpu: 0, stack, end: StackEnd::Root, weight });
        self
    }

    /// It was seen to wait, for so many milliseconds.
    pub(crate) fn off_cpu(&mut self, tid: u32, ms: u64, stack: Option<StackHandle>) -> &mut Self {
        self.timeline.wait_samples.push(WaitSample {
            time: MonoNanos(0),
            tid: Tid(tid),
            stack,
            end: StackEnd::Root,
            weight: Nanos(ms * MS),
            syscall: None,
            state: WaitState::Sleep,
        });
        self
    }

    pub(crate) fn life(&mut self, tid: u32, pid: u32, name: &str) -> &mut ThreadLife {
        let info = ThreadInfo { tid: Tid(tid), pid: Pid(pid), name: name.to_owned() };
        self.timeline.threads.push(ThreadLife {
            info,
            start: MonoNanos(0),
            born: false,
            by: None,
            exit: None,
        });
        self.timeline.threads.last_mut().expect("just pushed")
    }

    /// From one millisecond to another it was running, ready and waiting for so many of them.
    pub(crate) fn states(&mut self, tid: u32, (from, to): (u64, u64), [running, ready, waiting]: [u64; 3]) {
        self.timeline.settings.has_states = true;
        self.timeline.states.push(StateSlice {
            tid: Tid(tid),
            from: MonoNanos(from * MS),
            to: MonoNanos(to * MS),
            running: Nanos(running * MS),
            ready: Nanos(ready * MS),
            waiting: Nanos(waiting * MS),
            voluntary: 3,
            involuntary: 2,
            wakeups: 1,
        });
    }
}
