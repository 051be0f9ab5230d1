//! The code cache: which piece of code an address is in, and which calls a compiled method has at it.
//!
//! ```text
//! heap:  segment map   one byte a segment: steps back to the first of the block, 255: free
//!        memory        block header │ CodeBlob (nmethod) │ ... │ machine code
//! nmethod:  PcDesc[]     { pc, offset into scopes, ... } by pc
//!           scopes       packed: { offset of the caller's scope, method, byte code + 1, ... }
//!           metadata[]   what the numbers of methods in scopes mean, from 1
//! ```
//! `src/hotspot/share/code/{codeBlob,nmethod,pcDesc,scopeDesc}.hpp`, `memory/heap.cpp`.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::compressed::Packed;
use super::layout::{BlobKind, Parts};
use super::vm::Vm;
use crate::StrandFrame;

/// Heaps of a code cache: there are three, or one.
const HEAPS: i32 = 16;
/// Bits of the size of a segment: 128 bytes.
const SEGMENT_BITS: Range<u32> = 4..17;
const FREE: u8 = 0xff;
/// Steps to the first segment of a block; a step is 254 segments at most, and blocks are smaller than 16 MiB.
const STEPS: usize = 4_096;
/// Words of a frame; methods with more would not fit a stack of 8 MiB.
const FRAME_WORDS: u64 = 1 << 20;
/// Bytes of the list of places of one method.
const PCS: u64 = 4 << 20;
/// Calls that a compiler put into each other; it stops at 15, and at recursion.
const INLINED: usize = 256;
/// Bytes of a scope that are read: three numbers of five bytes.
const SCOPE: usize = 15;
/// Places whose frames are kept.
const KNOWN: usize = 4_000;

/// A heap of the code cache.
#[derive(Clone, Debug)]
struct CodeHeap {
    range: Range<u64>,
    segments: u64,
    segment_bits: u32,
}

/// Calls at one place, innermost first.
type Calls = Rc<[StrandFrame]>;

/// The code cache.
pub(super) struct CodeCache<'v> {
    vm: &'v Vm<'v>,
    heaps: Vec<CodeHeap>,
    interpreter: Range<u64>,
    pub(super) call_stub_return: u64,
    known: RefCell<FxHashMap<(u64, u64), Calls>>,
}

/// A piece of code with frames of one size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blob {
    start: u64,
    /// First instruction.
    pub(super) code: u64,
    /// Bytes of its frames, the return address included; 0 where they have no fixed size.
    pub(super) frame_bytes: u64,
    /// From this many bytes on the frame is there; 0 where that is not known.
    pub(super) frame_complete: u64,
    /// It is a compiled method.
    pub(super) compiled: bool,
}

/// The parts of a compiled method that say which calls there are.
struct Compiled {
    deopt: u64,
    pcs: Range<u64>,
    scopes: Range<u64>,
    metadata: Range<u64>,
}

impl<'v> CodeCache<'v> {
    /// The heaps that are there.
    pub(super) fn read(vm: &'v Vm<'v>) -> Option<Self> {
        let (memory, layout) = (vm.memory, &vm.layout.code);
        let list = memory.pointer(layout.heaps)?;
        let count = memory.i32(list.checked_add(layout.heaps_length)?)?.clamp(0, HEAPS);
        let data = memory.pointer(list.checked_add(layout.heaps_data)?)?;
        let heaps = (0..count.unsigned_abs()).filter_map(|number| {
            let heap = memory.pointer(data.checked_add(8 * u64::from(number))?)?;
            let word = |space: u64, end: u64| memory.u64(heap.checked_add(space)?.checked_add(end)?);
            let segment_bits = memory.u32(heap.checked_add(layout.heap_segment_bits)?)?;
            let range =
                word(layout.heap_memory, layout.space_low)?..word(layout.heap_memory, layout.space_high)?;
            let segments = word(layout.heap_segments, layout.space_low)?;
            SEGMENT_BITS.contains(&segment_bits).then_some(CodeHeap { range, segments, segment_bits })
        });
        let heaps = heaps.collect();
        let interpreter = memory.pointer(layout.interpreter)?;
        let start = memory.u64(interpreter.checked_add(layout.interpreter_start)?)?;
        let bytes = memory.u32(interpreter.checked_add(layout.interpreter_bytes)?)?;
        Some(Self {
            vm,
            heaps,
            interpreter: start..start.checked_add(bytes.into())?,
            call_stub_return: memory.u64(layout.call_stub_return)?,
            known: RefCell::default(),
        })
    }

    /// Code of the interpreter.
    pub(super) fn interpreter(&self) -> Range<u64> {
        self.interpreter.clone()
    }

    /// Whether it is in code of the interpreter.
    pub(super) fn is_interpreter(&self, pc: u64) -> bool {
        self.interpreter.contains(&pc)
    }

    /// Whether it is in the code cache at all.
    pub(super) fn contains(&self, pc: u64) -> bool {
        self.heaps.iter().any(|heap| heap.range.contains(&pc))
    }

    /// The piece of code around an address.
    pub(super) fn blob(&self, pc: u64) -> Option<Blob> {
        let heap = self.heaps.iter().find(|heap| heap.range.contains(&pc))?;
        let memory = self.vm.memory;
        let mut segment = (pc - heap.range.start) >> heap.segment_bits;
        for _ in 0..STEPS {
            match memory.u8(heap.segments.checked_add(segment)?)? {
                0 => {
                    let block = heap.range.start.checked_add(segment.checked_shl(heap.segment_bits)?)?;
                    return self.blob_at(block.checked_add(self.vm.layout.code.block)?);
                }
                FREE => return None,
                back => segment = segment.checked_sub(back.into())?,
            }
        }
        None
    }

    fn blob_at(&self, start: u64) -> Option<Blob> {
        let (memory, layout) = (self.vm.memory, &self.vm.layout.code);
        let words = memory.i32(start.checked_add(layout.frame_size)?)?;
        let at = start.checked_add(layout.frame_complete)?;
        let complete = match layout.short_frame_complete {
            true => memory.u16(at).map(|value| i32::from(value.cast_signed()))?,
            false => memory.i32(at)?,
        };
        let compiled = match layout.kind {
            BlobKind::Byte(kind, wanted) => memory.u8(start.checked_add(kind)?)? == wanted,
            BlobKind::Name(name) => {
                let name =
                    memory.pointer(start.checked_add(name)?).and_then(|name| memory.c_string(name, 32));
                matches!(name.as_deref(), Some("nmethod" | "native nmethod"))
            }
        };
        let code = match layout.parts {
            Parts::Inline { code, .. } => memory.u64(start.checked_add(code)?)?,
            Parts::Apart { code, .. } => start.checked_add(memory.u32(start.checked_add(code)?)?.into())?,
        };
        Some(Blob {
            start,
            code,
            frame_bytes: u64::try_from(words).ok().filter(|words| *words < FRAME_WORDS).unwrap_or(0) * 8,
            frame_complete: u64::try_from(complete).unwrap_or(0),
            compiled,
        })
    }

    fn compiled(&self, blob: &Blob) -> Option<Compiled> {
        let memory = self.vm.memory;
        let start = blob.start;
        let word = |offset: u64| memory.u64(start.checked_add(offset)?);
        let offset =
            |offset: u64, from: u64| from.checked_add(memory.u32(start.checked_add(offset)?)?.into());
        Some(match self.vm.layout.code.parts {
            Parts::Inline { deopt, scopes, pcs, pcs_end, metadata, .. } => {
                let (scopes, pcs) = (word(scopes)?, offset(pcs, start)?..offset(pcs_end, start)?);
                Compiled {
                    deopt: word(deopt)?,
                    metadata: offset(metadata, start)?..scopes,
                    scopes: scopes..pcs.start,
                    pcs,
                }
            }
            Parts::Apart {
                deopt,
                constant,
                constant_bytes,
                pcs,
                scopes,
                mutable,
                mutable_bytes,
                relocation_bytes,
                ..
            } => {
                let (constant, mutable) = (word(constant)?, word(mutable)?);
                Compiled {
                    deopt: offset(deopt, start)?,
                    pcs: offset(pcs, constant)?..offset(scopes, constant)?,
                    scopes: offset(scopes, constant)?..offset(constant_bytes, constant)?,
                    metadata: offset(relocation_bytes, mutable)?..offset(mutable_bytes, mutable)?,
                }
            }
        })
    }

    /// The calls of a compiled method at an address of it, innermost first. `exact`: the address is the next instruction, and not
    /// behind a call. `sp`: of the frame, where the return address is if the method was given up.
    pub(super) fn frames(&self, blob: &Blob, pc: u64, sp: u64, exact: bool) -> Calls {
        let compiled = self.compiled(blob);
        let pc = match &compiled {
            // What was compiled no longer holds; where it was to go on is in its frame.
            Some(compiled) if compiled.deopt == pc => self.original_pc(blob, sp).unwrap_or(pc),
            _ => pc,
        };
        if let Some(known) = self.known.borrow().get(&(blob.start, pc)) {
            return Rc::clone(known);
        }
        let frames = compiled.and_then(|compiled| self.read_frames(blob, &compiled, pc, exact));
        let frames: Calls = frames.unwrap_or_else(|| self.method_alone(blob)).into();
        let mut known = self.known.borrow_mut();
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert((blob.start, pc), Rc::clone(&frames));
        frames
    }

    fn original_pc(&self, blob: &Blob, sp: u64) -> Option<u64> {
        let layout = &self.vm.layout.code;
        let offset = self.vm.memory.u32(blob.start.checked_add(layout.original_pc)?)?;
        self.vm.memory.u64(sp.checked_add(offset.into())?)
    }

    /// The method that was compiled, where nothing is said of the place: a wrapper around a native one.
    fn method_alone(&self, blob: &Blob) -> Vec<StrandFrame> {
        let method =
            || self.vm.method(self.vm.memory.pointer(blob.start.checked_add(self.vm.layout.code.method)?)?);
        method().map(|method| method.frame(None, self.vm.form)).into_iter().collect()
    }

    fn read_frames(
        &self,
        blob: &Blob,
        compiled: &Compiled,
        pc: u64,
        exact: bool,
    ) -> Option<Vec<StrandFrame>> {
        let memory = self.vm.memory;
        let offset = i32::try_from(pc.checked_sub(blob.code)?).ok()?;
        let mut scope = self.scope_at(compiled, offset, exact)?;
        let mut frames = Vec::new();
        // Callers are written before those that they call: offsets get smaller, and the chain ends.
        while scope != 0 && frames.len() < INLINED {
            let at = compiled.scopes.start.checked_add(scope.into())?;
            if !compiled.scopes.contains(&at) {
                break;
            }
            let mut bytes = [0; SCOPE];
            let there = memory.read_available(at, &mut bytes);
            let mut packed = Packed::new(bytes.get(..there)?, self.vm.form);
            let (caller, method, code) = (packed.number()?, packed.number()?, packed.number()?);
            let slot = compiled.metadata.start.checked_add(8 * u64::from(method.checked_sub(1)?))?;
            if !compiled.metadata.contains(&slot) {
                break;
            }
            let Some(method) = self.vm.method(memory.pointer(slot)?) else { break };
            // One more than the byte code; before its first one is the method's entry.
            let index = code.saturating_sub(1);
            frames.push(method.frame(Some(index), self.vm.form));
            if caller >= scope {
                break;
            }
            scope = caller;
        }
        if frames.is_empty() {
            return None;
        }
        let outermost = frames.len() - 1;
        for frame in frames.iter_mut().take(outermost) {
            frame.inlined = true;
        }
        Some(frames)
    }

    /// Offset of the scope of a place, from the list that is ordered by place.
    fn scope_at(&self, compiled: &Compiled, offset: i32, exact: bool) -> Option<u32> {
        let layout = &self.vm.layout.code;
        let (memory, size) = (self.vm.memory, layout.pc_size.clamp(8, 64));
        let bytes = compiled.pcs.end.checked_sub(compiled.pcs.start)?.min(PCS);
        let (mut low, mut high) = (0, bytes / size);
        let row = |number: u64| compiled.pcs.start.checked_add(number * size);
        while low < high {
            let middle = low + (high - low) / 2;
            if memory.i32(row(middle)?.checked_add(layout.pc)?)? < offset {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let found = row(low)?;
        if low >= bytes / size || !exact && memory.i32(found.checked_add(layout.pc)?)? != offset {
            return None;
        }
        memory.u32(found.checked_add(layout.pc_scope)?)
    }
}
