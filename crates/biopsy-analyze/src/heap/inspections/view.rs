//! What inspections look at: a graph, who dominates whom, and names.

use std::collections::HashMap;

use biopsy_dotnet::graph::{Graph, ObjectIndex, TypeIndex};
use biopsy_model::heap::{HeapType, TypeFamily};

use super::inspection::InspectionRow;
use crate::heap::dominators::Dominators;

/// A heap to be inspected.
#[derive(Clone, Copy)]
pub(super) struct View<'g> {
    pub(super) graph: &'g Graph,
    pub(super) dominators: &'g Dominators,
}

/// Nodes above an object that are looked at for one of its own kind.
const ABOVE: usize = 4;

impl<'g> View<'g> {
    /// Whether roots lead to it.
    pub(super) fn is_live(&self, object: ObjectIndex) -> bool {
        self.dominators.number(object).is_some()
    }

    /// The type of an object.
    pub(super) fn of(&self, object: ObjectIndex) -> Option<(TypeIndex, &'g HeapType, u64)> {
        let (of, size) = self.graph.type_and_size(object)?;
        Some((of, self.graph.type_of(of)?, size))
    }

    /// The name of the type of an object.
    pub(super) fn name(&self, object: ObjectIndex) -> &'g str {
        self.of(object).map_or("?", |(_, of, _)| of.name.as_str())
    }

    /// Bytes that live because of an object.
    pub(super) fn retained(&self, object: ObjectIndex) -> u64 {
        self.dominators.number(object).map_or(0, |number| self.dominators.retained(number))
    }

    /// The object that alone keeps this one; `None`: a root does, or several do.
    pub(super) fn holder(&self, object: ObjectIndex) -> Option<ObjectIndex> {
        let above = self.dominators.dominator(self.dominators.number(object)?);
        (above != 0).then(|| self.dominators.object(above))
    }

    /// Whether one of its type is a little above it, whose bytes hold its own.
    pub(super) fn is_below_its_like(&self, object: ObjectIndex) -> bool {
        let of = self.graph.type_and_size(object).map(|(of, _)| of);
        let mut above = self.holder(object);
        for _ in 0..ABOVE {
            let Some(one) = above else { return false };
            if self.graph.type_and_size(one).map(|(of, _)| of) == of {
                return true;
            }
            above = self.holder(one);
        }
        false
    }

    /// For each type, whether it is meant.
    pub(super) fn types(&self, is_meant: impl Fn(&HeapType) -> bool) -> Vec<bool> {
        self.graph.types().iter().map(|of| !of.is_free && is_meant(of)).collect()
    }

    /// Objects of types that are meant, by address.
    pub(super) fn objects_of(&self, types: &[bool]) -> Vec<ObjectIndex> {
        if !types.contains(&true) {
            return Vec::new();
        }
        let is_meant = |of: TypeIndex| types.get(of.0 as usize).is_some_and(|is| *is);
        self.graph.objects().filter(|one| is_meant(one.of)).map(|one| one.index).collect()
    }

    /// What a field of an object refers to; `None`: nothing, or there is no such field.
    pub(super) fn field(&self, object: ObjectIndex, wanted: &str) -> std::io::Result<Option<ObjectIndex>> {
        let Some((_, of, _)) = self.of(object) else { return Ok(None) };
        let mut found = None;
        self.graph.for_each_numbered_reference(object, &mut Vec::new(), |reference, target| {
            if of.field_of(reference) == Some(wanted) {
                found.get_or_insert(target);
            }
        })?;
        Ok(found)
    }

    /// Whom a delegate calls: its target, or what is handed to it where the target is the compiler's own or there is none.
    pub(super) fn called(
        &self,
        delegate: ObjectIndex,
        state: Option<ObjectIndex>,
    ) -> std::io::Result<ObjectIndex> {
        let target = self.field(delegate, "_target")?.filter(|target| *target != delegate);
        // Lambdas that hold nothing are methods of one object that nobody else is interested in.
        let tells = target.filter(|target| !self.name(*target).ends_with("+<>c"));
        let called = tells.or(state).or(target).unwrap_or(delegate);
        // Where a delegate is handed over to be called, it is the one that tells.
        let is_handed_on = Some(called) == state && self.is_delegate(called);
        let behind = if is_handed_on { self.field(called, "_target")? } else { None };
        Ok(behind.filter(|target| !self.name(*target).ends_with("+<>c")).unwrap_or(called))
    }

    fn is_delegate(&self, object: ObjectIndex) -> bool {
        self.of(object).is_some_and(|(_, of, _)| of.family == TypeFamily::Delegate)
    }
}

/// Sums by text.
#[derive(Default)]
pub(super) struct Rows(HashMap<String, (u64, u64)>);

impl Rows {
    pub(super) fn add(&mut self, what: String, objects: u64, bytes: u64) {
        let row = self.0.entry(what).or_default();
        row.0 = row.0.saturating_add(objects);
        row.1 = row.1.saturating_add(bytes);
    }

    pub(super) fn all(self) -> Vec<InspectionRow> {
        self.0.into_iter().map(|(what, (objects, bytes))| InspectionRow { what, objects, bytes }).collect()
    }
}

/// Element of an array, in bytes of its object.
const ARRAY_HEADER: u64 = 24;

/// How many elements an array of this type and size has room for; `None`: not known.
pub(super) fn capacity(of: &HeapType, size: u64) -> Option<u64> {
    let is_plain = of.name.ends_with("[]") && of.element_bytes > 0;
    is_plain.then(|| size.saturating_sub(ARRAY_HEADER) / u64::from(of.element_bytes))
}
