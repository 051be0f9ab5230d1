//! Objects and frames of V8 made by hand, with what they should say beside them.

mod inlined;
mod scopes;
mod stacks;
mod texts;

use biopsy_elf::MappedElf;

use super::objects::Objects;
use super::symbols::{Layout, PROGRAM_HEADERS, Symbols};
use crate::fuzz::{MadeImage, node_image};
use crate::{Limits, Memory, Module};

/// Where the heap of these tests is, and bytes of it.
const HEAP: u64 = 0x30_0000;
const HEAP_BYTES: usize = 0x4_0000;
/// Where their stack is, and bytes of it.
const STACK: u64 = 0x7100_0000;
const STACK_BYTES: usize = 0x4000;

/// What V8 12.4 exports.
fn layout() -> Layout {
    let (image, _) = node_image(1);
    let memory = Memory::new(&image, None, 1 << 20);
    let module = Module::all(&image).next().expect("one module");
    let read = |address, buffer: &mut [u8]| memory.read_available(address, buffer);
    let elf = MappedElf::read(&read, module.module.start, PROGRAM_HEADERS).expect("a file");
    let dynamic = elf.dynamic().expect("symbols");
    Layout::of(&Symbols { memory: &memory, elf: &elf, dynamic: &dynamic }).expect("all that is needed")
}

/// Objects, one behind the other.
struct Heap {
    image: MadeImage,
    layout: Layout,
    next: u64,
}

impl Heap {
    fn new() -> Self {
        let mappings = [(HEAP, HEAP_BYTES, true), (STACK, STACK_BYTES, true)];
        Self { image: MadeImage::new(b"/bin/made", &mappings), layout: layout(), next: HEAP }
    }

    fn room(&mut self, bytes: u64) -> u64 {
        let at = self.next;
        self.next += bytes.next_multiple_of(16);
        at
    }

    /// An object of a type, with the words behind its first, as a tagged word.
    fn object(&mut self, kind: u16, words: &[u64]) -> u64 {
        let map = self.room(32);
        self.image.put(map + self.layout.map_type, &kind.to_le_bytes());
        let at = self.room(8 + 8 * words.len() as u64);
        self.image.word(at, map + 1);
        for (place, word) in words.iter().enumerate() {
            self.image.word(at + 8 + 8 * place as u64, *word);
        }
        at + 1
    }

    /// A string in one piece.
    fn string(&mut self, text: &str) -> u64 {
        let units: Vec<u16> = text.encode_utf16().collect();
        self.units(&units)
    }

    fn units(&mut self, units: &[u16]) -> u64 {
        let narrow = units.iter().all(|unit| *unit < 0x100);
        let strings = self.layout.strings;
        let kind = strings.sequential | if narrow { strings.one_byte } else { 0 };
        let bytes: Vec<u8> = match narrow {
            true => units.iter().map(|unit| *unit as u8).collect(),
            false => units.iter().flat_map(|unit| unit.to_le_bytes()).collect(),
        };
        let at = self.object(kind, &vec![0; 1 + bytes.len() / 8 + 1]);
        self.length(at, units.len());
        let data = if narrow { self.layout.one_byte } else { self.layout.two_bytes };
        self.image.put(at - 1 + data, &bytes);
        at
    }

    fn length(&mut self, string: u64, length: usize) {
        self.image.half(string - 1 + self.layout.string_length, length as u32);
    }

    /// Reads with these objects.
    fn read<T>(&self, limits: &Limits, read: impl FnOnce(&Objects<'_>) -> T) -> T {
        let memory = Memory::new(&self.image, None, 1 << 20);
        read(&Objects::new(&memory, limits, self.layout.clone()))
    }

    /// The same where one thing is asked for.
    fn string_at(&self, string: u64) -> Option<String> {
        self.read(&Limits::default(), |objects| objects.string(string))
    }
}

/// A small number as a word.
fn smi(number: i64) -> u64 {
    (number << 32).cast_unsigned()
}
