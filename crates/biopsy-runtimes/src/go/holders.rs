//! Who has the locks that goroutines wait for: those whose code ahead lets go of them. See [`super::forward`].
//!
//! Over all frames of a goroutine, and over the calls that it has deferred, is added up how often each lock is let go of more than it is
//! taken. Who waits for a lock lets go of it too, later: that is taken off. What is below a `Cond.Wait` lets go of the
//! condition's lock, which it does not have while it waits: the frame that called it is left out.

use rustc_hash::{FxHashMap, FxHashSet};

use super::forward::{Found, Mode, UNKNOWN, Walker, is_of_program};
use super::goroutine::{Goroutine, Place};
use super::layout::Layout;
use crate::{Confidence, Holder, Memory, Owner, Strand, StrandFrame, StrandId, StrandState, WaitKind};
use biopsy_model::Avma;

/// Deferred calls of a goroutine that are followed.
const DEFERRED: usize = 256;
/// Holders that are named, of one lock.
const NAMED: usize = 8;
/// Bytes of a stack in which a lock, or what it is a part of, is looked for.
const STACK: u64 = 64 << 10;
/// A lock is this near behind the beginning of what it is a part of, mostly.
const NEAR: u64 = 2 << 10;
/// Size of the largest lock.
const LOCK: u64 = 24;
/// `runtime._defer`.
const DEFER_SP: u64 = 8;
const DEFER_FUNCTION: u64 = 24;
/// With more goroutines it is not asked whether nobody has a lock.
const GOROUTINES: usize = 5_000;
/// Bit of `sync.Mutex` that is set while somebody has it.
const LOCKED: u32 = 1;

/// Who has a lock: number of the goroutine, frame.
type Site = (usize, Option<usize>);

/// Fills in the owners of all locks that are waited for. `strands`: of the same goroutines; `are_all`: there are no others.
pub(super) fn find(
    memory: &Memory<'_>,
    layout: &Layout,
    walker: &Walker<'_, '_, '_>,
    goroutines: &[Goroutine],
    strands: &mut [Strand],
    are_all: bool,
) -> Result<(), &'static str> {
    let wanted = wanted(memory, strands);
    if wanted.is_empty() {
        return Ok(());
    }
    let mut locks: Vec<u64> = wanted.keys().copied().collect();
    locks.sort_unstable();
    let mut sites: FxHashMap<(u64, Mode), Vec<Site>> = FxHashMap::default();
    let mut done = vec![false; strands.len()];
    // First those that have a lock on their stacks, or what it is a part of; then, for locks that nobody was found for, all.
    for all in [false, true] {
        let missing = wanted.iter().any(|(lock, _)| !modes().any(|mode| sites.contains_key(&(*lock, mode))));
        if all && !missing {
            break;
        }
        for (number, (goroutine, strand)) in goroutines.iter().zip(strands.iter()).enumerate() {
            let Some(done) = done.get_mut(number).filter(|done| !**done) else { continue };
            if strand.of_runtime || !(all || refers(memory, goroutine, &locks)) {
                continue;
            }
            *done = true;
            let (held, _) = held_by(memory, layout, walker, goroutine, strand, false);
            for (key, site) in held {
                if wanted.contains_key(&key.0) {
                    sites.entry(key).or_default().push((number, site));
                }
            }
            if walker.is_exhausted() {
                name(&wanted, &sites, strands);
                return Err("not all code was followed to find out who has which lock");
            }
        }
    }
    name(&wanted, &sites, strands);
    let left: FxHashSet<u64> =
        locks.into_iter().filter(|lock| !modes().any(|mode| sites.contains_key(&(*lock, mode)))).collect();
    if are_all && strands.len() <= GOROUTINES {
        nobody(memory, layout, walker, goroutines, strands, left);
    }
    Ok(())
}

/// Says of locks without a holder that nobody is left who would let go of them: no goroutine comes to that by the code ahead of it, with all
/// functions of the program that it calls, and none could that was not followed.
fn nobody(
    memory: &Memory<'_>,
    layout: &Layout,
    walker: &Walker<'_, '_, '_>,
    goroutines: &[Goroutine],
    strands: &mut [Strand],
    mut left: FxHashSet<u64>,
) {
    for (goroutine, strand) in goroutines.iter().zip(strands.iter()).filter(|(_, strand)| !strand.of_runtime)
    {
        if left.is_empty() || strand.cut || strand.state == StrandState::NotKnown {
            return;
        }
        let (held, lost) = held_by(memory, layout, walker, goroutine, strand, true);
        // One at an address that is not known may be any; who waits lets go of what it waits for.
        if lost || walker.is_exhausted() || held.iter().any(|((lock, _), _)| *lock == UNKNOWN) {
            return;
        }
        for ((lock, _), _) in held {
            left.remove(&lock);
        }
    }
    let wants = |strand: &Strand| {
        let outside = strand.frames.iter().find(|frame| !is_of_library(frame));
        outside.is_some_and(|frame| is_of_program(&frame.function))
    };
    for strand in strands.iter_mut().filter(|strand| wants(strand)) {
        let Some(wait) = &mut strand.wait else { continue };
        let lock = wait.address.filter(|lock| left.contains(&lock.0));
        if lock.is_some() && wait.kind.is_held() && wait.owners.is_empty() {
            wait.nobody = Some("no goroutine comes to let go of it by the code ahead of it".to_owned());
        }
    }
}

fn modes() -> impl Iterator<Item = Mode> {
    [Mode::Mutex, Mode::Read, Mode::Write].into_iter()
}

/// Locks that are waited for, with the goroutines that wait for them to write.
fn wanted(memory: &Memory<'_>, strands: &[Strand]) -> FxHashMap<u64, Vec<StrandId>> {
    let mut wanted: FxHashMap<u64, Vec<StrandId>> = FxHashMap::default();
    for strand in strands {
        let Some(wait) = &strand.wait else { continue };
        let Some(Avma(lock)) = wait.address else { continue };
        match wait.kind {
            WaitKind::Mutex if memory.u32(lock).is_none_or(|state| state & LOCKED == 0) => {}
            WaitKind::Mutex | WaitKind::ReadLock => drop(wanted.entry(lock).or_default()),
            WaitKind::WriteLock => wanted.entry(lock).or_default().push(strand.id),
            _ => {}
        }
    }
    wanted
}

/// Whether a stack leads to one of the locks, which are in order.
fn refers(memory: &Memory<'_>, goroutine: &Goroutine, locks: &[u64]) -> bool {
    let (sp, end) = (goroutine.saved.sp, goroutine.stack.end);
    if !goroutine.stack.contains(&sp) {
        return true;
    }
    let mut bytes = vec![0; (end - sp).min(STACK) as usize];
    let read = memory.read_available(sp, &mut bytes);
    bytes.truncate(read);
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).any(|word| {
        // The first lock that does not end before it.
        let next = locks.get(locks.partition_point(|lock| lock.saturating_add(LOCK) <= word));
        next.is_some_and(|lock| lock.saturating_sub(NEAR) <= word)
    })
}

/// A lock that a goroutine has, in which way, and the frame in which it was taken.
type Had = ((u64, Mode), Option<usize>);

/// The locks that a goroutine has, and in which frame; and whether code was left out. `follows`: through functions of the program too.
fn held_by(
    memory: &Memory<'_>,
    layout: &Layout,
    walker: &Walker<'_, '_, '_>,
    goroutine: &Goroutine,
    strand: &Strand,
    follows: bool,
) -> (Vec<Had>, bool) {
    let mut sums: FxHashMap<(u64, Mode), (u32, Option<usize>)> = FxHashMap::default();
    let mut lost = false;
    let mut add = |found: Found, frame: Option<usize>, own: bool| {
        lost |= found.lost;
        // What a library lets go of at an address that is not known is its own.
        for (key, count) in found.held.into_iter().filter(|((lock, _), _)| own || *lock != UNKNOWN) {
            let (sum, first) = sums.entry(key).or_insert((0, frame));
            *sum = sum.saturating_add(count);
            // The outermost: where it was taken.
            *first = frame.or(*first);
        }
    };
    let mut inner_is_condition = false;
    for (number, frame) in strand.frames.iter().enumerate() {
        let is_condition = &*frame.function == "sync.(*Cond).Wait";
        // What was inlined is part of the code around it.
        let (Some(address), Some(sp), false) = (frame.address, frame.sp, frame.inlined) else {
            inner_is_condition |= is_condition;
            continue;
        };
        if !is_of_library(frame) && !inner_is_condition {
            let found = walker.ahead(Place { pc: address.0, sp: sp.0 }, None, follows);
            add(found, Some(number), is_of_program(&frame.function));
        }
        inner_is_condition = is_condition;
    }
    for deferred in deferred(memory, layout, goroutine) {
        let frame =
            strand.frames.iter().position(|frame| !frame.inlined && frame.sp.map(|sp| sp.0) == deferred.sp);
        add(walker.ahead(deferred.start, Some(deferred.closure), follows), frame, true);
    }
    let own = strand.wait.as_ref().and_then(|wait| {
        let mode = match wait.kind {
            WaitKind::Mutex => Mode::Mutex,
            WaitKind::ReadLock => Mode::Read,
            WaitKind::WriteLock => Mode::Write,
            _ => return None,
        };
        Some((wait.address?.0, mode))
    });
    // Where it lets go of what it waits for, the address may not be known.
    let own =
        own.map(|(lock, mode)| if sums.contains_key(&(lock, mode)) { (lock, mode) } else { (UNKNOWN, mode) });
    let held = sums.into_iter().filter(|(key, (sum, _))| *sum > u32::from(own == Some(*key)));
    (held.map(|(key, (_, frame))| (key, frame)).collect(), lost)
}

/// A call that a goroutine has deferred.
pub(super) struct Deferred {
    pub(super) start: Place,
    pub(super) closure: u64,
    /// Stack pointer of the frame that deferred it.
    sp: Option<u64>,
}

/// The calls that a goroutine has deferred, the next one first.
pub(super) fn deferred(memory: &Memory<'_>, layout: &Layout, goroutine: &Goroutine) -> Vec<Deferred> {
    let mut seen: FxHashSet<u64> = FxHashSet::default();
    let mut found = Vec::new();
    let mut next = goroutine.deferred;
    while next != 0 && seen.len() < DEFERRED && seen.insert(next) {
        let word = |offset| memory.pointer(next.checked_add(offset)?);
        if let Some((closure, pc)) = word(DEFER_FUNCTION).and_then(|at| Some((at, memory.pointer(at)?))) {
            let start = Place { pc, sp: goroutine.saved.sp.saturating_sub(1 << 12) };
            found.push(Deferred { start, closure, sp: word(DEFER_SP) });
        }
        next = word(layout.defer_next).unwrap_or(0);
    }
    found
}

fn is_of_library(frame: &StrandFrame) -> bool {
    let name = &*frame.function;
    ["runtime.", "sync.", "internal/", "time."].iter().any(|library| name.starts_with(library))
}

/// Puts owners into the waits.
fn name(
    wanted: &FxHashMap<u64, Vec<StrandId>>,
    sites: &FxHashMap<(u64, Mode), Vec<Site>>,
    strands: &mut [Strand],
) {
    let ids: Vec<StrandId> = strands.iter().map(|strand| strand.id).collect();
    for strand in strands.iter_mut() {
        let Some(wait) = &mut strand.wait else { continue };
        let Some(Avma(lock)) = wait.address.filter(|lock| wanted.contains_key(&lock.0)) else { continue };
        let of = |mode| sites.get(&(lock, mode)).map(Vec::as_slice).unwrap_or_default();
        let holders: Vec<Site> = match wait.kind {
            WaitKind::Mutex => of(Mode::Mutex).to_vec(),
            WaitKind::ReadLock => of(Mode::Write).to_vec(),
            WaitKind::WriteLock => [of(Mode::Write), of(Mode::Read)].concat(),
            _ => continue,
        };
        // One may have it; readers may be several, but not beside a writer.
        let fits = holders.len() == 1 || (wait.kind == WaitKind::WriteLock && of(Mode::Write).is_empty());
        let confidence = if fits { Confidence::VeryLikely } else { Confidence::Possible };
        wait.owners = holders
            .iter()
            .take(NAMED)
            .filter_map(|(number, frame)| {
                Some(Owner {
                    holder: Holder::Strand(*ids.get(*number)?),
                    confidence,
                    frame: *frame,
                    proof: "the code ahead of it lets go of the lock before it takes it".to_owned(),
                })
            })
            .collect();
        if wait.kind == WaitKind::ReadLock && wait.owners.is_empty() {
            let writers = wanted.get(&lock).into_iter().flatten().take(NAMED);
            wait.owners = writers
                .map(|writer| Owner {
                    holder: Holder::Strand(*writer),
                    confidence: Confidence::AlmostCertain,
                    frame: None,
                    proof: "it waits to write, and who waits to write goes before new readers".to_owned(),
                })
                .collect();
        }
    }
}
