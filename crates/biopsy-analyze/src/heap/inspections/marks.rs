//! Objects that inspections marked, and who holds them: one look at all references for all inspections.

use std::collections::HashMap;
use std::io;

use biopsy_dotnet::graph::{ObjectIndex, RootKind, TypeIndex};

use super::inspection::{Inspection, InspectionKind};
use super::view::View;
use crate::heap::names::{NAMELESS, Names, root_text};

/// What is said of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) kind: InspectionKind,
    /// The type that is shown; `None`: it says nothing.
    pub(super) about: Option<TypeIndex>,
    pub(super) objects: u64,
    pub(super) bytes: u64,
}

/// Marked objects.
#[derive(Debug)]
pub(super) struct Marks {
    /// Number of the mark of each object, from 1 on.
    of_object: Vec<u32>,
    all: Vec<Mark>,
}

/// How many holders up it is looked for one that is no collection.
const UP: usize = 6;

/// Where marked objects are.
#[derive(PartialEq, Eq, Hash)]
struct Place {
    kind: InspectionKind,
    about: Option<TypeIndex>,
    /// Type of the holder that says something; `None`: a root.
    holder: Option<TypeIndex>,
    /// The field; of a collection in between: none.
    field: u32,
    /// The type of what holds it directly.
    direct: Option<TypeIndex>,
}

#[derive(Default)]
struct Sum {
    objects: u64,
    bytes: u64,
    /// A holder, and what of it leads to the object, where its field is to be looked for.
    example: Option<(ObjectIndex, ObjectIndex)>,
}

impl Marks {
    pub(super) fn new(view: View<'_>) -> Self {
        Self { of_object: vec![0; view.graph.len()], all: Vec::new() }
    }

    /// Marks an object; an earlier mark stays.
    pub(super) fn add(&mut self, object: ObjectIndex, mark: Mark) {
        if let Some(slot) = self.of_object.get_mut(object.0 as usize).filter(|slot| **slot == 0) {
            self.all.push(mark);
            *slot = self.all.len() as u32;
        }
    }

    fn take(&mut self, object: ObjectIndex) -> Option<Mark> {
        let slot = std::mem::take(self.of_object.get_mut(object.0 as usize)?);
        self.all.get((slot as usize).checked_sub(1)?).copied()
    }

    /// Says who holds what was marked: the first that refers to each, or the one above where that is a collection.
    ///
    /// # Errors
    /// References that were spilled cannot be read.
    pub(super) fn held(mut self, view: View<'_>) -> io::Result<Vec<Inspection>> {
        if self.all.is_empty() {
            return Ok(Vec::new());
        }
        let names = Names::of(view.graph);
        let is_collection = view.types(|of| {
            of.name.ends_with(']')
                || of.name.starts_with("System.Collections.")
                || of.name.starts_with("System.Object[")
        });
        let is_collection = |of: TypeIndex| is_collection.get(of.0 as usize).is_some_and(|is| *is);
        let roots: HashMap<u32, _> =
            view.graph.first_kept().into_iter().map(|(object, root)| (object.0, root)).collect();
        let mut sums: HashMap<Place, Sum> = HashMap::new();
        let mut of_roots: HashMap<(Option<TypeIndex>, InspectionKind, String), Sum> = HashMap::new();
        // What a root that tells something leads to is its own.
        for (object, root) in &roots {
            let tells =
                root.is_some_and(|root| matches!(root.kind, RootKind::Static | RootKind::ThreadStatic));
            if tells && let Some(mark) = self.take(ObjectIndex(*object)) {
                add(of_roots.entry((mark.about, mark.kind, root_text(view.graph, root.as_ref()))), mark);
            }
        }
        let mut buffer = Vec::new();
        let mut found: Vec<(usize, ObjectIndex, Mark)> = Vec::new();
        for holder in (0..view.graph.len() as u32).map(ObjectIndex) {
            if !view.is_live(holder) {
                continue;
            }
            view.graph.for_each_numbered_reference(holder, &mut buffer, |reference, target| {
                // What calls several is its own target, and nobody's holder.
                if target != holder
                    && self.of_object.get(target.0 as usize).is_some_and(|mark| *mark != 0)
                    && let Some(mark) = self.take(target)
                {
                    found.push((reference, target, mark));
                }
            })?;
            let Some((of, _)) = view.graph.type_and_size(holder).filter(|_| !found.is_empty()) else {
                found.clear();
                continue;
            };
            let direct = Some(of);
            let (mut at, mut below) = (holder, None);
            for _ in 0..UP {
                let is = view.graph.type_and_size(at).is_some_and(|(of, _)| is_collection(of));
                let Some(above) = view.holder(at).filter(|_| is) else { break };
                (at, below) = (above, Some(at));
            }
            let at_type = view.graph.type_and_size(at).map(|(of, _)| of);
            let root = roots.get(&at.0).filter(|_| at_type.is_some_and(&is_collection));
            for (reference, target, mark) in found.drain(..) {
                if let Some(root) = root {
                    add(of_roots.entry((mark.about, mark.kind, root_text(view.graph, root.as_ref()))), mark);
                    continue;
                }
                let field = if below.is_none() { names.field(of, reference) } else { NAMELESS };
                let place = Place { kind: mark.kind, about: mark.about, holder: at_type, field, direct };
                let sum = sums.entry(place).or_default();
                sum.add(mark);
                sum.example.get_or_insert((at, below.unwrap_or(target)));
            }
        }
        // What no object refers to: roots that tell nothing, and keys of dependent handles.
        let left: Vec<usize> = (0..self.of_object.len())
            .filter(|at| self.of_object.get(*at).is_some_and(|mark| *mark != 0))
            .collect();
        for object in left.into_iter().map(|at| ObjectIndex(at as u32)) {
            if let Some(mark) = self.take(object) {
                let root = roots.get(&object.0).copied().flatten();
                add(of_roots.entry((mark.about, mark.kind, root_text(view.graph, root.as_ref()))), mark);
            }
        }
        let mut rows: HashMap<InspectionKind, super::view::Rows> = HashMap::new();
        let about = |about: Option<TypeIndex>| {
            let of = about.and_then(|of| view.graph.type_of(of));
            of.map_or_else(String::new, |of| format!("{} in ", of.name))
        };
        for ((of, kind, root), sum) in of_roots {
            rows.entry(kind).or_default().add(format!("{}{root}", about(of)), sum.objects, sum.bytes);
        }
        for (place, sum) in sums {
            let mut text = about(place.about);
            text.push_str(
                place.holder.and_then(|of| view.graph.type_of(of)).map_or("?", |of| of.name.as_str()),
            );
            let field = match (place.field, sum.example) {
                (NAMELESS, Some((holder, held))) => field_to(view, holder, held)?,
                (number, _) => names.text(number).to_owned(),
            };
            if !field.is_empty() {
                text.push('.');
                text.push_str(&field);
            }
            rows.entry(place.kind).or_default().add(text, sum.objects, sum.bytes);
        }
        let found = rows.into_iter().filter_map(|(kind, rows)| Inspection::of(kind, rows.all()));
        Ok(found.collect())
    }
}

impl Sum {
    fn add(&mut self, mark: Mark) {
        self.objects = self.objects.saturating_add(mark.objects);
        self.bytes = self.bytes.saturating_add(mark.bytes);
    }
}

fn add<K: std::hash::Hash + Eq>(entry: std::collections::hash_map::Entry<'_, K, Sum>, mark: Mark) {
    entry.or_default().add(mark);
}

/// The field of an object that refers to another; empty: not known, or an element.
fn field_to(view: View<'_>, holder: ObjectIndex, held: ObjectIndex) -> io::Result<String> {
    let Some((_, of, _)) = view.of(holder) else { return Ok(String::new()) };
    let mut found = String::new();
    view.graph.for_each_numbered_reference(holder, &mut Vec::new(), |reference, target| {
        if target == held && found.is_empty() {
            found.push_str(of.field_of(reference).unwrap_or_default());
        }
    })?;
    Ok(found)
}
