//! Logs as JSON lines: the first line says where the log came from, each other one is a line of it.
//!
//! ```text
//! {"source":"/var/log/mysql/error.log","assumed_zone":"Europe/Berlin"}
//! {"time_ns":81234567890,"level":"warning","text":"Aborted connection 7"}
//! {"text":"a line without a time stamp"}
//! ```

use std::io::{self, BufRead, BufReader, Read, Write};

use biopsy_model::MonoNanos;
use biopsy_model::log::{LogFile, LogLevel, LogLine};
use biopsy_model::loss::Warning;
use serde::{Deserialize, Serialize};

use crate::Limits;
use crate::documents::spellings;
use crate::warn::{plural, warning};

spellings!(level_text, level_of, LogLevel, unknown = LogLevel::Unknown, {
    "unknown" = LogLevel::Unknown,
    "debug" = LogLevel::Debug,
    "info" = LogLevel::Info,
    "warning" = LogLevel::Warning,
    "error" = LogLevel::Error,
});

/// Longest text of a line in bytes.
const MAX_TEXT: usize = 128 << 10;

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct FirstLine {
    source: String,
    assumed_zone: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    level: String,
    text: String,
}

/// Writes one log.
#[derive(Debug)]
pub struct LogWriter<W: Write> {
    out: io::BufWriter<W>,
    member: String,
}

impl<W: Write> LogWriter<W> {
    /// Begins a log that will be the member `member`.
    pub fn new(out: W, member: &str, source: &str, assumed_zone: &str) -> io::Result<Self> {
        let mut writer = Self { out: io::BufWriter::new(out), member: member.to_owned() };
        let first = FirstLine { source: source.to_owned(), assumed_zone: assumed_zone.to_owned() };
        writer.line(&first)?;
        Ok(writer)
    }

    /// Adds a line. Its text may contain line breaks (a record of several lines); more than 128 KiB of it is cut.
    pub fn push(&mut self, line: &LogLine) -> io::Result<()> {
        let level = match line.level {
            LogLevel::Unknown => String::new(),
            known => level_text(known).to_owned(),
        };
        let text = match line.text.get(..cut_at(&line.text)) {
            Some(start) if start.len() < line.text.len() => {
                format!("{start} [{} bytes cut]", line.text.len() - start.len())
            }
            _ => line.text.clone(),
        };
        self.line(&Line { time_ns: line.time.map(|time| time.0), level, text })
    }

    /// Name of the member.
    #[must_use]
    pub fn member(&self) -> &str {
        &self.member
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the log.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn line<T: Serialize>(&mut self, line: &T) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, line)?;
        self.out.write_all(b"\n")
    }
}

/// Where a text ends: JSON can make six bytes of one, and readers take lines of a MiB.
fn cut_at(text: &str) -> usize {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    end
}

/// Reads one log. `lines_left` bounds the lines of all logs together.
pub fn read_log(
    member: &str,
    reader: impl Read,
    limits: &Limits,
    lines_left: &mut usize,
) -> (LogFile, Vec<Warning>) {
    let mut log = LogFile {
        source: member.to_owned(),
        member: member.to_owned(),
        assumed_zone: String::new(),
        lines: Vec::new(),
    };
    let mut first = true;
    let warnings = read_lines(member, reader, limits, |bytes| {
        if std::mem::take(&mut first) {
            let Ok(line) = serde_json::from_slice::<FirstLine>(bytes) else { return Verdict::Bad };
            (log.source, log.assumed_zone) = (line.source, line.assumed_zone);
            return Verdict::Good;
        }
        let Ok(line) = serde_json::from_slice::<Line>(bytes) else { return Verdict::Bad };
        if *lines_left == 0 {
            return Verdict::Full;
        }
        *lines_left -= 1;
        log.lines.push(LogLine {
            time: line.time_ns.map(MonoNanos),
            level: level_of(&line.level),
            text: line.text,
        });
        Verdict::Good
    });
    (log, warnings)
}

/// What became of a line.
pub(crate) enum Verdict {
    Good,
    Bad,
    /// There is no room for more.
    Full,
}

/// Goes through the lines of a JSON-lines member, each bounded; a last one without a line end was cut off.
pub(crate) fn read_lines(
    member: &str,
    reader: impl Read,
    limits: &Limits,
    mut each: impl FnMut(&[u8]) -> Verdict,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut reader = BufReader::new(reader.take(limits.member_bytes));
    let mut line = Vec::new();
    let mut bad = 0_u64;
    loop {
        line.clear();
        match (&mut reader).take(limits.line_bytes as u64).read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                let message = format!("`{member}` not read to its end: {error}");
                warnings.push(warning("recording.cut-short", message, None));
                break;
            }
        }
        if line.last() != Some(&b'\n') {
            if line.len() < limits.line_bytes {
                let message = format!("the last line of `{member}` is cut short and left out");
                warnings.push(warning("recording.cut-short", message, None));
                break;
            }
            bad += 1;
            if skip_line(&mut reader).is_err() {
                break;
            }
            continue;
        }
        match each(&line) {
            Verdict::Good => {}
            Verdict::Bad => bad += 1,
            Verdict::Full => {
                let message = format!("`{member}` not read to its end: too many lines");
                warnings.push(warning("recording.limit", message, None));
                break;
            }
        }
    }
    if bad > 0 {
        let message = format!("{} of `{member}` not readable, left out", plural(bad, "line"));
        warnings.push(warning("recording.bad-lines", message, None));
    }
    warnings
}

/// Moves behind the next line end without holding the line.
fn skip_line(reader: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        match buffer.iter().position(|&byte| byte == b'\n') {
            Some(index) => {
                reader.consume(index + 1);
                return Ok(());
            }
            None => {
                let length = buffer.len();
                reader.consume(length);
            }
        }
    }
}

#[cfg(test)]
mod tests;
