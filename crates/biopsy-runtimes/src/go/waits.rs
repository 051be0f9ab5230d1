//! What a parked goroutine waits for: the reason that the runtime noted, and the notes (`sudog`) that lead to channels and locks.
//!
//! A semaphore belongs to a lock; which one is told by the function of the standard library that waits for it:
//!
//! ```text
//! sync.Mutex      0 state  4 semaphore
//! sync.RWMutex    0 Mutex of writers  8 semaphore of the writer  12 of readers  16 count of readers  20 readers waited for
//! sync.WaitGroup  0 counter and waiters  8 semaphore
//! ```

use biopsy_model::{Avma, MonoNanos};

use super::goroutine::Goroutine;
use super::layout::{Layout, sudog};
use super::reasons::{self, Reasons};
use crate::{Memory, StrandFrame, StrandWait, WaitKind};

/// Cases of a `select` that are followed.
const CASES: usize = 1_024;
/// Words of the stack that are looked at for the note of a semaphore or a descriptor: the innermost frames are the runtime's own
/// and hold it.
const WORDS: usize = 256;
/// Functions of the standard library below which the lock's own function is.
const INNER: usize = 12;
/// `runtime.pollDesc`: the descriptor.
const POLL_DESCRIPTOR: u64 = 8;

/// What it waits for.
pub(super) fn wait(
    memory: &Memory<'_>,
    layout: &Layout,
    reasons: &Reasons,
    goroutine: &Goroutine,
    frames: &[StrandFrame],
) -> StrandWait {
    let reason = reasons.text(goroutine.reason);
    let (kind, never_ends) = reasons::kind(reason);
    let mut wait = StrandWait::of(kind, reason);
    wait.never_ends = never_ends;
    wait.since = (goroutine.since != 0).then_some(MonoNanos(goroutine.since));
    let notes = notes(memory, layout, goroutine);
    let channels: Vec<_> = notes.iter().filter_map(|note| note.channel.map(Avma)).collect();
    match kind {
        WaitKind::ChannelSend | WaitKind::ChannelReceive | WaitKind::Select => {
            wait.ends_by_itself = channels.iter().any(|channel| has_timer(memory, layout, channel.0));
            wait.address = channels.first().copied();
            wait.others = channels.get(1..).unwrap_or_default().to_vec();
        }
        WaitKind::Io => descriptor(memory, layout, goroutine, &mut wait),
        WaitKind::Mutex
        | WaitKind::ReadLock
        | WaitKind::WriteLock
        | WaitKind::WaitGroup
        | WaitKind::Semaphore => {
            let noted = notes.iter().find_map(|note| note.semaphore);
            let semaphore = noted.or_else(|| semaphore_on_stack(memory, layout, goroutine));
            let (kind, address) = lock(kind, semaphore, frames);
            (wait.kind, wait.address) = (kind, address.map(Avma));
        }
        _ => {}
    }
    wait.object = object(wait.kind).map(str::to_owned);
    wait
}

fn object(kind: WaitKind) -> Option<&'static str> {
    match kind {
        WaitKind::Mutex => Some("sync.Mutex"),
        WaitKind::ReadLock | WaitKind::WriteLock => Some("sync.RWMutex"),
        WaitKind::WaitGroup => Some("sync.WaitGroup"),
        WaitKind::Condition => Some("sync.Cond"),
        _ => None,
    }
}

/// A `sudog`.
struct Note {
    channel: Option<u64>,
    semaphore: Option<u64>,
}

fn note(memory: &Memory<'_>, layout: &Layout, goroutine: &Goroutine, at: u64) -> Option<Note> {
    let word = |offset| memory.u64(at.checked_add(offset)?);
    if !at.is_multiple_of(8) || word(sudog::G)? != goroutine.at {
        return None;
    }
    let channel = word(layout.sudog_channel)?;
    let semaphore = word(sudog::ELEMENT)?;
    Some(Note {
        channel: (channel != 0).then_some(channel),
        semaphore: (channel == 0 && semaphore != 0).then_some(semaphore),
    })
}

/// The list that hangs on the goroutine: channels, and from 1.25 on semaphores.
fn notes(memory: &Memory<'_>, layout: &Layout, goroutine: &Goroutine) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut at = goroutine.waiting;
    while at != 0 && notes.len() < CASES {
        let Some(note) = note(memory, layout, goroutine, at) else { break };
        notes.push(note);
        at = at.checked_add(layout.sudog_next).and_then(|next| memory.u64(next)).unwrap_or(0);
    }
    notes
}

/// The words at the top of its stack.
fn words(memory: &Memory<'_>, goroutine: &Goroutine) -> impl Iterator<Item = u64> {
    let sp = goroutine.saved.sp;
    let room = goroutine.stack.end.saturating_sub(sp).min(WORDS as u64 * 8);
    let inside = goroutine.stack.contains(&sp);
    let mut bytes = vec![0; if inside { room as usize } else { 0 }];
    let read = memory.read_available(sp, &mut bytes);
    bytes.truncate(read);
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    words.into_iter().filter(|word| (0x1_0000..1 << 47).contains(word))
}

/// Before 1.25 the note of a semaphore is known to the waiter's own stack only. A word is believed that leads to a note of this
/// very goroutine.
fn semaphore_on_stack(memory: &Memory<'_>, layout: &Layout, goroutine: &Goroutine) -> Option<u64> {
    words(memory, goroutine).find_map(|word| note(memory, layout, goroutine, word)?.semaphore)
}

/// The descriptor of the runtime's poller: one that has this goroutine as its reader or writer.
fn descriptor(memory: &Memory<'_>, layout: &Layout, goroutine: &Goroutine, wait: &mut StrandWait) {
    let found = words(memory, goroutine).filter(|word| word % 8 == 0).find_map(|word| {
        let waits = |offset| memory.u64(word.checked_add(offset)?).filter(|who| *who == goroutine.at);
        waits(layout.poll_reader).or_else(|| waits(layout.poll_reader + 8))?;
        let descriptor = memory.u64(word.checked_add(POLL_DESCRIPTOR)?)?;
        Some((word, u32::try_from(descriptor).ok()?))
    });
    wait.address = found.map(|found| Avma(found.0));
    wait.descriptor = found.map(|found| found.1);
}

/// The channel of a timer (`time.After`), from 1.23 on: it ends by itself.
fn has_timer(memory: &Memory<'_>, layout: &Layout, channel: u64) -> bool {
    layout.channel_timer.is_some_and(|timer| {
        channel.checked_add(timer).and_then(|at| memory.u64(at)).is_some_and(|timer| timer != 0)
    })
}

fn lock(reason: WaitKind, semaphore: Option<u64>, frames: &[StrandFrame]) -> (WaitKind, Option<u64>) {
    let has = |end: &str| {
        frames.iter().take(INNER).any(|frame| {
            let name = &*frame.function;
            name.strip_prefix("internal/").unwrap_or(name).strip_prefix("sync.") == Some(end)
        })
    };
    let before = |offset| semaphore.and_then(|at| at.checked_sub(offset));
    let slow = has("(*Mutex).lockSlow");
    if has("(*RWMutex).RLock") || has("runtime_SemacquireRWMutexR") {
        (WaitKind::ReadLock, before(12))
    } else if has("(*RWMutex).Lock") {
        // It waits for another writer, or for readers.
        (WaitKind::WriteLock, before(if slow { 4 } else { 8 }))
    } else if slow {
        (WaitKind::Mutex, before(4))
    } else if has("(*WaitGroup).Wait") {
        (WaitKind::WaitGroup, before(8))
    } else {
        match reason {
            WaitKind::Mutex => (reason, before(4)),
            WaitKind::ReadLock => (reason, before(12)),
            WaitKind::WaitGroup => (reason, before(8)),
            // Which of two it is is not known.
            WaitKind::WriteLock => (reason, None),
            _ => (reason, semaphore),
        }
    }
}
