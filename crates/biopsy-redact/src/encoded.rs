//! Texts inside of text: base64, base32, hex, lists of bytes and dumps are unpacked and gone over; what holds a secret is masked as a whole.
//!
//! Only what unpacks to text is looked into: hashes, ids, keys and pictures do not.

use std::ops::Range;

use crate::grouped;
use crate::hexdump;
use crate::run::Run;
use crate::unpack::{as_text, bits, digit, may_be_base64, unpack};

/// Shortest run of base64 or hex that is unpacked: shorter ones hold no key with a value.
const RUN_MIN: usize = 16;
/// Longest run that is unpacked, in bytes.
const RUN_MAX: usize = 32 << 10;
/// Signs in a run behind which another one may begin: a path, and base64 as its last part.
const PARTS_MAX: usize = 6;
/// Fewest numbers of a list of bytes.
const LIST_MIN: usize = 8;
/// Fewest pairs of digits alone that are taken for hex.
const PAIRS_MIN: usize = 10;
/// Fewest bytes that such a list is written with: a digit for each number, and what is between them.
const LIST_BYTES_MIN: usize = 2 * LIST_MIN - 1;
/// Longest stretch between two lines of one run, or between two numbers of a list, in bytes.
const JOINT_MAX: usize = 32;

/// Texts in base64, in hex, and as lists of bytes.
pub(crate) fn runs(text: &[u8]) -> Vec<Run> {
    let mut found = Vec::new();
    let mut wrapped: Vec<Range<usize>> = Vec::new();
    for_each_stretch(text, RUN_MIN, is_base64, |stretch| {
        let stretch = without_escape(text, stretch);
        if wrapped.last().is_none_or(|last| !is_joint(text, last.end..stretch.start)) {
            found_joined(text, &mut wrapped, &mut found);
            wrapped.clear();
        }
        wrapped.push(stretch.clone());
        let mut at = stretch.start;
        while at + RUN_MIN <= stretch.end {
            let mut end = stretch.end.min(at + RUN_MAX);
            end += text[end..].iter().take(6).take_while(|b| **b == b'=').count();
            found.extend(of_run(text, at..end));
            at = end;
        }
    });
    found_joined(text, &mut wrapped, &mut found);
    for_each_stretch(text, LIST_BYTES_MIN, is_of_list, |stretch| lists(text, stretch, &mut found));
    codes(text, &mut found);
    grouped::letters(text, &mut found);
    grouped::dotted(text, &mut found);
    let dumps = hexdump::dumps(text).into_iter();
    found.extend(dumps.map(|dump| Run { pieces: dump.lines, of: dump.of, text: dump.text }));
    found
}

/// A run of several lines takes the place of those that are a line of it: half of a value is none.
fn found_joined(text: &[u8], stretches: &mut Vec<Range<usize>>, found: &mut Vec<Run>) {
    if let Some(run) = joined(text, stretches) {
        found.retain(|one| !grouped::is_part(one, &run));
        found.push(run);
    }
}

/// The text of a run, or of what stands in it behind a sign that base64 has, too.
fn of_run(text: &[u8], run: Range<usize>) -> Option<Run> {
    let one = |range: Range<usize>| {
        let text = unpack(&text[range.clone()])?;
        Some(Run { pieces: vec![range], of: Vec::new(), text })
    };
    one(run.clone()).or_else(|| {
        let signs = text[run.clone()].iter().enumerate().filter(|(_, b)| b"/-_+".contains(b));
        let starts = signs.map(|(at, _)| run.start + at + 1).take(PARTS_MAX);
        starts.filter(|start| start + RUN_MIN <= run.end).find_map(|start| one(start..run.end))
    })
}

/// A stretch without the letter of an escape in front of it: `\n`, `\x7061` of databases.
fn without_escape(text: &[u8], stretch: Range<usize>) -> Range<usize> {
    let is_escape =
        text[..stretch.start].ends_with(b"\\") && matches!(text[stretch.start], b'n' | b'r' | b't' | b'x');
    stretch.start + usize::from(is_escape)..stretch.end
}

/// Does one run go on behind this: an end of a line, as it is or escaped, with what indents or quotes the next one?
fn is_joint(text: &[u8], between: Range<usize>) -> bool {
    let between = &text[between.start..between.end.max(between.start)];
    if is_next_word(between) {
        return true;
    }
    let is_end = between.contains(&b'\n')
        || memchr::memmem::find(between, b"\\n").is_some()
        || between.contains(&b'"') && !between.contains(&b',');
    is_end
        && between.len() <= JOINT_MAX
        && between.iter().filter(|b| **b == b'\n').count() <= 1
        && between.iter().all(|b| b.is_ascii_whitespace() || b"\\nr\"'+>|#*".contains(b))
}

/// `?=` and `=?UTF-8?B?` between the encoded words of one header of a mail.
fn is_next_word(between: &[u8]) -> bool {
    let behind = between.trim_ascii_start();
    let behind = &behind[behind.iter().take(2).take_while(|b| **b == b'=').count()..];
    let Some(next) = behind.strip_prefix(b"?=") else { return false };
    let next = next.strip_prefix(b"\\r").unwrap_or(next);
    let next = next.strip_prefix(b"\\n").unwrap_or(next).trim_ascii_start();
    next.starts_with(b"=?")
        && (next.ends_with(b"?B?") || next.ends_with(b"?b?"))
        && next.iter().all(|b| b.is_ascii_alphanumeric() || b"=?-_".contains(b))
}

/// The text of several stretches that are one run, wrapped over lines of one length.
fn joined(text: &[u8], stretches: &mut Vec<Range<usize>>) -> Option<Run> {
    let first = stretches.first()?.clone();
    if stretches.len() == 1 && !matches!(text.get(first.end), Some(b'\n' | b'\\' | b'?')) {
        return None;
    }
    let head: Vec<u8> =
        stretches.iter().flat_map(|piece| &text[piece.clone()]).take(RUN_MIN).copied().collect();
    if !may_be_base64(&head) {
        return None;
    }
    // The last line may be shorter than a run.
    let last = stretches.last()?.end;
    let tail = (1..=JOINT_MAX)
        .find(|gap| text.get(last + gap).is_some_and(|b| is_base64(*b)) && is_joint(text, last..last + gap));
    if let Some(tail) = tail {
        let start = last + tail;
        let length = text[start..].iter().take(RUN_MIN).take_while(|b| is_base64(**b)).count();
        if length < RUN_MIN {
            stretches.push(start..start + length);
        }
    }
    let middle = stretches.get(1..stretches.len() - 1).unwrap_or_default();
    let is_wrapped = middle.windows(2).all(|pair| pair[0].len() == pair[1].len())
        && middle.first().is_none_or(|line| first.len() <= line.len());
    let length = stretches.iter().map(Range::len).sum::<usize>();
    if stretches.len() < 2 || !is_wrapped || length > RUN_MAX {
        return None;
    }
    let run: Vec<u8> = stretches.iter().flat_map(|piece| &text[piece.clone()]).copied().collect();
    let mut pieces = stretches.clone();
    let end = pieces.last_mut()?;
    end.end += text[end.end..].iter().take(2).take_while(|b| **b == b'=').count();
    Some(Run { pieces, of: Vec::new(), text: unpack(&run)? })
}

/// Lists of bytes in a stretch that holds nothing but what they are written with.
fn lists(text: &[u8], stretch: Range<usize>, found: &mut Vec<Run>) {
    let may_hold_groups = grouped::may_hold_groups(&text[stretch.clone()]);
    if !may_hold_groups && !may_hold_list(text, &stretch) {
        return;
    }
    let word_end = |from: usize| from + text[from..stretch.end].iter().take_while(|b| is_base64(**b)).count();
    // What begins in front of the stretch is no number.
    let begins_inside = stretch.start == 0 || !is_base64(text[stretch.start - 1]);
    let mut at = if begins_inside { stretch.start } else { word_end(stretch.start) };
    while at + LIST_BYTES_MIN <= stretch.end {
        if !is_base64(text[at]) {
            at += 1;
            continue;
        }
        let end = word_end(at);
        if may_hold_groups && let Some((list_end, texts)) = grouped::groups(text, at) {
            let one = |text| Run { pieces: std::iter::once(at..list_end).collect(), of: Vec::new(), text };
            found.extend(texts.into_iter().map(one));
            at = list_end;
            continue;
        }
        // Pairs of digits may be of hex or of ten: what is a text is right.
        let of_hex = pairs(text, at);
        let of_ten = text[at].is_ascii_digit().then(|| list(text, at)).flatten();
        let of_ten = of_ten.or_else(|| octets(text, at));
        let list_end = of_hex.as_ref().or(of_ten.as_ref()).map_or(end, |(list_end, _)| *list_end);
        let text =
            [of_hex, of_ten].into_iter().flatten().find_map(|(end, bytes)| Some((end, as_text(bytes)?)));
        at = match text {
            Some((list_end, text)) => {
                found.push(Run { pieces: std::iter::once(at..list_end).collect(), of: Vec::new(), text });
                list_end
            }
            None => list_end,
        };
    }
}

/// Are there separators for as many numbers as a list has? Every line of a log begins with a time, and a time has too few.
fn may_hold_list(text: &[u8], stretch: &Range<usize>) -> bool {
    let separators = text[stretch.clone()].iter().filter(|b| !b.is_ascii_hexdigit()).count();
    // Between two numbers there may be a tab, which is in no stretch.
    separators >= LIST_MIN - 1 || text.get(stretch.end) == Some(&b'\t')
}

/// Calls `each` with every stretch of at least `least` bytes that all belong. Every stretch covers one of each `least` bytes, so that
/// hardly any other is looked at.
fn for_each_stretch(
    text: &[u8],
    least: usize,
    belongs: impl Fn(u8) -> bool,
    mut each: impl FnMut(Range<usize>),
) {
    let (mut floor, mut at) = (0, least - 1);
    while at < text.len() {
        // From behind, what ends a stretch is met first.
        if let Some(ends) = text[floor..=at].iter().rposition(|b| !belongs(*b)) {
            floor += ends + 1;
        } else {
            let end = at + 1 + text[at + 1..].iter().take_while(|b| belongs(**b)).count();
            each(floor..end);
            floor = end;
        }
        at = floor + least - 1;
    }
}

/// What lists of bytes are written with.
fn is_of_list(byte: u8) -> bool {
    const TABLE: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            let of = byte as u8;
            table[byte] = of.is_ascii_hexdigit()
                || matches!(of, b'x' | b'X' | b',' | b' ' | b':' | b'-' | b'\n' | b'\r');
            byte += 1;
        }
        table
    };
    TABLE[usize::from(byte)]
}

fn is_base64(byte: u8) -> bool {
    /// Looked up: every byte of every text is asked.
    const TABLE: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            let of = byte as u8;
            table[byte] = of.is_ascii_alphanumeric() || matches!(of, b'+' | b'/' | b'-' | b'_');
            byte += 1;
        }
        table
    };
    TABLE[usize::from(byte)]
}

/// `112, 97, 115`, `0x70,0x61`, `70 61 73`: where it ends, and its bytes.
fn list(text: &[u8], start: usize) -> Option<(usize, Vec<u8>)> {
    let reach = &text[start..text.len().min(start + RUN_MAX)];
    let mut bytes = Vec::new();
    let (mut at, mut end) = (0, 0);
    loop {
        let (length, value) = number(&reach[at..])?;
        bytes.push(value);
        end = at.saturating_add(length).max(end);
        at = end + gap(&reach[end..]);
        let goes_on = at > end && number(&reach[at..]).is_some();
        if !goes_on {
            return (bytes.len() >= LIST_MIN).then_some((start + end, bytes));
        }
    }
}

/// What stands between two numbers of a list: a comma, blanks, the end of a line.
fn gap(text: &[u8]) -> usize {
    let blanks = |text: &[u8]| {
        text.iter().take(JOINT_MAX).take_while(|b| matches!(b, b' ' | b'\n' | b'\r' | b'\t')).count()
    };
    let before = blanks(text);
    let comma = usize::from(text.get(before) == Some(&b','));
    before + comma + blanks(&text[before + comma..])
}

/// `01110000 01100001`: eight digits of two for each byte.
fn octets(text: &[u8], start: usize) -> Option<(usize, Vec<u8>)> {
    let is_octet = |at: usize| {
        text.get(at..at + 8).filter(|octet| octet.iter().all(|b| matches!(b, b'0' | b'1'))).map(bits)
    };
    let mut bytes = Vec::new();
    let mut at = start;
    while let Some(byte) = is_octet(at) {
        bytes.push(byte);
        at += 9;
        if !matches!(text.get(at - 1), Some(b' ' | b',' | b'-')) {
            break;
        }
    }
    (bytes.len() >= LIST_MIN).then(|| (at - 1, bytes))
}

/// `chr(112).chr(97)`, `CHAR(112)+CHAR(97)`, `[char]112+[char]97`: calls that make a text of numbers.
fn codes(text: &[u8], found: &mut Vec<Run>) {
    let mut floor = 0;
    for sign in [&b"hr("[..], b"HR(", b"har(", b"HAR(", b"har]"] {
        for at in memchr::memmem::find_iter(text, sign) {
            if at < floor {
                continue;
            }
            let start = at + sign.len();
            let Some((length, byte)) = number(&text[start..]) else { continue };
            let mut bytes = vec![byte];
            let mut end = start + length;
            // What stands between the first two stands between all.
            let next = |from: usize| {
                text[from..].iter().take(JOINT_MAX).position(u8::is_ascii_digit).map(|gap| from + gap)
            };
            let between = next(end).map(|next| &text[end..next]);
            while let Some(at) = next(end).filter(|at| Some(&text[end..*at]) == between) {
                let Some((length, byte)) = number(&text[at..]) else { break };
                bytes.push(byte);
                end = at + length;
            }
            floor = end;
            if bytes.len() >= LIST_MIN
                && let Some(text) = as_text(bytes)
            {
                found.push(Run { pieces: std::iter::once(start..end).collect(), of: Vec::new(), text });
            }
        }
        floor = 0;
    }
}

/// `70 61 73 73`, `70:61:73:73`: pairs of hex digits with one separator, of which one has a letter, or which are many.
fn pairs(text: &[u8], start: usize) -> Option<(usize, Vec<u8>)> {
    let reach = &text[start..text.len().min(start + RUN_MAX)];
    let separator = *reach.get(2).filter(|b| matches!(b, b' ' | b':' | b',' | b'-'))?;
    let mut bytes = Vec::new();
    let mut at = 0;
    while let (Some(high), Some(low)) =
        (reach.get(at).and_then(|b| digit(*b)), reach.get(at + 1).and_then(|b| digit(*b)))
    {
        bytes.push(high << 4 | low);
        at += 2;
        if reach.get(at) != Some(&separator) {
            break;
        }
        at += 1;
    }
    let end = if reach[..at].ends_with(&[separator]) { at - 1 } else { at };
    let has_letter = reach[..end].iter().any(u8::is_ascii_alphabetic);
    let least = if has_letter { LIST_MIN } else { PAIRS_MIN };
    (bytes.len() >= least).then_some((start + end, bytes))
}

/// A byte in decimal, less than nothing where bytes have signs, or in hex behind `0x`.
fn number(text: &[u8]) -> Option<(usize, u8)> {
    if let [b'-', b'1'..=b'9', ..] = text {
        let (length, byte) = number(&text[1..])?;
        return (byte <= 128).then(|| (length + 1, byte.wrapping_neg()));
    }
    let is_hex = text.len() > 2 && text[0] == b'0' && matches!(text[1], b'x' | b'X');
    let (skip, radix) = if is_hex { (2, 16) } else { (0, 10) };
    let digits = text[skip..].iter().take(4).take_while(|b| char::from(**b).is_digit(radix)).count();
    let word = std::str::from_utf8(&text[skip..skip + digits]).ok()?;
    Some((skip + digits, u8::from_str_radix(word, radix).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        runs(text.as_bytes()).into_iter().map(|run| String::from_utf8(run.text).expect("UTF-8")).collect()
    }

    #[test]
    fn encoded_words_of_a_mail_are_one_run() {
        for (between, wanted) in [
            ("?=\n =?UTF-8?B?", true),
            ("==?=\r\n\t=?iso-8859-1?b?", true),
            ("?=\\n =?UTF-8?B?", true),
            ("?=\n =?UTF-8?Q?", false),
            ("?=\n =?", false),
            ("?=\nX: =?UTF-8?B?", false),
        ] {
            assert_eq!(is_next_word(between.as_bytes()), wanted, "{between}");
        }
        // `password=Xk29fmQ7rtLw0ab` and more of it, in two words
        let mail =
            "Subject: =?UTF-8?B?dXNlcj1hcHA7cGFzc3dvcmQ9WGsyOWZt?=\n =?UTF-8?B?UTdydEx3MGFiO3BvcnQ9MQ==?=\n";
        let found = runs(mail.as_bytes());
        assert!(found.iter().any(|run| run.text == b"user=app;password=Xk29fmQ7rtLw0ab;port=1"), "{found:?}");
    }

    #[test]
    fn texts_are_unpacked_whatever_their_form_is() {
        assert_eq!(texts("body cGFzc3dvcmQ9aHVudGVyMg== end"), ["password=hunter2"]);
        assert_eq!(texts("x=cGFzc3dvcmQ9aHVudGVyMg;"), ["password=hunter2"]);
        assert_eq!(texts("70617373776f72643d68756e74657232"), ["password=hunter2"]);
        assert_eq!(texts("[112, 97, 115, 115, 61, 97, 98, 99, 100]"), ["pass=abcd"]);
        assert_eq!(texts("{0x70,0x61,0x73,0x73,0x3d,0x61,0x62,0x63,0x64}"), ["pass=abcd"]);
        assert_eq!(texts("b 70 61 73 73 3d 61 62 63 64 e"), ["pass=abcd"]);
        assert_eq!(texts("70:61:73:73:3d:61:62:63:64"), ["pass=abcd"]);
        assert_eq!(texts("cAB3AGQAPQBhAGIAYwBkAGUAZgA="), ["pwd=abcdef"]);
    }

    #[test]
    fn what_is_no_text_is_left_alone() {
        for none in [
            "d41d8cd98f00b204e9800998ecf8427e",
            "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ",
            "/usr/share/dotnet/shared/Microsoft",
            "1, 2, 3, 4, 5, 6, 7, 8, 9",
            "300, 97, 115, 115, 61, 97, 98, 99",
            "",
        ] {
            assert_eq!(texts(none), Vec::<String>::new(), "{none}");
        }
    }

    #[test]
    fn further_forms_are_unpacked() {
        assert_eq!(texts("eJwrSCwuLs8vSrHNKM0rSS0yAgA46gZ5"), ["password=hunter2"], "zlib");
        assert_eq!(texts("OBQXG43XN5ZGIPLIOVXHIZLSGI======"), ["password=hunter2"], "base32");
        assert_eq!(texts("0x70617373776f72643d68756e74657232"), ["password=hunter2"]);
        assert_eq!(texts("'\\x70617373776f72643d68756e74657232'"), ["password=hunter2"]);
        assert_eq!(texts("70-61-73-73-3d-61-62-63-64"), ["pass=abcd"]);
        assert_eq!(texts("[\n  112,\n  97,\n  115,\n  115,\n  61,\n  97,\n  98,\n  99\n]"), ["pass=abc"]);
        assert_eq!(texts("chr(112).chr(97).chr(115).chr(115).chr(61).chr(97).chr(98).chr(99)"), ["pass=abc"]);
        assert_eq!(
            texts("01110000 01100001 01110011 01110011 00111101 01100001 01100010 01100011"),
            ["pass=abc"]
        );
        assert_eq!(texts("GET /files/cGFzc3dvcmQ9aHVudGVyMg 200"), ["password=hunter2"]);
        assert_eq!(texts("x 112, 97, 115, 115, -61, -68, 61, 97, 98 y"), ["pass\u{fc}=ab"]);
    }

    #[test]
    fn runs_are_wrapped_over_lines() {
        let lines = "dGhlIHBhc3N3b3JkIG9m\nIHRoZSBzaG9wIGlzIGh1\nbnRlcjJ4\n";
        let pieces = |text: &str| {
            let run = runs(text.as_bytes()).into_iter().find(|run| run.text.ends_with(b"hunter2x"));
            run.map(|run| run.pieces.into_iter().map(|piece| text[piece].to_owned()).collect::<Vec<_>>())
        };
        let wanted = ["dGhlIHBhc3N3b3JkIG9m", "IHRoZSBzaG9wIGlzIGh1", "bnRlcjJ4"].map(str::to_owned).to_vec();
        assert_eq!(pieces(lines), Some(wanted.clone()));
        assert_eq!(pieces(&format!("data:\n  {}", lines.replace('\n', "\n  "))), Some(wanted.clone()));
        assert_eq!(pieces(&format!("{{\"a\":\"{}\"}}", lines.trim().replace('\n', "\\n"))), Some(wanted));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_taken(text in proptest::collection::vec(proptest::num::u8::ANY, 0..600)) {
            for run in runs(&text) {
                proptest::prop_assert!(run.pieces.iter().all(|piece| piece.start <= piece.end && piece.end <= text.len()));
            }
        }

        #[test]
        fn what_was_packed_is_found(text in "[ -~]{12,200}") {
            let hex: String = text.bytes().map(|b| format!("{b:02x}")).collect();
            let list: Vec<String> = text.bytes().map(|b| b.to_string()).collect();
            for packed in [hex, list.join(", ")] {
                proptest::prop_assert_eq!(texts(&packed), [text.clone()]);
            }
        }
    }
}
