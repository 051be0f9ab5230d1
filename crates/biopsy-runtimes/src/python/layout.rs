//! Where CPython keeps what, by minor version: offsets in bytes of release builds for x86-64, printed by a program that was
//! compiled with the headers of 3.8.18, 3.9.18, 3.10.13, 3.11.7, 3.12.1 and 3.13.0. Patch versions keep them but for what is in
//! `_PyRuntime`, which is looked for where it is not where it should be.

/// Oldest and newest minor version whose layout is known.
pub(crate) const KNOWN: std::ops::RangeInclusive<u32> = 8..=13;

/// How lines are told by instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LineTable {
    /// 3.8, 3.9: pairs of changes of address and line.
    Pairs,
    /// 3.10: pairs of length and change of line.
    Lengths,
    /// 3.11 on: locations.
    Locations,
}

/// Where the collector's lists begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lists {
    InRuntime(u64),
    InInterpreter(u64),
}

/// Where the interpreter's lock is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LockPlace {
    InRuntime(u64),
    /// The interpreter has a pointer to it.
    Pointer(u64),
}

/// How the innermost frame of a thread is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FramePlace {
    /// The thread has a pointer to it.
    Thread(u64),
    /// The thread has a pointer to a structure on the stack that has a pointer to it.
    OnStack(u64, u64),
}

/// What frames look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FrameShape {
    /// 3.8 to 3.10: objects with a stack of blocks.
    Object { last: u64, last_unit: i64, value_stack: u64, block_count: u64, blocks: u64, top: Top },
    /// 3.11 on: structures with an address of the instruction, and whose they are.
    Structure { instruction: u64, owner: u64, top: u64 },
}

/// Where an object keeps the values of its attributes, beside its dictionary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attributes {
    /// 3.8 to 3.10: in its dictionary only.
    Dictionary,
    /// 3.11: a pointer before the object, the dictionary's behind that.
    Before,
    /// 3.12: a pointer less one before the object, or the dictionary's.
    Tagged,
    /// 3.13: behind the object, unless they are in the dictionary.
    Inline,
}

/// Where the stack of a frame that does not run ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Top {
    Pointer(u64),
    Depth(u64),
}

/// Offsets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) runtime_interpreters: u64,
    pub(crate) interpreter_next: u64,
    pub(crate) interpreter_threads: u64,
    pub(crate) lock: LockPlace,
    pub(crate) lists: Lists,
    /// `PyThreadState`.
    pub(crate) thread_id: u64,
    pub(crate) thread_native: Option<u64>,
    pub(crate) thread_frame: FramePlace,
    /// Frames.
    pub(crate) frame_previous: u64,
    pub(crate) frame_code: u64,
    pub(crate) frame_locals: u64,
    pub(crate) shape: FrameShape,
    /// `PyCodeObject`.
    pub(crate) code_first_line: u64,
    pub(crate) code_names: u64,
    pub(crate) code_file: u64,
    pub(crate) code_name: u64,
    pub(crate) code_lines: u64,
    pub(crate) line_table: LineTable,
    /// Table of exceptions, number of variables, first instruction (3.11 on).
    pub(crate) code_exceptions: u64,
    pub(crate) code_variables: u64,
    pub(crate) code_start: u64,
    pub(crate) attributes: Attributes,
    /// `str`: text of ASCII, and of others.
    pub(crate) text_ascii: u64,
    pub(crate) text_other: u64,
    /// Frame of a coroutine, and whether it is a pointer.
    pub(crate) coroutine_frame: u64,
    pub(crate) coroutine_frame_is_pointer: bool,
}

/// What is the same in all of these versions.
pub(crate) mod same {
    pub(crate) const THREAD_NEXT: u64 = 8;
    pub(crate) const THREAD_INTERPRETER: u64 = 16;
    pub(crate) const TYPE: u64 = 8;
    pub(crate) const SIZE: u64 = 16;
    pub(crate) const TYPE_NAME: u64 = 24;
    pub(crate) const TEXT_LENGTH: u64 = 16;
    pub(crate) const TEXT_STATE: u64 = 32;
    pub(crate) const BYTES: u64 = 32;
    pub(crate) const BUILTIN_DEFINITION: u64 = 16;
    pub(crate) const BUILTIN_SELF: u64 = 24;
    pub(crate) const METHOD_FUNCTION: u64 = 16;
    pub(crate) const METHOD_SELF: u64 = 24;
    /// `func_name`: from 3.10 on, and before.
    pub(crate) const FUNCTION_NAMES: [u64; 2] = [32, 64];
    /// `tp_basicsize`, `tp_dictoffset`.
    pub(crate) const TYPE_SIZE: u64 = 32;
    pub(crate) const TYPE_DICTIONARY: u64 = 288;
    /// `PyDictObject`: keys, and values where several objects share the keys.
    pub(crate) const DICTIONARY_KEYS: u64 = 32;
    pub(crate) const DICTIONARY_VALUES: u64 = 40;
    /// `lockobject`, `rlockobject`.
    pub(crate) const LOCK_SEMAPHORE: u64 = 16;
    pub(crate) const LOCK_LOCKED: u64 = 32;
    /// `PyMutex`, which is all of a `lockobject` in later releases of 3.13.
    pub(crate) const LOCK_MUTEX: u64 = 16;
    pub(crate) const LOCK_OF_MUTEX_SIZE: u64 = 24;
    pub(crate) const RLOCK_OWNER: u64 = 24;
    pub(crate) const RLOCK_COUNT: u64 = 32;
    /// `PyWeakReference`: what it refers to.
    pub(crate) const WEAK_OBJECT: u64 = 16;
    /// `PyThreadHandleObject` (3.13): the handle.
    pub(crate) const HANDLE: u64 = 16;
    pub(crate) const GIL_HOLDER: u64 = 8;
    pub(crate) const GIL_LOCKED: u64 = 16;
    /// Size of `struct _gil_runtime_state` at the most: conditions and mutexes are in it.
    pub(crate) const GIL_SIZE: u64 = 256;
    /// `struct gc_generation`, and the head of an object that the collector knows.
    pub(crate) const GENERATION: u64 = 24;
    pub(crate) const GC_HEAD: u64 = 16;
    /// `struct PyTryBlock`, and the depth of the stack in it.
    pub(crate) const BLOCK: u64 = 12;
    pub(crate) const BLOCK_LEVEL: u64 = 8;
}

const PYTHON_3_8: Layout = Layout {
    runtime_interpreters: 32,
    interpreter_next: 0,
    interpreter_threads: 8,
    lock: LockPlace::InRuntime(1152),
    lists: Lists::InRuntime(368),
    thread_id: 176,
    thread_native: None,
    thread_frame: FramePlace::Thread(24),
    frame_previous: 24,
    frame_code: 32,
    frame_locals: 360,
    shape: FrameShape::Object {
        last: 104,
        last_unit: 1,
        value_stack: 64,
        block_count: 112,
        blocks: 120,
        top: Top::Pointer(72),
    },
    code_first_line: 40,
    code_names: 72,
    code_file: 104,
    code_name: 112,
    code_lines: 120,
    line_table: LineTable::Pairs,
    code_exceptions: 0,
    code_variables: 0,
    code_start: 0,
    attributes: Attributes::Dictionary,
    text_ascii: 48,
    text_other: 72,
    coroutine_frame: 16,
    coroutine_frame_is_pointer: true,
};
const PYTHON_3_9: Layout =
    Layout { lock: LockPlace::InRuntime(352), lists: Lists::InInterpreter(640), ..PYTHON_3_8 };
const PYTHON_3_10: Layout = Layout {
    frame_locals: 352,
    shape: FrameShape::Object {
        last: 96,
        last_unit: 2,
        value_stack: 64,
        block_count: 104,
        blocks: 112,
        top: Top::Depth(80),
    },
    line_table: LineTable::Lengths,
    ..PYTHON_3_9
};
const PYTHON_3_11: Layout = Layout {
    runtime_interpreters: 40,
    interpreter_threads: 16,
    lock: LockPlace::InRuntime(360),
    lists: Lists::InInterpreter(672),
    thread_id: 152,
    thread_native: Some(160),
    thread_frame: FramePlace::OnStack(56, 8),
    frame_previous: 48,
    frame_code: 32,
    frame_locals: 72,
    shape: FrameShape::Structure { instruction: 56, owner: 69, top: 64 },
    code_first_line: 72,
    code_names: 96,
    code_file: 112,
    code_name: 128,
    code_lines: 136,
    line_table: LineTable::Locations,
    code_exceptions: 40,
    code_variables: 76,
    code_start: 184,
    attributes: Attributes::Before,
    coroutine_frame: 80,
    coroutine_frame_is_pointer: false,
    ..PYTHON_3_10
};
const PYTHON_3_12: Layout = Layout {
    interpreter_threads: 72,
    lock: LockPlace::Pointer(384),
    lists: Lists::InInterpreter(136),
    thread_id: 136,
    thread_native: Some(144),
    thread_frame: FramePlace::OnStack(56, 0),
    frame_previous: 8,
    frame_code: 0,
    shape: FrameShape::Structure { instruction: 56, owner: 70, top: 64 },
    code_first_line: 68,
    code_variables: 72,
    code_start: 192,
    attributes: Attributes::Tagged,
    text_ascii: 40,
    text_other: 56,
    coroutine_frame: 72,
    ..PYTHON_3_11
};
const PYTHON_3_13: Layout = Layout {
    runtime_interpreters: 632,
    interpreter_next: 7264,
    interpreter_threads: 7344,
    lock: LockPlace::Pointer(16),
    lists: Lists::InInterpreter(7424),
    thread_id: 152,
    thread_native: Some(160),
    thread_frame: FramePlace::Thread(72),
    code_start: 200,
    attributes: Attributes::Inline,
    ..PYTHON_3_12
};

impl Layout {
    /// For a minor version; `None`: not known.
    pub(crate) fn of(minor: u32) -> Option<Self> {
        Some(match minor {
            8 => PYTHON_3_8,
            9 => PYTHON_3_9,
            10 => PYTHON_3_10,
            11 => PYTHON_3_11,
            12 => PYTHON_3_12,
            13 => PYTHON_3_13,
            _ => return None,
        })
    }
}
