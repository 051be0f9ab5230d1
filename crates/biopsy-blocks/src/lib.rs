//! What the blocks of native allocators are, and who holds them: a heap graph of a process in C, C++, Rust or CPython, from its memory
//! alone.
//!
//! ```text
//! blocks of allocators ─┬─► Heap (by address) ─┬─► kinds: C++ by RTTI, Rust by tables of traits, CPython by ob_type, else by look
//! pools of CPython ─────┘                      ├─► edges: words that lead into a block
//! data of modules, stacks, registers ──────────┴─► roots, with names of variables ─► what nothing leads to: lost
//! ```
//!
//! References are *conservative*: a word that looks like the address of a block, or of a place in it, is one. So what was let go may seem to be
//! held, and nothing that is held seems to be lost, unless a program hides its pointers. No contents are kept.

#![forbid(unsafe_code)]

mod edges;
pub mod fuzz;
mod heap;
mod kinds;
mod looks;
mod lost;
#[cfg(test)]
mod made;
mod python;
mod roots;
mod rtti;
mod rust_tables;
mod stacks;
mod type_names;
mod words;

use std::io;
use std::ops::Range;

use biopsy_allocators::UsedBlock;
use biopsy_dotnet::graph::{Graph, GraphBuilder, Node, ObjectIndex, Root, TypeIndex, mark};
use biopsy_image::Image;
use biopsy_model::Avma;
use biopsy_model::heap::{HeapFacts, HeapSource, HeapType};
use biopsy_stacks::symbols::FileSources;

use self::edges::Edges;
use self::heap::Heap;
use self::kinds::Kinds;
use self::roots::{Found, Others};

/// Most blocks: each takes some 150 bytes while the graph is made.
pub const MOST_BLOCKS: usize = 8_000_000;
/// Most references.
const MOST_EDGES: usize = 60_000_000;

/// A native heap of one moment.
#[derive(Debug)]
pub struct NativeHeap {
    /// Its blocks, with roots and what is reachable.
    pub graph: Graph,
    /// What it is.
    pub facts: HeapFacts,
}

/// Reads what the blocks are and who holds them, of up to `most` blocks and objects. `areas`: memory that the allocators have. `sources`: where the process's files
/// are looked for.
///
/// # Errors
/// Never, as long as nothing is spilled.
pub fn read(
    image: &dyn Image,
    blocks: Vec<UsedBlock>,
    areas: &[Range<u64>],
    sources: &FileSources,
    most: usize,
) -> io::Result<NativeHeap> {
    let modules = biopsy_stacks::image::variables(image, sources);
    let python = python::Python::find(image);
    let mut warnings = Vec::new();
    let mut all = blocks;
    let (mut pools, mut is_cut) = (Vec::new(), false);
    if let Some(python) = &python {
        pools = python::pools::find(image, areas, &mut all, most);
        is_cut = all.len() >= most;
        if is_cut {
            warnings.push(format!(
                "objects of Python beyond the first {most} blocks are not among them: there are too many"
            ));
        }
        if let Some(why) = &python.warning {
            warnings.push(why.clone());
        }
    }
    let heap = Heap::new(all);
    let mut kinds = Kinds::new(image, &modules, heap.len());
    let mut read = Edges::new(MOST_EDGES);
    let mut statics = python.as_ref().map(|_| python::statics::Statics::default());
    read.of_blocks(image, &heap, &mut kinds, statics.as_mut());
    read.keep_owners(&kinds.python.take_owners());
    if read.is_cut {
        warnings.push(format!("references of the first {} blocks only: there are too many", read.blocks()));
    }
    let mut found = Found::default();
    if let Some(statics) = statics {
        python::names::roots_of(statics, image, &heap, &mut read, &mut found);
    }
    if let Some(python) = &python {
        python.variables(&heap, &mut found);
    }
    let others = Others { areas, pools: &pools, is_interpreted: python.is_some() };
    roots::find(image, &modules, &heap, &others, sources, &mut kinds, &mut found);
    lost::find(&heap, &read, &mut found);
    let (mut graph, dropped) = build(&heap, &read, kinds, &found)?;
    let roots = found.list.iter().filter_map(|root| {
        Some(Root {
            kind: root.kind,
            address: Avma(root.at),
            object: graph.find(Avma(heap.start(root.block)?))?,
            is_interior: false,
            thread: root.thread,
        })
    });
    let roots: Vec<Root> = roots.collect();
    graph.set_roots(roots, Vec::<(ObjectIndex, ObjectIndex)>::new());
    let live = mark(&graph)?;
    graph.set_live(live);
    if dropped > 0 {
        warnings.push(format!("{dropped} blocks overlap others and were left out"));
    }
    let runtime = python.map_or_else(|| "native".to_owned(), |python| format!("CPython {}", python.version));
    let facts = HeapFacts {
        pid: image.process().pid,
        runtime,
        source: HeapSource::Blocks,
        whole: !is_cut && !read.is_cut && dropped == 0,
        warnings,
        ..graph.facts()
    };
    Ok(NativeHeap { graph, facts })
}

fn build(heap: &Heap, edges: &Edges, kinds: Kinds<'_>, found: &Found) -> io::Result<(Graph, u64)> {
    let mut builder = GraphBuilder::new();
    let (names, of_blocks) = kinds.finish(heap, edges.blocks());
    for name in names {
        builder.push_type(HeapType { name, ..HeapType::default() });
    }
    // Names of roots: a type without a name has their places.
    let statics = found.names().map(|(name, place)| (name.to_owned(), Avma(place))).collect();
    builder.push_type(HeapType { statics, ..HeapType::default() });
    for (number, of) in of_blocks.iter().enumerate() {
        let number = number as u32;
        let Some((start, size)) = heap.start(number).zip(heap.size(number)) else { continue };
        let targets = edges.of(number);
        let count = targets.len() as u32;
        builder.push(Node { address: Avma(start), of: TypeIndex(*of), size, edges: count });
        for target in targets {
            builder.push_edge(Avma(heap.start(*target).unwrap_or_default()));
        }
    }
    let (graph, dropped, _) = builder.finish()?;
    Ok((graph, dropped))
}
