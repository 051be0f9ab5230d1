//! Variables that a function keeps, as libstdc++ makes them at their first use.
//!
//! ```text
//! guard    0 futex: 1 made, 0x100 being made, 0x10000 and somebody waits
//! ```
//!
//! libstdc++-v3/libsupc++/guard.cc. Who makes it is not noted: the code behind the constructor is looked at for `__cxa_guard_release`.

use biopsy_stacks::ahead::LockFamily;

use super::futex_wait::{FUTEX_WAIT, FutexWait};
use super::lock::{LockKind, LockOwner, LockWait};

/// Being made, and waited for.
const WAITED_FOR: u32 = 0x1_0100;

pub(super) fn initialization(wait: &FutexWait<'_>) -> Option<LockWait> {
    let fits = wait.named == Some(LockKind::Initialization)
        && wait.operation == FUTEX_WAIT
        && wait.expected == WAITED_FOR
        && wait.is_unchanged();
    fits.then(|| LockWait {
        family: Some(LockFamily::Calls),
        timed: false,
        ..wait.lock(
            0,
            LockKind::Initialization,
            LockOwner::NotKnown,
            "the guard of the variable says that it is being made".to_owned(),
        )
    })
}
