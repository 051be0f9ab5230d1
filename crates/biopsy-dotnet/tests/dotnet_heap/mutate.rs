//! Freezes of a program that replaces its objects and collects without pause.

use std::collections::BTreeMap;

use biopsy_dotnet::graph::Graph;
use biopsy_dotnet::runtime::{FieldPlace, Runtime};
use biopsy_model::Avma;
use biopsy_testkit::{Survival, dotnet_target, require_all};

use super::{NEEDED, frozen, is_live, opened, thorough, walked_in};

const THREADS: u32 = 2;

/// Where a field is in objects of the type of this one.
fn place_of(runtime: &Runtime<'_>, object: Avma, name: &str) -> u64 {
    let of = runtime.type_of_object(object).expect("an object");
    let field =
        runtime.find_field(of.method_table, name).expect("fields").unwrap_or_else(|| panic!("no {name}"));
    let FieldPlace::Instance(offset) = field.place else { panic!("{name} is static") };
    8 + u64::from(offset)
}

/// Each shard's head is as far as its tail, or one ahead while it is being changed. Returns how many are.
fn shards_ahead(runtime: &Runtime<'_>, graph: &Graph) -> u32 {
    let is_shard = |of| graph.type_of(of).is_some_and(|of| of.name.ends_with(".Shard"));
    let shards: Vec<Avma> = graph
        .objects()
        .filter(|one| is_shard(one.of) && is_live(graph, one.index))
        .map(|one| one.address)
        .collect();
    assert!(shards.len() > 90, "{}", shards.len());
    let word = |of: Avma, place: u64| runtime.read_u64(Avma(of.0 + place)).expect("it is there");
    let ends = ["Head", "Tail"].map(|end| {
        let place = place_of(runtime, shards[0], end);
        (place, place_of(runtime, Avma(word(shards[0], place)), "Sequence"))
    });
    let mut ahead = 0;
    for shard in shards {
        let [head, tail] = ends.map(|(end, sequence)| word(Avma(word(shard, end)), sequence));
        assert!(head == tail || head == tail + 1, "{head} and {tail}");
        ahead += u32::from(head != tail);
    }
    ahead
}

/// What one frozen copy was: a consistent heap, or in the middle of something that it says.
fn look(pid: u32) -> &'static str {
    let image = frozen(pid);
    let Ok(runtime) = opened(&image) else { return "in the middle of a change of threads" };
    let graph = match walked_in(&runtime) {
        Ok(graph) => graph,
        Err(why) => return why,
    };
    let nameless = graph.types().iter().find(|of| of.is_nameless());
    assert_eq!(nameless, None);
    match shards_ahead(&runtime, &graph) {
        0 => "clean, no shard being changed",
        ahead => {
            assert!(ahead <= THREADS, "{ahead} shards are being changed by {THREADS} threads");
            "clean, a shard being changed"
        }
    }
}

/// How often each version is frozen: `BIOPSY_FREEZES`; with `BIOPSY_THOROUGH=1` 1,000 times.
fn freezes() -> u32 {
    let asked = std::env::var("BIOPSY_FREEZES").ok().and_then(|number| number.parse().ok());
    asked.unwrap_or(if thorough() { 1_000 } else { 8 })
}

/// While a program replaces its objects and collects all the time, each frozen copy is a consistent heap, or says that a
/// collection is under way.
fn freezes_are_consistent(runtime: &str) {
    if !require_all(&NEEDED) {
        return;
    }
    let threads = THREADS.to_string();
    let target = dotnet_target(runtime, "holder", &["--objects", "20000", "--mutate", "--threads", &threads]);
    let survival = Survival::before_when_settled(target.pid()).threads_may_change();
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    let is_clean = |kind: &str| kind.starts_with("clean");
    let (mut done, freezes) = (0, freezes());
    // One in the middle of a collection says nothing: on until there was one that is not.
    while done < freezes || (!seen.keys().any(|kind| is_clean(kind)) && done < 5 * freezes) {
        *seen.entry(look(target.pid())).or_default() += 1;
        done += 1;
    }
    survival.assert_unharmed();
    assert!(seen.keys().any(|kind| is_clean(kind)), "{runtime}: {seen:?}");
    eprintln!("{runtime}: {done} freezes: {seen:?}");
}

#[test]
fn freezes_of_a_program_that_collects_without_pause_are_consistent_on_8() {
    freezes_are_consistent("net8.0");
}

#[test]
fn freezes_of_a_program_that_collects_without_pause_are_consistent_on_9() {
    freezes_are_consistent("net9.0");
}

#[test]
fn freezes_of_a_program_that_collects_without_pause_are_consistent_on_10() {
    freezes_are_consistent("net10.0");
}
