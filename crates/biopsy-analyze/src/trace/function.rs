//! Functions: one row for each, with its own (self) and its total time on CPUs and waiting.

use crate::whose::Whose;
use biopsy_model::Nanos;

/// Index into [`Analysis::functions`](crate::Analysis::functions).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FunctionHandle(pub u32);

/// What kind of code a function is; decides its colour.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FunctionKind {
    /// Kernel code.
    Kernel,
    /// Compiled code of an ELF file, or the vDSO.
    Native,
    /// Code made by a JIT compiler, or of a managed assembly.
    Jit,
    /// In no known mapping, or without any stack.
    Unknown,
    /// Not code: a heading such as `kernel: scheduling` or `(pruned)`.
    Heading,
}

/// One function. Recursion counts once; inlined functions have rows of their own.
#[derive(Clone, PartialEq, Debug)]
pub struct FunctionRow {
    /// Demangled name; `libfoo.so+0x1234`, where the function begins, if no name was found.
    pub name: String,
    /// File name of the module without its folder; empty for headings and unmapped addresses.
    pub module: String,
    /// What kind of code.
    pub kind: FunctionKind,
    /// The name is a real one; otherwise it is module + offset or an address.
    pub named: bool,
    /// Whose code it is.
    pub whose: Whose,
    /// Source file, where known (of the last symbol seen).
    pub file: Option<String>,
    /// Line of the function's hottest frame, where known.
    pub line: Option<u32>,
    /// CPU time in the function itself.
    pub cpu_self: Nanos,
    /// CPU time in the function and what it called.
    pub cpu_total: Nanos,
    /// Waiting time with the function innermost.
    pub wait_self: Nanos,
    /// Waiting time below the function.
    pub wait_total: Nanos,
}
