//! The shortest way from a root to each object.
//!
//! One search in breadth from all roots: those that say who holds an object first, words on stacks only for what nothing else leads to.

use std::io;

use biopsy_dotnet::graph::{Bits, Graph, ObjectIndex, Root, RootKind};

use super::names::{ELEMENT, Step, root_text, type_name};

/// Stands for a root.
const ROOT: u32 = u32::MAX;
/// A level of the search that is larger is gone through in the order of addresses.
const SORTED: usize = 1 << 10;
/// Longest way that is told; the middle of a longer one is left out.
const LONGEST: usize = 200;

/// From which object each was reached.
#[derive(Debug)]
pub struct Ways<'g> {
    graph: &'g Graph,
    before: Vec<u32>,
    reached: Bits,
    roots: Vec<(ObjectIndex, Option<Root>)>,
}

impl<'g> Ways<'g> {
    /// Searches all objects.
    ///
    /// # Errors
    /// References that were spilled cannot be read.
    pub fn of(graph: &'g Graph) -> io::Result<Self> {
        let roots = graph.first_kept();
        let mut ways =
            Self { graph, before: vec![ROOT; graph.len()], reached: Bits::new(graph.len()), roots };
        let on_stack = |root: &Option<Root>| root.is_some_and(|root| root.kind == RootKind::Stack);
        let certain = ways.roots.partition_point(|(_, root)| !on_stack(root));
        let starts: Vec<u32> = ways.roots.iter().map(|(object, _)| object.0).collect();
        let (certain, left_over) = starts.split_at(certain);
        ways.search(certain)?;
        ways.search(left_over)?;
        ways.roots.sort_by_key(|(object, _)| *object);
        Ok(ways)
    }

    fn search(&mut self, starts: &[u32]) -> io::Result<()> {
        let Self { graph, before, reached, .. } = self;
        let mut level: Vec<u32> =
            starts.iter().copied().filter(|one| reached.insert(*one as usize)).collect();
        let (mut next, mut buffer) = (Vec::new(), Vec::new());
        while !level.is_empty() {
            // What lies together in memory together: of a large level much is.
            if level.len() > SORTED {
                level.sort_unstable();
            }
            for object in level.drain(..) {
                let mut reach = |target: ObjectIndex| {
                    if reached.insert(target.0 as usize) {
                        before[target.0 as usize] = object;
                        next.push(target.0);
                    }
                };
                graph.for_each_reference(ObjectIndex(object), &mut buffer, &mut reach)?;
                graph.for_each_dependent(ObjectIndex(object), &mut reach);
            }
            std::mem::swap(&mut level, &mut next);
        }
        Ok(())
    }

    /// The way to an object, the root first; `None`: nothing leads to it.
    ///
    /// # Errors
    /// References that were spilled cannot be read.
    pub fn to(&self, object: ObjectIndex) -> io::Result<Option<Vec<Step>>> {
        if !self.reached.contains(object.0 as usize) {
            return Ok(None);
        }
        let mut objects = vec![object];
        while let Some(before) =
            self.before.get(objects[objects.len() - 1].0 as usize).filter(|one| **one != ROOT)
        {
            objects.push(ObjectIndex(*before));
        }
        objects.reverse();
        let root = self.roots.binary_search_by_key(&objects[0], |(object, _)| *object);
        let root = root.ok().and_then(|at| self.roots[at].1);
        let mut steps: Vec<Step> = Vec::new();
        let mut before = None;
        // The field by which the last step goes on in itself.
        let mut link: Option<String> = None;
        for object in objects {
            let via = match before {
                None => root_text(self.graph, root.as_ref()),
                Some(before) => self.field(before, object)?,
            };
            let of = type_name(self.graph, object);
            before = Some(object);
            // A list that is linked is one step; elements of an array of its own type are none.
            match steps.last_mut().filter(|last| via != ELEMENT && last.of == of) {
                Some(last) if last.times == 1 || link.as_deref() == Some(&via) => {
                    last.times += 1;
                    link = Some(via);
                }
                _ => steps.push(Step { via, of: of.to_owned(), times: 1 }),
            }
        }
        if steps.len() > LONGEST {
            let tail = steps.split_off(steps.len() - LONGEST / 2);
            steps.truncate(LONGEST / 2);
            steps.push(Step { via: String::new(), of: "…".to_owned(), times: 1 });
            steps.extend(tail);
        }
        Ok(Some(steps))
    }

    /// The field of an object that refers to another.
    fn field(&self, holder: ObjectIndex, held: ObjectIndex) -> io::Result<String> {
        let Some(of) = self.graph.object(holder).and_then(|holder| self.graph.type_of(holder.of)) else {
            return Ok(String::new());
        };
        let mut found = None;
        self.graph.for_each_numbered_reference(holder, &mut Vec::new(), |reference, target| {
            if target == held {
                found.get_or_insert(reference);
            }
        })?;
        let is_array = of.fields.is_empty() && of.name.ends_with(']');
        Ok(match found {
            Some(_) if is_array => ELEMENT.to_owned(),
            Some(reference) => of.field_of(reference).unwrap_or_default().to_owned(),
            None => String::new(),
        })
    }
}
