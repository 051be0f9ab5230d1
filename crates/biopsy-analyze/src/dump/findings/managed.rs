//! What managed code does wrong.

use biopsy_dotnet::tasks::FULL_CHANNEL;

use super::{at, fact, severity_by, share, steps};
use crate::dump::managed::ExceptionRow;
use crate::dump::{DumpAnalysis, DumpThread, LockOwner};
use crate::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::findings::words::threads;

/// Threads that are named one by one.
const NAMED: usize = 5;

/// Workers of the pool block until tasks complete, which need workers of the pool.
pub(super) fn sync_over_async(analysis: &DumpAnalysis) -> Option<Finding> {
    let pool = analysis.managed.as_ref()?.pool.as_ref()?;
    let count = pool.waiting_for_tasks.len();
    let severity = severity_by(count, usize::MAX, 8, 3)?;
    let mut evidence: Vec<Evidence> = pool
        .places
        .iter()
        .take(NAMED)
        .map(|(place, count)| {
            fact(format!("{} in `{place}`", threads(*count)), Some(Value::Count(*count as f64)))
        })
        .collect();
    evidence.push(fact(
        format!("{} of {} workers wait for work", pool.idle, pool.workers),
        Some(Value::Count(pool.idle as f64)),
    ));
    let place =
        pool.places.first().map_or(String::new(), |(place, _)| format!(", most of them in `{place}`"));
    Some(Finding {
        id: FindingId::PoolStarvation,
        severity,
        impact: share(analysis, count),
        title: format!("{count} of {} workers of the thread pool block until a task completes{place}", pool.workers),
        explanation: "A worker that waits for a task (`.Result`, `.Wait()`, `GetAwaiter().GetResult()`) does nothing, and what it waits \
                      for often needs a worker itself. The pool then adds one or two threads a second: everything gets slow while the \
                      CPU is idle."
            .to_owned(),
        evidence,
        next_steps: steps(&["Await these tasks instead of blocking on them, up to the caller that is asynchronous already"]),
    })
}

/// Many asynchronous operations stand at the same `await`.
pub(super) fn operations(analysis: &DumpAnalysis) -> Option<Finding> {
    let operations = analysis.managed.as_ref()?.operations.as_ref()?;
    // Connections on which nobody sends are not stuck, nor are loops that pause. What only the framework awaits is behind
    // something else.
    const IDLE: &[&str] = &["a socket", "a pipe", "a delay", FULL_CHANNEL];
    let first = operations
        .groups
        .iter()
        .filter(|group| !IDLE.contains(&group.awaits.as_str()) && group.has_own_code())
        .max_by_key(|group| group.count)?;
    let of_one = first.object.as_ref();
    let count = usize::try_from(first.count).unwrap_or(usize::MAX);
    let severity = match of_one {
        Some(_) => severity_by(count, usize::MAX, 100, 20)?,
        None => severity_by(count, usize::MAX, usize::MAX, 50)?,
    };
    let method = first.methods.first().map_or("an async method", String::as_str);
    let what = match of_one {
        Some((address, name)) => format!("one `{name}` at {address:#x}"),
        None => first.awaits.clone(),
    };
    let mut evidence = vec![fact(
        format!("`{}` awaits {}", first.methods.join("`, awaited by `"), first.awaits),
        Some(Value::Count(first.count as f64)),
    )];
    evidence.push(fact(
        format!("{} asynchronous operations are under way in all", operations.pending),
        Some(Value::Count(operations.pending as f64)),
    ));
    if let Some(requests) = operations.requests.filter(|requests| *requests > 0) {
        let text = format!("{requests} requests of clients are being worked on");
        evidence.push(fact(text, Some(Value::Count(requests as f64))));
    }
    Some(Finding {
        id: FindingId::WaitingOperations,
        severity,
        impact: (first.count as f64 / operations.pending.max(1) as f64).min(1.0) * 0.5,
        title: format!("{count} operations of `{method}` await {what}"),
        explanation: "No thread shows these: each is an async method that stands at an `await`. When their number grows from one look to \
                      the next, what they wait for is never given: a semaphore that nobody releases, a channel that nobody reads, a \
                      task that nobody completes."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Look again in a while: does the number grow?",
            "See who should release, read or complete what they wait for, and whether an exception goes past it",
        ]),
    })
}

/// Writers of a bounded channel wait for a reader that does not come.
pub(super) fn full_channel(analysis: &DumpAnalysis) -> Option<Finding> {
    let operations = analysis.managed.as_ref()?.operations.as_ref()?;
    let writers: Vec<_> = operations
        .groups
        .iter()
        .filter(|group| group.awaits == FULL_CHANNEL && group.has_own_code())
        .collect();
    let count: u64 = writers.iter().map(|group| group.count).sum();
    let severity = severity_by(usize::try_from(count).unwrap_or(usize::MAX), usize::MAX, 10, 1)?;
    let method = writers.first()?.methods.first().map_or("an async method", String::as_str);
    let operation = if count == 1 { "operation waits" } else { "operations wait" };
    Some(Finding {
        id: FindingId::FullChannel,
        severity,
        impact: (count as f64 / operations.pending.max(1) as f64).min(1.0) * 0.6,
        title: format!("{count} {operation} for room in a full channel, in `{method}`"),
        explanation: "A bounded channel makes its writers wait while it is full. Now and then that is as intended: it keeps a fast writer \
                      from running ahead. Where writers wait for long, the reader is too slow, has ended, or itself waits for something."
            .to_owned(),
        evidence: writers
            .iter()
            .take(NAMED)
            .map(|group| {
                fact(
                    format!("{} of `{}`", group.count, group.methods.join("`, awaited by `")),
                    Some(Value::Count(group.count as f64)),
                )
            })
            .collect(),
        next_steps: steps(&[
            "Look for the method that reads the channel among the other asynchronous operations: what does it await?",
            "Look again in a while: does the number grow?",
        ]),
    })
}

/// Nothing is finalized while the one thread for it waits.
pub(super) fn finalizer(analysis: &DumpAnalysis) -> Option<Finding> {
    let thread =
        analysis.threads.iter().find(|thread| thread.managed.as_ref().is_some_and(|one| one.finalizer))?;
    let lock = thread.lock.as_ref().filter(|lock| lock.object.is_some())?;
    let LockOwner::Thread(owner) = lock.owner else { return None };
    let holder = analysis.thread(owner).map_or_else(|| format!("thread {owner}"), DumpThread::label);
    let place = own(analysis, thread).map_or(String::new(), |place| format!(" in `{place}`"));
    let mut evidence = vec![at(
        Reference::Thread(thread.tid),
        format!("{} waits for {}, which {holder} holds{place}", thread.label(), lock.what()),
    )];
    if let Some(place) = analysis.thread(owner).and_then(|owner| own(analysis, owner)) {
        evidence.push(at(Reference::Thread(owner), format!("meanwhile {holder} is in `{place}`")));
    }
    Some(Finding {
        id: FindingId::FinalizerBlocked,
        severity: Severity::Critical,
        impact: 0.6,
        title: format!("The finalizer thread waits for a lock that {holder} holds{place}"),
        explanation: "One thread runs all finalizers. While it waits, no object that has one is ever freed, and memory and handles grow \
                      until the process ends."
            .to_owned(),
        evidence,
        next_steps: steps(&["Take no locks in finalizers; release resources in `Dispose`, and let a `SafeHandle` do the rest"]),
    })
}

/// An exception that nobody caught, or that ended the process.
pub(super) fn exception(analysis: &DumpAnalysis) -> Option<Finding> {
    let crash = analysis.crash.as_ref().filter(|crash| crash.signal == 6 || crash.signal == 11)?;
    // Killed from outside: what the thread threw last has nothing to do with it.
    if crash.sender.is_some() {
        return None;
    }
    let thread = analysis.thread(crash.thread)?;
    let exception = thread.managed.as_ref()?.exception.as_ref()?;
    // Where it was thrown is in the exception; the stack may have gone on since.
    let thrown = exception.thrown_in.first().cloned().or_else(|| own(analysis, thread));
    let place = thrown.map_or(String::new(), |place| format!(" in `{place}`"));
    let mut evidence =
        vec![at(Reference::Thread(thread.tid), format!("thrown in {}{place}", thread.label()))];
    evidence.push(fact(exception.words(), None));
    evidence.extend(exception.inner.iter().map(|inner| {
        let place = inner.thrown_in.first().map_or(String::new(), |place| format!(", thrown in `{place}`"));
        fact(format!("because of {}{place}", inner.words()), None)
    }));
    // `EEPolicy` makes one of these when the program asks for its end.
    const FATAL: &str = "System.ExecutionEngineException";
    let title = if exception.type_name == FATAL {
        let cause =
            exception.inner.last().map_or(String::new(), |inner| format!(", because of {}", inner.type_name));
        format!(
            "The program ended itself by `Environment.FailFast`{place}{cause}, or the runtime met a fatal error"
        )
    } else {
        format!("{} ended the process{place}", what(exception))
    };
    Some(Finding {
        id: FindingId::UnhandledException,
        severity: Severity::Critical,
        impact: 1.0,
        title,
        explanation: "The runtime ends a process when an exception leaves a thread's outermost method, or when the process asks for it. \
                      The stack of the thread shows who threw it."
            .to_owned(),
        evidence,
        next_steps: steps(&["Look at the method that threw it, and at the inner exceptions, which came first"]),
    })
}

fn what(exception: &ExceptionRow) -> String {
    match exception.inner.last() {
        Some(inner) => format!("{}, caused by {},", exception.type_name, inner.type_name),
        None => exception.type_name.clone(),
    }
}

fn own(analysis: &DumpAnalysis, thread: &DumpThread) -> Option<String> {
    let group = analysis.groups.get(thread.group)?;
    group.own_frame().filter(|row| row.managed).map(|row| row.label())
}
