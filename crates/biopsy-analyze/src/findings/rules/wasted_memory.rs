//! A large part of a heap would not be needed: equal strings, empty and oversized collections, sparse arrays.

use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Finding, FindingId, Severity, Value};
use crate::findings::incident::Incident;
use crate::heap::InspectionKind;
use crate::heap::inspections::{Inspection, Measure};
use crate::words::{bytes, number, percent};

/// The share of what is alive, and bytes, from which one way of waste is worth a change of the program.
const SHARE: f64 = 0.15;
const LEAST: u64 = 8 << 20;
/// Places that are listed.
const LISTED: usize = 4;

pub(super) fn find(incident: &Incident<'_>) -> Option<Finding> {
    // The last one shows what is there now.
    let held = incident.heaps.last()?.held.as_ref()?;
    let share = |of: u64| of as f64 / held.bytes.max(1) as f64;
    let is_waste = |one: &&Inspection| {
        // Holes are no object's: the collector may yet use them.
        one.kind.measure() == Measure::Wasted && one.kind != InspectionKind::FreeSpace
    };
    let most = held.inspections.iter().filter(is_waste).max_by_key(|one| one.bytes)?;
    if most.bytes < LEAST || share(most.bytes) < SHARE {
        return None;
    }
    let place = most.rows.first().map_or_else(String::new, |row| format!(", most in `{}`", row.what));
    let evidence = most.rows.iter().take(LISTED).map(|row| {
        let text =
            format!("{} in `{}` waste {}", number(row.objects as f64), row.what, bytes(row.bytes as f64));
        fact(text, Some(Value::Bytes(row.bytes as f64)))
    });
    Some(Finding {
        id: FindingId::WastedMemory,
        severity: Severity::Notice,
        impact: share(most.bytes).clamp(0.0, 1.0),
        title: format!(
            "{} of the heap, {}, is wasted: {} {}{place}",
            percent(share(most.bytes)),
            bytes(most.bytes as f64),
            number(most.objects as f64),
            most.kind.title(),
        ),
        explanation: "The program works without these bytes; it is no leak, and says nothing about growth. They were counted in what is \
                      reachable at one moment."
            .to_owned(),
        evidence: evidence.collect(),
        next_steps: match most.kind {
            InspectionKind::DuplicateStrings => steps(&[
                "where the field that is named is filled, look each text up in a table of those that are there already, or `string.Intern` those \
                 of a small set",
            ]),
            _ => steps(&[
                "make the collection that is named when the first thing is put into it, with the room it will need",
                "where it was larger once, `TrimExcess` gives the room back",
            ]),
        },
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::heap::inspections::InspectionRow;
    use crate::heap::{HeapSummary, Held};

    /// A heap with what one inspection found, of so many bytes alive.
    pub(in crate::findings::rules) fn heap(
        alive: u64,
        kind: InspectionKind,
        objects: u64,
        wasted: u64,
    ) -> HeapSummary {
        let rows = vec![InspectionRow { what: "App.Order.Country".to_owned(), objects, bytes: wasted }];
        let inspections = vec![Inspection { kind, objects, bytes: wasted, rows }];
        HeapSummary {
            held: Some(Held { bytes: alive, inspections, ..Held::default() }),
            ..HeapSummary::default()
        }
    }

    pub(in crate::findings::rules) fn incident(heaps: &[HeapSummary]) -> Incident<'_> {
        Incident { recorded: None, heaps, growth: None, footprints: &[] }
    }

    #[test]
    fn a_large_share_that_is_not_needed_is_told_with_its_place() {
        let heaps = [heap(100 << 20, InspectionKind::DuplicateStrings, 900_000, 40 << 20)];
        let found = find(&incident(&heaps)).expect("a finding");
        assert_eq!(found.severity, Severity::Notice);
        assert!(found.title.starts_with("40 % of the heap"), "{}", found.title);
        assert!(found.title.ends_with("most in `App.Order.Country`"), "{}", found.title);
    }

    #[test]
    fn little_waste_and_what_is_no_waste_are_silent() {
        for (alive, kind, wasted) in [
            (100 << 20, InspectionKind::DuplicateStrings, 14 << 20),
            (10 << 20, InspectionKind::DuplicateStrings, 7 << 20),
            (100 << 20, InspectionKind::FreeSpace, 40 << 20),
            (100 << 20, InspectionKind::WaitingMethods, 40 << 20),
        ] {
            assert!(find(&incident(&[heap(alive, kind, 900_000, wasted)])).is_none(), "{kind:?} {wasted}");
        }
    }
}
