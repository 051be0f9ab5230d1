//! Goroutines or tasks wait for each other in a circle, or all of a program's goroutines for each other.

use biopsy_model::Confidence;

use crate::dump::DumpAnalysis;
use crate::dump::strands::{Strand, StrandCycle, StrandKind, StrandRuntime, StrandState, WaitKind};
use crate::findings::dump::strand_words;
use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Severity, Value};

/// Members of a circle that are named one by one.
const NAMED: usize = 12;
/// Places that a title names.
const IN_TITLE: usize = 3;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let of_strands =
        analysis.strands.iter().find_map(|runtime| circle(runtime).or_else(|| standstill(runtime)));
    of_strands.or_else(|| of_operations(analysis))
}

/// Async operations of .NET that await each other.
fn of_operations(analysis: &DumpAnalysis) -> Option<Finding> {
    let rings = &analysis.managed.as_ref()?.operations.as_ref()?.rings;
    let own = |method: &str| !method.starts_with("System.") && !method.starts_with("Microsoft.");
    let ring = rings.iter().find(|ring| ring.iter().any(|method| own(method)))?;
    let mut named: Vec<String> = ring.iter().map(|method| format!("`{method}`")).collect();
    named.truncate(NAMED);
    let title = match named.as_slice() {
        [one] => format!("Deadlock: an operation of {one} awaits itself"),
        all => format!(
            "Deadlock: {} async operations await each other in a circle, in {}",
            ring.len(),
            all.join(", ")
        ),
    };
    let next = named.iter().cycle().skip(1);
    let mut evidence: Vec<Evidence> = named
        .iter()
        .zip(next)
        .map(|(one, other)| fact(format!("{one} awaits the task of {other}"), None))
        .collect();
    if rings.len() > 1 {
        evidence.push(fact(
            format!("{} such circles in all", rings.len()),
            Some(Value::Count(rings.len() as f64)),
        ));
    }
    Some(finding(
        title,
        0.5,
        "Each of these async methods stands at an `await` for the task that the next one completes when it ends, so that none of them ever \
         does. Who awaits whom was read from their state machines. No thread shows them."
            .to_owned(),
        evidence,
        &["Await in one direction only: one of them must go on without the other", "They do not recover"],
    ))
}

/// Where the members are, for a title: each place once.
fn in_places(runtime: &StrandRuntime, members: &[usize]) -> String {
    let mut places: Vec<String> = Vec::new();
    for strand in members.iter().filter_map(|index| runtime.runtime.strands.get(*index)) {
        places
            .extend(runtime.place(strand).filter(|place| !places.contains(place) && places.len() < IN_TITLE));
    }
    match places.split_last() {
        None => String::new(),
        Some((last, [])) => format!(", in {last}"),
        Some((last, rest)) => format!(", in {} and {last}", rest.join(", ")),
    }
}

fn circle(runtime: &StrandRuntime) -> Option<Finding> {
    let first = runtime.cycles.first()?;
    let strand = |index: &usize| runtime.runtime.strands.get(*index);
    let labels: Vec<String> = first.members.iter().filter_map(strand).map(|one| runtime.label(one)).collect();
    let word = strand(first.members.first()?)?.kind.word();
    let places = in_places(runtime, &first.members);
    let title = match labels.as_slice() {
        [one] => format!("Deadlock: {one} waits for a lock that it holds itself{places}"),
        [one, other] => format!("Deadlock: {one} and {other} wait for each other{places}"),
        all => format!("Deadlock: {} {word}s wait for each other in a circle{places}", all.len()),
    };
    let mut evidence: Vec<Evidence> = Vec::new();
    for member in runtime.cycles.iter().flat_map(|cycle| &cycle.members).filter_map(strand).take(NAMED) {
        let place = runtime.place(member).map_or(String::new(), |place| format!(", in {place}"));
        evidence
            .push(fact(format!("{} {}{place}", runtime.label(member), strand_words(runtime, member)), None));
    }
    let total: usize = runtime.cycles.iter().map(|cycle| cycle.members.len()).sum();
    if total > NAMED {
        evidence.push(fact(
            format!("and {} more in circles", total - NAMED),
            Some(Value::Count((total - NAMED) as f64)),
        ));
    }
    let proof = strand(first.members.first()?).and_then(|one| runtime.owners(one).next());
    if let Some((_, owner)) = proof {
        evidence.push(fact(format!("how the owner is known: {}", owner.proof), None));
    }
    let sure = match first.confidence {
        Confidence::Certain => "The owners were read from the runtime's own data.",
        Confidence::AlmostCertain | Confidence::VeryLikely | Confidence::Possible => {
            "Locks and channels have no owner in memory: who would end each wait follows from the code ahead of each frame, which \
             releases the lock before it takes it, or comes to the channel."
        }
    };
    Some(finding(
        title,
        0.5,
        format!(
            "Each of these {word}s waits for something that only the next one can give, so that none of them goes on by itself. {sure}"
        ),
        evidence,
        &[advice(runtime, first), "They do not recover: the process has to be restarted"],
    ))
}

fn advice(runtime: &StrandRuntime, circle: &StrandCycle) -> &'static str {
    let mut members = circle.members.iter().filter_map(|index| runtime.runtime.strands.get(*index));
    let is_channel = |one: &Strand| one.wait.as_ref().is_some_and(|wait| wait.kind.any_is_enough());
    if members.clone().any(is_channel) {
        "Never send in a circle over channels that can be full: give one direction room, a goroutine of its own, or a way out (`select`)"
    } else if members.any(|one| one.kind == StrandKind::Task) {
        "Await in one direction only: one of them must go on without the other"
    } else if circle.members.len() == 1 {
        "Do not lock it again while it is held, and do not lock for writing what is locked for reading"
    } else {
        "Take these locks in the same order everywhere, or hold only one of them at a time"
    }
}

/// Every goroutine of the program waits for another one: for a channel, a lock, a wait group.
fn standstill(runtime: &StrandRuntime) -> Option<Finding> {
    let program =
        || runtime.runtime.strands.iter().filter(|one| !one.of_runtime && one.kind == StrandKind::Goroutine);
    let waiting = program().filter(|one| waits_for_another(one)).count();
    // Who waits for a signal waits for the outside.
    if waiting < 2 || program().any(|one| !waits_for_another(one) || takes_signals(one)) {
        return None;
    }
    // `select {}` at the end of `main` leaves the work to others: to C, where no goroutine is left.
    let main = program().find(|one| one.id.0 == 1)?;
    if main.wait.as_ref().is_some_and(|wait| wait.never_ends) {
        return None;
    }
    let mut evidence = Vec::new();
    for group in runtime.groups.iter().take(NAMED) {
        let Some(first) = runtime.first(group).filter(|first| !first.of_runtime) else { continue };
        let place = runtime.place(first).map_or(String::new(), |place| format!(" in {place}"));
        let reason = first.wait.as_ref().map_or("waiting", |wait| wait.reason.as_str());
        evidence.push(fact(
            format!("{} {reason}{place}", group.members.len()),
            Some(Value::Count(group.members.len() as f64)),
        ));
    }
    let place = runtime.place(main).map_or(String::new(), |place| format!("; `main` in {place}"));
    Some(finding(
        format!("Deadlock: all {waiting} goroutines of the program wait for each other{place}"),
        1.0,
        "Not one goroutine of the program can run, waits for a time, for the outside or is in a system call: all of them \
                      wait for what only another goroutine could give them. Go ends such a program by itself only where it links no C \
                      and takes no signals."
            .to_owned(),
        evidence,
        &["Look at who should have sent, closed or unlocked: nobody is left to do it"],
    ))
}

fn finding(
    title: String,
    impact: f64,
    explanation: String,
    evidence: Vec<Evidence>,
    next: &[&str],
) -> Finding {
    Finding {
        id: FindingId::StrandDeadlock,
        severity: Severity::Critical,
        impact,
        title,
        explanation,
        evidence,
        next_steps: steps(next),
    }
}

fn waits_for_another(strand: &Strand) -> bool {
    strand.state == StrandState::Waiting
        && strand.wait.as_ref().is_some_and(|wait| {
            !wait.ends_by_itself
                && matches!(
                    wait.kind,
                    WaitKind::Mutex
                        | WaitKind::ReadLock
                        | WaitKind::WriteLock
                        | WaitKind::Condition
                        | WaitKind::WaitGroup
                        | WaitKind::ChannelSend
                        | WaitKind::ChannelReceive
                        | WaitKind::Select
                )
        })
}

/// What forwards signals to the program is always there once the program asked for them.
fn takes_signals(strand: &Strand) -> bool {
    strand.frames.iter().any(|frame| &*frame.function == "os/signal.loop")
}
