//! Where dumps go: a recording, one core file, or standard output.

use std::path::{Path, PathBuf};

use crate::exit_codes::Code;
use crate::failure::Failure;
use crate::session::output::{Place, default_stem};

use super::args::{DumpArgs, Format, is_minidump_name};

/// Where.
#[derive(Clone, Debug)]
pub(crate) enum Destination {
    /// A folder or bundle, with context and report.
    Recording(Place),
    /// The core alone.
    File(PathBuf),
    /// The core alone, as it comes.
    Stdout,
}

impl Destination {
    /// From what was typed, or from the target's name and the time.
    pub(crate) fn choose(args: &DumpArgs, target: &str) -> Result<Self, Failure> {
        let destination = match &args.output {
            None => Self::Recording(Place { folder: default_stem(target).into(), bundle: None }),
            Some(path) if path.as_os_str() == "-" => Self::Stdout,
            Some(path) if is_core_name(path, args.format()) => Self::File(path.clone()),
            Some(path) if ends_with(path, ".zip") => Self::Recording(Place::bundle(path)),
            Some(path) => Self::Recording(Place { folder: path.clone(), bundle: None }),
        };
        destination.check(args)?;
        Ok(destination)
    }

    /// The path whose disk it fills.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Recording(place) => Some(&place.folder),
            Self::File(path) => Some(path),
            Self::Stdout => None,
        }
    }

    fn check(&self, args: &DumpArgs) -> Result<(), Failure> {
        let alone = args.tree || args.count > 1 || args.wait_for.is_some();
        match self {
            Self::Recording(place) => place.check(),
            Self::File(_) | Self::Stdout if alone => {
                let message = "several dumps do not fit one file";
                Err(Failure::new(Code::Usage, message)
                    .with_hint(Some("name a folder with `--output`, or leave it out")))
            }
            Self::File(path) => Place { folder: path.clone(), bundle: None }.check(),
            Self::Stdout if crate::render::terminal::stdout_is_terminal() && !args.dry_run => {
                Err(Failure::new(Code::Usage, "a core would be written to the terminal").with_hint(Some(
                    "send it into a file or another program, or name a file with `--output`",
                )))
            }
            Self::Stdout => Ok(()),
        }
    }
}

fn is_core_name(path: &Path, format: Format) -> bool {
    match format {
        Format::Core => [".core", ".zst"].iter().any(|ending| ends_with(path, ending)),
        Format::Minidump => is_minidump_name(path),
    }
}

fn ends_with(path: &Path, ending: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(ending))
}
