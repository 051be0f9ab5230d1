//! Bytes of a log as lines of UTF-8: encodings, and lines of any length.

use std::io::{self, BufRead, Read};

/// Bytes of a line that are kept: a hundred times what anybody reads.
pub(crate) const LINE_BYTES: usize = 64 << 10;

/// How the bytes of a file are to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Encoding {
    /// UTF-8, ASCII, or anything that keeps ASCII where it is.
    Bytes,
    /// UTF-16, little endian.
    Utf16Le,
    /// UTF-16, big endian.
    Utf16Be,
    /// No text.
    Binary,
}

/// Tells the encoding from the first bytes of a file and from some of its end: a file that was truncated
/// while its writer went on begins with a hole of zeros.
pub(crate) fn find_encoding(head: &[u8], tail: &[u8]) -> Encoding {
    match head {
        [0xff, 0xfe, ..] => return Encoding::Utf16Le,
        [0xfe, 0xff, ..] => return Encoding::Utf16Be,
        _ => {}
    }
    let sample = without_hole(if tail.is_empty() { head } else { tail });
    if sample.is_empty() {
        return Encoding::Bytes;
    }
    let zeros = |offset: usize| sample.iter().skip(offset).step_by(2).filter(|byte| **byte == 0).count();
    let (even, odd, half) = (zeros(0), zeros(1), sample.len() / 2);
    if sample.len() >= 8 && odd * 2 > half && even * 20 < half {
        return Encoding::Utf16Le;
    }
    if sample.len() >= 8 && even * 2 > half && odd * 20 < half {
        return Encoding::Utf16Be;
    }
    let control = sample.iter().filter(|byte| matches!(byte, 0..=6 | 14..=26 | 28..=31)).count();
    if control * 20 > sample.len() { Encoding::Binary } else { Encoding::Bytes }
}

/// The sample after a run of zeros at its start; an even number of them, so that units of UTF-16 stay whole.
fn without_hole(sample: &[u8]) -> &[u8] {
    let zeros = sample.iter().take_while(|byte| **byte == 0).count();
    if zeros < 16 { sample } else { sample.get(zeros & !1..).unwrap_or_default() }
}

/// Turns UTF-16 into UTF-8 while reading.
#[derive(Debug)]
pub(crate) struct Utf16Reader<R> {
    inner: R,
    big: bool,
    raw: Vec<u8>,
    /// Bytes of a unit, or of a pair of surrogates, that the last read ended in.
    left: Vec<u8>,
    out: Vec<u8>,
    place: usize,
}

impl<R: Read> Utf16Reader<R> {
    pub(crate) fn new(inner: R, big: bool) -> Utf16Reader<R> {
        Utf16Reader { inner, big, raw: vec![0; 16 << 10], left: Vec::new(), out: Vec::new(), place: 0 }
    }

    fn refill(&mut self) -> io::Result<()> {
        self.out.clear();
        self.place = 0;
        while self.out.is_empty() {
            let read = self.inner.read(&mut self.raw)?;
            if read == 0 {
                if !self.left.is_empty() {
                    self.left.clear();
                    self.out.extend("\u{fffd}".bytes());
                }
                return Ok(());
            }
            self.left.extend(self.raw.get(..read).unwrap_or_default());
            self.decode();
        }
        Ok(())
    }

    fn decode(&mut self) {
        let pairs: Vec<u16> = self
            .left
            .chunks_exact(2)
            .map(|pair| match *pair {
                [first, second] if self.big => u16::from_be_bytes([first, second]),
                [first, second] => u16::from_le_bytes([first, second]),
                _ => 0,
            })
            .collect();
        // A high surrogate at the end waits for its other half.
        let waits = pairs.last().is_some_and(|unit| (0xd800..0xdc00).contains(unit));
        let whole = pairs.len() - usize::from(waits);
        let text = String::from_utf16_lossy(pairs.get(..whole).unwrap_or_default());
        self.out.extend(text.trim_start_matches('\u{feff}').bytes());
        self.left.drain(..whole * 2);
    }
}

impl<R: Read> Read for Utf16Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.place >= self.out.len() {
            self.refill()?;
        }
        let ready = self.out.get(self.place..).unwrap_or_default();
        let count = ready.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), ready.get(..count)) {
            to.copy_from_slice(from);
        }
        self.place += count;
        Ok(count)
    }
}

/// One line as it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LineInfo {
    /// Bytes beyond [`LINE_BYTES`] that were dropped.
    pub(crate) cut: u64,
    /// Bytes read, line end included.
    pub(crate) read: u64,
}

/// Reads one line into `line`, without its end. `None`: there are no more.
///
/// # Errors
/// When reading fails; what came before stays in `line`.
pub(crate) fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<LineInfo>> {
    line.clear();
    let mut info = LineInfo::default();
    loop {
        let ready = match reader.fill_buf() {
            Ok(ready) => ready,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if ready.is_empty() {
            trim_end(line);
            return Ok((info.read > 0).then_some(info));
        }
        let end = memchr::memchr(b'\n', ready);
        let piece = ready.get(..end.unwrap_or(ready.len())).unwrap_or_default();
        let kept = piece.len().min(LINE_BYTES - line.len());
        line.extend(piece.get(..kept).unwrap_or_default());
        info.cut += (piece.len() - kept) as u64;
        let used = piece.len() + usize::from(end.is_some());
        info.read += used as u64;
        reader.consume(used);
        if end.is_some() {
            trim_end(line);
            return Ok(Some(info));
        }
    }
}

fn trim_end(line: &mut Vec<u8>) {
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    // The hole of a truncated file: megabytes of zeros before the first line.
    let hole = line.iter().take_while(|byte| **byte == 0).count();
    line.drain(..hole);
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;

    use super::*;

    fn lines(bytes: &[u8]) -> Vec<(String, u64)> {
        let (mut reader, mut line, mut all) = (BufReader::with_capacity(7, bytes), Vec::new(), Vec::new());
        while let Some(info) = read_line(&mut reader, &mut line).expect("memory") {
            all.push((String::from_utf8_lossy(&line).into_owned(), info.cut));
        }
        all
    }

    #[test]
    fn lines_and_their_ends() {
        let text = |line: &str| (line.to_owned(), 0);
        assert_eq!(lines(b"a\r\n\nb"), [text("a"), text(""), text("b")]);
        assert_eq!(lines(b""), []);
        assert_eq!(lines(b"\0\0\0\0first\nb\n"), [text("first"), text("b")]);
    }

    #[test]
    fn a_line_of_any_length_takes_bounded_memory() {
        let reader = io::repeat(b'x').take(100 << 20).chain(&b"\nnext\n"[..]);
        let (mut reader, mut line) = (BufReader::with_capacity(64 << 10, reader), Vec::new());
        let info = read_line(&mut reader, &mut line).expect("memory").expect("a line");
        assert_eq!((line.len(), info.cut), (LINE_BYTES, (100 << 20) - LINE_BYTES as u64));
        assert!(line.capacity() <= 2 * LINE_BYTES);
        read_line(&mut reader, &mut line).expect("memory").expect("a line");
        assert_eq!(line, b"next");
    }

    fn utf16(text: &str, big: bool) -> Vec<u8> {
        text.encode_utf16()
            .flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() })
            .collect()
    }

    #[test]
    fn encodings_are_told() {
        assert_eq!(find_encoding(b"plain text, Gr\xc3\xbc\xc3\x9fe", b""), Encoding::Bytes);
        assert_eq!(find_encoding(b"latin 1: Gr\xfc\xdfe", b""), Encoding::Bytes);
        assert_eq!(find_encoding(b"\xff\xfea\0", b""), Encoding::Utf16Le);
        assert_eq!(find_encoding(&utf16("2026-11-21 10:00:00 x", false), b""), Encoding::Utf16Le);
        assert_eq!(find_encoding(&utf16("2026-11-21 10:00:00 x", true), b""), Encoding::Utf16Be);
        assert_eq!(find_encoding(&[0; 100], b"text after a hole"), Encoding::Bytes);
        assert_eq!(find_encoding(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0", b""), Encoding::Binary);
        assert_eq!(find_encoding(b"\x1b[31mcolours\x1b[0m\ttab", b""), Encoding::Bytes);
        assert_eq!(find_encoding(b"", b""), Encoding::Bytes);
    }

    proptest! {
        #[test]
        fn utf16_is_read_whatever_the_pieces(text in "\\PC{0,40}", big: bool, piece in 1_usize..9) {
            let bytes = utf16(&text, big);
            let mut out = Vec::new();
            let reader = BufReader::with_capacity(piece, bytes.as_slice());
            Utf16Reader::new(reader, big).read_to_end(&mut out).expect("memory");
            prop_assert_eq!(String::from_utf8(out).expect("UTF-8"), text.trim_start_matches('\u{feff}'));
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200), big: bool) {
            find_encoding(&bytes, &bytes);
            let mut out = Vec::new();
            Utf16Reader::new(bytes.as_slice(), big).read_to_end(&mut out).expect("memory");
            let read: u64 = {
                let (mut reader, mut line, mut sum) = (bytes.as_slice(), Vec::new(), 0);
                while let Some(info) = read_line(&mut reader, &mut line).expect("memory") {
                    sum += info.read;
                }
                sum
            };
            prop_assert_eq!(read, bytes.len() as u64);
        }
    }
}
