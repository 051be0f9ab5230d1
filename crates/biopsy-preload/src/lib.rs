//! The library that counts allocations inside a program that biopsy starts, as bytes, and what it writes down.
//!
//! `library/` is compiled by the build script, without a standard library and without anything to link with; it is the second place with
//! unsafe code, because it takes the place of `malloc` in somebody else's program. What it shares with biopsy is a file in memory ([`layout`]),
//! which the program can write to as it likes: numbers are read from copies, and believed only where they cannot do harm.
#![forbid(unsafe_code)]

#[expect(missing_docs, reason = "words of one file, told in it")]
pub mod layout;

use layout::{
    CONFIG, DEEPEST, FRAMES, FRAMES_AT, HEADER_WORDS, MAGIC, SITE_BYTES, SITE_CALLS, SITE_FRAMES, SITE_LIVE,
    SITE_PEAK, SITE_RELEASED, SITE_TEMPORARY, SITE_WORDS, SITES, SITES_AT, WORD_LIVE, WORD_LOST, WORD_MAGIC,
    WORD_OWN_NEW, WORD_PEAK, WORD_PROBLEM, WORD_SITES,
};

/// The library; empty for processors that it is not written for.
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));

/// Bytes of the file that is shared.
pub const SHARED_BYTES: u64 = (layout::TOTAL_WORDS * 8) as u64;
/// Bytes of a place.
const SITE_SIZE: usize = SITE_WORDS * 8;

/// The library with the descriptors that it has in the program: its own, and that of the shared file. `None`: there is none for this processor.
#[must_use]
pub fn library(own: u32, shared: u32) -> Option<Vec<u8>> {
    let at = LIBRARY.windows(CONFIG.len()).position(|bytes| bytes == CONFIG)? + CONFIG.len();
    let mut library = LIBRARY.to_vec();
    library.get_mut(at..at + 4)?.copy_from_slice(&own.to_le_bytes());
    library.get_mut(at + 4..at + 8)?.copy_from_slice(&shared.to_le_bytes());
    Some(library)
}

/// What the library says of the whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// The library is loaded.
    pub is_there: bool,
    /// Places that have a number, at most [`SITES`].
    pub sites: usize,
    /// Why it does not count; see [`layout`].
    pub problem: u64,
    /// Allocations that it could not count.
    pub lost: u64,
    /// The allocator serves `operator new` of C++ by itself, which is not counted.
    pub own_new: bool,
    /// Bytes that are there.
    pub live: u64,
    /// The most bytes that were there at one time.
    pub peak: u64,
}

/// Bytes of the header.
pub const HEADER_BYTES: usize = HEADER_WORDS * 8;

impl Header {
    /// From the beginning of the file.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        let word = |number| word(bytes, number);
        Self {
            is_there: word(WORD_MAGIC) == MAGIC,
            sites: usize::try_from(word(WORD_SITES)).unwrap_or(usize::MAX).min(SITES),
            problem: word(WORD_PROBLEM),
            lost: word(WORD_LOST),
            own_new: word(WORD_OWN_NEW) != 0,
            live: word(WORD_LIVE),
            peak: word(WORD_PEAK),
        }
    }
}

/// What was allocated from one stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Site {
    /// Where its return addresses begin in the file, and how many there are; at most [`DEEPEST`], inside of the file.
    pub frames: (u64, usize),
    /// Allocations.
    pub calls: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those given back; never more than there were.
    pub released: u64,
    /// Bytes given back.
    pub released_bytes: u64,
    /// Given back before the thread allocated anything else.
    pub temporary: u64,
    /// The most bytes that were there at one time.
    pub peak: u64,
}

/// Places that are read at a time.
const BATCH: usize = 1024;

/// All places of the file that something was allocated at, with their numbers. `read` fills the bytes from a place in the file on, and says
/// whether they are there. `false`: some were not.
///
/// # Errors
/// What `each` says.
pub fn read_sites<E>(
    header: &Header,
    read: impl Fn(u64, &mut [u8]) -> bool,
    mut each: impl FnMut(usize, &Site) -> Result<(), E>,
) -> Result<bool, E> {
    let count = header.sites.min(SITES);
    let mut bytes = vec![0; BATCH.min(count) * SITE_SIZE];
    for first in (0..count).step_by(BATCH) {
        let at = ((SITES_AT + first * SITE_WORDS) * 8) as u64;
        let Some(part) = bytes.get_mut(..(count - first).min(BATCH) * SITE_SIZE) else { break };
        if !read(at, part) {
            return Ok(false);
        }
        for (number, line) in part.chunks_exact(SITE_SIZE).enumerate() {
            if let Some(site) = Site::read(line) {
                each(first + number, &site)?;
            }
        }
    }
    Ok(true)
}

impl Site {
    /// From its line. `None`: nothing was allocated there, or it is no line that the library writes.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let word = |number| word(bytes, number);
        let frames = word(SITE_FRAMES);
        let (first, count) = (usize::try_from(frames >> 8).ok()?, usize::try_from(frames & 0xff).ok()?);
        if count > DEEPEST || first.checked_add(count)? > FRAMES || word(SITE_CALLS) == 0 {
            return None;
        }
        let (calls, bytes) = (word(SITE_CALLS), word(SITE_BYTES));
        // Words of one line are changed one after the other.
        let live = word(SITE_LIVE).min(bytes);
        let released = word(SITE_RELEASED).min(calls);
        Some(Self {
            frames: (((FRAMES_AT + first) * 8) as u64, count),
            calls,
            bytes,
            released,
            released_bytes: bytes - live,
            temporary: word(SITE_TEMPORARY).min(released),
            peak: word(SITE_PEAK).clamp(live, bytes),
        })
    }
}

/// A word; of what is not there, nothing.
fn word(bytes: &[u8], number: usize) -> u64 {
    let at = number.saturating_mul(8);
    let word = bytes.get(at..at.saturating_add(8)).and_then(|bytes| bytes.try_into().ok());
    word.map_or(0, u64::from_le_bytes)
}

/// Return addresses of a place, innermost first.
#[must_use]
pub fn addresses(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks_exact(8).take(DEEPEST);
    words
        .filter_map(|word| word.try_into().ok())
        .map(u64::from_le_bytes)
        .take_while(|word| *word != 0)
        .collect()
}

/// Any bytes as the file, from the header, the places and the return addresses on; for fuzzing. What comes of them holds, whatever they are.
pub fn fuzz_preload(bytes: &[u8]) {
    const HEAD: usize = (layout::WORD_BEAT + 1) * 8;
    let parts = [(FRAMES_AT * 8, 0), (SITES_AT * 8, HEAD), (0, 0)];
    let read = |at: u64, to: &mut [u8]| {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let from = parts.iter().find(|(begin, _)| at >= *begin).map_or(0, |(begin, from)| at - begin + from);
        let found = bytes.get(from..).unwrap_or_default();
        to.fill(0);
        to.iter_mut().zip(found).for_each(|(to, from)| *to = *from);
        at < layout::TOTAL_WORDS * 8
    };
    let mut head = vec![0; HEADER_BYTES];
    read(0, &mut head);
    let header = Header::read(&head);
    // More than the bytes can say something of would be zeros.
    let header = Header { sites: header.sites.min(bytes.len() / SITE_SIZE + 1), ..header };
    let whole = read_sites::<()>(&header, read, |number, site| {
        let (at, count) = site.frames;
        assert!(number < SITES && count <= DEEPEST && at + (count * 8) as u64 <= SHARED_BYTES, "{site:?}");
        assert!(site.released <= site.calls && site.temporary <= site.released, "{site:?}");
        assert!(site.released_bytes <= site.bytes && site.peak <= site.bytes, "{site:?}");
        assert!(site.peak >= site.bytes - site.released_bytes, "{site:?}");
        let mut words = vec![0; count * 8];
        assert!(read(at, &mut words) || count == 0, "{site:?}");
        assert!(addresses(&words).len() <= count, "{site:?}");
        Ok(())
    });
    assert_eq!(whole, Ok(true), "{header:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn a_line_is_believed_as_far_as_it_can_be() {
        let at = |first: usize| ((FRAMES_AT + first) * 8) as u64;
        let frames = |first: u64, count: u64| first << 8 | count;
        let whole = Site {
            frames: (at(7), 3),
            calls: 10,
            bytes: 1000,
            released: 4,
            released_bytes: 400,
            temporary: 2,
            peak: 700,
        };
        for (line, expected) in [
            (vec![1, frames(7, 3), 10, 1000, 4, 600, 2, 700], Some(whole)),
            (vec![1, frames(7, 3), 0, 1000, 4, 600, 2, 700], None),
            (vec![1, frames(7, 65), 10, 1000, 4, 600, 2, 700], None),
            (vec![1, frames(FRAMES as u64, 1), 10, 1000, 4, 600, 2, 700], None),
            (vec![1, u64::MAX, 10, 1000, 4, 600, 2, 700], None),
            (vec![1, frames(7, 3)], None),
            (vec![], None),
            (
                vec![1, frames(7, 3), 10, 1000, 40, u64::MAX, 50, 1],
                Some(Site { released: 10, released_bytes: 0, temporary: 10, peak: 1000, ..whole }),
            ),
        ] {
            assert_eq!(Site::read(&bytes(&line)), expected, "{line:?}");
        }
    }

    #[test]
    fn a_header_without_its_mark_is_of_nobody_and_counts_are_bounded() {
        let mut words = vec![0; HEADER_WORDS];
        assert_eq!(Header::read(&bytes(&words)), Header::default());
        (words[WORD_MAGIC], words[WORD_SITES], words[WORD_PEAK]) = (MAGIC, u64::MAX, 9);
        let expected = Header { is_there: true, sites: SITES, peak: 9, ..Header::default() };
        assert_eq!(Header::read(&bytes(&words)), expected);
    }

    #[test]
    fn addresses_end_at_a_zero_and_at_the_deepest() {
        assert_eq!(addresses(&bytes(&[3, 2, 0, 1])), [3, 2]);
        assert_eq!(addresses(&bytes(&[5; 1000])).len(), DEEPEST);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_library_has_its_descriptors_and_needs_no_other() {
        let (one, other) = (library(3, 4).expect("one for this processor"), library(5, 6).expect("the same"));
        let different = one.iter().zip(&other).filter(|(one, other)| one != other).count();
        assert_eq!((one.len(), different), (other.len(), 2));
        // No library is asked for by name: it goes into any program.
        assert!(!one.windows(8).any(|bytes| bytes == b"libc.so."));
    }
}
