//! Who allocates objects of a type, where allocations were recorded beside the heap.

use crate::findings::dotnet::{code, in_table};
use crate::findings::finding::{Evidence, Value};
use crate::findings::incident::Incident;
use crate::runtimes::{RuntimePlace, RuntimeSummary};
use crate::whose::dotnet;
use crate::words::{bytes, percent};
use rustc_hash::FxHashMap;

/// The share of a type's bytes from which one place is worth naming; of a type that is only likely to be the one that is meant, more.
const ONE_PLACE: f64 = 0.2;
const MOST: f64 = 0.5;

/// Where most bytes of a type are allocated.
pub(super) struct Allocated {
    /// `allocated in` the function, shortened, in backticks; with the type, where that is not what is held.
    pub(in crate::findings) words: String,
    pub(in crate::findings) evidence: Evidence,
}

/// Where the first of these types that was seen to be allocated is allocated most, or else `likely`, which grew with them. `None`: nobody
/// recorded it, or there is no one place.
pub(super) fn of_types(incident: &Incident<'_>, types: &[&str], likely: Option<&str>) -> Option<Allocated> {
    let (_, analysis) = incident.recorded?;
    let pid = incident.heaps.last()?.facts.pid;
    let summary = analysis.runtimes.iter().find(|summary| summary.pid == pid)?;
    let found = types.iter().find_map(|of| of_type(summary, of, ONE_PLACE));
    let other = || {
        let of = likely?;
        let found = of_type(summary, of, MOST)?;
        Some(Allocated { words: format!("{} {}", code(of), found.words), ..found })
    };
    found.or_else(other)
}

fn of_type(summary: &RuntimeSummary, of: &str, least: f64) -> Option<Allocated> {
    let mut all = 0_u64;
    let mut places: FxHashMap<&RuntimePlace, (u64, usize)> = FxHashMap::default();
    for (number, row) in summary.allocations.iter().enumerate().filter(|(_, row)| is_same(of, &row.type_name))
    {
        all = all.saturating_add(row.bytes);
        // An address names nobody.
        if !row.place.function.is_empty() && !dotnet::is_address(&row.place.function) {
            let (sum, _) = places.entry(&row.place).or_insert((0, number));
            *sum = sum.saturating_add(row.bytes);
        }
    }
    let (place, (most, number)) = places.into_iter().max_by(|a, b| a.1.0.cmp(&b.1.0).then(b.0.cmp(a.0)))?;
    let share = most as f64 / all.max(1) as f64;
    if share < least {
        return None;
    }
    let function = code(&place.function);
    let text = format!(
        "{} of the {} of {} that were allocated while it was recorded are allocated in {function}",
        percent(share),
        bytes(all as f64),
        code(of)
    );
    let evidence = in_table(summary, "allocations", number, text, Some(Value::Bytes(most as f64)));
    Some(Allocated { words: format!("allocated in {function}"), evidence })
}

/// Whether a type of the heap and one that the runtime told of are the same. They spell generic types and nested ones differently
/// (``List<App.Entry>``, ``List`1[App.Entry]``): these are told by what stands before their arguments, and by being arrays or not.
fn is_same(of_heap: &str, told: &str) -> bool {
    fn parts(name: &str) -> (String, usize) {
        let end = name.find(['<', '`', '[']).unwrap_or(name.len());
        let base = name.get(..end).unwrap_or(name).replace('+', ".");
        let mut dimensions = 0;
        let mut rest = name;
        while let Some(shorter) = rest.strip_suffix("[]") {
            (rest, dimensions) = (shorter, dimensions + 1);
        }
        (base, dimensions)
    }
    of_heap == told || parts(of_heap) == parts(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Analysis;
    use crate::heap::HeapSummary;
    use crate::runtimes::AllocationRow;
    use biopsy_model::Pid;
    use biopsy_model::capture::Capture;
    use biopsy_model::heap::HeapFacts;

    #[test]
    fn types_are_the_same_however_they_are_spelt() {
        for (of_heap, told, same) in [
            ("App.Entry", "App.Entry", true),
            ("App.Entry", "App.Entry2", false),
            ("App.Entry[]", "App.Entry", false),
            ("App.Entry[]", "App.Entry[]", true),
            (
                "System.Collections.Generic.List<App.Entry>",
                "System.Collections.Generic.List`1[App.Entry]",
                true,
            ),
            ("App.Outer+Inner", "App.Outer.Inner", true),
            ("App.Node<System.String>[]", "App.Node`1[System.String][]", true),
        ] {
            assert_eq!(is_same(of_heap, told), same, "{of_heap} and {told}");
        }
    }

    fn found(rows: &[(&str, &str, u64)], types: &[&str], pid: u32) -> Option<Allocated> {
        let row = |(of, function, bytes): &(&str, &str, u64)| AllocationRow {
            type_name: (*of).to_owned(),
            place: RuntimePlace { function: (*function).to_owned(), via: None, own: true },
            bytes: *bytes,
            ..AllocationRow::default()
        };
        let runtime = RuntimeSummary {
            pid: Pid(7),
            allocations: rows.iter().map(row).collect(),
            ..RuntimeSummary::default()
        };
        let analysis = Analysis { runtimes: vec![runtime], ..Analysis::default() };
        let heaps = [HeapSummary {
            facts: HeapFacts { pid: Pid(pid), ..HeapFacts::default() },
            ..HeapSummary::default()
        }];
        let capture = Capture::default();
        let recorded = Some((&capture, &analysis));
        of_types(
            &Incident { recorded, heaps: &heaps, growth: None, footprints: &[] },
            types,
            Some("App.Likely"),
        )
    }

    #[test]
    fn the_place_with_most_bytes_of_the_type_is_named() {
        let rows =
            [("App.Entry", "App.Trail.Add", 70), ("App.Entry", "App.Log.Write", 20), ("App.X", "App.Y", 900)];
        let entry = found(&rows, &["App.Gone", "App.Entry"], 7).expect("a place");
        assert_eq!(entry.words, "allocated in `App.Trail.Add`");
        let text = &entry.evidence.text;
        assert!(text.starts_with("77.8 %") || text.starts_with("78 %"), "{text}");
        assert!(text.contains("of `App.Entry`"), "{text}");
        assert!(found(&rows, &["App.Entry"], 8).is_none(), "another process");
        assert!(found(&rows, &["App.Z"], 7).is_none(), "not seen");
        assert!(
            found(&[("App.Entry", "0x7fe256d656fe", 70)], &["App.Entry"], 7).is_none(),
            "an address names nobody"
        );
        let spread: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(|place| ("App.Entry", place, 10)).to_vec();
        assert!(found(&spread, &["App.Entry"], 7).is_none(), "no place has much of it");
        let likely = found(&[("App.Likely", "App.Fill", 9)], &["App.Entry"], 7).expect("a place");
        assert_eq!(likely.words, "`App.Likely` allocated in `App.Fill`");
        let both =
            [("App.Likely", "App.Fill", 4), ("App.Likely", "App.Copy", 3), ("App.Likely", "App.Read", 3)];
        assert!(found(&both, &["App.Entry"], 7).is_none(), "a likely one is allocated at several places");
        assert!(found(&[("App.Entry", "", 10)], &["App.Entry"], 7).is_none(), "no stack");
    }
}
