//! Collections with nothing in them, or with room for far more; arrays of references that are mostly empty.

use std::collections::HashSet;
use std::io;

use biopsy_dotnet::graph::{ObjectIndex, RootKind, TypeIndex};

use super::inspection::InspectionKind;
use super::marks::{Mark, Marks};
use super::view::{View, capacity};

/// Fields that refer to the array in which a collection keeps what it holds.
const STORES: [&str; 6] = ["_items", "_entries", "_array", "_nodes", "_slots", "_buckets"];
/// Room that is less than this is not worth a word.
const LEAST: u64 = 64;
/// An array this small is no matter.
const LEAST_ARRAY: u64 = 1024;
/// An array is sparse when at most one of so many places is used.
const SPARSE: u64 = 4;

/// A collection with what was noted of it.
struct Collection {
    object: ObjectIndex,
    of: TypeIndex,
    used: u64,
}

pub(super) fn mark(view: View<'_>, marks: &mut Marks) -> io::Result<()> {
    let mut found = Vec::new();
    let places: Vec<Option<(usize, Option<usize>)>> = view
        .graph
        .types()
        .iter()
        .map(|of| Some((of.noted("_size").or_else(|| of.noted("_count"))?, of.noted("_freeCount"))))
        .collect();
    view.graph.for_each_noted(|object, of, numbers| {
        let Some((used, free)) = places.get(of.0 as usize).copied().flatten() else { return };
        let number = |at: usize| numbers.get(at).copied().unwrap_or(0).cast_signed().max(0).cast_unsigned();
        if view.is_live(object) {
            let used = number(used).saturating_sub(free.map_or(0, number)).into();
            found.push(Collection { object, of, used });
        }
    });
    let mut stores = vec![false; if found.is_empty() { 0 } else { view.graph.len() }];
    for one in found {
        of_collection(view, marks, &one, &mut stores)?;
    }
    arrays(view, marks, &stores)
}

fn of_collection(view: View<'_>, marks: &mut Marks, one: &Collection, stores: &mut [bool]) -> io::Result<()> {
    let Some(of) = view.graph.type_of(one.of) else { return Ok(()) };
    let (mut room, mut element, mut bytes) = (0, 0, 0);
    view.graph.for_each_numbered_reference(one.object, &mut Vec::new(), |reference, target| {
        let Some(store) = of.field_of(reference).filter(|field| STORES.contains(field)) else { return };
        stores.get_mut(target.0 as usize).into_iter().for_each(|is| *is = true);
        // An array that is shared by all that are empty is nobody's.
        let Some((_, array, size)) = view.of(target).filter(|_| view.holder(target) == Some(one.object))
        else {
            return;
        };
        bytes += size.next_multiple_of(8);
        if let Some(capacity) = capacity(array, size).filter(|_| store != "_buckets") {
            (room, element) = (capacity, u64::from(array.element_bytes));
        }
    })?;
    let own = view.of(one.object).map_or(0, |(_, _, size)| size.next_multiple_of(8));
    let about = Some(one.of);
    if one.used == 0 {
        let kind = InspectionKind::EmptyCollections;
        marks.add(one.object, Mark { kind, about, objects: 1, bytes: own + bytes });
        return Ok(());
    }
    let wasted = room.saturating_sub(one.used).saturating_mul(element);
    if room > one.used.saturating_mul(2) && wasted >= LEAST {
        let kind = InspectionKind::OversizedCollections;
        marks.add(one.object, Mark { kind, about, objects: 1, bytes: wasted });
    }
    Ok(())
}

/// Arrays of references that are no collection's.
fn arrays(view: View<'_>, marks: &mut Marks, stores: &[bool]) -> io::Result<()> {
    const REFERENCE: u32 = 8;
    let types =
        view.types(|of| of.name.ends_with("[]") && of.element_bytes == REFERENCE && of.fields.is_empty());
    // In such the runtime itself keeps statics of all types of a module.
    let own: HashSet<ObjectIndex> = view
        .graph
        .roots()
        .iter()
        .filter(|root| matches!(root.kind, RootKind::StrongHandle | RootKind::PinnedHandle))
        .map(|root| root.object)
        .collect();
    let mut buffer = Vec::new();
    for object in view.objects_of(&types) {
        let Some((of, array, size)) = view.of(object).filter(|(_, _, size)| *size >= LEAST_ARRAY) else {
            continue;
        };
        if !view.is_live(object)
            || own.contains(&object)
            || stores.get(object.0 as usize).is_some_and(|is| *is)
        {
            continue;
        }
        let mut used = 0_u64;
        view.graph.for_each_reference(object, &mut buffer, |_| used += 1)?;
        // Without any it may as well be an array of numbers.
        let Some(room) = capacity(array, size).filter(|room| used > 0 && *room > used * SPARSE) else {
            continue;
        };
        let kind = InspectionKind::SparseArrays;
        let bytes = (room - used) * u64::from(REFERENCE);
        marks.add(object, Mark { kind, about: Some(of), objects: 1, bytes });
    }
    Ok(())
}
