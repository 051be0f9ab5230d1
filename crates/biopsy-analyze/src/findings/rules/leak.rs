//! Snapshots of one process in which the same holder keeps more and more objects.

use crate::findings::allocated;
use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Finding, FindingId, Severity, Value};
use crate::findings::incident::Incident;
use crate::findings::native_leak;
use crate::heap::growth::{Growth, HolderGrowth, grown};
use crate::heap::text_of;
use crate::words::{bytes, number, percent};
use biopsy_model::heap::HeapSource;

/// Fewer snapshots cannot tell what grows from what grew once.
const SNAPSHOTS: usize = 3;
/// What grew must be worth something: bytes, and a share of what is alive.
const LEAST_BYTES: i128 = 1 << 20;
const LEAST_SHARE: f64 = 0.03;
/// Other places that are listed as evidence.
const LISTED: usize = 3;

pub(super) fn find(incident: &Incident<'_>) -> Option<Finding> {
    let growth =
        incident.growth.filter(|growth| growth.is_one_process && growth.moments.len() >= SNAPSHOTS)?;
    let is_native = incident.heaps.last().is_some_and(|heap| heap.facts.source == HeapSource::Blocks);
    let alive = growth.moments.last()?.bytes.max(1);
    let is_leak = |one: &&HolderGrowth| {
        let more = grown(&one.retained);
        one.always && more >= LEAST_BYTES && more as f64 >= alive as f64 * LEAST_SHARE
    };
    let mut all = growth.holders.iter().filter(is_leak);
    let first = all.next()?;
    let more = grown(&first.retained) as f64;
    // What is kept and let go again and again is more at three moments by chance, once in six times.
    if is_native && !native_leak::memory_grows(incident, more) {
        return None;
    }
    let held = held_by(first);
    let evidence = std::iter::once(first)
        .chain(all)
        .take(LISTED)
        .map(|one| fact(sentence(growth, one), Some(Value::Bytes(grown(&one.retained) as f64))));
    let mut evidence: Vec<_> = evidence.collect();
    let types: Vec<&str> = first.keeps.as_deref().into_iter().chain([first.held.of.as_str()]).collect();
    let allocated = if is_native {
        native_leak::allocated(incident)
    } else {
        allocated::of_types(incident, &types, grown_with(growth, first))
    };
    let by = allocated.as_ref().map_or(String::new(), |by| format!(", {}", by.words));
    let is_lost = first.way.is_empty() && first.held.via == LOST;
    let mut next_steps = if is_lost {
        steps(&["look on which way out of the function that allocates them nobody gives them back"])
    } else {
        steps(&[
            "look who adds to the holder that is named, and who should remove from it",
            "is it a cache? Then look for its bound, and take another snapshot when that should be reached",
        ])
    };
    match allocated {
        Some(allocated) => evidence.insert(1, allocated.evidence),
        None => next_steps.push(
            "who allocates them: `biopsy capture PROCESS --snapshots 3 --allocations --for 5m` records that beside snapshots"
                .to_owned(),
        ),
    }
    Some(Finding {
        id: FindingId::Leak,
        severity: Severity::Warning,
        impact: (more / alive as f64).clamp(0.0, 1.0),
        title: format!("Ever more {} are {held}: {} more{by}", what(first), bytes(more)),
        explanation: explanation(growth.moments.len(), is_native, is_lost),
        evidence,
        next_steps,
    })
}

/// The type that grew most, where that is at least half of what the holder keeps more of: what is held is often small, and keeps what is large.
fn grown_with<'a>(growth: &'a Growth, one: &HolderGrowth) -> Option<&'a str> {
    let most = growth.types.iter().max_by_key(|of| grown(&of.bytes))?;
    (grown(&most.bytes) * 2 >= grown(&one.retained)).then_some(most.name.as_str())
}

/// What is held, and what hangs on it.
fn what(one: &HolderGrowth) -> String {
    match &one.keeps {
        None => format!("`{}`", one.held.of),
        Some(own) => format!("`{own}` by `{}`", one.held.of),
    }
}

/// What blocks that nothing leads to hang on.
const LOST: &str = "lost";
/// Roots with names of their own begin with these.
const NAMED: &[&str] = &["static ", "global ", "thread static ", "variable "];

fn is_named(via: &str) -> bool {
    NAMED.iter().any(|prefix| via.starts_with(prefix))
}

fn explanation(moments: usize, is_native: bool, is_lost: bool) -> String {
    if is_lost {
        return format!(
            "In each of {moments} snapshots there are more blocks in use than in the one before to which no word leads in all memory \
             that was looked through: who had them let go of them without giving them back. A program that hides its pointers (mixes them with \
             other bits) looks the same."
        );
    }
    let first = format!(
        "In each of {moments} snapshots the same holder keeps more objects than in the one before, and not more slowly towards the end."
    );
    let why = if is_native {
        "Something leads to them, so nobody has lost them. What holds them is told by words that look like addresses."
    } else {
        "They were reachable each time, so no collection can free them."
    };
    format!("{first} {why} A cache that is still far from its bound looks the same.")
}

/// How what leaks is kept, for a sentence.
fn held_by(one: &HolderGrowth) -> String {
    match one.way.first() {
        None if one.held.via == LOST => "lost, nothing points to them".to_owned(),
        Some(first) if first.via == LOST => {
            format!("lost with the `{}` that keep them, nothing points to those", first.of)
        }
        _ => format!("held by {}", holder(one)),
    }
}

/// What holds, in short: the root that is named, or the type.
fn holder(one: &HolderGrowth) -> String {
    // One of several ways is not the holder. But what they lead to together is: it alone holds what became more.
    if !one.one_way.is_empty() {
        let by = one.one_way.first().filter(|root| is_named(&root.via));
        let Some(shared) = one.way.first() else {
            let by = by.map_or(String::new(), |root| format!(", one of them `{}`", root.via));
            return format!("more than one holder{by}");
        };
        let by = by.map_or(String::new(), |root| format!(", `{}`", root.via));
        return format!("`{}` (itself held by more than one{by})", shared.of);
    }
    match one.way.as_slice() {
        [] => format!("`{}`", one.held.via),
        [first, ..] if is_named(&first.via) => format!("`{}`", first.via),
        [.., last] => format!("`{}`", last.of),
    }
}

fn sentence(growth: &Growth, one: &HolderGrowth) -> String {
    let row =
        |values: &[u64]| values.iter().map(|value| number(*value as f64)).collect::<Vec<_>>().join(", ");
    let mut way = if one.way.is_empty() { one.held.via.clone() } else { text_of(&one.way) };
    if !one.one_way.is_empty() {
        way = format!("{way}` (one way there: `{}`)", text_of(&one.one_way));
        way.insert(0, '`');
    } else {
        way = format!("`{way}`");
    }
    format!(
        "{way} holds {} objects of {}; they keep {} alive, {} of the growth of what is alive",
        row(&one.objects),
        what(one),
        bytes(one.retained.last().copied().unwrap_or(0) as f64),
        percent((grown(&one.retained) as f64 / growth.grown().max(1) as f64).clamp(0.0, 1.0)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Step;
    use crate::heap::growth::Moment;

    fn growth(retained: &[u64], always: bool) -> Growth {
        let step = |via: &str, of: &str| Step { via: via.to_owned(), of: of.to_owned(), times: 1 };
        Growth {
            moments: retained.iter().map(|bytes| Moment { bytes: *bytes * 2, ..Moment::default() }).collect(),
            is_one_process: true,
            types: Vec::new(),
            holders: vec![HolderGrowth {
                way: vec![step("static App.Trail.All", "List<App.Entry>"), step("_items", "App.Entry[]")],
                held: step("[]", "App.Entry"),
                one_way: Vec::new(),
                keeps: None,
                objects: retained.iter().map(|bytes| bytes / 1000).collect(),
                retained: retained.to_vec(),
                always,
            }],
        }
    }

    fn found(growth: &Growth) -> Option<Finding> {
        find(&Incident { recorded: None, heaps: &[], growth: Some(growth), footprints: &[] })
    }

    #[test]
    fn what_grew_every_time_is_a_leak_with_holder_and_type() {
        let finding = found(&growth(&[5_000_000, 10_000_000, 15_000_000], true)).expect("a finding");
        assert!(
            finding.title.starts_with("Ever more `App.Entry` are held by `static App.Trail.All`: "),
            "{}",
            finding.title
        );
        assert!(
            finding.evidence[0].text.contains("5,000, 10,000, 15,000 objects"),
            "{}",
            finding.evidence[0].text
        );
    }

    #[test]
    fn what_several_hold_together_is_the_holder_of_what_it_keeps() {
        let mut growth = growth(&[5_000_000, 10_000_000, 15_000_000], true);
        let step = |via: &str, of: &str| Step { via: via.to_owned(), of: of.to_owned(), times: 1 };
        let one = &mut growth.holders[0];
        one.way = vec![step("several holders", "App.Queue"), step("_items", "App.Entry[]")];
        one.one_way = vec![step("static App.Queues.All", "App.Queue[]"), step("[]", "App.Queue")];
        let expected =
            "are held by `App.Queue` (itself held by more than one, `static App.Queues.All`): 10 MB more";
        let title = found(&growth).expect("a finding").title;
        assert!(title.ends_with(expected), "{title}");
        // Held by several directly: which one is to blame nobody knows, but one is known.
        growth.holders[0].way = Vec::new();
        let title = found(&growth).expect("a finding").title;
        let expected = "are held by more than one holder, one of them `static App.Queues.All`: ";
        assert!(title.contains(expected), "{title}");
        growth.holders[0].one_way[0].via = "stack".to_owned();
        let title = found(&growth).expect("a finding").title;
        assert!(title.contains("are held by more than one holder: "), "{title}");
    }

    /// Of native blocks that grow under this root, with this much memory of the process at the first and at the last snapshot.
    fn native(via: &str, own_memory: [u64; 2]) -> Option<Finding> {
        use crate::footprint::FootprintSummary;
        use crate::heap::HeapSummary;
        use biopsy_model::footprint::{Footprint, KernelSums};
        use biopsy_model::heap::HeapFacts;
        let mut growth = growth(&[5_000_000, 10_000_000, 15_000_000], true);
        let one = &mut growth.holders[0];
        let step = |via: &str, of: &str| Step { via: via.to_owned(), of: of.to_owned(), times: 1 };
        (one.way, one.held) = (Vec::new(), step(via, "block of 48 bytes"));
        one.keeps = Some("Session".to_owned());
        let heap = HeapSummary {
            facts: HeapFacts { source: HeapSource::Blocks, ..HeapFacts::default() },
            ..HeapSummary::default()
        };
        let footprint = |anonymous| FootprintSummary {
            facts: Footprint {
                kernel: Some(KernelSums { anonymous, ..KernelSums::default() }),
                ..Footprint::default()
            },
            ..FootprintSummary::default()
        };
        let footprints = own_memory.map(footprint);
        find(&Incident {
            recorded: None,
            heaps: std::slice::from_ref(&heap),
            growth: Some(&growth),
            footprints: &footprints,
        })
    }

    #[test]
    fn native_blocks_are_named_by_what_they_keep_and_by_the_variable() {
        let title = native("global sessions", [0, 10_000_000]).expect("a finding").title;
        assert_eq!(
            title,
            "Ever more `Session` by `block of 48 bytes` are held by `global sessions`: 10 MB more"
        );
        let lost = native("lost", [0, 10_000_000]).expect("a finding");
        assert!(lost.title.contains("are lost, nothing points to them: 10 MB more"), "{}", lost.title);
        assert!(lost.explanation.contains("to which no word leads"), "{}", lost.explanation);
    }

    #[test]
    fn what_is_filled_and_emptied_again_in_a_process_that_does_not_grow_is_no_leak() {
        assert!(native("global sessions", [50_000_000, 52_999_999]).is_none());
        assert!(native("global sessions", [50_000_000, 53_000_000]).is_some());
    }

    #[test]
    fn two_snapshots_a_cache_that_is_full_and_small_change_are_none() {
        assert!(found(&growth(&[5_000_000, 15_000_000], true)).is_none(), "once");
        assert!(found(&growth(&[5_000_000, 10_000_000, 15_000_000], false)).is_none(), "not always");
        assert!(found(&growth(&[5_000_000, 5_100_000, 5_200_000], true)).is_none(), "little");
        let other = Growth { is_one_process: false, ..growth(&[5_000_000, 10_000_000, 15_000_000], true) };
        assert!(found(&other).is_none(), "different processes");
    }
}
