//! Holes between objects, by generation: room that nobody uses and that stays where objects may not move.

use super::inspection::{Inspection, InspectionKind};
use super::view::{Rows, View};

pub(super) fn inspect(view: View<'_>) -> Option<Inspection> {
    let free: Vec<bool> = view.graph.types().iter().map(|of| of.is_free).collect();
    let mut rows = Rows::default();
    for hole in view.graph.objects().filter(|one| free.get(one.of.0 as usize).is_some_and(|is| *is)) {
        rows.add(hole.generation.name().to_owned(), 1, hole.size);
    }
    Inspection::of(InspectionKind::FreeSpace, rows.all())
}
