//! Full collections stop the threads, and most of what they go through each time is kept by one holder.

use crate::findings::allocated;
use crate::findings::evidence::{at, fact, grade, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::findings::incident::Incident;
use crate::heap::{HeapSummary, HeldType, Suspect, text_of};
use crate::runtimes::RuntimeSummary;
use crate::words::{bytes, number, percent, seconds};

/// Shares of the time in which full collections stop all threads: as of all pauses, `gc_pauses` says why.
const SHARE: [f64; 3] = [0.25, 0.1, 0.05];
/// Seconds of one pause: a request that falls into half a second is a slow one.
const LONGEST: [f64; 3] = [f64::INFINITY, 1.0, 0.5];
/// Fewer full collections are those of a start, or of a minute that was an exception.
const COLLECTIONS: u64 = 3;
/// Share of all pauses that are those of full collections: below, it is the young ones, which do not go through what is kept.
const OF_PAUSES: f64 = 0.5;
/// Objects in the heap. A collector goes through ten million a second on one core and more: those below are done in some ten milliseconds.
const OBJECTS: u64 = 500_000;
/// Share of what is alive that one holder keeps, from which it is worth naming.
const OF_HEAP: f64 = 0.25;
/// Share of the objects that it keeps. What a few large arrays take costs no time: collectors look at references, not at bytes.
const OF_OBJECTS: f64 = 0.25;

pub(super) fn find(incident: &Incident<'_>) -> Option<Finding> {
    let (_, analysis) = incident.recorded?;
    // The last one is the fullest.
    let heap = incident.heaps.last()?;
    let summary = analysis.runtimes.iter().find(|summary| summary.pid == heap.facts.pid)?;
    let pauses = Pauses::of(summary)?;
    let severity = pauses.severity()?;
    let objects = heap.facts.live_objects.unwrap_or(heap.facts.objects);
    let (suspect, held) = pile(heap, objects)?;
    let holder = holder(suspect);
    let whole = heap.held.as_ref().map_or(0, |held| held.bytes).max(1);
    let part = suspect.retained as f64 / whole as f64;
    let mut evidence = vec![pauses.evidence(summary), size(heap, objects), kept(suspect, held, part)];
    let found = allocated::of_types(incident, &[held.step.of.as_str()], None);
    let by = found.as_ref().map_or(String::new(), |by| format!(", {}", by.words));
    evidence.extend(found.map(|found| found.evidence));
    let how = if pauses.by_share() >= pauses.by_length() {
        format!("{} of the time", percent(pauses.share))
    } else {
        format!("for {} at once", seconds(pauses.longest))
    };
    Some(Finding {
        id: FindingId::GcLargeHeap,
        severity,
        impact: pauses.share,
        title: format!(
            "Full collections stop all threads {how}, and {} of the objects that they go through each time are kept by {holder} ({} `{}`){by}",
            percent(suspect.objects as f64 / objects.max(1) as f64),
            number(held.objects as f64),
            held.step.of
        ),
        explanation: "A full collection follows every reference of what is alive, and what one holder keeps is most of that here. It is \
                      found alive each time, so nothing is gained. That it is kept may be right, as of a cache; then it is its form that \
                      costs: many small objects that refer to each other."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "see whether all of that has to be kept: a bound for the cache, a shorter time to live",
            "keep the same in fewer objects: structs in arrays, one buffer for many texts, or outside of the managed heap",
            "see which allocations make the full collections due: objects of 85,000 bytes and more, and what lives just long enough to become old",
        ]),
    })
}

/// What full collections cost.
struct Pauses {
    /// How many there were.
    count: u64,
    /// Share of the time.
    share: f64,
    /// The longest, in seconds.
    longest: f64,
}

impl Pauses {
    /// `None`: there were too few, others cost more, or the program asked for them.
    fn of(summary: &RuntimeSummary) -> Option<Self> {
        let collections = &summary.collections;
        let full = || collections.generations.iter().filter(|row| row.generation >= 2);
        let count = full().map(|row| row.count).fold(0, u64::saturating_add);
        let paused = full().map(|row| row.paused.as_secs_f64()).sum::<f64>();
        let longest = full().map(|row| row.longest.as_secs_f64()).fold(0.0, f64::max);
        let is_asked_for = collections.induced.saturating_mul(2) > count;
        let is_most = paused >= collections.paused.as_secs_f64() * OF_PAUSES;
        if count < COLLECTIONS || is_asked_for || !is_most || summary.seconds <= 0.0 {
            return None;
        }
        Some(Self { count, share: (paused / summary.seconds).clamp(0.0, 1.0), longest })
    }

    fn by_share(&self) -> Option<Severity> {
        grade(self.share, SHARE)
    }

    fn by_length(&self) -> Option<Severity> {
        grade(self.longest, LONGEST)
    }

    fn severity(&self) -> Option<Severity> {
        self.by_share().max(self.by_length())
    }

    fn evidence(&self, summary: &RuntimeSummary) -> Evidence {
        at(
            Reference::Runtime { runtime: summary.trace, table: "collections", row: None },
            format!(
                "{} full collections stopped all threads {} of the time, {} at most at once",
                number(self.count as f64),
                percent(self.share),
                seconds(self.longest)
            ),
            Some(Value::Share(self.share)),
        )
    }
}

/// The one that keeps most, with what piles up there.
fn pile(heap: &HeapSummary, objects: u64) -> Option<(&Suspect, &HeldType)> {
    let held = heap.held.as_ref()?;
    let suspect = held.suspects.first()?;
    let pile = suspect.held.as_ref()?;
    let is_large = objects >= OBJECTS
        && suspect.retained as f64 >= held.bytes as f64 * OF_HEAP
        && suspect.objects as f64 >= objects as f64 * OF_OBJECTS;
    is_large.then_some((suspect, pile))
}

fn holder(suspect: &Suspect) -> String {
    match (suspect.one_way.as_slice(), suspect.way.as_slice()) {
        // Several hold it; what they have in common is what is named.
        ([_, ..], [shared, ..]) => format!("`{}`", shared.of),
        (_, [first, ..]) if first.via.starts_with("static ") => format!("`{}`", first.via),
        (_, [.., last]) => format!("`{}`", last.of),
        (_, []) => "one root".to_owned(),
    }
}

fn size(heap: &HeapSummary, objects: u64) -> Evidence {
    let alive = heap.facts.live_bytes.unwrap_or(heap.facts.bytes);
    let references = number(heap.facts.references as f64);
    let text = format!(
        "the heap has {} live objects of {}, and {references} references",
        number(objects as f64),
        bytes(alive as f64)
    );
    fact(text, Some(Value::Count(objects as f64)))
}

fn kept(suspect: &Suspect, held: &HeldType, part: f64) -> Evidence {
    let way = if suspect.way.is_empty() { held.step.via.clone() } else { text_of(&suspect.way) };
    let text = format!(
        "`{way}` keeps {} objects of {}, {} of it, among them {} `{}`",
        number(suspect.objects as f64),
        bytes(suspect.retained as f64),
        percent(part),
        number(held.objects as f64),
        held.step.of
    );
    fact(text, Some(Value::Bytes(suspect.retained as f64)))
}

#[cfg(test)]
mod tests;
