//! Somebody waits, and nobody is left who would end that.

pub(in crate::findings::rules) mod all_asleep;

use crate::dump::strands::{Strand, StrandKind, StrandRuntime, WaitKind};
use crate::dump::{DumpAnalysis, Nobody, StuckWait};
use crate::findings::dump::{NAMED, at, place, share};
use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::words::threads;
use biopsy_model::order::Order as _;
use biopsy_model::{Avma, Tid};
use std::collections::BTreeMap;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let all = analysis.strands.iter();
    let found = all.flat_map(|runtime| [at_nothing(runtime), left_alone(runtime), mixed(runtime)]).flatten();
    let found = found.chain(analysis.stuck.iter().filter_map(|stuck| of_threads(analysis, stuck)));
    found.max_by(|a, b| a.severity.cmp(&b.severity).then(a.impact.total_cmp(&b.impact)))
}

/// Threads at a condition, semaphore or lock.
fn of_threads(analysis: &DumpAnalysis, stuck: &StuckWait) -> Option<Finding> {
    let count = stuck.waiters.len();
    let mut places: BTreeMap<String, Vec<Tid>> = BTreeMap::new();
    for tid in &stuck.waiters {
        places.entry(place(analysis, *tid).unwrap_or_default()).or_default().push(*tid);
    }
    let most = places.iter().max_by_key(|(_, tids)| tids.len())?.0;
    let waits = if count == 1 { "waits" } else { "wait" };
    let inside = if most.is_empty() { String::new() } else { format!(", in {most}") };
    let (nobody, meaning, advice) = match stuck.nobody {
        Nobody::IsLeft => (
            "nobody is left to signal",
            "Whoever waits at a condition goes on when another thread signals it. All threads that could still come to code that wakes \
             anybody wait at conditions themselves, without a limit. A pool that will get no work any more looks the same, and is harmless.",
            "Look at who should signal: has that thread ended, does it leave the signal out on some way, or does it wait here too?",
        ),
        Nobody::GaveBack => (
            "has not one slot left, and nobody has one",
            "Whoever takes a slot of this semaphore gives it back further on in the same code. All slots are gone, and no thread is where \
             one would be given back. One that is given back by other code than where it was taken would not be seen.",
            "Look for a way out between taking and giving back (an exception, an early return) that leaves the giving back out",
        ),
        Nobody::LetGo => (
            "is held, and no thread is where it would give it back",
            "Whoever takes this lock gives it back further on in the same code, and no thread is on that way. Somebody took it and left it on \
             another way, or a thread that has it asks for it once more (to write what it reads, say) and waits for itself. A lock that is \
             given back by other code than where it was taken would not be seen.",
            "Look for a way out between taking and giving back, and for code that takes it while it has it already",
        ),
        Nobody::Signals => (
            "no code of the program signals",
            "Who waits at a condition goes on when somebody signals it. The code of the program was searched for all uses of this one: \
             it is waited at, and never signalled.",
            "Signal the condition where what is waited for becomes true",
        ),
    };
    let mut evidence: Vec<Evidence> = Vec::new();
    for (place, tids) in places.iter().take(NAMED) {
        let Some(first) = tids.first() else { continue };
        let place = if place.is_empty() { "an unknown place" } else { place.as_str() };
        evidence.push(at(Reference::Thread(*first), format!("{} in {place}", threads(tids.len()))));
    }
    evidence.push(fact(format!("how that is known ({}): {}", stuck.confidence.words(), stuck.proof), None));
    // What it is wanted for differs between those who wait.
    let what = stuck.kind.words();
    let what = what.split_once(',').map_or(what, |(lock, _)| lock);
    // Threads without work that nobody ever gives any look the same.
    // And a guard that is kept in an object is given back from where nobody sees it.
    let severity = match stuck.nobody {
        Nobody::IsLeft | Nobody::LetGo => Severity::Notice,
        Nobody::GaveBack | Nobody::Signals => Severity::Warning,
    };
    Some(finding(
        (severity, share(analysis, count).max(0.3)),
        format!("{} {waits} for {what} that {nobody}{inside}", threads(count)),
        meaning,
        evidence,
        &[advice, "They do not go on by themselves"],
    ))
}

/// Strands at a channel that is nil: certain, whoever else is there. A `select` without cases is how programs rest.
fn at_nothing(runtime: &StrandRuntime) -> Option<Finding> {
    let strands = &runtime.runtime.strands;
    let is_at_nothing = |strand: &&Strand| {
        let channel = |kind| matches!(kind, WaitKind::ChannelSend | WaitKind::ChannelReceive);
        let wait = strand.wait.as_ref();
        !strand.of_runtime && wait.is_some_and(|wait| wait.never_ends && channel(wait.kind))
    };
    let found: Vec<&Strand> = strands.iter().filter(is_at_nothing).collect();
    let mut places: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for strand in &found {
        let reason = strand.wait.as_ref().map_or("", |wait| wait.reason.as_str());
        *places.entry((runtime.place(strand).unwrap_or_default(), reason)).or_default() += 1;
    }
    let most = places.iter().max_by_key(|(_, count)| **count)?.0;
    let word = found.first()?.kind.word();
    let (who, waits) = match found.len() {
        1 => (format!("1 {word}"), "waits"),
        count => (format!("{count} {word}s"), "wait"),
    };
    let named = places.iter().take(NAMED).map(|((place, reason), count)| {
        fact(format!("{count} in {place} ({reason})"), Some(Value::Count(*count as f64)))
    });
    Some(finding(
        (Severity::Warning, (found.len() as f64 / strands.len().max(1) as f64).clamp(0.2, 0.9)),
        format!("{who} {waits} at a channel that is nil, in {}: nothing can ever end that", most.0),
        "To send to a channel that was never made, or to receive from it, blocks for ever: the runtime itself says that it is nil. In a `select` a \
         nil channel may be meant, which this is not.",
        named.collect(),
        &["Make the channel before anybody uses it; look for the way on which it is not made"],
    ))
}

/// Strands that wait for what no other comes to give.
fn left_alone(runtime: &StrandRuntime) -> Option<Finding> {
    let strands = &runtime.runtime.strands;
    let alone: Vec<&Strand> = strands.iter().filter(|strand| is_alone(strand)).collect();
    // A wait group counts those who were there, a lock was taken; a channel may find somebody who comes later.
    let is = |strand: &&&Strand, known: fn(WaitKind) -> bool| {
        strand.wait.as_ref().is_some_and(|wait| known(wait.kind))
    };
    let counts = alone.iter().find(|strand| is(strand, |kind| kind == WaitKind::WaitGroup));
    let taken = || alone.iter().find(|strand| is(strand, WaitKind::is_held));
    let first = counts.or_else(taken).or(alone.first())?;
    let wait = first.wait.as_ref()?;
    let same: Vec<&&Strand> =
        alone.iter().filter(|one| one.wait.as_ref().is_some_and(|other| other.kind == wait.kind)).collect();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for strand in &same {
        *places.entry(runtime.place(strand).unwrap_or_default()).or_default() += 1;
    }
    let (count, word) = (same.len(), first.kind.word());
    let most = places.iter().max_by_key(|(_, count)| **count)?;
    let (who, waits) =
        if count == 1 { (format!("1 {word}"), "waits") } else { (format!("{count} {word}s"), "wait") };
    let mut evidence: Vec<Evidence> = places
        .iter()
        .take(NAMED)
        .map(|(place, count)| fact(format!("{count} in {place}"), Some(Value::Count(*count as f64))))
        .collect();
    evidence.extend(wait.nobody.iter().map(|why| fact(why.clone(), None)));
    if let Some(object) = &wait.object {
        let at = wait.address.map_or(String::new(), |at| format!(" at {at:#x}"));
        evidence.push(fact(format!("what is waited for: `{object}`{at} ({})", wait.reason), None));
    }
    if let Some(start) = &first.started_at {
        evidence.push(fact(format!("started by {}", start.function), None));
    }
    // `main` may wait for goroutines that are never to end: that is how a server rests, and nothing hangs behind it.
    let goes_on = strands.iter().any(|strand| !strand.of_runtime && !is_alone(strand));
    let rests = count == 1 && goes_on && first.kind == StrandKind::Goroutine && first.id.0 == 1;
    let (severity, advice) = match wait.kind {
        WaitKind::WaitGroup => (
            if rests { Severity::Info } else { Severity::Warning },
            "Look for a way out of what is counted (an error, a panic) that leaves `Done` out; defer it",
        ),
        // Another goroutine may unlock it that is started later, or is told to.
        kind if kind.is_held() => (
            Severity::Notice,
            "Look for a way out between `Lock` and `Unlock` (an error, an early return) that leaves `Unlock` out; defer it",
        ),
        _ => {
            (Severity::Notice, "Look for the one that should take: has it ended, or gone on without taking?")
        }
    };
    Some(finding(
        (severity, (count as f64 / runtime.runtime.strands.len().max(1) as f64).clamp(0.1, 0.9)),
        format!(
            "{who} {waits} for {} in {}, and nobody is left who would end that",
            wait.kind.words(),
            most.0
        ),
        "What is ahead of every other one was followed in the code, with the values that it has: none comes to end this wait. \
                      One that is started later could, so that this is very likely, and not certain.",
        evidence,
        &[advice, "Look a second time: do they still stand there?"],
    ))
}

fn is_alone(strand: &Strand) -> bool {
    !strand.of_runtime
        && strand
            .wait
            .as_ref()
            .is_some_and(|wait| wait.nobody.is_some() && !wait.ends_by_itself && wait.owners.is_empty())
}

/// Threads that wait at one monitor for different things: who notifies one wakes any of them.
fn mixed(runtime: &StrandRuntime) -> Option<Finding> {
    let strands = &runtime.runtime.strands;
    let mut monitors: BTreeMap<Avma, Vec<&Strand>> = BTreeMap::new();
    for strand in strands.iter().filter(|strand| !strand.of_runtime) {
        let Some(wait) = strand.wait.as_ref() else { continue };
        // Somebody who is about to enter it, or waits with a limit, may notify.
        if let (WaitKind::Condition | WaitKind::Monitor, Some(at)) = (wait.kind, wait.address) {
            monitors.entry(at).or_default().push(strand);
        }
    }
    let is_stuck = |strand: &&Strand| {
        let wait = strand.wait.as_ref();
        wait.is_some_and(|wait| wait.kind == WaitKind::Condition && !wait.ends_by_itself && wait.wakes_one)
    };
    let found = monitors.values().filter(|waiters| waiters.iter().all(is_stuck)).filter_map(|waiters| {
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for waiter in waiters {
            *places.entry(runtime.place(waiter)?).or_default() += 1;
        }
        (places.len() > 1).then_some((waiters, places))
    });
    let (waiters, places) = found.max_by_key(|(waiters, _)| waiters.len())?;
    let object = waiters.first()?.wait.as_ref()?.object.clone().unwrap_or_default();
    let mut named: Vec<(&String, &usize)> = places.iter().collect();
    named.order_by_key(|(_, count)| std::cmp::Reverse(**count));
    let listed: Vec<String> =
        named.iter().take(NAMED).map(|(place, count)| format!("{count} in {place}")).collect();
    Some(finding(
        (Severity::Notice, waiters.len() as f64 / strands.len().max(1) as f64),
        format!(
            "{} threads wait to be notified at one monitor (`{object}`) in different places: {}",
            waiters.len(),
            listed.join(", ")
        ),
        "All of them are in `wait()` of the same object, without a time limit, nobody holds it or is about to enter it, and its \
                      class calls `notify()`, which wakes any one of them: where that is one who waits for something else, it waits on, and the \
                      notification is lost. Whether somebody will come to notify them is not known: a program at rest may look the same.",
        named
            .iter()
            .take(NAMED)
            .map(|(place, count)| {
                fact(format!("{count} wait in {place}"), Some(Value::Count(**count as f64)))
            })
            .collect(),
        &[
            "Use `notifyAll()` where threads wait for different things at one object, or a condition for each of them",
            "Look a second time: did any of them move?",
        ],
    ))
}

fn finding(
    (severity, impact): (Severity, f64),
    title: String,
    explanation: &str,
    evidence: Vec<Evidence>,
    next_steps: &[&str],
) -> Finding {
    Finding {
        id: FindingId::NeverWoken,
        severity,
        impact,
        title,
        explanation: explanation.to_owned(),
        evidence,
        next_steps: steps(next_steps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::DumpFacts;
    use biopsy_runtimes::{RuntimeKind, RuntimeStrands, StrandId, StrandWait};

    fn goroutine(number: u64, wait: Option<StrandWait>) -> Strand {
        Strand { wait, ..Strand::new(StrandId(number), StrandKind::Goroutine) }
    }

    fn found(strands: Vec<Strand>) -> Option<(Severity, String)> {
        let mut runtime = RuntimeStrands::new(RuntimeKind::Go, b"server", 0);
        runtime.total = strands.len() as u64;
        runtime.strands = strands;
        let runtimes = [runtime];
        let strands =
            crate::dump::strands::analyze(&DumpFacts { strands: &runtimes, ..DumpFacts::default() });
        let found = find(&DumpAnalysis { strands, ..DumpAnalysis::default() })?;
        Some((found.severity, found.title))
    }

    #[test]
    fn main_may_wait_for_goroutines_that_never_end() {
        let waits = || {
            let nobody = Some("nobody comes to `Done`".to_owned());
            Some(StrandWait { nobody, ..StrandWait::of(WaitKind::WaitGroup, "semacquire") })
        };
        let severity = |strands| found(strands).map(|(severity, _)| severity);
        assert_eq!(severity(vec![goroutine(1, waits()), goroutine(5, None)]), Some(Severity::Info));
        assert_eq!(severity(vec![goroutine(1, waits())]), Some(Severity::Warning), "nobody is left at all");
        assert_eq!(severity(vec![goroutine(1, None), goroutine(5, waits())]), Some(Severity::Warning));
    }

    #[test]
    fn a_channel_that_is_nil_is_told_before_who_waits_behind() {
        let nil =
            StrandWait { never_ends: true, ..StrandWait::of(WaitKind::ChannelSend, "chan send (nil chan)") };
        let rest = StrandWait { never_ends: true, ..StrandWait::of(WaitKind::Select, "select (no cases)") };
        let (severity, title) =
            found(vec![goroutine(1, Some(rest.clone())), goroutine(5, Some(nil))]).unwrap();
        assert_eq!(severity, Severity::Warning);
        assert!(title.starts_with("1 goroutine waits at a channel that is nil"), "{title}");
        assert_eq!(found(vec![goroutine(1, Some(rest))]), None, "how a program rests");
    }

    #[test]
    fn nobody_is_left_to_signal_is_a_notice_and_no_signal_at_all_a_warning() {
        let said = |nobody| {
            let waiters = vec![Tid(3), Tid(4)];
            let stuck = StuckWait { waiters, nobody, ..StuckWait::default() };
            let found = find(&DumpAnalysis { stuck: vec![stuck], ..DumpAnalysis::default() }).unwrap();
            (found.severity, found.title)
        };
        let (severity, title) = said(Nobody::IsLeft);
        assert_eq!(severity, Severity::Notice);
        assert!(
            title.starts_with("2 threads wait for") && title.contains("nobody is left to signal"),
            "{title}"
        );
        let (severity, title) = said(Nobody::Signals);
        assert_eq!(severity, Severity::Warning);
        assert!(title.contains("no code of the program signals"), "{title}");
    }

    #[test]
    fn what_nobody_is_left_for_is_told_by_what_it_is() {
        type Row = (Nobody, Severity, &'static str);
        let rows: [Row; 4] = [
            (Nobody::IsLeft, Severity::Notice, "nobody is left to signal"),
            (Nobody::GaveBack, Severity::Warning, "has not one slot left, and nobody has one"),
            (Nobody::LetGo, Severity::Notice, "is held, and no thread is where it would give it back"),
            (Nobody::Signals, Severity::Warning, "no code of the program signals"),
        ];
        for (nobody, severity, words) in rows {
            let stuck = StuckWait { waiters: vec![Tid(3)], nobody, ..StuckWait::default() };
            let found = find(&DumpAnalysis { stuck: vec![stuck], ..DumpAnalysis::default() }).unwrap();
            assert_eq!((found.id, found.severity), (FindingId::NeverWoken, severity), "{words}");
            assert!(
                found.title.starts_with("1 thread waits for") && found.title.ends_with(words),
                "{}",
                found.title
            );
            assert!(found.evidence.iter().any(|one| one.text.starts_with("how that is known")), "{words}");
            assert!(!found.explanation.is_empty() && found.next_steps.len() == 2, "{words}");
        }
        assert_eq!(find(&DumpAnalysis::default()), None);
    }

    #[test]
    fn goroutines_whom_nobody_ends_a_wait_for_are_told_by_its_kind() {
        let waits = |kind| {
            let nobody = Some("nobody else knows it".to_owned());
            StrandWait { nobody, ..StrandWait::of(kind, "waits") }
        };
        let rest = || goroutine(1, None);
        let of = |wait| found(vec![rest(), goroutine(5, Some(wait)), goroutine(6, None)]);
        for (kind, severity) in [
            (WaitKind::WaitGroup, Severity::Warning),
            (WaitKind::Mutex, Severity::Notice),
            (WaitKind::ChannelSend, Severity::Notice),
            (WaitKind::ChannelReceive, Severity::Notice),
        ] {
            let (found, title) = of(waits(kind)).expect("nobody is left");
            assert_eq!(found, severity, "{title}");
            assert!(
                title.starts_with("1 goroutine waits for")
                    && title.ends_with("nobody is left who would end that"),
                "{title}"
            );
        }
        // A group that is counted says more than a lock, and that more than a channel.
        let all = [WaitKind::ChannelSend, WaitKind::Mutex, WaitKind::WaitGroup];
        let all = all.iter().zip(5..).map(|(kind, number)| goroutine(number, Some(waits(*kind))));
        let (_, title) = found(all.collect()).expect("three that wait");
        assert!(title.contains(WaitKind::WaitGroup.words()), "{title}");
        // Somebody has it, or it ends by itself, or nothing is known of it.
        let timed = StrandWait { ends_by_itself: true, ..waits(WaitKind::ChannelReceive) };
        let unknown = StrandWait::of(WaitKind::ChannelReceive, "chan receive");
        assert_eq!((of(timed), of(unknown)), (None, None));
        let of_runtime = Strand { of_runtime: true, ..goroutine(5, Some(waits(WaitKind::Mutex))) };
        assert_eq!(found(vec![rest(), of_runtime]), None);
    }

    #[test]
    fn threads_at_one_monitor_for_different_things_may_wake_the_wrong_one() {
        let waiter = |number: u64, place: &str, wait: &StrandWait| Strand {
            frames: vec![biopsy_runtimes::StrandFrame { function: place.into(), ..Default::default() }],
            ..Strand { wait: Some(wait.clone()), ..Strand::new(StrandId(number), StrandKind::Thread) }
        };
        let said = |waiters: &[(&str, &StrandWait)]| {
            let mut runtime = RuntimeStrands::new(RuntimeKind::Java, b"java", 0);
            runtime.strands =
                waiters.iter().zip(1..).map(|((place, wait), number)| waiter(number, place, wait)).collect();
            let runtimes = [runtime];
            let strands =
                crate::dump::strands::analyze(&DumpFacts { strands: &runtimes, ..DumpFacts::default() });
            find(&DumpAnalysis { strands, ..DumpAnalysis::default() }).map(|found| found.title)
        };
        let wait = StrandWait {
            address: Some(Avma(0x1000)),
            object: Some("shop.Box".to_owned()),
            wakes_one: true,
            ..StrandWait::of(WaitKind::Condition, "waiting")
        };
        let title = said(&[("shop.Put.run", &wait), ("shop.Take.run", &wait), ("shop.Take.run", &wait)]);
        let expected = "3 threads wait to be notified at one monitor (`shop.Box`) in different places: 2 in shop.Take.run, 1 in shop.Put.run";
        assert_eq!(title.as_deref(), Some(expected));
        assert_eq!(said(&[("shop.Take.run", &wait), ("shop.Take.run", &wait)]), None, "all want the same");
        let all = StrandWait { wakes_one: false, ..wait.clone() };
        assert_eq!(said(&[("shop.Put.run", &all), ("shop.Take.run", &all)]), None, "`notifyAll`");
        let timed = StrandWait { ends_by_itself: true, ..wait.clone() };
        assert_eq!(
            said(&[("shop.Put.run", &wait), ("shop.Take.run", &timed)]),
            None,
            "one goes on, and notifies"
        );
        let enters = StrandWait { kind: WaitKind::Monitor, ..wait.clone() };
        assert_eq!(
            said(&[("shop.Put.run", &wait), ("shop.Take.run", &wait), ("shop.Put.go", &enters)]),
            None
        );
    }
}
