//! What a recorder of samples needs of a virtual machine: how its frames lead to their callers, and which calls of Java they are.
//!
//! A sample has the registers and a copy of the stack. Frames of the interpreter say their method there; what an address of
//! compiled code means is read from the code cache afterwards, which holds still as long as the code does.

use std::ops::Range;

use biopsy_image::Image;

use super::code::{Blob, CodeCache};
use super::compressed::Form;
use super::frames::{BYTE_CODE, METHOD};
use super::layout::Layout;
use super::vm::{ClassPointers, References, Vm};
use crate::{Limits, Memory, Module, StrandFrame};

/// Bytes of memory that are kept while one thing is read.
const CACHED: usize = 256 << 10;
/// How instructions look that make a frame: `push rbp`, `sub rsp` with a number of 8 or of 32 bits; and bytes of them.
const MAKE_FRAME: [([u8; 4], usize); 2] = [([0x55, 0x48, 0x83, 0xec], 5), ([0x55, 0x48, 0x81, 0xec], 8)];
/// Bytes before a whole frame in which it is made: a check for the collector may follow (21).
const ENTRY: u64 = 64;

/// How a frame leads to its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JavaRule {
    /// It has so many bytes, the return address and below it the caller's frame pointer included.
    Bytes(u64),
    /// The return address is at the stack pointer.
    Bare,
    /// The caller's frame pointer is at the stack pointer, the return address behind it.
    Pushed,
    /// A frame of the interpreter: the frame pointer leads to the caller's, and below it is the caller's stack pointer.
    Interpreted,
    /// A stub: the return address is at the stack pointer if it leads to code of Java, else the frame pointer leads to it.
    Stub,
    /// The frame pointer is all there is.
    FramePointer,
}

/// A virtual machine of a live process.
#[derive(Clone, Debug)]
pub struct SampledJava {
    /// `17.0.15+6-Debian-1deb12u1`.
    pub version: String,
    /// Code of the interpreter.
    pub interpreter: Range<u64>,
    layout: Layout,
    major: u32,
    form: Form,
    references: References,
    class_pointers: ClassPointers,
}

/// What a look at a process found.
#[derive(Debug)]
pub enum FoundJava {
    /// No virtual machine.
    None,
    /// One that is starting.
    Starting,
    /// One that is not read, and why.
    NotRead(String),
    /// One that is read.
    Read(Box<SampledJava>),
}

/// Looks for the virtual machine of a process that runs.
#[must_use]
pub fn find(image: &dyn Image, limits: &Limits) -> FoundJava {
    let memory = Memory::new(image, None, CACHED);
    for module in Module::all(image) {
        match Vm::open(&memory, &module, limits) {
            None => {}
            Some(Err(refused)) => {
                // Its version is not there before it has begun to start.
                return match refused.version {
                    None => FoundJava::Starting,
                    Some(_) => FoundJava::NotRead(refused.why),
                };
            }
            Some(Ok((vm, version))) => {
                let interpreter = CodeCache::read(&vm).map(|code| code.interpreter());
                let Some(interpreter) = interpreter else { return FoundJava::Starting };
                return FoundJava::Read(Box::new(SampledJava {
                    version,
                    interpreter,
                    layout: vm.layout.clone(),
                    major: vm.major,
                    form: vm.form,
                    references: vm.references,
                    class_pointers: vm.class_pointers,
                }));
            }
        }
    }
    FoundJava::None
}

impl SampledJava {
    fn with<T>(
        &self,
        image: &dyn Image,
        limits: &Limits,
        read: impl FnOnce(&Vm<'_>, &CodeCache<'_>) -> Option<T>,
    ) -> Option<T> {
        let memory = Memory::new(image, None, CACHED);
        let vm = Vm::known(
            &memory,
            limits,
            self.layout.clone(),
            (self.major, self.form),
            self.references,
            self.class_pointers,
        );
        let code = CodeCache::read(&vm)?;
        read(&vm, &code)
    }

    /// How the frame of code at an address leads to its caller; `None`: it is no code of Java. `exact`: the thread stands there, so
    /// that the frame may not be there yet, or no more.
    #[must_use]
    pub fn rule(&self, image: &dyn Image, limits: &Limits, pc: u64, exact: bool) -> Option<JavaRule> {
        if self.interpreter.contains(&pc) {
            return Some(JavaRule::Interpreted);
        }
        self.with(image, limits, |vm, code| {
            let blob = code.blob(pc)?;
            Some(if exact { at_instruction(vm, &blob, pc) } else { of_frame(&blob) })
        })
    }

    /// The calls of Java at an address of compiled code, innermost first; none where it is the machine's own. `exact`: as above.
    #[must_use]
    pub fn calls(&self, image: &dyn Image, limits: &Limits, pc: u64, exact: bool) -> Vec<StrandFrame> {
        let calls = self.with(image, limits, |_, code| {
            let blob = code.blob(pc).filter(|blob| blob.compiled)?;
            Some(code.frames(&blob, pc, 0, exact).to_vec())
        });
        calls.unwrap_or_default()
    }

    /// The method and the byte code of a frame of the interpreter. `word` reads the stack.
    #[must_use]
    pub fn interpreted(&self, fp: u64, word: &dyn Fn(u64) -> Option<u64>) -> Option<(u64, u64)> {
        let method = word(fp.checked_sub(METHOD)?).filter(|method| *method != 0)?;
        Some((method, word(fp.checked_sub(BYTE_CODE)?)?))
    }

    /// The call of a method at a byte code; `None`: what is there is no method.
    #[must_use]
    pub fn method(
        &self,
        image: &dyn Image,
        limits: &Limits,
        method: u64,
        byte_code: u64,
    ) -> Option<StrandFrame> {
        self.with(image, limits, |vm, _| {
            let method = vm.method(method)?;
            let index = byte_code.checked_sub(method.code).and_then(|index| u32::try_from(index).ok());
            Some(method.frame(index.filter(|index| *index < method.code_size), vm.form))
        })
    }
}

fn of_frame(blob: &Blob) -> JavaRule {
    if blob.frame_bytes >= 16 { JavaRule::Bytes(blob.frame_bytes) } else { JavaRule::FramePointer }
}

/// By the instruction that is next, and by how far the entry of the method has come.
fn at_instruction(vm: &Vm<'_>, blob: &Blob, pc: u64) -> JavaRule {
    let mut next = [0; 4];
    let there = vm.memory.read_available(pc, &mut next);
    match next.get(..there).unwrap_or_default() {
        // `ret`; the check for a safepoint before it (`cmp rsp, [r15 + ..]`, `ja`).
        [0xc3, ..] => return JavaRule::Bare,
        [0x49, 0x3b, 0x67 | 0xa7, ..] | [0x0f, 0x87, ..] if blob.compiled => return JavaRule::Bare,
        // `pop rbp`.
        [0x5d, ..] if blob.compiled => return JavaRule::Pushed,
        _ => {}
    }
    let made = blob.code.saturating_add(blob.frame_complete);
    if !blob.compiled || pc >= made {
        return if blob.frame_bytes >= 16 { JavaRule::Bytes(blob.frame_bytes) } else { JavaRule::Stub };
    }
    // The frame pointer is pushed just before the room is made.
    let from = made.saturating_sub(ENTRY).max(blob.code);
    let entry = vm.memory.bytes(from, usize::try_from(made - from).unwrap_or(0));
    let made = entry.windows(4).enumerate().rev().find_map(|(at, four)| {
        let (_, bytes) = MAKE_FRAME.iter().find(|(known, _)| known == four)?;
        Some((from + at as u64, from + (at + bytes) as u64))
    });
    match made {
        Some((_, made)) if pc >= made => of_frame(blob),
        Some((push, _)) if pc > push => JavaRule::Pushed,
        _ => JavaRule::Bare,
    }
}
