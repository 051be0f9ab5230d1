//! Events with many handlers: each handler keeps the object whose method it is.

use std::collections::HashMap;
use std::io;

use biopsy_dotnet::graph::TypeIndex;
use biopsy_model::heap::TypeFamily;

use super::inspection::InspectionKind;
use super::marks::{Mark, Marks};
use super::view::View;

/// An event with fewer handlers is an ordinary one.
const MANY: u64 = 16;

pub(super) fn mark(view: View<'_>, marks: &mut Marks) -> io::Result<()> {
    let types = view.types(|of| of.family == TypeFamily::Delegate);
    for event in view.objects_of(&types) {
        if !view.is_live(event) {
            continue;
        }
        let Some(list) = view.field(event, "_invocationList")? else { continue };
        if !view.name(list).ends_with("[]") {
            continue;
        }
        let mut handlers = Vec::new();
        view.graph.for_each_reference(list, &mut Vec::new(), |handler| handlers.push(handler))?;
        if (handlers.len() as u64) < MANY {
            continue;
        }
        let mut targets: HashMap<TypeIndex, u64> = HashMap::new();
        for handler in &handlers {
            let called = view.called(*handler, None)?;
            view.of(called).into_iter().for_each(|(of, ..)| *targets.entry(of).or_default() += 1);
        }
        let about = targets.into_iter().max_by_key(|(of, count)| (*count, *of)).map(|(of, _)| of);
        let kind = InspectionKind::EventHandlers;
        let (objects, bytes) = (handlers.len() as u64, view.retained(event));
        marks.add(event, Mark { kind, about, objects, bytes });
    }
    Ok(())
}
