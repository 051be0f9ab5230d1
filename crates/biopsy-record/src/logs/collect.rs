//! Goes through all sources, within the limits, and says what was left out.

use biopsy_model::order::Order as _;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use biopsy_model::ClockPair;
use biopsy_model::loss::Warning;
use biopsy_recording::{RecordingFolder, WriteError};
use jiff::tz::TimeZone;

use super::glob_walk::Found;
use super::journal::{JournalError, read_journal};
use super::open::{Opened, Refused, open};
use super::output::{Output, Summary};
use super::place::Place;
use super::records::{Cut, Record, Seen, read_head, read_records};
use super::rotated::{Packing, find_parts, packing};
use super::source::{UNPACKED, find_start, lines_from, survey, unpack, zone_of};
use super::text::Encoding;
use super::watch::{FileId, LogWatch, Noted, file_id};
use crate::masking::Masking;

/// The journal of one unit has this long to answer.
const JOURNAL_LONGEST: Duration = Duration::from_secs(20);

/// The wall clock moved against the monotonic one by more than this between start and end: it was set.
const CLOCK_STEP: i128 = 1_000_000_000;

/// Warnings of one code beyond this many are counted instead.
const MOST_OF_A_KIND: usize = 20;

/// A file is said to be in another zone when its newest stamp is this far from its modification time.
const FAR: i128 = 20 * 60 * 1_000_000_000;

impl LogWatch {
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
        Collector::new(self, start, end, folder, masking).run()
    }
}

pub(crate) struct Collector<'a> {
    watch: LogWatch,
    start: &'a ClockPair,
    end: &'a ClockPair,
    folder: &'a RecordingFolder,
    masking: &'a Masking,
    zone: (TimeZone, String),
    from: i128,
    to: i128,
    until: Instant,
    left: u64,
    visited: BTreeSet<FileId>,
    without_lines: Vec<String>,
    summary: Summary,
}

/// One file to read.
struct Source {
    /// As it is shown.
    name: String,
    path: PathBuf,
    file: File,
    size: u64,
    modified: Option<SystemTime>,
    /// Its size at the start of the recording, if it was there.
    size_before: Option<u64>,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(
        watch: LogWatch,
        start: &'a ClockPair,
        end: &'a ClockPair,
        folder: &'a RecordingFolder,
        masking: &'a Masking,
    ) -> Collector<'a> {
        let margin = i128::try_from(watch.config.margin.as_nanos()).unwrap_or(i128::MAX / 4);
        let mut collector = Collector {
            zone: (TimeZone::UTC, "UTC".to_owned()),
            from: start.wall_unix_nanos.saturating_sub(margin),
            to: end.wall_unix_nanos.saturating_add(margin),
            until: Instant::now() + watch.config.longest,
            left: watch.config.total_bytes,
            visited: BTreeSet::new(),
            without_lines: Vec::new(),
            summary: Summary::default(),
            watch,
            start,
            end,
            folder,
            masking,
        };
        collector.zone = collector.find_zone();
        collector
    }

    pub(crate) fn run(mut self) -> Result<Summary, WriteError> {
        self.check_clock();
        if let Some(error) = self.watch.inside_error.take() {
            let message = format!("logs inside the target's container are not looked for: {error}");
            self.warn("logs.inside", message);
        }
        let sources = self.find_sources();
        for source in sources {
            self.take_file(&source)?;
        }
        for unit in self.watch.config.journal_units.clone() {
            self.take_journal(&unit)?;
        }
        self.tell_without_lines();
        Ok(self.summary)
    }

    fn find_zone(&mut self) -> (TimeZone, String) {
        if let Some(name) = self.watch.config.zone.clone() {
            match TimeZone::get(&name) {
                Ok(zone) => return (zone, name),
                Err(_) => {
                    self.warn("logs.zone", format!("there is no time zone `{name}`: the machine's is used"))
                }
            }
        }
        let zone = TimeZone::system();
        let name = zone.iana_name().map_or_else(|| self.start.zone.clone(), str::to_owned);
        (zone, name)
    }

    fn check_clock(&mut self) {
        let offset = |pair: &ClockPair| pair.wall_unix_nanos - i128::from(pair.mono.0);
        let moved = offset(self.end) - offset(self.start);
        if moved.abs() > CLOCK_STEP {
            let message = format!(
                "the wall clock was set by {} ms during the recording: times of log lines are off by as much",
                moved / 1_000_000
            );
            self.warn("logs.clock-step", message);
        }
    }

    /// The files of all patterns, their older parts, and the files that went away; the newest first.
    fn find_sources(&mut self) -> Vec<Source> {
        let mut sources = Vec::new();
        let mut parts = Vec::new();
        let window_start = u64::try_from(self.from.max(0)).map(Duration::from_nanos).unwrap_or_default();
        let since = SystemTime::UNIX_EPOCH + window_start;
        for glob in self.watch.config.globs.clone() {
            let (place, found) = self.watch.find(&glob);
            let found = match found {
                Ok(found) => found,
                Err(reason) => {
                    self.warn("logs.bad-pattern", format!("the pattern `{glob}` is not valid: {reason}"));
                    continue;
                }
            };
            self.tell_of_walk(&glob, &found);
            for path in found.paths {
                let older = find_parts(&place, &path, since);
                parts.extend(older.into_iter().map(|part| (place.clone(), part)));
                sources.extend(self.open_source(&place, &path, since));
            }
        }
        for (place, path) in parts {
            sources.extend(self.open_source(&place, &path, since));
        }
        for noted in std::mem::take(&mut self.watch.noted) {
            if !self.visited.contains(&noted.id) {
                sources.extend(self.gone_source(noted));
            }
        }
        sources.order_by_key(|source| std::cmp::Reverse(source.modified));
        sources
    }

    fn tell_of_walk(&mut self, glob: &str, found: &Found) {
        if found.paths.is_empty() {
            let warning = Warning::new("logs.no-match", format!("no file matches `{glob}`"));
            let hint = "put the pattern in quotes, so that the shell leaves it alone";
            self.add(Warning { hint: glob.contains('*').then(|| hint.to_owned()), ..warning });
        }
        if found.limited {
            let message = format!("the search for `{glob}` was ended early: too many files or folders");
            self.warn("logs.walk-limited", message);
        }
        for folder in &found.unreadable {
            self.warn(
                "logs.unreadable-folder",
                format!("the folder `{}` could not be read to its end", folder.display()),
            );
        }
    }

    fn open_source(&mut self, place: &Place, path: &Path, since: SystemTime) -> Option<Source> {
        let name = place.shown(path);
        let Opened { file, facts, link_to } = match open(place, path) {
            Ok(opened) => opened,
            // Patterns match folders all the time.
            Err(Refused::Folder) => return None,
            Err(reason) => {
                self.warn("logs.not-read", format!("`{name}` is not read: {reason}"));
                return None;
            }
        };
        let id = file_id(&facts);
        if !self.visited.insert(id) {
            return None;
        }
        if let Some(target) = link_to {
            let message = format!("`{name}` is a link: `{}` was read", target.display());
            self.warn("logs.link", message);
        }
        let size_before = self.watch.noted.iter().find(|noted| noted.id == id).map(|noted| noted.size);
        let modified = facts.modified().ok();
        let grew = size_before.is_some_and(|size| size != facts.len());
        // A file system may keep whole seconds only, or be a little behind.
        let old = modified.is_some_and(|modified| modified + Duration::from_secs(2) < since);
        if old && !grew {
            self.without_lines.push(name);
            return None;
        }
        Some(Source { name, path: path.to_owned(), size: facts.len(), file, modified, size_before })
    }

    /// A file that was there at the start and that no pattern finds any more.
    fn gone_source(&mut self, noted: Noted) -> Option<Source> {
        let facts = noted.file.as_ref().and_then(|file| file.metadata().ok());
        let name = noted.name;
        let Some((file, facts)) = noted.file.zip(facts) else {
            self.warn("logs.gone", format!("`{name}` went away during the recording"));
            return None;
        };
        self.warn(
            "logs.gone",
            format!("`{name}` was deleted or moved during the recording; it was read all the same"),
        );
        let modified = facts.modified().ok();
        Some(Source {
            path: PathBuf::from(&name),
            name,
            size: facts.len(),
            file,
            modified,
            size_before: Some(noted.size),
        })
    }

    fn take_file(&mut self, source: &Source) -> Result<(), WriteError> {
        if Instant::now() > self.until {
            let message = format!("`{}` is not read: there was no time left", source.name);
            self.warn("logs.out-of-time", message);
            return Ok(());
        }
        if self.left == 0 {
            self.warn(
                "logs.limited",
                format!("`{}` is not read: the logs are at their limit of size", source.name),
            );
            return Ok(());
        }
        let taken = match packing(&source.path) {
            Packing::Other => {
                let message = format!("`{}` is not read: only gzip and zstd are unpacked", source.name);
                self.warn("logs.packed", message);
                return Ok(());
            }
            Packing::Plain => self.take_plain(source),
            packed => self.take_packed(source, packed),
        };
        match taken {
            Ok(true) => {}
            Ok(false) => self.without_lines.push(source.name.clone()),
            Err(Ok(error)) => return Err(error),
            Err(Err(error)) => {
                self.warn("logs.read-error", format!("`{}` is not read to its end: {error}", source.name))
            }
        }
        Ok(())
    }

    /// Returns whether there were lines in the window.
    fn take_plain(&mut self, source: &Source) -> Result<bool, Result<WriteError, io::Error>> {
        let survey = survey(&source.file, source.size).map_err(Err)?;
        if survey.encoding == Encoding::Binary {
            self.warn("logs.binary", format!("`{}` is not read: it is not text", source.name));
            return Ok(true);
        }
        let budget = self.watch.config.source_bytes.min(self.left);
        let lowest = source.size.saturating_sub(budget);
        // Smaller than before: it was truncated, and all of it is new. Not there before: likewise, if its
        // pattern had been looked for at the start.
        let grown_from = source.size_before.map(|before| if before <= source.size { before } else { 0 });
        let (mut cut, zone, start) = if survey.has_stamps {
            let (resolver, zone) =
                zone_of(&self.zone, self.end.wall_unix_nanos, survey.newest, source.modified);
            self.check_zone(source, survey.newest.and_then(|stamp| resolver.resolve(stamp)));
            let from = find_start(&source.file, lowest, source.size, survey.encoding, &resolver, self.from);
            let from = from.map_err(Err)?.min(grown_from.unwrap_or(u64::MAX)).max(lowest);
            (Cut::Window { resolver, from: self.from, to: self.to, sure_from: u64::MAX }, zone, from)
        } else {
            let before = grown_from.unwrap_or(0);
            if before == source.size {
                return Ok(false);
            }
            let message = format!(
                "lines of `{}` have no time stamp that can be read: what was written during the recording was taken",
                source.name
            );
            self.warn("logs.untimed", message);
            if before < lowest {
                self.tell_limited(&source.name);
            }
            (Cut::Everything, String::new(), before.max(lowest))
        };
        // What the file begins with says how to read all of it. It is read first: both share the file's place.
        let mut head = match &cut {
            Cut::Window { .. } => lines_from(&source.file, 0, source.size, survey.encoding)
                .and_then(|(mut reader, _)| read_head(&mut reader))
                .map_err(Err)?,
            Cut::Everything => None,
        };
        let (mut reader, at) = lines_from(&source.file, start, source.size, survey.encoding).map_err(Err)?;
        // Places in UTF-16 are those of the text it becomes, and not known here.
        if let Cut::Window { sure_from, .. } = &mut cut
            && survey.encoding == Encoding::Bytes
        {
            *sure_from = grown_from.map_or(u64::MAX, |grown| grown.saturating_sub(at));
            // Of a file that was not there before all lines are taken anyway.
            head = head.filter(|_| *sure_from > 0);
        }
        let (mut seen, mut earliest) = (Seen::default(), None);
        let mut output = Output::new(self.folder, self.masking, self.start, &source.name, &zone);
        let done = read_records(&mut reader, &cut, self.until, &mut seen, |record: Record| {
            earliest = earliest.or(record.time);
            if let Some(head) = head.take() {
                output.push(&Record { time: record.time, ..head })?;
            }
            output.push(&record)
        });
        if start == lowest && lowest > 0 && earliest.is_some_and(|time| time > self.from) {
            self.tell_limited(&source.name);
        }
        self.finish_file(source, &seen, output, done)
    }

    /// Compressed files are read from their start, twice: first to see what of them belongs to the window and in
    /// which zone they are, then, if anything does, to take the newest part of it.
    fn take_packed(
        &mut self,
        source: &Source,
        packed: Packing,
    ) -> Result<bool, Result<WriteError, io::Error>> {
        let near = self.end.wall_unix_nanos;
        let (resolver, _) = zone_of(&self.zone, near, None, None);
        let mut first = Seen::default();
        // The first pass may be in the wrong zone: it takes note of the newest stamp and of the sizes only.
        let wide = Cut::Window {
            resolver,
            from: self.from - 50 * HOUR,
            to: self.to + 50 * HOUR,
            sure_from: u64::MAX,
        };
        let mut reader = unpack(&source.file, packed).map_err(Err)?;
        let pass = read_records(&mut reader, &wide, self.until, &mut first, |_| Ok::<(), WriteError>(()));
        if let Err(Err(error)) = pass {
            let message = format!("`{}` is damaged, and read as far as it goes: {error}", source.name);
            self.warn("logs.corrupt", message);
        }
        if first.read >= UNPACKED {
            let message = format!(
                "`{}` unpacks to more than {} MiB: the rest is not read",
                source.name,
                UNPACKED >> 20
            );
            self.warn("logs.limited", message);
        }
        if first.newest.is_none() {
            let message = format!("`{}` is not read: no time stamp in it can be read", source.name);
            self.warn("logs.untimed", message);
            return Ok(true);
        }
        if first.records == 0 {
            return Ok(false);
        }
        let (resolver, zone) = zone_of(&self.zone, near, first.newest, source.modified);
        let cut = Cut::Window { resolver, from: self.from, to: self.to, sure_from: u64::MAX };
        let mut counted = Seen::default();
        let mut reader = unpack(&source.file, packed).map_err(Err)?;
        // Damage was told above, and the second reading ends where the first did.
        let _ = read_records(&mut reader, &cut, self.until, &mut counted, |_| Ok::<(), WriteError>(()));
        let budget = self.watch.config.source_bytes.min(self.left);
        let mut skip = counted.bytes.saturating_sub(budget);
        if skip > 0 {
            self.tell_limited(&source.name);
        }
        let mut seen = Seen::default();
        let mut output = Output::new(self.folder, self.masking, self.start, &source.name, &zone);
        let mut reader = unpack(&source.file, packed).map_err(Err)?;
        let done = read_records(&mut reader, &cut, self.until, &mut seen, |record: Record| {
            if skip > 0 {
                skip = skip.saturating_sub(record.text.len() as u64);
                return Ok(());
            }
            output.push(&record)
        });
        let done = match done {
            Err(Err(_)) => Ok(()),
            other => other,
        };
        self.finish_file(source, &seen, output, done)
    }

    fn finish_file(
        &mut self,
        source: &Source,
        seen: &Seen,
        output: Output<'_>,
        done: Result<(), Result<WriteError, io::Error>>,
    ) -> Result<bool, Result<WriteError, io::Error>> {
        let name = &source.name;
        if seen.long_lines > 0 {
            let (lines, bytes) = (seen.long_lines, seen.cut_bytes);
            self.warn(
                "logs.long-lines",
                format!("{lines} lines of `{name}` were cut: {bytes} bytes left out"),
            );
        }
        if seen.not_utf8 > 0 {
            let how = match seen.code_page {
                Some(page) => format!("read as {page}, which their letters speak for"),
                None => "odd characters were replaced".to_owned(),
            };
            let message = format!("{} lines of `{name}` are not UTF-8: {how}", seen.not_utf8);
            self.warn("logs.not-utf8", message);
        }
        if seen.out_of_time {
            self.warn("logs.out-of-time", format!("`{name}` is not read to its end: there was no time left"));
        }
        let taken = output.finish().map_err(Ok)?;
        let any = taken.is_some();
        if let Some(taken) = taken {
            self.left = self.left.saturating_sub(taken.bytes);
            self.summary.logs.push(taken);
        }
        done.map(|()| any)
    }

    fn take_journal(&mut self, unit: &str) -> Result<(), WriteError> {
        let name = format!("journal:{unit}");
        let budget = self.watch.config.source_bytes.min(self.left);
        let longest = self.until.saturating_duration_since(Instant::now()).min(JOURNAL_LONGEST);
        let answer =
            match read_journal(&self.watch.config.journalctl, unit, self.from, self.to, budget, longest) {
                Ok(answer) => answer,
                Err(error) => {
                    let hint = matches!(error, JournalError::Missing)
                        .then(|| "take the service's log files with --logs instead".to_owned());
                    let message = format!("the journal of `{unit}` is not read: {error}");
                    self.add(Warning { hint, ..Warning::new("logs.journal", message) });
                    return Ok(());
                }
            };
        if answer.limited {
            self.tell_limited(&name);
        }
        if answer.out_of_time {
            self.warn("logs.out-of-time", format!("the journal of `{unit}` did not answer in time"));
        }
        if answer.unreadable > 0 {
            let message =
                format!("{} entries of the journal of `{unit}` could not be read", answer.unreadable);
            self.warn("logs.journal", message);
        }
        let mut output = Output::new(self.folder, self.masking, self.start, &name, "");
        for entry in answer.entries {
            output.push(&Record { time: Some(entry.time), level: entry.level, text: entry.text })?;
        }
        match output.finish()? {
            Some(taken) => {
                self.left = self.left.saturating_sub(taken.bytes);
                self.summary.logs.push(taken);
            }
            None => self.without_lines.push(name),
        }
        Ok(())
    }

    /// Says when the newest stamp cannot be reconciled with the file's modification time.
    fn check_zone(&mut self, source: &Source, newest: Option<i128>) {
        let modified = source.modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let modified = modified.and_then(|since| i128::try_from(since.as_nanos()).ok());
        let Some((newest, modified)) = newest.zip(modified) else { return };
        if (newest - modified).abs() > FAR {
            let message = format!(
                "the newest time stamp of `{}` is {} minutes from the file's modification: its time zone may be \
                 another one. Lines written before the recording may be missing, and those written during it may have no time",
                source.name,
                (newest - modified) / 60_000_000_000
            );
            self.warn("logs.zone-unclear", message);
        }
    }

    fn tell_limited(&mut self, name: &str) {
        let message = format!("`{name}` has more lines in the window than are taken: only the newest were");
        self.warn("logs.limited", message);
    }

    fn tell_without_lines(&mut self) {
        let names = std::mem::take(&mut self.without_lines);
        let Some(first) = names.first() else { return };
        let message = match names.len() - 1 {
            0 => format!("`{first}` has no lines in the window"),
            more => format!("`{first}` and {more} others have no lines in the window"),
        };
        self.warn("logs.nothing-in-window", message);
    }

    fn warn(&mut self, code: &str, message: String) {
        self.add(Warning::new(code, message));
    }

    /// Adds a warning, masked: it may quote names of files.
    fn add(&mut self, mut warning: Warning) {
        let same = self.summary.warnings.iter().filter(|known| known.code == warning.code).count();
        if same > MOST_OF_A_KIND {
            return;
        }
        if same == MOST_OF_A_KIND {
            warning.message = "and more of the same kind".to_owned();
        }
        warning.message =
            self.masking.text(biopsy_recording::layout::WARNINGS, &warning.message).into_owned();
        if !self.summary.warnings.contains(&warning) {
            self.summary.warnings.push(warning);
        }
    }
}

const HOUR: i128 = 3_600 * 1_000_000_000;
