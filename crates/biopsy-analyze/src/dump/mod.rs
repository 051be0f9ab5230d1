//! What a dump says: what the process died of, what its threads do and wait for, what its memory is, and what cannot be
//! told.
//!
//! [`analyze_dump`] is a pure function over an image and its stacks. It reads memory of the image to follow locks and
//! system call arguments, never more than a few words at a time, and what it gives back is derived: no contents of
//! memory, apart from the message of an abort, which goes through the caller's redaction.
//!
//! What managed runtimes know comes from [`Runtimes`]; their frames are frames like others.

mod crash;
mod facts;
mod findings;
mod groups;
mod identity;
mod image;
mod instruction;
mod locks;
pub(crate) mod look;
pub mod managed;
mod memory;
mod modules;
mod signal;
mod state;
mod system_call;
mod threads;
mod undetermined;
mod waits;

use biopsy_image::Image;
use biopsy_stacks::image::ImageStacks;

pub use crash::{Access, AddressKind, Crash};
pub use facts::{DumpFacts, ThreadFacts};
pub use groups::{FrameRow, StackGroup};
pub use identity::Identity;
pub use image::{analyze_image, analyze_opened};
pub use instruction::Instruction;
pub use locks::{LockKind, LockOwner, LockWait};
pub use managed::{Managed, Runtimes};
pub use memory::{MemoryClass, MemoryRow, MemorySplit, Missing, MissingReason};
pub use modules::{ModuleRow, SymbolStatus};
pub use state::{ThreadState, WaitKind};
pub use threads::DumpThread;
pub use waits::{LockQueue, WaitGraph};

use crate::Finding;

/// Everything a report of a dump shows.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DumpAnalysis {
    /// Which process, written by whom, when.
    pub identity: Identity,
    /// What it died of; `None`: it did not die, or the dump does not say.
    pub crash: Option<Crash>,
    /// All threads, in the order of the dump.
    pub threads: Vec<DumpThread>,
    /// Threads with equal stacks; those that matter first.
    pub groups: Vec<StackGroup>,
    /// Who waits for whom.
    pub waits: WaitGraph,
    /// What managed runtimes say beyond single threads; `None`: there is none, or nobody opened it.
    pub managed: Option<Managed>,
    /// What its memory is.
    pub memory: MemorySplit,
    /// Mapped code, and where names come from.
    pub modules: Vec<ModuleRow>,
    /// The dump is damaged, or lacks memory that should be in it.
    pub damaged: bool,
    /// What could not be determined, and why.
    pub undetermined: Vec<String>,
    /// What an expert would say, the most important first. Never empty.
    pub findings: Vec<Finding>,
}

impl DumpAnalysis {
    /// Adds what the recording around the dump says: a text of the context that is missing, a child that ended before it could be
    /// dumped.
    pub fn add_undetermined(&mut self, more: &[String]) {
        for one in more {
            if !self.undetermined.contains(one) {
                self.undetermined.push(one.clone());
            }
        }
    }
}

/// Analyses a dump. `stacks`: of the same image.
#[must_use]
pub fn analyze_dump(image: &dyn Image, stacks: &ImageStacks, facts: &DumpFacts<'_>) -> DumpAnalysis {
    let heap = managed::walk_heap(facts);
    let mut locks = managed::find_locks(facts, stacks, &heap);
    let threads = threads::threads(image, stacks, facts, &mut locks.waits);
    let waits = WaitGraph::new(&threads);
    let crash = crash::find(image, stacks, facts);
    let mut analysis = DumpAnalysis {
        identity: Identity::new(image, facts),
        groups: groups::groups(stacks, &threads, crash.as_ref(), &waits),
        crash,
        managed: managed::analyze(facts, stacks, &threads, locks, heap),
        threads,
        waits,
        damaged: facts.damaged,
        memory: memory::split(image, stacks),
        modules: modules::rows(stacks),
        undetermined: Vec::new(),
        findings: Vec::new(),
    };
    analysis.damaged |= analysis.memory.missing.iter().any(|missing| missing.reason.is_damage());
    analysis.assign_groups();
    analysis.undetermined = undetermined::list(image, stacks, facts, &analysis);
    analysis.findings = findings::find(&analysis);
    analysis
}

impl DumpAnalysis {
    /// A thread.
    #[must_use]
    pub fn thread(&self, tid: biopsy_model::Tid) -> Option<&DumpThread> {
        self.threads.iter().find(|thread| thread.tid == tid)
    }

    fn assign_groups(&mut self) {
        for (index, group) in self.groups.iter().enumerate() {
            for member in &group.members {
                if let Some(thread) = self.threads.get_mut(*member) {
                    thread.group = index;
                }
            }
        }
    }
}
