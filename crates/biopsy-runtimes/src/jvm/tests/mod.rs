//! What HotSpot keeps, made by hand with offsets of our own: nothing here is read by where a real version has it by chance.

mod caches;
mod lines;
mod objects;
mod stacks;
mod tables;

use super::code::CodeCache;
use super::compressed::Form;
use super::layout::{BlobKind, Classes, Code, Fields, Layout, Methods, Parts, Threads};
use super::vm::{ClassPointers, References, Vm};
use crate::fuzz::MadeImage;
use crate::{Limits, Memory};

const DATA: u64 = 0x30_0000;
const DATA_BYTES: usize = 0x8_0000;
const STACK: u64 = 0x7100_0000;
const STACK_BYTES: usize = 0x8000;
/// Where the interpreter would be, and bytes of it; where the stub is that native code calls Java by.
const INTERPRETER: u64 = 0x5000_0000;
const INTERPRETER_BYTES: u32 = 0x1_0000;
const STUB: u64 = 0x5200_0000;

/// Offsets, each of them another one where a structure has several.
fn layout(apart: bool) -> Layout {
    let parts = match apart {
        false => Parts::Inline { code: 16, deopt: 40, scopes: 48, pcs: 56, pcs_end: 60, metadata: 64 },
        true => Parts::Apart {
            code: 16,
            deopt: 36,
            constant: 40,
            constant_bytes: 48,
            pcs: 52,
            scopes: 56,
            mutable: 64,
            mutable_bytes: 72,
            relocation_bytes: 76,
        },
    };
    Layout {
        threads: Threads {
            anchor_sp: 0,
            anchor_fp: 8,
            anchor_pc: 16,
            call_wrapper_anchor: 32,
            call_wrapper_slot: -6,
            ..Threads::default()
        },
        methods: Methods {
            constants_of_method: 8,
            access_flags: 16,
            pool: 0,
            flags: 8,
            line_numbers_flag: 4,
            code_size: 10,
            name: 12,
            constant_size: 16,
            pool_size: 24,
            pool_length: 0,
            pool_holder: 8,
            source_file: 16,
            symbol_length: 0,
            symbol_body: 2,
        },
        classes: Classes {
            mark: 0,
            class: 8,
            compressed_class: 8,
            class_shift: None,
            name: 8,
            parent: 16,
            pool: 24,
            fields: Fields::Stream { array: 32 },
            bytes_data: 4,
        },
        code: Code {
            heaps: DATA,
            heaps_length: 0,
            heaps_data: 8,
            heap_memory: 0,
            heap_segments: 16,
            heap_segment_bits: 32,
            space_low: 0,
            space_high: 8,
            block: 16,
            interpreter: DATA + 8,
            interpreter_start: 0,
            interpreter_bytes: 8,
            call_stub_return: DATA + 16,
            frame_size: 8,
            frame_complete: 12,
            short_frame_complete: apart,
            kind: if apart { BlobKind::Byte(0, 3) } else { BlobKind::Name(0) },
            method: 24,
            original_pc: 32,
            parts,
            pc: 0,
            pc_scope: 4,
            pc_size: 16,
        },
        ..Layout::default()
    }
}

/// A virtual machine that is made.
struct Made {
    image: MadeImage,
    layout: Layout,
    form: Form,
    limits: Limits,
    next: u64,
    names: [u64; 2],
    /// Heaps of the code cache: where each is.
    heaps: Vec<u64>,
}

impl Made {
    fn new(apart: bool, form: Form) -> Self {
        let mappings = [(DATA, DATA_BYTES, true), (STACK, STACK_BYTES, true)];
        let image = MadeImage::new(b"/bin/made", &mappings);
        let (layout, limits) = (layout(apart), Limits::default());
        // The first words are the variables.
        let mut made =
            Self { image, layout, form, limits, next: DATA + 64, names: [0; 2], heaps: Vec::new() };
        made.names = [made.bytes(b"nmethod\0"), made.bytes(b"RuntimeStub\0")];
        let queue = made.words(&[INTERPRETER, INTERPRETER_BYTES.into()]);
        made.image.word(DATA + 8, queue);
        made.image.word(DATA + 16, STUB);
        made
    }

    fn room(&mut self, bytes: u64) -> u64 {
        let at = self.next.next_multiple_of(8);
        self.next = at + bytes;
        at
    }

    fn words(&mut self, words: &[u64]) -> u64 {
        let at = self.room(8 * words.len() as u64);
        for (place, word) in words.iter().enumerate() {
            self.image.word(at + 8 * place as u64, *word);
        }
        at
    }

    fn bytes(&mut self, bytes: &[u8]) -> u64 {
        let at = self.room(bytes.len() as u64);
        self.image.put(at, bytes);
        at
    }

    fn symbol(&mut self, text: &str) -> u64 {
        let length = (text.len() as u16).to_le_bytes();
        self.bytes(&[&length, text.as_bytes()].concat())
    }

    /// A class with these constants, from 1 on; the last is the name of its file.
    fn class(&mut self, name: &str, constants: &[&str]) -> u64 {
        let class = self.room(64);
        let name = self.symbol(name);
        let symbols: Vec<u64> = constants.iter().map(|text| self.symbol(text)).collect();
        let count = constants.len() as u64;
        let mut words = vec![count + 1, class, count, 0];
        words.extend(symbols);
        let pool = self.words(&words);
        self.image.word(class + 8, name);
        self.image.word(class + 24, pool);
        class
    }

    /// A method of a class: number of its name among the constants, bytes of its code, and its table of lines.
    fn method(&mut self, class: u64, name: u16, code: u16, lines: Option<&[u8]>, access: u32) -> u64 {
        let pool = self.image.word_at(class + 24);
        let constant = self.room(16);
        self.image.word(constant, pool);
        let flags: u16 = if lines.is_some() { 4 } else { 0xfffb };
        let halves = [flags, code, name, 0];
        self.image.put(constant + 8, &halves.map(u16::to_le_bytes).concat());
        self.room(0);
        let behind = vec![0; usize::from(code)];
        let all = [&behind, lines.unwrap_or_default()].concat();
        assert_eq!(self.bytes(&all), constant + 16, "its code follows");
        self.words(&[0, constant, access.into()])
    }

    /// Writes the list of heaps and reads with all of it.
    fn read<T>(&mut self, read: impl FnOnce(&Vm<'_>, &CodeCache<'_>) -> T) -> T {
        let heaps = self.heaps.clone();
        let data = self.words(&heaps);
        let list = self.words(&[heaps.len() as u64, data]);
        self.image.word(DATA, list);
        let memory = Memory::new(&self.image, None, 1 << 20);
        let (references, classes) = (References::Wide, ClassPointers::Wide);
        let vm = Vm::known(&memory, &self.limits, self.layout.clone(), (21, self.form), references, classes);
        let code = CodeCache::read(&vm).expect("a code cache");
        read(&vm, &code)
    }
}

/// `UNSIGNED5` of a form.
fn packed(out: &mut Vec<u8>, value: u32, form: Form) {
    let least = u32::from(form == Form::WithoutZero);
    let low = 192 - least;
    let mut rest = value;
    for position in 0.. {
        if rest < low || position == 4 {
            out.push((least + rest) as u8);
            return;
        }
        rest -= low;
        out.push((least + low + rest % 64) as u8);
        rest >>= 6;
    }
}

/// `CompressedStream::encode_sign`.
fn signed(out: &mut Vec<u8>, value: i32, form: Form) {
    packed(out, ((value << 1) ^ (value >> 31)).cast_unsigned(), form);
}

/// `CompressedLineNumberWriteStream`: pairs of byte code and line.
fn line_table(rows: &[(i32, i32)], form: Form) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut code, mut line) = (0, 0);
    for (next_code, next_line) in rows {
        let (by_code, by_line) = (next_code - code, next_line - line);
        (code, line) = (*next_code, *next_line);
        let both = (by_code << 3) + by_line;
        match ((0..32).contains(&by_code) && (0..8).contains(&by_line), u8::try_from(both)) {
            // A zero would end the table.
            (true, Ok(both)) if both != 0 && both != 0xff => out.push(both),
            _ => {
                out.push(0xff);
                signed(&mut out, by_code, form);
                signed(&mut out, by_line, form);
            }
        }
    }
    out.push(0);
    out
}
