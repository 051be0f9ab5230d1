//! Frames of a thread or a coroutine, innermost first, with what they hold by a `with` block.

use std::sync::Arc;

use super::code::{self, Code, Codes};
use super::layout::{FramePlace, FrameShape, Top, same};
use super::objects::Objects;
use crate::StrandFrame;

/// Links that are followed for a frame: entries from C are among them.
const LINKS_PER_FRAME: usize = 2;
/// Blocks of a frame: CPython's own limit is 20 (3.8 to 3.10).
const BLOCKS: u64 = 20;
/// Coroutines that await each other.
const AWAITS: usize = 256;
/// A frame of C between those of Python (3.12 on).
pub(super) const OWNED_BY_C: u8 = 3;

/// A frame that was read.
#[derive(Clone, Debug)]
pub(super) struct PythonFrame {
    pub(super) at: u64,
    pub(super) code: Arc<Code>,
    /// Offset of the instruction in bytes.
    pub(super) offset: i64,
}

/// Innermost first, and whether there are more.
pub(super) fn of_thread(
    objects: &Objects<'_, '_>,
    codes: &Codes,
    thread: u64,
    most: usize,
) -> (Vec<PythonFrame>, bool) {
    let first = match objects.layout.thread_frame {
        FramePlace::Thread(offset) => objects.pointer(thread, offset),
        FramePlace::OnStack(outer, inner) => {
            objects.pointer(thread, outer).and_then(|at| objects.pointer(at, inner))
        }
    };
    let mut frames = Vec::new();
    let mut next = first;
    for _ in 0..most.saturating_mul(LINKS_PER_FRAME) {
        let Some(at) = next else { return (frames, false) };
        if frames.len() >= most {
            break;
        }
        frames.extend(read(objects, codes, at));
        next = objects.pointer(at, objects.layout.frame_previous);
    }
    (frames, next.is_some())
}

/// A frame; `None` when it is none of Python code.
pub(super) fn read(objects: &Objects<'_, '_>, codes: &Codes, at: u64) -> Option<PythonFrame> {
    let code_at = objects.pointer(at, objects.layout.frame_code)?;
    let offset = match objects.layout.shape {
        FrameShape::Object { last, last_unit, .. } => i64::from(objects.i32(at, last)?) * last_unit,
        FrameShape::Structure { instruction, owner, .. } => {
            if objects.u8(at, owner)? == OWNED_BY_C {
                return None;
            }
            let start = code_at.checked_add(objects.layout.code_start)?;
            objects.word(at, instruction)?.wrapping_sub(start).cast_signed()
        }
    };
    Some(PythonFrame { at, code: codes.read(objects, code_at)?, offset })
}

impl PythonFrame {
    pub(super) fn strand_frame(&self) -> StrandFrame {
        StrandFrame {
            function: Arc::clone(&self.code.name),
            file: Some(Arc::clone(&self.code.file)),
            line: self.code.line(self.offset),
            address: None,
            sp: None,
            inlined: false,
        }
    }

    /// Whether it is this function of `threading`.
    pub(super) fn is_of_threading(&self, names: &[&str]) -> bool {
        let name = self.code.name.rsplit('.').next().unwrap_or_default();
        self.code.file.ends_with("/threading.py") && names.contains(&name)
    }

    pub(super) fn slot(&self, objects: &Objects<'_, '_>, index: u64) -> Option<u64> {
        objects.pointer(self.at, objects.layout.frame_locals.checked_add(index.checked_mul(8)?)?)
    }

    /// The objects that its variables refer to.
    pub(super) fn variables(&self, objects: &Objects<'_, '_>) -> Vec<u64> {
        let count = code::looked_at(self.code.variables);
        (0..count).filter_map(|index| self.slot(objects, index)).collect()
    }

    /// Objects whose `with` block it is inside of: at the entry of a handler the stack has their `__exit__`. A block that is
    /// still being entered has no handler yet.
    pub(super) fn held(&self, objects: &Objects<'_, '_>) -> Vec<u64> {
        let exits: Vec<u64> = match objects.layout.shape {
            FrameShape::Structure { .. } => {
                let depths = self.code.handler_depths(self.offset).into_iter();
                let slots = depths.filter_map(|depth| (self.code.variables + depth).checked_sub(1));
                slots.filter_map(|slot| self.slot(objects, slot)).collect()
            }
            FrameShape::Object { value_stack, block_count, blocks, .. } => {
                let count = objects.i32(self.at, block_count).and_then(|count| u64::try_from(count).ok());
                let stack = objects.pointer(self.at, value_stack);
                let exit = |index: u64| {
                    let level = objects.i32(self.at, blocks + index * same::BLOCK + same::BLOCK_LEVEL)?;
                    let below = u64::try_from(level).ok()?.checked_sub(1)?;
                    objects.pointer(stack?, below.checked_mul(8)?)
                };
                (0..count.unwrap_or(0).min(BLOCKS)).filter_map(exit).collect()
            }
        };
        let mut held: Vec<u64> = exits.into_iter().filter_map(|exit| receiver(objects, exit)).collect();
        held.dedup();
        held
    }

    /// Where its stack ends, for a frame that does not run: what it awaits is there.
    fn awaited(&self, objects: &Objects<'_, '_>) -> Option<u64> {
        match objects.layout.shape {
            FrameShape::Structure { top, .. } => {
                let depth = u64::try_from(objects.i32(self.at, top)?).ok()?;
                self.slot(objects, depth.checked_sub(1)?)
            }
            FrameShape::Object { value_stack, top, .. } => {
                let end = match top {
                    Top::Pointer(offset) => objects.pointer(self.at, offset)?,
                    Top::Depth(offset) => {
                        let depth = u64::try_from(objects.i32(self.at, offset)?).ok()?;
                        objects.pointer(self.at, value_stack)?.checked_add(depth.checked_mul(8)?)?
                    }
                };
                objects.memory.pointer(end.checked_sub(8)?)
            }
        }
    }
}

/// What ends a `with` block, and an `async with` block.
const EXITS: [&str; 2] = ["__exit__", "__aexit__"];

/// The object that an `__exit__` was bound to.
fn receiver(objects: &Objects<'_, '_>, exit: u64) -> Option<u64> {
    match &*objects.type_name(exit) {
        "builtin_function_or_method" => {
            let definition = objects.pointer(exit, same::BUILTIN_DEFINITION)?;
            let name = objects.memory.c_string(objects.memory.pointer(definition)?, 16)?;
            EXITS.contains(&&*name).then(|| objects.pointer(exit, same::BUILTIN_SELF)).flatten()
        }
        "method" => {
            let function = objects.pointer(exit, same::METHOD_FUNCTION)?;
            let is_exit = |place: &u64| {
                let name = objects.pointer(function, *place).and_then(|name| objects.text(name));
                name.is_some_and(|name| EXITS.contains(&&*name))
            };
            let bound = objects.is(function, "function") && same::FUNCTION_NAMES.iter().any(is_exit);
            bound.then(|| objects.pointer(exit, same::METHOD_SELF)).flatten()
        }
        _ => None,
    }
}

/// Frames of a coroutine that does not run and of those that it awaits, innermost first.
pub(super) fn of_coroutine(
    objects: &Objects<'_, '_>,
    codes: &Codes,
    coroutine: u64,
    most: usize,
) -> Vec<PythonFrame> {
    let mut frames = Vec::new();
    let mut next = Some(coroutine);
    while let Some(at) = next.filter(|at| frames.len() < AWAITS.min(most) && objects.is(*at, "coroutine")) {
        let place = objects.layout.coroutine_frame;
        let frame = if objects.layout.coroutine_frame_is_pointer {
            objects.pointer(at, place)
        } else {
            at.checked_add(place)
        };
        let Some(frame) = frame.and_then(|frame| read(objects, codes, frame)) else { break };
        next = frame.awaited(objects);
        frames.push(frame);
    }
    frames.reverse();
    frames
}
