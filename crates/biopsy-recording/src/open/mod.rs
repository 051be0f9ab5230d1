//! Opening a recording: a folder or a zip, whole or partial.

pub(crate) mod folder;
mod names;
pub(crate) mod source;
mod verify;
pub(crate) mod zip;

use std::io::{self, Cursor, Read};
use std::path::Path;

use biopsy_model::Pid;
use biopsy_model::capture::{Capture, CaptureHeader};
use biopsy_model::footprint::Footprint;
use biopsy_model::loss::Warning;
use biopsy_model::peers::PeerLook;
use serde::de::DeserializeOwned;

use self::source::Source;
use self::zip::ZipSource;
use crate::documents::header::{FORMAT, FormatOnly, Header};
use crate::documents::last_words::LastWords;
use crate::documents::look::Look;
use crate::documents::peers::Peers;
use crate::documents::processes::Process;
use crate::documents::redaction::Redaction;
use crate::documents::runtime::RuntimeTrace;
use crate::documents::{List, footprint, warnings};
use crate::logs::Verdict;
use crate::timeline::TimelineError;
use crate::warn::warning;
use crate::{FormatVersion, Limits, Location, OpenError, layout, logs, metrics, timeline};

/// Reads a recording from a folder or a zip, which may be sealed. Whatever can be shown is; what is missing, damaged or over the limits
/// is in the warnings, behind those of the recorders.
pub fn open(location: impl Into<Location>, limits: &Limits) -> Result<Capture, OpenError> {
    let location = location.into();
    let path = location.path();
    let mut warnings = Vec::new();
    let source = Source::open(&location, limits, &mut warnings)?;
    read(Opening { path, limits, source, warnings })
}

/// Reads what was recorded, when and how, and nothing else.
///
/// # Errors
/// It is no recording, or its header cannot be read.
pub fn read_header(location: impl Into<Location>, limits: &Limits) -> Result<CaptureHeader, OpenError> {
    let location = location.into();
    let path = location.path();
    let mut warnings = Vec::new();
    let source = Source::open(&location, limits, &mut warnings)?;
    Opening { path, limits, source, warnings }.header()
}

/// Reads what recorders wanted the reader to know, and nothing else; behind it what of that could not be read. For those who read
/// the dumps of a recording, which may be large, without the rest of it.
///
/// # Errors
/// It is no folder and no zip, or cannot be opened.
pub fn read_warnings(location: impl Into<Location>, limits: &Limits) -> Result<Vec<Warning>, OpenError> {
    let location = location.into();
    let path = location.path();
    let mut warnings = Vec::new();
    let source = Source::open(&location, limits, &mut warnings)?;
    let mut opening = Opening { path, limits, source, warnings };
    let mut found = opening.recorder_warnings();
    found.append(&mut opening.warnings);
    Ok(found)
}

/// Reads the report that was made when it was recorded, as JSON; `None`: there is none, or it cannot be read.
#[must_use]
pub fn read_report(location: impl Into<Location>, limits: &Limits) -> Option<Vec<u8>> {
    let location = location.into();
    let mut source = Source::open(&location, limits, &mut Vec::new()).ok()?;
    source.bytes(layout::REPORT_JSON, limits.json_bytes).ok()
}

/// Reads what the threads of a process waited for in others when it was dumped; `None`: nobody looked, or it cannot be read.
#[must_use]
pub fn read_peers(location: impl Into<Location>, pid: Pid, limits: &Limits) -> Option<PeerLook> {
    let location = location.into();
    let path = location.path();
    let mut warnings = Vec::new();
    let source = Source::open(&location, limits, &mut warnings).ok()?;
    let mut opening = Opening { path, limits, source, warnings };
    opening.json::<Peers>(&layout::peers_member(pid)).map(Into::into)
}

/// Reads what a process wrote last before it was dumped; empty: nobody looked, or it cannot be read.
#[must_use]
pub fn read_last_words(location: impl Into<Location>, pid: Pid, limits: &Limits) -> Vec<String> {
    let location = location.into();
    let path = location.path();
    let mut warnings = Vec::new();
    let Ok(source) = Source::open(&location, limits, &mut warnings) else { return Vec::new() };
    let mut opening = Opening { path, limits, source, warnings };
    opening.json::<LastWords>(&layout::words_member(pid)).map(|words| words.lines.into()).unwrap_or_default()
}

/// Reads where the memory of processes went, the oldest first; what cannot be read of it is left out and said.
#[must_use]
pub fn read_footprints(location: impl Into<Location>, limits: &Limits) -> (Vec<Footprint>, Vec<String>) {
    let location = location.into();
    let path = location.path();
    let mut warnings = Vec::new();
    let Ok(source) = Source::open(&location, limits, &mut warnings) else { return Default::default() };
    let number = |name: &String| -> Option<u32> {
        name.strip_prefix(layout::FOOTPRINTS_FOLDER)?.strip_suffix(".json")?.parse().ok()
    };
    let mut numbers: Vec<u32> = source.members().keys().filter_map(number).collect();
    numbers.sort_unstable();
    let mut opening = Opening { path, limits, source, warnings: Vec::new() };
    let read = |number| opening.json::<footprint::Footprint>(&layout::footprint_member(number));
    let footprints = numbers.into_iter().filter_map(read).map(Into::into).collect();
    (footprints, opening.warnings.iter().map(Warning::in_words).collect())
}

/// The same in words, for reports; also why nothing can be read.
#[must_use]
pub fn warnings_in_words(location: impl Into<Location>, limits: &Limits) -> Vec<String> {
    match read_warnings(location, limits) {
        Ok(warnings) => warnings.iter().map(Warning::in_words).collect(),
        Err(error) => vec![format!("what the recording says of itself: {error}")],
    }
}

/// Reads a bundle that is in memory. `name` is for messages.
pub fn open_bytes(name: impl AsRef<Path>, bytes: Vec<u8>, limits: &Limits) -> Result<Capture, OpenError> {
    let path = name.as_ref();
    let mut warnings = Vec::new();
    let source =
        ZipSource::open(path, Box::new(Cursor::new(bytes)), limits, &mut warnings).map(Source::Zip)?;
    read(Opening { path, limits, source, warnings })
}

/// Entry point for fuzzing: reads any bytes as a bundle, with small limits.
pub fn fuzz_bundle(bytes: &[u8]) {
    let _ = std::hint::black_box(open_bytes("fuzz.zip", bytes.to_vec(), &Limits::small()));
}

fn read(mut opening: Opening<'_>) -> Result<Capture, OpenError> {
    let header = opening.header()?;
    let recorders = opening.recorder_warnings();
    let is_zip = matches!(opening.source, Source::Zip(_));
    let (timeline, of_timeline) = opening.timeline();
    let mut capture = Capture {
        processes: opening.json::<List<Process>>(layout::PROCESSES).map(Into::into).unwrap_or_default(),
        timeline,
        runtimes: opening.runtimes(),
        looks: opening.looks(),
        metrics: opening.metrics(),
        logs: opening.logs(),
        context: opening.context(),
        redactions: opening.json::<Redaction>(layout::REDACTION).map(Into::into).unwrap_or_default(),
        warnings: recorders,
        header,
    };
    if capture.header.end.is_none() {
        opening.warnings.push(warning(
            "recording.partial",
            "the recording was cut short and has no end; it is shown as far as it goes".to_owned(),
            None,
        ));
    }
    opening.verify(is_zip);
    capture.warnings.extend(of_timeline);
    capture.warnings.append(&mut opening.warnings);
    Ok(capture)
}

struct Opening<'a> {
    path: &'a Path,
    limits: &'a Limits,
    source: Source,
    warnings: Vec<Warning>,
}

impl Opening<'_> {
    fn header(&mut self) -> Result<CaptureHeader, OpenError> {
        let path = self.path;
        let not_a_recording = |reason| OpenError::NotARecording { path: path.to_path_buf(), reason };
        if !self.source.has(layout::HEADER) {
            return Err(not_a_recording("it has no `biopsy.json`"));
        }
        let bytes = self
            .source
            .bytes(layout::HEADER, self.limits.json_bytes)
            .map_err(|e| OpenError::io(&path.join(layout::HEADER), e))?;
        let bad = |source| OpenError::BadHeader { path: path.to_path_buf(), source };
        let FormatOnly { format, version } = serde_json::from_slice(&bytes).map_err(bad)?;
        if format != FORMAT {
            return Err(not_a_recording("its `biopsy.json` is something else"));
        }
        let supported = FormatVersion::RECORDING;
        let found: FormatVersion =
            version.parse().map_err(|()| not_a_recording("its `biopsy.json` has no format version"))?;
        if !supported.reads(found) {
            return Err(OpenError::NewerFormat { path: path.to_path_buf(), found, supported });
        }
        serde_json::from_slice::<Header>(&bytes).map(Into::into).map_err(bad)
    }

    /// A JSON member, if there is one and it can be read.
    fn json<T: DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        if !self.source.has(name) {
            return None;
        }
        let value = self
            .source
            .bytes(name, self.limits.json_bytes)
            .and_then(|bytes| serde_json::from_slice(&bytes).map_err(io::Error::from));
        match value {
            Ok(value) => Some(value),
            Err(error) => {
                self.left_out(name, &error);
                None
            }
        }
    }

    fn recorder_warnings(&mut self) -> Vec<Warning> {
        let mut found = Vec::new();
        if !self.source.has(layout::WARNINGS) {
            return found;
        }
        let limits = self.limits;
        let about = self.source.with(layout::WARNINGS, |reader| {
            logs::read_lines(layout::WARNINGS, reader, limits, |line| {
                match serde_json::from_slice::<warnings::Warning>(line) {
                    Ok(_) if found.len() >= limits.rows.min(100_000) => Verdict::Full,
                    Ok(warning) => {
                        found.push(warning.to_model());
                        Verdict::Good
                    }
                    Err(_) => Verdict::Bad,
                }
            })
        });
        self.note(layout::WARNINGS, about);
        found
    }

    fn timeline(&mut self) -> (Option<biopsy_model::timeline::Timeline>, Vec<Warning>) {
        if !self.source.has(layout::TIMELINE) {
            return (None, Vec::new());
        }
        let limits = self.limits;
        match self.source.with(layout::TIMELINE, |reader| timeline::read(reader, limits)) {
            Ok(Ok((timeline, warnings))) => return (Some(timeline), warnings),
            Ok(Err(error)) => {
                let hint = match error {
                    TimelineError::NewerFormat { .. } => Some("open it with a newer biopsy"),
                    TimelineError::NotATimeline { .. } | TimelineError::Io(_) => None,
                };
                let message = format!("`{}` left out: {error}", layout::TIMELINE);
                self.warnings.push(warning("recording.unreadable", message, hint));
            }
            Err(error) => self.left_out(layout::TIMELINE, &error),
        }
        (None, Vec::new())
    }

    fn metrics(&mut self) -> Vec<biopsy_model::metric::MetricTable> {
        let mut tables = Vec::new();
        for name in self.names(layout::METRICS_FOLDER, ".csv", self.limits.tables) {
            let table = name.trim_start_matches(layout::METRICS_FOLDER).trim_end_matches(".csv").to_owned();
            let limits = self.limits;
            match self.source.with(&name, |reader| metrics::read_table(&table, reader, limits)) {
                Ok((table, about)) => {
                    // A table without even its names was cut off before its first row.
                    if !table.columns.is_empty() {
                        tables.push(table);
                    }
                    self.warnings.extend(about);
                }
                Err(error) => self.left_out(&name, &error),
            }
        }
        tables
    }

    fn runtimes(&mut self) -> Vec<biopsy_model::runtime_trace::RuntimeTrace> {
        let names = self.names(layout::DOTNET_FOLDER, ".json", self.limits.tables);
        let read = |name: &String| self.json::<RuntimeTrace>(name).map(Into::into);
        names.iter().filter_map(read).collect()
    }

    fn looks(&mut self) -> Vec<biopsy_model::look::Look> {
        let names = self.names(layout::STACKS_FOLDER, ".json", self.limits.tables);
        names.iter().filter_map(|name| self.json::<Look>(name).map(Into::into)).collect()
    }

    fn logs(&mut self) -> Vec<biopsy_model::log::LogFile> {
        let mut found = Vec::new();
        let mut lines_left = self.limits.log_lines;
        for name in self.names(layout::LOGS_FOLDER, ".jsonl", self.limits.members) {
            let limits = self.limits;
            match self.source.with(&name, |reader| logs::read_log(&name, reader, limits, &mut lines_left)) {
                Ok((log, about)) => {
                    found.push(log);
                    self.warnings.extend(about);
                }
                Err(error) => self.left_out(&name, &error),
            }
        }
        found
    }

    fn context(&mut self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        // All texts together may have sixteen times what one may.
        let mut left = self.limits.context_bytes.saturating_mul(16);
        for name in self.names(layout::TARGET_FOLDER, "", self.limits.members) {
            if name == layout::PROCESSES {
                continue;
            }
            let limit = self.limits.context_bytes.min(left);
            let size = self.source.members().get(&name).copied().unwrap_or_default();
            let bytes = self.source.with(&name, |reader| {
                let mut bytes = Vec::new();
                reader.take(limit).read_to_end(&mut bytes).map(|_| bytes)
            });
            match bytes.and_then(std::convert::identity) {
                Ok(bytes) => {
                    left = left.saturating_sub(bytes.len() as u64);
                    if size > limit {
                        let message = format!("`{name}` shown up to {limit} of {size} bytes");
                        self.warnings.push(warning("recording.limit", message, None));
                    }
                    found.push((name, String::from_utf8_lossy(&bytes).into_owned()));
                }
                Err(error) => self.left_out(&name, &error),
            }
        }
        found
    }

    /// Members of a folder with an ending; at most `limit`.
    fn names(&mut self, folder: &str, ending: &str, limit: usize) -> Vec<String> {
        let all = self.source.members().keys();
        let matching = || all.clone().filter(|name| name.starts_with(folder) && name.ends_with(ending));
        let names: Vec<_> = matching().take(limit).cloned().collect();
        let there = matching().count();
        if there > limit {
            let message = format!("only {limit} of {there} members of `{folder}` are read");
            self.warnings.push(warning("recording.limit", message, None));
        }
        names
    }

    fn note(&mut self, name: &str, about: io::Result<Vec<Warning>>) {
        match about {
            Ok(about) => self.warnings.extend(about),
            Err(error) => self.left_out(name, &error),
        }
    }

    fn left_out(&mut self, name: &str, error: &io::Error) {
        self.warnings.push(warning("recording.unreadable", format!("`{name}` left out: {error}"), None));
    }
}

#[cfg(test)]
mod tests;
