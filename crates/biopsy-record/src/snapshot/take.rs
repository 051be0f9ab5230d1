//! Taking a snapshot of a living process.

use std::fs::File;
use std::time::{Duration, Instant, SystemTime};

use biopsy_dotnet::graph::{Graph, Spill};
use biopsy_dotnet::heap::{self, HeapError, HeapOptions, Refused};
use biopsy_dotnet::runtime::{self, find_runtimes};
use biopsy_model::ProcessKey;
use biopsy_model::footprint::Footprint;
use biopsy_model::heap::HeapFacts;
use biopsy_target::freeze::{self, FreezeError, FreezeOptions, FrozenProcess};

use super::retries::{Attempts, Next, Rest, Seen};
use super::{SnapshotError, footprint};

/// How a snapshot is taken.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the process is frozen.
    pub freeze: FreezeOptions,
    /// How often it is frozen at most: again when a garbage collection is under way, or a thread is being made or ended.
    pub attempts: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { freeze: FreezeOptions::default(), attempts: 40 }
    }
}

/// Bytes of references that are kept in memory; more go to a file without a name in the folder of the system.
const MOST_BYTES_IN_MEMORY: u64 = 2 << 30;

/// Waits between two attempts: collections take milliseconds, seldom more.
const FIRST_REST: Duration = Duration::from_millis(5);
const LONGEST_REST: Duration = Duration::from_millis(250);

/// A heap of one moment.
#[derive(Debug)]
pub struct Taken {
    /// The heap, with roots and what is live.
    pub graph: Graph,
    /// What it is, and how it was got.
    pub facts: HeapFacts,
    /// Where all memory went.
    pub footprint: Footprint,
}

/// Freezes the process, walks its heap, lets it go. In the middle of a collection, or of a change to the list of threads: again,
/// a bounded number of times.
///
/// # Errors
/// [`SnapshotError`].
pub fn take(key: &ProcessKey, options: &Options) -> Result<Taken, SnapshotError> {
    let pid = key.pid;
    let (mut all_pauses, mut rest, mut attempts) = (Duration::ZERO, FIRST_REST, Attempts::default());
    for attempt in 1..=options.attempts.max(1) {
        let plan = freeze::plan(std::slice::from_ref(key), &options.freeze)?;
        let when = SystemTime::now();
        let started = Instant::now();
        let mut frozen = freeze::freeze(plan, &options.freeze)?;
        let Some(process) = frozen.pop() else { return Err(SnapshotError::NoRuntime { pid }) };
        let pause = process.pause();
        all_pauses += pause.stopped;
        let walked = walk(&process);
        if process.ended_with_process() {
            return Err(FreezeError::Ended { pid }.into());
        }
        let ended_early = process.ended_early().is_some();
        match attempts.after(seen(&walked), ended_early, attempt < options.attempts) {
            Next::MemoryShort => return Err(SnapshotError::MemoryShort { pid }),
            Next::Again(Rest::Short) => {
                drop(process);
                std::thread::sleep(FIRST_REST);
            }
            Next::Again(Rest::Longer) => {
                drop(process);
                std::thread::sleep(rest);
                rest = (rest * 2).min(LONGEST_REST);
            }
            Next::AlwaysCollecting => break,
            Next::Done => {
                let mut taken = walked?;
                let frozen_for = started.elapsed();
                let mut warnings = std::mem::take(&mut taken.facts.warnings);
                warnings.extend(process.warnings().iter().map(ToString::to_string));
                let released = process.release();
                warnings.extend(released.warnings.iter().map(ToString::to_string));
                let when = when.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                let facts = HeapFacts {
                    pid,
                    taken_at_unix_seconds: when.as_secs_f64(),
                    pause_ms: pause.stopped.as_secs_f64() * 1e3,
                    all_pauses_ms: all_pauses.as_secs_f64() * 1e3,
                    attempts: attempt,
                    retries: attempts.retries,
                    frozen_ms: frozen_for.as_secs_f64() * 1e3,
                    warnings,
                    ..taken.facts
                };
                let footprint = Footprint {
                    taken_at_unix_seconds: facts.taken_at_unix_seconds,
                    pause_ms: facts.pause_ms,
                    ..taken.footprint
                };
                return Ok(Taken { facts, footprint, ..taken });
            }
        }
    }
    Err(SnapshotError::AlwaysCollecting { pid, attempts: options.attempts })
}

/// What a walk shows of the moment.
fn seen(walked: &Result<Taken, SnapshotError>) -> Seen {
    match walked {
        Ok(taken) if taken.facts.whole => Seen::Whole,
        Ok(_) => Seen::Torn,
        Err(SnapshotError::Heap { source: HeapError::Collecting, .. }) => Seen::Collecting,
        Err(SnapshotError::Runtime { source, .. }) if source.is_of_the_moment() => Seen::Moving,
        Err(_) => Seen::Failed,
    }
}

fn walk(process: &FrozenProcess) -> Result<Taken, SnapshotError> {
    let pid = process.key().pid;
    let failed = |refused: Refused<'_>| match refused {
        Refused::Runtime { source, .. } => SnapshotError::Runtime { pid, source },
        Refused::Heap(source) => SnapshotError::Heap { pid, source },
    };
    let found = find_runtimes(process);
    let options = HeapOptions { threads: 0, spill: spill() };
    let heap = heap::read_largest(process, &found, &runtime::Options::default(), &options, true)
        .map_err(|why| why.map_or(SnapshotError::NoRuntime { pid }, failed))?;
    let mut warnings = Vec::from_iter(heap.others);
    warnings.extend(heap.refused.into_iter().map(|refused| failed(refused).to_string()));
    warnings.extend(heap.missing);
    warnings.extend(heap.nameless.map(|nameless| {
        format!("{nameless}: they came with an edit of the running program, or were unloaded since")
    }));
    let footprint = footprint::of(process, &heap.memory);
    Ok(Taken { graph: heap.graph, facts: HeapFacts { warnings, ..heap.facts }, footprint })
}

/// Where references go that are too many for memory. Without such a file all stay in memory.
fn spill() -> Option<Spill> {
    unnamed(&std::env::temp_dir()).map(|file| Spill::beyond(MOST_BYTES_IN_MEMORY, file)).ok()
}

/// A file that nobody else can open and that is gone with its last handle.
fn unnamed(folder: &std::path::Path) -> std::io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR)?))
}
