//! What the library and biopsy share: a file in memory, in words of eight bytes. The library writes it, biopsy reads it by calls (never mapped:
//! the program may cut it), and writes two words. Included by both.

/// The library has begun to count.
pub const MAGIC: u64 = u64::from_le_bytes(*b"biopsy#1");
/// Before the numbers that biopsy puts into the library: the descriptors of the library and of the shared file.
pub const CONFIG: [u8; 16] = *b"biopsy-preload:1";

/// Words of the header.
pub const WORD_MAGIC: usize = 0;
pub const WORD_SITES: usize = 1;
pub const WORD_FRAMES: usize = 2;
/// Why it does not count; one of the numbers below.
pub const WORD_PROBLEM: usize = 3;
/// Allocations without a place to count them.
pub const WORD_LOST: usize = 4;
pub const WORD_PID: usize = 5;
/// Whether the allocator serves `operator new` of C++ by itself, which is not counted then.
pub const WORD_OWN_NEW: usize = 6;
/// Bytes that are there, and the most that were. In a line of their own.
pub const WORD_LIVE: usize = 8;
pub const WORD_PEAK: usize = 9;
/// Written by biopsy: nothing more is to be counted; when it was last there (seconds of the monotonic clock).
pub const WORD_STOP: usize = 16;
pub const WORD_BEAT: usize = 17;
pub const HEADER_WORDS: usize = 512;

pub const PROBLEM_NO_FUNCTIONS: u64 = 1;
pub const PROBLEM_NO_MEMORY: u64 = 2;
pub const PROBLEM_OLD_KERNEL: u64 = 3;
pub const PROBLEM_GIVEN_UP: u64 = 4;
pub const PROBLEM_BOUNDED: u64 = 5;

/// A place (stack) has a line of eight words.
pub const SITE_WORDS: usize = 8;
pub const SITES: usize = 1 << 18;
pub const SITE_HASH: usize = 0;
/// Number of its first frame, times 256, and how many.
pub const SITE_FRAMES: usize = 1;
pub const SITE_CALLS: usize = 2;
pub const SITE_BYTES: usize = 3;
pub const SITE_RELEASED: usize = 4;
pub const SITE_LIVE: usize = 5;
pub const SITE_TEMPORARY: usize = 6;
pub const SITE_PEAK: usize = 7;

/// Return addresses of the stacks, innermost first.
pub const FRAMES: usize = 1 << 23;
pub const DEEPEST: usize = 64;

pub const SITES_AT: usize = HEADER_WORDS;
pub const FRAMES_AT: usize = SITES_AT + SITES * SITE_WORDS;
pub const TOTAL_WORDS: usize = FRAMES_AT + FRAMES;
