//! Names of the fields that hold references: of objects, by the places that the collector follows, and statics.

use biopsy_model::Avma;
use rustc_hash::FxHashSet;

use super::shape::ReferencePlaces;
use crate::runtime::{FieldPlace, Runtime, TypeHandle, TypeShape};

/// Ancestors of a type that are looked at.
const PARENTS: usize = 64;
/// An object's fields begin behind its method table.
const FIRST_FIELD: u64 = 8;

/// A name for each place; `None`: the fields cannot be read.
pub(super) fn names(
    runtime: &Runtime<'_>,
    method_table: TypeHandle,
    places: &ReferencePlaces,
) -> Option<Vec<String>> {
    let info = runtime.type_of(method_table).ok()?;
    let (of, first) = match info.shape {
        TypeShape::Vector { element } | TypeShape::Array { element, .. } if places.repeats => (element, 0),
        _ if places.repeats => return None,
        _ => (method_table, FIRST_FIELD),
    };
    let fields = instance_fields(runtime, of);
    if fields.is_empty() {
        return None;
    }
    let name = |place: &u64| {
        let offset = place.checked_sub(first)?;
        // A field that is a struct takes several places.
        let holder = fields.partition_point(|(at, _)| *at <= offset).checked_sub(1)?;
        fields.get(holder).map(|(_, name)| name.clone())
    };
    places.offsets.iter().map(name).collect()
}

/// Offsets and names of the fields of an object, inherited ones too, by offset.
fn instance_fields(runtime: &Runtime<'_>, of: TypeHandle) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    let mut next = Some(of);
    for _ in 0..PARENTS {
        let Some(of) = next else { break };
        let Ok(fields) = runtime.fields(of) else { break };
        found.extend(fields.iter().filter_map(|field| match field.place {
            FieldPlace::Instance(offset) => Some((u64::from(offset), as_written(&field.name))),
            _ => None,
        }));
        next = runtime.type_of(of).ok().and_then(|info| info.parent);
    }
    found.sort();
    found
}

/// Types that may have static fields: all that are loaded, but no instances of generic ones.
pub(super) fn types_with_statics(runtime: &Runtime<'_>) -> FxHashSet<TypeHandle> {
    let modules = runtime.modules().unwrap_or_default();
    modules.iter().flat_map(|module| runtime.loaded_types(module)).collect()
}

/// The static fields of a type that hold objects, and where they are.
pub(super) fn statics_of(runtime: &Runtime<'_>, of: TypeHandle) -> Vec<(String, Avma)> {
    let fields = runtime.fields(of).unwrap_or_default();
    let kept = fields.iter().filter(|field| field.is_kept_by_collector());
    kept.filter_map(|field| match field.place {
        FieldPlace::Static(at) => Some((as_written(&field.name), at)),
        _ => None,
    })
    .collect()
}

/// The name that is in the source: of a property, the compiler makes a field `<Name>k__BackingField`.
fn as_written(field: &str) -> String {
    let property = field.strip_prefix('<').and_then(|rest| rest.strip_suffix(">k__BackingField"));
    property.unwrap_or(field).to_owned()
}
