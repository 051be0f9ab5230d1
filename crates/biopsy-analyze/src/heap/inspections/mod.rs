//! Inspections of a heap: known ways in which memory is wasted or kept for too long, a file for each.
//!
//! They look at types, fields, roots and what was noted at the walk (how much is in a collection, which strings are equal). What they tell
//! are counts and bytes of one moment: whether it is too much is said by the rules of findings.

mod boxes;
mod closures;
mod collections;
mod contexts;
mod events;
mod free_space;
mod inspection;
mod marks;
mod methods;
mod roots;
mod strings;
#[cfg(test)]
mod tests;
mod timers;
mod tokens;
mod view;

use biopsy_model::order::Order as _;
use std::io;

use biopsy_dotnet::graph::Graph;

pub use inspection::{Inspection, InspectionKind, InspectionRow, Measure};

use super::dominators::Dominators;
use marks::Marks;
use view::View;

/// All of a heap, the most bytes first.
///
/// # Errors
/// References that were spilled cannot be read.
pub fn inspect(graph: &Graph, dominators: &Dominators) -> io::Result<Vec<Inspection>> {
    let view = View { graph, dominators };
    let mut marks = Marks::new(view);
    strings::mark(view, &mut marks);
    collections::mark(view, &mut marks)?;
    boxes::mark(view, &mut marks);
    events::mark(view, &mut marks)?;
    let mut found = marks.held(view)?;
    let others = [
        timers::inspect(view)?,
        tokens::inspect(view)?,
        contexts::inspect(view)?,
        closures::inspect(view)?,
        free_space::inspect(view),
    ];
    found.extend(others.into_iter().chain(methods::inspect(view)).chain(roots::inspect(view)).flatten());
    found.order_by_key(|one| (std::cmp::Reverse(one.bytes), one.kind));
    Ok(found)
}
