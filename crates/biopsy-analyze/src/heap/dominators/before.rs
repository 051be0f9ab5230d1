//! Who refers to each object, as far as it matters for dominators.
//!
//! In a depth-first walk what has a lower number and refers to an object is above it in the tree: of these only the lowest matters. A table
//! is needed of those with higher numbers alone. It is kept by object, in whose order it is made: what refers to each other mostly lies near.

use std::io;

use biopsy_dotnet::graph::{Graph, ObjectIndex};

use super::lists::Lists;
use super::roots::{NONE, Roots, is_on_stack};
use super::variables::Variables;

/// What is known of those that refer to an object.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Where those with higher numbers begin; they end where those of the next object do.
    start: u32,
    /// The lowest number of all; 0: a root.
    lowest: u32,
}

/// Who refers to each, by object.
pub(super) struct Predecessors {
    places: Vec<Place>,
    all: Vec<u32>,
}

impl Predecessors {
    /// `places`: variables with their numbers. Numbers from `uncertain` on are of objects that only words on stacks lead to: they hold none of the others.
    pub(super) fn of(
        graph: &Graph,
        lists: &Lists,
        first: &Roots,
        (variables, of_variables): &(Variables, Vec<u32>),
        numbers: &[u32],
        uncertain: u32,
    ) -> io::Result<Self> {
        let mut places = vec![Place { start: 0, lowest: NONE }; numbers.len() + 1];
        let frozen = first.iter().filter(|(_, root)| root.is_none()).map(|(object, _)| *object);
        let alone = graph.roots().iter().filter(|root| !variables.has(root)).filter(|root| {
            let number = numbers.get(root.object.0 as usize);
            number.is_some_and(|number| !is_on_stack(Some(root)) || *number >= uncertain)
        });
        for object in frozen.chain(alone.map(|root| root.object)) {
            places[object.0 as usize].lowest = 0;
        }
        // To which object, from which number.
        let mut higher: Vec<(u32, u32)> = Vec::new();
        let mut buffer = Vec::new();
        for (variable, from) in of_variables.iter().enumerate() {
            for target in variables.objects(variable) {
                refer(&mut places, &mut higher, numbers, uncertain, (*from, target));
            }
        }
        for (object, from) in numbers.iter().enumerate().filter(|(_, from)| **from != 0) {
            let mut refer = |target| refer(&mut places, &mut higher, numbers, uncertain, (*from, target));
            let object = ObjectIndex(object as u32);
            lists.for_each(graph, object, &mut buffer, &mut refer)?;
            if !graph.dependents().is_empty() {
                graph.for_each_dependent(object, &mut refer);
            }
        }
        if higher.len() as u64 >= u64::from(NONE) {
            return Err(io::Error::other("more references than can be numbered"));
        }
        // Ends first; filling moves each back to its beginning.
        let mut sum = 0;
        for place in &mut places {
            sum += place.start;
            place.start = sum;
        }
        let mut all = vec![0_u32; higher.len()];
        for (to, from) in higher {
            let start = &mut places[to as usize].start;
            *start -= 1;
            all[*start as usize] = from;
        }
        Ok(Self { places, all })
    }

    /// The lowest number that refers to an object, and all that are higher than its own.
    #[inline]
    pub(super) fn before(&self, object: u32) -> (u32, &[u32]) {
        // Variables are no objects, and nothing refers to them.
        if object == NONE {
            return (0, &[]);
        }
        let (place, next) = (self.places[object as usize], self.places[object as usize + 1]);
        (place.lowest, &self.all[place.start as usize..next.start as usize])
    }
}

/// Notes who refers to an object.
#[inline]
fn refer(
    places: &mut [Place],
    higher: &mut Vec<(u32, u32)>,
    numbers: &[u32],
    uncertain: u32,
    (from, ObjectIndex(target)): (u32, ObjectIndex),
) {
    let to = numbers[target as usize];
    let place = &mut places[target as usize];
    if to >= from {
        place.lowest = place.lowest.min(from);
    } else if from < uncertain || to >= uncertain {
        place.start += 1;
        higher.push((target, from));
    }
}
