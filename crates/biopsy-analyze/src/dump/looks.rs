//! What several looks at one process say beyond the last of them.

use biopsy_model::Nanos;

/// What several looks at one process say beyond the last of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Looks {
    /// How many there were, the last one included.
    pub count: usize,
    /// From the first to the last, where it is known when they were taken.
    pub span: Option<Nanos>,
    /// How long the process stood still for each.
    pub pauses: Vec<Nanos>,
    /// Circles of waits of the last look that were there in all of them, as indices into
    /// [`WaitGraph::cycles`](super::WaitGraph::cycles).
    pub lasting: Vec<usize>,
}
