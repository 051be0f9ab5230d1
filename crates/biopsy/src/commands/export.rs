//! `biopsy export`: a recording or a heap in the format of another tool.

use std::ffi::OsStr;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use biopsy_analyze::HeapSummary;
use biopsy_capture::place::write_new;
use biopsy_capture::snapshot::{gcdump_options, write_gcdump, write_heapsnapshot};
use biopsy_capture::{Failure, FailureKind};
use biopsy_cli::{ExportArgs, ExportFormat, HeapFormat};
use biopsy_dotnet::{gcdump, heapsnapshot};
use biopsy_foreground::{Code, out};
use biopsy_import::heap::Heap;
use biopsy_report::export::{Format, write, write_heap_as_pprof};

use super::heap::read_heap;
use super::input::{bad_input, look, roots};

/// Runs `biopsy export`.
pub(crate) fn export(args: &ExportArgs) -> Result<Code, Failure> {
    match args.to {
        ExportFormat::Heap(to) => export_heap(args, to),
        ExportFormat::Trace(Format::Pprof) if args.snapshot.is_some() => export_heap(args, HeapFormat::Pprof),
        ExportFormat::Trace(_) if args.snapshot.is_some() => {
            let why = "`--snapshot` chooses a heap: `--to gcdump`, `--to heapsnapshot` or `--to pprof`";
            Err(Failure::new(FailureKind::Usage, why))
        }
        ExportFormat::Trace(to) => export_trace(args, to),
    }
}

fn export_trace(args: &ExportArgs, to: Format) -> Result<Code, Failure> {
    let evidence = look(&args.file, &args.symbols)?;
    let capture = evidence.capture(&roots(&args.symbols)?).map_err(bad_input);
    // Of a heap there is a profile, too.
    if to == Format::Pprof && capture.as_ref().map_or(true, |capture| capture.timeline.is_none()) {
        let has_heap = match &capture {
            Ok(_) => evidence.heaps().unwrap_or_default().into_iter().any(|number| {
                evidence.heap_place(number).objects().is_some()
                    || matches!(evidence.heap(number), Ok(Some(_)))
            }),
            Err(_) => evidence.any_heap(&roots(&args.symbols)?).is_ok(),
        };
        if has_heap {
            return export_heap(args, HeapFormat::Pprof);
        }
    }
    let capture = capture?;
    let mut bytes = Vec::new();
    write(to, &capture, BufWriter::new(&mut bytes))
        .map_err(|error| Failure::from_error(FailureKind::BadInput, &error))?;
    if args.output.as_ref().is_some_and(|path| path.as_os_str() == "-") {
        return out::file(&bytes);
    }
    let path = output(args, &[".age", ".zip", ".biopsy"], to.extension());
    write_new(&path, &bytes)?;
    say(&path, to.opens_with());
    Ok(Code::Ok)
}

/// A snapshot of a recording (the last, if no number is given), or that of a core.
fn export_heap(args: &ExportArgs, to: HeapFormat) -> Result<Code, Failure> {
    let Heap { name, graph, facts } = read_heap(&args.file, args.snapshot, &args.symbols)?;
    let path =
        output(args, &[".age", ".zst", ".gz", ".core", ".zip", ".biopsy"], &format!(".{}", to.ending()));
    let is_output = path.as_os_str() == "-";
    let profile = || {
        let mut bytes = Vec::new();
        let written = write_heap_as_pprof(&HeapSummary::new(&name, &graph, &facts), &mut bytes);
        written.map(|()| bytes).map_err(|error| Failure::from_error(FailureKind::Output, &error))
    };
    if is_output {
        let mut out = BufWriter::new(out::stdout());
        let failed = |error: &dyn std::error::Error| Failure::from_error(FailureKind::Output, error);
        match to {
            HeapFormat::GcDump => gcdump::write(&graph, &gcdump_options(&facts, &name), &mut out)
                .map(drop)
                .map_err(|error| failed(&error))?,
            HeapFormat::HeapSnapshot => {
                heapsnapshot::write(&graph, &mut out).map(drop).map_err(|error| failed(&error))?;
            }
            HeapFormat::Pprof => return out::file(&profile()?),
        }
        out::written(out.flush())?;
    } else {
        match to {
            HeapFormat::GcDump => write_gcdump(&graph, &facts, &name, &path).map(drop)?,
            HeapFormat::HeapSnapshot => write_heapsnapshot(&graph, &path).map(drop)?,
            HeapFormat::Pprof => write_new(&path, &profile()?)?,
        }
    }
    for note in &facts.warnings {
        out::say(format_args!("note: {note}"));
    }
    if !facts.whole {
        out::say(format_args!("note: not whole: {} places could not be read", facts.problems));
    }
    if !is_output {
        say(&path, to.opens_with());
    }
    Ok(if facts.whole { Code::Ok } else { Code::Partial })
}

fn say(path: &Path, opens_with: &str) {
    out::say(format_args!("wrote {}; {opens_with}", path.display()));
}

/// Where it goes: beside the file if nothing was said, where `name.biopsy.zip` becomes `name` with the format's ending.
fn output(args: &ExportArgs, endings: &[&str], ending: &str) -> PathBuf {
    let beside = || {
        let name = args.file.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
        let stem = endings.iter().fold(&*name, |stem, ending| stem.strip_suffix(ending).unwrap_or(stem));
        args.file.with_file_name(format!("{stem}{ending}"))
    };
    args.output.clone().unwrap_or_else(beside)
}
