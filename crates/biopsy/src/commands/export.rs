//! `biopsy export`: a recording in the format of another tool.

use std::ffi::OsString;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use biopsy_report::export::Format;

use crate::cli::{ExportArgs, ExportFormat};
use biopsy_foreground::Code;
use biopsy_foreground::out;
use biopsy_capture::{Failure, FailureKind};

use super::input::{bad_input, look};

/// Runs `biopsy export`.
pub(crate) fn export(args: &ExportArgs) -> Result<Code, Failure> {
    let to = match args.to {
        ExportFormat::Trace(to) => to,
        ExportFormat::Heap(to) => {
            let (symbols, output) = (&args.symbols, args.output.as_deref());
            let exported = crate::snapshot::export_heap(&args.file, to, args.snapshot, symbols, output)?;
            exported.notes.iter().for_each(|note| say_note(note));
            if let Some(path) = &exported.path {
                say(path, to.opens_with())?;
            }
            return Ok(if exported.whole { Code::Ok } else { Code::Partial });
        }
    };
    if args.snapshot.is_some() {
        let why = "`--snapshot` chooses a heap: `--to gcdump` or `--to heapsnapshot`";
        return Err(Failure::new(FailureKind::Usage, why.to_owned()));
    }
    let roots = args.symbols.roots()?;
    let capture = look(&args.file, &args.symbols)?.capture(&roots).map_err(bad_input)?;
    let path = match &args.output {
        Some(path) if path.as_os_str() == "-" => {
            let mut bytes = Vec::new();
            write(to, &capture, &mut bytes)?;
            return out::file(&bytes);
        }
        Some(path) => path.clone(),
        None => beside(&args.file, to.extension()),
    };
    let mut bytes = Vec::new();
    write(to, &capture, &mut bytes)?;
    biopsy_capture::place::write_new(&path, &bytes)?;
    say(&path, to.opens_with())
}

fn write(to: Format, capture: &biopsy_model::capture::Capture, out: &mut Vec<u8>) -> Result<(), Failure> {
    biopsy_report::export::write(to, capture, BufWriter::new(out))
        .map_err(|error| Failure::from_error(FailureKind::BadInput, &error))
}

fn say_note(note: &str) {
    out::say(format_args!("note: {note}"));
}

fn say(path: &Path, opens_with: &str) -> Result<Code, Failure> {
    out::say(format_args!("wrote {}; {}", path.display(), opens_with));
    Ok(Code::Ok)
}

/// `name.biopsy.zip` becomes `name` with the format's ending.
fn beside(file: &Path, extension: &str) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(".age").unwrap_or(&name);
    let stem = stem.strip_suffix(".zip").unwrap_or(stem);
    let stem = stem.strip_suffix(".biopsy").unwrap_or(stem);
    let mut new_name = OsString::from(stem);
    new_name.push(extension);
    file.with_file_name(new_name)
}
