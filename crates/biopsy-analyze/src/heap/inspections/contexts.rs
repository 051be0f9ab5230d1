//! Load contexts that were told to unload and are still there, because something leads to an object or a type of them.

use std::io;

use super::inspection::{Inspection, InspectionKind};
use super::view::{Rows, View};
use crate::heap::names::text_of;
use crate::heap::ways::Ways;

/// `AssemblyLoadContext.InternalState.Unloading`.
const UNLOADING: u32 = 1;
/// The one that is never unloaded.
const DEFAULT: &str = "System.Runtime.Loader.DefaultAssemblyLoadContext";
/// Ways that are looked for.
const LOOKED_AT: usize = 64;

pub(super) fn inspect(view: View<'_>) -> io::Result<Option<Inspection>> {
    let places: Vec<Option<usize>> = view
        .graph
        .types()
        .iter()
        .map(|of| of.noted("_state").filter(|_| of.noted("m_stateFlags").is_none()))
        .collect();
    let is_default = view.types(|of| of.name == DEFAULT);
    let (mut contexts, mut others, mut bytes) = (0_u64, 0_u64, 0_u64);
    view.graph.for_each_noted(|context, of, numbers| {
        let state = places.get(of.0 as usize).copied().flatten().and_then(|at| numbers.get(at));
        if state == Some(&UNLOADING) && view.is_live(context) {
            contexts += 1;
            bytes = bytes.saturating_add(view.retained(context));
        } else if state.is_some() && !is_default.get(of.0 as usize).is_some_and(|is| *is) {
            others += 1;
        }
    });
    if contexts == 0 {
        return Ok(None);
    }
    // The context does not say which allocator is its own: all that are alive are looked at.
    let types = view.types(|of| of.name == "System.Reflection.LoaderAllocator");
    let allocators: Vec<_> = view.objects_of(&types).into_iter().filter(|one| view.is_live(*one)).collect();
    // Those of contexts that are in use may be among them.
    let contexts = contexts.min((allocators.len() as u64).saturating_sub(others));
    if contexts == 0 {
        return Ok(None);
    }
    let ways = Ways::of(view.graph)?;
    let mut rows = Rows::default();
    for allocator in allocators.iter().take(LOOKED_AT) {
        if let Some(way) = ways.to(*allocator)? {
            rows.add(text_of(&way), 1, view.retained(*allocator));
        }
    }
    let found = Inspection::of(InspectionKind::StuckContexts, rows.all());
    // All of them are counted, whatever was looked at.
    Ok(found.map(|found| Inspection { objects: contexts, bytes: found.bytes.max(bytes), ..found }))
}
