//! Timers that are set, by whom they call: each keeps that alive until it is disposed.

use std::io;

use super::inspection::{Inspection, InspectionKind};
use super::view::{Rows, View};

/// `Timeout.UnsignedInfinite`: it is not set.
const NEVER: u32 = u32::MAX;

pub(super) fn inspect(view: View<'_>) -> io::Result<Option<Inspection>> {
    let places: Vec<Option<usize>> = view.graph.types().iter().map(|of| of.noted("_dueTime")).collect();
    let mut timers = Vec::new();
    view.graph.for_each_noted(|timer, of, numbers| {
        let due = places.get(of.0 as usize).copied().flatten().and_then(|at| numbers.get(at).copied());
        if due.is_some_and(|due| due != NEVER) && view.is_live(timer) {
            timers.push(timer);
        }
    });
    let mut rows = Rows::default();
    for timer in timers {
        let Some(callback) = view.field(timer, "_timerCallback")? else { continue };
        let called = view.called(callback, view.field(timer, "_state")?)?;
        rows.add(view.name(called).to_owned(), 1, view.retained(called));
    }
    Ok(Inspection::of(InspectionKind::Timers, rows.all()))
}
