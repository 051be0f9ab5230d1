//! What of a file can be compared.

use std::path::PathBuf;

use biopsy_import::{Evidence, EvidenceError};

use crate::footprint::FootprintSummary;
use crate::heap::HeapSummary;
use crate::heap::several::summaries;
use crate::recorded::Recorded;

/// What a file holds that can be compared.
#[derive(Debug)]
pub enum Comparable {
    /// A recording over time.
    Time(Box<Recorded>),
    /// Memory at single moments, in the order they were taken.
    Memory {
        /// Heaps.
        heaps: Vec<HeapSummary>,
        /// Where the memory of processes went.
        footprints: Vec<FootprintSummary>,
    },
}

impl Comparable {
    /// What each file holds: its heaps, of a dump the one that is in its memory; or if it has none what was recorded over time, or else where the
    /// memory went. `None`: it holds nothing of that. `roots`: folders in which symbols are looked for.
    ///
    /// # Errors
    /// The first file that cannot be read.
    pub fn all(files: &[Evidence], roots: &[PathBuf]) -> Result<Vec<Option<Self>>, EvidenceError> {
        let mut numbered = Vec::new();
        for (file, of) in files.iter().enumerate() {
            numbered.extend(of.heaps()?.into_iter().map(|number| (file, of.heap_place(number))));
        }
        // Of all files together: two large ones take as long as one.
        let (of_files, places): (Vec<usize>, Vec<_>) = numbered.into_iter().unzip();
        let mut heaps: Vec<Vec<HeapSummary>> = files.iter().map(|_| Vec::new()).collect();
        for (file, heap) in of_files.into_iter().zip(summaries(&places)?) {
            if let Some(of_file) = heaps.get_mut(file) {
                of_file.extend(heap);
            }
        }
        files.iter().zip(heaps).map(|(file, heaps)| Self::of(file, heaps, roots)).collect()
    }

    fn of(
        evidence: &Evidence,
        heaps: Vec<HeapSummary>,
        roots: &[PathBuf],
    ) -> Result<Option<Self>, EvidenceError> {
        let (footprints, _) = evidence.footprints();
        let footprints =
            footprints.into_iter().map(|(name, facts)| FootprintSummary { name, facts }).collect::<Vec<_>>();
        if !heaps.is_empty() {
            return Ok(Some(Self::Memory { heaps, footprints }));
        }
        if evidence.dumps() > 0 && !evidence.is_recording() {
            // That there is no heap in it is no fault of a dump.
            let heap = evidence.any_heap(roots).ok();
            let heap = heap.map(|heap| HeapSummary::new(&heap.name, &heap.graph, &heap.facts));
            return Ok(heap.map(|heap| Self::Memory { heaps: vec![heap], footprints }));
        }
        let capture = evidence.capture(roots)?;
        if capture.holds_time() {
            return Ok(Some(Self::Time(Box::new(Recorded::new(capture)))));
        }
        Ok((!footprints.is_empty()).then_some(Self::Memory { heaps, footprints }))
    }
}
