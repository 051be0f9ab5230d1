//! Who holds a lock that says nothing of its owner: the thread whose way out gives it back.
//!
//! ```text
//! frames of a thread ─┬─► the return address: all ways to the end of the function ─► taken and given back, in order ─┐
//! (registers, memory) │                                                                                             ├─► Hold
//!                     └─► the landing pad of the call: what is cleaned up if it throws ─► given back ────────────────┘
//! ```
//!
//! Code that took a lock gives it back before it is left, and where a compiler keeps tables for exceptions it also states, for
//! each call, what is to be given back if that call throws. So from each live frame all ways through the machine code are gone
//! on paper, with what is known of registers and memory, and what they do to the locks in question is summed up over the frames,
//! inner to outer: a thread holds a lock if its sum falls below zero. No symbols of the program are needed, only code and unwind
//! information; calls into the C library are known by the names that dynamic linking needs, and inline operations by what they
//! do to the lock's word.
//!
//! It is inference. A guard that knows by a flag whether it owns its lock (`std::unique_lock`) is followed where the flag is on
//! the stack; where ways disagree and nothing tells which is gone, [`Hold::ways`] says so. What is given back by a pointer from
//! the heap, in another thread, or in a caller whose frame could not be found, is not seen: no hold found is never "nobody".
//! Measured on programs of known truth: `docs/design/17-holders.md`.
//!
//! Work is bounded: instructions of a frame, of a call, of a question; calls deep; ways that wait.

mod code;
mod execute;
mod family;
mod landing;
mod mentions;
mod pages;
mod paths;
mod reach;
mod spin;
mod state;

use std::collections::BTreeSet;

use biopsy_image::Image;
use biopsy_model::stack::StackEnd;
use rustc_hash::FxHashMap;

use crate::image::{FrameRegisters, ImageStacks, ThreadStack};
use code::CodeView;
use pages::Pages;
use paths::{Search, Sum, Ways};
use state::State;

pub use family::{HoldMode, LockFamily};
pub use reach::Reach;
pub use spin::spins_at;

/// Frames of one thread that are looked at, innermost first: locks are held near where one waits.
const FRAMES: usize = 48;
/// Instructions for all questions to one image: below a second.
const INSTRUCTIONS: usize = 6_000_000;

/// What the ways ahead say.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum WaysSay {
    /// Not one could be followed to its end.
    Nothing,
    /// None gives it back first.
    No,
    /// Some do, some do not, and nothing tells which is gone.
    Some,
    /// All do.
    All,
}

/// A thread holds a lock, or may.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hold {
    /// Address of the lock.
    pub lock: u64,
    /// How often it is held, by the ways ahead; at least 1.
    pub times: u8,
    /// What for.
    pub mode: HoldMode,
    /// Going on, it gives it back before it takes it.
    pub ways: WaysSay,
    /// Clean-up code of one of its frames gives it back.
    pub cleanup: bool,
    /// The frame that gives it back, as an index into the thread's frames.
    pub frame: usize,
}

/// What lies ahead of a thread.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Looked {
    /// Locks that it holds, or may.
    pub holds: Vec<Hold>,
    /// Locks that it gives back on some way, also after it took them.
    pub gives: BTreeSet<u64>,
    /// Not all of it could be followed.
    pub lost: bool,
}

/// A lock that somebody waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Its address: what code gives to functions, or the word that it changes itself.
    pub lock: u64,
    /// Its kind.
    pub family: LockFamily,
}

/// Looks ahead in the threads of one image.
pub struct Ahead<'a> {
    image: &'a dyn Image,
    stacks: &'a ImageStacks,
    code: CodeView<'a>,
    memory: Pages<'a>,
    locks: FxHashMap<u64, LockFamily>,
    left: usize,
}

impl std::fmt::Debug for Ahead<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ahead").field("locks", &self.locks).finish_non_exhaustive()
    }
}

impl<'a> Ahead<'a> {
    /// `None`: the stacks were not walked here, so that nothing is known of their code. `stacks`: of the image.
    #[must_use]
    pub fn new(image: &'a dyn Image, stacks: &'a ImageStacks, wanted: &[Wanted]) -> Option<Self> {
        let modules = stacks.code.modules()?;
        let locks: FxHashMap<u64, LockFamily> = wanted
            .iter()
            .filter(|wanted| wanted.lock != 0)
            .map(|wanted| (wanted.lock, wanted.family))
            .collect();
        let by_stores = locks.values().any(|family| family.by_stores());
        let code = CodeView::new(image, modules, by_stores);
        Some(Self { image, stacks, code, memory: Pages::new(image), locks, left: INSTRUCTIONS })
    }

    /// There was not enough room to look at all threads that were asked for.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.left == 0
    }

    /// The code of the condition's own module never signals it: see `mentions`. `false` also where that cannot be told.
    #[must_use]
    pub fn is_never_signalled(&mut self, condition: u64) -> bool {
        self.code.is_never_signalled(self.image, condition)
    }

    /// Whether the thread could still come to code that wakes somebody who waits at a condition: see `reach`.
    #[must_use]
    pub fn reach(&mut self, stack: &ThreadStack) -> Reach {
        let registers = self.stacks.code.registers(stack.tid);
        let whole = stack.end == StackEnd::Root && !stack.cut;
        if registers.is_empty() || registers.len() > FRAMES || !whole {
            return Reach::NotKnown;
        }
        self.code.reach(self.image, registers.iter().map(|frame| frame.ip))
    }

    /// Which of the wanted locks the thread holds, and which it will give back. `waits_for`: the lock that it waits to get now, and
    /// `takes_again`: one that it takes when its wait ends (the mutex of a condition), both of which its own code will give back too.
    #[must_use]
    pub fn look(&mut self, stack: &ThreadStack, waits_for: Option<u64>, takes_again: Option<u64>) -> Looked {
        let registers = self.stacks.code.registers(stack.tid);
        let (Some(first), Some(last)) = (registers.first(), registers.last()) else {
            return Looked { lost: true, ..Looked::default() };
        };
        // The outermost frame's own part lies above its stack pointer.
        let used = first.sp..last.sp.saturating_add(4096);
        let mut frames = Vec::new();
        // The innermost frame is in the system call.
        for (index, frame) in registers.iter().enumerate().skip(1).take(FRAMES) {
            frames.push((index, self.frame(frame, used.clone())));
        }
        let touched: BTreeSet<u64> = frames
            .iter()
            .flat_map(|(_, frame)| frame.ahead.done.iter().chain(&frame.ahead.loops).chain(&frame.cleanup))
            .flat_map(|sums| sums.keys().copied())
            .collect();
        let own = waits_for.map_or(0, |lock| own_code(&frames, lock));
        let hold = |lock: u64| {
            let acquires = waits_for == Some(lock);
            let level = i32::from(acquires || takes_again == Some(lock));
            hold(&frames, lock, level, acquires, own)
        };
        let ways = frames.iter().flat_map(|(_, frame)| frame.ahead.done.iter().chain(&frame.ahead.loops));
        let gives = ways.flatten().filter(|(_, sum)| sum.gave).map(|(lock, _)| *lock).collect();
        let lost = frames.iter().any(|(_, frame)| frame.ahead.lost);
        Looked { holds: touched.into_iter().filter_map(hold).collect(), gives, lost }
    }

    fn frame(&mut self, frame: &FrameRegisters, stack: std::ops::Range<u64>) -> FrameWays {
        let mut found = FrameWays::default();
        let Some(function) = self.code.function(frame.ip.wrapping_sub(1)) else {
            found.ahead.lost = true;
            return found;
        };
        if self.code.is_system(frame.ip) || !self.code.touches_locks(function.start) {
            found.ahead.done.push(paths::Sums::new());
            return found;
        }
        let state = State::new(&frame.known());
        let pad = self.code.landing_pad(frame.ip);
        let mut search = Search {
            code: &mut self.code,
            memory: &self.memory,
            locks: &self.locks,
            left: &mut self.left,
            stack,
        };
        found.ahead = search.ways(frame.ip, &state, false);
        if let Some(pad) = pad {
            let ways = search.ways(pad, &state, true);
            found.cleanup = ways.done;
        }
        found
    }
}

/// What is ahead of one frame.
#[derive(Debug, Default)]
struct FrameWays {
    ahead: Ways,
    /// Of its landing pad; empty without one.
    cleanup: Vec<paths::Sums>,
}

const NOTHING: Sum = Sum { net: 0, lowest: 0, mode: HoldMode::NotKnown, gave: false };

/// Sums up the frames of a thread for one lock. `level`: what the wait itself will take. `acquires`: it waits for this lock, so that the
/// innermost frames may be the lock's own code; `own`: so many are that of the lock that it waits for.
fn hold(frames: &[(usize, FrameWays)], lock: u64, level: i32, acquires: bool, own: usize) -> Option<Hold> {
    let cleaned = frames.iter().find_map(|(index, frame)| {
        let all = !frame.cleanup.is_empty()
            && frame.cleanup.iter().all(|sums| sums.get(&lock).is_some_and(|sum| sum.lowest < 0));
        let mode = frame.cleanup.first().and_then(|sums| sums.get(&lock)).map(|sum| sum.mode);
        mode.filter(|_| all).map(|mode| (*index, mode))
    });
    let least = total(frames, lock, (level, acquires, own), |sums| {
        sums.min_by_key(|sum| (sum.lowest, sum.net)).unwrap_or(NOTHING)
    });
    let most = total(frames, lock, (level, acquires, own), |sums| {
        sums.max_by_key(|sum| (sum.lowest, sum.net)).unwrap_or(NOTHING)
    });
    let ways = match (least.lowest < 0, most.lowest < 0, least.followed) {
        (true, true, _) => WaysSay::All,
        (true, false, _) => WaysSay::Some,
        (false, _, true) => WaysSay::No,
        (false, _, false) => WaysSay::Nothing,
    };
    let (frame, mode) = match (least.at, cleaned) {
        (Some(at), Some((pad, mode))) => {
            (at.0, if at.1 == HoldMode::NotKnown { mode } else { at.1 }).min((pad, mode))
        }
        (Some(at), None) => at,
        (None, Some(pad)) => pad,
        (None, None) => return None,
    };
    let times = u8::try_from(-least.lowest).unwrap_or(0).max(1);
    Some(Hold { lock, times, mode, ways, cleanup: cleaned.is_some(), frame })
}

/// How many of the innermost frames are of the code of the lock that is waited for: those before the first that gives it back. They come
/// back, however their loops look.
fn own_code(frames: &[(usize, FrameWays)], lock: u64) -> usize {
    let gives = |(_, frame): &(usize, FrameWays)| {
        frame.ahead.done.iter().any(|sums| sums.get(&lock).is_some_and(|sum| sum.lowest < 0))
    };
    frames.iter().position(gives).unwrap_or(0)
}

struct Total {
    lowest: i32,
    /// Where it fell below zero first.
    at: Option<(usize, HoldMode)>,
    /// All frames had a way that could be followed.
    followed: bool,
}

fn total(
    frames: &[(usize, FrameWays)],
    lock: u64,
    (level, acquires, own): (i32, bool, usize),
    choose: impl Fn(&mut dyn Iterator<Item = Sum>) -> Sum,
) -> Total {
    let mut total = Total { lowest: 0, at: None, followed: true };
    let (mut level, mut inside) = (level, acquires);
    for (position, (index, frame)) in frames.iter().enumerate() {
        let of = |sums: &paths::Sums| sums.get(&lock).copied().unwrap_or(NOTHING);
        let ways = &frame.ahead;
        // A way that was lost may have been the one that leaves the loop.
        let endless = ways.done.is_empty() && !ways.loops.is_empty() && !ways.lost;
        let all: Vec<Sum> = if endless { &ways.loops } else { &ways.done }.iter().map(of).collect();
        if all.is_empty() {
            total.followed &= !ways.lost;
            continue;
        }
        // The code that waits takes it, which was counted at the start.
        inside &= all.iter().all(|sum| sum.lowest >= 0);
        if inside && (endless || all.iter().any(|sum| sum.net > 0)) {
            continue;
        }
        if endless && position < own {
            continue;
        }
        let sum = choose(&mut all.into_iter());
        let lowest = level + i32::from(sum.lowest);
        if lowest < total.lowest {
            total.lowest = lowest;
            total.at.get_or_insert((*index, sum.mode));
        }
        level += i32::from(sum.net);
        if endless {
            break;
        }
    }
    total
}

#[cfg(test)]
mod tests;
