//! Prints the heap of a core as the oracle of the tests does, to compare by hand: `heap_objects CORE OBJECTS EDGES`.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]
#![expect(clippy::print_stdout, reason = "it is a program")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Instant;

use biopsy_dotnet::heap::{Heap, HeapOptions};
use biopsy_dotnet::runtime::{Options, Runtime, find_runtimes};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [core, rest @ ..] = arguments.as_slice() else {
        return Err("heap_objects CORE [OBJECTS EDGES]".into());
    };
    let opened = biopsy_image::open(std::path::Path::new(core), &biopsy_image::Limits::default())?;
    let started = Instant::now();
    let found = find_runtimes(&*opened.image);
    let first = found.first().ok_or("no runtime")?;
    let runtime = Runtime::open(Box::new(&*opened.image), first, &Options::default())?;
    println!("runtime {:?} in {:?}", first.version, started.elapsed());
    let heap = Heap::open(&runtime)?;
    println!("{} segments, {} bytes, server {}", heap.segments().len(), heap.bytes(), heap.is_server());
    for threads in [1, 0] {
        let started = Instant::now();
        let (graph, _) = heap.walk_objects(&HeapOptions { threads, spill: None })?;
        println!("objects {} in {:?} ({threads} threads)", graph.len(), started.elapsed());
        let started = Instant::now();
        let (graph, problems) = heap.walk(&HeapOptions { threads, spill: None })?;
        println!(
            "objects {} edges {} in {:?}; {problems:?}",
            graph.len(),
            graph.edge_count(),
            started.elapsed()
        );
    }
    let (mut graph, mut problems) = heap.walk(&HeapOptions::default())?;
    let started = Instant::now();
    let missing = heap.find_live(&mut graph, &mut problems)?;
    println!("live in {:?}: {:?} {missing:?}", started.elapsed(), graph.totals());
    println!(
        "{} bytes in memory, {:.1} per object",
        graph.heap_bytes(),
        graph.heap_bytes() as f64 / graph.len() as f64
    );
    let mut kinds = std::collections::BTreeMap::new();
    graph.roots().iter().for_each(|root| *kinds.entry(root.kind.name()).or_insert(0u32) += 1);
    println!("roots {kinds:?}, dependents {}", graph.dependents().len());
    if let [objects, edges, ..] = rest {
        let mut objects = BufWriter::new(File::create(objects)?);
        let mut edges = BufWriter::new(File::create(edges)?);
        for object in graph.objects() {
            let of = graph.type_of(object.of).ok_or("type")?;
            let generation = object.generation.name();
            writeln!(
                objects,
                "{:x}\t{:x}\t{}\t{generation}\t{}",
                object.address, of.method_table, object.size, of.name
            )?;
            for target in graph.references(object.index)? {
                let target = graph.object(target).ok_or("target")?;
                writeln!(edges, "{:x}\t{:x}", object.address, target.address)?;
            }
        }
    }
    Ok(())
}
