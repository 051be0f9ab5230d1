//! Logs: the lines of the recording's window, from files and from the journal, masked.
//!
//! [`LogWatch::begin`] notes which files there are and how large they are when the recording starts;
//! [`LogWatch::collect`] takes what belongs to the window when it has ended. Lines with a time stamp are cut by
//! it; of files without any, what was written during the recording is taken. Lines that begin without a stamp
//! belong to the record before them (stack traces).
//!
//! Large files are not read whole: the window is searched from the end. Rotated and compressed parts are found
//! beside a file. Nothing but regular files is opened, lines and files of any size take bounded memory, and
//! all that is left out is said in a [`Warning`].

mod collect;
mod glob_walk;
mod journal;
mod level;
mod open;
mod output;
mod place;
mod records;
mod rotated;
mod source;
mod stamp;
#[cfg(test)]
mod tests;
pub(crate) mod text;
mod zone;

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use biopsy_model::loss::Warning;
use biopsy_model::{ClockPair, Pid};
use biopsy_recording::{RecordingFolder, WriteError};

use crate::masking::Masking;
use glob_walk::Found;
use place::{Place, Root};

/// Files that are held open during the recording, so that they can be read after they were deleted.
const MOST_HELD: usize = 64;

/// Which logs, and how much of them.
#[derive(Clone, Debug)]
pub struct Config {
    /// Patterns of paths: `*`, `?`, `[...]` within a name, `**` for any folders.
    pub globs: Vec<String>,
    /// systemd units whose journal is taken.
    pub journal_units: Vec<String>,
    /// Time before the start and after the end of the recording that is taken as well.
    pub margin: Duration,
    /// Bytes taken of one source at most; the newest are kept.
    pub source_bytes: u64,
    /// Bytes taken of all sources together at most.
    pub total_bytes: u64,
    /// All reading together may take this long; sources that are not reached by then are left out.
    pub longest: Duration,
    /// The program that reads the journal.
    pub journalctl: PathBuf,
    /// Patterns that match nothing from our root are looked for from the root of this process: it may be in a
    /// container.
    pub inside: Option<Pid>,
    /// IANA name of the zone that time stamps without one are read in; `None`: the machine's own.
    pub zone: Option<String>,
}

impl Config {
    /// The usual limits: a margin of one minute, 64 MiB of one source, 256 MiB of all, one minute of reading.
    #[must_use]
    pub fn new(globs: Vec<String>, journal_units: Vec<String>) -> Config {
        Config {
            globs,
            journal_units,
            margin: Duration::from_secs(60),
            source_bytes: 64 << 20,
            total_bytes: 256 << 20,
            longest: Duration::from_secs(60),
            journalctl: PathBuf::from("journalctl"),
            inside: None,
            zone: None,
        }
    }
}

/// One log that was taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CollectedLog {
    /// Path, or `journal:UNIT`; masked.
    pub source: String,
    /// Member of the recording.
    pub member: String,
    /// Records taken.
    pub records: u64,
    /// Bytes of text taken.
    pub bytes: u64,
}

/// What was taken, and what was not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// The logs that had lines in the window.
    pub logs: Vec<CollectedLog>,
    /// What a reader of the recording should know.
    pub warnings: Vec<Warning>,
}

/// The files as they were when the recording started.
#[derive(Debug)]
pub struct LogWatch {
    config: Config,
    noted: Vec<Noted>,
    /// The root of [`Config::inside`], kept open so that it outlives the process.
    inside: Option<Place>,
    /// Why there is none, where there should be.
    inside_error: Option<std::io::Error>,
}

/// A file at the start of the recording.
#[derive(Debug)]
struct Noted {
    /// As it is shown.
    name: String,
    id: FileId,
    size: u64,
    /// Held open, so that it can be read even when it is deleted.
    file: Option<File>,
}

/// What names a file whatever its path is.
type FileId = (u64, u64);

fn file_id(facts: &std::fs::Metadata) -> FileId {
    (facts.dev(), facts.ino())
}

/// Reads any bytes as a log, in each encoding and with a window around its stamps: for fuzzing. Never panics,
/// and holds bounded memory.
pub fn fuzz_records(bytes: &[u8]) {
    use std::io::BufReader;
    let until = std::time::Instant::now() + Duration::from_secs(10);
    let near = 1_795_255_200_000_000_000;
    let resolver = zone::Resolver::new(jiff::tz::TimeZone::UTC, near);
    let window =
        records::Cut::Window { resolver, from: near - (1 << 60), to: near + (1 << 60), sure_from: 100 };
    let _ = text::find_encoding(bytes, bytes);
    for cut in [&window, &records::Cut::Everything] {
        for big in [None, Some(true), Some(false)] {
            let mut seen = records::Seen::default();
            let mut reader: Box<dyn std::io::BufRead> = match big {
                None => Box::new(bytes),
                Some(big) => Box::new(BufReader::new(text::Utf16Reader::new(bytes, big))),
            };
            let _ = records::read_records(&mut reader, cut, until, &mut seen, |_| Ok::<(), ()>(()));
        }
    }
    let _ = journal::parse_entry(bytes);
}

impl LogWatch {
    /// Notes the files that match, and their sizes. What is wrong with a pattern is said by [`LogWatch::collect`].
    #[must_use]
    pub fn begin(config: Config) -> LogWatch {
        let (inside, inside_error) = match config.inside.map(Root::of) {
            Some(Ok(root)) => (root.map(|root| Place::Inside(Arc::new(root))), None),
            Some(Err(error)) => (None, Some(error)),
            None => (None, None),
        };
        let mut watch = LogWatch { config, noted: Vec::new(), inside, inside_error };
        for glob in watch.config.globs.clone() {
            let (place, found) = watch.find(&glob);
            for path in found.unwrap_or_default().paths {
                let Ok(opened) = open::open(&place, &path) else { continue };
                let id = file_id(&opened.facts);
                if watch.noted.iter().any(|known| known.id == id) {
                    continue;
                }
                let file = (watch.noted.len() < MOST_HELD).then_some(opened.file);
                watch.noted.push(Noted { name: place.shown(&path), id, size: opened.facts.len(), file });
            }
        }
        watch
    }

    /// Finds what a pattern matches: from our root, or, where that is nothing, from the target's.
    fn find(&self, glob: &str) -> (Place, Result<Found, String>) {
        let here = glob_walk::find(&Place::Here, glob);
        match (&here, &self.inside) {
            (Ok(found), Some(inside)) if found.paths.is_empty() => {
                (inside.clone(), glob_walk::find(inside, glob))
            }
            _ => (Place::Here, here),
        }
    }

    /// Takes the lines between `start` less the margin and `end` plus the margin.
    ///
    /// # Errors
    /// When the recording cannot be written (disk full): what was written until then is whole. Everything else
    /// is a warning.
    pub fn collect(
        self,
        start: &ClockPair,
        end: &ClockPair,
        folder: &RecordingFolder,
        masking: &Masking,
    ) -> Result<Summary, WriteError> {
        collect::Collector::new(self, start, end, folder, masking).run()
    }
}
