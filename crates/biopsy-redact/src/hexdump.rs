//! Dumps of bytes as `xxd`, `hexdump`, `od`, `tcpdump -X` and debuggers write them: an offset, bytes in hex, and often their letters.

use std::ops::Range;

use crate::unpack::digit;

/// Most bytes of a line.
const LINE_BYTES: usize = 16;
/// Fewest bytes of a dump.
const BYTES_MIN: usize = 8;
/// Most lines of one that are read together.
const LINES_MAX: usize = 1 << 10;
/// Fewest and most digits of an offset.
const OFFSET: std::ops::RangeInclusive<usize> = 4..=16;

/// A dump.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Dump {
    /// What it holds; a point for each byte that no text has.
    pub(crate) text: Vec<u8>,
    /// Bytes and letters of each line, as they stand.
    pub(crate) lines: Vec<Range<usize>>,
    /// Which part of the text each line has.
    pub(crate) of: Vec<Range<usize>>,
}

/// The dumps in `text`. Each begins with an offset that has four zeros.
pub(crate) fn dumps(text: &[u8]) -> Vec<Dump> {
    let mut found = Vec::new();
    let mut floor = 0;
    for zeros in memchr::memmem::find_iter(text, b"0000") {
        let start = text[..zeros].iter().rposition(|b| !b.is_ascii_hexdigit()).map_or(0, |last| last + 1);
        if start >= floor
            && let Some((dump, end)) = dump(text, start)
        {
            found.push(dump);
            floor = end;
        }
    }
    found
}

/// The dump whose first offset is at `start`, and where it ends.
fn dump(text: &[u8], start: usize) -> Option<(Dump, usize)> {
    let column = start - memchr::memrchr(b'\n', &text[..start]).map_or(0, |newline| newline + 1);
    let mut dump = Dump { text: Vec::new(), lines: Vec::new(), of: Vec::new() };
    let (mut at, mut end) = (start, start);
    while dump.lines.len() < LINES_MAX
        && let Some((bytes, line)) = line(text, at)
    {
        let from = dump.text.len();
        dump.text
            .extend(bytes.into_iter().map(|b| if b < b' ' && b != b'\n' || b == 0x7f { b'.' } else { b }));
        dump.of.push(from..dump.text.len());
        end = line.end;
        dump.lines.push(line);
        let Some(next) = text.get(end..).and_then(|rest| memchr::memchr(b'\n', rest)) else { break };
        at = end + next + 1 + column;
    }
    // Letters of other languages are as good as any; what is no text has none.
    if std::str::from_utf8(&dump.text).is_err_and(|error| error.error_len().is_some()) {
        dump.text.iter_mut().filter(|b| !b.is_ascii()).for_each(|b| *b = b'.');
    }
    let printable = dump.text.iter().filter(|b| **b != b'.').count();
    (dump.text.len() >= BYTES_MIN && printable >= BYTES_MIN).then_some((dump, end))
}

/// The bytes of a line whose offset is at `start`, and where they and their letters stand.
fn line(text: &[u8], start: usize) -> Option<(Vec<u8>, Range<usize>)> {
    let rest = text.get(start..)?;
    let rest = &rest[..memchr::memchr(b'\n', &rest[..rest.len().min(512)]).unwrap_or(rest.len().min(512))];
    let digits = |at: usize| rest[at..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let skip = if rest.starts_with(b"0x") { 2 } else { 0 };
    let offset = digits(skip);
    let mut at = skip + offset;
    let is_ended = matches!(rest.get(at), Some(b':' | b' ' | b'\t' | b'|'));
    if !OFFSET.contains(&offset) || !is_ended {
        return None;
    }
    let is_plain = rest[at] == b' ';
    at += rest[at..].iter().take(4).take_while(|b| matches!(b, b':' | b' ' | b'\t' | b'|')).count();
    let first = at;
    let mut bytes = Vec::new();
    while bytes.len() < LINE_BYTES {
        let length = digits(at);
        let goes_on = rest.get(at + length).is_none_or(|b| matches!(b, b' ' | b'-' | b'|' | b'\r' | b'\t'));
        if !matches!(length, 2 | 4 | 8) || !goes_on {
            break;
        }
        let pairs = rest[at..at + length].chunks_exact(2);
        let mut group: Vec<u8> =
            pairs.filter_map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect();
        // `hexdump` and `od -x` write words as the processor reads them.
        if is_plain && length > 2 {
            group.reverse();
        }
        bytes.extend(group);
        at += length;
        let blanks = rest[at..].iter().take_while(|b| matches!(b, b' ' | b'-')).count();
        if blanks == 0 || blanks > 2 {
            break;
        }
        at += blanks;
    }
    let end = rest.trim_ascii_end().len();
    // The last line may have one byte alone; the first one of a dump has more, or it is none.
    let least = if rest[skip..skip + offset].iter().all(|b| *b == b'0') { 2 } else { 1 };
    (bytes.len() >= least && end > first).then(|| (bytes, start + first..start + end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumps_of_all_kinds_are_read() {
        for text in [
            "00000000: 7061 7373 776f 7264 3d68 756e 7465 7232  password=hunter2\n00000010: 3334                                     34\n",
            "00000000  70 61 73 73 77 6f 72 64  3d 68 75 6e 74 65 72 32  |password=hunter2|\n00000010  33 34                                             |34|\n",
            "0000000 6170 7373 6f77 6472 683d 6e75 6574 3272\n0000020 3433\n",
            "0000000 70 61 73 73 77 6f 72 64 3d 68 75 6e 74 65 72 32\n0000020 33 34\n",
            "\t0x0000:  7061 7373 776f 7264 3d68 756e 7465 7232  password=hunter2\n\t0x0010:  3334                                     34\n",
            "10:01 D 0000  70 61 73 73 77 6f 72 64  3d 68 75 6e 74 65 72 32  password=hunter2\n10:01 D 0010  33 34                                             34\n",
        ] {
            let found = dumps(text.as_bytes());
            assert_eq!(
                found.first().map(|dump| String::from_utf8_lossy(&dump.text)).as_deref(),
                Some("password=hunter234"),
                "{text}"
            );
            assert_eq!(found[0].lines.len(), 2, "{text}");
        }
    }

    #[test]
    fn numbers_are_no_dumps() {
        for text in [
            "2026-11-28T00:00:00.000000Z took 12 ms",
            "0000 ff",
            "id 00000000-0000-4000-8000-0123456789ab",
            "00001000 r-xp",
            "",
        ] {
            assert_eq!(dumps(text.as_bytes()), [], "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(text in "(0000|[ :|0-9a-f\n]){0,80}") {
            for dump in dumps(text.as_bytes()) {
                proptest::prop_assert!(dump.lines.iter().all(|line| line.start <= line.end && line.end <= text.len()));
                proptest::prop_assert_eq!(dump.lines.len(), dump.of.len());
            }
        }
    }
}
