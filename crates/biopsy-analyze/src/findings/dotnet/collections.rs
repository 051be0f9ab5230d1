//! Garbage collection: long or frequent pauses, pinned objects, collections that the program asks for.

use super::{heard, in_table, of_process, table, time};
use crate::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::findings::grade;
use crate::findings::scene::{Scene, at, fact, steps};
use crate::findings::words::{bytes, number, percent, seconds};
use crate::runtimes::RuntimeSummary;
use biopsy_model::runtime_trace::CollectionReason;

/// Collections a second below which pinning harms nobody.
const RATE: f64 = 0.5;
/// Pinned objects in the middle of all collections. A web server under load pins tens: its buffers live on a heap of their own.
const PINNED: u32 = 1_000;

/// Many objects are pinned while there is much garbage.
pub(super) fn pinned(scene: &Scene<'_>) -> Option<Finding> {
    let heard = heard(scene)
        .filter(|heard| heard.summary.collections.pinned >= Some(PINNED))
        .max_by_key(|heard| heard.summary.collections.pinned)?;
    let summary = heard.summary;
    let collections = &summary.collections;
    let pinned = collections.pinned?;
    let rate = summary.rate(collections.total);
    if rate < RATE || collections.total < 3 {
        return None;
    }
    let mut evidence = vec![
        at(
            table(summary, "collections", None),
            format!(
                "{} pinned objects were met by a collection (the middle of all)",
                number(f64::from(pinned))
            ),
            Some(Value::Count(f64::from(pinned))),
        ),
        pace(summary),
    ];
    let allocated = super::allocation::top_or_thread(scene, &heard);
    evidence.extend(allocated.iter().map(|top| top.evidence.clone()));
    let place = allocated
        .filter(|top| top.own)
        .map_or(String::new(), |top| format!("; most garbage is made{}", top.place));
    Some(Finding {
        id: FindingId::GcPinned,
        severity: if pinned >= 2 * PINNED && rate >= 1.0 { Severity::Critical } else { Severity::Warning },
        impact: collections.pause_share.max(0.3),
        title: format!(
            "{} pinned objects keep garbage collection from compacting the heap{place}{}",
            number(f64::from(pinned)),
            of_process(scene, summary)
        ),
        explanation: "Pinned objects may not be moved, so the young generation is full of holes around them: collections come more \
                      often and take longer, and memory grows. Most likely small buffers are pinned one by one (`GCHandle.Alloc` \
                      with `Pinned`, `fixed`, asynchronous input and output with own buffers) and kept for a while."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Allocate buffers that must be pinned with `GC.AllocateArray(pinned: true)` or from a pool, once",
            "See in the table of allocations who makes the garbage around them",
        ]),
    })
}

/// How often, and how long everything stood still.
pub(super) fn pace(summary: &RuntimeSummary) -> Evidence {
    let collections = &summary.collections;
    let young =
        collections.generations.iter().filter(|row| row.generation == 0).map(|row| row.count).sum::<u64>();
    at(
        table(summary, "collections", None),
        format!(
            "{} collections, {:.1} a second, {} of them of generation 0; everything stood still {} of the time{}",
            number(collections.total as f64),
            summary.rate(collections.total),
            number(young as f64),
            percent(collections.pause_share),
            collections
                .longest
                .map_or(String::new(), |(longest, _)| format!(", {} at most at once", time(longest)))
        ),
        Some(Value::Share(collections.pause_share)),
    )
}

/// From a tenth of the time on, pauses are what users notice; a server with tuned allocation stays below 2 %.
const SHARE: [f64; 3] = [0.25, 0.1, 0.05];
/// A request that falls into a pause of half a second is a slow one.
const LONGEST: f64 = 0.5;

/// Threads stand still for collections too long or too often.
pub(super) fn pauses(scene: &Scene<'_>) -> Option<Finding> {
    let heard = heard(scene)
        .max_by(|a, b| a.summary.collections.pause_share.total_cmp(&b.summary.collections.pause_share))?;
    let summary = heard.summary;
    let collections = &summary.collections;
    let (longest, when) = collections.longest?;
    let by_share = grade(collections.pause_share, SHARE[0], SHARE[1], SHARE[2]);
    let by_length = grade(longest.as_secs_f64(), f64::INFINITY, 2.0 * LONGEST, LONGEST);
    let severity = by_share.max(by_length)?;
    let mut evidence = vec![pace(summary)];
    evidence.push(at(
        Reference::Time { from: when, to: when + longest },
        format!("the longest pause was {}", time(longest)),
        Some(Value::Time(longest)),
    ));
    if let Some(row) = collections.generations.iter().max_by_key(|row| row.paused) {
        let background = if row.background { " in the background" } else { "" };
        evidence.push(at(
            table(summary, "collections", None),
            format!(
                "most of it by {} collections of generation {}{background}: {}",
                number(row.count as f64),
                row.generation,
                time(row.paused)
            ),
            Some(Value::Time(row.paused)),
        ));
    }
    if let Some((reason, count)) = collections.reasons.first() {
        evidence.push(fact(
            format!("reason: {reason}, {} times", number(*count as f64)),
            Some(Value::Count(*count as f64)),
        ));
    }
    if let Some([_, (_, last)]) = collections.heap {
        evidence.push(fact(
            format!("the heap has {} after the last one", bytes(last as f64)),
            Some(Value::Bytes(last as f64)),
        ));
    }
    evidence.extend(super::allocation::top(&heard).map(|top| top.evidence));
    Some(Finding {
        id: FindingId::GcPauses,
        severity,
        impact: collections.pause_share,
        title: if by_share >= by_length {
            format!(
                "Garbage collection stops all threads {} of the time{}",
                percent(collections.pause_share),
                of_process(scene, summary)
            )
        } else {
            format!("Garbage collection stopped all threads for {} at once{}", time(longest), of_process(scene, summary))
        },
        explanation: "While threads stand still no request is answered. Frequent pauses come from much allocation, long ones from \
                      much that survives (generation 2, large objects), from pinned objects, or from a machine too busy to run \
                      the collector's threads."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "See in the table of allocations what is allocated, and where",
            "Compare pauses and slow requests on the timeline",
            "`biopsy snapshot` shows what survives",
        ]),
    })
}

/// Collections that the program asks for from which on somebody should know why.
const INDUCED: u64 = 3;

/// The program calls `GC.Collect`.
pub(super) fn induced(scene: &Scene<'_>) -> Option<Finding> {
    let heard = heard(scene)
        .filter(|heard| heard.summary.collections.induced >= INDUCED)
        .max_by_key(|heard| heard.summary.collections.induced)?;
    let summary = heard.summary;
    let count = summary.collections.induced;
    let rate = summary.rate(count);
    let items = heard.trace.collections.items.iter().filter(|item| item.reason == CollectionReason::Induced);
    let full = items.clone().filter(|item| item.generation >= 2).count();
    let place = items
        .clone()
        .find_map(|item| item.stack)
        .map(|stack| crate::runtimes::place(heard.trace, Some(stack)))
        .filter(|place| place.own);
    let in_place = place.as_ref().map_or(String::new(), super::in_place);
    Some(Finding {
        id: FindingId::GcInduced,
        severity: if full as u64 >= INDUCED && rate >= 0.5 { Severity::Warning } else { Severity::Notice },
        impact: summary.collections.pause_share.max(0.05),
        title: format!(
            "The program asks for garbage collection itself: {} times, every {}{in_place}{}",
            number(count as f64),
            seconds(1.0 / rate.max(1e-9)),
            of_process(scene, summary)
        ),
        explanation: "A collection that is asked for is a full, blocking one unless it says otherwise, and it makes objects old that \
                      would have died young. The collector knows better when; exceptions are rare (after a large one-time load)."
            .to_owned(),
        evidence: vec![in_table(
            summary,
            "collections",
            0,
            format!("{} of {} collections were asked for, {} of them full", number(count as f64), number(summary.collections.total as f64), number(full as f64)),
            Some(Value::Count(count as f64)),
        )],
        next_steps: steps(&["Look for `GC.Collect` in the program and its libraries, and leave it out"]),
    })
}
