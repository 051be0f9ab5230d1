//! Bytes in the forms of debuggers and of dumps without offsets: hex in groups of two, four or eight bytes, `65 'A', 66 'B'` of gdb and lldb, and UTF-16
//! whose zeros are points.

use std::ops::Range;

use crate::run::Run;
use crate::unpack::{as_text, digit};

/// Fewest bytes of each.
const BYTES_MIN: usize = 12;
/// Most that are read, in bytes of the form.
const REACH: usize = 32 << 10;
/// Most bytes that `<repeats 200 times>` stands for.
const REPEATS_MAX: usize = 1 << 10;

/// `70617373 776f7264 3d313233`, as they stand or each as a number of the processor: where they end, and their text.
/// Either order may be right; what is no text in one is left out.
pub(crate) fn groups(text: &[u8], start: usize) -> Option<(usize, Vec<Vec<u8>>)> {
    let reach = &text[start..text.len().min(start + REACH)];
    let hex = |at: usize| reach[at..].iter().take(17).take_while(|b| b.is_ascii_hexdigit()).count();
    let size = hex(0);
    if !matches!(size, 4 | 8 | 16) {
        return None;
    }
    let mut groups: Vec<Vec<u8>> = Vec::new();
    let (mut at, mut end) = (0, 0);
    loop {
        let length = hex(at);
        let is_last = length < size && length > 0 && length.is_multiple_of(2);
        if length != size && !is_last || reach.get(at + length).is_some_and(u8::is_ascii_alphanumeric) {
            break;
        }
        let pairs = reach[at..at + length].chunks_exact(2);
        groups.push(pairs.filter_map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect());
        end = at + length;
        let gap = reach[end..].iter().take(32).take_while(|b| matches!(b, b' ' | b'\n' | b'\r')).count();
        if is_last || gap == 0 {
            break;
        }
        at = end + gap;
    }
    if groups.iter().map(Vec::len).sum::<usize>() < BYTES_MIN {
        return None;
    }
    let turned = groups.iter().flat_map(|group| group.iter().rev().copied()).collect();
    let found: Vec<Vec<u8>> = [groups.concat(), turned].into_iter().filter_map(as_text).collect();
    (!found.is_empty()).then_some((start + end, found))
}

/// May groups of hex stand in a stretch: eight digits or more in a row, and a blank behind each?
pub(crate) fn may_hold_groups(stretch: &[u8]) -> bool {
    let mut words = stretch.split(|b| matches!(b, b' ' | b'\n' | b'\r')).filter(|word| !word.is_empty());
    let mut last = 0;
    let mut same = 0;
    words.any(|word| {
        let is_group = matches!(word.len(), 4 | 8 | 16) && word.iter().all(u8::is_ascii_hexdigit);
        same = if is_group && word.len() == last {
            same + word.len()
        } else if is_group {
            word.len()
        } else {
            0
        };
        last = word.len();
        // The last one may be cut.
        same >= 2 * BYTES_MIN - 8
    })
}

/// `{65 'A', 66 'B', 10 '\n'}`, `[0] = 65 'A'` in lines.
pub(crate) fn letters(text: &[u8], found: &mut Vec<Run>) {
    let mut floor = 0;
    for sign in memchr::memmem::find_iter(text, b" '") {
        if sign < floor || sign == 0 || !text[sign - 1].is_ascii_digit() {
            continue;
        }
        let digits = text[floor..sign].iter().rev().take(3).take_while(|b| b.is_ascii_digit()).count();
        let start = sign - digits;
        let start = start - usize::from(text[floor..start].ends_with(b"-"));
        let mut bytes = Vec::new();
        let (mut at, mut end) = (start, start);
        while let Some((behind, byte)) = letter(text, at) {
            bytes.push(byte);
            let times = repeats(&text[behind..]);
            end = behind + times.map_or(0, |(length, _)| length);
            bytes.extend(std::iter::repeat_n(byte, times.map_or(0, |(_, more)| more)));
            at = end + between(&text[end..]);
            if at == end || at - start > REACH {
                break;
            }
        }
        floor = end.max(sign + 2);
        // What is behind the end of a string in its buffer is nothing.
        let length = bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
        bytes.truncate(length);
        if bytes.len() >= BYTES_MIN.min(8)
            && let Some(text) = as_text(bytes)
        {
            found.push(Run { pieces: std::iter::once(start..end).collect(), of: Vec::new(), text });
        }
    }
}

/// `65 'A'`, `-61 '\303'`: where it ends, and its byte.
fn letter(text: &[u8], start: usize) -> Option<(usize, u8)> {
    let rest = text.get(start..text.len().min(start + 24))?;
    let sign = usize::from(rest.first() == Some(&b'-'));
    let digits = rest[sign..].iter().take(3).take_while(|b| b.is_ascii_digit()).count();
    let number: i16 = std::str::from_utf8(&rest[..sign + digits]).ok()?.parse().ok()?;
    let byte = u8::try_from(number).or_else(|_| i8::try_from(number).map(i8::cast_unsigned)).ok()?;
    let quoted = rest[sign + digits..].strip_prefix(b" '")?;
    // `'''` is a quote, and `'\''` another one.
    // LLDB writes a backslash as it is.
    let is_alone = quoted.starts_with(b"\\'") && quoted.get(2) != Some(&b'\'');
    let skip = if quoted.starts_with(b"\\") && !is_alone { 2 } else { 1 };
    let close = skip + quoted.get(skip..)?.iter().take(4).position(|b| *b == b'\'')?;
    Some((start + sign + digits + 2 + close + 1, byte))
}

/// ` <repeats 14 times>`: its length, and how many more there are.
fn repeats(text: &[u8]) -> Option<(usize, usize)> {
    let rest = text.strip_prefix(b" <repeats ")?;
    let digits = rest.iter().take(4).take_while(|b| b.is_ascii_digit()).count();
    let times: usize = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    rest[digits..].strip_prefix(b" times>")?;
    Some((10 + digits + 7, times.clamp(1, REPEATS_MAX) - 1))
}

/// `, ` or the end of a line, and `[7] = ` behind it.
fn between(text: &[u8]) -> usize {
    let gap = text.iter().take(32).take_while(|b| matches!(b, b',' | b' ' | b'\n' | b'\r' | b'\t')).count();
    let index = text[gap..].strip_prefix(b"[").map_or(0, |rest| {
        let digits = rest.iter().take(6).take_while(|b| b.is_ascii_digit()).count();
        if digits > 0 && rest[digits..].starts_with(b"] = ") { 1 + digits + 4 } else { 0 }
    });
    if gap > 0 { gap + index } else { 0 }
}

/// `p.a.s.s.w.o.r.d.=.x.`: UTF-16 as `tcpdump -A` and the columns of letters beside dumps write it.
pub(crate) fn dotted(text: &[u8], found: &mut Vec<Run>) {
    let is_pair = |at: usize| {
        text.get(at + 1) == Some(&b'.')
            && text.get(at).is_some_and(|b| b.is_ascii_graphic() || matches!(b, b' ' | b'\n' | b'\t'))
    };
    let mut floor = 0;
    for point in memchr::memchr_iter(b'.', text) {
        // Most points are alone: four in a row are asked for first.
        if point < floor + 1
            || text.get(point + 2) != Some(&b'.')
            || text.get(point + 4) != Some(&b'.')
            || text.get(point + 6) != Some(&b'.')
        {
            continue;
        }
        let start = point - 1;
        let mut end = start;
        while end - start < REACH && is_pair(end) {
            end += 2;
        }
        floor = end.max(point + 1);
        let letters = text[start..end].iter().step_by(2).filter(|b| **b != b'.').count();
        if letters < BYTES_MIN || letters * 4 < (end - start) {
            continue;
        }
        let mut run = Run { pieces: Vec::new(), of: Vec::new(), text: Vec::new() };
        for at in (start..end).step_by(2) {
            let index = run.text.len();
            run.text.push(text[at]);
            if text[at].is_ascii_whitespace() {
                continue;
            }
            match (run.pieces.last_mut(), run.of.last_mut()) {
                (Some(piece), Some(of)) if piece.end == at => {
                    piece.end = at + 2;
                    of.end = index + 1;
                }
                _ => {
                    run.pieces.push(at..at + 2);
                    run.of.push(index..index + 1);
                }
            }
        }
        found.push(run);
    }
}

/// Whether a run is a part of another one that was put together of several lines.
pub(crate) fn is_part(one: &Run, whole: &Run) -> bool {
    let holds = |part: &Range<usize>| {
        whole.pieces.iter().any(|piece| piece.start <= part.start && part.end <= piece.end + 2)
    };
    whole.pieces.len() > 1 && one.pieces.iter().all(holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(of: impl Fn(&[u8], &mut Vec<Run>), text: &str) -> Vec<String> {
        let mut runs = Vec::new();
        of(text.as_bytes(), &mut runs);
        runs.into_iter().map(|run| String::from_utf8(run.text).expect("UTF-8")).collect()
    }

    fn group(text: &str) -> Vec<String> {
        let texts = groups(text.as_bytes(), 0).map_or_else(Vec::new, |(_, texts)| texts);
        texts.into_iter().map(|text| String::from_utf8(text).expect("UTF-8")).collect()
    }

    #[test]
    fn groups_of_hex_are_read_in_either_order() {
        for text in [
            "70617373 776f7264 3d68756e 74657232",
            "7061 7373 776f 7264 3d68 756e 7465 7232",
            "70617373776f7264 3d68756e74657232 of 5",
            "70617373\n776f7264\n3d68756e\n74657232\n",
            "73736170 64726f77 6e75683d 32726574",
            "6170 7373 6f77 6472 683d 6e75 6574 3272",
        ] {
            assert!(group(text).iter().any(|found| found == "password=hunter2"), "{text}");
            assert!(may_hold_groups(text.as_bytes()), "{text}");
        }
        assert_eq!(group("70617373 776f7264 3d68756e 7465")[0], "password=hunte");
        for none in [
            "2026 1128 0311",
            "00000000 00000001 00000002 00000003",
            "deadbeef cafebabe 01020304",
            "70617373 776f7264",
            "",
        ] {
            assert_eq!(group(none), Vec::<String>::new(), "{none}");
        }
        assert!(!may_hold_groups(b"2026-11-28 03:11:12 5"));
    }

    #[test]
    fn letters_of_debuggers_are_read() {
        for text in [
            "$1 = {112 'p', 119 'w', 100 'd', 61 '=', 97 'a', 39 '\\'', 92 '\\\\', 98 'b', 99 'c'}",
            "  [0] = 112 'p'\n  [1] = 119 'w'\n  [2] = 100 'd'\n  [3] = 61 '='\n  [4] = 97 'a'\n  [5] = 39 '\\''\n  [6] = 92 '\\\\'\n  [7] = 98 'b'\n  [8] = 99 'c'\n",
            "x = {112 'p', 119 'w', 100 'd', 61 '=', 97 'a', 39 ''', 92 '\\', 98 'b', 99 'c', 0 '\\000' <repeats 23 times>}",
        ] {
            assert_eq!(found(letters, text), ["pwd=a'\\bc"], "{text}");
        }
        assert_eq!(
            found(letters, "{48 '0' <repeats 9 times>, -61 '\\303', -92 '\\244', 97 'a'}"),
            ["000000000\u{e4}a"]
        );
        for none in [
            "took 12 'ms'",
            "{1 'a', 2 'b'}",
            "[5 'x']",
            "port 80 '",
            "300 'p', 301 'p', 302 'p', 303 'p', 304 'p', 305 'p'",
        ] {
            assert_eq!(found(letters, none), Vec::<String>::new(), "{none}");
        }
    }

    #[test]
    fn points_between_letters_are_zeros() {
        assert_eq!(found(dotted, "E..p..@ p.w.d.=.x.1. .u.s.e.r.=.a.p.p."), ["pwd=x1 user=app"]);
        let mut runs = Vec::new();
        dotted(b"p.w.d.=.x.1. .u.s.e.r.=.a.", &mut runs);
        assert_eq!(runs[0].pieces, [0..12, 14..26]);
        assert!(runs[0].pieces_of(&(4..6)).eq(std::iter::once(0..12)));
        for none in
            ["10.0.0.1 and 10.2.3.4", "a.b.c.d.e", "....................", "1.2.3.4.5.6", "www.example.com"]
        {
            assert_eq!(found(dotted, none), Vec::<String>::new(), "{none}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_was_written_in_groups_comes_back(text in "[ -~]{12,120}", size in 1_usize..4) {
            let size = 1 << size;
            let written: Vec<String> = text
                .as_bytes()
                .chunks(size)
                .map(|group| group.iter().map(|b| format!("{b:02x}")).collect())
                .collect();
            proptest::prop_assert!(group(&written.join(" ")).contains(&text));
            let written: Vec<String> = text.bytes().map(|b| format!("{b} '{}'", b.escape_ascii())).collect();
            proptest::prop_assert_eq!(found(letters, &format!("{{{}}}", written.join(", "))), [text]);
        }

        #[test]
        fn any_text_is_taken(text in "[0-9a-f .,'\\\\\\[\\]={}<>-]{0,120}") {
            let mut runs = Vec::new();
            letters(text.as_bytes(), &mut runs);
            dotted(text.as_bytes(), &mut runs);
            let _ = (groups(text.as_bytes(), 0), may_hold_groups(text.as_bytes()));
            for run in runs {
                proptest::prop_assert!(run.pieces.iter().all(|piece| piece.start < piece.end && piece.end <= text.len()));
                proptest::prop_assert!(run.of.is_empty() || run.of.len() == run.pieces.len());
            }
        }
    }
}
