//! What is noted of objects beside their references: how much is in collections, when timers are due, which strings are equal.
//!
//! Only fields of the runtime's own types, by name, so that no number of the program's is kept. Of texts nothing is kept but which are
//! equal: fingerprints with a key that is made anew for each walk and never stored become numbers when all are known.

use std::hash::{BuildHasher as _, Hasher, RandomState};

use biopsy_model::heap::{SAME_TEXT, TypeFamily};

use super::to_note::Noted;
use crate::graph::{Graph, Span};
use crate::runtime::{FieldPlace, Runtime, TypeHandle};

/// Ancestors of a type that are looked at.
const PARENTS: usize = 64;
/// An object's fields begin behind its method table.
const FIRST_FIELD: u64 = 8;
/// Types, generic ones up to their arguments, and the 32-bit fields of them and of what is derived from them that are noted.
const FIELDS: &[(&str, &[&str])] = &[
    ("System.Collections.Generic.List<", &["_size"]),
    ("System.Collections.Generic.Dictionary<", &["_count", "_freeCount"]),
    ("System.Collections.Generic.HashSet<", &["_count", "_freeCount"]),
    ("System.Collections.Generic.Queue<", &["_size"]),
    ("System.Collections.Generic.Stack<", &["_size"]),
    ("System.Collections.Generic.PriorityQueue<", &["_size"]),
    ("System.Collections.ArrayList", &["_size"]),
    ("System.Threading.Tasks.Task", &["m_stateFlags"]),
    ("System.Threading.TimerQueueTimer", &["_dueTime", "_period"]),
    ("System.Runtime.Loader.AssemblyLoadContext", &["_state"]),
];
/// Base types, and what is derived from them.
const FAMILIES: &[(&str, TypeFamily)] = &[
    ("System.ValueType", TypeFamily::Value),
    ("System.MulticastDelegate", TypeFamily::Delegate),
    ("System.Threading.Tasks.Task", TypeFamily::Task),
];
const STRING: &str = "System.String";

/// Which fields of a type are noted, where they are, and what it is derived from.
pub(super) fn of_type(runtime: &Runtime<'_>, method_table: TypeHandle) -> Noted {
    let mut noted = Noted::default();
    let mut next = Some(method_table);
    for _ in 0..PARENTS {
        let Some(info) = next.and_then(|of| runtime.type_of(of).ok()) else { break };
        if info.is_array() {
            break;
        }
        if *info.name == *STRING {
            noted.names.push(SAME_TEXT.to_owned());
            noted.is_text = true;
            break;
        }
        if let Some((_, family)) = FAMILIES.iter().find(|(name, _)| *info.name == **name) {
            noted.family = family.clone();
        }
        let is_meant = |name: &str| {
            if name.ends_with('<') { info.name.starts_with(name) } else { *info.name == *name }
        };
        if let Some((_, fields)) = FIELDS.iter().find(|(name, _)| is_meant(name)) {
            for field in *fields {
                let place = runtime.find_field(info.method_table, field).ok().flatten();
                if let Some(FieldPlace::Instance(offset)) = place.map(|field| field.place) {
                    noted.names.push((*field).to_owned());
                    noted.offsets.push(FIRST_FIELD + u64::from(offset));
                }
            }
        }
        next = info.parent;
    }
    noted
}

/// Makes fingerprints of texts that nobody can make again.
#[derive(Debug, Default)]
pub(super) struct Fingerprints(RandomState);

impl Fingerprints {
    /// Of a text that comes in pieces.
    pub(super) fn start(&self) -> impl Hasher + use<> {
        self.0.build_hasher()
    }
}

/// Puts numbers in the place of fingerprints: 0 where nobody else has the text.
pub(super) fn number_texts(graph: &mut Graph) {
    let texts: usize = graph.spans.iter().map(|span| span.texts.len()).sum();
    let mut all = Vec::with_capacity(texts);
    graph.spans.iter().for_each(|span| all.extend_from_slice(&span.texts));
    all.sort_unstable();
    // Of each that is there more than once, one.
    let mut several: Vec<u64> = all
        .windows(2)
        .filter_map(|pair| if let [a, b] = pair { (a == b).then_some(*a) } else { None })
        .collect();
    drop(all);
    several.dedup();
    let is_text: Vec<bool> = graph.types.iter().map(|of| of.noted(SAME_TEXT).is_some()).collect();
    let widths: Vec<usize> = graph.types.iter().map(|of| of.noted.len()).collect();
    for span in &mut graph.spans {
        let Span { types, noted, texts, .. } = span;
        let (mut texts, mut at) = (std::mem::take(texts).into_iter(), 0);
        for of in types.iter().map(|of| *of as usize) {
            if is_text.get(of).is_some_and(|is| *is)
                && let (Some(text), Some(slot)) = (texts.next(), noted.get_mut(at))
            {
                *slot = several.binary_search(&text).map_or(0, |number| number as u32 + 1);
            }
            at += widths.get(of).copied().unwrap_or(0);
        }
    }
}
