//! A name and its value that nothing stands between, because lengths say where each ends: parameters of FastCGI, maps of MessagePack and CBOR,
//! headers of Kafka, bencode, netstrings, commands of Redis, pickles.

use std::ops::Range;

use super::apart::{NAME_MAX, Sure, Units, is_of_name};

/// A name, and what it names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) name: Range<usize>,
    pub(super) value: Range<usize>,
}

/// Length of the name that begins at a place, where its value is, and how much they say of it.
type Found = (usize, Range<usize>, Sure);

/// How a pair is read whose name begins at a place.
type Layout = fn(&[u8], usize) -> Option<Found>;

/// Those that are known.
const LAYOUTS: [Layout; 5] = [both_in_front, message_pack, cbor, zigzag, decimal];

/// The pair in whose name the word is that begins at `word` and has `length` characters.
pub(super) fn pair(units: Units<'_>, word: usize, length: usize) -> Option<Pair> {
    let bytes = units.plain()?;
    let end_of_word = word + length;
    let starts = (word.saturating_sub(NAME_MAX)..=word).rev();
    let within = starts.take_while(|start| *start == word || is_of_name(bytes[*start]));
    within.filter(|start| *start > 0).find_map(|start| {
        let is_name = |count: usize| {
            let name = bytes.get(start..start + count.min(NAME_MAX + 1));
            start + count >= end_of_word && name.is_some_and(|name| name.iter().all(|b| is_of_name(*b)))
        };
        let counted = LAYOUTS.iter().find_map(|layout| {
            let (count, value, sure) = layout(bytes, start)?;
            let text = bytes.get(value.clone())?;
            let fits = is_name(count)
                && text.iter().all(|b| (b' '..0x7f).contains(b))
                && units.is_counted_value(value.start, value.len(), sure);
            fits.then(|| Pair { name: start..start + count, value })
        });
        counted.or_else(|| {
            // The length of the name alone, and behind it a string as others have it.
            let count = usize::from(bytes[start - 1]);
            let value = is_name(count).then(|| units.value_behind(start + count))??;
            Some(Pair { name: start..start + count, value })
        })
    })
}

/// FastCGI: both lengths, in one byte or in four, then both texts.
fn both_in_front(bytes: &[u8], start: usize) -> Option<Found> {
    let one = |end: usize| Some((end.checked_sub(1)?, usize::from(*bytes.get(end.checked_sub(1)?)?)));
    let four = |end: usize| {
        let at = end.checked_sub(4)?;
        let length = u32::from_be_bytes(bytes.get(at..end)?.try_into().ok()?);
        (length >> 31 == 1).then_some((at, (length & 0x7fff_ffff) as usize))
    };
    let (before, value) = four(start).or_else(|| one(start).filter(|(_, length)| *length < 0x80))?;
    let (_, name) = four(before).or_else(|| one(before).filter(|(_, length)| *length < 32))?;
    Some((name, start + name..(start + name).checked_add(value)?, Sure::Counted))
}

/// A text that has its length in the bytes in front of it: as many as those are, and the length.
type Head = fn(&[u8]) -> Option<(usize, usize)>;

/// Texts one after the other, each with such a head.
fn headed(bytes: &[u8], start: usize, head: Head) -> Option<Found> {
    let name = (1..=2).find_map(|size| {
        let (of_head, length) = head(bytes.get(start.checked_sub(size)?..start)?)?;
        (of_head == size).then_some(length)
    })?;
    let (of_head, length) = head(bytes.get(start + name..)?)?;
    let value = start + name + of_head;
    Some((name, value..value.checked_add(length)?, Sure::Alone))
}

fn message_pack(bytes: &[u8], start: usize) -> Option<Found> {
    headed(bytes, start, |bytes| match *bytes {
        [short @ 0xa0..=0xbf, ..] => Some((1, usize::from(short & 0x1f))),
        [0xd9, length, ..] => Some((2, usize::from(length))),
        [0xda, high, low, ..] => Some((3, usize::from(u16::from_be_bytes([high, low])))),
        _ => None,
    })
}

/// Its heads are letters: what is a name and its value there may be a word.
fn cbor(bytes: &[u8], start: usize) -> Option<Found> {
    let found = headed(bytes, start, |bytes| match *bytes {
        [short @ 0x60..=0x77, ..] => Some((1, usize::from(short - 0x60))),
        [0x78, length, ..] => Some((2, usize::from(length))),
        [0x79, high, low, ..] => Some((3, usize::from(u16::from_be_bytes([high, low])))),
        _ => None,
    });
    found.map(|(name, value, _)| (name, value, Sure::Beside))
}

/// Avro, Kafka: lengths are doubled.
fn zigzag(bytes: &[u8], start: usize) -> Option<Found> {
    let name = usize::from(*bytes.get(start.checked_sub(1)?)?);
    let head = |bytes: &[u8]| match *bytes {
        [low @ 0..0x80, ..] => Some((1, usize::from(low))),
        [low, high @ 0..0x80, ..] => Some((2, usize::from(low & 0x7f) | usize::from(high) << 7)),
        _ => None,
    };
    let is_doubled = name < 64 && name % 2 == 0;
    let (of_head, length) = is_doubled.then(|| head(bytes.get(start + name / 2..)?))??;
    let value = start + name / 2 + of_head;
    let sure = if name < 32 { Sure::Counted } else { Sure::Beside };
    (length % 2 == 0).then(|| (name / 2, value..value + length / 2, sure))
}

/// Lengths in digits: `11:db_password6:secret`, `11:db_password,6:secret,`, `$11\r\ndb_password\r\n$6\r\nsecret`.
fn decimal(bytes: &[u8], start: usize) -> Option<Found> {
    let before = &bytes[start.saturating_sub(6)..start];
    let (head, sign, ends) = match before {
        [head @ .., b':'] => (head, false, [&b""[..], b","]),
        [head @ .., b'\r', b'\n'] => (head, true, [&b"\r\n$"[..], b"\r\n$"]),
        _ => return None,
    };
    let digits = head.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (head, digits) = head.split_at(head.len() - digits);
    let name = number(digits)?;
    if sign && !head.ends_with(b"$") {
        return None;
    }
    let behind = bytes.get(start + name..)?;
    let end = ends.into_iter().rev().find(|end| behind.starts_with(end))?;
    let behind = &behind[end.len()..];
    let count = behind.iter().take(5).take_while(|b| b.is_ascii_digit()).count();
    let length = number(&behind[..count])?;
    let joint: &[u8] = if sign { b"\r\n" } else { b":" };
    let value = start + name + end.len() + count + joint.len();
    behind[count..].starts_with(joint).then_some((name, value..value + length, Sure::Alone))
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::window::Encoding;
    use super::*;

    const NAME: &str = "db_password";

    fn found(bytes: &[u8]) -> Option<(String, String)> {
        let word = memchr::memmem::find(bytes, b"password").expect("the word is there");
        let pair = pair(Units::new(bytes, Encoding::Bytes)?, word, 8)?;
        let text = |range: Range<usize>| String::from_utf8_lossy(&bytes[range]).into_owned();
        Some((text(pair.name), text(pair.value)))
    }

    fn written(name: &str, value: &str) -> Vec<(&'static str, Vec<u8>)> {
        let (n, v) = (name.len() as u8, value.len() as u8);
        let joined = |parts: &[&[u8]]| [&[7, 7, 7, 7][..], &parts.concat(), &[0, 9, 9, 9]].concat();
        let (name, value) = (name.as_bytes(), value.as_bytes());
        let long = |length: u8| [0x80, 0, 0, length];
        vec![
            ("FastCGI", joined(&[&[n, v], name, value])),
            ("FastCGI, long value", joined(&[&[n], &long(v), name, value])),
            ("FastCGI, both long", joined(&[&long(n), &long(v), name, value])),
            ("MessagePack", joined(&[&[0x81, 0xa0 | n], name, &[0xd9, v], value])),
            ("MessagePack, 8 and 16 bits", joined(&[&[0xd9, n], name, &[0xda, 0, v], value])),
            ("CBOR", joined(&[&[0xa1, 0x60 | n], name, &[0x78, v], value])),
            ("Kafka", joined(&[&[2 * n], name, &[2 * v], value])),
            ("bencode", joined(&[b"d", format!("{n}:").as_bytes(), name, format!("{v}:").as_bytes(), value])),
            (
                "netstrings",
                joined(&[format!("{n}:").as_bytes(), name, format!(",{v}:").as_bytes(), value, b","]),
            ),
            (
                "Redis",
                joined(&[
                    format!("${n}\r\n").as_bytes(),
                    name,
                    format!("\r\n${v}\r\n").as_bytes(),
                    value,
                    b"\r\n",
                ]),
            ),
            ("pickle", joined(&[&[0x8c, n], name, &[0x94, 0x8c, v], value, &[0x94]])),
            ("Java", joined(&[&[b't', 0, n], name, &[b't', 0, v], value])),
        ]
    }

    #[test]
    fn lengths_say_where_name_and_value_end() {
        for value in ["hX7kq2Lm9vTb4Zr8", "7c9e6679-7425-40de-944b-e07fc1f90ae7"] {
            for (how, bytes) in written(NAME, value) {
                assert_eq!(found(&bytes), Some((NAME.to_owned(), value.to_owned())), "{how}");
            }
        }
    }

    #[test]
    fn lengths_that_do_not_fit_and_words_are_no_pairs() {
        for (how, bytes) in written(NAME, "hX7kq2Lm9vTb4Zr8") {
            // Each length one more than it is.
            let at = memchr::memmem::find(&bytes, NAME.as_bytes()).expect("it is there");
            let mut longer = bytes.clone();
            longer.insert(at + NAME.len(), b'!');
            assert_ne!(found(&longer).map(|(_, value)| value), Some("hX7kq2Lm9vTb4Zr8".to_owned()), "{how}");
        }
        for (how, bytes) in written(NAME, "general information")
            .into_iter()
            .filter(|(how, _)| matches!(*how, "FastCGI" | "CBOR" | "Kafka" | "pickle" | "Java"))
        {
            assert_eq!(found(&bytes), None, "{how}");
        }
        for text in ["hashpasswordinternal_2", "the password for 12:30 is known"] {
            assert_eq!(found(text.as_bytes()), None, "{text}");
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(300))]

        #[test]
        fn any_bytes_around_a_name_are_taken(
            before in proptest::collection::vec(proptest::num::u8::ANY, 0..12),
            behind in proptest::collection::vec(proptest::num::u8::ANY, 0..80),
        ) {
            let bytes = [&before[..], b"password", &behind].concat();
            let units = Units::new(&bytes, Encoding::Bytes).expect("it is read");
            if let Some(pair) = pair(units, before.len(), 8) {
                proptest::prop_assert!(pair.name.start <= before.len() && before.len() + 8 <= pair.name.end);
                proptest::prop_assert!(pair.name.end <= pair.value.start && pair.value.end <= bytes.len());
            }
        }
    }
}
