//! Odd heaps: very many types, types made at run time and taken away again, names that do harm, long chains, cycles.

use biopsy_dotnet::graph::{Graph, Spill};
use biopsy_dotnet::heap::{Heap, HeapOptions};
use biopsy_testkit::{DOTNET_RUNTIMES, Survival, TargetProcess, dotnet_odd, require_all};

use super::{NEEDED, frozen, is_live, opened, quiet, thorough, with_runtime};

fn odd(runtime: &str, arguments: &[&str]) -> (TargetProcess, Graph) {
    let target = TargetProcess::spawn(dotnet_odd(runtime, arguments).expect("the targets are there"));
    let survival = Survival::before(target.pid()).threads_may_change();
    let started = std::time::Instant::now();
    let (image, graph) = quiet(target.pid());
    drop(image);
    eprintln!(
        "{runtime} {arguments:?}: {} objects, {} types, {:?}",
        graph.len(),
        graph.types().len(),
        started.elapsed()
    );
    survival.assert_unharmed();
    (target, graph)
}

/// How many types begin like this, and how many live objects they have.
fn named(graph: &Graph, beginning: &str) -> (usize, u64) {
    let rows: Vec<u64> = graph
        .by_type()
        .into_iter()
        .filter(|one| graph.type_of(one.of).is_some_and(|of| of.name.starts_with(beginning)))
        .map(|one| one.live.map_or(0, |live| live.objects))
        .filter(|live| *live > 0)
        .collect();
    (rows.len(), rows.iter().sum())
}

/// `BIOPSY_THOROUGH=1`: 100,000 types and a chain of 10^7.
#[test]
fn many_types_made_types_and_long_chains_are_walked() {
    if !require_all(&NEEDED) {
        return;
    }
    let (types, chain) = if thorough() { (100_000, 10_000_000) } else { (3_000, 300_000) };
    for runtime in DOTNET_RUNTIMES {
        let arguments = [
            format!("types={types}"),
            format!("chain={chain}"),
            "emitted=42".into(),
            "collectible=50".into(),
            "collected=30".into(),
        ];
        let arguments = arguments.each_ref().map(String::as_str);
        let (mut target, graph) = odd(runtime, &arguments);
        assert_eq!(named(&graph, "Odd.Pair<"), (types as usize, types), "{runtime}");
        assert_eq!(named(&graph, "Odd.Node"), (1, chain), "{runtime}");
        assert_eq!(named(&graph, "Harm."), (42, 42), "{runtime}");
        // Those that can be unloaded; what `types` emitted for its arguments has no objects any more, nor has what was unloaded.
        assert_eq!(named(&graph, "Made.Type"), (50, 50), "{runtime}");
        // What can be unloaded holds its loader allocator.
        let collectible = graph.objects().find(|one| {
            graph.type_of(one.of).is_some_and(|of| of.name == "System.Reflection.LoaderAllocator")
                && is_live(&graph, one.index)
        });
        assert!(collectible.is_some(), "{runtime}");
        target.stop();
    }
}

/// References beyond a budget go to a file, and what is found is the same.
#[test]
fn references_beyond_the_budget_are_kept_on_disk() {
    if !require_all(&NEEDED) {
        return;
    }
    let command = dotnet_odd("net10.0", &["chain=300000", "types=500"]).expect("the targets are there");
    let target = TargetProcess::spawn(command);
    let (image, whole) = quiet(target.pid());
    let file = tempfile::tempfile().expect("a file without a name");
    let options = HeapOptions { threads: 0, spill: Some(Spill::beyond(64 << 10, file)) };
    let spilled = with_runtime(&image, |runtime| {
        let heap = Heap::open(runtime).expect("it is at rest");
        let (mut graph, mut problems) = heap.walk(&options).expect("it can be spilled");
        heap.find_live(&mut graph, &mut problems).expect("it can be read again");
        assert!(problems.is_none(), "{problems:?}");
        graph
    });
    let bytes = options.spill.as_ref().map_or(0, Spill::spilled_bytes);
    assert!(bytes > 1_000_000, "{bytes} bytes on disk");
    assert_eq!((spilled.edge_count(), spilled.totals()), (whole.edge_count(), whole.totals()));
    assert!(spilled.heap_bytes() + 1_000_000 < whole.heap_bytes());
}

/// A background collection makes free space of garbage while the program runs. Garbage that it has not come to yet names what it has
/// swept: the heap is whole all the same. `BIOPSY_THOROUGH=1`: on every version; it may need many freezes to meet a sweep.
#[test]
fn a_heap_that_is_being_swept_is_whole() {
    if !require_all(&NEEDED) {
        return;
    }
    for runtime in DOTNET_RUNTIMES.into_iter().filter(|one| thorough() || *one == "net9.0") {
        let command = dotnet_odd(runtime, &["swept=200000"]).expect("the targets are there");
        let target = TargetProcess::spawn(command);
        let survival = Survival::before(target.pid()).threads_may_change();
        let (mut stale, mut freezes) = (0, 0);
        while stale == 0 && freezes < 800 {
            freezes += 1;
            let image = frozen(target.pid());
            let Ok(opened) = opened(&image) else { continue };
            // Most moments are in the middle of the other collections.
            let Ok(heap) = Heap::open(&opened) else { continue };
            let (mut graph, mut problems) = heap.walk(&HeapOptions::default()).expect("it can be walked");
            heap.find_live(&mut graph, &mut problems).expect("nothing is spilled");
            // Where the sweep was at work that moment, a place may be between garbage and free space.
            if heap.is_being_swept() && problems.count == 0 {
                stale = problems.stale;
                assert!(problems.is_none(), "{runtime}: {problems:?}");
            }
        }
        survival.assert_unharmed();
        eprintln!("{runtime}: {stale} references of garbage to what was swept, at freeze {freezes}");
        assert!(stale > 0, "{runtime}");
    }
}
