//! A Python process by hand: two threads, one inside of a `with` block of the lock that the other one waits for.

use biopsy_image::GeneralRegisters;

use super::MadeImage;
use crate::python::layout::{FramePlace, FrameShape, Layout, LockPlace, same};

const TEXT: u64 = 0x50_0000;
const DATA: u64 = 0x50_1000;
const HEAP: u64 = 0x7f00_0000_0000;
const STACK: u64 = 0x7f10_0000_0000;
const LOCK: u64 = HEAP + 0x100;
const SEMAPHORE: u64 = HEAP + 0x180;
const TYPES: [&str; 6] = ["code", "str", "bytes", "_thread.lock", "builtin_function_or_method", "tuple"];
/// Numbers of types.
const CODE: u64 = 0;
const STR: u64 = 1;
const BYTES: u64 = 2;
const LOCK_TYPE: u64 = 3;
const BUILTIN: u64 = 4;
const TUPLE: u64 = 5;

fn type_at(number: u64) -> u64 {
    HEAP + 0x400 + number * 0x80
}

/// Writes objects one behind the other.
struct Objects<'a> {
    image: &'a mut MadeImage,
    layout: Layout,
    next: u64,
}

impl Objects<'_> {
    fn new_object(&mut self, kind: u64, size: u64) -> u64 {
        let at = self.next;
        self.next += size.next_multiple_of(16);
        self.image.word(at + same::TYPE, type_at(kind));
        at
    }

    fn text(&mut self, text: &str) -> u64 {
        let at = self.new_object(STR, 0x40 + text.len() as u64);
        self.image.word(at + same::TEXT_LENGTH, text.len() as u64);
        // Compact, ASCII, one byte each.
        self.image.half(at + same::TEXT_STATE, 1 << 2 | 1 << 5 | 1 << 6);
        self.image.put(at + self.layout.text_ascii, text.as_bytes());
        at
    }

    fn bytes(&mut self, bytes: &[u8]) -> u64 {
        let at = self.new_object(BYTES, 0x28 + bytes.len() as u64);
        self.image.word(at + same::SIZE, bytes.len() as u64);
        self.image.put(at + same::BYTES, bytes);
        at
    }

    /// A function with one variable; `exceptions`: its table.
    fn code(&mut self, name: &str, line: u32, exceptions: &[u8]) -> u64 {
        let at = self.new_object(CODE, 0x200);
        let (name, file) = (self.text(name), self.text("/srv/made.py"));
        // Whatever version: for the first instructions, no change of the line.
        let lines = self.bytes(&[0x80, 0]);
        let exceptions = self.bytes(exceptions);
        let variables = self.new_object(TUPLE, 0x20);
        self.image.word(variables + same::SIZE, 1);
        let layout = self.layout;
        for (offset, word) in [
            (layout.code_name, name),
            (layout.code_file, file),
            (layout.code_lines, lines),
            (layout.code_names, variables),
        ] {
            self.image.word(at + offset, word);
        }
        self.image.half(at + layout.code_first_line, line);
        if layout.code_exceptions != 0 {
            self.image.word(at + layout.code_exceptions, exceptions);
            self.image.half(at + layout.code_variables, 1);
        }
        at
    }

    /// A frame at the fourth byte of its code, inside of a `with` block of the lock where `holds`.
    fn frame(&mut self, code: u64, previous: u64, holds: bool) -> u64 {
        let layout = self.layout;
        let at = self.next;
        self.next += 0x300;
        self.image.word(at + layout.frame_previous, previous);
        self.image.word(at + layout.frame_code, code);
        self.image.word(at + layout.frame_locals, LOCK);
        let exit = self.new_object(BUILTIN, 0x40);
        let definition = self.next;
        self.next += 0x40;
        self.image.word(definition, definition + 16);
        self.image.put(definition + 16, b"__exit__\0");
        self.image.word(exit + same::BUILTIN_DEFINITION, definition);
        self.image.word(exit + same::BUILTIN_SELF, LOCK);
        match layout.shape {
            FrameShape::Structure { instruction, top, .. } => {
                self.image.word(at + instruction, code + layout.code_start + 4);
                self.image.word(at + layout.frame_locals + 8, if holds { exit } else { 0 });
                self.image.half(at + top, 2);
            }
            FrameShape::Object { last, last_unit, value_stack, block_count, blocks, .. } => {
                self.image.half(at + last, 4 / last_unit as u32);
                self.image.word(at + value_stack, at + layout.frame_locals + 8);
                self.image.word(at + layout.frame_locals + 8, exit);
                self.image.half(at + block_count, u32::from(holds));
                self.image.half(at + blocks + same::BLOCK_LEVEL, 1);
            }
        }
        at
    }
}

/// The process, of this minor version.
///
/// # Panics
/// When the version is none whose layout is known.
#[must_use]
pub fn python_image(minor: u32) -> MadeImage {
    let layout = Layout::of(minor).expect("a known version");
    let mappings = [(TEXT, 0x1000, false), (DATA, 0x3000, true), (HEAP, 0x4000, true), (STACK, 0x1000, true)];
    let mut image = MadeImage::new(b"/bin/python3", &mappings);
    let (runtime, interpreter) = (DATA, DATA + 0x1000);
    image.python = Some((runtime, minor));
    image.put(TEXT, &[0x0f, 0x05]);
    image.word(runtime + layout.runtime_interpreters, interpreter);
    for (number, name) in TYPES.iter().enumerate() {
        let at = type_at(number as u64);
        image.word(at + same::TYPE_NAME, at + 0x30);
        image.put(at + 0x30, name.as_bytes());
    }
    image.word(LOCK + same::TYPE, type_at(LOCK_TYPE));
    image.word(LOCK + same::LOCK_SEMAPHORE, SEMAPHORE);
    image.word(LOCK + same::LOCK_LOCKED, 1);
    let gil = HEAP + 0x200;
    match layout.lock {
        LockPlace::InRuntime(_) => {}
        LockPlace::Pointer(offset) => image.word(interpreter + offset, gil),
    }
    let mut objects = Objects { image: &mut image, layout, next: HEAP + 0x800 };
    let main = objects.code("main", 3, &[]);
    // The block: instructions 0 to 8, handler 0, depth 1.
    let hold = objects.code("hold", 10, &[0x80, 8, 0, 1 << 1]);
    let want = objects.code("want", 20, &[]);
    let bottom = objects.frame(main, 0, false);
    let holds = objects.frame(hold, bottom, true);
    let wants = objects.frame(want, bottom, false);
    let threads = [(holds, HEAP + 0x3000, STACK + 0x100, 11u32), (wants, HEAP + 0x3200, STACK + 0x800, 12)];
    image.word(interpreter + layout.interpreter_threads, threads[0].1);
    for (number, (frame, at, sp, tid)) in threads.into_iter().enumerate() {
        let next = threads.get(number + 1).map_or(0, |next| next.1);
        image.word(at + same::THREAD_NEXT, next);
        image.word(at + same::THREAD_INTERPRETER, interpreter);
        image.word(at + layout.thread_id, sp + 0x300);
        if let Some(native) = layout.thread_native {
            image.word(at + native, tid.into());
        }
        match layout.thread_frame {
            FramePlace::Thread(offset) => image.word(at + offset, frame),
            FramePlace::OnStack(outer, inner) => {
                image.word(at + outer, sp + 0x200);
                image.word(sp + 0x200 + inner, frame);
            }
        }
        let waits = GeneralRegisters {
            rip: TEXT + 2,
            rsp: sp,
            fs_base: sp + 0x300,
            orig_rax: if number == 1 { 202 } else { 230 },
            rdi: SEMAPHORE,
            ..GeneralRegisters::default()
        };
        image.word(sp + 0x40, LOCK);
        image.thread(tid, waits);
    }
    image
}
