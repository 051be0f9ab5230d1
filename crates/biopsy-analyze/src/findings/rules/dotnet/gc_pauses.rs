//! Threads stand still for collections too long or too often.

use crate::findings::allocating;
use crate::findings::dotnet::{at_least, heard, of_process, pace, table, time};
use crate::findings::evidence::{at, fact, grade, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Value};
use crate::findings::scene::Scene;
use crate::words::{bytes, number, percent};

/// From a tenth of the time on, pauses are what users notice; a server with tuned allocation stays below 2 %.
const SHARE: [f64; 3] = [0.25, 0.1, 0.05];
/// A request that falls into a pause of half a second is a slow one.
const LONGEST: f64 = 0.5;
/// One function of the application that allocates this share is what a person would name.
const MOST: f64 = 0.4;

pub(crate) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let heard = heard(scene)
        .max_by(|a, b| a.summary.collections.pause_share.total_cmp(&b.summary.collections.pause_share))?;
    let summary = heard.summary;
    let collections = &summary.collections;
    let (longest, when) = collections.longest?;
    let by_share = grade(collections.pause_share, SHARE);
    let by_length = grade(longest.as_secs_f64(), [f64::INFINITY, 2.0 * LONGEST, LONGEST]);
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
    let top = allocating::top_or_thread(scene, &heard);
    let place = top.as_ref().filter(|top| top.own && top.share >= MOST);
    let place = place.map_or(String::new(), |top| format!(", most of it for what is allocated{}", top.place));
    evidence.extend(top.map(|top| top.evidence));
    Some(Finding {
        id: FindingId::GcPauses,
        severity,
        impact: collections.pause_share,
        title: if by_share >= by_length {
            format!(
                "Garbage collection stops all threads {}{} of the time{place}{}",
                at_least(&heard, "collections"),
                percent(collections.pause_share),
                of_process(scene, summary)
            )
        } else {
            format!("Garbage collection stopped all threads for {} at once{place}{}", time(longest), of_process(scene, summary))
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
