//! Heaps of living programs, walked in a frozen copy of their memory and compared with what the runtime's own reader says of the
//! same moment, and with what the programs say of themselves.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]
#![expect(clippy::print_stderr, reason = "what was compared and skipped belongs on the terminal")]

mod clrmd;
mod damaged;
mod mutate;
mod odd;
mod others;
mod truth;

use std::time::Duration;

use biopsy_dotnet::graph::Graph;
use biopsy_dotnet::heap::{Heap, HeapError, HeapOptions, Problems};
use biopsy_dotnet::runtime::{Options, Runtime, RuntimeError, find_runtimes};
use biopsy_model::Pid;
use biopsy_target::ProcRoot;
use biopsy_target::freeze::{FreezeOptions, FrozenProcess, freeze, plan};
use biopsy_target::identity::key_of;
use biopsy_testkit::Privilege;

const NEEDED: [Privilege; 2] = [Privilege::DotNetTargets, Privilege::Ptrace];

/// `BIOPSY_THOROUGH=1`: every combination and the full number of freezes, by hand (minutes); else a choice.
fn thorough() -> bool {
    std::env::var_os("BIOPSY_THOROUGH").is_some_and(|value| value == "1")
}

/// Generous: what is tested is what is read, not how fast.
fn frozen(pid: u32) -> FrozenProcess {
    let options = FreezeOptions { max_pause: Duration::from_secs(5), ..FreezeOptions::default() };
    let key = key_of(&ProcRoot::live(), Pid(pid)).expect("it runs");
    let plan = plan(&[key], &options).expect("it runs");
    freeze(plan, &options).unwrap_or_else(|error| panic!("{error}")).pop().expect("one process")
}

/// The runtime of a frozen copy; an error that is of the moment, or none.
fn opened(image: &FrozenProcess) -> Result<Runtime<'_>, RuntimeError> {
    let found = find_runtimes(image);
    let first = found.first().expect("a runtime");
    match Runtime::open(Box::new(image), first, &Options::default()) {
        Err(error) if !error.is_of_the_moment() => panic!("{error}: {error:?}"),
        opened => opened,
    }
}

/// Hands over the runtime of a frozen copy of a process whose threads are at rest.
fn with_runtime<T>(image: &FrozenProcess, use_it: impl FnOnce(&Runtime<'_>) -> T) -> T {
    use_it(&opened(image).unwrap_or_else(|error| panic!("{error}: {error:?}")))
}

/// A whole heap with what is live; `None`: a collection was under way, or an object was being made.
fn walked(image: &FrozenProcess) -> Option<Graph> {
    walked_in(&opened(image).ok()?).ok()
}

/// A whole heap with what is live, or why there is none at that moment.
fn walked_in(runtime: &Runtime<'_>) -> Result<Graph, &'static str> {
    let heap = match Heap::open(runtime) {
        Ok(heap) => heap,
        Err(HeapError::Collecting) => return Err("in the middle of a collection"),
        Err(error) => panic!("{error}"),
    };
    let (mut graph, mut problems) = heap.walk(&HeapOptions::default()).expect("it can be walked");
    let missing = heap.find_live(&mut graph, &mut problems).expect("nothing is spilled");
    if problems != Problems::default() {
        eprintln!("{problems:?}, being swept: {}", heap.is_being_swept());
    }
    assert_eq!(missing.missing, [""; 0]);
    match (problems.is_none(), heap.is_being_swept()) {
        (true, _) => Ok(graph),
        (false, true) => Err("in the middle of a background collection"),
        // A thread had taken room and not yet said what lies there: another moment.
        (false, false) => Err("in the middle of making an object"),
    }
}

fn quiet(pid: u32) -> (FrozenProcess, Graph) {
    for _ in 0..50 {
        let image = frozen(pid);
        if let Some(graph) = walked(&image) {
            return (image, graph);
        }
    }
    panic!("it always collects");
}

fn is_live(graph: &Graph, index: biopsy_dotnet::graph::ObjectIndex) -> bool {
    graph.live().is_some_and(|live| live.contains(index.0 as usize))
}
