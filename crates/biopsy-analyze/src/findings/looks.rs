//! What several looks at a process do to the findings of the last one: what did not move is sure, what moved is no hang.

use biopsy_model::{Confidence, Tid};
use rustc_hash::FxHashSet;

use super::evidence::fact;
use super::finding::{Finding, FindingId, Reference, Severity};
use crate::dump::{DumpAnalysis, Looks, Movement, WaitGraph};
use crate::words::{seconds, threads};

/// `in 3 looks over 4.0 s`.
pub(crate) fn times(looks: &Looks) -> String {
    let over = looks.span.map_or(String::new(), |span| format!(" over {}", seconds(span.as_secs_f64())));
    format!("in {} looks{over}", looks.count)
}

/// Holds the findings on hangs against what moved.
pub(super) fn settle(analysis: &DumpAnalysis, findings: &mut [Finding]) {
    let Some(looks) = &analysis.looks else { return };
    for finding in findings {
        match finding.id {
            FindingId::Deadlock => deadlock(analysis, looks, finding),
            FindingId::LockQueue => queue(analysis, looks, finding),
            FindingId::AbandonedLock
            | FindingId::OrphanedLock
            | FindingId::WaitsForProcess
            | FindingId::FinalizerBlocked
            | FindingId::HeldUp
            | FindingId::EqualThreads => say(analysis, looks, finding, &referred(analysis, finding)),
            _ => {}
        }
    }
}

/// The threads that its evidence names.
fn referred(analysis: &DumpAnalysis, finding: &Finding) -> FxHashSet<Tid> {
    let named = finding.evidence.iter().flat_map(|evidence| match evidence.reference {
        Reference::Thread(tid) => vec![tid],
        Reference::Group(index) => {
            let members =
                analysis.groups.get(index).map(|group| group.members.as_slice()).unwrap_or_default();
            members
                .iter()
                .filter_map(|member| analysis.threads.get(*member))
                .map(|thread| thread.tid)
                .collect()
        }
        _ => Vec::new(),
    });
    named.collect()
}

fn count(analysis: &DumpAnalysis, of: &FxHashSet<Tid>, is: impl Fn(Movement) -> bool) -> usize {
    let moved = of.iter().filter_map(|tid| analysis.thread(*tid)?.movement);
    moved.filter(|movement| is(*movement)).count()
}

/// Says how many of the threads did not move.
fn say(analysis: &DumpAnalysis, looks: &Looks, finding: &mut Finding, of: &FxHashSet<Tid>) {
    let still = count(analysis, of, Movement::may_be_stuck);
    if of.is_empty() {
        return;
    }
    let did_not_run = count(analysis, of, |movement| movement == Movement::Stuck);
    let how =
        if did_not_run == still { "did not run in between" } else { "stood in the same place each time" };
    finding.evidence.push(fact(format!("{}: {still} of {} {how}", times(looks), threads(of.len())), None));
}

fn deadlock(analysis: &DumpAnalysis, looks: &Looks, finding: &mut Finding) {
    let waits = &analysis.waits;
    let members: FxHashSet<Tid> = waits.cycles.iter().flatten().copied().collect();
    say(analysis, looks, finding, &members);
    let all = (0..waits.cycles.len()).all(|index| looks.lasting.contains(&index));
    if all {
        finding.evidence.push(fact(format!("the same circle was there {}", times(looks)), None));
        return;
    }
    let guessed = waits.circles.iter().any(|circle| circle.confidence < Confidence::Certain);
    let moved = count(analysis, &members, |movement| !movement.may_be_stuck());
    if guessed && moved > 0 && looks.lasting.is_empty() {
        // Whose owner is inferred from code may be wrong about it; and here somebody went on.
        finding.severity = finding.severity.min(Severity::Notice);
        finding.title = format!(
            "Perhaps no deadlock, since {} went on between the looks: {}",
            threads(moved),
            finding.title
        );
    } else {
        finding
            .evidence
            .push(fact("it was not there in the first look: it came in between".to_owned(), None));
    }
}

fn queue(analysis: &DumpAnalysis, looks: &Looks, finding: &mut Finding) {
    let owners = referred(analysis, finding);
    let roots: Vec<Tid> = owners.iter().copied().collect();
    let behind: FxHashSet<Tid> = WaitGraph::behind(&analysis.waits.waiters(), &roots).into_iter().collect();
    if behind.is_empty() {
        return;
    }
    say(analysis, looks, finding, &behind);
    let stuck = count(analysis, &behind, Movement::may_be_stuck);
    let again = count(analysis, &behind, |movement| matches!(movement, Movement::Again | Movement::Moved));
    if stuck == behind.len() {
        finding.severity = match finding.severity {
            Severity::Info | Severity::Notice => Severity::Warning,
            Severity::Warning | Severity::Critical => Severity::Critical,
        };
        finding.explanation = "One thread had what the others need in all of the looks, and none of them got it meanwhile. What the holder \
                               does is the reason; it is not a deadlock."
            .to_owned();
        if count(analysis, &owners, |movement| movement == Movement::Stuck) == owners.len() {
            finding.evidence.push(fact(
                "the holder did not run in between either: what it waits for is the cause".to_owned(),
                None,
            ));
        }
    } else if again * 2 > behind.len() {
        finding.severity = finding.severity.min(Severity::Notice);
        finding.explanation = "Most of those who wait went on between the looks, and wait anew: the lock is wanted much, and it is handed \
                               on. That is no hang; a trace says what it costs."
            .to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::{DumpThread, LockKind, LockOwner, LockWait};
    use biopsy_model::Nanos;

    fn waiter(tid: u32, owner: u32, movement: Movement) -> DumpThread {
        let lock = LockWait {
            lock: 9,
            kind: LockKind::Mutex,
            owner: LockOwner::Thread(Tid(owner)),
            ..LockWait::default()
        };
        DumpThread { tid: Tid(tid), lock: Some(lock), movement: Some(movement), ..DumpThread::default() }
    }

    fn analysis(threads: Vec<DumpThread>, lasting: Vec<usize>) -> DumpAnalysis {
        DumpAnalysis {
            waits: WaitGraph::new(&threads),
            threads,
            looks: Some(Looks { count: 3, span: Some(Nanos(4_000_000_000)), pauses: vec![], lasting }),
            ..DumpAnalysis::default()
        }
    }

    fn finding(id: FindingId, about: u32) -> Finding {
        Finding {
            id,
            severity: Severity::Warning,
            impact: 0.5,
            title: "found".to_owned(),
            explanation: String::new(),
            evidence: vec![crate::findings::dump::at(Reference::Thread(Tid(about)), "it".to_owned())],
            next_steps: vec![],
        }
    }

    #[test]
    fn a_queue_that_stands_is_worse_and_one_that_moves_is_no_hang() {
        for (movement, severity) in [
            (Movement::Stuck, Severity::Critical),
            (Movement::SamePlace, Severity::Critical),
            (Movement::Again, Severity::Notice),
            (Movement::Moved, Severity::Notice),
            (Movement::New, Severity::Warning),
        ] {
            let holder = DumpThread { tid: Tid(1), movement: Some(Movement::Moved), ..DumpThread::default() };
            let analysis = analysis(vec![holder, waiter(2, 1, movement), waiter(3, 1, movement)], vec![]);
            let mut found = [finding(FindingId::LockQueue, 1)];
            settle(&analysis, &mut found);
            assert_eq!(found[0].severity, severity, "{movement:?}: {found:?}");
            assert!(found[0].evidence[1].text.starts_with("in 3 looks over 4.0 s: "), "{found:?}");
        }
    }

    #[test]
    fn a_circle_that_is_read_from_locks_stays_one_whenever_it_came() {
        for lasting in [vec![0], vec![]] {
            let movement = if lasting.is_empty() { Movement::Moved } else { Movement::Stuck };
            let analysis = analysis(vec![waiter(1, 2, movement), waiter(2, 1, movement)], lasting.clone());
            assert_eq!(analysis.waits.cycles.len(), 1);
            let mut found = [finding(FindingId::Deadlock, 1)];
            settle(&analysis, &mut found);
            assert_eq!(found[0].severity, Severity::Warning);
            let last = &found[0].evidence.last().unwrap().text;
            assert_eq!(last.contains("the same circle was there"), !lasting.is_empty(), "{last}");
        }
    }

    #[test]
    fn one_look_changes_nothing() {
        let mut analysis = analysis(vec![waiter(1, 2, Movement::Stuck)], vec![]);
        analysis.looks = None;
        let mut found = [finding(FindingId::LockQueue, 2)];
        settle(&analysis, &mut found);
        assert_eq!(found, [finding(FindingId::LockQueue, 2)]);
    }
}
