//! What only a closure keeps: all lambdas of a method share one, so one that is kept keeps what the others use.

use std::io;

use super::inspection::{Inspection, InspectionKind};
use super::view::{Rows, View};

/// What the compiler calls them.
const CLOSURE: &str = "+<>c__DisplayClass";

pub(super) fn inspect(view: View<'_>) -> io::Result<Option<Inspection>> {
    let types = view.types(|of| of.name.contains(CLOSURE) && !of.name.ends_with(']'));
    let mut rows = Rows::default();
    for closure in view.objects_of(&types) {
        let Some((_, of, _)) = view.of(closure).filter(|_| view.is_live(closure)) else { continue };
        // Of the fields, the one that keeps the most.
        let mut most: Option<(u64, &str)> = None;
        view.graph.for_each_numbered_reference(closure, &mut Vec::new(), |reference, target| {
            if view.holder(target) == Some(closure) {
                let one = (view.retained(target), of.field_of(reference).unwrap_or_default());
                most = most.max(Some(one));
            }
        })?;
        if let Some((bytes, field)) = most {
            rows.add(format!("{}.{field}", of.name), 1, bytes);
        }
    }
    Ok(Inspection::of(InspectionKind::Closures, rows.all()))
}
