//! Lines into records: lines without a time stamp belong to the one before, and records are cut to the window.

use std::io::{self, BufRead};
use std::time::Instant;

use biopsy_model::log::LogLevel;

use super::code_page::CodePage;
use super::level::find_level;
use super::stamp::{Stamp, find_stamp};
use super::text::read_line;
use super::zone::Resolver;

/// Lines and bytes in front of a file's first time stamp that are looked at.
const HEAD_LINES: u32 = 100;
const HEAD_BYTES: usize = 16 << 10;
/// Bytes and lines of one record that are kept: a stack trace of 1,000 frames fits.
const RECORD_BYTES: usize = 256 << 10;
const RECORD_LINES: u32 = 2_000;

/// What is taken.
#[derive(Clone, Debug)]
pub(crate) enum Cut {
    /// Records whose time is in the window, both ends included, nanoseconds since 1970.
    Window {
        /// Reads the stamps.
        resolver: Resolver,
        /// From.
        from: i128,
        /// Until.
        to: i128,
        /// What lies behind so many bytes was written during the recording, whatever its stamps say.
        sure_from: u64,
    },
    /// Every line: nothing in the file says when, but it was written during the recording.
    Everything,
}

/// One record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    /// Nanoseconds since 1970.
    pub(crate) time: Option<i128>,
    pub(crate) level: LogLevel,
    pub(crate) text: String,
}

/// What was seen while reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    /// Records handed on, and the bytes of their texts.
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    /// Lines longer than what is kept of one, and the bytes that were left out.
    pub(crate) long_lines: u64,
    pub(crate) cut_bytes: u64,
    /// Lines that were not UTF-8, and the code page they were read in, if it is one.
    pub(crate) not_utf8: u64,
    pub(crate) code_page: Option<&'static str>,
    /// The time stamp that was read last.
    pub(crate) newest: Option<Stamp>,
    /// Bytes read.
    pub(crate) read: u64,
    /// The deadline came before the end.
    pub(crate) out_of_time: bool,
}

/// What stands in front of the first time stamp of a file, as one record: names of fields, banners. `reader` is at its start. `None`:
/// nothing does, or so much that it is no head.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn read_head(reader: &mut impl BufRead) -> io::Result<Option<Record>> {
    let mut line = Vec::new();
    let mut head: Option<Building> = None;
    let mut page = CodePage::new();
    while let Some(info) = read_line(reader, &mut line)? {
        if find_stamp(&line).is_some() {
            return Ok(head.map(Building::record).filter(|head| !head.text.is_empty()));
        }
        match &mut head {
            Some(head) => head.add(&page.text(&line)),
            None => head = Some(Building::new(None, &line, &page.text(&line))),
        }
        let is_head = |head: &Building| head.lines <= HEAD_LINES && head.text.len() <= HEAD_BYTES;
        if info.cut > 0 || !head.as_ref().is_some_and(is_head) {
            break;
        }
    }
    Ok(None)
}

/// Reads to the end of `reader` and hands on the records that `cut` takes.
///
/// # Errors
/// `Err(Ok(error))` is one of `each`, `Err(Err(error))` one of reading: what was read until then was handed on.
pub(crate) fn read_records<E>(
    reader: &mut impl BufRead,
    cut: &Cut,
    until: Instant,
    seen: &mut Seen,
    mut each: impl FnMut(Record) -> Result<(), E>,
) -> Result<(), Result<E, io::Error>> {
    let mut line = Vec::new();
    let mut open: Option<Building> = None;
    let mut page = CodePage::new();
    let mut lines = 0_u64;
    let ended = loop {
        lines += 1;
        if lines.is_multiple_of(1024) && Instant::now() > until {
            seen.out_of_time = true;
            break Ok(());
        }
        let info = match read_line(reader, &mut line) {
            Ok(Some(info)) => info,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        let at = seen.read;
        seen.read += info.read;
        let starts = match cut {
            Cut::Everything => Some((None, true)),
            Cut::Window { resolver, from, to, sure_from } => {
                let sure = at >= *sure_from;
                match find_stamp(&line) {
                    Some(stamp) => {
                        seen.newest = Some(stamp);
                        // A time outside of the window is wrong where the line is inside for sure.
                        let time = resolver.resolve(stamp);
                        let inside = time.filter(|time| (*from..=*to).contains(time));
                        Some((inside, inside.is_some() || sure))
                    }
                    None if sure && open.is_none() => Some((None, true)),
                    None => None,
                }
            }
        };
        match starts {
            Some((time, wanted)) => {
                finish(open.take(), seen, &mut each).map_err(Ok)?;
                if wanted {
                    open = Some(Building::new(time, &line, &page.text(&line)));
                }
            }
            None => {
                if let Some(open) = &mut open {
                    open.add(&page.text(&line));
                }
            }
        }
        if let Some(open) = &mut open {
            open.note(info.cut, &line, seen);
        }
    };
    seen.code_page = page.name();
    finish(open.take(), seen, &mut each).map_err(Ok)?;
    ended.map_err(Err)
}

fn finish<E>(
    open: Option<Building>,
    seen: &mut Seen,
    each: &mut impl FnMut(Record) -> Result<(), E>,
) -> Result<(), E> {
    let Some(open) = open else { return Ok(()) };
    let record = open.record();
    seen.records += 1;
    seen.bytes += record.text.len() as u64;
    each(record)
}

/// A record that may get further lines.
struct Building {
    time: Option<i128>,
    level: LogLevel,
    text: String,
    lines: u32,
    left_out: u64,
}

impl Building {
    fn new(time: Option<i128>, line: &[u8], text: &str) -> Building {
        Building { time, level: find_level(line), text: text.to_owned(), lines: 1, left_out: 0 }
    }

    fn add(&mut self, line: &str) {
        if self.lines >= RECORD_LINES || self.text.len() + line.len() > RECORD_BYTES {
            self.left_out += 1;
            return;
        }
        self.lines += 1;
        self.text.push('\n');
        self.text.push_str(line);
    }

    /// Says in the text and in the counts what was left out of the line that was just taken.
    fn note(&mut self, cut: u64, line: &[u8], seen: &mut Seen) {
        if cut > 0 {
            seen.long_lines += 1;
            seen.cut_bytes += cut;
            if self.left_out == 0 {
                self.text.push_str(&format!(" [... {cut} more bytes of this line left out]"));
            }
        }
        if std::str::from_utf8(line).is_err() {
            seen.not_utf8 += 1;
        }
    }

    fn record(mut self) -> Record {
        if self.left_out > 0 {
            self.text.push_str(&format!("\n[... {} more lines of this record left out]", self.left_out));
        }
        // Blank lines between records.
        self.text.truncate(self.text.trim_end().len());
        Record { time: self.time, level: self.level, text: self.text }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    use super::*;

    const TEN: i128 = 1_795_255_200_000_000_000;
    const SECOND: i128 = 1_000_000_000;

    fn take(text: &[u8], cut: &Cut) -> (Vec<Record>, Seen) {
        let (mut records, mut seen) = (Vec::new(), Seen::default());
        let until = Instant::now() + Duration::from_secs(60);
        let mut reader = text;
        let result = read_records(&mut reader, cut, until, &mut seen, |record| {
            records.push(record);
            Ok::<(), Infallible>(())
        });
        assert!(result.is_ok());
        (records, seen)
    }

    fn window(from: i128, to: i128) -> Cut {
        let resolver = Resolver::new(TimeZone::UTC, TEN);
        Cut::Window { resolver, from: TEN + from * SECOND, to: TEN + to * SECOND, sure_from: u64::MAX }
    }

    #[test]
    fn records_of_several_lines_stay_together() {
        let text = b"left over of an older record\n\
            2026-11-21 09:59:50 INFO before\n  at before\n\
            2026-11-21 10:00:00 ERROR boom\n  at a\n\n  at b\n\
            2026-11-21 10:00:05 INFO fine\n\
            2026-11-21 10:00:11 INFO after\n  at after\n";
        let (records, seen) = take(text, &window(0, 10));
        let texts: Vec<&str> = records.iter().map(|record| record.text.as_str()).collect();
        assert_eq!(
            texts,
            ["2026-11-21 10:00:00 ERROR boom\n  at a\n\n  at b", "2026-11-21 10:00:05 INFO fine"]
        );
        assert_eq!(records[0].time, Some(TEN));
        assert_eq!((records[0].level, records[1].level), (LogLevel::Error, LogLevel::Info));
        assert_eq!(seen.records, 2);
    }

    #[test]
    fn what_was_written_during_the_recording_is_inside_whatever_it_says() {
        let before = "2026-11-21 03:00:00 INFO old\n  at old\n";
        let text =
            format!("{before}  at new\n2026-11-21 03:00:05 INFO new\n  at newer\n2026-11-21 10:00:05 x\n");
        let Cut::Window { resolver, from, to, .. } = window(0, 10) else { panic!("it is a window") };
        let cut = Cut::Window { resolver, from, to, sure_from: before.len() as u64 };
        let (records, _) = take(text.as_bytes(), &cut);
        let texts: Vec<&str> = records.iter().map(|record| record.text.as_str()).collect();
        assert_eq!(texts, ["  at new", "2026-11-21 03:00:05 INFO new\n  at newer", "2026-11-21 10:00:05 x"]);
        assert_eq!([records[1].time, records[2].time], [None, Some(TEN + 5 * SECOND)]);
    }

    #[test]
    fn a_head_ends_at_the_first_stamp() {
        let head = |text: &str| {
            let mut reader = text.as_bytes();
            read_head(&mut reader).expect("memory").map(|head| head.text)
        };
        let stamp = "2026-11-21 10:00:00 GET / 200\n";
        assert_eq!(
            head(&format!("#Software: x\n#Fields: date time cs-method\n{stamp}")).as_deref(),
            Some("#Software: x\n#Fields: date time cs-method")
        );
        assert_eq!(head(stamp), None);
        assert_eq!(head(&format!("\n \n{stamp}")), None);
        assert_eq!(head("no stamp\nat all\n"), None);
        assert_eq!(head(&format!("{}{stamp}", "x\n".repeat(1000))), None, "as much is no head");
        assert_eq!(head(&format!("{}\n{stamp}", "x".repeat(70_000))), None);
    }

    #[test]
    fn everything_is_line_by_line() {
        let (records, _) = take(b"ERROR one\n  two\n", &Cut::Everything);
        assert_eq!(records.len(), 2);
        assert_eq!((records[0].time, records[0].level), (None, LogLevel::Error));
    }

    #[test]
    fn what_is_left_out_is_said() {
        let mut text = b"2026-11-21 10:00:00 ".to_vec();
        text.extend(vec![b'x'; 70_000]);
        text.extend(b"\n2026-11-21 10:00:01 y\n");
        for _ in 0..3_000 {
            text.extend(b"  at y\n");
        }
        text.extend(b"2026-11-21 10:00:02 Gr\xfc\xdfe\n");
        let (records, seen) = take(&text, &window(0, 10));
        assert!(records[0].text.ends_with("x [... 4484 more bytes of this line left out]"));
        assert!(records[1].text.ends_with("at y\n[... 1001 more lines of this record left out]"));
        assert_eq!(records[2].text, "2026-11-21 10:00:02 Gr\u{fc}\u{df}e");
        assert_eq!(seen.code_page, Some("windows-1252"));
        assert_eq!((seen.long_lines, seen.cut_bytes, seen.not_utf8), (1, 4484, 1));
    }

    #[test]
    fn the_deadline_ends_reading() {
        let text = b"2026-11-21 10:00:00 x\n".repeat(5_000);
        let mut seen = Seen::default();
        let mut reader = text.as_slice();
        let done =
            read_records(&mut reader, &window(0, 1), Instant::now(), &mut seen, |_| Ok::<(), Infallible>(()));
        assert!(done.is_ok() && seen.out_of_time && seen.records < 5_000);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text in proptest::collection::vec(any::<u8>(), 0..500)) {
            take(&text, &Cut::Everything);
            take(&text, &window(-1_000_000_000, 1_000_000_000));
        }

        #[test]
        fn exactly_the_window_is_taken(mut seconds in proptest::collection::vec(0_i128..1000, 0..50), from in 0_i128..1000, length in 0_i128..500) {
            seconds.sort_unstable();
            let mut text = String::new();
            for second in &seconds {
                let moment = jiff::Timestamp::from_nanosecond(TEN + second * SECOND).expect("in range");
                text.push_str(&format!("{moment} line\n\tcontinued\n"));
            }
            let (records, _) = take(text.as_bytes(), &window(from, from + length));
            let taken: Vec<i128> = records.iter().filter_map(|r| Some((r.time? - TEN) / SECOND)).collect();
            let wanted: Vec<i128> = seconds.into_iter().filter(|s| (from..=from + length).contains(s)).collect();
            prop_assert_eq!(taken, wanted);
        }
    }
}
