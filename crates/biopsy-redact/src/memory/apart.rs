//! A name and its value as two strings of their own: `password\0x1\0`, or with the length of each in front of it, as strings of .NET,
//! Java, Pascal, BSON, protobuf and many protocols have.
//!
//! Tables of strings in programs have such neighbours, too: symbols, columns, options. So the value must look like one more than
//! behind a sign.

use std::ops::Range;

use super::window::Encoding;
use crate::plausible;
use crate::scrambled::is_no_name;

/// Most bytes between the two: an end, what fills up to the next multiple of eight, the header of an object, a length.
const GAP_MAX: usize = 40;
/// Most zeros that end a string and fill up behind it.
const ZEROS_MAX: usize = 8;
/// Most bytes between the two if the length is one byte.
const SHORT_GAP_MAX: usize = 3;
/// Longest value, in characters.
const VALUE_MAX: usize = 4096;
/// Longest name, and what may stand around it, in characters.
pub(super) const NAME_MAX: usize = 64;

/// Characters of a name.
pub(super) fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'$' | b':')
}

/// What lengths say of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sure {
    /// They stand as nothing else does: any value is one.
    Alone,
    /// Its length is right.
    Counted,
    /// They may be letters of a word.
    Beside,
}

/// Memory, read in units.
#[derive(Clone, Copy)]
pub(super) struct Units<'t> {
    bytes: &'t [u8],
    encoding: Encoding,
}

impl<'t> Units<'t> {
    /// `bytes` as characters of this encoding; none for UTF-16 with its high byte first, which no heap has.
    pub(super) fn new(bytes: &'t [u8], encoding: Encoding) -> Option<Self> {
        (encoding != Encoding::Big).then_some(Self { bytes, encoding })
    }

    /// The bytes, if each is a character.
    pub(super) fn plain(self) -> Option<&'t [u8]> {
        (self.encoding == Encoding::Bytes).then_some(self.bytes)
    }

    fn stride(self) -> usize {
        if self.encoding == Encoding::Bytes { 1 } else { 2 }
    }

    /// The character at this place, if it is one of ASCII.
    fn at(self, place: usize) -> Option<u8> {
        let byte = *self.bytes.get(place)?;
        let is_whole = self.encoding == Encoding::Bytes || self.bytes.get(place + 1) == Some(&0);
        (is_whole && byte.is_ascii()).then_some(byte)
    }

    /// How many characters in a row, from `start` on, are as asked.
    fn count(self, start: usize, most: usize, is: impl Fn(u8) -> bool) -> usize {
        (0..most).take_while(|index| self.at(start + index * self.stride()).is_some_and(&is)).count()
    }

    /// Those of a stretch.
    pub(super) fn characters(self, range: &Range<usize>) -> Vec<u8> {
        range.clone().step_by(self.stride()).filter_map(|place| self.at(place)).collect()
    }

    /// Where the name around a word may end that begins at `word` and has `length` characters, if it ends its string: what looks like its last
    /// character may be the length of the next one.
    pub(super) fn ends_of_name(self, word: usize, length: usize) -> impl Iterator<Item = usize> {
        let behind = word + length * self.stride();
        let end = behind + self.count(behind, NAME_MAX, is_of_name) * self.stride();
        // In front of another string stands an end, or its length.
        let is_end = match self.encoding {
            Encoding::Bytes => {
                self.bytes.get(end).is_some_and(|b| *b < b' ' && !matches!(b, b'\n' | b'\r' | b'\t' | 0x1b))
            }
            Encoding::Little | Encoding::Big => self.bytes.get(end..end + 2) == Some(&[0, 0]),
        };
        let is_length =
            self.encoding == Encoding::Bytes && end > behind && self.bytes[end..].starts_with(&[0; 3]);
        [is_end.then_some(end), (is_end && is_length).then(|| end - 1)].into_iter().flatten()
    }

    /// The name that ends at `end`, if it begins its string, and where the word in it begins.
    pub(super) fn name(self, word: usize, end: usize) -> Option<(Vec<u8>, usize)> {
        let stride = self.stride();
        let mut start = word;
        while let Some(before) = start.checked_sub(stride)
            && end - before <= 2 * NAME_MAX * stride
            && self.at(before).is_some_and(is_of_name)
        {
            start = before;
        }
        let is_first =
            start.checked_sub(stride).is_none_or(|before| self.at(before).is_none_or(|b| b < b' '));
        is_first.then(|| self.name_between(word, start..end))?
    }

    /// The name that stands there, and where the word in it begins.
    pub(super) fn name_between(self, word: usize, name: Range<usize>) -> Option<(Vec<u8>, usize)> {
        // `--password`, `Database:Password`: the name is what is behind.
        let word = (word - name.start) / self.stride();
        let mut name = self.characters(&name);
        let skip = name[..word].iter().rposition(|b| *b == b':').map_or(0, |colon| colon + 1);
        let skip = skip + name[skip..].iter().take(2).take_while(|b| **b == b'-').count();
        let index = word.checked_sub(skip)?;
        name.drain(..skip);
        (!is_mangled(&name)).then_some((name, index))
    }

    /// The value in the next string, behind a name that ends at `end`.
    pub(super) fn value_behind(self, end: usize) -> Option<Range<usize>> {
        let stride = self.stride();
        let ends = |place: usize, count: usize| {
            let behind = place + count * stride;
            self.bytes.get(behind..behind + stride).is_none_or(|unit| unit.iter().all(|b| *b == 0))
        };
        let length = |place: usize| self.count(place, VALUE_MAX, |b| b >= b' ' && b != 0x7f);
        let zeros = self.bytes[end..].iter().take(ZEROS_MAX + 1).take_while(|b| **b == 0).count();
        let zeros = zeros - zeros % stride;
        if (1..=ZEROS_MAX).contains(&zeros) {
            let place = end + zeros;
            let count = length(place);
            // What looks like its first character may be its length.
            let has_length = count > 1 && stride == 1 && self.is_counted(end, place + 1, count - 1);
            if count > 0 && !has_length && ends(place, count) && self.is_value(place, count, false) {
                return Some(place..place + count * stride);
            }
        }
        (end + stride..=end + GAP_MAX).step_by(stride).find_map(|place| {
            if !self.at(place).is_some_and(|b| b.is_ascii_graphic()) || self.is_text_before(end, place) {
                return None;
            }
            let count = length(place);
            let is_counted = self.is_counted(end, place, count)
                || ends(place, count) && self.is_counted(end, place, count + 1);
            (is_counted && self.is_value(place, count, true)).then(|| place..place + count * stride)
        })
    }

    /// Did the text begin in front of `place`?
    fn is_text_before(self, end: usize, place: usize) -> bool {
        place > end + 4 && self.bytes[place - 4..place].iter().all(|b| b.is_ascii_graphic())
    }

    /// Does the length stand in front: in four bytes or eight, in two (high byte first), in one, or seven bits in each?
    fn is_counted(self, end: usize, place: usize, count: usize) -> bool {
        let before =
            |length: usize| self.bytes.get(place.checked_sub(length).filter(|at| *at >= end)?..place);
        let is = |found: u32| {
            found as usize == count || self.encoding != Encoding::Bytes && found as usize == 2 * count
        };
        let four = |at: &[u8]| {
            at.try_into().is_ok_and(|at| is(u32::from_le_bytes(at)) || is(u32::from_be_bytes(at)))
        };
        let eight = |at: &[u8]| at[4..] == [0; 4] && four(&at[..4]);
        let two = |at: &[u8]| at.try_into().is_ok_and(|at| usize::from(u16::from_be_bytes(at)) == count);
        let seven = |at: &[u8]| {
            at[0] >= 0x80 && at[1] < 0x80 && usize::from(at[0] & 0x7f) | usize::from(at[1]) << 7 == count
        };
        let is_near = place - end <= SHORT_GAP_MAX && self.encoding == Encoding::Bytes;
        before(4).is_some_and(four)
            || before(8).is_some_and(eight)
            || is_near && before(2).is_some_and(|at| two(at) || seven(at))
            // A letter is one, unless a tag stands in front of it, as of protobuf or of pickles.
            || is_near
                && before(1).is_some_and(|at| usize::from(at[0]) == count)
                && (count < 32
                        || before(2).is_some_and(|at| (1..32).contains(&at[0]) || at[0] >= 0x80))
    }

    /// The same of a value whose length, and that of its name, is known.
    pub(super) fn is_counted_value(self, place: usize, count: usize, sure: Sure) -> bool {
        if sure != Sure::Alone {
            return self.is_value(place, count, sure == Sure::Counted);
        }
        let value = self.characters(&(place..place + count * self.stride()));
        !value.is_empty() && !holds_more(&value) && !is_mangled(&value)
    }

    /// May it be a secret? What is `counted` is no symbol of a program.
    pub(super) fn is_value(self, place: usize, count: usize, counted: bool) -> bool {
        let value = self.characters(&(place..place + count * self.stride()));
        value.len() >= 6
            && !holds_more(&value)
            && (looks_chosen(&value, counted)
                || counted && value.len() >= 8 && value.iter().all(u8::is_ascii_digit))
    }
}

/// Is it a symbol of C++, Rust or Swift, whole or from its second byte on?
fn is_mangled(text: &[u8]) -> bool {
    let is_begun =
        |text: &[u8]| [&b"_Z"[..], b"_R", b"$s", b".L", b"__"].iter().any(|start| text.starts_with(start));
    // `ZN4llvm`, `ZTSN4llvm`, `ZL4name`
    let is_cut = text.starts_with(b"Z") && text[1..].iter().take(5).any(u8::is_ascii_digit);
    // `N4llvm8LoopPassE`: a number that is the length of the word behind it.
    let start = text.iter().take(5).take_while(|b| b.is_ascii_uppercase() || **b == b't').count();
    let digits = text[start..].iter().take(2).take_while(|b| b.is_ascii_digit()).count();
    let length = text[start..start + digits].iter().fold(0, |sum, b| sum * 10 + usize::from(b - b'0'));
    let word = text.get(start + digits..start + digits + length);
    let is_counted = start > 0
        && length >= 3
        && word.is_some_and(|word| word.iter().all(|b| b.is_ascii_alphabetic() || *b == b'_'));
    let is_path = text.windows(2).any(|pair| pair == b"::");
    is_begun(text) || is_cut || is_counted || is_path || text.windows(2).any(|pair| pair == b"$_")
}

/// An address, or a name with its value: what is secret of it is for the rules of such texts, and the rest stays.
fn holds_more(value: &[u8]) -> bool {
    let name = value.iter().take_while(|byte| is_of_name(**byte)).count();
    let is_pair = value[name..].starts_with(b"=") && value[name + 1..].iter().any(|byte| *byte != b'=');
    name > 0 && is_pair || memchr::memmem::find(value, b"://").is_some()
}

/// Is it what somebody chose or a program drew, and no name that programs are made of: `OPENSSL_1_1_0`, `utf8mb4_general_ci`, `%s:%d`,
/// `_ZN4core3fmt`, `user2Name`? Symbols are no `counted` strings.
fn looks_chosen(value: &[u8], counted: bool) -> bool {
    let has = |of: fn(&u8) -> bool| value.iter().any(of);
    let is_format =
        value.windows(2).any(|pair| pair[0] == b'%' && b"sdluxfpc.0123456789-".contains(&pair[1]));
    if is_mangled(value)
        || is_format
        || has(|b| b"()<>{}\\\"'`|;".contains(b)) && !plausible::is_random_with_brackets(value)
    {
        return false;
    }
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let has_sign = has(|b| b"!@#$^&*+~?".contains(b));
    let is_one_word = !value.contains(&b' ');
    if plausible::is_uuid(value)
        || is_word_and_number(value)
        || has_sign && digits >= 1 && is_one_word && plausible::is_of_a_cell(value)
    {
        return true;
    }
    if !counted {
        // Symbols are made of words; in what a program drew there are none.
        let parts = value.split(|b| b"_.-:/".contains(b));
        let is_whole = !has(|b| b"_.:/".contains(b));
        let is_drawn = |part: &[u8]| (is_whole || part.len() >= 12) && is_random(part);
        return is_one_word
            && !value.starts_with(b"anon.")
            && (is_whole && is_random(value) || parts.into_iter().any(is_drawn));
    }
    let (upper, lower) = (has(u8::is_ascii_uppercase), has(u8::is_ascii_lowercase));
    // `EVP_sha512_256`
    let is_symbol = value.iter().filter(|b| **b == b'_').count() > 1;
    plausible::is_no_word(value)
        || value.len() >= 12 && (digits > 0 || has_sign) && is_no_name(value)
        || plausible::is_of_a_cell(value) && digits >= 3 && upper && lower && is_one_word && !is_symbol
}

/// `Summer_2092`, `Karina3463`, `winter!77`: a word, and a number at its end.
fn is_word_and_number(value: &[u8]) -> bool {
    let digits = value.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let rest = &value[..value.len() - digits];
    let word = match rest {
        [word @ .., b'_' | b'-' | b'.' | b'!' | b'@' | b'#' | b'$'] => word,
        word => word,
    };
    let has_joint = word.len() < rest.len();
    let is_capital =
        word.first().is_some_and(u8::is_ascii_uppercase) && word[1..].iter().all(u8::is_ascii_lowercase);
    let fewest = if has_joint { 2 } else { 3 };
    is_capital && word.len() >= 4 && digits >= fewest && plausible::is_of_a_cell(value)
}

/// Random letters and digits, as programs draw them.
fn is_random(part: &[u8]) -> bool {
    let longest = part.split(|b| !b.is_ascii_lowercase()).map(<[u8]>::len).max().unwrap_or(0);
    let has_upper = part.iter().any(u8::is_ascii_uppercase);
    part.iter().any(u8::is_ascii_digit) && (longest < 5 || !has_upper) && plausible::is_no_word(part)
}

#[cfg(test)]
mod tests;
