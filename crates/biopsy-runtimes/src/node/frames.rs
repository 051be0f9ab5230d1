//! Walks the JavaScript frames of a thread.
//!
//! ```text
//! fp + 24  function, of one that is built in as native code
//! fp + 8   return address
//! fp       frame pointer of the caller
//! fp - 8   context (odd): a function's frame      type of the frame * 2 (even): something else
//! fp - 16  function
//! fp - 32  its byte code                          \ of frames of the interpreter
//! fp - 40  where in it, as a small number         /
//! fp - 64  in a frame that native code entered JavaScript by: frame pointer from which it had left before
//! ```

use std::ops::Range;
use std::sync::Arc;

use biopsy_model::Avma;

use super::isolate::is_exit;
use super::objects::{Function, Objects, small};
use crate::StrandFrame;

/// Where an entry keeps the frame pointer of the exit before it.
const BEFORE: u64 = 64;
/// Where a built-in function that is native code keeps what was called.
const TARGET: u64 = 24;
/// Steps of a walk for each frame that is listed.
const STEPS: usize = 8;
/// Between a byte code array's address and what offsets in frames count from.
pub(super) const TAG: u64 = 1;

/// The frames of a thread.
#[derive(Debug, Default)]
pub(super) struct Walk {
    pub(super) frames: Vec<StrandFrame>,
    /// There are more.
    pub(super) cut: bool,
    /// Functions whose compiled code may hold others, which are not seen.
    pub(super) optimized: usize,
}

impl Objects<'_> {
    /// All frames from the frame pointer on, at most `most`. `pc`: the next instruction of that frame, where it is known.
    pub(super) fn walk(&self, start: u64, pc: Option<u64>, stack: &Range<u64>, most: usize) -> Walk {
        // Until its end is seen.
        let mut walk = Walk { cut: true, ..Walk::default() };
        let (mut fp, mut pc) = (start, pc);
        for _ in 0..most.saturating_mul(STEPS) {
            if walk.frames.len() >= most {
                break;
            }
            let word = |offset: u64| self.memory.u64(fp.checked_sub(offset)?);
            let (Some(marker), Some(caller)) = (word(8), word(0)) else { break };
            let mut next = caller;
            if marker & 1 == 1 {
                let function = word(16).and_then(|function| self.function(function));
                let Some(function) = function else { break };
                let place = self.place(fp);
                walk.optimized += usize::from(matches!(place, Place::Compiled) && function.script.is_some());
                // Glue of promises and the like has neither a name nor a script; V8 does not show it either.
                if function.script.is_some() || !function.name.is_empty() {
                    walk.frames.push(self.frame(&function, &place, fp, pc));
                }
            } else if self.layout.frames.entry.contains(&(marker >> 1)) {
                // Native code called JavaScript here; it may itself have been called by JavaScript.
                let before = word(BEFORE)
                    .filter(|before| *before > fp && is_exit(self.memory, &self.layout, *before, stack));
                let Some(before) = before else {
                    walk.cut = false;
                    break;
                };
                next = before;
            } else if self.layout.frames.builtins.contains(&(marker >> 1)) {
                let target = fp.checked_add(TARGET).and_then(|at| self.memory.u64(at));
                let function = target.and_then(|target| self.function(target));
                if let Some(function) = function.filter(|function| !function.name.is_empty()) {
                    walk.frames.push(self.frame(&function, &Place::Compiled, fp, pc));
                }
            } else if marker >> 1 > self.layout.frames.most {
                break;
            }
            // Stacks grow down: whatever does not go up is not a caller, and a circle cannot be.
            if next <= fp || !stack.contains(&next) {
                break;
            }
            pc = self.memory.u64(fp.saturating_add(8));
            fp = next;
        }
        walk
    }

    fn frame(&self, function: &Function, place: &Place, fp: u64, pc: Option<u64>) -> StrandFrame {
        let position = match place {
            Place::Interpreted { bytecode, offset } => self.position(*bytecode, *offset),
            Place::Compiled => None,
        };
        let line = function.script.zip(position).and_then(|(script, position)| self.line(script, position));
        StrandFrame {
            function: if function.name.is_empty() {
                "(anonymous)".into()
            } else {
                Arc::clone(&function.name)
            },
            file: function.script_name.clone(),
            line,
            address: pc.map(Avma),
            sp: Some(Avma(fp)),
            inlined: false,
        }
    }

    /// Whether a chain of frames of JavaScript begins at a frame pointer.
    pub(super) fn is_frame(&self, fp: u64, stack: &Range<u64>) -> bool {
        if !fp.is_multiple_of(8) || !stack.contains(&fp) {
            return false;
        }
        let word = |offset: u64| self.memory.u64(fp.checked_sub(offset)?);
        let (Some(marker), Some(caller)) = (word(8), word(0)) else { return false };
        let known = match marker & 1 {
            1 => word(16).and_then(|function| self.function(function)).is_some(),
            _ => marker > 0 && marker >> 1 <= self.layout.frames.most,
        };
        known && caller > fp && stack.contains(&caller)
    }

    fn place(&self, fp: u64) -> Place {
        let word = |offset: u64| self.memory.u64(fp.checked_sub(offset)?);
        let bytecode = word(32).filter(|object| self.kind(*object) == Some(self.layout.types.bytecode));
        let offset = word(40).and_then(small).and_then(|offset| u64::try_from(offset).ok());
        let place = || {
            let offset = offset?.checked_add(TAG)?.checked_sub(self.layout.bytecode_data)?;
            Some(Place::Interpreted { bytecode: bytecode?, offset: u32::try_from(offset).ok()? })
        };
        place().unwrap_or(Place::Compiled)
    }
}

enum Place {
    Interpreted { bytecode: u64, offset: u32 },
    Compiled,
}
