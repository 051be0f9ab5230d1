//! The last lines of each log as a recording would have them: for whoever wants to see first what is masked.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, SystemTime};

use super::code_page::CodePage;
use super::journal::read_journal;
use super::open::{Opened, Refused, open};
use super::rotated::{Packing, packing};
use super::source::{lines_from, survey, unpack};
use super::text::{Encoding, read_line};
use super::watch::LogWatch;
use crate::masking::Masking;
use crate::preview::{Preview, PreviewLine};

/// Lines of each source, and bytes at its end in which they are looked for.
const LINES: usize = 10;
const BYTES: u64 = 64 << 10;
/// The journal of one unit has this long to answer, and is asked for entries of this time.
const JOURNAL_LONGEST: Duration = Duration::from_secs(10);
const JOURNAL_SINCE: Duration = Duration::from_secs(24 * 3600);

impl LogWatch {
    /// The last lines of all sources. Nothing is written, and no file is opened that a recording would not open.
    #[must_use]
    pub fn preview(&self, masking: &Masking) -> Vec<Preview> {
        let mut previews = Vec::new();
        let mut add = |source: &str, lines: Result<Vec<String>, String>| {
            let masked = |text: String| masking.redactor().text(&text).text.into_owned();
            let lines = lines.map(|lines| mask(masking, &lines)).map_err(masked);
            previews.push(Preview { source: masked(source.to_owned()), lines });
        };
        for glob in &self.config.globs {
            let (place, found) = self.find(glob);
            let paths = match found {
                Ok(found) if found.paths.is_empty() => Err("no file matches".to_owned()),
                Ok(found) => Ok(found.paths),
                Err(reason) => Err(format!("the pattern is not valid: {reason}")),
            };
            match paths {
                Err(why) => add(glob, Err(why)),
                Ok(paths) => {
                    for path in paths {
                        let opened = match open(&place, &path) {
                            Err(Refused::Folder) => continue,
                            Err(reason) => Err(reason.to_string()),
                            Ok(opened) => last_lines(&opened, packing(&path)),
                        };
                        add(&place.shown(&path), opened);
                    }
                }
            }
        }
        for unit in &self.config.journal_units {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let nanos = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
            let (from, to) = (nanos(now.saturating_sub(JOURNAL_SINCE)), nanos(now));
            let answer = read_journal(
                &self.config.journalctl,
                unit,
                from,
                to,
                BYTES,
                JOURNAL_LONGEST.min(self.config.longest),
            );
            let lines = answer.map_err(|error| error.to_string()).map(|answer| {
                let first = answer.entries.len().saturating_sub(LINES);
                answer.entries.into_iter().skip(first).map(|entry| entry.text).collect()
            });
            add(&format!("journal:{unit}"), lines);
        }
        previews
    }
}

fn last_lines(opened: &Opened, packed: Packing) -> Result<Vec<String>, String> {
    let Opened { file, facts, .. } = opened;
    let read = || -> io::Result<Vec<String>> {
        let mut reader = match packed {
            Packing::Plain => {
                let survey = survey(file, facts.len())?;
                if survey.encoding == Encoding::Binary {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not text"));
                }
                lines_from(file, facts.len().saturating_sub(BYTES), facts.len(), survey.encoding)?.0
            }
            packed => unpack(file, packed)?,
        };
        let (mut page, mut line) = (CodePage::new(), Vec::new());
        let mut last = VecDeque::new();
        while read_line(&mut reader, &mut line)?.is_some() {
            if last.len() == LINES {
                last.pop_front();
            }
            last.push_back(page.text(&line).into_owned());
        }
        Ok(last.into())
    };
    match packed {
        Packing::Other => Err("only gzip and zstd are unpacked".to_owned()),
        _ => read().map_err(|error| error.to_string()),
    }
}

fn mask(masking: &Masking, lines: &[String]) -> Vec<PreviewLine> {
    let mut redactor = masking.redactor().lines();
    let mut masked = |line: &String| {
        let redacted = redactor.line(line);
        PreviewLine::new(redacted.text.into_owned(), redacted.hits)
    };
    lines.iter().map(&mut masked).collect()
}
