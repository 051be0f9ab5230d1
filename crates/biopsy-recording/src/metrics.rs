//! Metric tables as CSV.
//!
//! ```text
//! time_ns,device,read.throughput[B/s],busy[ratio]
//! 81234567890,sda,1048576,0.25
//! 81234567890,sdb,,0
//! ```
//!
//! The first column is the time, columns without a unit are keys, an empty number could not be read. Quoting is that
//! of RFC 4180; lines end in `\n`; a last line without one was cut off and is left out.

use std::io::{self, BufReader, Read, Write};

use biopsy_model::MonoNanos;
use biopsy_model::loss::Warning;
use biopsy_model::metric::{Column, MetricRow, MetricTable, Unit};

use crate::Limits;
use crate::documents::spellings;
use crate::warn::{plural, warning};

/// Name of the first column.
const TIME: &str = "time_ns";

// `Count` is written `[n]`, so that every numeric column has brackets and every key has none.
spellings!(unit_text, unit_of, Unit, unknown = Unit::Count, {
    "n" = Unit::Count,
    "1/s" = Unit::PerSecond,
    "cores" = Unit::Cores,
    "ratio" = Unit::Ratio,
    "B" = Unit::Bytes,
    "B/s" = Unit::BytesPerSecond,
    "ms" = Unit::Milliseconds,
});

/// Appends rows to a table. Rows are collected; [`TableWriter::flush`] writes them, whole lines in one `write`.
#[derive(Debug)]
pub struct TableWriter<W: Write> {
    out: W,
    pending: csv::Writer<Vec<u8>>,
    keys: usize,
    columns: usize,
}

impl<W: Write> TableWriter<W> {
    /// Begins a table: writes the line with the names.
    pub fn new(out: W, keys: &[&str], columns: &[Column]) -> io::Result<Self> {
        let mut writer = Self {
            out,
            pending: csv::Writer::from_writer(Vec::new()),
            keys: keys.len(),
            columns: columns.len(),
        };
        let names = std::iter::once(TIME.to_owned())
            .chain(keys.iter().map(|&key| key.to_owned()))
            .chain(columns.iter().map(|column| format!("{}[{}]", column.name, unit_text(column.unit))));
        writer.pending.write_record(names)?;
        writer.flush()?;
        Ok(writer)
    }

    /// Adds a row. Its keys and values must be as many as the table has.
    pub fn append_row(&mut self, row: &MetricRow) -> io::Result<()> {
        if row.keys.len() != self.keys || row.values.len() != self.columns {
            let problem = format!(
                "a row of {} keys and {} values for a table of {} and {}",
                row.keys.len(),
                row.values.len(),
                self.keys,
                self.columns
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        self.pending.write_field(row.time.0.to_string())?;
        for key in &row.keys {
            self.pending.write_field(key)?;
        }
        for value in &row.values {
            // What is not a number could not be read.
            match value.filter(|value| value.is_finite()) {
                Some(value) => self.pending.write_field(number(value))?,
                None => self.pending.write_field("")?,
            }
        }
        self.pending.write_record(None::<&[u8]>)?;
        Ok(())
    }

    /// Writes what was appended. Call it once a reading; rows not flushed do not survive a kill.
    pub fn flush(&mut self) -> io::Result<()> {
        let empty = csv::Writer::from_writer(Vec::new());
        let bytes = std::mem::replace(&mut self.pending, empty)
            .into_inner()
            .map_err(|error| io::Error::from(error.error().kind()))?;
        self.out.write_all(&bytes)?;
        self.out.flush()
    }
}

/// The shortest text that reads back as the same number.
fn number(value: f64) -> String {
    if value == 0.0 || (1e-5..1e17).contains(&value.abs()) {
        format!("{value}")
    } else {
        format!("{value:e}")
    }
}

/// Reads a table. What cannot be read is left out, counted and warned of.
pub fn read_table(name: &str, reader: impl Read, limits: &Limits) -> (MetricTable, Vec<Warning>) {
    let mut table = MetricTable { name: name.to_owned(), ..MetricTable::default() };
    let mut warnings = Vec::new();
    let input = Bounded::new(reader, limits);
    let mut csv =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(BufReader::new(input));
    let mut record = csv::StringRecord::new();
    let mut bad_rows = 0_u64;
    let mut time_of_last = MonoNanos(0);
    let mut header_read = false;
    let mut last_was_bad = false;
    let is_at_end = loop {
        csv.get_mut().get_mut().in_record = 0;
        match csv.read_record(&mut record) {
            Ok(false) => break true,
            Ok(true) if !header_read => {
                header_read = true;
                if !read_names(&record, &mut table, limits) {
                    warnings.push(warning(
                        "recording.bad-table",
                        format!("metric table `{name}` left out: its first line is not understood"),
                        None,
                    ));
                    return (table, warnings);
                }
            }
            Ok(true) => match read_row(&record, &table) {
                Some(_) if table.rows.len() >= limits.rows => {
                    let message =
                        format!("metric table `{name}` not read to its end: more than {} rows", limits.rows);
                    warnings.push(warning("recording.limit", message, None));
                    break false;
                }
                Some(row) => {
                    last_was_bad = false;
                    time_of_last = time_of_last.max(row.time);
                    table.rows.push(row);
                }
                None => (bad_rows, last_was_bad) = (bad_rows + 1, true),
            },
            Err(error) => match error.kind() {
                csv::ErrorKind::Utf8 { .. } => (bad_rows, last_was_bad) = (bad_rows + 1, true),
                _ => {
                    let message = format!("metric table `{name}` not read to its end: {error}");
                    warnings.push(warning("recording.cut-short", message, None));
                    break false;
                }
            },
        }
    };
    // Where reading ended before the end, the last byte that was read says nothing.
    if is_at_end && csv.get_ref().get_ref().cut_short() {
        // The last record is what was being written; it was read because the end of the file ends a line, too.
        if last_was_bad {
            bad_rows -= 1;
        } else {
            table.rows.pop();
        }
        let mut cut = warning(
            "recording.cut-short",
            format!("the last line of metric table `{name}` is cut short and left out"),
            None,
        );
        cut.time = Some(time_of_last);
        warnings.push(cut);
    }
    if bad_rows > 0 {
        let message = format!("{} of metric table `{name}` not readable, left out", plural(bad_rows, "row"));
        warnings.push(warning("recording.bad-rows", message, None));
    }
    table.rows.sort_by_key(|row| row.time);
    (table, warnings)
}

fn read_names(record: &csv::StringRecord, table: &mut MetricTable, limits: &Limits) -> bool {
    if record.get(0) != Some(TIME) || record.len() > limits.columns {
        return false;
    }
    for field in record.iter().skip(1) {
        match field.strip_suffix(']').and_then(|field| field.rsplit_once('[')) {
            Some((name, unit)) => {
                table.columns.push(Column { name: name.to_owned(), unit: unit_of(unit) });
            }
            // Keys come before numbers.
            None if table.columns.is_empty() => table.keys.push(field.to_owned()),
            None => return false,
        }
    }
    true
}

fn read_row(record: &csv::StringRecord, table: &MetricTable) -> Option<MetricRow> {
    if record.len() != 1 + table.keys.len() + table.columns.len() {
        return None;
    }
    let mut fields = record.iter();
    let time = MonoNanos(fields.next()?.parse().ok()?);
    let keys = fields.by_ref().take(table.keys.len()).map(str::to_owned).collect();
    let mut values = Vec::with_capacity(table.columns.len());
    for field in fields {
        values.push(match field {
            "" => None,
            text => Some(text.parse::<f64>().ok().filter(|value| value.is_finite())?),
        });
    }
    Some(MetricRow { time, keys, values })
}

/// Passes bytes on up to a limit, for all and for one record, and remembers the last one.
struct Bounded<R> {
    reader: io::Take<R>,
    last: Option<u8>,
    /// Bytes read since the last record began; the CSV reader would collect a record of any size.
    in_record: usize,
    record_limit: usize,
}

impl<R: Read> Bounded<R> {
    fn new(reader: R, limits: &Limits) -> Self {
        Self {
            reader: reader.take(limits.member_bytes),
            last: None,
            in_record: 0,
            record_limit: limits.line_bytes,
        }
    }

    fn cut_short(&self) -> bool {
        self.last.is_some_and(|last| last != b'\n')
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        if let Some(&last) = buffer.get(..count).and_then(<[u8]>::last) {
            self.last = Some(last);
        }
        self.in_record += count;
        // Buffers between here and there hold less than twice the limit more.
        if self.in_record > self.record_limit.saturating_mul(2) {
            let problem = format!("a row of more than {} bytes", self.record_limit);
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
