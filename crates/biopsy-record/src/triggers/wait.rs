//! Waiting for a process to appear.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use biopsy_target::{FindError, Selector, Target, find};

/// How soon a wait notices that it is to stop.
const SLICE: Duration = Duration::from_millis(100);

/// Waits until `selector` names a process, looking once an `interval`. `None`: it was told to stop.
///
/// For processes that live for less than an interval, catch them ([`biopsy_target::catch::Catcher`]).
///
/// # Errors
/// [`FindError`]: all but that there is none yet. A pid that does not exist is an error: it would be another process's.
pub fn wait_for(
    selector: &Selector,
    interval: Duration,
    stop: &AtomicBool,
) -> Result<Option<Target>, FindError> {
    loop {
        match find(selector) {
            Ok(target) => return Ok(Some(target)),
            // It is ending: the next one of that name is meant.
            Err(FindError::NotFound { .. } | FindError::Zombie { .. }) => {}
            Err(error) => return Err(error),
        }
        let next = Instant::now() + interval;
        while Instant::now() < next {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            std::thread::sleep(SLICE.min(next.saturating_duration_since(Instant::now())));
        }
    }
}
