//! `biopsy export`: a recording or a heap in the format of another tool.

use std::ffi::OsStr;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use biopsy_capture::place::write_new;
use biopsy_capture::snapshot::{HeapFormat, write_heap, write_heap_file};
use biopsy_capture::{Failure, FailureKind};
use biopsy_cli::{ExportArgs, ExportFormat};
use biopsy_foreground::{Code, out};
use biopsy_import::heap::Heap;
use biopsy_report::export::{Format, write};

use super::heap::read_heap;
use super::input::{bad_input, look};
use super::sources::sources;

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
    let sources = sources(&args.symbols)?;
    let capture = evidence.capture(&sources.files).map_err(bad_input);
    // Of a heap there is a profile, too.
    if to == Format::Pprof
        && capture.as_ref().map_or(true, |capture| capture.timeline.is_none())
        && evidence.has_heap(capture.is_ok(), &sources.files)
    {
        return export_heap(args, HeapFormat::Pprof);
    }
    let capture = capture?;
    super::sources::say(&sources);
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
    if is_output {
        let mut out = BufWriter::new(out::Shown);
        write_heap(to, &name, &graph, &facts, &mut out)?;
        out::written(out.flush())?;
    } else {
        write_heap_file(to, &name, &graph, &facts, &path)?;
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
