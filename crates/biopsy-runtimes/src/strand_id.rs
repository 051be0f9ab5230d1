//! Which strand of a runtime.

use std::fmt;

/// Number of a strand, unique among the strands of one runtime: the goroutine's id; for others a number or an address that the
/// runtime knows it by. Only for Go is it something that a user has seen before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StrandId(pub u64);

impl fmt::Display for StrandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
