//! Records on their way into the recording: masked, on the recording's clock.

use biopsy_model::log::LogLine;
use biopsy_model::loss::Warning;
use biopsy_model::{ClockPair, MonoNanos};
use biopsy_recording::logs::LogWriter;
use biopsy_recording::{MemberFile, RecordingFolder, WriteError};
use biopsy_redact::LineRedactor;

use super::records::Record;
use crate::masking::Masking;

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

/// Writes the records of one source; its member is created with the first one.
pub(crate) struct Output<'a> {
    folder: &'a RecordingFolder,
    masking: &'a Masking,
    start: &'a ClockPair,
    source: String,
    zone: String,
    /// Remembers from line to line that a private key is going on.
    lines: LineRedactor<'a>,
    writer: Option<LogWriter<MemberFile>>,
    pub(crate) taken: CollectedLog,
}

impl<'a> Output<'a> {
    pub(crate) fn new(
        folder: &'a RecordingFolder,
        masking: &'a Masking,
        start: &'a ClockPair,
        source: &str,
        zone: &str,
    ) -> Output<'a> {
        let taken = CollectedLog { source: String::new(), member: String::new(), records: 0, bytes: 0 };
        Output {
            folder,
            masking,
            start,
            source: source.to_owned(),
            zone: zone.to_owned(),
            lines: masking.redactor().lines(),
            writer: None,
            taken,
        }
    }

    /// Writes one record.
    ///
    /// # Errors
    /// When the recording cannot be written.
    pub(crate) fn push(&mut self, record: &Record) -> Result<(), WriteError> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let source = self.masking.text("logs/", &self.source).into_owned();
                let writer = self.folder.log(&source, &self.zone)?;
                writer.member().clone_into(&mut self.taken.member);
                self.taken.source = source;
                self.writer.insert(writer)
            }
        };
        let text = mask(&mut self.lines, self.masking, &self.taken.member, &record.text);
        self.taken.records += 1;
        self.taken.bytes += text.len() as u64;
        let time = record.time.and_then(|time| on_recording_clock(time, self.start));
        let line = LogLine { time, level: record.level, text };
        writer.push(&line).map_err(|source| write_error(self.folder, &self.taken.member, source))
    }

    /// Ends the member. `None`: nothing was written.
    ///
    /// # Errors
    /// When the recording cannot be written.
    pub(crate) fn finish(self) -> Result<Option<CollectedLog>, WriteError> {
        let Some(writer) = self.writer else { return Ok(None) };
        writer.finish().map_err(|source| write_error(self.folder, &self.taken.member, source))?;
        Ok(Some(self.taken))
    }
}

/// Masks a record: line by line, since a key may go on over records, and then as a whole.
fn mask(lines: &mut LineRedactor<'_>, masking: &Masking, member: &str, text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            masked.push('\n');
        }
        let redacted = lines.line(line);
        masking.log().add(member, &redacted.hits);
        masked.push_str(&redacted.text);
    }
    if text.contains('\n') { masking.text(member, &masked).into_owned() } else { masked }
}

/// Nanoseconds since 1970 as a moment of the recording's clock; `None`: before that clock began (boot).
fn on_recording_clock(time: i128, start: &ClockPair) -> Option<MonoNanos> {
    let moment = i128::from(start.mono.0) + (time - start.wall_unix_nanos);
    u64::try_from(moment).ok().map(MonoNanos)
}

fn write_error(folder: &RecordingFolder, member: &str, source: std::io::Error) -> WriteError {
    let path = folder.path().join(member);
    match source.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            WriteError::DiskFull { doing: "write", path, kept: None, source }
        }
        _ => WriteError::Io { doing: "write", path, source },
    }
}
