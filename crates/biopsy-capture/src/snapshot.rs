//! Taking a snapshot of the memory of a process, its managed heap if it has one, or several, and writing them down.

mod add;

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use biopsy_analyze::{Diagnosis, FootprintSummary, HeapSummary};
use biopsy_dotnet::gcdump::{self, WriteOptions};
use biopsy_dotnet::graph::Graph;
use biopsy_model::capture::EndedBy;
use biopsy_model::footprint::Footprint;
use biopsy_model::heap::HeapFacts;
use biopsy_model::process::{ProcessInfo, RuntimeKind};
use biopsy_record::context::Moment;
use biopsy_record::snapshot::{self, AskError, AskOptions, Options, SnapshotError};
use biopsy_target::freeze::{FreezeError, FreezeOptions};

use crate::failure::{Failure, FailureKind, KEPT};
use crate::finish::{HandedOver, finish};
use crate::job::{Job, Patience};
use crate::place::{Place, create_new, ends_with};
use crate::recording::{Draft, output_failure, warning};
use crate::target::{self, Target};

/// Where the heap is read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum From {
    /// Memory; the runtime where memory is not understood and the predicted pause is allowed.
    Auto,
    /// A frozen copy of the memory.
    Memory,
    /// The runtime, which collects garbage first.
    Runtime,
}

/// Of which process, how, and where it goes.
#[derive(Clone, Debug)]
pub struct SnapshotPlan {
    /// The process: pid, name, .NET entry assembly, systemd unit or container id.
    pub target: String,
    /// What the user typed, for the header of the recording, which masks it.
    pub command: Vec<String>,
    /// It is refused where the process would stand still longer.
    pub max_pause: Duration,
    /// Where the heap is read from.
    pub from: From,
    /// A folder; a bundle, if it ends in `.zip`; the graph alone, if it ends in `.gcdump`; `None`: a folder named after the target
    /// and the time.
    pub output: Option<PathBuf>,
    /// A recording of the same process that the snapshot is added to; where it does not exist, it is made.
    pub into: Option<PathBuf>,
    /// So many snapshots, at least one.
    pub count: u32,
    /// How long after the beginning of one the next begins.
    pub every: Duration,
}

/// A snapshot that was taken and written.
#[derive(Debug)]
pub struct Snapshot {
    /// What the heap holds.
    pub diagnosis: Diagnosis,
    /// The recording, or the file.
    pub result: HandedOver,
}

/// Takes a snapshot, and writes it as the plan says.
///
/// # Errors
/// It cannot be taken, or not be written; a target that cannot be read leaves no folder behind.
pub fn run(plan: &SnapshotPlan, job: &Job) -> Result<Snapshot, Failure> {
    let target = target::find(&plan.target)?;
    if let Some(into) = plan.into.as_deref().filter(|into| into.symlink_metadata().is_ok()) {
        return add::add(plan, target, into, job);
    }
    if plan.count > 1 {
        // What was taken is kept when somebody does not want to wait for the rest.
        job.be_patient(Patience::Unlimited);
    }
    match plan.output.as_ref().or(plan.into.as_ref()) {
        Some(path) if ends_with(path, ".gcdump") => {
            Place::alone(path.clone()).check()?;
            let (heap, footprint) = take(plan, &target.info)?;
            let Some(heap) = heap else {
                let why = format!("{} has no managed heap, and a `.gcdump` holds nothing else", target.name);
                let hint = Some("without `.gcdump`, the snapshot says where its memory went");
                return Err(Failure::new(FailureKind::Target, why).with_hint(hint));
            };
            let leaving = job.removing(path);
            let bytes = write_gcdump(&heap.0, &heap.1, &target.name, path)?;
            leaving.made();
            let result = HandedOver { path: path.clone(), bytes, is_bundle: false };
            Ok(Snapshot { diagnosis: diagnosis(&target.name, Some(&heap), footprint), result })
        }
        output => {
            let place = Place::folder_or_bundle(output.map(PathBuf::as_path), &target.name);
            place.check()?;
            record(plan, target, &place, job).map_err(|failure| failure.naming(KEPT, &place.folder))
        }
    }
}

/// The heap, where the process has a managed one, and where all its memory went, where that was read.
type Taken = (Option<(Graph, HeapFacts)>, Option<Footprint>);

/// Takes the snapshot by the way that was asked for.
fn take(plan: &SnapshotPlan, info: &ProcessInfo) -> Result<Taken, Failure> {
    if plan.from == From::Runtime {
        let heap = ask(plan, info).map_err(|error| ask_failure(&error, plan))?;
        return Ok((Some(heap), None));
    }
    match from_memory(plan, info) {
        Ok(taken) => Ok((Some((taken.graph, taken.facts)), Some(taken.footprint))),
        // Where its memory went can be told of any process.
        Err(SnapshotError::NoRuntime { .. })
            if plan.from == From::Auto && info.runtime.kind != RuntimeKind::DotNet =>
        {
            let options = FreezeOptions { max_pause: plan.max_pause, ..FreezeOptions::default() };
            let footprint = snapshot::take_footprint(&info.key, &options).map_err(|error| failure(&error))?;
            Ok((None, Some(footprint)))
        }
        Err(error) if plan.from == From::Auto && error.may_ask_the_runtime() => {
            let (graph, mut facts) = ask(plan, info).map_err(|second| {
                let asked = ask_failure(&second, plan);
                Failure::new(asked.kind, format!("{}; and: {asked}", failure(&error)))
            })?;
            facts.warnings.insert(0, format!("not from memory: {}", failure(&error)));
            Ok((Some((graph, facts)), None))
        }
        Err(error) => Err(failure(&error)),
    }
}

fn from_memory(plan: &SnapshotPlan, info: &ProcessInfo) -> Result<snapshot::Taken, SnapshotError> {
    let options = Options {
        freeze: FreezeOptions { max_pause: plan.max_pause, ..FreezeOptions::default() },
        ..Options::default()
    };
    snapshot::take(&info.key, &options)
}

/// Asks the runtime.
fn ask(plan: &SnapshotPlan, info: &ProcessInfo) -> Result<(Graph, HeapFacts), AskError> {
    /// Longest time for the whole answer.
    const LONGEST: Duration = Duration::from_secs(300);
    let options = AskOptions { max_pause: plan.max_pause, longest: LONGEST };
    snapshot::ask(info.key.pid, snapshot::own_bytes(info.key.pid), &options)
}

fn ask_failure(error: &AskError, plan: &SnapshotPlan) -> Failure {
    let hint = match error {
        AskError::TooLong { predicted, .. } => {
            let seconds = predicted.as_secs_f64().mul_add(1.2, 0.1).ceil();
            Some(format!("`--max-pause {seconds}s` allows it; now it is {:?}", plan.max_pause))
        }
        AskError::Ipc(error) => error.hint(),
        _ => None,
    };
    Failure::from_error(FailureKind::Target, error).with_hint(hint)
}

fn failure(error: &SnapshotError) -> Failure {
    let (kind, hint) = match error {
        SnapshotError::Freeze(FreezeError::NotPermitted { .. }) => (
            FailureKind::Permission,
            Some("`biopsy doctor` says what this account may do, and the command that would allow more"),
        ),
        SnapshotError::AlwaysCollecting { .. } => {
            (FailureKind::Target, Some("try again: between two collections a moment is enough"))
        }
        _ => (FailureKind::Target, None),
    };
    Failure::from_error(kind, error).with_hint(hint)
}

fn record(plan: &SnapshotPlan, target: Target, place: &Place, job: &Job) -> Result<Snapshot, Failure> {
    // Before anything is written.
    let (heap, footprint) = take(plan, &target.info)?;
    let mut draft = Draft::begin(job, &place.folder, &target.info.key, &target.name, &plan.command)?;
    let process = std::slice::from_ref(&target.info);
    draft.context(process, Moment::Start).map_err(output_failure)?;
    draft.write_processes(process)?;
    let evidence = take_all(plan, &target, &mut draft, 1, (heap, footprint), job)?;
    draft.end(EndedBy::Snapshot)?;
    let (result, diagnosis) = finish(job, &draft, place, |_| evidence.diagnosis())?;
    Ok(Snapshot { diagnosis, result })
}

/// What snapshots of one process hold.
#[derive(Debug, Default)]
struct Snapshots {
    heaps: Vec<HeapSummary>,
    footprints: Vec<FootprintSummary>,
}

impl Snapshots {
    fn diagnosis(self) -> Diagnosis {
        Diagnosis::new(None, Vec::new(), self.heaps).with_footprints(self.footprints)
    }
}

/// Writes the first snapshot, and takes and writes those that are wanted behind it. Returns what they hold. What cannot be taken is told;
/// those before it stay.
fn take_all(
    plan: &SnapshotPlan,
    target: &Target,
    draft: &mut Draft,
    number: u32,
    first: Taken,
    job: &Job,
) -> Result<Snapshots, Failure> {
    let mut begun = Instant::now();
    let mut all = Snapshots::default();
    let mut next = Some(first);
    for number in number..number.saturating_add(plan.count.max(1)) {
        let (heap, footprint) = match next.take() {
            Some(taken) => taken,
            None => {
                job.step(format!(
                    "snapshot {number} follows {:?} after the one before; Ctrl-C keeps what there is",
                    plan.every
                ));
                begun += plan.every;
                while Instant::now() < begun && !job.is_asked() {
                    std::thread::sleep(LOOK.min(begun.saturating_duration_since(Instant::now())));
                }
                if job.is_asked() {
                    break;
                }
                match target.check_same().and_then(|()| take(plan, &target.info)) {
                    Ok(taken) => taken,
                    Err(failure) => {
                        let message = format!("snapshot {number} could not be taken: {failure}");
                        draft.warn("snapshot.series", message.clone());
                        job.note(message);
                        break;
                    }
                }
            }
        };
        let of_heap = heap.iter().flat_map(|(_, facts)| &facts.warnings);
        let notes = of_heap.chain(footprint.iter().flat_map(|footprint| &footprint.warnings));
        let warnings: Vec<_> = notes.map(|message| warning("snapshot.note", message.clone())).collect();
        draft.warn_all(&warnings);
        if let Some((graph, facts)) = &heap {
            snapshot::write(graph, facts, number, &draft.folder).map_err(output_failure)?;
            all.heaps.push(HeapSummary::new(&target.name, graph, facts));
        }
        if let Some(facts) = footprint {
            draft.folder.footprint(number, &facts).map_err(output_failure)?;
            all.footprints.push(FootprintSummary { name: target.name.clone(), facts });
        }
        draft.keep();
    }
    Ok(all)
}

/// How often it is looked whether somebody wants an end.
const LOOK: Duration = Duration::from_millis(100);

fn diagnosis(name: &str, heap: Option<&(Graph, HeapFacts)>, footprint: Option<Footprint>) -> Diagnosis {
    let heaps = heap.iter().map(|(graph, facts)| HeapSummary::new(name, graph, facts)).collect();
    let footprints = footprint.into_iter().map(|facts| FootprintSummary { name: name.to_owned(), facts });
    Diagnosis::new(None, Vec::new(), heaps).with_footprints(footprints.collect())
}

/// Writes a `.gcdump`; a file that could not be finished is removed. Returns its bytes.
///
/// # Errors
/// [`FailureKind::Output`].
pub fn write_gcdump(graph: &Graph, facts: &HeapFacts, name: &str, path: &Path) -> Result<u64, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(FailureKind::Output, format!("cannot write `{}`: {error}", path.display()))
    };
    let file = create_new(path).map_err(failed)?;
    let written =
        gcdump::write(graph, &gcdump_options(facts, name), BufWriter::with_capacity(1 << 20, &file));
    match written {
        Ok(_) => Ok(file.metadata().map_err(failed)?.len()),
        Err(error) => {
            let _ = std::fs::remove_file(path);
            Err(Failure::from_error(FailureKind::Output, &error))
        }
    }
}

/// What else is in a `.gcdump`.
#[must_use]
pub fn gcdump_options(facts: &HeapFacts, name: &str) -> WriteOptions {
    #[expect(clippy::cast_possible_truncation, reason = "whole seconds are enough")]
    let unix_seconds = (facts.taken_at_unix_seconds > 0.0).then_some(facts.taken_at_unix_seconds as i64);
    WriteOptions {
        garbage: false,
        process_name: name.to_owned(),
        pid: facts.pid.0,
        unix_seconds,
        tool: format!("biopsy {}", env!("CARGO_PKG_VERSION")),
    }
}
