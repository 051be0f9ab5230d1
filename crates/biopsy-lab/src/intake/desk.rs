//! What the calls of customers need.

use crate::place::Lab;

use super::locks::Locks;

/// The lab, and who writes which upload.
#[derive(Clone, Debug)]
pub(super) struct Desk {
    /// The lab.
    pub(super) lab: Lab,
    /// Who writes.
    pub(super) locks: Locks,
}
