//! Threads, goroutines or tasks wait without a limit for an answer that another part of the program has to give, and nothing in memory
//! says who would give it.
//!
//! Where memory says it (a circle, a holder, nobody left) other rules speak. What workers wait for, work, is silent here: the table below
//! has what somebody waits for who was promised an answer.

pub(in crate::findings::rules) mod at_exit;
pub(in crate::findings::rules) mod database_lock;
pub(in crate::findings::rules) mod input_wait;
pub(in crate::findings::rules) mod own_ends;

use biopsy_model::order::Order as _;
use std::collections::{BTreeMap, BTreeSet};

use crate::dump::strands::{RuntimeKind, Strand, StrandKind, StrandRuntime, StrandState, WaitKind};
use crate::dump::{DumpAnalysis, DumpThread, FrameRow, FullPipe, LockKind, Movement, ThreadState};
use crate::findings::dump::NAMED;
use crate::findings::evidence::fact;
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use biopsy_model::Tid;

/// Findings that prove more stand before it.
const IMPACT: f64 = 0.15;
/// What the reader of Node calls a wait for `Atomics.notify`.
const ATOMICS_WAIT: &str = "Atomics.wait";
/// What a thread waits for that has started a program.
const END_OF_CHILD: &str = "the end of a process";
/// What a thread of Java waits for that writes to a `PipedOutputStream`: again and again for a second.
const ROOM_IN_PIPE: &str = "room in a pipe of streams (`PipedOutputStream`)";
/// Functions that wait with a limit in a loop, until what they want is there.
const IN_LOOPS: &[&str] = &["java.io.PipedInputStream.awaitSpace"];
/// Frames above the program's that are looked at for what is waited for.
const INNER: usize = 48;

/// What a function waits for, in words: an answer, or work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Awaits {
    Answer(&'static str),
    /// Of which nothing is said here; empty: nobody waits there but workers of a library.
    Work(&'static str),
}

use Awaits::{Answer, Work};

/// Functions of libraries by what they begin with, the outermost of a stack decides: who takes from a queue waits for work, whatever the
/// queue is made of.
const FUNCTIONS: &[(&str, Awaits)] = &[
    // C and C++
    ("std::__future_base::", Answer("a future")),
    ("std::future<", Answer("a future")),
    ("std::__basic_future<", Answer("a future")),
    ("std::shared_future<", Answer("a future")),
    ("std::latch::", Answer("a latch")),
    ("std::barrier<", Answer("a barrier")),
    ("std::__tree_barrier<", Answer("a barrier")),
    ("std::__atomic_wait_address<std::__barrier_phase_t", Answer("a barrier")),
    ("pthread_barrier_wait", Answer("a barrier")),
    // Go
    ("io.(*pipe).write", Answer("somebody who reads from an `io.Pipe`")),
    ("io.(*pipe).read", Work("data of an `io.Pipe`")),
    ("net/http.(*persistConn).roundTrip", Answer("the answer of an HTTP server")),
    // Rust
    ("std::sync::barrier::Barrier", Answer("a barrier")),
    ("std::sync::mpsc::SyncSender<", Answer("room in a channel")),
    ("std::sync::mpsc::Receiver<", Work("something in a channel")),
    ("crossbeam_channel::channel::Sender<", Answer("room in a channel")),
    ("crossbeam_channel::channel::Receiver<", Work("something in a channel")),
    ("flume::Sender<", Answer("room in a channel")),
    ("flume::Receiver<", Work("something in a channel")),
    // .NET
    ("System.Collections.Concurrent.BlockingCollection`1.Add", Answer("room in a `BlockingCollection`")),
    ("System.Collections.Concurrent.BlockingCollection`1.TryAdd", Answer("room in a `BlockingCollection`")),
    ("System.Collections.Concurrent.BlockingCollection", Work("something in a `BlockingCollection`")),
    ("System.Threading.PortableThreadPool", Work("")),
    ("System.Threading.LowLevelLifoSemaphore", Work("")),
    ("System.Threading.Tasks.Task", Answer("a task")),
    ("System.Runtime.CompilerServices.TaskAwaiter", Answer("a task")),
    ("System.Threading.CountdownEvent.", Answer("a countdown")),
    ("System.Threading.Barrier.", Answer("a barrier")),
    ("System.Threading.ReaderWriterLockSlim.", Answer("a `ReaderWriterLockSlim`")),
    ("System.Threading.SemaphoreSlim.", Answer("a `SemaphoreSlim`")),
    ("System.Threading.ManualResetEventSlim.", Answer("an event")),
    ("System.Threading.WaitHandle.", Answer("an event")),
    ("System.Threading.Monitor.Wait", Answer("a pulse of a monitor")),
    ("System.Threading.Thread.Join", Answer("the end of a thread")),
    ("System.Diagnostics.Process.WaitForExit", Answer(END_OF_CHILD)),
    // Java
    ("java.lang.ProcessImpl.waitFor", Answer(END_OF_CHILD)),
    ("java.lang.Process.waitFor", Answer(END_OF_CHILD)),
    ("java.util.concurrent.CountDownLatch.await", Answer("a latch")),
    ("java.util.concurrent.CyclicBarrier.", Answer("a barrier")),
    ("java.util.concurrent.Phaser.", Answer("a phaser")),
    ("java.util.concurrent.Exchanger.", Answer("an exchange")),
    ("java.util.concurrent.FutureTask.", Answer("a future")),
    ("java.util.concurrent.CompletableFuture.", Answer("a future")),
    ("java.util.concurrent.Semaphore.", Answer("a semaphore")),
    ("java.util.concurrent.locks.StampedLock.", Answer("a `StampedLock`")),
    ("java.io.PipedInputStream.awaitSpace", Answer(ROOM_IN_PIPE)),
    ("java.util.concurrent.ArrayBlockingQueue.put", Answer("room in a queue")),
    ("java.util.concurrent.LinkedBlockingQueue.put", Answer("room in a queue")),
    ("java.util.concurrent.LinkedBlockingDeque.put", Answer("room in a queue")),
    ("java.util.concurrent.SynchronousQueue.put", Answer("somebody who takes from a queue")),
    ("java.util.concurrent.ThreadPoolExecutor", Work("")),
    ("java.util.concurrent.ScheduledThreadPoolExecutor", Work("")),
    ("java.util.concurrent.ForkJoinPool.awaitWork", Work("")),
    ("java.util.concurrent.ForkJoinPool.runWorker", Work("")),
    ("java.util.concurrent.ForkJoinWorkerThread", Work("")),
    ("java.util.concurrent.ArrayBlockingQueue.", Work("something in a queue")),
    ("java.util.concurrent.LinkedBlockingQueue.", Work("something in a queue")),
    ("java.util.concurrent.LinkedBlockingDeque.", Work("something in a queue")),
    ("java.util.concurrent.LinkedTransferQueue.", Work("something in a queue")),
    ("java.util.concurrent.PriorityBlockingQueue.", Work("something in a queue")),
    ("java.util.concurrent.SynchronousQueue.", Work("something in a queue")),
    ("java.util.concurrent.DelayQueue.", Work("something in a queue")),
    ("java.lang.Thread.join", Answer("the end of a thread")),
    // Python
    ("Event.wait", Answer("an event")),
    ("Barrier.wait", Answer("a barrier")),
    ("Future.result", Answer("a future")),
    ("Future.exception", Answer("a future")),
    ("Semaphore.acquire", Answer("a semaphore")),
    ("Queue.put", Answer("room in a queue")),
    ("Queue.join", Answer("a queue that is worked off")),
    ("Queue.get", Work("something in a queue")),
    ("Thread.join", Answer("the end of a thread")),
    ("Popen.wait", Answer(END_OF_CHILD)),
    ("Popen._wait", Answer(END_OF_CHILD)),
];

/// Who waits in one place for one kind of thing.
#[derive(Default)]
pub(super) struct Group {
    pub(super) who: Vec<String>,
    pub(super) tids: Vec<Tid>,
    /// What is awaited more closely: an expression, the type of an object.
    details: Vec<String>,
    of_main: bool,
    /// The thread runs an event loop: while it stands, nobody is answered.
    stops_loop: bool,
}

/// By what is waited for and where.
pub(super) type Groups = BTreeMap<(String, String), Group>;

/// All who wait without a limit for an answer of the program.
pub(super) fn groups(analysis: &DumpAnalysis) -> Groups {
    let mut groups = Groups::new();
    for thread in native_threads(analysis) {
        of_thread(analysis, thread, &mut groups);
    }
    for runtime in &analysis.strands {
        for strand in &runtime.runtime.strands {
            of_strand(analysis, runtime, strand, &mut groups);
        }
    }
    operations(analysis, &mut groups);
    groups
}

/// Threads that no language has as its own.
pub(super) fn native_threads(analysis: &DumpAnalysis) -> impl Iterator<Item = &DumpThread> {
    let strands = analysis.strands.iter().flat_map(|one| &one.runtime.strands);
    let of_languages: BTreeSet<Tid> = strands.filter_map(|strand| strand.tid).collect();
    analysis.threads.iter().filter(move |thread| !of_languages.contains(&thread.tid))
}

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    if analysis.crash.is_some() {
        return None;
    }
    let mut groups = groups(analysis);
    // The main thread of a server waits for its end.
    let others = groups.values().any(|group| !group.of_main);
    groups.retain(|_, group| !others || !group.of_main);
    let ((what, place), first) =
        groups.iter().max_by_key(|(_, group)| (group.stops_loop, group.who.len()))?;
    let count = first.who.len();
    // What tasks await may come of what the thread does: nobody else of the program could give it meanwhile.
    let behind = plural(first) == "tasks" && analysis.strands.iter().any(|one| loop_runs(analysis, one));
    // One who waits at one moment is most often just served.
    let quiet = first.of_main || count == 1 || behind;
    let who = match (count, first.who.first()) {
        (1, Some(one)) => format!("{one} waits"),
        _ => format!("{count} {} wait", plural(first)),
    };
    let mut evidence = Vec::new();
    for ((what, place), group) in &groups {
        evidence.extend(named(what, place, group));
    }
    // As in the title first, else the largest.
    let titled = named(what, place, first).map(|one| one.text);
    evidence.order_by(|a, b| number(b).total_cmp(&number(a)));
    evidence.order_by_key(|one| Some(&one.text) != titled.as_ref());
    evidence.truncate(NAMED + 1);
    let still = first.tids.iter().filter(|tid| did_not_move(analysis, **tid)).count();
    if analysis.looks.is_some() && still > 0 {
        evidence.push(fact(format!("in all looks {still} of them stood in the same place"), None));
    }
    let full: Vec<&FullPipe> = if what == END_OF_CHILD || sleeps_at_tasks(analysis, first) {
        analysis.across.iter().flat_map(|across| &across.full_pipes).collect()
    } else {
        Vec::new()
    };
    // Before those who wait: it is why they do.
    evidence.splice(0..0, full.iter().take(NAMED).map(|child| fact(full_pipe(child), None)));
    let (end, explanation) = match full.first() {
        Some(child) => (format!("{}, which waits until somebody reads its output", child.label()), FULL_PIPE),
        None => ("who would end that is not determined".to_owned(), ANSWER),
    };
    let pid = analysis.identity.pid;
    Some(Finding {
        id: FindingId::StuckWait,
        severity: if quiet { Severity::Info } else { Severity::Notice },
        // Before what all threads do.
        impact: if quiet && !behind { 0.55 } else { IMPACT },
        title: match full.is_empty() {
            true => format!("{who} in {place} for {what}, without a limit; {end}"),
            false => format!("{who} in {place} for {what}, without a limit: {end}"),
        },
        explanation: explanation.to_owned(),
        evidence,
        next_steps: vec![
            format!("`biopsy stacks {pid} --looks 3 --every 2s` determines whether they still stand there"),
            match full.is_empty() {
                true => "Look at who should complete, set or release it, and which way out of that code leaves it out",
                false => "Read the output to its end first, or in another thread, and wait for the process then",
            }
            .to_owned(),
            "Give the wait a limit".to_owned(),
        ],
    })
}

/// Tasks of an event loop wait, and no thread runs: what a child has written is not listened for.
fn sleeps_at_tasks(analysis: &DumpAnalysis, group: &Group) -> bool {
    let tasks = group.who.first().is_some_and(|who| who.starts_with("task"));
    tasks && analysis.threads.iter().all(|thread| thread.state != ThreadState::Running)
}

const ANSWER: &str = "What they wait for is an answer of another part of the program, not work. At one moment that is usual; where nobody gives \
                      the answer any more (an error on the way, a thread that ended, an order that was lost), it is the hang. Memory \
                      keeps no note of who was to give it.";
const FULL_PIPE: &str = "A pipe has room for 64 KiB. Who waits for the end of a process before its output is read waits for ever as soon as \
                         there is more of it: the process cannot end before somebody reads. Where another thread reads it all the time, the \
                         pipe is full for a moment only: a second look tells.";

fn full_pipe(child: &FullPipe) -> String {
    format!("{} waits for {}, and nobody but this process reads there", child.label(), child.what)
}

fn number(evidence: &Evidence) -> f64 {
    match evidence.value {
        Some(Value::Count(count)) => count,
        _ => 0.0,
    }
}

fn plural(group: &Group) -> &'static str {
    match group.who.first().map(String::as_str) {
        Some(who) if who.starts_with("goroutine") => "goroutines",
        Some(who) if who.starts_with("task") => "tasks",
        Some(who) if who.starts_with("an operation") => "operations",
        _ => "threads",
    }
}

fn named(what: &str, place: &str, group: &Group) -> Option<Evidence> {
    let count = group.who.len();
    let list = group.who.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
    let detail = group.details.first().map_or(String::new(), |detail| format!(" ({detail})"));
    let text = format!("{list}{more} in {place} for {what}{detail}");
    let reference = group.tids.first().map_or(Reference::Recording, |tid| Reference::Thread(*tid));
    Some(Evidence { text, reference, value: Some(Value::Count(count as f64)) })
}

fn did_not_move(analysis: &DumpAnalysis, tid: Tid) -> bool {
    analysis.thread(tid).and_then(|thread| thread.movement).is_some_and(Movement::may_be_stuck)
}

/// A thread of native or .NET code.
fn of_thread(analysis: &DumpAnalysis, thread: &DumpThread, groups: &mut Groups) {
    let lock = thread.lock.as_ref();
    let waits =
        thread.state.wait().is_some() && lock.is_none_or(|lock| !lock.timed && lock.thread().is_none());
    let moved = thread.movement == Some(Movement::Moved);
    if !waits || moved {
        return;
    }
    let Some(rows) = analysis.groups.get(thread.group).map(|group| group.frames.as_slice()) else { return };
    let Some(place) = analysis.place(thread.tid).filter(|place| place.own) else { return };
    let Some(inner) = inside_of(rows, &place.function) else { return };
    let by_name = awaited(inner);
    let what = match (by_name, lock.map(|lock| lock.kind)) {
        (Some(Answer(words)), _) => words,
        (None, Some(LockKind::Barrier)) => "a barrier",
        (None, Some(LockKind::Pulse)) => "a pulse of a monitor",
        _ => return,
    };
    let entry = groups.entry((what.to_owned(), place.name())).or_default();
    entry.who.push(thread.label());
    entry.tids.push(thread.tid);
    entry.of_main = thread.tid.0 == analysis.identity.pid.0;
}

/// The rows inside of the program's place: what is outside of it is who started the thread.
pub(super) fn inside_of<'r>(rows: &'r [FrameRow], function: &str) -> Option<&'r [FrameRow]> {
    let at = rows.iter().position(|row| row.label() == function || row.label().starts_with(function))?;
    rows.get(..at)
}

/// The outermost function that is known decides.
fn awaited(inner: &[FrameRow]) -> Option<Awaits> {
    let names = inner.iter().rev().take(INNER).filter_map(|row| row.function.as_deref());
    names.into_iter().find_map(by_name)
}

/// What a function with this name waits for, where it is known.
pub(super) fn by_name(name: &str) -> Option<Awaits> {
    let name = name.trim_start_matches(['_', '<']);
    FUNCTIONS.iter().find(|(known, _)| name.starts_with(known)).map(|(_, awaits)| *awaits)
}

/// A strand of another language.
fn of_strand(analysis: &DumpAnalysis, runtime: &StrandRuntime, strand: &Strand, groups: &mut Groups) {
    let in_loop = || {
        strand
            .frames
            .iter()
            .take(INNER)
            .any(|frame| IN_LOOPS.iter().any(|name| frame.function.starts_with(name)))
    };
    let Some(wait) = strand.wait.as_ref().filter(|wait| !wait.ends_by_itself || in_loop()) else { return };
    // Who would end it, where that one stands still itself: the end of the chain is in the evidence.
    let stands = stuck_owner(runtime, strand);
    let known = (runtime.owners(strand).next().is_some() && stands.is_none())
        || wait.nobody.is_some()
        || wait.queued_in.is_some();
    let is_main = strand.tid.is_some_and(|tid| tid.0 == analysis.identity.pid.0)
        || strand.name.as_deref() == Some("main")
        || (strand.kind == StrandKind::Goroutine && strand.id.0 == 1);
    if strand.of_runtime || known || strand.state == StrandState::Running {
        return;
    }
    let by_name = || {
        let place = runtime.place_index(strand)?;
        strand.frames.get(..place)?.iter().rev().take(INNER).find_map(|frame| by_name(&frame.function))
    };
    // A worker waits there for work; of the thread of the event loop nobody gets an answer until then.
    let stops_loop = is_main && runtime.runtime.kind == RuntimeKind::Node && wait.reason == ATOMICS_WAIT;
    let gives;
    let what = match (runtime.runtime.kind, wait.kind) {
        (RuntimeKind::Go, WaitKind::WaitGroup) => "a wait group",
        (RuntimeKind::Go, WaitKind::ChannelSend) => "somebody who takes from a channel",
        (RuntimeKind::Go, WaitKind::Condition) => "a condition",
        (RuntimeKind::Go, _) => match by_name() {
            Some(Answer(words)) => words,
            _ => return,
        },
        _ if stops_loop => "`Atomics.notify`, and its event loop stands still meanwhile",
        // Queues, sockets and clocks are awaited in the library.
        (_, WaitKind::Future) if strand.kind == StrandKind::Task && runtime.stands_in_program(strand) => {
            match wait.awaited.as_deref().filter(|awaited| *awaited != "Promise") {
                Some(awaited) => {
                    gives = format!("what `await {awaited}` gives");
                    &gives
                }
                None => "what it awaits",
            }
        }
        _ => match by_name() {
            Some(Answer(words)) => words,
            _ => return,
        },
    };
    let Some(place) = runtime.place(strand) else { return };
    let entry = groups.entry((what.to_owned(), place)).or_default();
    entry.who.push(runtime.label(strand));
    entry.tids.extend(strand.tid);
    entry.details.extend(stands);
    entry.details.extend(wait.awaited.iter().map(|awaited| format!("`{awaited}`")));
    entry.details.extend(wait.object.iter().map(|object| format!("`{object}`")));
    entry.of_main = is_main && !stops_loop;
    entry.stops_loop = stops_loop;
}

/// The one thread that runs the tasks of the program is at work in code of its own.
fn loop_runs(analysis: &DumpAnalysis, runtime: &StrandRuntime) -> bool {
    let runs = |strand: &Strand| {
        strand.kind == StrandKind::Thread
            && strand.tid.is_some_and(|tid| tid.0 == analysis.identity.pid.0)
            && strand.state == StrandState::Running
            && runtime.stands_in_program(strand)
    };
    runtime.runtime.kind == RuntimeKind::Node && runtime.runtime.strands.iter().any(runs)
}

/// The goroutine that would end a wait for a group, in words, where all that could stand at a channel or the like themselves, and nobody is
/// known to end that.
fn stuck_owner(runtime: &StrandRuntime, strand: &Strand) -> Option<String> {
    let counts = |strand: &Strand| strand.wait.as_ref().is_some_and(|wait| wait.kind == WaitKind::WaitGroup);
    if runtime.runtime.kind != RuntimeKind::Go || !counts(strand) {
        return None;
    }
    let stands = |owner: &Strand| {
        let at = |kind| {
            matches!(
                kind,
                WaitKind::ChannelSend | WaitKind::ChannelReceive | WaitKind::Select | WaitKind::Condition
            )
        };
        let wait = owner.wait.as_ref();
        !matches!(owner.state, StrandState::Running | StrandState::Runnable)
            && wait.is_some_and(|wait| at(wait.kind) && !wait.ends_by_itself && wait.owners.is_empty())
    };
    let owners: Vec<&Strand> = runtime.owners(strand).map(|(owner, _)| owner).collect();
    let first = owners.first().filter(|_| owners.iter().all(|owner| stands(owner)))?;
    let wait = first.wait.as_ref()?;
    let place = runtime.place(first).unwrap_or_else(|| "an unknown place".to_owned());
    Some(format!("{} would end it, which waits in {place} for {}", runtime.label(first), wait.kind.words()))
}

/// Asynchronous operations of .NET at an `await` of the program's own.
fn operations(analysis: &DumpAnalysis, groups: &mut Groups) {
    let Some(operations) = analysis.managed.as_ref().and_then(|managed| managed.operations.as_ref()) else {
        return;
    };
    for group in &operations.groups {
        let what = match group.awaits.as_str() {
            "a SemaphoreSlim" => "a `SemaphoreSlim`",
            words if words.contains("TaskCompletionSource") => "a task that something completes",
            "several tasks (WhenAll)" => "several tasks",
            _ => continue,
        };
        let Some(method) = group.methods.first().filter(|method| is_own(method)) else { continue };
        let entry = groups.entry((what.to_owned(), format!("`{method}`"))).or_default();
        let who = format!("an operation of `{}`", group.methods.last().unwrap_or(method));
        let count = usize::try_from(group.count).unwrap_or(usize::MAX).min(10_000);
        entry.who.extend(std::iter::repeat_n(who, count));
        // Each program has one such operation: its end.
        entry.of_main = method.ends_with(".Main") || method.contains("<Main>$");
    }
}

fn is_own(method: &str) -> bool {
    !(method.starts_with("System.") || method.starts_with("Microsoft."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_told_from_work() {
        for (name, awaits) in [
            ("std::__future_base::_State_baseV2::wait", Some(Answer("a future"))),
            ("<std::sync::barrier::Barrier>::wait", Some(Answer("a barrier"))),
            ("__pthread_barrier_wait", Some(Answer("a barrier"))),
            ("System.Threading.Tasks.Task.SpinThenBlockingWait", Some(Answer("a task"))),
            (
                "System.Collections.Concurrent.BlockingCollection`1.TryTakeWithNoTimeValidation",
                Some(Work("something in a `BlockingCollection`")),
            ),
            (
                "System.Collections.Concurrent.BlockingCollection`1.TryAddWithNoTimeValidation",
                Some(Answer("room in a `BlockingCollection`")),
            ),
            (
                "std::__atomic_wait_address<std::__barrier_phase_t, std::__tree_barrier<>::wait()::{lambda()#1}>",
                Some(Answer("a barrier")),
            ),
            ("java.util.concurrent.LinkedBlockingQueue.take", Some(Work("something in a queue"))),
            ("java.util.concurrent.ThreadPoolExecutor.getTask", Some(Work(""))),
            ("java.util.concurrent.locks.LockSupport.park", None),
            // By which a condition waits.
            ("java.util.concurrent.ForkJoinPool.managedBlock", None),
            ("java.util.concurrent.LinkedBlockingQueue.put", Some(Answer("room in a queue"))),
            ("Queue.get", Some(Work("something in a queue"))),
            ("Event.wait", Some(Answer("an event"))),
            ("<std::sync::mpsc::SyncSender<i32>>::send", Some(Answer("room in a channel"))),
            ("System.Diagnostics.Process.WaitForExitCore", Some(Answer(END_OF_CHILD))),
            ("java.lang.ProcessImpl.waitFor", Some(Answer(END_OF_CHILD))),
            ("Popen.wait", Some(Answer(END_OF_CHILD))),
            ("pthread_cond_wait", None),
        ] {
            assert_eq!(by_name(name), awaits, "{name}");
        }
    }

    #[test]
    fn who_would_end_a_wait_group_may_stand_still_itself() {
        use crate::dump::DumpFacts;
        use crate::dump::strands::{Holder, Owner, RuntimeStrands, StrandId, StrandWait};
        use biopsy_model::Confidence;
        let said = |owner: Option<StrandWait>| {
            let mut group = StrandWait::of(WaitKind::WaitGroup, "semacquire");
            group.owners = vec![Owner {
                holder: Holder::Strand(StrandId(7)),
                confidence: Confidence::VeryLikely,
                frame: None,
                proof: String::new(),
            }];
            let goroutine =
                |number, wait| Strand { wait, ..Strand::new(StrandId(number), StrandKind::Goroutine) };
            let mut runtime = RuntimeStrands::new(RuntimeKind::Go, b"server", 0);
            runtime.strands = vec![goroutine(5, Some(group)), goroutine(7, owner)];
            let facts = [runtime];
            let facts = DumpFacts { strands: &facts, ..DumpFacts::default() };
            let strands = crate::dump::strands::analyze(&facts);
            stuck_owner(&strands[0], &strands[0].runtime.strands[0])
        };
        let select = StrandWait::of(WaitKind::Select, "select");
        assert!(said(Some(select.clone())).unwrap().starts_with("goroutine 7 would end it"));
        assert_eq!(said(None), None, "it runs");
        assert_eq!(said(Some(StrandWait { ends_by_itself: true, ..select })), None);
        assert_eq!(said(Some(StrandWait::of(WaitKind::Io, "IO wait"))), None, "a peer may answer");
    }

    #[test]
    fn what_tasks_await_comes_after_what_the_thread_of_the_loop_does() {
        use crate::dump::DumpFacts;
        use crate::dump::strands::{RuntimeStrands, StrandFrame, StrandId, StrandWait};
        let said = |state: StrandState, function: &str| {
            let frame = |function: &str| StrandFrame {
                function: function.into(),
                file: Some("kilns.js".into()),
                ..StrandFrame::default()
            };
            let task = |number| Strand {
                frames: vec![frame("firePots")],
                wait: Some(StrandWait::of(WaitKind::Future, "await")),
                state: StrandState::Waiting,
                ..Strand::new(StrandId(number), StrandKind::Task)
            };
            let thread = Strand {
                tid: Some(Tid(4711)),
                frames: vec![frame(function)],
                state,
                ..Strand::new(StrandId(1), StrandKind::Thread)
            };
            let mut runtime = RuntimeStrands::new(RuntimeKind::Node, b"node", 0);
            runtime.strands = vec![task(7), task(8), thread];
            let facts = [runtime];
            let facts = DumpFacts { strands: &facts, ..DumpFacts::default() };
            let mut analysis =
                DumpAnalysis { strands: crate::dump::strands::analyze(&facts), ..DumpAnalysis::default() };
            analysis.identity.pid = biopsy_model::Pid(4711);
            let found = find(&analysis).expect("two tasks wait");
            (found.severity, found.impact)
        };
        assert_eq!(said(StrandState::Running, "awaitHeat"), (Severity::Info, IMPACT));
        assert_eq!(said(StrandState::Waiting, "awaitHeat"), (Severity::Notice, IMPACT), "the loop rests");
    }

    #[test]
    fn a_child_whose_output_nobody_reads_is_named() {
        use crate::dump::strands::{RuntimeStrands, StrandFrame, StrandId, StrandWait};
        use crate::dump::{Across, DumpFacts};
        let said = |full: bool, function: &str| {
            let frame = |function: &str| StrandFrame { function: function.into(), ..StrandFrame::default() };
            let strand = |tid: u32| Strand {
                tid: Some(Tid(tid)),
                frames: ["java.lang.Object.wait", function, "shop.Convert.run"].map(frame).to_vec(),
                wait: Some(StrandWait::of(WaitKind::Condition, "waiting on condition")),
                state: StrandState::Waiting,
                ..Strand::new(StrandId(u64::from(tid)), StrandKind::Thread)
            };
            let mut runtime = RuntimeStrands::new(RuntimeKind::Java, b"java", 0);
            runtime.strands = vec![strand(7), strand(8)];
            let facts = [runtime];
            let strands =
                crate::dump::strands::analyze(&DumpFacts { strands: &facts, ..DumpFacts::default() });
            let child = FullPipe {
                pid: biopsy_model::Pid(9),
                process: "seq".to_owned(),
                what: "room in the pipe of descriptor 1".to_owned(),
            };
            let across =
                Across { full_pipes: if full { vec![child] } else { Vec::new() }, ..Across::default() };
            find(&DumpAnalysis { strands, across: Some(across), ..DumpAnalysis::default() })
                .expect("they wait")
        };
        let found = said(true, "java.lang.ProcessImpl.waitFor");
        let title = "2 threads wait in shop.Convert.run for the end of a process, without a limit: process 9 (seq), which waits \
                     until somebody reads its output";
        assert_eq!((found.title.as_str(), found.severity), (title, Severity::Notice));
        let text = "process 9 (seq) waits for room in the pipe of descriptor 1, and nobody but this process reads there";
        assert_eq!(found.evidence[0].text, text);
        // Of a child that just runs, and of who waits for something else, nothing of the kind.
        assert!(said(false, "java.lang.ProcessImpl.waitFor").title.ends_with("is not determined"));
        assert!(said(true, "java.util.concurrent.FutureTask.get").title.ends_with("is not determined"));
    }
}
