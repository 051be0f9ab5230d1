//! What the calls share.

use std::time::Duration;

use crate::place::Lab;

use super::locks::Locks;

/// What the calls need: the lab, and who writes which upload.
#[derive(Clone, Debug)]
pub(super) struct Intake {
    pub(super) lab: Lab,
    pub(super) locks: Locks,
    /// Longest silence of a caller.
    pub(super) silence: Duration,
}
