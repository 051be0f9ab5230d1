//! Reading a dump: what a core or minidump tells.

use std::path::{Path, PathBuf};

use biopsy_analyze::analyze_dump;
use biopsy_analyze::dump::{DumpAnalysis, DumpFacts, Runtimes};
use biopsy_image::{Limits, Opened};
use biopsy_model::loss::Warning;
use biopsy_recording::BundledMemory;
use biopsy_redact::Redactor;
use biopsy_stacks::image::{Options, walk};

use crate::cli::AnalyzeArgs;
use crate::exit_codes::Code;
use crate::failure::Failure;
use crate::render::out;
use crate::render::terminal::Terminal;

/// Opens and analyses a dump. `roots`: folders below which the files of the process are looked for. Without a
/// redactor, texts from the memory of the process are not shown.
pub(crate) fn read(
    path: &Path,
    roots: Vec<PathBuf>,
    redactor: Option<&Redactor>,
) -> Result<DumpAnalysis, Failure> {
    let opened = biopsy_image::open(path, &Limits::default()).map_err(bad_input)?;
    Ok(of_opened(&opened, std::fs::metadata(path).ok().map(|meta| meta.len()), roots, redactor))
}

fn bad_input(error: biopsy_image::OpenError) -> Failure {
    Failure::from_error(Code::BadInput, &error).with_hint(error.hint())
}

fn of_opened(
    opened: &Opened,
    file_bytes: Option<u64>,
    roots: Vec<PathBuf>,
    redactor: Option<&Redactor>,
) -> DumpAnalysis {
    let managed = Runtimes::open(&*opened.image, &roots);
    let code = managed.code();
    let explicit = managed.explicit_frames();
    let options = Options {
        roots,
        compiled: Some(&code),
        frames_of_compiled: Some(&code),
        resumes: Some(&explicit),
        ..Options::default()
    };
    let mut stacks = walk(&*opened.image, &options);
    explicit.add_to(&mut stacks);
    let redact =
        |text: &str| redactor.map_or_else(String::new, |redactor| redactor.text(text).text.into_owned());
    let command_line = redactor.and_then(|redactor| {
        let arguments = &opened.image.process().command_line;
        let words: Vec<String> =
            arguments.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        (!words.is_empty()).then(|| redactor.command_line(&words).args.join(" "))
    });
    let facts = DumpFacts {
        file_bytes,
        command_line,
        redact: redactor.is_some().then_some(&redact),
        managed: Some(&managed),
        heap: true,
        ..DumpFacts::of(opened)
    };
    analyze_dump(&*opened.image, &stacks, &facts)
}

/// Puts what the recording around dumps says into the report on one of them: a text of the context that is missing, a child that
/// ended before it could be dumped.
pub(crate) fn add_warnings(analysis: &mut DumpAnalysis, warnings: &[String]) {
    for warning in warnings {
        if !analysis.undetermined.contains(warning) {
            analysis.undetermined.push(warning.clone());
        }
    }
}

/// What the recording at this path, a folder or a bundle, says of itself, in words.
pub(crate) fn warnings_at(path: &Path) -> Vec<String> {
    match biopsy_recording::read_warnings(path, &biopsy_recording::Limits::default()) {
        Ok(warnings) => warnings.iter().map(in_words).collect(),
        Err(error) => vec![format!("what the recording says of itself: {error}")],
    }
}

fn in_words(warning: &Warning) -> String {
    let message = biopsy_target::printable(&warning.message);
    match &warning.hint {
        Some(hint) => format!("{message} ({})", biopsy_target::printable(hint)),
        None => message,
    }
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
        .map_err(|error| Failure::from_error(Code::Bug, &error))?;
    let mut damaged = false;
    // A dump alone has no recording around it.
    let is_recording = args.file.is_dir() || matches!(dumps, Dumps::Bundled(_));
    let warnings = if is_recording { warnings_at(&args.file) } else { Vec::new() };
    match dumps {
        Dumps::Files(files) => {
            for (at, file) in files.iter().enumerate() {
                let mut analysis = read(file, args.symbols.roots()?, Some(&redactor))?;
                add_warnings(&mut analysis, &warnings);
                tell(&analysis, at, args, terminal)?;
                damaged |= analysis.damaged;
            }
        }
        Dumps::Bundled(mut memory) => {
            for (at, name) in memory.names().to_vec().iter().enumerate() {
                let mut analysis = read_bundled(&mut memory, name, args, &redactor)?;
                add_warnings(&mut analysis, &warnings);
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
        Failure::new(Code::BadInput, format!("cannot read `{}`: {error}", shown.display()))
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
    Ok(of_opened(&opened, Some(bytes), args.symbols.roots()?, Some(redactor)))
}

/// Shows the report of the dump that is `at` that place among all.
fn tell(analysis: &DumpAnalysis, at: usize, args: &AnalyzeArgs, terminal: Terminal) -> Result<(), Failure> {
    // One page holds one dump; the others of a recording have theirs beside them.
    if let Some(path) = args.html.as_ref().filter(|_| at == 0) {
        let page = biopsy_report::dump::render_dump_html(analysis);
        crate::session::output::write_new(path, page.as_bytes())?;
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
        let members = crate::session::verify::members(path).map_err(|error| {
            Failure::new(Code::BadInput, format!("cannot read `{}`: {error}", path.display()))
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
            .map_err(|error| Failure::from_error(Code::BadInput, &error).with_hint(error.hint()))?;
        return Ok(memory.map(|memory| Dumps::Bundled(Box::new(memory))));
    }
    let is_dump = MAGICS.iter().any(|magic| head.starts_with(magic));
    Ok(is_dump.then(|| Dumps::Files(vec![path.to_owned()])))
}
