//! A program by hand: an arena of malloc, objects of C++ and of CPython that refer to each other, one stack.

use biopsy_allocators::UsedBlock;
use biopsy_allocators::fuzz::MadeProcess;
use biopsy_image::{
    Absence, Backing, GeneralRegisters, Image, ImageModule, Mapping, MemoryExt, ProcessFacts, Protection,
    ReadError, Thread,
};
use biopsy_model::{Avma, Pid, Tid};

use super::file::file;

const FILE: u64 = 0x40_0000;
const CODE: u64 = FILE + 0x1000;
const DATA: u64 = FILE + 0x2000;
const POOLS: u64 = 0x7e00_0000_0000;
const STACK: u64 = 0x7fff_0000_0000;
/// Start, bytes, and what may be done with it.
const AREAS: [(u64, usize, bool, bool); 5] = [
    (FILE, 0x1000, false, false),
    (CODE, 0x1000, false, true),
    (DATA, 0x4000, true, false),
    (POOLS, 0x8000, true, false),
    (STACK, 0x1000, true, false),
];
/// Variables, tables of virtual functions, type information, `_PyRuntime`, its version, types of Python, texts.
const SESSIONS: u64 = DATA + 0x40;
const SESSION_TABLE: u64 = DATA + 0x110;
const ROW_TABLE: u64 = DATA + 0x150;
const SESSION_INFO: u64 = DATA + 0x200;
const ROW_INFO: u64 = DATA + 0x220;
const INFO_TABLE: u64 = DATA + 0x250;
const RUNTIME: u64 = DATA + 0x300;
const VERSION: u64 = DATA + 0x2f0;
const TYPES: u64 = DATA + 0x1000;
const TYPE_BYTES: u64 = 0x180;
const TEXTS: u64 = DATA + 0x3000;
const SYMBOLS: [(&str, u64, u64); 5] = [
    ("sessions", SESSIONS - FILE, 16),
    ("_ZTV7Session", SESSION_TABLE - 16 - FILE, 40),
    ("_PyRuntime", RUNTIME - FILE, 0x800),
    ("Py_Version", VERSION - FILE, 4),
    ("PyType_Type", TYPES - FILE, TYPE_BYTES),
];
/// Blocks of malloc with their headers: what they are stands in [`Program::blocks`].
const BLOCKS: [u64; 12] = [0x40, 0x50, 0x70, 0x200, 0x30, 0x30, 0x30, 0x40, 0x210, 0x210, 0x80, 0x110];
/// Numbers of types of Python.
const TYPE: u64 = 0;
const MODULE: u64 = 1;
const DICT: u64 = 2;
const LIST: u64 = 3;
const STR: u64 = 4;
const NAMES: [&str; 5] = ["type", "module", "dict", "list", "str"];
/// `READY`, and with `HAVE_GC`, and of types.
const READY: u64 = 1 << 12;
const COLLECTED: u64 = READY | 1 << 14;
const OF_TYPES: u64 = COLLECTED | 1 << 31;

/// The program.
#[derive(Debug)]
pub struct Program {
    native: MadeProcess,
    mappings: Vec<Mapping>,
    bytes: Vec<Vec<u8>>,
    modules: Vec<ImageModule>,
    threads: Vec<Thread>,
    process: ProcessFacts,
    texts: u64,
}

impl Program {
    /// Whole, and the blocks that it made.
    #[must_use]
    pub fn new() -> (Self, Vec<UsedBlock>) {
        let (native, blocks) = MadeProcess::with_blocks(&BLOCKS);
        let path = b"/bin/made".to_vec();
        let mapping = |&(start, size, write, execute): &(u64, usize, bool, bool)| {
            let file = Backing::File { path: path.clone(), offset: 0, deleted: false, identity: (3, 4) };
            Mapping {
                start,
                end: start + size as u64,
                protection: Protection { read: true, write, execute },
                shared: false,
                backing: if start < POOLS { file } else { Backing::Anonymous { label: String::new() } },
                not_frozen: false,
            }
        };
        let mut mappings: Vec<Mapping> =
            AREAS.iter().map(mapping).chain(native.mappings().to_vec()).collect();
        mappings.sort_by_key(|one| one.start);
        let module = ImageModule {
            start: FILE,
            end: DATA + 0x4000,
            path: path.clone(),
            build_id: None,
            bias: FILE,
            is_elf: true,
            deleted: false,
        };
        let registers =
            GeneralRegisters { rsp: STACK + 0x800, fs_base: STACK + 0xf00, ..GeneralRegisters::default() };
        let mut program = Self {
            native,
            mappings,
            bytes: AREAS.iter().map(|(_, size, ..)| vec![0; *size]).collect(),
            modules: vec![module],
            threads: vec![Thread { tid: Tid(7), registers: Some(registers), ..Thread::default() }],
            process: ProcessFacts { pid: Pid(7), executable: Some(path), ..ProcessFacts::default() },
            texts: TEXTS,
        };
        program.put(FILE, &file(&SYMBOLS, (DATA - FILE, 0x4000)));
        program.tables();
        program.types();
        program.blocks(&blocks);
        let sizes = BLOCKS.iter().map(|size| size - 8);
        (
            program,
            blocks.into_iter().zip(sizes).map(|(at, size)| UsedBlock { start: Avma(at), size }).collect(),
        )
    }

    /// Tables of virtual functions with type information; that of shared objects is named after what is in it.
    fn tables(&mut self) {
        let row = "St23_Sp_counted_ptr_inplaceI3RowSaIvELN9__gnu_cxx12_Lock_policyE2EE";
        for (table, info, name) in [(SESSION_TABLE, SESSION_INFO, "7Session"), (ROW_TABLE, ROW_INFO, row)] {
            let name = self.text(name);
            for (at, word) in [
                (table - 8, info),
                (table, CODE),
                (table + 8, CODE + 16),
                (info, INFO_TABLE),
                (info + 8, name),
            ] {
                self.word(at, word);
            }
        }
        // Python 3.11.7.
        self.put(VERSION, &0x030b_07f0_u32.to_le_bytes());
    }

    fn type_at(number: u64) -> u64 {
        TYPES + number * TYPE_BYTES
    }

    fn types(&mut self) {
        for (number, name) in (0..).zip(NAMES) {
            let at = Self::type_at(number);
            let flags = match number {
                TYPE => OF_TYPES,
                STR => READY,
                _ => COLLECTED,
            };
            self.new_type(at, name, flags);
        }
    }

    fn new_type(&mut self, at: u64, name: &str, flags: u64) {
        let name = self.text(name);
        for (offset, word) in [(0, 1), (8, Self::type_at(TYPE)), (24, name), (32, 48), (168, flags)] {
            self.word(at + offset, word);
        }
    }

    /// What is in the blocks of malloc, and in two pools of small objects: of 64 bytes, and of 512.
    fn blocks(&mut self, blocks: &[u64]) {
        let &[object, node, shared, array, text, one, other, weak, module_keys, class_keys, items, _] =
            blocks
        else {
            return;
        };
        // Objects, one behind the links of a list; an array of them, that a variable holds.
        self.word(object, SESSION_TABLE);
        self.word(node, object);
        self.word(node + 8, array);
        self.word(node + 16, SESSION_TABLE);
        self.word(shared, ROW_TABLE);
        for (number, to) in (0..40).zip([object, node, shared, text, weak].into_iter().cycle()) {
            self.word(array + number * 8, to);
        }
        self.put(text, b"hello there, who are you");
        self.word(SESSIONS, array);
        // A circle that nothing leads to, and a word on the stack into the middle of a block.
        self.word(one, other + 8);
        self.word(other, one);
        self.word(STACK + 0x900, weak + 16);
        let [module, module_dict, cache, first, second, key, printed, name, old] =
            std::array::from_fn(|number| POOLS + 48 + number as u64 * 64);
        let class = POOLS + 0x4000 + 48 + 16;
        self.pool(POOLS, 64, 9);
        self.pool(POOLS + 0x4000, 512, 1);
        let head = 16;
        for (at, of) in [(module, MODULE), (module_dict, DICT), (cache, LIST)]
            .map(|(at, of)| (at + head, Self::type_at(of)))
        {
            self.word(at, 1);
            self.word(at + 8, of);
        }
        // A list that is kept to be used again: its items are another's by now.
        self.word(old + head + 8, Self::type_at(LIST));
        self.word(old + head + 24, items);
        for at in [first, second] {
            self.word(at + head, 1);
            self.word(at + head + 8, class);
        }
        self.word(module + head + 16, module_dict + head);
        self.word(module_dict + head + 32, module_keys);
        self.word(cache + head + 16, 2);
        self.word(cache + head + 24, items);
        self.word(items, first + head);
        self.word(items + 8, second + head);
        for (at, text) in [(key, "CACHE"), (printed, "printed"), (name, "app")] {
            self.new_text(at, text);
        }
        // The class's own dictionary is at the end of its pool's block.
        self.new_type(class, "Invoice", COLLECTED);
        let class_dict = class + 0x140;
        self.word(class + 264, class_dict);
        self.word(class_dict + 32, class_keys);
        // `__name__` has no room as a key of the pool: it is text of the program.
        let own_name = self.texts;
        self.new_text(own_name, "__name__");
        self.texts += 64;
        self.keys(module_keys, &[(key, cache + head), (own_name, name)]);
        self.keys(class_keys, &[(printed, items), (key, first + head)]);
    }

    /// A pool of CPython 3.10 and later with its first blocks in use and one that was given back.
    fn pool(&mut self, at: u64, size: u64, in_use: u64) {
        let (class, last) = (size / 16 - 1, (16 << 10) - size);
        self.word(at, in_use);
        self.word(at + 8, at + 48 + in_use * size);
        self.word(at + 32, class << 32);
        self.word(at + 40, (48 + (in_use + 1) * size) | last << 32);
    }

    fn new_text(&mut self, at: u64, text: &str) {
        self.word(at, 1);
        self.word(at + 8, Self::type_at(STR));
        self.word(at + 16, text.len() as u64);
        // A character has one byte, the characters follow the head, and all are ASCII.
        self.word(at + 32, 1 << 2 | 1 << 5 | 1 << 6);
        self.put(at + 40, text.as_bytes());
    }

    /// A table of keys of 3.11, eight bytes of indices, general keys.
    fn keys(&mut self, at: u64, entries: &[(u64, u64)]) {
        self.word(at, 1);
        self.word(at + 8, 3 | 3 << 8);
        self.word(at + 24, entries.len() as u64);
        for (number, (key, value)) in (0..).zip(entries) {
            self.word(at + 40 + number * 24 + 8, *key);
            self.word(at + 40 + number * 24 + 16, *value);
        }
    }

    /// A text among the constants.
    fn text(&mut self, text: &str) -> u64 {
        let at = self.texts;
        self.put(at, text.as_bytes());
        self.texts += (text.len() as u64 + 1).next_multiple_of(8);
        at
    }

    fn put(&mut self, address: u64, bytes: &[u8]) {
        for (number, byte) in (0..).zip(bytes) {
            let at = address + number;
            let word = self.read_u64(at & !7).unwrap_or(0);
            let shift = (at & 7) * 8;
            self.word(at & !7, word & !(0xff << shift) | u64::from(*byte) << shift);
        }
    }

    /// Writes a word; nothing where no memory is.
    fn word(&mut self, address: u64, word: u64) {
        self.native.word(address, word);
        for ((start, ..), bytes) in AREAS.iter().zip(&mut self.bytes) {
            let at = address.checked_sub(*start).and_then(|at| usize::try_from(at).ok());
            if let Some(to) = at.and_then(|at| bytes.get_mut(at..at.checked_add(8)?)) {
                to.copy_from_slice(&word.to_le_bytes());
            }
        }
    }

    /// The address of a word of all memory, counted from the lowest on; behind the last it begins again.
    pub(super) fn address(&self, number: u64) -> u64 {
        let all: u64 = self.mappings.iter().map(Mapping::size).sum();
        let mut left = number * 8 % all.max(8);
        for one in &self.mappings {
            if left < one.size() {
                return one.start + left;
            }
            left -= one.size();
        }
        FILE
    }

    /// Changes the word with this number: an address of something, a number, another bit, something near.
    pub(super) fn change(&mut self, number: u64, how: u8, by: u16) {
        let at = self.address(number);
        let before = self.read_u64(at).unwrap_or(0);
        let by = u64::from(by);
        let word = match how % 8 {
            0 => self.address(by),
            1 => self.address(by) + u64::from(how >> 3),
            2 => by,
            3 => !by,
            4 => before ^ 1 << (by % 64),
            5 => before.wrapping_add(by << (how >> 3)),
            6 => before.wrapping_sub(by << (how >> 3)),
            _ => by << 32 | by,
        };
        self.word(at, word);
    }
}

impl Image for Program {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        for ((start, ..), bytes) in AREAS.iter().zip(&self.bytes) {
            let at = address.checked_sub(*start).and_then(|at| usize::try_from(at).ok());
            if let Some(rest) = at.and_then(|at| bytes.get(at..)).filter(|rest| !rest.is_empty()) {
                let length = rest.len().min(buffer.len());
                buffer[..length].copy_from_slice(&rest[..length]);
                return Ok(length);
            }
        }
        match self.native.read(address, buffer) {
            Ok(read) => Ok(read),
            Err(_) => Err(ReadError::Missing { address, why: Absence::Unmapped }),
        }
    }

    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[Thread] {
        &self.threads
    }

    fn modules(&self) -> &[ImageModule] {
        &self.modules
    }

    fn process(&self) -> &ProcessFacts {
        &self.process
    }
}
