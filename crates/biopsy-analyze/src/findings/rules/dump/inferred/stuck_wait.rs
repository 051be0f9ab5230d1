//! Threads, goroutines or threads of a language stand at a condition, a semaphore, an atomic or a channel, without a limit, and nothing
//! else was found.
//!
//! One that stands alone is a hint. Several that stand in one place are most often a pool that waits for work: they are named where
//! nobody stands alone, for then they are all that there is to say. Neither says more than an information.

use biopsy_model::order::Order as _;
use std::collections::BTreeMap;

use crate::dump::strands::{RuntimeKind, Strand, StrandKind, StrandRuntime, StrandState, WaitKind};
use crate::dump::{DumpAnalysis, DumpThread, LockKind, Movement, ThreadState};
use crate::findings::dump::NAMED;
use crate::findings::evidence::steps;
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::words::threads;
use biopsy_model::Tid;

use super::super::stuck_wait::{self, Awaits, by_name, native_threads};

/// Before what all threads do.
const IMPACT: f64 = 0.52;

/// Who waits: by place.
struct Waiter {
    who: String,
    what: String,
    /// Work, as it looks: said where there is nothing else.
    work: bool,
    tid: Option<Tid>,
}

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    if analysis.crash.is_some() || stuck_wait::find(analysis).is_some() {
        return None;
    }
    let mut places: BTreeMap<String, Vec<Waiter>> = BTreeMap::new();
    for thread in native_threads(analysis) {
        if let Some((place, waiter)) = of_thread(analysis, thread) {
            places.entry(place).or_default().push(waiter);
        }
    }
    for runtime in &analysis.strands {
        for (place, waiter) in runtime.runtime.strands.iter().filter_map(|strand| of_strand(runtime, strand))
        {
            places.entry(place).or_default().push(waiter);
        }
    }
    for (place, waiter) in analysis.threads.iter().filter_map(|thread| in_call(analysis, thread)) {
        places.entry(place).or_default().push(waiter);
    }
    // Who stands alone first, then the most; who waits for work at last.
    let mut found: Vec<(&String, &Vec<Waiter>)> = places.iter().collect();
    let for_work = |waiters: &[Waiter]| waiters.iter().any(|one| one.work);
    found.order_by_key(|(_, waiters)| {
        (for_work(waiters), waiters.len() > 1, std::cmp::Reverse(waiters.len()))
    });
    let (place, waiters) = found.first()?;
    let first = waiters.first()?;
    let (who, explanation) = match waiters.len() {
        1 if !first.work => (
            format!("{} waits", first.who),
            "It stands there alone, as nobody of a pool does, and nothing else was found. It may be idle; if the program hangs, it is \
             where to look first: a signal that came before it was waited for, or an answer that an error kept from coming, leaves \
             exactly this.",
        ),
        count => (
            match count {
                1 => format!("{} waits", first.who),
                count => format!("{} wait", threads_or_goroutines(count, first)),
            },
            "Nothing else was found. A pool without work looks the same; if the program hangs, it is where to look first: who should give \
             what they wait for has ended, left it out on the way of an error, or waits there itself.",
        ),
    };
    let evidence = found.iter().take(NAMED).filter_map(|(place, waiters)| {
        let first = waiters.first()?;
        let who = match waiters.len() {
            1 => format!("{} waits", first.who),
            count => {
                let list: Vec<&str> = waiters.iter().take(NAMED).map(|one| one.who.as_str()).collect();
                let more = count.saturating_sub(NAMED);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("{}{more} wait", list.join(", "))
            }
        };
        Some(Evidence {
            text: format!("{who} in {place} for {}", first.what),
            reference: first.tid.map_or(Reference::Recording, Reference::Thread),
            value: Some(Value::Count(waiters.len() as f64)),
        })
    });
    let pid = analysis.identity.pid;
    Some(Finding {
        id: FindingId::StuckWait,
        severity: Severity::Info,
        impact: IMPACT,
        title: format!(
            "{who} in {place} for {}, without a limit; who would end that is not determined",
            first.what
        ),
        explanation: explanation.to_owned(),
        evidence: evidence.collect(),
        next_steps: steps(&[
            &format!("`biopsy stacks {pid} --looks 3 --every 2s` determines whether it still stands there"),
            "Look at who should give it what it waits for, on the way of errors too, and whether that may have been before it waited",
        ]),
    })
}

fn threads_or_goroutines(count: usize, first: &Waiter) -> String {
    if first.who.starts_with("goroutine") { format!("{count} goroutines") } else { threads(count) }
}

/// A thread of native or .NET code.
fn of_thread(analysis: &DumpAnalysis, thread: &DumpThread) -> Option<(String, Waiter)> {
    let lock = thread.lock.as_ref().filter(|lock| !lock.timed && lock.thread().is_none())?;
    let is_main = thread.tid.0 == analysis.identity.pid.0;
    let rows = analysis.groups.get(thread.group)?.frames.as_slice();
    let names = || rows.iter().filter_map(|row| row.function.as_deref());
    let what = match lock.kind {
        LockKind::Condition | LockKind::Semaphore | LockKind::Pulse => lock.kind.words(),
        LockKind::Futex => names().find_map(by_address)?,
        _ => return None,
    };
    if is_main || thread.state.wait().is_none() || thread.movement == Some(Movement::Moved) {
        return None;
    }
    let place = analysis.place(thread.tid).filter(|place| place.own)?;
    let inner = stuck_wait::inside_of(rows, &place.function)?;
    let (what, work) = told(inner.iter().filter_map(|row| row.function.as_deref()), what)?;
    Some((place.name(), Waiter { who: thread.label(), what, work, tid: Some(thread.tid) }))
}

/// A thread in a call of the system that ends when somebody comes to the other end.
fn in_call(analysis: &DumpAnalysis, thread: &DumpThread) -> Option<(String, Waiter)> {
    let ThreadState::InSystemCall { number: Some(number), .. } = thread.state else { return None };
    let what = awaited_in(number)?;
    if thread.movement == Some(Movement::Moved) {
        return None;
    }
    let place = analysis.place(thread.tid).filter(|place| place.own)?;
    let what = what.to_owned();
    Some((place.name(), Waiter { who: thread.label(), what, work: false, tid: Some(thread.tid) }))
}

/// By the numbers of x86-64.
fn awaited_in(call: u32) -> Option<&'static str> {
    match call {
        // open, openat, openat2
        2 | 257 | 437 => {
            Some("the other end of what it opens (a FIFO, or a file system that does not answer)")
        }
        42 => Some("its connection to be accepted (`connect`)"),
        // msgsnd, mq_timedsend
        69 | 242 => Some("room in a message queue"),
        _ => None,
    }
}

/// What is waited for, by the functions on the way or else as the lock says it, and whether that is work. `None`: another rule knows it, or
/// it is a library's own worker.
fn told<'a>(names: impl Iterator<Item = &'a str>, lock: &str) -> Option<(String, bool)> {
    // The outermost decides: who takes from a queue waits for work, whatever the queue is made of.
    match names.filter_map(by_name).last() {
        None => Some((lock.to_owned(), false)),
        Some(Awaits::Work("")) | Some(Awaits::Answer(_)) => None,
        Some(Awaits::Work(words)) => Some((words.to_owned(), true)),
    }
}

/// What somebody waits for at a word of memory, by the function of the library that waits there.
fn by_address(name: &str) -> Option<&'static str> {
    let known = [
        ("std::__atomic_wait_address", "an atomic to change"),
        ("std::__atomic_base<", "an atomic to change"),
        ("std::sys::sync::thread_parking::", "somebody to unpark it"),
        ("std::sys::pal::unix::thread_parking::", "somebody to unpark it"),
        ("std::sys_common::thread_parking::", "somebody to unpark it"),
        ("std::thread::park", "somebody to unpark it"),
    ];
    let name = name.trim_start_matches('<');
    known.iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, what)| *what)
}

/// What `os/exec` waits for in a channel.
const OUTPUT: &str = "the end of the pipe with a command's output (a process that the command left behind may still have it open)";

/// The command itself has ended where `Wait` receives: the end of its output is left.
fn copies_output(function: &str) -> bool {
    matches!(function, "os/exec.(*Cmd).Wait" | "os/exec.(*Cmd).awaitGoroutines")
}

/// A strand of another language.
fn of_strand(runtime: &StrandRuntime, strand: &Strand) -> Option<(String, Waiter)> {
    let wait = strand.wait.as_ref().filter(|wait| !wait.ends_by_itself && wait.nobody.is_none())?;
    let is_signal = match runtime.runtime.kind {
        RuntimeKind::Go => matches!(wait.kind, WaitKind::Condition | WaitKind::ChannelReceive),
        _ => matches!(wait.kind, WaitKind::Condition | WaitKind::Semaphore),
    };
    let is_main =
        strand.name.as_deref() == Some("main") || strand.kind == StrandKind::Goroutine && strand.id.0 == 1;
    let owned = runtime.owners(strand).next().is_some();
    if strand.of_runtime || strand.state == StrandState::Running || owned || is_main || !is_signal {
        return None;
    }
    // What is outside of the program's place is who started it: a pool, mostly.
    let inner = strand.frames.get(..runtime.program_index(strand)?)?;
    let what = match (runtime.runtime.kind, wait.reason.as_str()) {
        (RuntimeKind::Node, "Atomics.wait") => "a notification (`Atomics.notify`)",
        (RuntimeKind::Go, _) if inner.iter().any(|frame| copies_output(&frame.function)) => OUTPUT,
        _ => wait.kind.words(),
    };
    let (what, work) = told(inner.iter().map(|frame| &*frame.function), what)?;
    let place = runtime.place(strand)?;
    Some((place, Waiter { who: runtime.label(strand), what, work, tid: strand.tid }))
}

#[cfg(test)]
mod tests {
    use super::{awaited_in, copies_output};

    #[test]
    fn a_command_whose_output_does_not_end_is_known_by_the_function_that_waits() {
        for (function, copies) in [
            ("os/exec.(*Cmd).Wait", true),
            ("os/exec.(*Cmd).awaitGoroutines", true),
            ("os/exec.(*Cmd).Run", false),
            ("runtime.chanrecv1", false),
        ] {
            assert_eq!(copies_output(function), copies, "{function}");
        }
    }

    #[test]
    fn calls_that_wait_for_the_other_end_are_known() {
        assert!(awaited_in(257).is_some_and(|what| what.contains("FIFO")));
        assert!(awaited_in(42).is_some_and(|what| what.contains("connect")));
        assert_eq!([0, 1, 202, 232].map(awaited_in), [None; 4], "what others know");
    }
}
