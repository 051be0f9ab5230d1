//! Frames, and stacks interned as a tree: a stack is its innermost frame and the stack of its caller.

use crate::LookupAddress;
use crate::module::ModuleHandle;

/// Index into the timeline's frame table: valid only for the table that made it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FrameHandle(pub u32);

/// Index into the timeline's stack table: valid only for the table that made it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StackHandle(pub u32);

/// Which side of the system call boundary.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FrameSpace {
    /// Kernel code.
    Kernel,
    /// Code of the process.
    User,
}

/// One place in code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Frame {
    /// Kernel or user.
    pub space: FrameSpace,
    /// The module it lies in; `None`: in no known mapping.
    pub module: Option<ModuleHandle>,
    /// With a module of kind `Elf` or `Vdso`: the stated address (`Svma`) in that file. Otherwise the actual
    /// address. Already the *lookup* address: for callers it is the return address minus one.
    pub address: LookupAddress,
}

/// One node of the tree of stacks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StackNode {
    /// The caller's stack; `None`: this frame is the outermost known one.
    pub caller: Option<StackHandle>,
    /// The innermost frame of this stack.
    pub frame: FrameHandle,
}

/// How far an unwound user stack got. Anything but `Root` is shown, never hidden.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StackEnd {
    /// The thread's first function was reached.
    Root,
    /// The copied stack memory ended before the root.
    Truncated,
    /// Only the chain of frame pointers was available and it broke off, or could not be checked.
    FramePointers,
    /// The unwinder met an address without unwind information and frame pointers led nowhere.
    NoUnwindInfo,
    /// The recorder was behind, and skipped unwinding of this stack.
    Skipped,
    /// There is no user part: a kernel thread, or the process was exiting.
    KernelOnly,
}
