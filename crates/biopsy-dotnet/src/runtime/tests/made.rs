//! A small runtime in made-up memory: a descriptor that says where everything is, a core library, and what a test adds to them.
//!
//! Offsets are like those of .NET 10, whose layout file fills in what a descriptor leaves out.

use std::collections::BTreeMap;

use biopsy_image::Image;
use biopsy_model::Avma;

use crate::made_up::MadeUp;
use crate::metadata::tests::made::Assembly;
use crate::runtime::{FoundRuntime, Options, Runtime, RuntimeError, RuntimeKind, RuntimeVersion};

/// Where everything is, and how many bytes there are.
pub(crate) const BASE: u64 = 0x1000_0000;
const BYTES: usize = 1 << 20;
/// "DNCCDAC\0".
pub(crate) const MAGIC: u64 = 0x0043_4144_4343_4e44;
/// Element types of fields.
pub(crate) const REFERENCE: u32 = 0x12;
pub(crate) const NUMBER: u32 = 0x08;
/// Flags of the first word of a field.
pub(crate) const STATIC: u32 = 1 << 24;
pub(crate) const THREAD_STATIC: u32 = 1 << 25;
pub(crate) const RVA: u32 = 1 << 26;
/// Flags of method tables.
pub(crate) const VALUE: u32 = 0x0004_0000;
pub(crate) const ARRAY: u32 = 0x8008_0000;
pub(crate) const VECTOR: u32 = 0x800a_0000;
pub(crate) const GENERIC: u32 = 0x10;
pub(crate) const DEFINITION: u32 = 0x30;
/// Offsets in a `Thread`.
pub(crate) const LINK: u64 = 32;
pub(crate) const EXPOSED: u64 = 40;
pub(crate) const LAST_THROWN: u64 = 48;
pub(crate) const TRACKER: u64 = 56;
pub(crate) const LOCALS: u64 = 64;
pub(crate) const BLOCKING: u64 = 72;
pub(crate) const STATICS: u64 = 80;
/// An empty chain of frames.
pub(crate) const NO_FRAME: u64 = u64::MAX;

const TYPES: &[(&str, &[(&str, u32)])] = &[
    (
        "MethodTable",
        &[
            ("MTFlags", 0),
            ("BaseSize", 4),
            ("MTFlags2", 8),
            ("NumVirtuals", 12),
            ("ParentMethodTable", 16),
            ("Module", 24),
            ("AuxiliaryData", 32),
            ("EEClassOrCanonMT", 40),
            ("PerInstInfo", 48),
        ],
    ),
    (
        "EEClass",
        &[
            ("MethodTable", 16),
            ("FieldDescList", 24),
            ("InternalCorElementType", 40),
            ("NumInstanceFields", 50),
            ("NumStaticFields", 54),
        ],
    ),
    ("ArrayClass", &[("Rank", 41)]),
    ("ParamTypeDesc", &[("TypeArg", 8)]),
    ("DynamicStaticsInfo", &[("!", 24), ("GCStatics", 0), ("NonGCStatics", 8)]),
    (
        "Module",
        &[("DynamicMetadata", 8), ("Path", 16), ("ReadyToRunInfo", 24), ("TypeDefToMethodTableMap", 32)],
    ),
    ("DynamicMetadata", &[("Data", 4)]),
    (
        "Thread",
        &[
            ("Id", 0),
            ("OSId", 8),
            ("State", 16),
            ("PreemptiveGCDisabled", 20),
            ("Frame", 24),
            ("LinkNext", LINK as u32),
            ("ExposedObject", EXPOSED as u32),
            ("LastThrownObject", LAST_THROWN as u32),
            ("ExceptionTracker", TRACKER as u32),
            ("RuntimeThreadLocals", LOCALS as u32),
            ("ThreadLocalDataPtr", STATICS as u32),
        ],
    ),
    ("ThreadLocalData", &[("NonCollectibleTlsArrayData", 8)]),
    ("RuntimeThreadLocals", &[("AllocContext", 16)]),
    ("EEAllocContext", &[("GCAllocationContext", 8)]),
    ("GCAllocContext", &[("Pointer", 0), ("Limit", 8)]),
    ("ExceptionInfo", &[("ThrownObject", 8)]),
    ("ThreadStore", &[("ThreadCount", 0), ("FirstThreadLink", 8)]),
    (
        "MethodDesc",
        &[
            ("!", 16),
            ("Flags3AndTokenRemainder", 0),
            ("ChunkIndex", 2),
            ("Slot", 4),
            ("Flags", 6),
            ("CodeData", 8),
        ],
    ),
    ("MethodDescChunk", &[("!", 24), ("MethodTable", 0), ("FlagsAndTokenRange", 20)]),
    ("MethodDescCodeData", &[("VersioningState", 0)]),
    ("MethodDescVersioningState", &[("NativeCodeVersionNode", 16)]),
    ("NativeCodeVersionNode", &[("NativeCode", 0), ("Next", 24)]),
    ("DynamicMethodDesc", &[("MethodName", 32)]),
    ("InstantiatedMethodDesc", &[("PerInstInfo", 24), ("Flags2", 32), ("NumGenericArgs", 34)]),
    (
        "ReadyToRunInfo",
        &[
            ("ReadyToRunHeader", 16),
            ("CompositeInfo", 40),
            ("RuntimeFunctions", 80),
            ("NumRuntimeFunctions", 88),
            ("HotColdMap", 96),
            ("NumHotColdMap", 104),
            ("EntryPointToMethodDescMap", 112),
        ],
    ),
    ("String", &[("m_StringLength", 8), ("m_FirstChar", 12)]),
    ("AppDomain", &[("DomainAssemblyList", 16)]),
];

/// A runtime in the making.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) memory: MadeUp,
    /// What goes into the metadata of the core library.
    pub(crate) core: Assembly,
    /// The `Module` of the core library.
    pub(crate) module: u64,
    pub(crate) object: u64,
    pub(crate) string: u64,
    pub(crate) exception: u64,
    pub(crate) free: u64,
    /// The `ThreadStore`, the root of the map of code, and the `AppDomain`.
    pub(crate) store: u64,
    pub(crate) code_map: u64,
    pub(crate) domain: u64,
    types: BTreeMap<String, BTreeMap<String, u32>>,
    globals: BTreeMap<String, u64>,
    pub(crate) version: Option<RuntimeVersion>,
    /// Address and bytes of `g_dacTable`.
    pub(crate) table: Option<(Avma, u64)>,
    last_link: u64,
    threads: u32,
    next: u64,
}

impl Made {
    /// With a core library, and without threads.
    pub(crate) fn new() -> Self {
        let types = TYPES.iter().map(|(of, fields)| {
            let fields = fields.iter().map(|(name, offset)| ((*name).to_owned(), *offset));
            ((*of).to_owned(), fields.collect())
        });
        let mut this = Self {
            memory: MadeUp::new(vec![(BASE, vec![0; BYTES])]),
            core: Assembly::new("System.Private.CoreLib"),
            module: 0,
            object: 0,
            string: 0,
            exception: 0,
            free: 0,
            store: 0,
            code_map: 0,
            domain: 0,
            types: types.collect(),
            globals: BTreeMap::new(),
            version: Some(RuntimeVersion { major: 10, minor: 0, patch: Some(1) }),
            table: None,
            last_link: 0,
            threads: 0,
            next: BASE + 0x100,
        };
        this.module = this.alloc(0x100);
        this.store = this.alloc(64);
        this.last_link = this.store + 8;
        this.code_map = this.alloc(0x800);
        this.domain = this.alloc(0x100);
        this.object = this.class("System", "Object", 0, &[]);
        this.put32(this.object + 4, 24);
        this.string = this.class("System", "String", this.object, &[]);
        this.put(this.string, 22 << 32 | 0x8000_0002);
        this.exception = this.class("System", "Exception", this.object, &[]);
        this.free = this.alloc(64);
        this.put(this.free, 24 << 32 | 0x8000_0001);
        for (name, address) in [
            ("ObjectMethodTable", this.object),
            ("StringMethodTable", this.string),
            ("ExceptionMethodTable", this.exception),
            ("FreeObjectMethodTable", this.free),
            ("ThreadStore", this.store),
            ("AppDomain", this.domain),
        ] {
            this.variable(name, address);
        }
        let map = this.code_map;
        this.global("ExecutionManagerCodeRangeMapAddress", map);
        this
    }

    /// Room for so many bytes, all zero.
    pub(crate) fn alloc(&mut self, bytes: u64) -> u64 {
        let at = self.next;
        self.next = (at + bytes + 64).next_multiple_of(16);
        assert!(self.next < BASE + BYTES as u64, "the made-up memory is full");
        at
    }

    pub(crate) fn bytes(&mut self, at: u64, bytes: &[u8]) {
        let (start, area) = &mut self.memory.areas[0];
        let from = usize::try_from(at - *start).expect("in the area");
        area[from..from + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn put(&mut self, at: u64, value: u64) {
        self.bytes(at, &value.to_le_bytes());
    }

    pub(crate) fn put32(&mut self, at: u64, value: u32) {
        self.bytes(at, &value.to_le_bytes());
    }

    pub(crate) fn put16(&mut self, at: u64, value: u16) {
        self.bytes(at, &value.to_le_bytes());
    }

    /// A copy of these bytes, and where it is.
    pub(crate) fn store(&mut self, bytes: &[u8]) -> u64 {
        let at = self.alloc(bytes.len() as u64);
        self.bytes(at, bytes);
        at
    }

    /// A copy of these words.
    pub(crate) fn words(&mut self, words: &[u64]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.store(&bytes)
    }

    /// A number that the descriptor names.
    pub(crate) fn global(&mut self, name: &str, value: u64) {
        self.globals.insert(name.to_owned(), value);
    }

    /// What the descriptor says of a number.
    pub(crate) fn global_at(&self, name: &str) -> u64 {
        self.globals[name]
    }

    /// A variable that the descriptor names, with this value.
    pub(crate) fn variable(&mut self, name: &str, value: u64) {
        let at = self.words(&[value]);
        self.global(name, at);
    }

    /// Changes what the descriptor says of a field.
    pub(crate) fn offset(&mut self, of: &str, field: &str, offset: u32) {
        self.types.entry(of.to_owned()).or_default().insert(field.to_owned(), offset);
    }

    /// The descriptor does not say where this field is.
    pub(crate) fn without(&mut self, of: &str, field: &str) {
        self.types.entry(of.to_owned()).or_default().remove(field);
    }

    /// A class of the core library with instance fields: name, element type, offset.
    pub(crate) fn class(
        &mut self,
        namespace: &str,
        name: &str,
        parent: u64,
        fields: &[(&str, u32, u32)],
    ) -> u64 {
        let row = self.core.of_type(namespace, name);
        let table = self.method_table(row, 0x0100_0000, 32, parent);
        let fields: Vec<_> = fields.iter().map(|(name, kind, offset)| (*name, *kind, *offset, 0)).collect();
        self.fields(table, &fields);
        table
    }

    /// A value type of the core library.
    pub(crate) fn value(&mut self, namespace: &str, name: &str, fields: &[(&str, u32, u32)]) -> u64 {
        let object = self.object;
        let table = self.class(namespace, name, object, fields);
        self.put32(table, VALUE);
        table
    }

    /// A method table of the type in this row, with its class.
    pub(crate) fn method_table(&mut self, row: u32, flags: u32, base_size: u32, parent: u64) -> u64 {
        // Statics lie in front of what belongs to the method table.
        let auxiliary = self.alloc(64) + 32;
        let (table, class) = (self.alloc(64), self.alloc(64));
        self.put(table, u64::from(base_size) << 32 | u64::from(flags));
        self.put32(table + 8, row << 8);
        self.put(table + 16, parent);
        self.put(table + 24, self.module);
        self.put(table + 32, auxiliary);
        self.put(table + 40, class);
        self.put(class + 16, table);
        if parent != 0 {
            let inherited = self.read16(self.read(parent + 40) + 50);
            self.put16(class + 50, inherited);
        }
        table
    }

    /// Fields of a type: name, element type, offset, flags. The metadata has them in a row of their own each.
    pub(crate) fn fields(&mut self, table: u64, fields: &[(&str, u32, u32, u32)]) {
        let list = self.alloc(16 * fields.len() as u64);
        let class = self.read(table + 40);
        self.put(class + 24, list);
        let (mut instance, mut statics) = (self.read16(class + 50), 0);
        for (number, (name, element, offset, flags)) in fields.iter().enumerate() {
            let row = self.core.field(name);
            let at = list + 16 * number as u64;
            self.put(at, table);
            self.put32(at + 8, row | flags);
            self.put32(at + 12, offset | element << 27);
            if flags & STATIC == 0 { instance += 1 } else { statics += 1 }
        }
        self.put16(class + 50, instance);
        self.put16(class + 54, statics);
    }

    /// An array of a type; `rank` of more than one dimension.
    pub(crate) fn array(&mut self, element: u64, rank: Option<u8>) -> u64 {
        let object = self.object;
        let flags = if rank.is_some() { ARRAY } else { VECTOR };
        let table = self.method_table(0, flags | 8, 24, object);
        self.put(table + 48, element);
        if let Some(rank) = rank {
            let class = self.read(table + 40);
            self.bytes(class + 41, &[rank]);
        }
        table
    }

    /// Type arguments of a generic type.
    pub(crate) fn arguments(&mut self, table: u64, arguments: &[u64]) {
        let own = self.words(arguments);
        let counts = self.alloc(16);
        self.put16(counts + 4, 1);
        self.put16(counts + 6, arguments.len() as u16);
        self.put(counts + 8, own);
        self.put(table + 48, counts + 8);
        let flags = self.read(table);
        self.put(table, flags | u64::from(GENERIC));
    }

    /// An object: its type, and so many bytes of fields.
    pub(crate) fn instance(&mut self, table: u64, bytes: u64) -> u64 {
        // The header is in front.
        let at = self.alloc(24 + bytes) + 16;
        self.put(at, table);
        at
    }

    /// A string object.
    pub(crate) fn text(&mut self, text: &str) -> u64 {
        let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let string = self.string;
        let at = self.instance(string, 8 + units.len() as u64);
        self.put32(at + 8, (units.len() / 2) as u32);
        self.bytes(at + 12, &units);
        at
    }

    /// A word that leads to an object, as handles do.
    pub(crate) fn handle(&mut self, object: u64) -> u64 {
        self.words(&[object])
    }

    /// A thread, at the end of the list.
    pub(crate) fn thread(&mut self, id: u32, os_id: u32) -> u64 {
        let at = self.alloc(0x100);
        self.put32(at, id);
        self.put(at + 8, os_id.into());
        self.put(at + 24, NO_FRAME);
        self.put(self.last_link, at + LINK);
        self.last_link = at + LINK;
        self.threads += 1;
        self.put32(self.store, self.threads);
        at
    }

    /// What lies there.
    pub(crate) fn read(&self, at: u64) -> u64 {
        let (start, area) = &self.memory.areas[0];
        let from = usize::try_from(at - start).expect("in the area");
        u64::from_le_bytes(*area[from..].first_chunk().expect("in the area"))
    }

    fn read16(&self, at: u64) -> u16 {
        (self.read(at) & 0xffff) as u16
    }

    /// Metadata of a module, as one that was made at run time has it.
    pub(crate) fn metadata(&mut self, module: u64, metadata: &[u8]) {
        let at = self.store(&[&(metadata.len() as u32).to_le_bytes(), metadata].concat());
        self.put(module + 8, at);
    }

    /// The text of the descriptor.
    pub(crate) fn json(&self) -> String {
        let types = serde_json::to_string(&self.types).expect("texts and numbers");
        let globals: BTreeMap<_, _> =
            self.globals.iter().map(|(name, value)| (name, format!("{value:#x}"))).collect();
        let globals = serde_json::to_string(&globals).expect("texts");
        format!(r#"{{"version":0,"types":{types},"globals":{globals},"contracts":{{"ExecutionManager":2}}}}"#)
    }

    /// A descriptor with this text, and where it is.
    pub(crate) fn descriptor(&mut self, json: &str, addresses: &[u64]) -> u64 {
        let (text, table) = (self.store(json.as_bytes()), self.words(addresses));
        let at = self.alloc(40);
        self.put(at, MAGIC);
        self.put32(at + 12, json.len() as u32);
        self.put(at + 16, text);
        self.put32(at + 24, addresses.len() as u32);
        self.put(at + 32, table);
        at
    }

    /// Writes the metadata of the core library and the descriptor.
    pub(crate) fn found(&mut self) -> FoundRuntime {
        let metadata = self.core.metadata();
        self.metadata(self.module, &metadata);
        let json = self.json();
        let descriptor = self.descriptor(&json, &[]);
        FoundRuntime {
            kind: RuntimeKind::Library,
            path: b"/dotnet/libcoreclr.so".to_vec(),
            base: Avma(BASE),
            end: Avma(BASE + BYTES as u64),
            version: self.version,
            build_id: None,
            dac_table: self.table,
            descriptor: Some(Avma(descriptor)),
        }
    }

    /// Opens it with all checks.
    pub(crate) fn try_open(&mut self) -> Result<Runtime<'_>, RuntimeError> {
        let found = self.found();
        self.open_at(&found)
    }

    pub(crate) fn open_at(&self, found: &FoundRuntime) -> Result<Runtime<'_>, RuntimeError> {
        Runtime::open(self.boxed(), found, &Options::default())
    }

    /// Opens it; a thread is added where there is none.
    pub(crate) fn open(&mut self) -> Runtime<'_> {
        if self.threads == 0 {
            self.thread(1, 100);
        }
        self.try_open().expect("it fits")
    }

    /// Opens it without checks: what is read may be nonsense.
    pub(crate) fn open_unchecked(&mut self) -> Runtime<'_> {
        let found = self.found();
        Runtime::open_unchecked(self.boxed(), &found, &Options::default()).expect("it is laid out")
    }

    fn boxed(&self) -> Box<dyn Image + '_> {
        Box::new(&self.memory)
    }
}
