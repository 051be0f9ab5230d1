//! Both sides of each threshold, and heaps and pauses that look alike.

use super::*;
use crate::analysis::Analysis;
use crate::heap::{Held, Step};
use crate::runtimes::{AllocationRow, CollectionSummary, GenerationRow, RuntimePlace};
use biopsy_model::capture::Capture;
use biopsy_model::heap::HeapFacts;
use biopsy_model::{Nanos, Pid};

/// What differs between the cases; as it stands it is the sick one.
#[derive(Clone, Copy)]
struct Case {
    pid: u32,
    /// Full collections: how many, milliseconds of all their pauses, of the longest.
    full: (u64, u64, u64),
    /// Milliseconds of the pauses of young ones.
    young: u64,
    induced: u64,
    objects: u64,
    /// Percent of what is alive.
    retained: u64,
    /// Objects of it.
    kept: u64,
    /// There are many of one type.
    piles_up: bool,
}

const SICK: Case = Case {
    pid: 7,
    full: (12, 1_500, 200),
    young: 100,
    induced: 0,
    objects: 4_000_000,
    retained: 80,
    kept: 3_000_000,
    piles_up: true,
};

fn step(via: &str, of: &str) -> Step {
    Step { via: via.to_owned(), of: of.to_owned(), times: 1 }
}

fn suspect(case: Case) -> Suspect {
    Suspect {
        way: vec![step("static App.Cache.All", "Dictionary<String, Entry>"), step("_entries", "Entry[]")],
        holders: 1,
        retained: case.retained * 1_000_000,
        objects: case.kept,
        held: case.piles_up.then(|| HeldType { step: step("[]", "App.Entry"), objects: 15_000, retained: 1 }),
        ..Suspect::default()
    }
}

fn heap(case: Case) -> HeapSummary {
    let facts = HeapFacts {
        pid: Pid(case.pid),
        live_objects: Some(case.objects),
        live_bytes: Some(100_000_000),
        ..HeapFacts::default()
    };
    let held = Held { bytes: 100_000_000, suspects: vec![suspect(case)], ..Held::default() };
    HeapSummary { facts, held: Some(held), ..HeapSummary::default() }
}

/// Ten seconds of a process with number 7.
fn analysis(case: Case) -> Analysis {
    let milliseconds = |ms: u64| Nanos(ms * 1_000_000);
    let (count, paused, longest) = case.full;
    let full = GenerationRow {
        generation: 2,
        count,
        paused: milliseconds(paused),
        longest: milliseconds(longest),
        ..GenerationRow::default()
    };
    let young = GenerationRow { count: 500, paused: milliseconds(case.young), ..GenerationRow::default() };
    let collections = CollectionSummary {
        generations: vec![young, full],
        paused: milliseconds(paused + case.young),
        induced: case.induced,
        ..CollectionSummary::default()
    };
    let allocations = vec![AllocationRow {
        type_name: "App.Entry".to_owned(),
        place: RuntimePlace { function: "App.Cache.Remember".to_owned(), ..RuntimePlace::default() },
        bytes: 1_000,
        ..AllocationRow::default()
    }];
    let summary =
        RuntimeSummary { pid: Pid(7), seconds: 10.0, collections, allocations, ..RuntimeSummary::default() };
    Analysis { runtimes: vec![summary], ..Analysis::default() }
}

fn of(case: Case) -> Option<Finding> {
    let (analysis, heaps) = (analysis(case), [heap(case)]);
    let recorded = Some((&Capture::default(), &analysis));
    find(&Incident { recorded, heaps: &heaps, growth: None, footprints: &[] })
}

#[test]
fn it_names_the_holder_the_type_and_who_allocates_it() {
    let finding = of(SICK).expect("a finding");
    assert_eq!(
        finding.title,
        "Full collections stop all threads 15 % of the time, and 75 % of the objects that they go through each time are \
         kept by `static App.Cache.All` (15,000 `App.Entry`), allocated in `App.Cache.Remember`"
    );
    assert_eq!(finding.severity, Severity::Warning);
    assert!((finding.impact - 0.15).abs() < 1e-9);
    assert_eq!(finding.evidence.len(), 4);
}

#[test]
fn both_sides_of_each_threshold() {
    use Severity::{Critical, Notice, Warning};
    for (case, expected, what) in [
        (Case { full: (12, 2_500, 200), ..SICK }, Some(Critical), "a quarter of the time"),
        (Case { full: (12, 2_490, 200), ..SICK }, Some(Warning), "less than that"),
        (Case { full: (12, 1_000, 200), ..SICK }, Some(Warning), "a tenth"),
        (Case { full: (12, 990, 200), ..SICK }, Some(Notice), "less than a tenth"),
        (Case { full: (12, 500, 200), ..SICK }, Some(Notice), "a twentieth"),
        (Case { full: (12, 490, 200), ..SICK }, None, "less than a twentieth"),
        (Case { full: (3, 490, 500), young: 0, ..SICK }, Some(Notice), "a long one"),
        (Case { full: (3, 490, 499), young: 0, ..SICK }, None, "not so long a one"),
        (Case { full: (3, 1_490, 1_000), ..SICK }, Some(Warning), "a second"),
        (Case { full: (3, 1_500, 200), ..SICK }, Some(Warning), "three collections"),
        (Case { full: (2, 1_500, 200), ..SICK }, None, "two are a start"),
        (Case { young: 1_500, ..SICK }, Some(Warning), "as much by young ones"),
        (Case { young: 1_501, ..SICK }, None, "more by young ones"),
        (Case { induced: 6, ..SICK }, Some(Warning), "half of them asked for"),
        (Case { induced: 7, ..SICK }, None, "most of them asked for"),
        (Case { objects: 500_000, kept: 400_000, ..SICK }, Some(Warning), "many objects"),
        (Case { objects: 499_999, kept: 400_000, ..SICK }, None, "fewer"),
        (Case { retained: 25, ..SICK }, Some(Warning), "a quarter of the heap"),
        (Case { retained: 24, ..SICK }, None, "less of the heap"),
        (Case { kept: 1_000_000, ..SICK }, Some(Warning), "a quarter of the objects"),
        (Case { kept: 999_999, ..SICK }, None, "fewer of the objects"),
        (Case { kept: 40, ..SICK }, None, "a few large arrays, which nobody goes through"),
        (Case { piles_up: false, ..SICK }, None, "nothing piles up"),
        (Case { pid: 8, ..SICK }, None, "the heap of another process"),
    ] {
        assert_eq!(of(case).map(|finding| finding.severity), expected, "{what}");
    }
}

#[test]
fn without_one_of_both_there_is_nothing_to_say() {
    let (analysis, heaps) = (analysis(SICK), [heap(SICK)]);
    let capture = Capture::default();
    let all =
        Incident { recorded: Some((&capture, &analysis)), heaps: &heaps, growth: None, footprints: &[] };
    assert!(find(&all).is_some());
    assert!(find(&Incident { heaps: &[], ..all }).is_none());
    assert!(find(&Incident { recorded: None, ..all }).is_none());
    let silent = Analysis::default();
    assert!(find(&Incident { recorded: Some((&capture, &silent)), ..all }).is_none(), "no runtime was heard");
}

#[test]
fn a_pile_that_several_hold_is_named_by_what_they_share() {
    let mut one = suspect(SICK);
    assert_eq!(holder(&one), "`static App.Cache.All`");
    one.one_way = vec![step("static App.Other.All", "Other")];
    assert_eq!(holder(&one), "`Dictionary<String, Entry>`");
    one.one_way.clear();
    one.way.remove(0);
    assert_eq!(holder(&one), "`Entry[]`");
    one.way.clear();
    assert_eq!(holder(&one), "one root");
}
