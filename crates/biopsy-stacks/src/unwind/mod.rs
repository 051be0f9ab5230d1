//! Unwinding of user stacks from registers and a copy of stack memory.
//!
//! Each frame's caller is found by the DWARF unwind information of the file the frame lies in; that of code which a runtime
//! compiled by what [`CompiledCode`] knows of it; code without any (other JIT compilers, hand-written assembly) by its frame
//! pointer. Every return address must lie in executable memory.
//! Rules are cached by address, so that a frame that was met before costs a lookup.

mod compiled;
mod entered;
mod evaluate;
mod frame;
mod modules;
mod prologue;
mod registers;
mod rule;
mod rules;
mod signal_frame;
mod stack;
mod table;
mod walk;

use std::fs::File;
use std::sync::Arc;

use biopsy_model::stack::StackEnd;
use biopsy_model::{Avma, FileOffset};

pub use compiled::{CompiledCode, CompiledRule, ReadMemory, RuntimeFunction, windows_rule};
pub use frame::{FoundBy, Unwound, WalkedFrame};
pub use modules::{ExecutableMapping, Module};
pub use registers::UserRegisters;
pub use rule::{FrameRule, LOST, UNCHANGED};
pub use stack::{ProcessMemory, StackMemory};
pub(crate) use table::{FunctionRange, Kind, UnwindTable};

use crate::elf::ElfFile;
pub(crate) use modules::Modules;
use rule::Rule;
use rules::Rules;
use stack::Reader;
use walk::{MAX_FRAMES, walk};

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
    rules: Rules,
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
        Self { rules: Rules::new(), compiled: None }
    }

    /// Adds an executable mapping in place of whatever was at its addresses (mmap, mprotect). `file`: the ELF file it
    /// maps; `None` for anonymous memory and for files that are not ELF or cannot be read.
    pub fn add_module(&mut self, mapping: &ExecutableMapping, file: Option<Arc<ElfFile>>) {
        if self.rules.modules.add(mapping, file) {
            self.rules.cache.clear();
        }
    }

    /// Removes whatever is mapped from `start` up to `end` (munmap, mprotect without execute).
    pub fn remove(&mut self, start: Avma, end: Avma) {
        if self.rules.modules.remove(start.0..end.0) {
            self.rules.cache.clear();
        }
    }

    /// Where code of JIT compilers can be read: `/proc/PID/mem`, opened by the caller, who knows whether it may. Without
    /// it a sample in the first instructions of such code misses its direct caller. One read of 40 bytes for each sample
    /// whose innermost frame is such code.
    pub fn read_code_from(&mut self, memory: Option<File>) {
        self.rules.memory = memory;
    }

    /// Who knows the frames of code that lies in no ELF file.
    pub fn set_compiled(&mut self, compiled: Option<Box<dyn CompiledCode>>) {
        self.compiled = compiled;
        self.rules.cache.clear();
    }

    /// Forgets the rules of single addresses: compiled code has gone, and other code may be at its addresses.
    pub fn forget_compiled(&mut self) {
        self.rules.cache.clear();
    }

    /// Forgets everything but where code can be read (exec).
    pub fn clear(&mut self) {
        self.rules.modules = Modules::default();
        self.compiled = None;
        self.rules.cache.clear();
    }

    /// The mapping that holds `address`.
    pub fn find(&self, address: Avma) -> Option<&Module> {
        self.rules.modules.find(address.0)
    }

    /// All mappings, without what was made for unwinding.
    pub(crate) fn into_modules(self) -> Modules {
        self.rules.modules
    }

    /// The function that the call before a return address entered, where that call says it itself, and where in its file it begins. If the call
    /// returned from another one, this one ended by jumping there, and is on no stack.
    pub fn entered(&self, return_address: Avma) -> Option<(Avma, FileOffset)> {
        entered::entered(&self.rules.modules, return_address.0)
    }

    /// How many mappings are known.
    pub fn module_count(&self) -> usize {
        self.rules.modules.len()
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
        let (stack, compiled) = (Reader::new(stack), self.compiled.as_deref());
        walk(&mut self.rules, registers, stack, compiled, MAX_FRAMES, |frame| out.push(frame.lookup))
    }

    /// The same, with where each frame is on the stack.
    pub fn unwind_frames(
        &mut self,
        registers: &UserRegisters,
        stack: StackMemory<'_>,
        out: &mut Vec<WalkedFrame>,
    ) -> Unwound {
        let (stack, compiled) = (Reader::new(stack), self.compiled.as_deref());
        walk(&mut self.rules, registers, stack, compiled, MAX_FRAMES, |frame| out.push(frame))
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
        let compiled = process.compiled.or(self.compiled.as_deref());
        let stack = Reader::over(stack, process.memory);
        walk(&mut self.rules, registers, stack, compiled, process.max_frames, |frame| out.push(frame))
    }

    /// Judges a chain that the kernel walked by frame pointers (`ip`, then return addresses): appends lookup
    /// addresses up to the first that does not lie in executable memory. `Root` when the last one is a function that
    /// unwind information calls the thread's first, which tells a thread whose stacks need no copy.
    pub fn check_chain(&mut self, chain: &[Avma], out: &mut Vec<Avma>) -> StackEnd {
        for (position, address) in chain.iter().enumerate() {
            let lookup = Avma(address.0.saturating_sub(u64::from(position > 0)));
            if position > 0 && self.rules.modules.find(lookup.0).is_none() {
                return StackEnd::FramePointers;
            }
            out.push(lookup);
        }
        match out.last().and_then(|last| self.rules.rule(last.0, false, self.compiled.as_deref())) {
            Some(Rule::Root) => StackEnd::Root,
            _ => StackEnd::FramePointers,
        }
    }
}
