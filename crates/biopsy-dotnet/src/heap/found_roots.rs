//! Roots as they are found, and what could not be read of them.

use biopsy_image::{Image, MemoryExt};
use biopsy_model::Avma;

use crate::graph::{Graph, ObjectIndex, Root, RootKind};

/// Kinds of roots that could not be read. Objects that only they keep alive count as garbage then.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RootProblems {
    /// What was missing, in words.
    pub missing: Vec<String>,
}

/// Roots of a graph.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) roots: Vec<Root>,
    pub(super) dependents: Vec<(ObjectIndex, ObjectIndex)>,
    pub(super) problems: RootProblems,
}

impl Found {
    /// Adds a root if the value is the beginning of an object.
    pub(super) fn add(&mut self, graph: &Graph, kind: RootKind, address: u64, value: u64, thread: u32) {
        if let Some(object) = graph.find(Avma(value)) {
            self.roots.push(Root { kind, address: Avma(address), object, is_interior: false, thread });
        }
    }

    pub(super) fn missing(&mut self, what: impl Into<String>) {
        self.problems.missing.push(what.into());
    }
}

/// Calls `each` with the words of a range that can be read.
pub(super) fn words(image: &dyn Image, start: u64, bytes: u64, mut each: impl FnMut(u64, u64)) {
    const PIECE: u64 = 64 << 10;
    let end = start.saturating_add(bytes);
    let mut at = start;
    while at < end {
        let length = (end - at).min(PIECE);
        let Ok(piece) = image.read_up_to(at, length as usize) else {
            // The page is missing; the next one may be there.
            let Some(next) = (at | 0xfff).checked_add(1) else { break };
            at = next;
            continue;
        };
        let whole = piece.as_chunks::<8>().0;
        for (number, eight) in whole.iter().enumerate() {
            each(at + number as u64 * 8, u64::from_le_bytes(*eight));
        }
        if whole.is_empty() {
            break;
        }
        at += whole.len() as u64 * 8;
    }
}
