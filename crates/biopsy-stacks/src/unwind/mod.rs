//! Unwinding of user stacks from registers and a copy of stack memory.
//!
//! Each frame's caller is found by the DWARF unwind information of the file the frame lies in; that of code which a runtime
//! compiled by what [`CompiledCode`] knows of it; code without any (other JIT compilers, hand-written assembly) by its frame
//! pointer. Every return address must lie in executable memory.
//! Rules are cached by address, so that a frame that was met before costs a lookup.

mod compiled;
mod evaluate;
mod modules;
mod prologue;
mod registers;
mod rule;
mod signal_frame;
mod stack;
mod table;
mod walk;

use std::fs::File;
use std::sync::Arc;

use biopsy_model::Avma;
use biopsy_model::stack::StackEnd;

pub use compiled::{CompiledCode, CompiledRule, ReadMemory, RuntimeFunction, windows_rule};
pub use modules::{ExecutableMapping, Module};
pub use registers::UserRegisters;
pub use rule::{FrameRule, LOST, UNCHANGED};
pub use stack::{ProcessMemory, StackMemory};
pub(crate) use table::{FunctionRange, UnwindTable};

use crate::elf::ElfFile;
pub(crate) use modules::Modules;
use rule::Rule;
use stack::Reader;
use table::Context;

/// How one unwinding ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unwound {
    /// How far it got.
    pub end: StackEnd,
    /// End of the highest stack word that was needed: a copy from `sp` up to here unwinds the same stack again. With
    /// `StackEnd::Root` this is the thread's root, which is the same for all stacks of the thread.
    pub top: Avma,
    /// The copy was too short: with more bytes it would have gone on.
    pub needed_beyond: bool,
    /// Frames whose caller was found by frame pointer, for want of unwind information.
    pub by_frame_pointer: u32,
}

/// How a frame was found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FoundBy {
    /// By the thread's registers: the innermost frame.
    Registers,
    /// By the unwind information of its callee.
    UnwindInfo,
    /// By a frame pointer: right for code that keeps one, and a guess otherwise.
    FramePointer,
    /// By the word at the stack pointer, which lies behind a call instruction.
    CallSite,
    /// The kernel saved its registers when a signal interrupted it.
    SignalFrame,
    /// By what a managed runtime noted when it left its own code: what lies between could not be walked.
    ExplicitFrame,
}

/// A frame as the walk finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WalkedFrame {
    /// Instruction pointer: a return address in callers.
    pub ip: Avma,
    /// The address to look names up by: inside the call, in callers.
    pub lookup: Avma,
    /// Stack pointer.
    pub sp: Avma,
    /// `rbp`, where it is known.
    pub fp: Option<u64>,
    /// `rbx`, `r12` to `r15`, where they are known.
    pub saved: [Option<u64>; 5],
    /// How it was found.
    pub found: FoundBy,
}

/// What is known of a process beyond one stack.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// All its memory.
    pub memory: &'a dyn ProcessMemory,
    /// Who knows the frames of code that lies in no ELF file; else [`ProcessUnwinder::set_compiled`] counts.
    pub compiled: Option<&'a dyn CompiledCode>,
    /// Frames at most.
    pub max_frames: usize,
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Surroundings")
            .field("compiled", &self.compiled)
            .field("max_frames", &self.max_frames)
            .finish_non_exhaustive()
    }
}

/// Unwinds the stacks of one process. Add its executable mappings, keep them up to date, then unwind.
#[derive(Debug)]
pub struct ProcessUnwinder {
    modules: Modules,
    cache: RuleCache,
    context: Box<Context>,
    memory: Option<File>,
    compiled: Option<Box<dyn CompiledCode>>,
}

impl Default for ProcessUnwinder {
    fn default() -> Self {
        Self::new()
    }
}

impl ProcessUnwinder {
    /// Knows no mappings.
    pub fn new() -> Self {
        Self {
            modules: Modules::default(),
            cache: RuleCache::default(),
            context: Box::new(Context::new()),
            memory: None,
            compiled: None,
        }
    }

    /// Adds an executable mapping in place of whatever was at its addresses (mmap, mprotect). `file`: the ELF file it
    /// maps; `None` for anonymous memory and for files that are not ELF or cannot be read.
    pub fn add_module(&mut self, mapping: &ExecutableMapping, file: Option<Arc<ElfFile>>) {
        if self.modules.add(mapping, file) {
            self.cache.clear();
        }
    }

    /// Removes whatever is mapped from `start` up to `end` (munmap, mprotect without execute).
    pub fn remove(&mut self, start: Avma, end: Avma) {
        if self.modules.remove(start.0..end.0) {
            self.cache.clear();
        }
    }

    /// Where code of JIT compilers can be read: `/proc/PID/mem`, opened by the caller, who knows whether it may. Without
    /// it a sample in the first instructions of such code misses its direct caller. One read of 40 bytes for each sample
    /// whose innermost frame is such code.
    pub fn read_code_from(&mut self, memory: Option<File>) {
        self.memory = memory;
    }

    /// Who knows the frames of code that lies in no ELF file.
    pub fn set_compiled(&mut self, compiled: Option<Box<dyn CompiledCode>>) {
        self.compiled = compiled;
        self.cache.clear();
    }

    /// Forgets the rules of single addresses: compiled code has gone, and other code may be at its addresses.
    pub fn forget_compiled(&mut self) {
        self.cache.clear();
    }

    /// Forgets everything but where code can be read (exec).
    pub fn clear(&mut self) {
        self.modules = Modules::default();
        self.compiled = None;
        self.cache.clear();
    }

    /// The mapping that holds `address`.
    pub fn find(&self, address: Avma) -> Option<&Module> {
        self.modules.find(address.0)
    }

    /// All mappings, without what was made for unwinding.
    pub(crate) fn into_modules(self) -> Modules {
        self.modules
    }

    /// How many mappings are known.
    pub fn module_count(&self) -> usize {
        self.modules.len()
    }

    /// Appends the frames to `out`, innermost first, as *lookup* addresses: the instruction pointer, then return
    /// addresses minus one (so that they lie inside the call, in the right function and line). The instruction
    /// pointer is always appended.
    pub fn unwind(
        &mut self,
        registers: &UserRegisters,
        stack: StackMemory<'_>,
        out: &mut Vec<Avma>,
    ) -> Unwound {
        let compiled = self.compiled.take();
        let unwound =
            walk::walk(self, registers, Reader::new(stack), compiled.as_deref(), walk::MAX_FRAMES, |frame| {
                out.push(frame.lookup);
            });
        self.compiled = compiled;
        unwound
    }

    /// The same with all memory of the process behind the copied piece: also signal handlers on stacks of their own, and
    /// trampolines without unwind information.
    pub fn unwind_over(
        &mut self,
        registers: &UserRegisters,
        stack: StackMemory<'_>,
        process: &Surroundings<'_>,
        out: &mut Vec<WalkedFrame>,
    ) -> Unwound {
        let own = self.compiled.take();
        let compiled = process.compiled.or(own.as_deref());
        let stack = Reader::over(stack, process.memory);
        let unwound =
            walk::walk(self, registers, stack, compiled, process.max_frames, |frame| out.push(frame));
        self.compiled = own;
        unwound
    }

    /// Judges a chain that the kernel walked by frame pointers (`ip`, then return addresses): appends lookup
    /// addresses up to the first that does not lie in executable memory. `Root` when the last one is a function that
    /// unwind information calls the thread's first, which tells a thread whose stacks need no copy.
    pub fn check_chain(&mut self, chain: &[Avma], out: &mut Vec<Avma>) -> StackEnd {
        for (position, address) in chain.iter().enumerate() {
            let lookup = Avma(address.0.saturating_sub(u64::from(position > 0)));
            if position > 0 && self.modules.find(lookup.0).is_none() {
                return StackEnd::FramePointers;
            }
            out.push(lookup);
        }
        let compiled = self.compiled.take();
        let last = out.last().and_then(|last| self.rule(last.0, false, compiled.as_deref()));
        self.compiled = compiled;
        match last {
            Some(Rule::Root) => StackEnd::Root,
            _ => StackEnd::FramePointers,
        }
    }

    /// The rule for code at `address`; `None`: nothing executable is mapped there. `exact`: the thread stands there.
    fn rule(&mut self, address: u64, exact: bool, compiled: Option<&dyn CompiledCode>) -> Option<Rule> {
        if let Some(rule) = self.cache.get(address) {
            return Some(rule);
        }
        let module = self.modules.find(address);
        let file = module.and_then(|module| Some((module.file.as_ref()?, module.bias)));
        let rule = match file {
            Some((file, bias)) => file.unwind_table().rule(&mut self.context, address.wrapping_sub(bias)),
            None => {
                // Code may have been compiled into memory that nobody has told of yet.
                let known = compiled.and_then(|compiled| compiled.rule(Avma(address), exact));
                match known {
                    Some(known) => known.frame().map_or(Rule::Nothing, Rule::Offsets),
                    None => module.map(|_| Rule::Nothing)?,
                }
            }
        };
        self.cache.put(address, rule);
        Some(rule)
    }
}

/// Direct-mapped: 4,096 entries of 32 bytes. A server's stacks hold a few thousand distinct addresses.
#[derive(Debug, Default)]
struct RuleCache {
    /// Empty until the first use: a process that is never sampled costs nothing.
    entries: Vec<Option<(u64, Rule)>>,
}

impl RuleCache {
    const ENTRIES_LOG2: u32 = 12;

    fn slot(address: u64) -> usize {
        // Fibonacci hashing: addresses differ in their low bits, whose spread the product moves to the top.
        (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - Self::ENTRIES_LOG2)) as usize
    }

    fn get(&self, address: u64) -> Option<Rule> {
        let (key, rule) = (*self.entries.get(Self::slot(address))?)?;
        (key == address).then_some(rule)
    }

    fn put(&mut self, address: u64, rule: Rule) {
        if self.entries.is_empty() {
            self.entries = vec![None; 1 << Self::ENTRIES_LOG2];
        }
        if let Some(entry) = self.entries.get_mut(Self::slot(address)) {
            *entry = Some((address, rule));
        }
    }

    fn clear(&mut self) {
        self.entries.clear();
    }
}
