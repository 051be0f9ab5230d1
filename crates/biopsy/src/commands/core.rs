//! Reading a dump: what a core or minidump tells.

use std::path::{Path, PathBuf};

use biopsy_analyze::analyze_opened;
use biopsy_analyze::dump::DumpAnalysis;
use biopsy_image::Limits;
use biopsy_recording::{BundledMemory, warnings_in_words};
use biopsy_redact::Redactor;

use crate::cli::AnalyzeArgs;
use crate::exit_codes::Code;
use crate::render::out;
use crate::render::terminal::Terminal;
use biopsy_capture::{Failure, FailureKind};

/// Opens and analyses a dump.
fn read(path: &Path, roots: Vec<PathBuf>, redactor: &Redactor) -> Result<DumpAnalysis, Failure> {
    let opened = biopsy_image::open(path, &Limits::default()).map_err(bad_input)?;
    let bytes = std::fs::metadata(path).ok().map(|meta| meta.len());
    Ok(analyze_opened(&opened, bytes, roots, Some(redactor)))
}

fn bad_input(error: biopsy_image::OpenError) -> Failure {
    Failure::from_error(FailureKind::BadInput, &error).with_hint(error.hint())
}

/// The report as text for a terminal.
pub(crate) fn text(analysis: &DumpAnalysis, terminal: Terminal) -> String {
    let options =
        biopsy_report::TextOptions { width: terminal.width.unwrap_or(100).min(120), color: terminal.colour };
    biopsy_report::dump::render_dump_text(analysis, options)
}

/// `biopsy analyze` of dumps: one, or those of a recording.
pub(crate) fn analyze(dumps: Dumps, args: &AnalyzeArgs, terminal: Terminal) -> Result<Code, Failure> {
    let redactor = Redactor::new(biopsy_redact::Options::default())
        .map_err(|error| Failure::from_error(FailureKind::Bug, &error))?;
    let mut damaged = false;
    // A dump alone has no recording around it.
    let is_recording = args.file.is_dir() || matches!(dumps, Dumps::Bundled(_));
    let warnings = if is_recording {
        warnings_in_words(&args.file, &biopsy_recording::Limits::default())
    } else {
        Vec::new()
    };
    match dumps {
        Dumps::Files(files) => {
            for (at, file) in files.iter().enumerate() {
                let mut analysis = read(file, args.symbols.roots()?, &redactor)?;
                analysis.add_undetermined(&warnings);
                tell(&analysis, at, args, terminal)?;
                damaged |= analysis.damaged;
            }
        }
        Dumps::Bundled(mut memory) => {
            for (at, name) in memory.names().to_vec().iter().enumerate() {
                let mut analysis = read_bundled(&mut memory, name, args, &redactor)?;
                analysis.add_undetermined(&warnings);
                tell(&analysis, at, args, terminal)?;
                damaged |= analysis.damaged;
            }
        }
    }
    Ok(if damaged { Code::Partial } else { Code::Ok })
}

/// Reads a dump where it is in the bundle. One that is packed there is unpacked to a file without a name first.
fn read_bundled(
    memory: &mut BundledMemory,
    name: &str,
    args: &AnalyzeArgs,
    redactor: &Redactor,
) -> Result<DumpAnalysis, Failure> {
    let shown = args.file.join(name);
    let failed = |error: std::io::Error| {
        Failure::new(FailureKind::BadInput, format!("cannot read `{}`: {error}", shown.display()))
    };
    let (file, range) = match memory.place(name).map_err(failed)? {
        Some(place) => place,
        None => {
            let mut file = tempfile::tempfile().map_err(failed)?;
            let bytes = memory.unpack(name, &mut file).map_err(failed)?;
            (file, 0..bytes)
        }
    };
    let bytes = range.end.saturating_sub(range.start);
    let opened = biopsy_image::open_part(&shown, file, range, &Limits::default()).map_err(bad_input)?;
    Ok(analyze_opened(&opened, Some(bytes), args.symbols.roots()?, Some(redactor)))
}

/// Shows the report of the dump that is `at` that place among all.
fn tell(analysis: &DumpAnalysis, at: usize, args: &AnalyzeArgs, terminal: Terminal) -> Result<(), Failure> {
    // One page holds one dump; the others of a recording have theirs beside them.
    if let Some(path) = args.html.as_ref().filter(|_| at == 0) {
        let page = biopsy_report::dump::render_dump_html(analysis);
        biopsy_capture::place::write_new(path, page.as_bytes())?;
    }
    if args.json {
        return out::json(biopsy_report::dump::render_dump_json(analysis).into_bytes()).map(|_| ());
    }
    let text = if args.markdown {
        biopsy_report::dump::render_dump_markdown(analysis)
    } else {
        text(analysis, terminal)
    };
    out::text(&text, terminal.colour).map(|_| ())
}

/// First bytes of the formats that dumps have, packed ones included.
const MAGICS: &[&[u8]] =
    &[b"\x7fELF", b"\x28\xb5\x2f\xfd", b"\x1f\x8b", b"MDMP", b"\xfd7zXZ\0", b"\x04\x22\x4d\x18"];

/// Dumps that were found.
#[derive(Debug)]
pub(crate) enum Dumps {
    /// Each in a file of its own.
    Files(Vec<PathBuf>),
    /// In a bundle.
    Bundled(Box<BundledMemory>),
}

/// The dumps that a path leads to: the file itself, or those in a recording's folder or bundle. `None`: it is something
/// else.
pub(crate) fn dumps_at(path: &Path) -> Result<Option<Dumps>, Failure> {
    if path.is_dir() {
        let members = members(path).map_err(|error| {
            Failure::new(FailureKind::BadInput, format!("cannot read `{}`: {error}", path.display()))
        })?;
        let mut found: Vec<PathBuf> = members
            .into_iter()
            .filter(|name| biopsy_recording::layout::is_memory(name))
            .map(|name| path.join(name))
            .collect();
        // The target was written first, and its children after it.
        found.sort_by_key(|path| path.metadata().and_then(|meta| meta.created()).ok());
        return Ok((!found.is_empty()).then_some(Dumps::Files(found)));
    }
    let mut head = [0; 8];
    let read =
        std::fs::File::open(path)
            .and_then(|mut file| {
                if file.metadata()?.is_file() { std::io::Read::read(&mut file, &mut head) } else { Ok(0) }
            })
            .unwrap_or(0);
    let head = head.get(..read).unwrap_or_default();
    if head.starts_with(b"PK") {
        let memory = BundledMemory::open(path, &biopsy_recording::Limits::default())
            .map_err(|error| Failure::from_error(FailureKind::BadInput, &error).with_hint(error.hint()))?;
        return Ok(memory.map(|memory| Dumps::Bundled(Box::new(memory))));
    }
    let is_dump = MAGICS.iter().any(|magic| head.starts_with(magic));
    Ok(is_dump.then(|| Dumps::Files(vec![path.to_owned()])))
}

/// Names of all members, folders walked without following links.
fn members(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(relative) = open.pop() {
        for entry in std::fs::read_dir(folder.join(&relative))? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let path = relative.join(entry.file_name());
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file()
                && let Some(name) = path.to_str()
            {
                found.push(name.to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}
