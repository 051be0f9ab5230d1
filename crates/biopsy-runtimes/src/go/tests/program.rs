//! A Go program by hand: functions with their tables and code, goroutines with their stacks and notes.

use biopsy_image::GeneralRegisters;

use crate::fuzz::MadeImage;
use crate::go::layout::{Layout, g, sudog};
use crate::{Limits, Memory, Module, RuntimeStrands, Strand, StrandId};

pub(super) const TEXT: u64 = 0x40_0000;
pub(super) const CONSTANTS: u64 = 0x41_0000;
pub(super) const DATA: u64 = 0x42_0000;
pub(super) const HEAP: u64 = 0xc0_0000_0000;
/// Bytes of each function.
pub(super) const FUNCTION: u64 = 0x100;
/// Where a call returns to, mostly.
pub(super) const CALL: u64 = 5;
const STACK_BYTES: u64 = 0x800;
const NAMES: u64 = CONSTANTS + 0x100;
const FILE_NUMBERS: u64 = CONSTANTS + 0x1100;
const FILES: u64 = CONSTANTS + 0x1200;
const PAIRS: u64 = CONSTANTS + 0x1800;
const FUNCTIONS: u64 = CONSTANTS + 0x3000;
const FUNCTION_BYTES: u64 = 0x80;
const ROWS: u64 = CONSTANTS + 0x5000;
const TREES: u64 = CONSTANTS + 0x5800;
const REASONS: u64 = CONSTANTS + 0x6000;
pub(super) const TYPES: u64 = CONSTANTS + 0x6c00;
const TYPES_END: u64 = CONSTANTS + 0x7000;
pub(super) const VERSION: u64 = DATA + 0x100;
pub(super) const MODULE: u64 = DATA + 0x400;
pub(super) const REASON_TABLE: u64 = DATA + 0x800;
pub(super) const ALL: u64 = DATA + 0x1000;
const LIST: u64 = HEAP + 0x3_0000;
const FREE: u64 = HEAP + 0x3_1000;

/// What goroutines wait for here, by number.
pub(super) const WHY: [&str; 18] = [
    "",
    "GC assist marking",
    "IO wait",
    "chan receive (nil chan)",
    "chan send (nil chan)",
    "select",
    "select (no cases)",
    "chan receive",
    "chan send",
    "semacquire",
    "sleep",
    "sync.Cond.Wait",
    "sync.Mutex.Lock",
    "sync.RWMutex.RLock",
    "sync.RWMutex.Lock",
    "sync.WaitGroup.Wait",
    "finalizer wait",
    "wait for GC cycle",
];

/// Values for stretches of code: value, bytes.
pub(super) type Values = Vec<(i32, u32)>;

/// A function.
#[derive(Clone)]
pub(super) struct Made {
    pub(super) name: String,
    /// Bytes of its frame.
    pub(super) sizes: Values,
    pub(super) lines: Values,
    pub(super) files: Values,
    pub(super) is_top: bool,
    /// Functions that were put into it: name, place in the function around it.
    pub(super) inlined: Vec<(&'static str, u32)>,
    /// Which of them an instruction is of.
    pub(super) rows: Values,
}

/// A goroutine to be made.
#[derive(Clone)]
pub(super) struct Go {
    pub(super) id: u64,
    pub(super) status: u32,
    /// Instructions that are next, innermost first.
    pub(super) pcs: Vec<u64>,
    pub(super) why: &'static str,
    pub(super) m: u64,
    pub(super) since: u64,
    pub(super) start: Option<u64>,
}

/// A goroutine that was made.
#[derive(Clone, Debug)]
pub(super) struct G {
    pub(super) at: u64,
    /// Stack pointers of its frames.
    pub(super) sps: Vec<u64>,
}

/// The program.
pub(super) struct Program {
    pub(super) image: MadeImage,
    pub(super) layout: Layout,
    pub(super) functions: Vec<Made>,
    pub(super) limits: Limits,
    goroutines: u64,
    free: u64,
    pub(super) park: u64,
    pub(super) exit: u64,
}

impl Program {
    /// With a main goroutine that sleeps.
    pub(super) fn new(minor: u32) -> Self {
        let layout = Layout::of(minor).expect("a known version");
        let mappings =
            [(TEXT, 0x4000, false), (CONSTANTS, 0x8000, false), (DATA, 0x4000, true), (HEAP, 0x4_0000, true)];
        let mut image = MadeImage::new(b"/bin/made", &mappings);
        let version = format!("go1.{minor}.3");
        image.put(VERSION, b"\xff Go buildinf:\x08\x02");
        image.put(VERSION + 32, &[version.len() as u8]);
        image.put(VERSION + 33, version.as_bytes());
        for (number, text) in WHY.iter().enumerate().skip(1) {
            let at = REASONS + number as u64 * 32;
            image.put(at, text.as_bytes());
            image.word(REASON_TABLE + (number as u64 - 1) * 16, at);
            image.word(REASON_TABLE + (number as u64 - 1) * 16 + 8, text.len() as u64);
        }
        let mut made = Self {
            image,
            layout,
            functions: Vec::new(),
            limits: Limits::small(),
            goroutines: 0,
            free: FREE,
            park: 0,
            exit: 0,
        };
        made.exit = made.function("runtime.goexit", 0);
        made.functions[0].is_top = true;
        made.park = made.function("runtime.gopark", 0x10);
        let main = made.function("runtime.main", 0x18);
        made.goroutine(&made.waits(1, &[main + CALL], "sleep"));
        made
    }

    /// A function of a frame of so many bytes, with line 10 times its number; gives its entry.
    pub(super) fn function(&mut self, name: &str, size: i32) -> u64 {
        let number = self.functions.len();
        let all = |value| vec![(value, FUNCTION as u32)];
        self.functions.push(Made {
            name: name.to_owned(),
            sizes: all(size),
            lines: all(10 * number as i32 + 10),
            files: all(0),
            is_top: false,
            inlined: Vec::new(),
            rows: Vec::new(),
        });
        let entry = TEXT + number as u64 * FUNCTION;
        // `int3`: what is not code is not walked through.
        self.image.put(entry, &[0xcc; FUNCTION as usize]);
        entry
    }

    pub(super) fn made(&mut self, entry: u64) -> &mut Made {
        &mut self.functions[((entry - TEXT) / FUNCTION) as usize]
    }

    /// Room on the heap.
    pub(super) fn room(&mut self, bytes: u64) -> u64 {
        let at = self.free;
        self.free += bytes.next_multiple_of(16);
        at
    }

    /// A goroutine that is parked by these callers, for this.
    pub(super) fn waits(&self, id: u64, callers: &[u64], why: &'static str) -> Go {
        let pcs = [&[self.park + CALL], callers, &[self.exit + 1]].concat();
        Go { id, status: 4, pcs, why, m: 0, since: 0, start: None }
    }

    pub(super) fn goroutine(&mut self, go: &Go) -> G {
        let number = self.goroutines;
        self.goroutines += 1;
        let (at, stack) = (HEAP + number * 0x400, HEAP + 0x1_0000 + number * STACK_BYTES);
        let mut sps = vec![stack + 0x200];
        for pair in go.pcs.windows(2) {
            let slot = sps[sps.len() - 1] + self.size_at(pair[0]);
            self.image.word(slot, pair[1]);
            sps.push(slot + 8);
        }
        let started = go.pcs.len().checked_sub(2).map_or(0, |last| go.pcs[last] & !(FUNCTION - 1));
        let why = WHY.iter().position(|why| *why == go.why).expect("a reason");
        let layout = self.layout;
        for (offset, word) in [
            (g::STACK_LOW, stack),
            (g::STACK_HIGH, stack + STACK_BYTES),
            (g::M, go.m),
            (g::SP, sps[0]),
            (g::PC, go.pcs.first().copied().unwrap_or(0)),
            (g::SELF, at),
            (layout.g_status, go.status.into()),
            (layout.g_id, go.id),
            (layout.g_wait_since, go.since),
            (layout.g_wait_reason, why as u64),
            (layout.g_start_pc, go.start.unwrap_or(started)),
            (layout.g_go_pc, TEXT + 2 * FUNCTION + CALL),
        ] {
            self.image.word(at + offset, word);
        }
        self.image.word(LIST + number * 8, at);
        for (offset, word) in [(0, LIST), (8, number + 1), (16, number + 1)] {
            self.image.word(ALL + offset, word);
        }
        G { at, sps }
    }

    fn size_at(&self, pc: u64) -> u64 {
        let function = &self.functions[((pc - TEXT) / FUNCTION) as usize];
        let mut end = 0;
        let here = function.sizes.iter().find(|(_, bytes)| {
            end += u64::from(*bytes);
            pc % FUNCTION < end
        });
        here.map_or(0, |(size, _)| u64::try_from(*size).unwrap_or(0))
    }

    /// A note that the goroutine waits at a channel, or at a semaphore; `next`: the note behind it.
    pub(super) fn note(&mut self, of: &G, channel: u64, semaphore: u64, next: u64) -> u64 {
        let at = self.room(0x80);
        for (offset, word) in [
            (sudog::G, of.at),
            (sudog::ELEMENT, semaphore),
            (self.layout.sudog_channel, channel),
            (self.layout.sudog_next, next),
        ] {
            self.image.word(at + offset, word);
        }
        at
    }

    /// Hangs a note on a goroutine, as the runtime does for channels, and from 1.25 on for semaphores.
    pub(super) fn hang(&mut self, of: &G, note: u64) {
        self.image.word(of.at + self.layout.g_waiting, note);
    }

    /// Puts code behind a call of a function, and gives where the call returns to.
    pub(super) fn code(&mut self, entry: u64, code: impl FnOnce(Code) -> Code) -> u64 {
        let code = code(Code { at: entry + CALL, bytes: Vec::new() });
        self.image.put(entry + CALL, &code.bytes);
        entry + CALL
    }

    /// A lock that somebody has, and a goroutine that waits for it in `sync.(*Mutex).lockSlow`.
    pub(super) fn wanted_mutex(&mut self, id: u64) -> u64 {
        let lock = self.room(0x40);
        self.image.half(lock, 1);
        self.waits_for_mutex(id, lock, "main.wants");
        lock
    }

    pub(super) fn waits_for_mutex(&mut self, id: u64, lock: u64, caller: &str) -> G {
        let slow = self.function("sync.(*Mutex).lockSlow", 0x20);
        let wants = self.function(caller, 0x18);
        let go = self.waits(id, &[slow + CALL, wants + CALL], "sync.Mutex.Lock");
        let made = self.goroutine(&go);
        let note = self.note(&made, 0, lock + 4, 0);
        self.image.word(made.sps[0], note);
        made
    }

    /// Writes the tables, as they are by now.
    pub(super) fn finish(mut self) -> Finished {
        let layout = self.layout;
        let magic: &[u8; 8] = if layout.function_table_count == 39 {
            b"\xf0\xff\xff\xff\0\0\x01\x08"
        } else {
            b"\xf1\xff\xff\xff\0\0\x01\x08"
        };
        self.image.put(CONSTANTS, magic);
        self.image.word(CONSTANTS + 32, NAMES - CONSTANTS);
        self.image.put(FILES, b"/src/made.go\0/src/other.go\0");
        self.image.half(FILE_NUMBERS, 0);
        self.image.half(FILE_NUMBERS + 4, 13);
        self.image.half(FILE_NUMBERS + 8, u32::MAX);
        let (mut name_at, mut pair_at, mut tree_at) = (1, 1, TREES);
        let functions = std::mem::take(&mut self.functions);
        for (number, made) in functions.iter().enumerate() {
            let number = number as u64;
            let mut name = |image: &mut MadeImage, text: &str| {
                let at = name_at;
                image.put(NAMES + at, text.as_bytes());
                image.put(NAMES + at + text.len() as u64, &[0]);
                name_at += text.len() as u64 + 1;
                at as u32
            };
            let mut table = |image: &mut MadeImage, values: &Values| {
                let at = pair_at;
                let bytes = pairs(values);
                image.put(PAIRS + at, &bytes);
                pair_at += bytes.len() as u64;
                at as u32
            };
            let at = FUNCTIONS + number * FUNCTION_BYTES;
            let entry = (number * FUNCTION) as u32;
            let inlines = !made.inlined.is_empty();
            let fields = [
                entry,
                name(&mut self.image, &made.name),
                0,
                0,
                table(&mut self.image, &made.sizes),
                table(&mut self.image, &made.files),
                table(&mut self.image, &made.lines),
                if inlines { 3 } else { 0 },
                0,
            ];
            for (place, field) in fields.iter().enumerate() {
                self.image.half(at + place as u64 * 4, *field);
            }
            let last = at + layout.function_table_count;
            self.image.put(last - 2, &[u8::from(made.is_top), 0, if inlines { 4 } else { 0 }]);
            if inlines {
                let rows = table(&mut self.image, &made.rows);
                self.image.half(last + 1 + 8, rows);
                self.image.half(last + 1 + (3 + 3) * 4, (tree_at - CONSTANTS) as u32);
                for (text, parent) in &made.inlined {
                    let text = name(&mut self.image, text);
                    self.image.half(tree_at + layout.inline_name, text);
                    self.image.half(tree_at + layout.inline_parent_pc, *parent);
                    tree_at += layout.inline_row;
                }
            }
            self.image.half(ROWS + number * 8, entry);
            self.image.half(ROWS + number * 8 + 4, (number * FUNCTION_BYTES) as u32);
        }
        let count = functions.len() as u64;
        let end = TEXT + count * FUNCTION;
        self.image.half(ROWS + count * 8, (end - TEXT) as u32);
        let fields = [
            (0, CONSTANTS),
            (8, NAMES),
            (32, FILE_NUMBERS),
            (56, FILES),
            (80, PAIRS),
            (104, FUNCTIONS),
            (128, ROWS),
            (136, count + 1),
            (176, TEXT),
            (184, end),
            (192, DATA),
            (200, DATA + 0x800),
            (208, DATA + 0x800),
            (216, DATA + 0x1000),
            (224, DATA + 0x1000),
            (232, DATA + 0x2000),
            (240, DATA + 0x2000),
            (248, DATA + 0x2000),
            (layout.module_function_data - 24, TYPES),
            (layout.module_function_data - 16, TYPES_END),
            (layout.module_function_data, CONSTANTS),
        ];
        for (offset, word) in fields {
            self.image.word(MODULE + offset, word);
        }
        Finished { image: self.image, limits: self.limits }
    }

    pub(super) fn thread(&mut self, tid: u32, registers: GeneralRegisters) {
        self.image.thread(tid, registers);
    }
}

/// Machine code, one instruction behind the other.
pub(super) struct Code {
    at: u64,
    bytes: Vec<u8>,
}

impl Code {
    pub(super) fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn relative(self, operation: &[u8], to: u64) -> Self {
        let code = self.raw(operation);
        let next = code.at + code.bytes.len() as u64 + 4;
        code.raw(&(to.wrapping_sub(next) as u32).to_le_bytes())
    }

    /// `mov rax, number`
    pub(super) fn rax(self, number: u64) -> Self {
        self.raw(&[0x48, 0xb8]).raw(&number.to_le_bytes())
    }

    /// `mov rbx, number`
    pub(super) fn rbx(self, number: u64) -> Self {
        self.raw(&[0x48, 0xbb]).raw(&number.to_le_bytes())
    }

    pub(super) fn call(self, to: u64) -> Self {
        self.relative(&[0xe8], to)
    }

    pub(super) fn jump(self, to: u64) -> Self {
        self.relative(&[0xe9], to)
    }

    /// `je`
    pub(super) fn branch(self, to: u64) -> Self {
        self.relative(&[0x0f, 0x84], to)
    }

    pub(super) fn ret(self) -> Self {
        self.raw(&[0xc3])
    }

    /// Where the next instruction will be.
    pub(super) fn here(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
}

/// Pairs of changes of value and address (`runtime.step`).
fn pairs(values: &Values) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut before = -1;
    for (value, length) in values {
        let change = value - before;
        before = *value;
        varint(&mut bytes, (change << 1 ^ change >> 31).cast_unsigned());
        varint(&mut bytes, *length);
    }
    bytes.push(0);
    bytes
}

pub(super) fn varint(bytes: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// A program that can be read.
pub(super) struct Finished {
    pub(super) image: MadeImage,
    pub(super) limits: Limits,
}

impl Finished {
    pub(super) fn read(&self) -> RuntimeStrands {
        let memory = Memory::new(&self.image, None, self.limits.cached_bytes);
        let module = Module::all(&self.image).next().expect("there is one");
        let found = crate::go::read(&memory, &module, &self.limits).expect("Go is found");
        crate::fuzz::fits_together(&found);
        found
    }
}

pub(super) fn strand(found: &RuntimeStrands, id: StrandId) -> &Strand {
    found.strand(id).unwrap_or_else(|| panic!("{id} of {found:#?}"))
}

/// Functions with lines, innermost first; what was inlined in brackets.
pub(super) fn shown(strand: &Strand) -> Vec<String> {
    let frame = |frame: &crate::StrandFrame| {
        let text = format!("{}:{}", frame.function, frame.line.map_or(-1, i64::from));
        if frame.inlined { format!("[{text}]") } else { text }
    };
    strand.frames.iter().map(frame).collect()
}
