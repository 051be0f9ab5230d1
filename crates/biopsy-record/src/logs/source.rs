//! One log file: where in it the window begins, without reading what lies before.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::time::SystemTime;

use jiff::tz::TimeZone;

use super::rotated::Packing;
use super::stamp::{Stamp, find_stamp};
use super::text::{Encoding, Utf16Reader, find_encoding, read_line};
use super::zone::{Resolver, choose_zone};

/// Bytes that are looked at to tell the encoding, and to find time stamps.
const SAMPLE: u64 = 4 << 10;
const STAMP_SAMPLE: u64 = 256 << 10;

/// The search for the start of the window ends at this many bytes, and starts reading as many before it:
/// threads write their lines a little out of order.
const SEARCH_ENDS: u64 = 256 << 10;

/// Bytes of a compressed file after unpacking that are read: a bomb unpacks to a thousand times its size.
pub(crate) const UNPACKED: u64 = 1 << 30;

/// What is known of a plain file before its lines are read.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) encoding: Encoding,
    /// Some line has a time stamp.
    pub(crate) has_stamps: bool,
    /// The newest one, from the end of the file.
    pub(crate) newest: Option<Stamp>,
}

/// Looks at the two ends of a file of `size` bytes.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn survey(file: &File, size: u64) -> io::Result<Survey> {
    let head = raw(file, 0, SAMPLE)?;
    let tail = raw(file, size.saturating_sub(SAMPLE) & !1, SAMPLE)?;
    let encoding = find_encoding(&head, &tail);
    if encoding == Encoding::Binary {
        return Ok(Survey { encoding, has_stamps: false, newest: None });
    }
    let newest = stamps(file, size.saturating_sub(STAMP_SAMPLE), size, encoding)?.last().copied();
    let has_stamps = newest.is_some() || !stamps(file, 0, STAMP_SAMPLE.min(size), encoding)?.is_empty();
    Ok(Survey { encoding, has_stamps, newest })
}

/// The stamps of the whole lines between two places.
fn stamps(file: &File, from: u64, to: u64, encoding: Encoding) -> io::Result<Vec<Stamp>> {
    let (mut reader, _) = lines_from(file, from, to, encoding)?;
    let (mut line, mut found) = (Vec::new(), Vec::new());
    while read_line(&mut reader, &mut line)?.is_some() {
        found.extend(find_stamp(&line));
    }
    Ok(found)
}

/// A reader of the lines that begin between `from` (or right after the line that goes over it) and `to`, and
/// where in the file its first line is (of UTF-16: about where).
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn lines_from(
    file: &File,
    from: u64,
    to: u64,
    encoding: Encoding,
) -> io::Result<(Box<dyn BufRead>, u64)> {
    // One character earlier: if that is a line end, the line at `from` is whole.
    let wide = encoding != Encoding::Bytes;
    let start = if wide { (from & !1).saturating_sub(2) } else { from.saturating_sub(1) };
    let mut file = file.try_clone()?;
    file.seek(SeekFrom::Start(start))?;
    let bytes = BufReader::with_capacity(64 << 10, file).take(to.saturating_sub(start));
    let mut reader: Box<dyn BufRead> = match encoding {
        Encoding::Utf16Le => Box::new(BufReader::new(Utf16Reader::new(bytes, false))),
        Encoding::Utf16Be => Box::new(BufReader::new(Utf16Reader::new(bytes, true))),
        Encoding::Bytes | Encoding::Binary => Box::new(bytes),
    };
    let skipped = if from > 0 { skip_line(&mut reader)? } else { 0 };
    Ok((reader, start + skipped))
}

/// Returns how many bytes were skipped.
fn skip_line(reader: &mut impl BufRead) -> io::Result<u64> {
    let mut skipped = 0;
    loop {
        let ready = reader.fill_buf()?;
        let end = memchr::memchr(b'\n', ready);
        let used = end.map_or(ready.len(), |end| end + 1);
        reader.consume(used);
        skipped += used as u64;
        if end.is_some() || used == 0 {
            return Ok(skipped);
        }
    }
}

fn raw(file: &File, from: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut file = file.try_clone()?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Finds a place at or before the first record of the window, by halving: lines are in the order of time, as
/// good as that is in logs. Not before `lowest`.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn find_start(
    file: &File,
    lowest: u64,
    size: u64,
    encoding: Encoding,
    resolver: &Resolver,
    from: i128,
) -> io::Result<u64> {
    let (mut low, mut high) = (lowest, size);
    while high.saturating_sub(low) > SEARCH_ENDS {
        let middle = low + (high - low) / 2;
        match first_time(file, middle, high, encoding, resolver)? {
            Some(time) if time < from => low = middle,
            // Later, or no stamp up to there (a long trace): the start is before it, or it does no harm.
            _ => high = middle,
        }
    }
    Ok(low.saturating_sub(SEARCH_ENDS).max(lowest))
}

/// The time of the first stamped line after a place.
fn first_time(
    file: &File,
    place: u64,
    high: u64,
    encoding: Encoding,
    resolver: &Resolver,
) -> io::Result<Option<i128>> {
    let to = high.min(place.saturating_add(STAMP_SAMPLE));
    let (mut reader, _) = lines_from(file, place, to, encoding)?;
    let mut line = Vec::new();
    while read_line(&mut reader, &mut line)?.is_some() {
        if let Some(time) = find_stamp(&line).and_then(|stamp| resolver.resolve(stamp)) {
            return Ok(Some(time));
        }
    }
    Ok(None)
}

/// Unpacks a compressed file, up to [`UNPACKED`] bytes.
///
/// # Errors
/// When it cannot be read or is not of that kind.
pub(crate) fn unpack(file: &File, packing: Packing) -> io::Result<Box<dyn BufRead>> {
    let mut file = file.try_clone()?;
    file.seek(SeekFrom::Start(0))?;
    let unpacked: Box<dyn Read> = match packing {
        Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::new(file))),
        // The window that a frame asks for is limited by the library to 128 MiB.
        Packing::Zstd => Box::new(zstd::stream::read::Decoder::new(file)?),
        Packing::Plain | Packing::Other => Box::new(file),
    };
    let mut bytes = BufReader::with_capacity(64 << 10, unpacked.take(UNPACKED));
    let head = bytes.fill_buf()?;
    let encoding = find_encoding(head.get(..head.len().min(4096)).unwrap_or_default(), &[]);
    Ok(match encoding {
        Encoding::Utf16Le => Box::new(BufReader::new(Utf16Reader::new(bytes, false))),
        Encoding::Utf16Be => Box::new(BufReader::new(Utf16Reader::new(bytes, true))),
        Encoding::Bytes => Box::new(bytes),
        Encoding::Binary => return Err(io::Error::new(io::ErrorKind::InvalidData, "it holds no text")),
    })
}

/// The zone to read a file's stamps in, told by its newest one and its modification time.
pub(crate) fn zone_of(
    zone: &(TimeZone, String),
    near: i128,
    newest: Option<Stamp>,
    modified: Option<SystemTime>,
) -> (Resolver, String) {
    let modified = modified
        .and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok())
        .and_then(|since| i128::try_from(since.as_nanos()).ok());
    choose_zone(&zone.0, &zone.1, near, newest, modified)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const TEN: i128 = 1_795_255_200_000_000_000;
    const SECOND: i128 = 1_000_000_000;

    /// A line each second from ten o'clock on, of about `width` bytes.
    fn log(seconds: i128, width: usize, wide: bool) -> (File, u64) {
        let mut file = tempfile::tempfile().expect("a temporary file");
        let mut bytes = Vec::new();
        for second in 0..seconds {
            let moment = jiff::Timestamp::from_nanosecond(TEN + second * SECOND).expect("in range");
            let line = format!("{moment} {}\n  continued\n", "x".repeat(width));
            match wide {
                true => bytes.extend(line.encode_utf16().flat_map(u16::to_le_bytes)),
                false => bytes.extend(line.bytes()),
            }
        }
        file.write_all(&bytes).expect("write");
        (file, bytes.len() as u64)
    }

    #[track_caller]
    fn check_start(seconds: i128, width: usize, wide: bool, from: i128) {
        let (file, size) = log(seconds, width, wide);
        let survey = survey(&file, size).expect("readable");
        assert_eq!(survey.encoding, if wide { Encoding::Utf16Le } else { Encoding::Bytes });
        assert_eq!(survey.newest, Some(Stamp::Absolute(TEN + (seconds - 1) * SECOND)));
        let resolver = Resolver::new(TimeZone::UTC, TEN);
        let wanted = TEN + from * SECOND;
        let start = find_start(&file, 0, size, survey.encoding, &resolver, wanted).expect("readable");
        let first = first_time(&file, start, size, survey.encoding, &resolver).expect("readable");
        assert!(start == 0 || first.is_some_and(|time| time <= wanted), "{first:?} {start}");
        // Nothing is left out, and not much more than needed is read.
        let per_second = size / u64::try_from(seconds).expect("positive");
        let exact = u64::try_from(from).expect("positive") * per_second;
        assert!(start <= exact && exact - start <= 2 * SEARCH_ENDS + per_second, "{start} for {exact}");
    }

    #[test]
    fn the_start_of_the_window_is_found_without_reading_everything() {
        for from in [0, 1, 1_000, 9_999, 20_000] {
            check_start(20_001, 200, false, from);
        }
        check_start(20_001, 100, true, 12_345);
        check_start(10, 10, false, 5);
    }

    #[test]
    fn lines_begin_where_they_should() {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(b"one\ntwo\nthree\n").expect("write");
        let first = |from: u64| {
            let mut line = Vec::new();
            let (mut reader, at) = lines_from(&file, from, 14, Encoding::Bytes).expect("readable");
            read_line(&mut reader, &mut line).expect("readable");
            (String::from_utf8(line).expect("UTF-8"), at)
        };
        let expected = [(0, "one", 0), (1, "two", 4), (4, "two", 4), (5, "three", 8), (9, "", 14)];
        for (from, line, at) in expected {
            assert_eq!(first(from), (line.to_owned(), at));
        }
    }

    #[test]
    fn a_hole_of_a_terabyte_is_no_work() {
        let mut file = tempfile::tempfile().expect("a temporary file");
        let hole = 1 << 40;
        if file.set_len(hole).is_err() {
            // Not every file system has holes.
            return;
        }
        file.seek(SeekFrom::End(0)).expect("seek");
        file.write_all(b"\n2026-11-21T10:00:00Z x\n").expect("write");
        let size = file.metadata().expect("facts").len();
        let survey = survey(&file, size).expect("readable");
        assert_eq!(survey.newest, Some(Stamp::Absolute(TEN)));
        let resolver = Resolver::new(TimeZone::UTC, TEN);
        let start = find_start(&file, size - (64 << 20), size, survey.encoding, &resolver, TEN - SECOND);
        assert!(start.is_ok_and(|start| start >= size - (64 << 20)));
    }
}
