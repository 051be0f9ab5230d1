//! A managed heap in numbers: its facts, and its objects by type.

use biopsy_model::order::Order as _;
use std::collections::HashMap;
use std::io;

use biopsy_dotnet::graph::{Graph, Totals, TypeIndex};
use biopsy_model::heap::HeapFacts;

use super::dominators::Dominators;
use super::holders::HolderTree;
use super::inspections::{self, Inspection};
use super::names::Names;
use super::suspects::Suspect;

/// What a report shows of a heap.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HeapSummary {
    /// Of the process or of the file, for headings.
    pub name: String,
    /// How it was seen and what it holds.
    pub facts: HeapFacts,
    /// All types by bytes, those of one name and module in one row; free space is no type.
    pub types: Vec<HeapTypeRow>,
    /// Who holds what; `None`: nobody looked, or it could not be read.
    pub held: Option<Held>,
}

/// Who holds what.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Held {
    /// Bytes of all that roots lead to.
    pub bytes: u64,
    /// By type and field.
    pub tree: HolderTree,
    /// What holds a tenth of it or more, and where it piles up.
    pub suspects: Vec<Suspect>,
    /// Known ways in which memory is wasted or kept, the most bytes first.
    pub inspections: Vec<Inspection>,
}

impl Held {
    /// Looks who holds what, and how much goes with each type: by its number.
    ///
    /// # Errors
    /// References that were spilled cannot be read.
    pub fn of(graph: &Graph) -> io::Result<(Self, Vec<u64>)> {
        let dominators = Dominators::of(graph)?;
        let by_row = retained_by_row(graph, &dominators);
        let tree = HolderTree::of(graph, &dominators)?;
        let suspects = Suspect::all(&tree);
        let inspections = inspections::inspect(graph, &dominators)?;
        Ok((Self { bytes: dominators.retained(0), tree, suspects, inspections }, by_row))
    }
}

/// Bytes that live because of the objects of each type: of those that are below no other of the same type.
fn retained_by_row(graph: &Graph, dominators: &Dominators) -> Vec<u64> {
    let names = Names::of(graph);
    let row = |number: u32| names.row(dominators.type_of(number)) as usize;
    let mut state = (vec![0_u64; names.rows()], vec![0_u32; names.rows()]);
    dominators.visit(
        &mut state,
        |(sums, above), number| {
            let row = row(number);
            if above[row] == 0 {
                sums[row] = sums[row].saturating_add(dominators.retained(number));
            }
            above[row] += 1;
        },
        |(_, above), number| above[row(number)] -= 1,
    );
    let (sums, _) = state;
    graph
        .types()
        .iter()
        .enumerate()
        .map(|(number, _)| sums[names.row(TypeIndex(number as u32)) as usize])
        .collect()
}

/// Objects of one type.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HeapTypeRow {
    /// Full name.
    pub name: String,
    /// File name of its module; empty: not known.
    pub module: String,
    /// All objects.
    pub all: Totals,
    /// Reachable ones; `None`: nobody looked.
    pub live: Option<Totals>,
    /// Bytes that would go with all of them; `None`: nobody looked.
    pub retained: Option<u64>,
}

/// All objects of a type, live ones, and what they retain.
type Sums = (Totals, Option<Totals>, Option<u64>);

/// Bytes for each object while it is looked who holds what.
const BYTES_AN_OBJECT: u64 = 80;

impl HeapSummary {
    /// Sums up a heap, with all memory that it takes.
    #[must_use]
    pub fn new(name: &str, graph: &Graph, facts: &HeapFacts) -> Self {
        Self::within(name, graph, facts, u64::MAX)
    }

    /// Sums up a heap. Who holds what is left out, and that is said, where it would take more than `most` bytes of memory.
    #[must_use]
    pub fn within(name: &str, graph: &Graph, facts: &HeapFacts, most: u64) -> Self {
        let mut facts = facts.clone();
        let needed = (graph.len() as u64).saturating_mul(BYTES_AN_OBJECT);
        let looked = if graph.roots().is_empty() {
            Ok(None)
        } else if needed > most {
            let (needed, most) = (needed.div_ceil(1 << 20), most >> 20);
            Err(format!(
                "it takes {needed} MiB of memory, and {most} MiB may be taken here; `biopsy analyze` does it on another machine"
            ))
        } else {
            Held::of(graph).map(Some).map_err(|error| error.to_string())
        };
        let (held, retained) = match looked {
            Ok(looked) => looked.unzip(),
            Err(why) => {
                facts.warnings.push(format!("who holds what was not worked out: {why}"));
                (None, None)
            }
        };
        let retained = retained.unwrap_or_default();
        let mut sums: HashMap<(&str, &str), Sums> = HashMap::new();
        let by_type = graph.by_type();
        for one in &by_type {
            let Some(of) = graph.type_of(one.of).filter(|of| !of.is_free) else { continue };
            let (all, live, of_type) = sums.entry((&of.name, &of.module)).or_default();
            *of_type = retained.get(one.of.0 as usize).copied();
            all.add_all(one.all);
            if let Some(more) = one.live {
                live.get_or_insert_default().add_all(more);
            }
        }
        let mut types: Vec<HeapTypeRow> = sums
            .into_iter()
            .map(|((name, module), (all, live, retained))| HeapTypeRow {
                name: name.to_owned(),
                module: module.to_owned(),
                all,
                live,
                retained,
            })
            .collect();
        types.order_by(|a, b| {
            b.all.bytes.cmp(&a.all.bytes).then_with(|| (&a.name, &a.module).cmp(&(&b.name, &b.module)))
        });
        Self { name: name.to_owned(), facts, types, held }
    }
}
