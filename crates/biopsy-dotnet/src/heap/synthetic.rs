//! A small heap in made-up memory, for tests and fuzzing.

use biopsy_image::Image;
use biopsy_model::Avma;
use biopsy_model::heap::SAME_TEXT;

use super::source::Source;
use super::to_note::Noted;
use crate::graph::HeapType;
use crate::layout::Layout;
use crate::made_up::MadeUp;
use crate::runtime::TypeHandle;

/// Memory of a few areas.
#[derive(Debug, Default)]
pub(super) struct Synthetic {
    pub(super) memory: MadeUp,
    layout: Layout,
}

impl Source for Synthetic {
    fn image(&self) -> &dyn Image {
        &self.memory
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn describe(&self, TypeHandle(method_table): TypeHandle) -> HeapType {
        HeapType {
            name: format!("T{method_table:x}"),
            method_table,
            is_free: method_table == Avma(FREE),
            ..HeapType::default()
        }
    }

    fn noted(&self, of: TypeHandle) -> Noted {
        let name = |name: &str| vec![name.to_owned()];
        if of == NODE.into() {
            return Noted { names: name("_size"), offsets: vec![16], ..Noted::default() };
        }
        let is_text = of == BYTES.into();
        Noted { names: if is_text { name(SAME_TEXT) } else { Vec::new() }, is_text, ..Noted::default() }
    }

    fn loader_allocator(&self, method_table: TypeHandle) -> Option<Avma> {
        (method_table == NODE.into()).then_some(Avma(0))
    }
}

/// Addresses.
pub(super) const GC: u64 = 0x1000_0000;
const VARIABLES: u64 = GC + 0x1000;
const TABLE: u64 = GC + 0x2000;
const SEGMENTS: u64 = GC + 0x3000;
const QUEUE: u64 = GC + 0x4000;
const HANDLES: u64 = GC + 0x5000;
/// Method tables: free space, two references, `object[]`, `(object, long)[]`, `byte[]`.
pub(super) const FREE: u64 = 0x2000_0100;
pub(super) const NODE: u64 = 0x2000_0200;
pub(super) const OBJECTS: u64 = 0x2000_0300;
pub(super) const PAIRS: u64 = 0x2000_0400;
pub(super) const BYTES: u64 = 0x2000_0500;
/// Memory of generation 0, with a gap for one thread, of generation 2, and of large objects.
pub(super) const YOUNG: u64 = 0x3000_0000;
pub(super) const OLD: u64 = 0x3040_0000;
pub(super) const BIG: u64 = 0x7f00_0000_0000;
const SIZE: usize = 0x8000;

impl Synthetic {
    /// A heap of a few objects: see the tests of the walk.
    pub(super) fn new() -> Self {
        let areas = [(GC, 0x18000), (0x2000_0000, 0x1000), (YOUNG, SIZE), (OLD, SIZE), (BIG, SIZE)];
        let areas = areas.into_iter().map(|(start, size)| (start, vec![0; size]));
        let mut this = Self { memory: MadeUp::new(areas.collect()), layout: Layout::default() };
        let fields: &[(&str, &[(&str, u32)])] = &[
            (
                "GcDacVars",
                &[
                    ("GenerationSize", 8),
                    ("GenerationTable", 48),
                    ("ConcurrentState", 72),
                    ("EphemeralHeapSegment", 80),
                    ("AllocAllocated", 120),
                    ("FinalizeQueue", 144),
                    ("NHeaps", 176),
                    ("GHeaps", 184),
                    ("GcStructuresInvalidCnt", 192),
                    ("HandleTableMap", 232),
                    ("GcHeapFieldOffsets", 240),
                    ("GenerationFieldOffsets", 248),
                ],
            ),
            ("HeapSegment", &[("Allocated", 0), ("Mem", 32), ("Flags", 40), ("Next", 48)]),
            ("MethodTable", &[("MTFlags", 0), ("BaseSize", 4)]),
            ("FinalizeQueue", &[("FillPointers", 0)]),
        ];
        for (of, names) in fields {
            names.iter().for_each(|(name, offset)| this.layout.set_field(of, name, *offset));
        }
        this.collector();
        this.types();
        this.objects();
        this
    }

    pub(super) fn put(&mut self, address: u64, value: u64) {
        self.memory.put(address, value);
    }

    fn collector(&mut self) {
        self.put(GC + 8, 256);
        for (field, at) in [(80, 0), (120, 8), (144, 16), (192, 24), (248, 32)] {
            self.put(GC + field, VARIABLES + at);
        }
        self.put(GC + 48, TABLE);
        self.put(GC + 232, HANDLES);
        self.put(VARIABLES, SEGMENTS);
        self.put(VARIABLES + 8, YOUNG + 0x200);
        self.put(VARIABLES + 16, QUEUE);
        self.put(VARIABLES + 32, 56 << 32);
        self.put(VARIABLES + 40, u64::from(u32::MAX));
        for (generation, number, start, end) in
            [(0, 0, YOUNG, YOUNG), (2, 1, OLD, OLD + 0x100), (3, 2, BIG, BIG + 0x4000)]
        {
            let segment = SEGMENTS + number * 64;
            self.put(TABLE + generation * 256 + 56, segment);
            self.put(segment, end);
            self.put(segment + 32, start);
        }
        // One object waits for its finalizer.
        for pointer in 0..7 {
            self.put(QUEUE + pointer * 8, QUEUE + 0x100 + if pointer > 4 { 8 } else { 0 });
        }
        self.put(QUEUE + 0x100, OLD);
        // A map with one bucket, one table of 14 kinds, one segment, and three handles in two blocks.
        let [buckets, bucket, slots, table, segment] =
            [HANDLES + 0x40, HANDLES + 0x100, HANDLES + 0x180, HANDLES + 0x200, HANDLES + 0x1000];
        self.put(HANDLES, buckets);
        self.put(HANDLES + 16, 1);
        self.put(buckets, bucket);
        self.put(bucket, slots);
        self.put(slots, table);
        self.put(table + 56, segment);
        self.put(segment + 1920 + 14 * 6 + 8, table);
        for at in (1560..1800).step_by(8) {
            self.put(segment + at, u64::MAX);
        }
        self.put(segment + 1560, u64::MAX << 24 | 0xff_06_02);
        self.put(segment + 1680, u64::MAX << 16 | 0x02_ff);
        self.put(segment + 600, !1);
        self.put(segment + 608, !1);
        self.put(segment + 4096, YOUNG);
        self.put(segment + 4096 + 512, YOUNG);
        self.put(segment + 4096 + 1024, YOUNG + 0x1a0);
    }

    fn types(&mut self) {
        let pointers = 0x0100_0000u64;
        let elements = 0x8000_0000u64;
        self.put(FREE, 24 << 32 | elements | 1);
        self.put(BYTES, 24 << 32 | elements | 1);
        self.put(NODE, 32 << 32 | pointers);
        self.put(NODE - 8, 1);
        self.put(NODE - 24, (-16i64).cast_unsigned());
        self.put(NODE - 16, 8);
        self.put(OBJECTS, 24 << 32 | elements | pointers | 8);
        self.put(OBJECTS - 8, 1);
        self.put(OBJECTS - 24, (-24i64).cast_unsigned());
        self.put(OBJECTS - 16, 16);
        self.put(PAIRS, 24 << 32 | elements | pointers | 16);
        self.put(PAIRS - 8, (-1i64).cast_unsigned());
        self.put(PAIRS - 16, 16);
        self.put(PAIRS - 24, 8 << 32 | 1);
    }

    fn objects(&mut self) {
        // YOUNG: node → the array; room of a thread from 0x20 to 0x100 less the smallest object; free; array of 1; bytes and a node (garbage).
        self.put(YOUNG, NODE);
        self.put(YOUNG + 8, YOUNG + 0x140);
        self.put(YOUNG + 0x100, FREE);
        self.put(YOUNG + 0x108, 0x40 - 24);
        self.put(YOUNG + 0x140, OBJECTS);
        self.put(YOUNG + 0x148, 1);
        self.put(YOUNG + 0x150, OLD + 0x20);
        self.put(YOUNG + 0x160, BYTES);
        self.put(YOUNG + 0x168, 1);
        self.put(YOUNG + 0x180, NODE);
        self.put(YOUNG + 0x190, YOUNG + 0x180);
        self.put(YOUNG + 0x1a0, BYTES);
        self.put(YOUNG + 0x1a8, 0x60 - 24);
        // OLD: node (waits), pairs of two.
        self.put(OLD, NODE);
        self.put(OLD + 0x20, PAIRS);
        self.put(OLD + 0x28, 2);
        self.put(OLD + 0x30, BIG);
        self.put(OLD + 0x38, 77);
        self.put(OLD + 0x40, OLD + 0x20);
        self.put(OLD + 0x58, FREE);
        self.put(OLD + 0x60, 0x100 - 0x58 - 24);
        self.put(BIG, BYTES);
        self.put(BIG + 8, 0x4000 - 24);
    }
}
