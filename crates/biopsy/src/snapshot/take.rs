//! Taking a snapshot and writing it down.

use std::io::BufWriter;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use biopsy_dotnet::gcdump::{self, WriteOptions};
use biopsy_dotnet::graph::Graph;
use biopsy_model::process::ProcessInfo;
use biopsy_record::context::{self, Moment, clock_pair};
use biopsy_record::snapshot::{self, AskError, AskOptions, Options, SnapshotError, SnapshotFacts};
use biopsy_recording::{Limits, RecordingFolder};
use biopsy_target::Selector;
use biopsy_target::freeze::{FreezeError, FreezeOptions};

use crate::exit_codes::Code;
use crate::failure::Failure;
use crate::interrupt;
use crate::session::again;
use crate::session::output::{Place, default_stem};
use crate::session::record::{header, new_masking, output_failure, warn_all, warning, write_processes};
use crate::session::seal::{KEPT, not_opened_again};
use crate::session::verify::{self, HandedOver};

use super::args::{From, SnapshotArgs};

/// What was made.
pub(crate) struct Made {
    pub(crate) name: String,
    pub(crate) graph: Graph,
    pub(crate) facts: SnapshotFacts,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

/// Where it goes.
enum Destination {
    Recording(Place),
    GcDump(PathBuf),
}

pub(super) fn run(args: &SnapshotArgs) -> Result<Made, Failure> {
    let (info, name) = find(&args.target)?;
    let destination = choose(args, &name)?;
    match destination {
        Destination::GcDump(path) => {
            let (graph, facts) = take(args, &info)?;
            let leaving = interrupt::removing(&path);
            let bytes = write_gcdump(&graph, &facts, &name, &path)?;
            leaving.made();
            Ok(Made { name, graph, facts, path, bytes })
        }
        Destination::Recording(place) => {
            record(args, &info, name, &place).map_err(|failure| failure.naming(KEPT, &place.folder))
        }
    }
}

fn find(text: &str) -> Result<(ProcessInfo, String), Failure> {
    let selector = Selector::parse(text)
        .map_err(|error| Failure::from_error(Code::Usage, &error).with_hint(error.hint()))?;
    let target = biopsy_target::find(&selector)
        .map_err(|error| Failure::from_error(Code::Target, &error).with_hint(error.hint()))?;
    let name = crate::session::subject::display_name(&selector, &target.info);
    Ok((target.info, name))
}

fn choose(args: &SnapshotArgs, name: &str) -> Result<Destination, Failure> {
    let ends_with = |path: &Path, ending: &str| {
        path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(ending))
    };
    match &args.output {
        Some(path) if ends_with(path, ".gcdump") => {
            Place { folder: path.clone(), bundle: None }.check()?;
            Ok(Destination::GcDump(path.clone()))
        }
        output => {
            let place = match output {
                None => Place { folder: default_stem(name).into(), bundle: None },
                Some(path) if ends_with(path, ".zip") => Place::bundle(path),
                Some(path) => Place { folder: path.clone(), bundle: None },
            };
            place.check()?;
            Ok(Destination::Recording(place))
        }
    }
}

/// Takes the snapshot by the way that was asked for.
fn take(args: &SnapshotArgs, info: &ProcessInfo) -> Result<(Graph, SnapshotFacts), Failure> {
    if args.from == From::Runtime {
        return ask(args, info).map_err(|error| ask_failure(&error, args));
    }
    match from_memory(args, info) {
        Ok(taken) => Ok(taken),
        Err(error) if args.from == From::Auto && error.may_ask_the_runtime() => {
            let (graph, mut facts) = ask(args, info).map_err(|second| {
                let asked = ask_failure(&second, args);
                Failure::new(asked.code, format!("{}; and: {asked}", failure(&error)))
            })?;
            facts.warnings.insert(0, format!("not from memory: {}", failure(&error)));
            Ok((graph, facts))
        }
        Err(error) => Err(failure(&error)),
    }
}

fn from_memory(args: &SnapshotArgs, info: &ProcessInfo) -> Result<(Graph, SnapshotFacts), SnapshotError> {
    let options = Options {
        freeze: FreezeOptions { max_pause: args.max_pause, ..FreezeOptions::default() },
        ..Options::default()
    };
    let taken = snapshot::take(&info.key, &options)?;
    let facts = SnapshotFacts::of(&taken, info.key.pid);
    Ok((taken.graph, facts))
}

/// Asks the runtime.
fn ask(args: &SnapshotArgs, info: &ProcessInfo) -> Result<(Graph, SnapshotFacts), AskError> {
    /// Longest time for the whole answer.
    const LONGEST: Duration = Duration::from_secs(300);
    let options = AskOptions { max_pause: args.max_pause, longest: LONGEST };
    snapshot::ask(info.key.pid, snapshot::own_bytes(info.key.pid), &options)
}

fn ask_failure(error: &AskError, args: &SnapshotArgs) -> Failure {
    let hint = match error {
        AskError::TooLong { predicted, .. } => {
            let seconds = predicted.as_secs_f64().mul_add(1.2, 0.1).ceil();
            Some(format!("`--max-pause {seconds}s` allows it; now it is {:?}", args.max_pause))
        }
        AskError::Ipc(error) => error.hint(),
        _ => None,
    };
    Failure::from_error(Code::Target, error).with_hint(hint)
}

fn failure(error: &SnapshotError) -> Failure {
    let (code, hint) = match error {
        SnapshotError::Freeze(FreezeError::NotPermitted { .. }) => (
            Code::Permission,
            Some("`biopsy doctor` says what this account may do, and the command that would allow more"),
        ),
        SnapshotError::AlwaysCollecting { .. } => {
            (Code::Target, Some("try again: between two collections a moment is enough"))
        }
        _ => (Code::Target, None),
    };
    Failure::from_error(code, error).with_hint(hint)
}

fn record(args: &SnapshotArgs, info: &ProcessInfo, name: String, place: &Place) -> Result<Made, Failure> {
    let masking = new_masking()?;
    // Before anything is written: a target that cannot be read leaves no folder behind.
    let (graph, facts) = take(args, info)?;
    let folder = Arc::new(RecordingFolder::create(&place.folder).map_err(output_failure)?);
    let leaving = interrupt::removing(&place.folder);
    let mut header = header(&info.key, &name, &masking);
    folder.header(&header).map_err(output_failure)?;
    let summary =
        context::collect(&context::Config::default(), Moment::Start, &[info.key.pid], &folder, &masking)
            .map_err(output_failure)?;
    warn_all(&folder, &summary.warnings);
    write_processes(&folder, &masking, std::slice::from_ref(info))?;
    let warnings: Vec<_> =
        facts.warnings.iter().map(|message| warning("snapshot.note", message.clone())).collect();
    warn_all(&folder, &warnings);
    snapshot::write(&graph, &facts, 1, &folder).map_err(output_failure)?;
    header.end = Some(clock_pair());
    "snapshot".clone_into(&mut header.ended_by);
    folder.header(&header).map_err(output_failure)?;
    again::mask_again(&folder, &masking)?;
    // What cannot be opened again helps nobody.
    biopsy_recording::open(folder.reach(), &Limits::default()).map_err(|error| not_opened_again(&error))?;
    let HandedOver { path, bytes, .. } =
        verify::hand_over(&folder, place.bundle.as_deref(), masking.redactor())?;
    if place.bundle.is_none() {
        leaving.made();
    }
    Ok(Made { name, graph, facts, path, bytes })
}

/// Writes a `.gcdump`; a file that could not be finished is removed.
pub(super) fn write_gcdump(
    graph: &Graph,
    facts: &SnapshotFacts,
    name: &str,
    path: &Path,
) -> Result<u64, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(Code::Output, format!("cannot write `{}`: {error}", path.display()))
    };
    let file =
        std::fs::File::options().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    let written =
        gcdump::write(graph, &gcdump_options(facts, name), BufWriter::with_capacity(1 << 20, &file));
    match written {
        Ok(_) => Ok(file.metadata().map_err(failed)?.len()),
        Err(error) => {
            let _ = std::fs::remove_file(path);
            Err(Failure::from_error(Code::Output, &error))
        }
    }
}

pub(super) fn gcdump_options(facts: &SnapshotFacts, name: &str) -> WriteOptions {
    #[expect(clippy::cast_possible_truncation, reason = "whole seconds are enough")]
    let unix_seconds = (facts.taken_at_unix_seconds > 0.0).then_some(facts.taken_at_unix_seconds as i64);
    WriteOptions {
        garbage: false,
        process_name: name.to_owned(),
        pid: facts.pid,
        unix_seconds,
        tool: format!("biopsy {}", env!("CARGO_PKG_VERSION")),
    }
}
