//! A snapshot that could not be had at this moment is tried again a little later: on a machine where the target, or biopsy, gets next to no
//! processor a freeze is given up before it is through, and a second later it may be.

use std::time::{Duration, Instant};

use crate::failure::Failure;

/// How often at most: a freeze that is given up has made the target stand still, too, and that is asked of it once more and no oftener.
const TRIES: u32 = 2;
/// Before the second try, at least.
const REST: Duration = Duration::from_millis(250);
/// How often it is looked whether somebody wants an end.
const LOOK: Duration = Duration::from_millis(50);

/// What was got after all.
#[derive(Debug)]
pub(crate) struct Got<T> {
    pub(crate) it: T,
    /// How much later than at the first try, and why; `None`: at the first one.
    pub(crate) late: Option<(Duration, Failure)>,
}

/// Tries until it succeeds, fails for good, `longest` would be over, or somebody wants an end. Between two tries the target runs at least as
/// long as the last one took.
pub(crate) fn patiently<T>(
    longest: Duration,
    is_ended: impl Fn() -> bool,
    mut once: impl FnMut() -> Result<T, Failure>,
) -> Result<Got<T>, Failure> {
    let began = Instant::now();
    let (mut tries, mut late) = (0, None);
    loop {
        let this = Instant::now();
        let failure = match once() {
            Ok(it) => return Ok(Got { it, late: late.map(|why| (this.duration_since(began), why)) }),
            Err(failure) => failure,
        };
        tries += 1;
        let pause = REST.max(this.elapsed());
        let may_wait = failure.is_passing() && tries < TRIES && began.elapsed() + pause <= longest;
        if !may_wait || !wait(pause, &is_ended) {
            return Err(failure.after_tries(tries));
        }
        late = Some(failure);
    }
}

/// `false`: somebody wants an end.
fn wait(pause: Duration, is_ended: &impl Fn() -> bool) -> bool {
    let end = Instant::now() + pause;
    while !is_ended() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(LOOK));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureKind;

    /// What fails so often, of the moment or for good, before it succeeds: what comes of it, and how often it was tried.
    fn tried(failures: u32, is_passing: bool, longest: Duration, ended: bool) -> (Result<bool, String>, u32) {
        let mut tries = 0;
        let got = patiently(
            longest,
            || ended,
            || {
                tries += 1;
                match tries <= failures {
                    true => Err(Failure::new(FailureKind::Target, "too slow").passing(is_passing)),
                    false => Ok(()),
                }
            },
        );
        (got.map(|got| got.late.is_some()).map_err(|failure| failure.to_string()), tries)
    }

    #[test]
    fn what_is_of_the_moment_is_tried_again_and_said_to_be_late() {
        let long = Duration::from_secs(60);
        assert_eq!(tried(0, true, long, false), (Ok(false), 1));
        assert_eq!(tried(1, true, long, false), (Ok(true), 2));
    }

    #[test]
    fn what_fails_for_good_or_too_often_or_has_no_time_left_fails() {
        let long = Duration::from_secs(60);
        assert_eq!(tried(1, false, long, false), (Err("too slow".to_owned()), 1));
        assert_eq!(tried(9, true, long, false), (Err(format!("too slow (tried {TRIES} times)")), TRIES));
        assert_eq!(tried(9, true, REST / 2, false), (Err("too slow".to_owned()), 1));
        assert_eq!(tried(9, true, long, true), (Err("too slow".to_owned()), 1), "somebody wants an end");
    }
}
