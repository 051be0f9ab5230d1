//! What of a file can be compared.

use std::path::PathBuf;

use biopsy_import::{Evidence, EvidenceError};

use crate::heap::HeapSummary;
use crate::recorded::Recorded;

/// What a file holds that can be compared.
#[derive(Debug)]
pub enum Comparable {
    /// A recording over time.
    Time(Box<Recorded>),
    /// Heaps, in the order they were taken.
    Heaps(Vec<HeapSummary>),
}

impl Comparable {
    /// The heaps of a file, or if it has none what was recorded over time; `None`: it holds neither. `roots`: folders in which symbols are
    /// looked for.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(evidence: &Evidence, roots: &[PathBuf]) -> Result<Option<Self>, EvidenceError> {
        let mut heaps = Vec::new();
        for number in evidence.heaps()? {
            let heap = evidence.heap(number)?;
            heaps.extend(heap.iter().map(|heap| HeapSummary::new(&heap.name, &heap.graph, &heap.facts)));
        }
        if !heaps.is_empty() {
            return Ok(Some(Self::Heaps(heaps)));
        }
        if evidence.dumps() > 0 && !evidence.is_recording() {
            return Ok(None);
        }
        let capture = evidence.capture(roots)?;
        Ok(capture.holds_time().then(|| Self::Time(Box::new(Recorded::new(capture)))))
    }
}
