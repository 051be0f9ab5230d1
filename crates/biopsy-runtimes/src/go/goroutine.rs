//! One goroutine as the runtime has it: numbers, not yet understood.

use std::ops::Range;

use super::layout::{Layout, g};
use crate::Memory;

/// `runtime.g`.
#[derive(Clone, Debug)]
pub(super) struct Goroutine {
    /// Its address, by which others refer to it.
    pub(super) at: u64,
    pub(super) id: u64,
    pub(super) status: Status,
    pub(super) stack: Range<u64>,
    /// Thread that it is on (`m`), 0 for none.
    pub(super) m: u64,
    pub(super) saved: Place,
    /// Where it entered a system call.
    pub(super) syscall: Place,
    /// Number of the reason it waits for.
    pub(super) reason: u8,
    /// Nanoseconds of the monotonic clock; 0 where no collection has met it waiting.
    pub(super) since: u64,
    pub(super) go_pc: u64,
    pub(super) start_pc: u64,
    /// First of the notes of what it waits for.
    pub(super) waiting: u64,
    pub(super) deferred: u64,
}

/// An instruction and a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) pc: u64,
    pub(super) sp: u64,
}

/// What it does, by the low bits of `atomicstatus` (runtime/runtime2.go).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    Idle,
    Runnable,
    Running,
    Syscall,
    Waiting,
    Dead,
    CopyStack,
    Preempted,
    Leaked,
    Other,
}

impl Status {
    fn of(word: u32) -> Self {
        // The collector marks those whose stacks it looks at.
        match word & 0xfff {
            0 => Self::Idle,
            1 => Self::Runnable,
            2 => Self::Running,
            3 => Self::Syscall,
            4 => Self::Waiting,
            6 | 11 => Self::Dead,
            8 => Self::CopyStack,
            9 => Self::Preempted,
            10 => Self::Leaked,
            _ => Self::Other,
        }
    }
}

impl Goroutine {
    /// `None` when it cannot be read, or is none: a goroutine's saved state has its own address.
    pub(super) fn read(memory: &Memory<'_>, layout: &Layout, at: u64) -> Option<Self> {
        let word = |offset| memory.u64(at.checked_add(offset)?);
        if word(g::SELF)? != at {
            return None;
        }
        Some(Self {
            at,
            id: word(layout.g_id)?,
            status: Status::of(memory.u32(at.checked_add(layout.g_status)?)?),
            stack: word(g::STACK_LOW)?..word(g::STACK_HIGH)?,
            m: word(g::M)?,
            saved: Place { pc: word(g::PC)?, sp: word(g::SP)? },
            syscall: Place { pc: word(layout.g_syscall_pc)?, sp: word(layout.g_syscall_sp)? },
            reason: memory.u8(at.checked_add(layout.g_wait_reason)?)?,
            since: word(layout.g_wait_since)?,
            go_pc: word(layout.g_go_pc)?,
            start_pc: word(layout.g_start_pc)?,
            waiting: word(layout.g_waiting)?,
            deferred: word(g::DEFER)?,
        })
    }
}

/// `runtime.allgs`: address and length of the list of all goroutines. It is a slice in the module's variables whose first element
/// is goroutine 1. Of several the one whose other elements are goroutines, and of equal ones (an old one, a copy) the longest: the
/// pointer stands in a second variable (`allgptr`), and what follows that may look like a length.
pub(super) fn find_all(
    memory: &Memory<'_>,
    layout: &Layout,
    variables: &[Range<u64>],
    most: u64,
) -> Option<(u64, u64)> {
    /// More than any program could have in memory.
    const LIMIT: u64 = 1 << 28;
    // How many of those looked at are goroutines, the length, the address.
    let mut best: Option<(u64, u64, u64)> = None;
    for range in variables {
        let _ = memory.search::<()>(range.clone(), 16, most, |_, piece| {
            let words = piece.as_chunks::<8>().0;
            for three in words.windows(3) {
                let [list, length, capacity] = [0, 1, 2].map(|at| u64::from_le_bytes(three[at]));
                let plausible = (1..=capacity).contains(&length)
                    && capacity < LIMIT
                    && list % 8 == 0
                    && (0x1_0000..1 << 47).contains(&list);
                if let Some(seen) = plausible.then(|| goroutines_in(memory, layout, list, length)).flatten() {
                    best = best.max(Some((seen, length, list)));
                }
            }
            None
        });
    }
    best.map(|(_, length, list)| (list, length))
}

/// How many of up to thirty elements spread over a list, the last among them, are goroutines; `None` where the first is not number 1.
fn goroutines_in(memory: &Memory<'_>, layout: &Layout, list: u64, length: u64) -> Option<u64> {
    let goroutine = |index: u64| {
        let at = memory.u64(list.checked_add(index.checked_mul(8)?)?)?;
        Goroutine::read(memory, layout, at)
    };
    goroutine(0).filter(|first| first.id == 1)?;
    let last = length - 1;
    let others = (1..=30).filter(|part| goroutine(last * part / 30).is_some());
    Some(others.count() as u64)
}
