//! The stacks of an image, and the places in code that they lead through.

use biopsy_model::stack::StackEnd;
use biopsy_model::symbol::Function;
use biopsy_model::{Avma, Tid};

use super::known_code::KnownCode;
use super::modules::CodeModule;
use crate::unwind::FoundBy;

/// Index into [`ImageStacks::places`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PlaceHandle(pub u32);

/// A place in code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The lookup address: inside the call, for callers.
    pub address: Avma,
    /// Index into [`ImageStacks::modules`].
    pub module: Option<usize>,
    /// In an ELF file: the address as the file states it. In other memory: from the module's start. Without a module: the
    /// address.
    pub offset: u64,
    /// Innermost inlined function first; empty when no name is known.
    pub functions: Vec<Function>,
    /// Stated address of the function around it, by unwind information.
    pub function_start: Option<u64>,
    /// A runtime compiled it.
    pub compiled: Option<Compiled>,
}

/// What a runtime says of a place in code that it compiled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compiled {
    /// File name of the assembly; empty where there is none.
    pub module: String,
    /// It is a method, and not glue.
    pub is_method: bool,
}

/// One frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Where.
    pub place: PlaceHandle,
    /// Instruction pointer; the return address, for callers.
    pub ip: Avma,
    /// Stack pointer.
    pub sp: Avma,
    /// How it was found.
    pub found: FoundBy,
}

/// The stack of one thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadStack {
    /// The thread.
    pub tid: Tid,
    /// Innermost first; empty when the image has no registers of it.
    pub frames: Vec<Frame>,
    /// How far it got.
    pub end: StackEnd,
    /// It was cut because of a limit.
    pub cut: bool,
    /// The instruction that is next, up to 16 bytes, from the image or from the same file of this machine.
    pub code: Vec<u8>,
    /// The two bytes before it: `0f 05` behind a system call.
    pub code_before: Option<[u8; 2]>,
}

/// All stacks of an image.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ImageStacks {
    /// In the order of the image's threads.
    pub threads: Vec<ThreadStack>,
    /// Places in code, each once.
    pub places: Vec<Place>,
    /// Code that is mapped.
    pub modules: Vec<CodeModule>,
    /// Where glibc keeps what it said before it aborted (`__abort_msg`): address of the pointer.
    pub abort_message: Option<Avma>,
    /// What could not be read, in words.
    pub problems: Vec<String>,
    /// The code that the frames are in, and their registers.
    pub code: KnownCode,
}

impl ImageStacks {
    /// A place.
    #[must_use]
    pub fn place(&self, handle: PlaceHandle) -> Option<&Place> {
        self.places.get(handle.0 as usize)
    }

    /// The module of a place.
    #[must_use]
    pub fn module_of(&self, place: &Place) -> Option<&CodeModule> {
        self.modules.get(place.module?)
    }

    /// The stack of a thread.
    #[must_use]
    pub fn of(&self, tid: Tid) -> Option<&ThreadStack> {
        self.threads.iter().find(|stack| stack.tid == tid)
    }
}
