//! How the stacks of an image are walked.

use std::path::PathBuf;

use biopsy_model::symbol::Function;
use biopsy_model::{Avma, Tid};
use rustc_hash::FxHashMap;

use crate::symbols::{self, FileSources};
use crate::unwind::{CompiledCode, UserRegisters};

/// Bounds and sources.
#[derive(Clone)]
pub struct Options<'a> {
    /// Frames of one thread at most. A stack of 8 MB that overflowed has 100,000 and more; its end tells who began.
    pub frames_per_thread: usize,
    /// Frames of all threads together at most.
    pub frames: usize,
    /// Threads at most.
    pub threads: usize,
    /// Folders below which files are looked for at the paths that the process knew: `/proc/PID/root` of a frozen process,
    /// an unpacked container image, `/` for this machine. Those are believed that are the same (build id, or the headers in
    /// the image). Without any, nothing that the image names is opened.
    pub roots: Vec<PathBuf>,
    /// Where names are looked for.
    pub symbols: symbols::Options,
    /// Programs and libraries that are at no path of the process but have been got from elsewhere, by build id. The walk adds to them.
    pub programs: FxHashMap<Vec<u8>, PathBuf>,
    /// Names of code that a runtime compiled, where somebody knows them.
    pub compiled: Option<&'a dyn CompiledNames>,
    /// Frames of code that a runtime compiled, where somebody knows them.
    pub frames_of_compiled: Option<&'a dyn CompiledCode>,
    /// Where threads go on that cannot be walked to their root, where somebody knows it.
    pub resumes: Option<&'a dyn ResumePoints>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            frames_per_thread: 200_000,
            frames: 1_000_000,
            threads: 100_000,
            roots: Vec::new(),
            symbols: symbols::Options::default(),
            programs: FxHashMap::default(),
            compiled: None,
            frames_of_compiled: None,
            resumes: None,
        }
    }
}

impl Options<'_> {
    /// With files from there.
    #[must_use]
    pub fn of(sources: &FileSources) -> Self {
        let elsewhere = sources.elsewhere.clone();
        let symbols = symbols::Options { elsewhere, ..symbols::Options::default() };
        Self { roots: sources.roots.clone(), symbols, ..Self::default() }
    }
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Options")
            .field("frames_per_thread", &self.frames_per_thread)
            .field("frames", &self.frames)
            .field("threads", &self.threads)
            .field("roots", &self.roots)
            .field("symbols", &self.symbols)
            .field("programs", &self.programs)
            .field("compiled", &self.compiled.is_some())
            .field("frames_of_compiled", &self.frames_of_compiled)
            .field("resumes", &self.resumes.is_some())
            .finish()
    }
}

/// Names of code that has no ELF file: what a managed runtime's own structures in the image say, or a perf map kept beside it.
pub trait CompiledNames {
    /// The function at `address` (inside the call, for callers).
    fn find(&self, address: Avma) -> Option<CompiledFunction>;
}

/// Where a thread goes on further out, when what lies between cannot be walked: notes that a runtime leaves on the stack when it
/// goes from its own code into native code.
pub trait ResumePoints {
    /// Registers at the nearest such place whose stack pointer is above `sp`.
    fn above(&self, thread: Tid, sp: u64) -> Option<UserRegisters>;

    /// All registers at the instruction `ip` that a fault interrupted, where they were kept. Handlers of faults may run on another
    /// stack, from which the interrupted one cannot be found.
    fn at(&self, thread: Tid, ip: u64) -> Option<UserRegisters>;
}

/// A function that a runtime compiled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompiledFunction {
    /// Its name, as the programmer wrote it where that is known.
    pub function: Function,
    /// File name of the assembly or package it is from; empty where there is none.
    pub module: String,
    /// It is the program's own, or a library's: false for glue that the runtime made.
    pub is_method: bool,
}
