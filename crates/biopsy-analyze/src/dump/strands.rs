//! Goroutines, and threads and tasks of Python and others: equal ones together, circles among them, and what threads of a language
//! wait for as what threads of the system wait for.

use biopsy_model::order::Order as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use biopsy_dotnet::runtime::{LocalFiles, MissingFiles as _};
use biopsy_image::Image;
use biopsy_model::{Avma, Confidence, Tid};
pub use biopsy_runtimes::{
    Holder, InterpreterLock, Owner, RuntimeKind, RuntimeStrands, Strand, StrandFrame, StrandId, StrandKind,
    StrandState, StrandWait, WaitKind,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::blocked::{self, Waiting};
use super::crash_reasons;
use super::facts::DumpFacts;
use super::locks::{self, LockKind, LockOwner, LockWait};
use super::state;
use super::strand_place;
use super::threads::DumpThread;
use crate::whose::Whose;

/// Circles that are looked for.
const CYCLES: usize = 100;
/// Below it an owner is a candidate, and no edge of a circle.
const SURE: Confidence = Confidence::VeryLikely;

/// A language runtime of the process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StrandRuntime {
    /// What was read of it.
    pub runtime: RuntimeStrands,
    /// Strands that stand in the same place and wait for the same kind of thing; those of the program first, then the largest.
    pub groups: Vec<StrandGroup>,
    /// Strands that wait for each other in a circle, for those that are no threads of the system: circles of threads are in
    /// [`DumpAnalysis::waits`](super::DumpAnalysis::waits).
    pub cycles: Vec<StrandCycle>,
    by_id: FxHashMap<StrandId, usize>,
}

/// Equal strands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StrandGroup {
    /// Indices into the strands of the runtime.
    pub members: Vec<usize>,
}

/// A circle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StrandCycle {
    /// Indices into the strands of the runtime; each waits for the next.
    pub members: Vec<usize>,
    /// That of the weakest edge.
    pub confidence: Confidence,
}

impl StrandRuntime {
    /// The first member of a group.
    #[must_use]
    pub fn first(&self, group: &StrandGroup) -> Option<&Strand> {
        self.runtime.strands.get(*group.members.first()?)
    }

    /// How many different stacks there are: groups may differ in what they wait for alone.
    #[must_use]
    pub fn stacks(&self) -> usize {
        let frames = |group| Some(&self.first(group)?.frames);
        let lines = |frames: &[StrandFrame]| -> Vec<_> {
            frames.iter().map(|frame| (frame.function.clone(), frame.line)).collect()
        };
        self.groups.iter().filter_map(frames).map(|frames| lines(frames)).collect::<FxHashSet<_>>().len()
    }

    /// What the members of a group wait for: what differs between them is left out.
    #[must_use]
    pub fn wait(&self, group: &StrandGroup) -> Option<StrandWait> {
        let mut waits = group.members.iter().map(|index| self.runtime.strands.get(*index)?.wait.as_ref());
        let mut common = waits.next()??.clone();
        for wait in waits.flatten() {
            common.address = common.address.filter(|_| common.address == wait.address);
            common.descriptor = common.descriptor.filter(|_| common.descriptor == wait.descriptor);
            common.since = common.since.filter(|_| common.since == wait.since);
            common.object = common.object.take().filter(|object| wait.object.as_ref() == Some(object));
        }
        Some(common)
    }

    /// `goroutine 18`, ``thread `worker` (4711)``, ``task `sync` ``.
    #[must_use]
    pub fn label(&self, strand: &Strand) -> String {
        let word = strand.kind.word();
        match (&strand.name, strand.tid, strand.kind) {
            (None, _, StrandKind::Goroutine) => format!("{word} {}", strand.id),
            (Some(name), Some(tid), _) => format!("{word} `{name}` ({tid})"),
            (Some(name), None, _) => format!("{word} `{name}`"),
            (None, Some(tid), _) => format!("{word} {tid}"),
            (None, None, _) => format!("{word} {:#x}", strand.id.0),
        }
    }

    /// Where in the program a strand is: `main.transfer (bank.go:52)`.
    #[must_use]
    pub fn place(&self, strand: &Strand) -> Option<String> {
        strand_place::of_program(self.runtime.kind, &strand.frames).map(strand_place::words)
    }

    /// Which of its frames that is.
    #[must_use]
    pub fn place_index(&self, strand: &Strand) -> Option<usize> {
        strand_place::index_of_program(self.runtime.kind, &strand.frames)
    }

    /// The goroutine whose panic ends the process, and what its functions say of the reason: nobody recovers any more.
    #[must_use]
    pub fn panics(&self) -> Option<(&Strand, &'static str)> {
        const ENDS: &[&str] = &["runtime.fatalpanic", "runtime.fatalthrow"];
        let ends = |strand: &&Strand| strand.frames.iter().any(|frame| ENDS.contains(&&*frame.function));
        let strand = self.runtime.strands.iter().find(ends)?;
        let names = strand.frames.iter().take(64).map(|frame| &*frame.function);
        Some((strand, crash_reasons::by_functions(names)?))
    }

    /// Which of its frames is the innermost of the program itself; `None` where there is none but its language's and libraries'.
    #[must_use]
    pub fn program_index(&self, strand: &Strand) -> Option<usize> {
        let own = |at: &usize| {
            strand
                .frames
                .get(*at)
                .is_some_and(|frame| strand_place::whose(self.runtime.kind, frame) == Whose::Program)
        };
        self.place_index(strand).filter(own)
    }

    /// Its innermost frame is of the program itself, and not of its language's library.
    #[must_use]
    pub fn stands_in_program(&self, strand: &Strand) -> bool {
        let own = strand_place::of_program(self.runtime.kind, &strand.frames);
        own.zip(strand.frames.first()).is_some_and(|(own, first)| {
            std::ptr::eq(own, first) && strand_place::whose(self.runtime.kind, first) == Whose::Program
        })
    }

    /// Whom a strand waits for that is known well enough, with where they have it.
    pub fn owners<'s>(&'s self, strand: &'s Strand) -> impl Iterator<Item = (&'s Strand, &'s Owner)> {
        strand.wait.iter().flat_map(|wait| self.owners_of(wait))
    }

    /// Who has what this wait is for, where that is known well enough, with where they have it.
    pub fn owners_of<'s>(&'s self, wait: &'s StrandWait) -> impl Iterator<Item = (&'s Strand, &'s Owner)> {
        let owners = wait.owners.iter();
        owners.filter(|owner| owner.confidence >= SURE).filter_map(|owner| Some((self.holder(owner)?, owner)))
    }

    fn holder(&self, owner: &Owner) -> Option<&Strand> {
        match owner.holder {
            Holder::Strand(id) => self.runtime.strands.get(*self.by_id.get(&id)?),
            Holder::Thread(tid) => self.runtime.strands.iter().find(|strand| strand.tid == Some(tid)),
        }
    }
}

/// Files of the process, for where a core has left out their text. `roots`: folders below which they are looked for.
#[must_use]
pub fn files(image: &dyn Image, roots: &[PathBuf]) -> impl biopsy_runtimes::MissingFiles + use<> {
    Files(LocalFiles::new(image, roots))
}

/// Reads the strands of an image.
#[must_use]
pub fn read(image: &dyn Image, files: &dyn biopsy_runtimes::MissingFiles) -> Vec<RuntimeStrands> {
    biopsy_runtimes::read_strands(image, Some(files), &biopsy_runtimes::Limits::default())
}

/// Files of this machine that were made sure to be those that were mapped.
struct Files(LocalFiles);

impl biopsy_runtimes::MissingFiles for Files {
    fn read(&self, path: &[u8], offset: u64, buffer: &mut [u8]) -> usize {
        self.0.read(path, offset, buffer)
    }
}

/// What the facts of a dump have.
pub(crate) fn analyze(facts: &DumpFacts<'_>) -> Vec<StrandRuntime> {
    let runtimes = facts.strands.iter().map(|runtime| {
        let mut runtime = runtime.clone();
        // Names are texts from the memory of the process.
        for strand in &mut runtime.strands {
            let name = strand.name.take();
            strand.name = name.and_then(|name| facts.redact.map(|redact| redact(&name)));
            let text = strand.panics_with.take();
            strand.panics_with = text.and_then(|text| facts.redact.map(|redact| redact(&text)));
        }
        let by_id = runtime.strands.iter().enumerate().map(|(index, strand)| (strand.id, index)).collect();
        StrandRuntime { groups: groups(&runtime), cycles: cycles(&runtime), by_id, runtime }
    });
    runtimes.collect()
}

fn groups(runtime: &RuntimeStrands) -> Vec<StrandGroup> {
    let mut groups: Vec<StrandGroup> = Vec::new();
    let mut known: FxHashMap<u64, usize> = FxHashMap::default();
    for (index, strand) in runtime.strands.iter().enumerate() {
        let mut hasher = DefaultHasher::new();
        (strand.kind, strand.state, strand.wait.as_ref().map(|wait| (wait.kind, &wait.reason)))
            .hash(&mut hasher);
        // Who waits for whom is the picture: two that wait for each other are not equal.
        for owner in strand.wait.iter().flat_map(|wait| &wait.owners) {
            owner.holder.hash(&mut hasher);
        }
        for frame in &strand.frames {
            (&frame.function, frame.line).hash(&mut hasher);
        }
        let group = *known.entry(hasher.finish()).or_insert_with(|| {
            groups.push(StrandGroup { members: Vec::new() });
            groups.len() - 1
        });
        if let Some(group) = groups.get_mut(group) {
            group.members.push(index);
        }
    }
    groups.order_by_key(|group| {
        let first = group.members.first().and_then(|index| runtime.strands.get(*index));
        (first.is_some_and(|strand| strand.of_runtime), std::cmp::Reverse(group.members.len()))
    });
    groups
}

/// Whom each strand waits for without an end of its own. Of a lock all who have it have to let go, of a channel one is enough.
fn waiting(runtime: &RuntimeStrands) -> Vec<Waiting<usize>> {
    let by_id: FxHashMap<StrandId, usize> =
        runtime.strands.iter().enumerate().map(|(index, strand)| (strand.id, index)).collect();
    let by_tid: FxHashMap<Tid, usize> =
        runtime.strands.iter().enumerate().filter_map(|(index, strand)| Some((strand.tid?, index))).collect();
    let number = |owner: &&Owner| match owner.holder {
        Holder::Strand(id) => by_id.get(&id).copied(),
        Holder::Thread(tid) => by_tid.get(&tid).copied(),
    };
    let of = |(index, strand): (usize, &Strand)| {
        let wait = strand.wait.as_ref().filter(|wait| !wait.ends_by_itself)?;
        let any = wait.kind.any_is_enough();
        if !any && !wait.kind.is_held() && wait.kind != WaitKind::WaitGroup {
            return None;
        }
        let (sure, maybe): (Vec<&Owner>, Vec<&Owner>) =
            wait.owners.iter().partition(|owner| owner.confidence >= SURE);
        Some(Waiting {
            thread: index,
            for_threads: sure.iter().filter_map(number).collect(),
            perhaps: if any { maybe.iter().filter_map(number).collect() } else { Vec::new() },
            any_is_enough: any,
            timed: false,
            closed: false,
        })
    };
    runtime.strands.iter().enumerate().filter_map(of).collect()
}

/// At least one circle of each knot.
fn cycles(runtime: &RuntimeStrands) -> Vec<StrandCycle> {
    let is_thread =
        |index: &usize| runtime.strands.get(*index).is_some_and(|strand| strand.kind == StrandKind::Thread);
    let circles = blocked::circles(&waiting(runtime)).into_iter();
    let circles = circles.filter(|members| !members.iter().all(is_thread)).take(CYCLES);
    circles.map(|members| StrandCycle { confidence: weakest(runtime, &members), members }).collect()
}

fn weakest(runtime: &RuntimeStrands, members: &[usize]) -> Confidence {
    let next = members.iter().cycle().skip(1);
    let edge = |(at, to): (&usize, &usize)| {
        let (at, to) = (runtime.strands.get(*at)?, runtime.strands.get(*to)?);
        let is_next = |owner: &&Owner| match owner.holder {
            Holder::Strand(id) => id == to.id,
            Holder::Thread(tid) => Some(tid) == to.tid,
        };
        at.wait.as_ref()?.owners.iter().find(is_next).map(|owner| owner.confidence)
    };
    members.iter().zip(next).filter_map(edge).min().unwrap_or(Confidence::Possible)
}

/// What threads of the system wait for that are threads of a language: the same graph holds native locks, and circles go over both.
pub(super) fn waits(facts: &DumpFacts<'_>) -> Vec<(Tid, LockWait)> {
    let mut all = Vec::new();
    for runtime in facts.strands {
        let tids: FxHashMap<StrandId, Option<Tid>> =
            runtime.strands.iter().map(|strand| (strand.id, strand.tid)).collect();
        for strand in runtime.strands.iter().filter(|strand| strand.kind == StrandKind::Thread) {
            let (Some(tid), Some(wait)) = (strand.tid, &strand.wait) else { continue };
            let Some(kind) = lock_kind(wait.kind) else { continue };
            let best = wait.owners.iter().filter(|owner| owner.confidence >= SURE && !wait.ends_by_itself);
            let best = best.max_by_key(|owner| owner.confidence);
            let owner = best.and_then(|owner| match owner.holder {
                Holder::Strand(id) => tids.get(&id).copied().flatten(),
                Holder::Thread(tid) => Some(tid),
            });
            // The end of a thread has no address of its own: 0, as where a native thread is joined.
            let Some(lock) = wait.address.map(|address| address.0).or(owner.map(|_| 0)) else { continue };
            let object = wait.object.clone();
            let proof = best.map_or_else(|| wait.reason.clone(), |owner| owner.proof.clone());
            let holder = owner.zip(best).map(|(thread, best)| locks::Holder {
                thread,
                confidence: best.confidence,
                site: None,
                shared: false,
            });
            let owner = owner.map_or(LockOwner::NotKnown, LockOwner::Thread);
            let holders = Vec::from_iter(holder);
            all.push((
                tid,
                LockWait { futex: lock, lock, kind, owner, object, proof, holders, ..LockWait::default() },
            ));
        }
    }
    all
}

fn lock_kind(kind: WaitKind) -> Option<LockKind> {
    Some(match kind {
        WaitKind::Mutex => LockKind::Mutex,
        WaitKind::ReadLock => LockKind::RwLockRead,
        WaitKind::WriteLock => LockKind::RwLockWrite,
        WaitKind::Monitor => LockKind::Monitor,
        WaitKind::Join => LockKind::Join,
        WaitKind::Condition => LockKind::Condition,
        WaitKind::Semaphore => LockKind::Semaphore,
        // Who waits for the interpreter waits for a moment, unless its holder is stuck: see `add_to`.
        WaitKind::InterpreterLock
        | WaitKind::WaitGroup
        | WaitKind::ChannelSend
        | WaitKind::ChannelReceive
        | WaitKind::Select
        | WaitKind::Timer
        | WaitKind::Io
        | WaitKind::Future
        | WaitKind::Collection
        | WaitKind::Idle
        | WaitKind::Other => return None,
    })
}

/// Gives threads of the system the names that the language has for them, and those who wait for the interpreter's lock an edge to its
/// holder, where that one is stuck at a lock, or in a call of the system: the interpreter gives its lock away before it waits, a library
/// in C that does not, stops all others.
pub(super) fn add_to(threads: &mut [DumpThread], runtimes: &[StrandRuntime]) {
    let waits = |thread: &&DumpThread| thread.lock.is_some() || thread.state.wait().is_some_and(blocks);
    let blocked: FxHashSet<Tid> = threads.iter().filter(waits).map(|thread| thread.tid).collect();
    let by_tid: FxHashMap<Tid, usize> =
        threads.iter().enumerate().map(|(index, thread)| (thread.tid, index)).collect();
    for runtime in runtimes {
        for strand in runtime.runtime.strands.iter().filter(|strand| strand.kind == StrandKind::Thread) {
            let index = strand.tid.and_then(|tid| by_tid.get(&tid));
            let Some(thread) = index.and_then(|index| threads.get_mut(*index)) else { continue };
            if let Some(name) = &strand.name {
                thread.name.clone_from(name);
                thread.named = true;
            }
            let Some(wait) = strand.wait.as_ref().filter(|wait| wait.kind == WaitKind::InterpreterLock)
            else {
                continue;
            };
            let holder = runtime.owners(strand).find_map(|(holder, _)| holder.tid);
            if let (Some(Avma(lock)), Some(holder)) =
                (wait.address, holder.filter(|holder| blocked.contains(holder)))
            {
                thread.lock = Some(LockWait {
                    futex: lock,
                    lock,
                    kind: LockKind::Interpreter,
                    owner: LockOwner::Thread(holder),
                    proof: "the interpreter's lock says who has it".to_owned(),
                    ..LockWait::default()
                });
            }
        }
    }
}

/// Calls that last as long as somebody else wants.
fn blocks(wait: state::WaitKind) -> bool {
    use state::WaitKind as Call;
    matches!(
        wait,
        Call::Events | Call::Input | Call::Connection | Call::Time | Call::Child | Call::KernelObject
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits_for(id: u64, owners: &[(u64, Confidence)]) -> Strand {
        let mut strand = Strand::new(StrandId(id), StrandKind::Goroutine);
        let mut wait = StrandWait::of(WaitKind::Mutex, "sync.Mutex.Lock");
        let owner = |(id, confidence): &(u64, Confidence)| Owner {
            holder: Holder::Strand(StrandId(*id)),
            confidence: *confidence,
            frame: None,
            proof: String::new(),
        };
        wait.owners = owners.iter().map(owner).collect();
        strand.wait = Some(wait);
        strand
    }

    fn runtime(strands: Vec<Strand>) -> RuntimeStrands {
        let mut runtime = RuntimeStrands::new(RuntimeKind::Go, b"/bin/a", 0);
        runtime.strands = strands;
        runtime
    }

    #[test]
    fn a_circle_is_as_sure_as_its_weakest_edge() {
        let (certain, likely) = (Confidence::Certain, Confidence::VeryLikely);
        let found = cycles(&runtime(vec![
            waits_for(1, &[(2, certain)]),
            waits_for(2, &[(3, likely)]),
            waits_for(3, &[(4, certain), (2, certain)]),
            waits_for(4, &[]),
            waits_for(5, &[(5, certain)]),
        ]));
        assert_eq!(
            found,
            [
                StrandCycle { members: vec![1, 2], confidence: likely },
                StrandCycle { members: vec![4], confidence: certain },
            ]
        );
    }

    #[test]
    fn candidates_and_waits_with_an_end_make_no_circle() {
        let mut ends = waits_for(1, &[(2, Confidence::Certain)]);
        ends.wait.as_mut().unwrap().ends_by_itself = true;
        assert!(cycles(&runtime(vec![ends, waits_for(2, &[(1, Confidence::Certain)])])).is_empty());
        let possible = |id, other| waits_for(id, &[(other, Confidence::Possible)]);
        assert!(cycles(&runtime(vec![possible(1, 2), possible(2, 1)])).is_empty());
    }

    #[test]
    fn a_long_chain_is_walked_without_recursion() {
        let count = 50_000u64;
        let chain = (0..count).map(|id| waits_for(id, &[((id + 1) % count, Confidence::Certain)])).collect();
        assert_eq!(cycles(&runtime(chain)).first().map(|cycle| cycle.members.len()), Some(50_000));
    }
}
