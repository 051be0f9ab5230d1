//! Many threads queue for one lock, by the scheduler's account.

use crate::findings::evidence::{at, fact, grade, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::findings::harm::waits_for_work;
use crate::findings::scene::Scene;
use crate::trace::held::{Held, is_rest};
use crate::trace::wait_sites::WaitSite;
use crate::trace::waits::{Behind, Convoy, Party, WaitReason};
use crate::words::{cores, cpus, number, percent, seconds, threads};

/// Fewer threads than this make no queue.
pub(super) const QUEUE: usize = 3;
/// Mean number of threads in the queue: one waits behind each holder anyway.
const MEAN_QUEUE: f64 = 1.5;
/// Share of the time of the threads of the queue: a fifth is a lot to lose; half of it makes the lock the main thing they do.
const SHARE: [f64; 3] = [0.5, 0.2, 0.1];
/// The same of what may be a condition: threads that pass work around wake each other too.
const SHARE_OF_CONDITION: f64 = 0.5;
/// Share of the waits behind others' disk accesses from which on the disk is what they wait for; and from which on what the holder had
/// waited for is named.
const EXPLAINED: f64 = 0.2;
/// Share of the time in the queue behind a holder that waits for work, from which on the threads take turns at it: nobody is kept from
/// anything.
const TURNS: f64 = 0.5;
/// Of the time with a queue, as much has to be known of the holders.
const KNOWN: f64 = 0.1;
/// One at a time waits for work with a lock held. More: they give it back while they wait, as at a condition.
const ONE_AT_A_TIME: f64 = 1.1;
/// How much of the time in the queue counts where nobody is kept from anything.
const AT_REST: f64 = 0.1;
/// Share of the waits from which on what their holder had waited for is in the title.
const MOSTLY: f64 = 0.5;
/// Share of the holders' time in one kind of wait, from which on it is named.
const NAMED: f64 = 0.3;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let convoys = scene.analysis.waits.convoys.iter();
    let convoys = convoys.filter(|convoy| convoy.threads >= QUEUE && convoy.mean_queue >= MEAN_QUEUE);
    let (convoy, severity) = convoys
        .filter_map(|convoy| Some((convoy, severity(scene, convoy)?)))
        .max_by(|a, b| (a.1, a.0.time).cmp(&(b.1, b.0.time)))?;
    let place = scene.function_name(convoy.function);
    let in_place = place.as_ref().map_or(String::new(), |place| format!(" in {place}"));
    if takes_turns(scene, convoy) {
        return Some(turns(scene, convoy, &in_place));
    }
    let lock = match convoy.reason {
        WaitReason::KernelLock => "a lock inside the kernel",
        WaitReason::Condition => "what is most likely a lock",
        _ => "a lock",
    };
    let mut explanation = format!(
        "On average {:.1} threads queue there at the same time, so what the lock protects runs one at a time. Most \
         likely the lock is held too long or taken too often. It is not a deadlock: the threads do get on, and it \
         is not the CPU that is short.",
        convoy.mean_queue
    );
    if convoy.reason == WaitReason::Condition {
        explanation.push_str(
            " The threads wait on a condition, which is what locks of language runtimes are made of; that they wake each \
             other all the time tells a lock from a pool of idle workers, though workers that pass work around look alike.",
        );
    }
    Some(Finding {
        id: FindingId::LockConvoy,
        severity,
        impact: convoy.share,
        title: format!(
            "Lock convoy{in_place}: {} wait {} of the time for {lock}{}",
            threads(convoy.threads),
            percent(convoy.share),
            held_through(scene, convoy)
        ),
        explanation,
        evidence: convoy_evidence(scene, convoy),
        next_steps: steps(&[
            "See what runs while the lock is held: input, output or sleeping under a lock is the usual cause",
            "Hold the lock for less, split it, or take it less often",
            "See under `activated by` who hands the lock on",
        ]),
    })
}

/// What is known of those who have the lock that a queue is for.
fn held<'s>(scene: &'s Scene<'_>, convoy: &Convoy) -> Option<&'s Held> {
    let site = WaitSite { reason: convoy.reason, function: convoy.function };
    scene
        .facts
        .waits
        .held
        .get(&site)
        .filter(|held| held.time.as_secs_f64() >= convoy.time.as_secs_f64() * KNOWN)
}

/// Whoever has the lock waits for work with it, so that the others wait for work too.
fn takes_turns(scene: &Scene<'_>, convoy: &Convoy) -> bool {
    let Some(held) = held(scene, convoy).filter(|held| held.fed_share() >= TURNS) else {
        return false;
    };
    let Some(rest) = held.longest(is_rest) else { return false };
    let there = scene.facts.waits.by_thread.iter().filter(|((_, site), _)| site == rest);
    let at_a_time: f64 = there.map(|(_, sum)| scene.mean_threads(sum.time)).sum();
    at_a_time <= ONE_AT_A_TIME
}

fn turns(scene: &Scene<'_>, convoy: &Convoy, in_place: &str) -> Finding {
    let share = held(scene, convoy).map_or(0.0, Held::fed_share);
    let mut evidence = convoy_evidence(scene, convoy);
    evidence.insert(
        0,
        at(
            convoy.function.map_or(Reference::Recording, Reference::WaitFunction),
            format!(
                "for {} of the time in the queue whoever had the lock waited for work, which comes from threads that nobody there wakes",
                percent(share)
            ),
            Some(Value::Share(share)),
        ),
    );
    Finding {
        id: FindingId::LockConvoy,
        severity: Severity::Notice,
        impact: convoy.share * AT_REST,
        title: format!("Workers take turns{in_place}: {} share one source of work under a lock", threads(convoy.threads)),
        explanation: "One of them waits for the next piece of work and has the lock meanwhile, the others wait for the lock. As long as there is \
                      no more work than they can do, nothing is lost by it. With more work the lock passes from one to the next for each \
                      piece; a queue that gives its lock back while it waits does not."
            .to_owned(),
        evidence,
        next_steps: steps(&["See how long pieces of work lie in the queue: if they do not, nothing is wrong here"]),
    }
}

fn severity(scene: &Scene<'_>, convoy: &Convoy) -> Option<Severity> {
    // Stacks that say lock, and no function of the program in them: a runtime's own threads, among themselves.
    if convoy.function.is_none() && convoy.reason == WaitReason::Lock {
        return None;
    }
    if convoy.reason != WaitReason::Condition {
        return grade(convoy.share, SHARE);
    }
    // Threads that pass work around wake each other too. A name can tell; without one it stays a notice.
    let row = convoy.function.and_then(|function| scene.row(function)).filter(|row| row.named);
    let for_work = row.is_some_and(|row| waits_for_work(&row.name));
    let explained = scene.analysis.waits.behind.iter().any(|behind| {
        behind.function == convoy.function && behind.cause == WaitReason::Disk && behind.share >= EXPLAINED
    });
    if for_work || explained {
        return None;
    }
    let warning = if row.is_some() { SHARE_OF_CONDITION } else { f64::INFINITY };
    grade(convoy.share, [f64::INFINITY, warning, SHARE_OF_CONDITION])
}

fn convoy_evidence(scene: &Scene<'_>, convoy: &Convoy) -> Vec<Evidence> {
    let mut evidence = vec![at(
        convoy.function.map_or(Reference::Recording, Reference::WaitFunction),
        format!(
            "{} waited there for {} in all, {:.1} at a time on average",
            threads(convoy.threads),
            seconds(convoy.time.as_secs_f64()),
            convoy.mean_queue
        ),
        Some(Value::Time(convoy.time)),
    )];
    let rows = &scene.analysis.waits.functions;
    if let Some(row) = rows.iter().find(|row| row.function == convoy.function && row.reason == convoy.reason)
        && !row.groups.is_empty()
    {
        evidence.push(fact(format!("the waiting threads are `{}`", row.groups.join("`, `")), None));
    }
    if let Some(handed_on) = convoy.handed_on {
        evidence.push(fact(
            format!(
                "{} of the waiting there was ended by a thread that queues there too: the lock is handed on",
                percent(handed_on)
            ),
            Some(Value::Share(handed_on)),
        ));
    }
    evidence.extend(activation_evidence(scene, convoy));
    evidence.extend(holder_evidence(scene, convoy));
    if let Some(used) = scene.cores {
        evidence.push(fact(
            format!("meanwhile {} of {} are used", cores(used), cpus(scene.cpus)),
            Some(Value::Cores(used)),
        ));
    }
    evidence
}

/// What the thread that hands the lock on had most often waited for just before.
fn behind<'s>(scene: &'s Scene<'_>, convoy: &Convoy) -> Option<&'s Behind> {
    let rows = scene.analysis.waits.behind.iter();
    let own = rows.filter(|row| row.function == convoy.function && row.reason == convoy.reason);
    own.max_by_key(|row| row.count).filter(|row| row.share >= EXPLAINED)
}

/// For a title: what its holder most likely waits for.
fn held_through(scene: &Scene<'_>, convoy: &Convoy) -> String {
    let Some(row) = behind(scene, convoy).filter(|row| row.share >= MOSTLY) else { return String::new() };
    let place = scene.function_name(row.cause_function).map_or(String::new(), |name| format!(" in {name}"));
    format!(", whose holder most likely waits for {}{place}", row.cause.words())
}

/// The same of what makes nobody else wait by itself: an answer of another thread, or what nothing tells.
fn held_evidence(scene: &Scene<'_>, convoy: &Convoy) -> Option<Evidence> {
    let held = held(scene, convoy)?;
    let site = held.longest(|_| true)?;
    let share = held.share(|reason| reason == site.reason);
    if share < NAMED {
        return None;
    }
    let place = scene.function_name(site.function).map_or(String::new(), |name| format!(" in {name}"));
    let text = format!(
        "for {} of the time in the queue whoever had the lock had just waited for {}{place}",
        percent(share),
        site.reason.words()
    );
    Some(at(
        site.function.map_or(Reference::Recording, Reference::WaitFunction),
        text,
        Some(Value::Share(share)),
    ))
}

/// What the thread that hands the lock on had waited for just before: most likely while it held the lock.
fn holder_evidence(scene: &Scene<'_>, convoy: &Convoy) -> Option<Evidence> {
    let Some(row) = behind(scene, convoy) else { return held_evidence(scene, convoy) };
    let place = scene.function_name(row.cause_function).map_or(String::new(), |name| format!(" in {name}"));
    Some(at(
        row.cause_function.map_or(Reference::Recording, Reference::WaitFunction),
        format!(
            "in {} of the waits the thread that handed the lock on had just waited for {}{place}: most likely while it held the lock",
            percent(row.share),
            row.cause.words()
        ),
        Some(Value::Share(row.share)),
    ))
}

fn activation_evidence(scene: &Scene<'_>, convoy: &Convoy) -> Option<Evidence> {
    let best = scene.analysis.waits.activations.iter().find(|row| row.reason == convoy.reason)?;
    let groups = &scene.analysis.threads.groups;
    let woken = &groups.get(best.woken)?.name;
    let waker = match &best.waker {
        Party::Group(group) => format!("`{}`", groups.get(*group)?.name),
        Party::Interrupt => "an interrupt".to_owned(),
        Party::Elsewhere => "another process".to_owned(),
    };
    Some(at(
        Reference::Group(best.woken),
        format!("`{woken}` was activated by {waker} {} times", number(best.count as f64)),
        Some(Value::Count(best.count as f64)),
    ))
}
