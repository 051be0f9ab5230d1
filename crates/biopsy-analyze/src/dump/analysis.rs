//! Everything a report of a dump shows.

use super::across::Across;
use super::crash::Crash;
use super::groups::StackGroup;
use super::identity::Identity;
use super::last_words::LastWords;
use super::locks::StuckWait;
use super::looks::Looks;
use super::managed::Managed;
use super::memory::MemorySplit;
use super::modules::ModuleRow;
use super::orphaned::OrphanedLock;
use super::places::{self, StackPlace};
use super::signature::Signature;
use super::strand_place;
use super::strands::StrandRuntime;
use super::threads::DumpThread;
use super::waits::WaitGraph;
use crate::findings::finding::Finding;

/// Everything a report of a dump shows.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DumpAnalysis {
    /// Which process, written by whom, when.
    pub identity: Identity,
    /// What it died of; `None`: it did not die, or the dump does not say.
    pub crash: Option<Crash>,
    /// The exception that it wrote of before it ended.
    pub last_words: Option<LastWords>,
    /// The last line that it wrote, redacted.
    pub last_line: Option<String>,
    /// What crashes with the same cause have in common, where the process ended itself or died.
    pub signature: Option<Signature>,
    /// All threads, in the order of the dump.
    pub threads: Vec<DumpThread>,
    /// Threads with equal stacks; those that matter first.
    pub groups: Vec<StackGroup>,
    /// Who waits for whom.
    pub waits: WaitGraph,
    /// What earlier looks at the same process say; `None`: there was one look.
    pub looks: Option<Looks>,
    /// A lock that was copied by fork while another thread held it, and that this process waits for.
    pub orphaned: Option<OrphanedLock>,
    /// Waits that nobody is left to end.
    pub stuck: Vec<StuckWait>,
    /// Waits for other processes, where somebody looked at them.
    pub across: Option<Across>,
    /// What managed runtimes say beyond single threads; `None`: there is none, or nobody opened it.
    pub managed: Option<Managed>,
    /// Language runtimes other than .NET, with their goroutines, threads and tasks.
    pub strands: Vec<StrandRuntime>,
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
    /// A thread.
    #[must_use]
    pub fn thread(&self, tid: biopsy_model::Tid) -> Option<&DumpThread> {
        self.threads.iter().find(|thread| thread.tid == tid)
    }

    /// Where the program itself stands on a thread: in its language, where it has one.
    #[must_use]
    pub fn place(&self, tid: biopsy_model::Tid) -> Option<StackPlace> {
        let group = self.thread(tid).and_then(|thread| self.groups.get(thread.group));
        let rows = group.map_or(&[][..], |group| &group.frames);
        let strand = strand_place::on_thread(self.strands.iter().map(|one| &one.runtime), tid);
        places::of(rows, strand)
    }

    pub(super) fn assign_groups(&mut self) {
        for (index, group) in self.groups.iter().enumerate() {
            for member in &group.members {
                if let Some(thread) = self.threads.get_mut(*member) {
                    thread.group = index;
                }
            }
        }
    }
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
