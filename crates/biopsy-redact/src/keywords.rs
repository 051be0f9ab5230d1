//! All keywords of all rules in one pass: a table of first bytes that fits the nearest cache says where one may begin, and only there
//! keywords are compared.
//!
//! An automaton over two thousand keywords has megabytes of states, and each byte of the text waits for the next of them: 7 ns a byte
//! where this takes about one.

use std::ops::Range;

/// Bits of the tables of first bytes, as a power of two.
const FILTER_BITS: u32 = 18;
/// Groups of keywords with one beginning, as a power of two.
const GROUP_BITS: u32 = 12;
/// Bytes that are compared at once.
const WORD: usize = 8;
/// The first bytes of a word.
const TWO: u64 = 0xffff;
const THREE: u64 = 0xff_ffff;
const FOUR: u64 = 0xffff_ffff;
/// Sets the bit that is different between small and capital letters; in other bytes it makes some equal that are not.
const FOLD: u64 = 0x2020_2020_2020_2020;

/// A keyword in a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeywordHit {
    start: usize,
    length: u16,
    keyword: u16,
}

impl KeywordHit {
    pub(crate) fn start(self) -> usize {
        self.start
    }

    pub(crate) fn end(self) -> usize {
        self.start + usize::from(self.length)
    }

    pub(crate) fn range(self) -> Range<usize> {
        self.start..self.end()
    }

    fn order(self) -> (usize, usize) {
        (self.end(), self.start)
    }

    /// Its number in the list that the search was made of.
    pub(crate) fn keyword(self) -> usize {
        usize::from(self.keyword)
    }
}

/// The search.
#[derive(Debug)]
pub(crate) struct Keywords {
    /// Bit by hash of three folded bytes: a keyword may begin so.
    filter: Table,
    /// The same of four, for the longer ones: of what the first table lets through, it lets through a third.
    longer: Table,
    /// What of the first table the shorter ones are.
    shorter: Table,
    /// Keywords of four bytes and more.
    long: Groups,
    /// Keywords of three bytes.
    triples: Groups,
    /// Keywords of two bytes.
    pairs: Groups,
    /// Keywords of one byte, in both cases.
    singles: Vec<(u8, u16)>,
}

/// A bit for each hash. Its size is part of the type: no place in it is looked up behind its end.
type Table = Box<[u64; 1 << (FILTER_BITS - 6)]>;

/// Keywords by the hash of how they begin.
#[derive(Debug)]
struct Groups {
    /// Where in the list each group begins, and the end of the last one.
    starts: Box<[u16]>,
    keywords: Vec<Keyword>,
}

#[derive(Clone, Debug)]
struct Keyword {
    /// Its first bytes, folded, and which of a word they are.
    word: u64,
    mask: u64,
    text: Box<[u8]>,
    number: u16,
}

/// Why there can be no search.
#[derive(thiserror::Error, Clone, Copy, PartialEq, Eq, Debug)]
#[error("there are more than {} keywords, or one is empty or longer than that", u16::MAX)]
pub struct TooManyKeywords;

impl Keywords {
    /// A search for these, in any case of ASCII.
    pub(crate) fn new(keywords: &[String]) -> Result<Self, TooManyKeywords> {
        let mut filter: Table = Box::new([0; 1 << (FILTER_BITS - 6)]);
        let mut longer = filter.clone();
        let mut shorter = filter.clone();
        let (mut long, mut triples, mut pairs, mut singles) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (number, text) in keywords.iter().enumerate() {
            let number = u16::try_from(number).map_err(|_| TooManyKeywords)?;
            let text = text.as_bytes();
            if u16::try_from(text.len()).is_err() {
                return Err(TooManyKeywords);
            }
            match text {
                [] => return Err(TooManyKeywords),
                [one] => {
                    singles.push((one.to_ascii_lowercase(), number));
                    if one.is_ascii_alphabetic() {
                        singles.push((one.to_ascii_uppercase(), number));
                    }
                }
                [_, _] => {
                    let keyword = Keyword::new(text, number);
                    (0..=255_u64).for_each(|third| {
                        set(&mut filter, (keyword.word | third << 16 | FOLD) & THREE);
                        set(&mut shorter, (keyword.word | third << 16 | FOLD) & THREE);
                    });
                    pairs.push(keyword);
                }
                [_, _, _] => {
                    let keyword = Keyword::new(text, number);
                    set(&mut filter, keyword.word);
                    set(&mut shorter, keyword.word);
                    triples.push(keyword);
                }
                _ => {
                    let keyword = Keyword::new(text, number);
                    set(&mut filter, keyword.word & THREE);
                    set(&mut longer, keyword.word & FOUR);
                    long.push(keyword);
                }
            }
        }
        Ok(Self {
            filter,
            longer,
            shorter,
            long: Groups::new(long, FOUR),
            triples: Groups::new(triples, THREE),
            pairs: Groups::new(pairs, TWO),
            singles,
        })
    }

    /// All keywords in `text`, those that overlap too, in the order of their ends and then of their beginnings.
    pub(crate) fn find(&self, text: &[u8], hits: &mut Vec<KeywordHit>) {
        hits.clear();
        for (at, window) in text.windows(WORD).enumerate() {
            let word = u64::from_le_bytes(window.try_into().unwrap_or_default()) | FOLD;
            if is_set(&self.filter, word & THREE) {
                self.compare(text, at, word, hits);
            }
        }
        for at in text.len().saturating_sub(WORD - 1)..text.len() {
            let word = text[at..].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)) | FOLD;
            if is_set(&self.filter, word & THREE) {
                self.compare(text, at, word, hits);
            }
        }
        if self.singles.is_empty() {
            return;
        }
        for (byte, keyword) in &self.singles {
            let found = memchr::memchr_iter(*byte, text);
            hits.extend(found.map(|start| KeywordHit { start, length: 1, keyword: *keyword }));
        }
        hits.sort_by_key(|hit| hit.order());
    }

    /// Adds the keywords that begin at `start`, where the text begins with `word`.
    #[inline]
    fn compare(&self, text: &[u8], start: usize, word: u64, hits: &mut Vec<KeywordHit>) {
        // Of what the first table lets through, half ends here.
        let (is_short, is_long) = (is_set(&self.shorter, word & THREE), is_set(&self.longer, word & FOUR));
        if is_short {
            Self::add(self.pairs.group(word & TWO), text, start, word, hits);
            Self::add(self.triples.group(word & THREE), text, start, word, hits);
        }
        if is_long {
            Self::add(self.long.group(word & FOUR), text, start, word, hits);
        }
    }

    fn add(group: &[Keyword], text: &[u8], start: usize, word: u64, hits: &mut Vec<KeywordHit>) {
        for keyword in group {
            if (word ^ keyword.word) & keyword.mask == 0
                && text.get(start..start + keyword.text.len()).is_some_and(|there| keyword.is(there))
            {
                let length = keyword.text.len() as u16;
                let hit = KeywordHit { start, length, keyword: keyword.number };
                // Those that began before and end behind it are few: no keyword is long.
                let behind = hits.iter().rev().take_while(|other| other.order() > hit.order()).count();
                hits.insert(hits.len() - behind, hit);
            }
        }
    }
}

impl Keyword {
    fn new(text: &[u8], number: u16) -> Self {
        let first = &text[..text.len().min(WORD)];
        let word = first.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let mask = u64::MAX >> (64 - 8 * first.len());
        Self { word: (word | FOLD) & mask, mask, text: text.into(), number }
    }

    fn is(&self, there: &[u8]) -> bool {
        self.text.eq_ignore_ascii_case(there)
    }
}

impl Groups {
    /// By what `beginning` leaves of their words.
    fn new(mut keywords: Vec<Keyword>, beginning: u64) -> Self {
        let group = |keyword: &Keyword| hash(keyword.word & beginning, GROUP_BITS);
        keywords.sort_by_key(group);
        let starts = 0..=1 << GROUP_BITS;
        let starts = starts.map(|at| keywords.partition_point(|keyword| group(keyword) < at) as u16);
        Self { starts: starts.collect(), keywords }
    }

    fn group(&self, beginning: u64) -> &[Keyword] {
        let group = hash(beginning, GROUP_BITS);
        &self.keywords[usize::from(self.starts[group])..usize::from(self.starts[group + 1])]
    }
}

fn set(filter: &mut Table, beginning: u64) {
    let bit = hash(beginning, FILTER_BITS);
    filter[bit >> 6] |= 1 << (bit & 63);
}

#[inline]
fn is_set(filter: &Table, beginning: u64) -> bool {
    let bit = hash(beginning, FILTER_BITS);
    filter[bit >> 6] >> (bit & 63) & 1 != 0
}

/// The upper bits of a product: each byte takes part in them.
fn hash(beginning: u64, bits: u32) -> usize {
    ((beginning as u32).wrapping_mul(0x9e37_79b1) >> (32 - bits)) as usize
}

#[cfg(test)]
mod tests {
    use aho_corasick::AhoCorasick;
    use proptest::prelude::*;

    use super::*;

    fn found(keywords: &[&str], text: &[u8]) -> Vec<(usize, usize, usize)> {
        let keywords: Vec<String> = keywords.iter().map(|keyword| (*keyword).to_owned()).collect();
        let mut hits = Vec::new();
        Keywords::new(&keywords).expect("few").find(text, &mut hits);
        hits.iter().map(|hit| (hit.start(), hit.end(), hit.keyword())).collect()
    }

    #[test]
    fn keywords_of_all_lengths_are_found_in_any_case() {
        let keywords = ["|", "q~", "pin", "password", "word", "authorization", "пароль"];
        let text = "PassWord|AUTHORIZATION: Q~ pIn пароль pi";
        let words: Vec<&str> =
            found(&keywords, text.as_bytes()).iter().map(|(start, end, _)| &text[*start..*end]).collect();
        assert_eq!(words, ["PassWord", "Word", "|", "AUTHORIZATION", "Q~", "pIn", "пароль"]);
        assert_eq!(found(&["k"], b"kK"), [(0, 1, 0), (1, 2, 0)]);
        // Bytes that the folding makes equal are not.
        assert_eq!(found(&["a@b", "[x", "é"], "A`B {x é É".as_bytes()), [(7, 9, 2)]);
        assert_eq!(Keywords::new(&[String::new()]).err(), Some(TooManyKeywords));
    }

    proptest! {
        #[test]
        fn it_finds_what_an_automaton_does(
            keywords in proptest::collection::hash_set("[a-c@{][a-cA-C`|é]{0,10}", 1..40),
            text in "[a-cA-C@{`|é]{0,80}",
        ) {
            let keywords: Vec<String> = keywords.into_iter().map(|word| word.to_ascii_lowercase()).collect();
            let keywords: Vec<&str> = keywords.iter().map(String::as_str).collect();
            let mut once = keywords.clone();
            once.sort_unstable();
            once.dedup();
            let automaton = AhoCorasick::builder().ascii_case_insensitive(true).build(&once).expect("few");
            let expected: Vec<_> = automaton
                .find_overlapping_iter(&text)
                .map(|hit| (hit.start(), hit.end(), hit.pattern().as_usize()))
                .collect();
            prop_assert_eq!(found(&once, text.as_bytes()), expected);
        }
    }
}
