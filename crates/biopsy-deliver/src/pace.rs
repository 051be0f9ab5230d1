//! How a sealed file is sent: in pieces of which size, by which verb, and when it is tried again.

use std::time::{Duration, Instant};

use crate::encode::random;
use crate::error::SendError;

/// Pieces: small where the way is bad, so that a cut costs little.
pub(crate) const SMALLEST_PIECE: u64 = 128 << 10;
pub(crate) const LARGEST_PIECE: u64 = 32 << 20;
/// Where even those take too long, as on a way that is slow and cut after a while, they get smaller down to this.
const TINIEST_PIECE: u64 = 8 << 10;
/// The first one of a sender: nothing is known of the way yet.
const FIRST_PIECE: u64 = 1 << 20;
/// A piece is at most this share of what went through since the way was cut last. A cut costs half a piece on average: with 1/12, a
/// twenty-fourth of what is sent is sent again, however often it is cut.
const SHARE_OF_UNCUT: u64 = 12;
/// A piece that took longer is followed by a smaller one.
const SLOW: Duration = Duration::from_secs(4);
/// A piece that took no longer is followed by one of twice its size, as long as nothing was cut: of such a way little can be lost.
const FAST: Duration = Duration::from_millis(25);
/// A piece that took no longer may be larger again than the tiniest.
const QUICK: Duration = Duration::from_secs(1);
/// Longest pause between tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// Tries in a row after which the other of the two is tried.
const TRIES_OF_ONE: u32 = 3;

/// What goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// So many bytes are on the lab's disk.
    At {
        /// How many.
        sent: u64,
        /// Of how many.
        of: u64,
    },
    /// The way was cut; it is tried again.
    Again {
        /// Why.
        why: String,
        /// In how many milliseconds.
        in_milliseconds: u64,
    },
}

/// How pieces are sent. There are proxies that know of no PATCH: they say so, or cut the connection.
#[derive(Debug, Default)]
pub(crate) struct Verb {
    pub(crate) is_post: bool,
    /// Whether PATCH, and whether POST, was forbidden since a piece went through.
    forbidden: [bool; 2],
}

impl Verb {
    pub(crate) fn went_through(&mut self) {
        self.forbidden = [false; 2];
    }

    /// Goes over to the other one; `false` if that was forbidden, too.
    pub(crate) fn was_forbidden(&mut self) -> bool {
        self.forbidden[usize::from(self.is_post)] = true;
        self.is_post = !self.is_post;
        self.forbidden != [true; 2]
    }

    /// After so many tries that nothing came of.
    pub(crate) fn was_cut(&mut self, tries: u32) {
        let is_time = tries % TRIES_OF_ONE == TRIES_OF_ONE - 1;
        self.is_post ^= is_time && !self.forbidden[usize::from(!self.is_post)];
    }
}

/// How large the next piece is.
#[derive(Clone, Debug)]
pub(crate) struct PieceSize {
    /// What went through since the way was cut.
    uncut: u64,
    /// Least and most, by what is known of the way.
    least: u64,
    most: u64,
    /// What is least where it is bad.
    smallest: u64,
    /// It was cut once.
    is_cut: bool,
}

impl PieceSize {
    pub(crate) fn first() -> Self {
        let (least, most, smallest) = (FIRST_PIECE, LARGEST_PIECE, SMALLEST_PIECE);
        Self { uncut: 0, least, most, smallest, is_cut: false }
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.uncut / SHARE_OF_UNCUT).clamp(self.least, self.most)
    }

    pub(crate) fn went_through(&mut self, bytes: u64, took: Duration) {
        self.uncut = self.uncut.saturating_add(bytes);
        // On a slow way a piece would take longer than proxies wait.
        if took > SLOW {
            self.least = self.smallest;
            self.most = (bytes / 2).max(self.smallest);
        } else {
            self.most = (self.most * 2).min(LARGEST_PIECE);
            if took <= QUICK {
                self.smallest = (self.smallest * 2).min(SMALLEST_PIECE);
            }
            if took <= FAST && !self.is_cut {
                self.least = self.least.max(bytes * 2).min(self.most);
            }
        }
    }

    pub(crate) fn was_cut(&mut self, took: Duration) {
        // It was not lost at a bad moment: whatever cuts it waits no longer.
        if took > SLOW {
            self.smallest = (self.smallest / 2).max(TINIEST_PIECE);
        }
        (self.uncut, self.least, self.is_cut) = (0, self.smallest, true);
    }
}

/// How long there was no progress.
pub(crate) struct Trouble {
    since: Option<Instant>,
    pub(crate) tries: u32,
    /// The first pause; each one is twice as long as the one before.
    first: Duration,
}

impl Trouble {
    /// The first pause is so long.
    pub(crate) fn with_pause(first: Duration) -> Self {
        Self { since: None, tries: 0, first }
    }
}

impl Default for Trouble {
    fn default() -> Self {
        Self::with_pause(Duration::from_millis(200))
    }
}

impl Trouble {
    /// Waits before the next try, longer each time.
    pub(crate) fn pause(
        &mut self,
        give_up_after: Duration,
        why: String,
        watch: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<(), SendError> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= give_up_after {
            return Err(SendError::Unreachable(why));
        }
        let pause = self.first.saturating_mul(1 << self.tries.min(12)).min(LONGEST_PAUSE);
        // Many that were cut off at once do not come back at once.
        let pause = pause.mul_f64(0.5 + f64::from(random::<1>()[0]) / 512.0);
        self.tries += 1;
        let in_milliseconds = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        if !watch(&Progress::Again { why, in_milliseconds }) {
            return Err(SendError::Stopped);
        }
        std::thread::sleep(pause);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent in all of a file, by the bytes of the file, where the way is cut each time so many bytes have passed.
    fn sent_again(cuts: &[u64], whole: u64) -> f64 {
        let mut cuts = cuts.iter().copied();
        let (mut size, mut at, mut passed, mut until) = (PieceSize::first(), 0, 0, cuts.next());
        while at < whole {
            let length = size.bytes().min(whole - at);
            match until {
                Some(left) if left < length => {
                    passed += left;
                    size.was_cut(Duration::ZERO);
                    until = cuts.next();
                }
                _ => {
                    passed += length;
                    at += length;
                    until = until.map(|left| left - length);
                    size.went_through(length, Duration::ZERO);
                }
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let ratio = passed as f64 / whole as f64;
        ratio
    }

    #[test]
    fn a_slow_way_that_is_cut_after_a_while_gets_pieces_that_fit() {
        // 2 kB a second, and nothing lasts longer than a minute: 128 KiB never get through.
        let (rate, longest) = (2_000, Duration::from_secs(60));
        let (mut size, mut sent, mut tries) = (PieceSize::first(), 0, 0);
        while sent < 1 << 20 {
            tries += 1;
            assert!(tries < 200, "{sent} bytes in {tries} pieces");
            let took = Duration::from_millis(size.bytes() * 1000 / rate);
            if took > longest {
                size.was_cut(longest);
            } else {
                sent += size.bytes();
                size.went_through(size.bytes(), took);
            }
        }
        // On a way that is quick again they are as large as before.
        (0..8).for_each(|_| size.went_through(TINIEST_PIECE, Duration::from_millis(50)));
        size.was_cut(Duration::ZERO);
        assert_eq!(size.bytes(), SMALLEST_PIECE);
    }

    #[test]
    fn what_lets_no_patch_through_gets_a_post_and_what_lets_neither_is_no_way() {
        let mut verb = Verb::default();
        assert!(!verb.is_post);
        assert!(verb.was_forbidden(), "POST is left");
        assert!(verb.is_post);
        (0..10).for_each(|tries| verb.was_cut(tries));
        assert!(verb.is_post, "what was forbidden is not tried again because something was cut");
        assert!(!verb.was_forbidden(), "both are");
        let mut verb = Verb::default();
        (0..3).for_each(|tries| verb.was_cut(tries));
        assert!(verb.is_post, "it is cut without a word");
        verb.went_through();
        assert!(verb.is_post);
    }

    #[test]
    fn cuts_cost_a_small_share_of_what_is_sent() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 16) % below
        };
        let whole = 1 << 30;
        // A hundred and forty at random places, and as many that come in threes.
        let apart: Vec<u64> = (0..140).map(|_| random(2 * whole / 140)).collect();
        assert!(sent_again(&apart, whole) < 1.08, "{}", sent_again(&apart, whole));
        let together: Vec<u64> =
            (0..140).map(|at| if at % 3 == 0 { random(6 * whole / 140) } else { random(1 << 20) }).collect();
        assert!(sent_again(&together, whole) < 1.08, "{}", sent_again(&together, whole));
        assert!((sent_again(&[], whole) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn pieces_grow_where_nothing_is_cut_and_shrink_where_it_is_slow() {
        let mut size = PieceSize::first();
        let (mut at, mut count) = (0, 0);
        while at < 1 << 30 {
            let length = size.bytes();
            size.went_through(length, FAST + Duration::from_millis(1));
            (at, count) = (at + length, count + 1);
        }
        assert!(count < 120 && size.bytes() == LARGEST_PIECE, "{count} pieces");
        for _ in 0..10 {
            size.went_through(size.bytes(), Duration::from_secs(5));
        }
        assert_eq!(size.bytes(), SMALLEST_PIECE);
        size.was_cut(Duration::ZERO);
        size.went_through(SMALLEST_PIECE, Duration::ZERO);
        assert_eq!(size.bytes(), SMALLEST_PIECE, "it grows with what goes through, not at once");
    }

    #[test]
    fn where_a_piece_takes_no_time_the_next_one_is_twice_as_large_until_something_is_cut() {
        let mut size = PieceSize::first();
        for times in 1..10 {
            size.went_through(size.bytes(), FAST);
            assert_eq!(size.bytes(), (FIRST_PIECE << times).min(LARGEST_PIECE));
        }
        // It has become slow: what is least gives way.
        size.went_through(size.bytes(), SLOW + FAST);
        size.went_through(size.bytes(), FAST);
        assert!(size.bytes() <= LARGEST_PIECE);
        size.was_cut(Duration::ZERO);
        size.went_through(SMALLEST_PIECE, Duration::ZERO);
        assert_eq!(size.bytes(), SMALLEST_PIECE);
    }

    proptest::proptest! {
        /// Whatever happens on the way, a piece has a size.
        #[test]
        fn a_piece_is_within_its_bounds(steps in proptest::collection::vec((0..9_000_u64, 0..6_u8), 0..60)) {
            let mut size = PieceSize::first();
            for (milliseconds, what) in steps {
                match what {
                    0 => size.was_cut(Duration::from_millis(milliseconds)),
                    _ => size.went_through(size.bytes(), Duration::from_millis(milliseconds / u64::from(what * what))),
                }
                proptest::prop_assert!((TINIEST_PIECE..=LARGEST_PIECE).contains(&size.bytes()));
            }
        }
    }
}
