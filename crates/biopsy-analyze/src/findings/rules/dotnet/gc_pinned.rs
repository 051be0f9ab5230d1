//! Many objects are pinned while there is much garbage.

use crate::findings::allocating;
use crate::findings::dotnet::{heard, of_process, pace, table};
use crate::findings::evidence::{at, steps};
use crate::findings::finding::{Finding, FindingId, Severity, Value};
use crate::findings::scene::Scene;
use crate::words::number;

/// Collections a second below which pinning harms nobody.
const RATE: f64 = 0.5;
/// Pinned objects in the middle of all collections. A web server under load pins tens: its buffers live on a heap of their own.
const PINNED: u32 = 1_000;
/// Fewer collections are no sample.
const COLLECTIONS: u64 = 3;
/// Collections a second from which on the holes are made again all the time.
const CRITICAL_RATE: f64 = 1.0;

pub(crate) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let heard = heard(scene)
        .filter(|heard| heard.summary.collections.pinned >= Some(PINNED))
        .max_by_key(|heard| heard.summary.collections.pinned)?;
    let summary = heard.summary;
    let collections = &summary.collections;
    let pinned = collections.pinned?;
    let rate = summary.rate(collections.total);
    if rate < RATE || collections.total < COLLECTIONS {
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
    let allocated = allocating::top_or_thread(scene, &heard);
    evidence.extend(allocated.iter().map(|top| top.evidence.clone()));
    let place = allocated
        .filter(|top| top.own)
        .map_or(String::new(), |top| format!("; most garbage is made{}", top.place));
    Some(Finding {
        id: FindingId::GcPinned,
        severity: if pinned >= 2 * PINNED && rate >= CRITICAL_RATE { Severity::Critical } else { Severity::Warning },
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
