//! Much of a heap is kept by what a program has to release by itself: handlers of events, timers, callbacks of cancellation tokens,
//! load contexts; or waits for finalizers.

use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Finding, FindingId, Severity, Value};
use crate::findings::incident::Incident;
use crate::heap::InspectionKind;
use crate::heap::inspections::Inspection;
use crate::words::{bytes, number, percent};

/// The share of what is alive, bytes and objects, from which it is much.
const SHARE: f64 = 0.1;
const LEAST: u64 = 4 << 20;
const MANY: u64 = 1000;
/// One context may be about to go; of so many, each with a way that leads to it, something keeps them.
const CONTEXTS: u64 = 3;
/// Places that are listed.
const LISTED: usize = 4;

/// What is to be said of a kind; `None`: it is not this rule's.
struct Words {
    severity: Severity,
    what: &'static str,
    /// Between what it is and whose.
    of: &'static str,
    step: &'static str,
}

fn words(kind: InspectionKind) -> Option<Words> {
    let words = |severity, what, of, step| Some(Words { severity, what, of, step });
    match kind {
        InspectionKind::EventHandlers => words(
            Severity::Notice,
            "handlers of one event",
            "are",
            "who subscribes must unsubscribe (`-=`) when it is done: look where the objects that are named end",
        ),
        InspectionKind::Timers => words(
            Severity::Notice,
            "timers",
            "call",
            "a timer that is set keeps what it calls until it is disposed: look where the objects that are named end",
        ),
        InspectionKind::TokenCallbacks => words(
            Severity::Notice,
            "callbacks of cancellation tokens",
            "call",
            "`Register` on a token that lives long needs its registration to be disposed: `using var registration = ...`",
        ),
        InspectionKind::FinalizerQueue => words(
            Severity::Warning,
            "objects that wait for their finalizer",
            "are",
            "one finalizer at a time runs, on one thread: look where that thread stands (`biopsy stacks`), and dispose of what has `Dispose`",
        ),
        InspectionKind::StuckContexts => words(
            Severity::Warning,
            "load contexts that were told to unload",
            "are kept by",
            "clear what the way begins with: one object, type or delegate of the context keeps all of it",
        ),
        InspectionKind::DuplicateStrings
        | InspectionKind::EmptyCollections
        | InspectionKind::OversizedCollections
        | InspectionKind::SparseArrays
        | InspectionKind::BoxedValues
        | InspectionKind::WaitingMethods
        | InspectionKind::LostMethods
        | InspectionKind::PinnedObjects
        | InspectionKind::Statics
        | InspectionKind::Closures
        | InspectionKind::FreeSpace => None,
    }
}

pub(super) fn find(incident: &Incident<'_>) -> Option<Finding> {
    // The last one shows what is kept now.
    let held = incident.heaps.last()?.held.as_ref()?;
    let share = |of: u64| of as f64 / held.bytes.max(1) as f64;
    let is_much = |one: &Inspection| {
        let Some(first) = one.rows.first() else { return false };
        match one.kind {
            InspectionKind::StuckContexts => one.objects >= CONTEXTS,
            _ => first.objects >= MANY && first.bytes >= LEAST && share(first.bytes) >= SHARE,
        }
    };
    let much = held.inspections.iter().filter(|one| is_much(one));
    let (words, most) = much
        .filter_map(|one| Some((words(one.kind)?, one)))
        .max_by_key(|(words, one)| (words.severity, one.bytes))?;
    let first = most.rows.first()?;
    let is_context = most.kind == InspectionKind::StuckContexts;
    let (objects, kept) = if is_context { (most.objects, most.bytes) } else { (first.objects, first.bytes) };
    let evidence = most.rows.iter().take(LISTED).map(|row| {
        let text = format!(
            "{} {} `{}`: {}",
            number(row.objects as f64),
            words.of,
            row.what,
            bytes(row.bytes as f64)
        );
        fact(text, Some(Value::Bytes(row.bytes as f64)))
    });
    let keep = if is_context {
        String::new()
    } else {
        format!("; they keep {}, {} of the heap", bytes(kept as f64), percent(share(kept)))
    };
    Some(Finding {
        id: FindingId::NeverReleased,
        severity: words.severity,
        impact: share(kept).clamp(0.0, 1.0),
        title: format!("{} {} {} `{}`{keep}", number(objects as f64), words.what, words.of, first.what),
        explanation: if words.severity == Severity::Notice {
            "They are reachable, so no collection frees what they keep. Whether the program still needs them, one moment cannot say: three \
             snapshots can (`biopsy snapshot --every`)."
        } else {
            "They should be gone and are not: the program has let go of them."
        }
        .to_owned(),
        evidence: evidence.collect(),
        next_steps: steps(&[words.step]),
    })
}

#[cfg(test)]
mod tests {
    use super::super::wasted_memory::tests::{heap, incident};
    use super::*;

    #[test]
    fn much_that_is_not_released_is_told_with_whose_it_is() {
        let heaps = [heap(100 << 20, InspectionKind::EventHandlers, 5000, 40 << 20)];
        let found = find(&incident(&heaps)).expect("a finding");
        assert_eq!(found.severity, Severity::Notice);
        assert!(
            found.title.starts_with("5,000 handlers of one event are `App.Order.Country`"),
            "{}",
            found.title
        );
        let heaps = [heap(100 << 20, InspectionKind::FinalizerQueue, 5000, 40 << 20)];
        assert_eq!(find(&incident(&heaps)).expect("a finding").severity, Severity::Warning);
        let heaps = [heap(100 << 20, InspectionKind::StuckContexts, 3, 1000)];
        let found = find(&incident(&heaps)).expect("a finding");
        assert!(
            found.title.starts_with("3 load contexts that were told to unload are kept by `"),
            "{}",
            found.title
        );
    }

    #[test]
    fn few_small_or_other_things_are_silent() {
        for (kind, objects, kept) in [
            (InspectionKind::EventHandlers, 999, 40 << 20),
            (InspectionKind::Timers, 5000, 3 << 20),
            (InspectionKind::TokenCallbacks, 5000, 9 << 20),
            (InspectionKind::StuckContexts, 2, 40 << 20),
            (InspectionKind::WaitingMethods, 5000, 40 << 20),
            (InspectionKind::Statics, 5000, 40 << 20),
        ] {
            assert!(find(&incident(&[heap(100 << 20, kind, objects, kept)])).is_none(), "{kind:?}");
        }
    }
}
