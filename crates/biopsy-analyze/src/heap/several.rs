//! Heaps of one or several files, summed up: two at the same time where both fit.

use std::ops::Range;
use std::thread;

use biopsy_import::{Evidence, EvidenceError, HeapPlace};

use super::summary::HeapSummary;

/// Objects of two heaps that are held in memory together: some 70 bytes each.
const TOGETHER: u64 = 24_000_000;

fn sum_up(place: &HeapPlace) -> Result<Option<HeapSummary>, EvidenceError> {
    let heap = place.read()?;
    Ok(heap.map(|heap| HeapSummary::new(&heap.name, &heap.graph, &heap.facts)))
}

/// All heaps of a file, in the order they were taken.
pub(crate) fn of_file(evidence: &Evidence) -> Result<Vec<HeapSummary>, EvidenceError> {
    let all: Vec<HeapPlace> =
        evidence.heaps()?.into_iter().map(|number| evidence.heap_place(number)).collect();
    Ok(summaries(&all)?.into_iter().flatten().collect())
}

/// Sums up each, in their order; `None`: a file that holds no heap.
pub(crate) fn summaries(all: &[HeapPlace]) -> Result<Vec<Option<HeapSummary>>, EvidenceError> {
    let objects: Vec<Option<u64>> = match all {
        [] | [_] => Vec::new(),
        _ => all.iter().map(HeapPlace::objects).collect(),
    };
    let mut found = Vec::with_capacity(all.len());
    for range in turns(all.len(), &objects) {
        match all.get(range).unwrap_or_default() {
            [first, second] => {
                let (first, second) = thread::scope(|scope| {
                    let second = scope.spawn(|| sum_up(second));
                    (sum_up(first), second.join())
                });
                found.push(first?);
                found.push(second.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            others => {
                for one in others {
                    found.push(sum_up(one)?);
                }
            }
        }
    }
    Ok(found)
}

/// Which heaps are worked on at the same time: one, or two that are known to be small enough together.
fn turns(count: usize, objects: &[Option<u64>]) -> Vec<Range<usize>> {
    let mut turns = Vec::new();
    let mut at = 0;
    while at < count {
        let both = match (objects.get(at), objects.get(at + 1)) {
            (Some(Some(one)), Some(Some(other))) => one.saturating_add(*other) <= TOGETHER,
            _ => false,
        };
        let next = at + 1 + usize::from(both);
        turns.push(at..next);
        at = next;
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_are_worked_on_together_where_both_fit() {
        let of = |objects: &[Option<u64>]| turns(objects.len(), objects);
        assert_eq!(of(&[Some(10), Some(20), Some(30)]), [0..2, 2..3]);
        assert_eq!(of(&[Some(1), Some(TOGETHER), Some(0)]), [0..1, 1..3]);
        assert_eq!(of(&[None, Some(1), Some(1), None]), [0..1, 1..3, 3..4]);
        assert_eq!(of(&[Some(u64::MAX), Some(u64::MAX)]), [0..1, 1..2]);
        assert_eq!(turns(1, &[]), [Range { start: 0, end: 1 }]);
        assert!(turns(0, &[]).is_empty());
    }
}
