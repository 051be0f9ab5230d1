//! What of a file can be compared.

use biopsy_import::{Evidence, EvidenceError, FileSources};

use crate::Diagnosis;
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

/// What of several files is held against each other.
#[derive(Debug)]
pub enum Together {
    /// Two recordings over time: before and after.
    Times(Box<Recorded>, Box<Recorded>),
    /// Memory at several moments; `growth` of the diagnosis is there where heaps are known.
    Memory(Box<Diagnosis>),
}

/// Why files cannot be compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotComparable {
    /// Memory at one moment.
    #[error("there is one snapshot, and nothing to compare it with")]
    OneSnapshot,
    /// One recording over time, or more than two.
    #[error("recordings over time are compared two at a time")]
    NotTwoTimes,
    /// Of different kinds.
    #[error("a recording over time and a snapshot of memory cannot be compared")]
    OfTwoKinds,
}

impl NotComparable {
    /// What the reader can do.
    #[must_use]
    pub fn hint(self) -> Option<&'static str> {
        let hint = "`biopsy snapshot TARGET --into FILE` adds a snapshot to a recording";
        (self == Self::OneSnapshot).then_some(hint)
    }
}

impl Together {
    /// Puts together what files hold.
    ///
    /// # Errors
    /// [`NotComparable`].
    pub fn of(files: Vec<Comparable>) -> Result<Self, NotComparable> {
        let (mut times, mut heaps, mut footprints) = (Vec::new(), Vec::new(), Vec::new());
        for file in files {
            match file {
                Comparable::Time(recorded) => times.push(recorded),
                Comparable::Memory { heaps: of_file, footprints: where_it_went } => {
                    heaps.extend(of_file);
                    footprints.extend(where_it_went);
                }
            }
        }
        let moments = if heaps.is_empty() { footprints.len() } else { heaps.len() };
        if times.is_empty() && moments > 1 {
            let diagnosis = Diagnosis::new(None, Vec::new(), heaps).with_footprints(footprints);
            return Ok(Self::Memory(Box::new(diagnosis)));
        }
        match <[_; 2]>::try_from(times) {
            Ok([before, after]) if moments == 0 => Ok(Self::Times(before, after)),
            Err(times) if times.is_empty() => Err(NotComparable::OneSnapshot),
            Err(_) if moments == 0 => Err(NotComparable::NotTwoTimes),
            _ => Err(NotComparable::OfTwoKinds),
        }
    }
}

impl Comparable {
    /// What each file holds: its heaps, of a dump the one that is in its memory; or if it has none what was recorded over time, or else where the
    /// memory went. `None`: it holds nothing of that. `sources`: where symbols are looked for.
    ///
    /// # Errors
    /// The first file that cannot be read.
    pub fn all(files: &[Evidence], sources: &FileSources) -> Result<Vec<Option<Self>>, EvidenceError> {
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
        files.iter().zip(heaps).map(|(file, heaps)| Self::of(file, heaps, sources)).collect()
    }

    fn of(
        evidence: &Evidence,
        heaps: Vec<HeapSummary>,
        sources: &FileSources,
    ) -> Result<Option<Self>, EvidenceError> {
        let (footprints, _) = evidence.footprints();
        let footprints =
            footprints.into_iter().map(|(name, facts)| FootprintSummary { name, facts }).collect::<Vec<_>>();
        if !heaps.is_empty() {
            return Ok(Some(Self::Memory { heaps, footprints }));
        }
        if evidence.dumps() > 0 && !evidence.is_recording() {
            // That there is no heap in it is no fault of a dump.
            let heap = evidence.any_heap(sources).ok();
            let heap = heap.map(|heap| HeapSummary::new(&heap.name, &heap.graph, &heap.facts));
            return Ok(heap.map(|heap| Self::Memory { heaps: vec![heap], footprints }));
        }
        let capture = evidence.capture(sources)?;
        if capture.holds_time() {
            return Ok(Some(Self::Time(Box::new(Recorded::new(capture)))));
        }
        Ok((!footprints.is_empty()).then_some(Self::Memory { heaps, footprints }))
    }
}
