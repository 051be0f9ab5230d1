//! Reading a dump: what a core or minidump tells.

use std::io::Write;
use std::path::{Path, PathBuf};

use biopsy_analyze::dump::{DumpAnalysis, DumpFacts, analyze_dump};
use biopsy_image::Limits;
use biopsy_redact::Redactor;
use biopsy_stacks::image::{Options, walk};

use crate::cli::AnalyzeArgs;
use crate::exit_codes::Code;
use crate::failure::Failure;
use crate::render::terminal::Terminal;

/// Opens and analyses a dump. `roots`: folders below which the files of the process are looked for first. Without a
/// redactor, texts from the memory of the process are not shown.
pub(crate) fn read(
    path: &Path,
    roots: Vec<PathBuf>,
    redactor: Option<&Redactor>,
) -> Result<DumpAnalysis, Failure> {
    let opened = biopsy_image::open(path, &Limits::default())
        .map_err(|error| Failure::from_error(Code::BadInput, &error).with_hint(error.hint()))?;
    let stacks = walk(&*opened.image, &Options { roots, ..Options::default() });
    let redact =
        |text: &str| redactor.map_or_else(String::new, |redactor| redactor.text(text).text.into_owned());
    let command_line = redactor.and_then(|redactor| {
        let arguments = &opened.image.process().command_line;
        let words: Vec<String> =
            arguments.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        (!words.is_empty()).then(|| redactor.command_line(&words).args.join(" "))
    });
    let facts = DumpFacts {
        file_bytes: std::fs::metadata(path).ok().map(|meta| meta.len()),
        command_line,
        redact: redactor.is_some().then_some(&redact),
        ..DumpFacts::of(&opened)
    };
    Ok(analyze_dump(&*opened.image, &stacks, &facts))
}

/// The report as text for a terminal.
pub(crate) fn text(analysis: &DumpAnalysis, terminal: Terminal) -> String {
    let options =
        biopsy_report::TextOptions { width: terminal.width.unwrap_or(100).min(120), color: terminal.colour };
    biopsy_report::dump::render_dump_text(analysis, options)
}

/// `biopsy analyze` of dumps: one, or those of a recording.
pub(crate) fn analyze(files: &[PathBuf], args: &AnalyzeArgs, terminal: Terminal) -> Result<Code, Failure> {
    let redactor = Redactor::new(biopsy_redact::Options::default())
        .map_err(|error| Failure::from_error(Code::Bug, &error))?;
    for (at, file) in files.iter().enumerate() {
        let analysis = read(file, Vec::new(), Some(&redactor))?;
        // One page holds one dump; the others of a recording have theirs beside them.
        if let Some(path) = args.html.as_ref().filter(|_| at == 0) {
            let page = biopsy_report::dump::render_dump_html(&analysis);
            crate::session::output::write_new(path, page.as_bytes())?;
        }
        let text = if args.json {
            biopsy_report::dump::render_dump_json(&analysis)
        } else if args.markdown {
            biopsy_report::dump::render_dump_markdown(&analysis)
        } else {
            text(&analysis, terminal)
        };
        super::written(std::io::stdout().lock().write_all(text.as_bytes()))?;
    }
    Ok(Code::Ok)
}

/// First bytes of the formats that dumps have, packed ones included.
const MAGICS: &[&[u8]] =
    &[b"\x7fELF", b"\x28\xb5\x2f\xfd", b"\x1f\x8b", b"MDMP", b"\xfd7zXZ\0", b"\x04\x22\x4d\x18"];

/// The dumps that a path leads to: the file itself, or those in a recording's folder. Empty: it is something else.
pub(crate) fn dumps_at(path: &Path) -> Vec<PathBuf> {
    if path.is_dir() {
        let mut found: Vec<PathBuf> = crate::session::verify::members(path)
            .into_iter()
            .filter(|name| biopsy_recording::layout::is_memory(name))
            .map(|name| path.join(name))
            .collect();
        // The target was written first, and its children after it.
        found.sort_by_key(|path| path.metadata().and_then(|meta| meta.created()).ok());
        return found;
    }
    let mut head = [0; 8];
    let read =
        std::fs::File::open(path)
            .and_then(|mut file| {
                if file.metadata()?.is_file() { std::io::Read::read(&mut file, &mut head) } else { Ok(0) }
            })
            .unwrap_or(0);
    let head = head.get(..read).unwrap_or_default();
    if MAGICS.iter().any(|magic| head.starts_with(magic)) { vec![path.to_owned()] } else { Vec::new() }
}
