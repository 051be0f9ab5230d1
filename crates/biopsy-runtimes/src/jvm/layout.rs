//! Where HotSpot of the version at hand keeps what is read here: the rows of its tables that are needed, looked up once.

use super::tables::Tables;

/// Why a virtual machine is not read.
pub(super) type Missing = String;

/// Offsets in bytes, sizes, and addresses of variables.
#[derive(Clone, Default, Debug)]
pub(super) struct Layout {
    pub(super) threads: Threads,
    pub(super) methods: Methods,
    pub(super) classes: Classes,
    pub(super) code: Code,
    pub(super) monitors: Monitors,
}

/// `ThreadsSMRSupport`, `JavaThread`, `OSThread`, `JavaFrameAnchor`, `JavaCallWrapper`.
#[derive(Clone, Default, Debug)]
pub(super) struct Threads {
    pub(super) list: u64,
    pub(super) list_length: u64,
    pub(super) list_threads: u64,
    pub(super) object: u64,
    pub(super) anchor: u64,
    pub(super) os_thread: u64,
    pub(super) os_thread_id: u64,
    pub(super) stack_base: u64,
    pub(super) stack_size: u64,
    pub(super) anchor_sp: u64,
    pub(super) anchor_fp: u64,
    pub(super) anchor_pc: u64,
    pub(super) call_wrapper_anchor: u64,
    /// In words from the frame pointer.
    pub(super) call_wrapper_slot: i64,
    /// Of the thread object that runs on the thread now: another one than `object` where that is a carrier. From 19 on.
    pub(super) virtual_thread: Option<u64>,
}

/// `Method`, `ConstMethod`, `ConstantPool`, `Symbol`.
#[derive(Clone, Default, Debug)]
pub(super) struct Methods {
    pub(super) constants_of_method: u64,
    pub(super) access_flags: u64,
    pub(super) pool: u64,
    pub(super) flags: u64,
    pub(super) line_numbers_flag: u64,
    pub(super) code_size: u64,
    pub(super) name: u64,
    pub(super) constant_size: u64,
    pub(super) pool_size: u64,
    pub(super) pool_length: u64,
    pub(super) pool_holder: u64,
    pub(super) source_file: u64,
    pub(super) symbol_length: u64,
    pub(super) symbol_body: u64,
}

/// `oopDesc`, `Klass`, `InstanceKlass`, arrays of the runtime.
#[derive(Clone, Default, Debug)]
pub(super) struct Classes {
    pub(super) mark: u64,
    pub(super) class: u64,
    pub(super) compressed_class: u64,
    /// Bits of the mark word below the class, where objects have no other word for it (25, `UseCompactObjectHeaders`).
    pub(super) class_shift: Option<u64>,
    pub(super) name: u64,
    pub(super) parent: u64,
    pub(super) pool: u64,
    pub(super) fields: Fields,
    /// Where the bytes of an array of the runtime (not of Java) begin.
    pub(super) bytes_data: u64,
}

/// How a class says where its fields are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fields {
    /// Six numbers of 2 bytes each (to version 20).
    Table { array: u64, count: u64, data: u64 },
    /// A stream of compressed numbers (from 21 on).
    Stream { array: u64 },
}

impl Default for Fields {
    fn default() -> Self {
        Self::Stream { array: 0 }
    }
}

/// `CodeCache`, `CodeHeap`, `CodeBlob`, `nmethod`, `PcDesc`, and the interpreter's code.
#[derive(Clone, Default, Debug)]
pub(super) struct Code {
    pub(super) heaps: u64,
    pub(super) heaps_length: u64,
    pub(super) heaps_data: u64,
    pub(super) heap_memory: u64,
    pub(super) heap_segments: u64,
    pub(super) heap_segment_bits: u64,
    pub(super) space_low: u64,
    pub(super) space_high: u64,
    pub(super) block: u64,
    pub(super) interpreter: u64,
    pub(super) interpreter_start: u64,
    pub(super) interpreter_bytes: u64,
    pub(super) call_stub_return: u64,
    pub(super) frame_size: u64,
    pub(super) frame_complete: u64,
    /// `frame_complete` has 2 bytes, not 4.
    pub(super) short_frame_complete: bool,
    pub(super) kind: BlobKind,
    pub(super) method: u64,
    pub(super) original_pc: u64,
    pub(super) parts: Parts,
    pub(super) pc: u64,
    pub(super) pc_scope: u64,
    pub(super) pc_size: u64,
}

/// How a piece of code says whether it is a compiled method.
#[derive(Clone, Copy, Debug)]
pub(super) enum BlobKind {
    /// By its name (to version 24).
    Name(u64),
    /// By a byte that is to have a value.
    Byte(u64, u8),
}

impl Default for BlobKind {
    fn default() -> Self {
        Self::Name(0)
    }
}

/// Where the parts of a compiled method are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Parts {
    /// One behind the other, in the code cache (to version 22).
    Inline { code: u64, deopt: u64, scopes: u64, pcs: u64, pcs_end: u64, metadata: u64 },
    /// What does not change is elsewhere (from 24 on).
    Apart {
        code: u64,
        deopt: u64,
        constant: u64,
        constant_bytes: u64,
        pcs: u64,
        scopes: u64,
        mutable: u64,
        mutable_bytes: u64,
        relocation_bytes: u64,
    },
}

impl Default for Parts {
    fn default() -> Self {
        Self::Inline { code: 0, deopt: 0, scopes: 0, pcs: 0, pcs_end: 0, metadata: 0 }
    }
}

/// `ObjectMonitor`, and what a thread says of monitors.
#[derive(Clone, Default, Debug)]
pub(super) struct Monitors {
    pub(super) object: u64,
    pub(super) owner: u64,
    pub(super) entering: u64,
    pub(super) waiting: u64,
    /// Objects that the thread has locked (21 with `LockingMode` 2, 25): `_top` and the first slot.
    pub(super) lock_stack: Option<LockStack>,
    /// The number that a monitor names its owner by (from 24 on); before, it is an address.
    pub(super) owner_number: Option<u64>,
}

/// `JavaThread::_lock_stack`.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct LockStack {
    /// Of the word that holds the offset of the first free slot from the beginning of the *thread*.
    pub(super) top: u64,
    /// Of the first slot, from the beginning of the thread.
    pub(super) base: u64,
}

/// Looks rows up and remembers the first that is not there.
struct Needed<'t> {
    tables: &'t Tables,
    missing: Option<Missing>,
}

impl Needed<'_> {
    fn note(&mut self, found: Option<u64>, what: impl FnOnce() -> Missing) -> u64 {
        if found.is_none() && self.missing.is_none() {
            self.missing = Some(what());
        }
        found.unwrap_or(0)
    }

    fn field(&mut self, owner: &str, name: &str) -> u64 {
        self.note(self.tables.field(owner, name), || format!("{owner}::{name}"))
    }

    /// The first of two names that is there: fields are renamed.
    fn either(&mut self, owner: &str, names: [&str; 2]) -> u64 {
        let found = names.iter().find_map(|name| self.tables.field(owner, name));
        self.note(found, || format!("{owner}::{}", names[0]))
    }

    fn variable(&mut self, owner: &str, name: &str) -> u64 {
        self.note(self.tables.variable(owner, name), || format!("{owner}::{name}"))
    }

    fn size(&mut self, name: &str) -> u64 {
        self.note(self.tables.size(name), || format!("sizeof({name})"))
    }
}

impl Layout {
    /// From the tables; the first row that is missing is the error.
    pub(super) fn of(tables: &Tables) -> Result<Self, Missing> {
        let mut needed = Needed { tables, missing: None };
        let layout = Self {
            threads: threads(&mut needed),
            methods: methods(&mut needed),
            classes: classes(&mut needed),
            code: code(&mut needed),
            monitors: monitors(&mut needed),
        };
        needed.missing.map_or(Ok(layout), Err)
    }
}

fn threads(needed: &mut Needed<'_>) -> Threads {
    Threads {
        list: needed.variable("ThreadsSMRSupport", "_java_thread_list"),
        list_length: needed.field("ThreadsList", "_length"),
        list_threads: needed.field("ThreadsList", "_threads"),
        object: needed.field("JavaThread", "_threadObj"),
        anchor: needed.field("JavaThread", "_anchor"),
        os_thread: needed.field("JavaThread", "_osthread"),
        os_thread_id: needed.field("OSThread", "_thread_id"),
        stack_base: needed.field("JavaThread", "_stack_base"),
        stack_size: needed.field("JavaThread", "_stack_size"),
        anchor_sp: needed.field("JavaFrameAnchor", "_last_Java_sp"),
        anchor_fp: needed.field("JavaFrameAnchor", "_last_Java_fp"),
        anchor_pc: needed.field("JavaFrameAnchor", "_last_Java_pc"),
        call_wrapper_anchor: needed.field("JavaCallWrapper", "_anchor"),
        call_wrapper_slot: needed
            .tables
            .constant("frame::entry_frame_call_wrapper_offset")
            .filter(|slot| (-64..64).contains(slot))
            .unwrap_or(-6),
        virtual_thread: needed.tables.field("JavaThread", "_vthread"),
    }
}

fn methods(needed: &mut Needed<'_>) -> Methods {
    let flag = ["ConstMethod::_has_linenumber_table", "ConstMethodFlags::_misc_has_linenumber_table"];
    let flag =
        flag.iter().find_map(|name| needed.tables.constant(name)).and_then(|flag| u64::try_from(flag).ok());
    Methods {
        constants_of_method: needed.field("Method", "_constMethod"),
        access_flags: needed.field("Method", "_access_flags"),
        pool: needed.field("ConstMethod", "_constants"),
        flags: needed.either("ConstMethod", ["_flags", "_flags._flags"]),
        line_numbers_flag: needed.note(flag, || String::from("_has_linenumber_table")),
        code_size: needed.field("ConstMethod", "_code_size"),
        name: needed.field("ConstMethod", "_name_index"),
        constant_size: needed.size("ConstMethod"),
        pool_size: needed.size("ConstantPool"),
        pool_length: needed.field("ConstantPool", "_length"),
        pool_holder: needed.field("ConstantPool", "_pool_holder"),
        source_file: needed.field("ConstantPool", "_source_file_name_index"),
        symbol_length: needed.field("Symbol", "_length"),
        symbol_body: needed.either("Symbol", ["_body", "_body[0]"]),
    }
}

fn classes(needed: &mut Needed<'_>) -> Classes {
    let fields = match needed.tables.field("InstanceKlass", "_fields") {
        Some(array) => Fields::Table {
            array,
            count: needed.field("InstanceKlass", "_java_fields_count"),
            data: needed.field("Array<u2>", "_data"),
        },
        None => Fields::Stream { array: needed.field("InstanceKlass", "_fieldinfo_stream") },
    };
    Classes {
        mark: needed.field("oopDesc", "_mark"),
        class: needed.field("oopDesc", "_metadata._klass"),
        compressed_class: needed.field("oopDesc", "_metadata._compressed_klass"),
        class_shift: needed
            .tables
            .constant("markWord::klass_shift")
            .and_then(|shift| u64::try_from(shift).ok())
            .filter(|shift| (32..64).contains(shift)),
        name: needed.field("Klass", "_name"),
        parent: needed.field("Klass", "_super"),
        pool: needed.field("InstanceKlass", "_constants"),
        fields,
        bytes_data: needed.field("Array<u1>", "_data"),
    }
}

fn code(needed: &mut Needed<'_>) -> Code {
    let kind =
        match (needed.tables.field("CodeBlob", "_kind"), needed.tables.constant("CodeBlobKind::Nmethod")) {
            (Some(kind), Some(nmethod)) => BlobKind::Byte(kind, u8::try_from(nmethod).unwrap_or(u8::MAX)),
            _ => BlobKind::Name(needed.field("CodeBlob", "_name")),
        };
    let apart = needed.tables.field("nmethod", "_immutable_data").is_some();
    Code {
        heaps: needed.variable("CodeCache", "_heaps"),
        heaps_length: needed.field("GrowableArrayBase", "_len"),
        heaps_data: needed.field("GrowableArray<int>", "_data"),
        heap_memory: needed.field("CodeHeap", "_memory"),
        heap_segments: needed.field("CodeHeap", "_segmap"),
        heap_segment_bits: needed.field("CodeHeap", "_log2_segment_size"),
        space_low: needed.field("VirtualSpace", "_low"),
        space_high: needed.field("VirtualSpace", "_high"),
        block: needed.size("HeapBlock"),
        interpreter: needed.variable("AbstractInterpreter", "_code"),
        interpreter_start: needed.field("StubQueue", "_stub_buffer"),
        interpreter_bytes: needed.field("StubQueue", "_buffer_limit"),
        call_stub_return: needed.variable("StubRoutines", "_call_stub_return_address"),
        frame_size: needed.field("CodeBlob", "_frame_size"),
        frame_complete: needed.field("CodeBlob", "_frame_complete_offset"),
        short_frame_complete: apart,
        kind,
        method: needed.field("nmethod", "_method"),
        original_pc: needed.field("nmethod", "_orig_pc_offset"),
        parts: if apart { apart_parts(needed) } else { inline_parts(needed) },
        pc: needed.field("PcDesc", "_pc_offset"),
        pc_scope: needed.field("PcDesc", "_scope_decode_offset"),
        pc_size: needed.size("PcDesc"),
    }
}

fn inline_parts(needed: &mut Needed<'_>) -> Parts {
    Parts::Inline {
        code: needed.field("CodeBlob", "_code_begin"),
        deopt: needed.field("nmethod", "_deopt_handler_begin"),
        scopes: needed.field("nmethod", "_scopes_data_begin"),
        pcs: needed.field("nmethod", "_scopes_pcs_offset"),
        pcs_end: needed.field("nmethod", "_dependencies_offset"),
        metadata: needed.field("nmethod", "_metadata_offset"),
    }
}

fn apart_parts(needed: &mut Needed<'_>) -> Parts {
    Parts::Apart {
        code: needed.field("CodeBlob", "_code_offset"),
        deopt: needed.field("nmethod", "_deopt_handler_offset"),
        constant: needed.field("nmethod", "_immutable_data"),
        constant_bytes: needed.field("nmethod", "_immutable_data_size"),
        pcs: needed.field("nmethod", "_scopes_pcs_offset"),
        scopes: needed.field("nmethod", "_scopes_data_offset"),
        mutable: needed.field("CodeBlob", "_mutable_data"),
        mutable_bytes: needed.field("CodeBlob", "_mutable_data_size"),
        relocation_bytes: needed.field("CodeBlob", "_relocation_size"),
    }
}

fn monitors(needed: &mut Needed<'_>) -> Monitors {
    let lock_stack = || {
        let stack = needed.tables.field("JavaThread", "_lock_stack")?;
        let (top, base) =
            (needed.tables.field("LockStack", "_top")?, needed.tables.field("LockStack", "_base[0]")?);
        Some(LockStack { top: stack + top, base: stack + base })
    };
    let lock_stack = lock_stack();
    Monitors {
        object: needed.field("ObjectMonitor", "_object"),
        owner: needed.field("ObjectMonitor", "_owner"),
        entering: needed.field("JavaThread", "_current_pending_monitor"),
        waiting: needed.field("JavaThread", "_current_waiting_monitor"),
        lock_stack,
        owner_number: needed.tables.field("JavaThread", "_monitor_owner_id"),
    }
}
