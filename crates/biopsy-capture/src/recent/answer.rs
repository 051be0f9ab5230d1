//! What a recorder of the last minutes answers: lines that say what follows, then as many bytes.

use std::io::{self, BufRead, Read, Write};
use std::time::Duration;

use biopsy_model::loss::Warning;
use biopsy_model::metric::MetricTable;
use biopsy_model::runtime_trace::RuntimeTrace;
use biopsy_model::{ClockPair, MonoNanos};
use biopsy_recording::metrics::{TableWriter, read_table};
use biopsy_recording::{Limits, runtime_from_json, runtime_to_json};

use crate::recording::warning;

const MAGIC: &str = "biopsy recent 1";
/// Longest line, and most of them.
const LINE: u64 = 256;
const LINES: usize = 4096;
/// Most bytes of one part.
const PART: u64 = 256 << 20;

/// The last minutes of a process.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Recent {
    /// Everything is there from here ...
    pub(crate) begins: MonoNanos,
    /// ... up to here.
    pub(crate) until: MonoNanos,
    /// Samples per second and CPU.
    pub(crate) frequency_hz: u32,
    /// Waits at least this long were written one by one.
    pub(crate) wait_threshold: Duration,
    /// A whole timeline.
    pub(crate) timeline: Vec<u8>,
    /// Metrics.
    pub(crate) tables: Vec<MetricTable>,
    /// What runtimes said, by process.
    pub(crate) runtimes: Vec<RuntimeTrace>,
    /// What could not be heard of them, in a line each.
    pub(crate) unheard: Vec<String>,
}

impl Recent {
    /// How long it is.
    pub(crate) fn length(&self) -> Duration {
        Duration::from_nanos(self.until.since(self.begins).0)
    }

    /// How much of a recording it is, in words.
    pub(crate) fn kept(&self) -> String {
        format!("the first {:?} were kept in memory", Duration::from_secs(self.length().as_secs()))
    }

    /// What a reader should know of it.
    pub(crate) fn described(&self, what: &str) -> String {
        format!(
            "{what}, with {} samples a second, and of waits those of {} ms and longer",
            self.frequency_hz,
            self.wait_threshold.as_millis()
        )
    }

    /// What of it is not there, as warnings.
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        self.unheard.iter().map(|text| warning("dotnet.events", text.clone())).collect()
    }

    /// When it begins, on both clocks, by a later reading of both.
    pub(crate) fn begin(&self, later: &ClockPair) -> ClockPair {
        let earlier_by = i128::from(later.mono.0) - i128::from(self.begins.0);
        ClockPair { mono: self.begins, wall_unix_nanos: later.wall_unix_nanos - earlier_by, ..later.clone() }
    }

    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let threshold = u64::try_from(self.wait_threshold.as_nanos()).unwrap_or(u64::MAX);
        let mut parts = vec![(String::from("timeline"), self.timeline.clone())];
        for table in &self.tables {
            let keys: Vec<&str> = table.keys.iter().map(String::as_str).collect();
            let mut bytes = Vec::new();
            let mut writer = TableWriter::new(&mut bytes, &keys, &table.columns)?;
            table.rows.iter().try_for_each(|row| writer.append_row(row))?;
            writer.flush()?;
            drop(writer);
            parts.push((format!("table {}", table.name), bytes));
        }
        parts.push(("unheard".to_owned(), self.unheard.join("\n").into_bytes()));
        for trace in &self.runtimes {
            parts.push((format!("runtime {}", trace.pid), runtime_to_json(trace.clone())?));
        }
        let (begins, until) = (self.begins.0, self.until.0);
        let mut head = format!("{MAGIC}\n{begins} {until} {} {threshold}\n", self.frequency_hz);
        for (name, bytes) in &parts {
            head.push_str(&format!("{} {name}\n", bytes.len()));
        }
        head.push('\n');
        out.write_all(head.as_bytes())?;
        parts.iter().try_for_each(|(_, bytes)| out.write_all(bytes))?;
        out.flush()
    }

    pub(super) fn read(input: &mut impl BufRead) -> io::Result<Self> {
        let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        if line(input)? != MAGIC {
            return Err(bad("it is no answer"));
        }
        let numbers: Vec<u64> = line(input)?.split(' ').map_while(|word| word.parse().ok()).collect();
        let &[begins, until, frequency, threshold] = numbers.as_slice() else {
            return Err(bad("it does not say of which time it is"));
        };
        let mut parts = Vec::new();
        loop {
            let line = line(input)?;
            if line.is_empty() {
                break;
            }
            let (length, name) = line.split_once(' ').ok_or_else(|| bad("a part has no name"))?;
            let length = length.parse().ok().filter(|&length: &u64| length <= PART);
            parts.push((name.to_owned(), length.ok_or_else(|| bad("a part is too long"))?));
            if parts.len() > LINES {
                return Err(bad("there are too many parts"));
            }
        }
        let mut recent = Self {
            begins: MonoNanos(begins),
            until: MonoNanos(until.max(begins)),
            frequency_hz: u32::try_from(frequency).map_err(|_| bad("its frequency is none"))?,
            wait_threshold: Duration::from_nanos(threshold),
            timeline: Vec::new(),
            tables: Vec::new(),
            runtimes: Vec::new(),
            unheard: Vec::new(),
        };
        for (name, length) in parts {
            let mut bytes = Vec::new();
            if input.by_ref().take(length).read_to_end(&mut bytes)? as u64 != length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match name.split_once(' ').unwrap_or((&name, "")) {
                ("timeline", _) => recent.timeline = bytes,
                ("table", table) => {
                    recent.tables.push(read_table(table, bytes.as_slice(), &Limits::default()).0);
                }
                ("unheard", _) => {
                    recent.unheard = String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect();
                }
                ("runtime", _) => recent.runtimes.push(runtime_from_json(&bytes)?),
                // Of a newer recorder.
                _ => {}
            }
        }
        Ok(recent)
    }
}

/// The next line, without its end.
pub(super) fn line(input: &mut impl BufRead) -> io::Result<String> {
    let mut bytes = Vec::new();
    input.by_ref().take(LINE).read_until(b'\n', &mut bytes)?;
    match bytes.pop() {
        Some(b'\n') => String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into()),
        Some(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long, or has no end")),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use biopsy_model::Pid;
    use biopsy_model::metric::{Column, MetricRow, Unit};
    use biopsy_model::process::{Runtime, RuntimeKind};

    use super::*;

    fn recent() -> Recent {
        let row = |time| MetricRow {
            time: MonoNanos(time),
            keys: vec!["7".to_owned(), "a \"b\", c".to_owned()],
            values: vec![Some(1.5), None],
        };
        let column = |name: &str| Column { name: name.to_owned(), unit: Unit::Cores };
        Recent {
            begins: MonoNanos(1_000),
            until: MonoNanos(2_000),
            frequency_hz: 49,
            wait_threshold: Duration::from_millis(10),
            timeline: b"any\nbytes".to_vec(),
            tables: vec![MetricTable {
                name: "processes".to_owned(),
                keys: vec!["pid".to_owned(), "name".to_owned()],
                columns: vec![column("cpu.user"), column("cpu.system")],
                rows: vec![row(1_500), row(1_700)],
            }],
            runtimes: vec![RuntimeTrace::new(
                Pid(7),
                Runtime { kind: RuntimeKind::DotNet, version: Some("10.0.0".to_owned()), entry: None },
                "dotnet/7.nettrace".to_owned(),
            )],
            unheard: vec!["process 8 is not heard".to_owned(), "nor 9".to_owned()],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = Vec::new();
        recent().write(&mut bytes).unwrap();
        assert_eq!(Recent::read(&mut bytes.as_slice()).unwrap(), recent());
        for cut in 0..bytes.len() {
            assert!(Recent::read(&mut &bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn what_claims_too_much_is_refused() {
        let many = format!("{MAGIC}\n1 2 49 1\n{}\n", "0 x\n".repeat(5000));
        for text in [
            "hello\n".to_owned(),
            format!("{MAGIC}\n1 2 49\n\n"),
            format!("{MAGIC}\n1 2 49 1\n99999999999 timeline\n\n"),
            format!("{MAGIC}\n1 2 4900000000 1\n\n"),
            format!("{MAGIC}\n{}\n", "1".repeat(1000)),
            many,
        ] {
            assert!(Recent::read(&mut text.as_bytes()).is_err(), "{text:.60}");
        }
    }
}
