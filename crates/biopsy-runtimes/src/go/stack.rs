//! The stack of a goroutine, walked by the frame sizes that the runtime itself walks by: no frame pointers are needed.

use std::ops::Range;

use biopsy_model::Avma;

use super::functions::Functions;
use super::goroutine::Place;
use crate::{Memory, StrandFrame};

/// Functions that the runtime makes a goroutine call between two instructions of its own: what is below them was interrupted, and
/// did not call.
const INJECTED: [&str; 3] = ["runtime.sigpanic", "runtime.asyncPreempt", "runtime.debugCallV2"];

/// A stack.
#[derive(Clone, Default, Debug)]
pub(super) struct Walked {
    /// Inlined ones included.
    pub(super) frames: Vec<StrandFrame>,
    /// It did not end at the bottom.
    pub(super) cut: bool,
}

/// Walks from `start`. `exact`: its instruction is next, and not the one behind a call. `bounds`: of the stack.
pub(super) fn walk(
    memory: &Memory<'_>,
    functions: &Functions<'_, '_>,
    start: Place,
    mut exact: bool,
    bounds: &Range<u64>,
    most: usize,
) -> Walked {
    let mut walked = Walked::default();
    let Place { mut pc, mut sp } = start;
    loop {
        let Some(function) = functions.find(pc).filter(|_| walked.frames.len() < most) else {
            walked.cut = true;
            return walked;
        };
        let lookup = if exact || pc == function.entry { pc } else { pc - 1 };
        walked.frames.extend(functions.frames(&function, lookup).iter().map(|frame| StrandFrame {
            address: Some(Avma(pc)),
            sp: Some(Avma(sp)),
            ..frame.clone()
        }));
        if function.is_top() {
            return walked;
        }
        exact = INJECTED.contains(&&*function.name);
        let next = functions.frame_size(&function, pc).and_then(|size| {
            let slot = sp.checked_add(size).filter(|slot| bounds.contains(slot))?;
            Some((memory.pointer(slot)?, slot.checked_add(8)?))
        });
        // Each frame takes at least its return address: the walk ends.
        let Some((caller, above)) = next else {
            walked.cut = true;
            return walked;
        };
        (pc, sp) = (caller, above);
    }
}
