//! Taking a snapshot of a living process.

use std::fs::File;
use std::time::{Duration, Instant, SystemTime};

use biopsy_dotnet::graph::{Graph, Spill};
use biopsy_dotnet::heap::{self, HeapError, HeapOptions, Problems};
use biopsy_dotnet::runtime::{self, Runtime, find_runtimes};
use biopsy_image::Image;
use biopsy_model::ProcessKey;
use biopsy_target::freeze::{self, FreezeError, FreezeOptions, FrozenProcess, Pause};

use super::SnapshotError;
use super::retries::{Next, Rest, Retries, Seen};

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

/// A heap of one moment, and how it was got.
#[derive(Debug)]
pub struct Taken {
    /// The heap, with roots and what is live.
    pub graph: Graph,
    /// Version of the runtime, if it says so.
    pub runtime: String,
    /// Whether it is the server collector's heap.
    pub is_server: bool,
    /// Bytes of all segments.
    pub segment_bytes: u64,
    /// When.
    pub when: SystemTime,
    /// How long the process stood still for the attempt that succeeded.
    pub pause: Pause,
    /// How long it stood still for all attempts together.
    pub all_pauses: Duration,
    /// How often it was frozen.
    pub attempts: u32,
    /// Why it was frozen more than once.
    pub retries: Retries,
    /// From the freeze to the end of the walk: so long the copy was needed.
    pub frozen_for: Duration,
    /// What went wrong on the walk.
    pub problems: Problems,
    /// What is worth knowing.
    pub warnings: Vec<String>,
}

/// Freezes the process, walks its heap, lets it go. In the middle of a collection, or of a change to the list of threads: again,
/// a bounded number of times.
///
/// # Errors
/// [`SnapshotError`].
pub fn take(key: &ProcessKey, options: &Options) -> Result<Taken, SnapshotError> {
    let pid = key.pid;
    let (mut all_pauses, mut rest, mut retries) = (Duration::ZERO, FIRST_REST, Retries::default());
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
        match retries.after(Seen::of(&walked), ended_early, attempt < options.attempts) {
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
                taken.frozen_for = started.elapsed();
                taken.warnings.extend(process.warnings().iter().map(ToString::to_string));
                let released = process.release();
                taken.warnings.extend(released.warnings.iter().map(ToString::to_string));
                return Ok(Taken { when, pause, all_pauses, attempts: attempt, retries, ..taken });
            }
        }
    }
    Err(SnapshotError::AlwaysCollecting { pid, attempts: options.attempts })
}

fn walk(process: &FrozenProcess) -> Result<Taken, SnapshotError> {
    let pid = process.key().pid;
    let heap_failed = |source| SnapshotError::Heap { pid, source };
    let found = find_runtimes(process);
    let mut refused = Vec::new();
    let (mut opened, mut versions) = (Vec::new(), Vec::new());
    for one in &found {
        match Runtime::open(Box::new(process as &dyn Image), one, &runtime::Options::default()) {
            Ok(runtime) => {
                opened.push(runtime);
                versions.push(one);
            }
            // Another moment may do for all of them.
            Err(source) if source.is_of_the_moment() => return Err(SnapshotError::Runtime { pid, source }),
            Err(source) => refused.push(SnapshotError::Runtime { pid, source }),
        }
    }
    let (largest, without_heap) = heap::largest(&opened);
    for source in without_heap {
        if matches!(source, HeapError::Collecting) {
            return Err(heap_failed(source));
        }
        refused.push(heap_failed(source));
    }
    let largest = largest.and_then(|(number, heap)| Some((*versions.get(number)?, heap)));
    let Some((of, heap)) = largest else {
        let none = SnapshotError::NoRuntime { pid };
        return Err(refused.into_iter().next().unwrap_or(none));
    };
    let mut warnings = Vec::from_iter(heap::note_of_others(&found, of));
    warnings.extend(refused.iter().map(ToString::to_string));
    let options = HeapOptions { threads: 0, spill: spill() };
    let (mut graph, mut problems) = heap.walk(&options).map_err(heap_failed)?;
    let roots = heap.find_live(&mut graph, &mut problems).map_err(heap_failed)?;
    // What a background collection makes free space of is between two forms for an instant.
    if heap.is_being_swept() && !problems.is_none() {
        return Err(heap_failed(HeapError::Collecting));
    }
    warnings.extend(roots.missing);
    let nameless = graph.types().iter().filter(|one| one.is_nameless()).count();
    if nameless > 0 {
        warnings.push(format!(
            "{nameless} of {} types have no name: they came with an edit of the running program, or were unloaded since",
            graph.types().len()
        ));
    }
    Ok(Taken {
        graph,
        runtime: of.version.as_ref().map(ToString::to_string).unwrap_or_default(),
        is_server: heap.is_server(),
        segment_bytes: heap.bytes(),
        when: SystemTime::UNIX_EPOCH,
        pause: Pause::default(),
        all_pauses: Duration::ZERO,
        attempts: 0,
        retries: Retries::default(),
        frozen_for: Duration::ZERO,
        problems,
        warnings,
    })
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
