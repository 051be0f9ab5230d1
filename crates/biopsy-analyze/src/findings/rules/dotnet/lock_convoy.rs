//! Threads queue for a lock, by the runtime's own account.

use crate::findings::dotnet::{at_least, code, heard, in_place, in_table, of_process, place_of, time};
use crate::findings::evidence::{at, fact, grade, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Value};
use crate::findings::scene::Scene;
use crate::runtimes::ContentionRow;
use crate::trace::function::FunctionHandle;
use crate::words::{cores, cpus, number, percent, threads};

/// Mean number of threads in a queue from which on it is one.
const QUEUE: f64 = 1.5;
/// Fewer waits say little.
const WAITS: u64 = 10;
/// Two threads take turns; three are a queue.
const THREADS: usize = 3;
/// Share of their time that the threads of the queue wait: a fifth is a lot to lose, half of it makes the lock the main thing they do.
const SHARE: [f64; 3] = [0.5, 0.2, 0.05];
/// What the holder had waited for is named from this share of the waits on.
const EXPLAINED: f64 = 0.2;

pub(crate) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let (heard, number_of_row) = heard(scene)
        .filter_map(|heard| {
            let rows = heard.summary.contention.iter().enumerate();
            let (number, row) =
                rows.filter(|(_, row)| row.count >= WAITS).max_by_key(|(_, row)| row.total)?;
            Some((row.total, heard, number))
        })
        .max_by_key(|(total, _, number)| (*total, std::cmp::Reverse(*number)))
        .map(|(_, heard, number)| (heard, number))?;
    let summary = heard.summary;
    let row = summary.contention.get(number_of_row)?;
    let seconds = summary.seconds.max(1e-9);
    let queue = row.total.as_secs_f64() / seconds;
    if row.threads < THREADS || queue < QUEUE {
        return None;
    }
    let share = (row.total.as_secs_f64() / (seconds * row.threads as f64)).min(1.0);
    let severity = grade(share, SHARE)?;
    let place = in_place(&row.place);
    let mut evidence = vec![in_table(
        summary,
        "contention",
        number_of_row,
        format!(
            "{} waits of {} threads{place}, {} in all, {queue:.1} threads at a time on average, {} at most",
            number(row.count as f64),
            row.threads,
            time(row.total),
            time(row.longest)
        ),
        Some(Value::Time(row.total)),
    )];
    evidence.extend(owners(scene, row));
    evidence.extend(holder(scene, row));
    if let Some(used) = scene.cores {
        evidence.push(fact(
            format!("meanwhile {} of {} are used", cores(used), cpus(scene.cpus)),
            Some(Value::Cores(used)),
        ));
    }
    Some(Finding {
        id: FindingId::LockConvoy,
        severity,
        impact: share,
        title: format!(
            "Lock convoy{place}: {} wait {}{} of the time for {}{}",
            threads(row.threads),
            at_least(&heard, "contention"),
            percent(share),
            if row.locks == 1 { "one lock" } else { "a lock" },
            of_process(scene, summary)
        ),
        explanation: format!(
            "On average {queue:.1} threads queue there at the same time, so what the lock protects runs one at a time. Most likely \
             the lock is held too long or taken too often. It is not a deadlock: the threads do get on. The runtime itself \
             counted these waits."
        ),
        evidence,
        next_steps: steps(&[
            "See what runs while the lock is held: input, output or sleeping under a lock is the usual cause",
            "Hold the lock for less, split it, or take it less often",
        ]),
    })
}

fn owners(scene: &Scene<'_>, row: &ContentionRow) -> Option<Evidence> {
    let (owner, count) = row.owner?;
    let locks = match row.locks {
        0 => String::new(),
        1 => "one lock; ".to_owned(),
        locks => format!("{locks} locks; "),
    };
    let text = format!(
        "{locks}most often held by {}, in {} of the longest waits",
        scene.thread_name(owner),
        number(count as f64)
    );
    Some(at(Reference::Thread(owner), text, Some(Value::Count(count as f64))))
}

/// What the thread that let others in had waited for just before: most likely while it held the lock.
fn holder(scene: &Scene<'_>, row: &ContentionRow) -> Option<Evidence> {
    let same = |function: Option<FunctionHandle>| {
        place_of(scene, function).is_some_and(|name| name == code(&row.place.function))
    };
    let behind = scene
        .analysis
        .waits
        .behind
        .iter()
        .filter(|behind| same(behind.function) && behind.share >= EXPLAINED)
        .max_by_key(|behind| behind.count)?;
    let place =
        scene.function_name(behind.cause_function).map_or(String::new(), |name| format!(" in {name}"));
    Some(at(
        behind.cause_function.map_or(Reference::Recording, Reference::WaitFunction),
        format!(
            "in {} of the waits the thread that handed the lock on had just waited for {}{place}: most likely while it held the lock",
            percent(behind.share),
            behind.cause.words()
        ),
        Some(Value::Share(behind.share)),
    ))
}
