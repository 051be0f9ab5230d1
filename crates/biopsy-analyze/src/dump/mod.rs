//! What a dump says: what the process died of, what its threads do and wait for, what its memory is, and what cannot be
//! told.
//!
//! [`analyze_dump`](crate::analyze_dump) is a pure function over an image and its stacks. It reads memory of the image to follow locks and
//! system call arguments, never more than a few words at a time, and what it gives back is derived: no contents of
//! memory, apart from the message of an abort, which goes through the caller's redaction.
//!
//! What managed runtimes know comes from [`Runtimes`]; their frames are frames like others.

mod across;
mod analysis;
mod blocked;
mod crash;
mod crash_reasons;
mod facts;
mod frame_rows;
mod from_registers;
mod groups;
mod handled;
mod identity;
mod instruction;
mod interrupted;
mod join;
mod last_words;
mod locks;
mod looks;
pub mod managed;
mod memory;
mod modules;
mod movement;
mod orphaned;
mod places;
mod signal;
mod signature;
mod state;
mod strand_place;
pub mod strands;
mod system_call;
mod threads;
mod thrown;
mod undetermined;
mod waits;

pub(crate) use join::{join, join_same};

use biopsy_image::Image;
use biopsy_stacks::ahead::LockFamily;
use biopsy_stacks::image::ImageStacks;

pub(crate) use across::STOPPED;
pub use across::{Across, FullPipe, OwnEnd, SilentPeer, Step};
pub use analysis::DumpAnalysis;
pub use crash::{AddressKind, Crash};
pub(crate) use crash_reasons::{ALL_ASLEEP, OVERFLOWED, by_functions};
pub use facts::{DumpFacts, ThreadFacts};
pub use frame_rows::FrameRow;
pub use groups::StackGroup;
pub use identity::Identity;
pub use instruction::{Access, Instruction};
pub use last_words::{LastWords, LastWordsKind, Writer};
pub use locks::{Holder, LockKind, LockOwner, LockWait, Nobody, StuckWait};
pub use looks::Looks;
pub use managed::{Managed, Runtimes};
pub use memory::{MemoryClass, MemoryRow, MemorySplit, Missing, MissingReason};
pub use modules::{ModuleRow, SymbolStatus};
pub use movement::Movement;
pub use orphaned::OrphanedLock;
pub use places::StackPlace;
pub use signature::{MadeFrom, Role, Signature, SignatureFrame, VERSION as SIGNATURE_VERSION};
pub use state::{ThreadState, WaitKind};
pub use strands::StrandRuntime;
pub use threads::DumpThread;
pub use thrown::Thrown;
pub use waits::{Circle, LockQueue, WaitGraph};

/// The facts of a dump, without findings. `stacks`: of the same image.
pub(crate) fn facts_of(image: &dyn Image, stacks: &ImageStacks, facts: &DumpFacts<'_>) -> DumpAnalysis {
    let heap = managed::walk_heap(facts);
    let mut managed_locks = managed::find_locks(facts, stacks, &heap);
    managed_locks.waits.extend(strands::waits(facts));
    let mut threads = threads::threads(image, stacks, facts, &mut managed_locks.waits);
    let strands = strands::analyze(facts);
    strands::add_to(&mut threads, &strands);
    let mut waiting: Vec<_> =
        threads.iter_mut().filter_map(|thread| Some((thread.tid, thread.lock.as_mut()?))).collect();
    // Runtimes have futexes, conditions and pools of their own at rest: what their threads wait for they say themselves.
    if facts.managed.is_some_and(|runtimes| !runtimes.rows().is_empty()) || !strands.is_empty() {
        for (_, wait) in waiting.iter_mut().filter(|(_, wait)| wait.family == Some(LockFamily::Counter)) {
            wait.family = None;
        }
    }
    locks::find_makers(image, stacks, &mut waiting);
    interrupted::find_owners(image, stacks, &mut waiting);
    let inferred = locks::infer(image, stacks, &mut waiting);
    let waits = WaitGraph::new(&threads);
    let orphaned = orphaned::find(image, &threads, &waits);
    let crash = crash::find(image, stacks, facts);
    let signature = signature::find(image, stacks, facts, crash.as_ref(), &threads, &strands);
    let mut analysis = DumpAnalysis {
        identity: Identity::new(image, facts),
        groups: groups::groups(stacks, &threads, crash.as_ref(), &waits),
        crash,
        last_words: last_words::parse(facts.last_words),
        last_line: facts.last_words.iter().rfind(|line| !line.trim().is_empty()).cloned(),
        signature,
        managed: managed::analyze(facts, stacks, &threads, managed_locks, heap),
        threads,
        across: None,
        waits,
        strands,
        orphaned,
        stuck: inferred.stuck,
        looks: None,
        damaged: facts.damaged,
        memory: memory::split(image, stacks),
        modules: modules::rows(stacks),
        undetermined: Vec::new(),
        findings: Vec::new(),
    };
    analysis.damaged |= analysis.memory.missing.iter().any(|missing| missing.reason.is_damage());
    analysis.across = facts.peers.map(|look| {
        across::join(&analysis.threads, look, &analysis.strands, &from_registers::returned(image))
    });
    analysis.assign_groups();
    analysis.undetermined = undetermined::list(image, stacks, facts, &analysis);
    analysis.add_undetermined(&inferred.problems);
    analysis
}
