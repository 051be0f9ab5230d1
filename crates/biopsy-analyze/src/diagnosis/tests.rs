//! Evidence of several kinds put together.

use super::*;
use crate::dump::Identity;
use crate::{FindingId, Severity};
use biopsy_model::footprint::Footprint;
use biopsy_model::heap::HeapFacts;
use biopsy_model::{Nanos, Pid};

fn recorded(name: &str) -> Recorded {
    let mut capture = Capture::default();
    capture.header.target_name = name.to_owned();
    Recorded::new(capture)
}

fn finding(severity: Severity, impact: f64, title: &str) -> Finding {
    Finding {
        id: FindingId::ALL[0],
        severity,
        impact,
        title: title.to_owned(),
        explanation: String::new(),
        evidence: Vec::new(),
        next_steps: Vec::new(),
    }
}

fn dump(name: &str, pid: u32, at: i64, findings: Vec<Finding>) -> DumpAnalysis {
    let identity = Identity {
        name: name.to_owned(),
        pid: Pid(pid),
        taken_at_unix_nanos: Some(at),
        address_space: Some(1),
        ..Identity::default()
    };
    DumpAnalysis { identity, findings, ..DumpAnalysis::default() }
}

fn heap(name: &str, at: f64) -> HeapSummary {
    let facts = HeapFacts { taken_at_unix_seconds: at, whole: true, ..HeapFacts::default() };
    HeapSummary { name: name.to_owned(), facts, ..HeapSummary::default() }
}

fn footprint(name: &str, at: f64) -> FootprintSummary {
    let facts = Footprint { taken_at_unix_seconds: at, ..Footprint::default() };
    FootprintSummary { name: name.to_owned(), facts }
}

#[test]
fn of_several_files_at_most_one_is_a_recording_over_time() {
    let of = |recorded: Option<Recorded>| Diagnosis::new(recorded, vec![], vec![]);
    assert_eq!(
        Diagnosis::of_several(vec![of(Some(recorded("a"))), of(Some(recorded("a")))]).err(),
        Some(SeveralRecordings)
    );
    assert!(SeveralRecordings.to_string().contains("recordings over time"));
    let one = Diagnosis::of_several(vec![of(None), of(Some(recorded("a"))), of(None)]).expect("one of them");
    assert_eq!(one.name(), "a");
    let nothing = Diagnosis::of_several(vec![]).expect("none");
    assert_eq!((nothing.name(), nothing.findings().len(), nothing.is_damaged()), ("", 0, false));
}

#[test]
fn moments_are_in_the_order_they_were_taken_whatever_the_files() {
    let file = |heaps: Vec<HeapSummary>, footprints, undetermined: &str| {
        let diagnosis = Diagnosis::new(None, vec![], heaps).with_footprints(footprints);
        Diagnosis { undetermined: vec![undetermined.to_owned()], ..diagnosis }
    };
    let all = Diagnosis::of_several(vec![
        file(vec![heap("c", 30.0), heap("a", 10.0)], vec![footprint("z", 9.0)], "of the first"),
        file(vec![heap("b", 20.0)], vec![footprint("x", 7.0), footprint("y", 8.0)], "of the second"),
    ])
    .expect("no recording");
    let names: Vec<_> = all.heaps.iter().map(|heap| heap.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let names: Vec<_> = all.footprints.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["x", "y", "z"]);
    assert_eq!(all.undetermined, ["of the first", "of the second"]);
    let times = all
        .growth
        .as_ref()
        .map(|growth| growth.moments.iter().map(|one| one.taken_at_unix_seconds).collect::<Vec<_>>());
    assert_eq!(times, Some(vec![10.0, 20.0, 30.0]), "what grew is of the times, not of the files");
    assert!(Diagnosis::new(None, vec![], vec![heap("a", 1.0)]).growth.is_none());
}

#[test]
fn dumps_of_one_process_are_looks_at_it() {
    let all = Diagnosis::of_several(vec![
        Diagnosis::new(None, vec![dump("shop", 7, 20, vec![])], vec![]),
        Diagnosis::new(None, vec![dump("shop", 7, 10, vec![]), dump("bank", 8, 15, vec![])], vec![]),
    ])
    .expect("no recording");
    let told: Vec<_> = all
        .dumps
        .iter()
        .map(|dump| (dump.identity.name.as_str(), dump.looks.as_ref().and_then(|looks| looks.span)))
        .collect();
    assert_eq!(told, [("shop", Some(Nanos(10))), ("bank", None)]);
    assert!(!all.dumps[0].findings.is_empty(), "the last word is said anew");
    assert_eq!(Diagnosis::of_looks(vec![dump("a", 7, 1, vec![]), dump("a", 7, 2, vec![])]).dumps.len(), 1);
}

#[test]
fn findings_of_all_evidence_are_one_list_by_importance() {
    let mut over_time = recorded("shop");
    over_time.analysis.findings =
        vec![finding(Severity::Warning, 0.5, "recorded"), finding(Severity::Info, 0.9, "recorded, too")];
    let dumps = vec![
        dump("shop", 7, 1, vec![finding(Severity::Warning, 0.6, "first dump")]),
        dump(
            "bank",
            8,
            1,
            vec![finding(Severity::Critical, 0.0, "second dump"), finding(Severity::Warning, 0.5, "as bad")],
        ),
    ];
    let diagnosis = Diagnosis::new(Some(over_time), dumps, vec![]);
    let told: Vec<_> =
        diagnosis.findings().into_iter().map(|(source, finding)| (source, finding.title.as_str())).collect();
    assert_eq!(
        told,
        [
            (Source::Dump(1), "second dump"),
            (Source::Dump(0), "first dump"),
            // Of two that are as bad the one over time.
            (Source::Recorded, "recorded"),
            (Source::Dump(1), "as bad"),
            (Source::Recorded, "recorded, too"),
        ]
    );
}

#[test]
fn the_name_is_the_first_that_any_evidence_has() {
    let diagnosis = |time: Option<&str>, dumps: &[&str], heaps: &[&str], footprints: &[&str]| {
        let dumps = (1..).zip(dumps).map(|(pid, name)| dump(name, pid, 1, vec![])).collect();
        let heaps = heaps.iter().map(|name| heap(name, 1.0)).collect();
        let footprints = footprints.iter().map(|name| footprint(name, 1.0)).collect();
        Diagnosis::new(time.map(recorded), dumps, heaps).with_footprints(footprints)
    };
    for (found, name) in [
        (diagnosis(Some("time"), &["dump"], &["heap"], &["memory"]), "time"),
        (diagnosis(Some(""), &["", "dump"], &["heap"], &[]), "dump"),
        (diagnosis(None, &[], &["", "heap"], &["memory"]), "heap"),
        (diagnosis(None, &[], &[], &["memory"]), "memory"),
        (diagnosis(None, &[], &[], &[]), ""),
    ] {
        assert_eq!(found.name(), name);
    }
}

#[test]
fn what_is_damaged_is_a_dump_or_a_heap() {
    let mut broken = dump("shop", 7, 1, vec![]);
    broken.damaged = true;
    let mut half = heap("shop", 1.0);
    half.facts.whole = false;
    let sound = || (dump("shop", 7, 1, vec![]), heap("shop", 1.0));
    for (dump, heap, is) in
        [(sound().0, sound().1, false), (broken, sound().1, true), (sound().0, half, true)]
    {
        assert_eq!(Diagnosis::new(None, vec![dump], vec![heap]).is_damaged(), is);
    }
}
