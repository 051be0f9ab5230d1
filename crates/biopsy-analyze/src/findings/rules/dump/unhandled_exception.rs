//! An exception that nobody caught, or that ended the process.

use crate::dump::managed::ExceptionRow;
use crate::dump::{Access, DumpAnalysis};
use crate::findings::dump::{at, own, signature};
use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity};
use crate::findings::recursion::recursion;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    of_dotnet(analysis).or_else(|| of_go(analysis)).or_else(|| of_words(analysis))
}

/// A process that ended itself, and whose runtime wrote what for.
fn of_words(analysis: &DumpAnalysis) -> Option<Finding> {
    let words = analysis.last_words.as_ref().filter(|_| analysis.crash.is_none())?;
    let (thread, status) = analysis.threads.iter().find_map(|thread| Some((thread, thread.ends_with?)))?;
    if status == 0 {
        return None;
    }
    let place = words.place.as_ref().map_or(String::new(), |place| format!(" in {}", place.name()));
    let what = match words.type_name.as_str() {
        panic if panic.contains(' ') => panic.to_owned(),
        name => format!("`{name}` was not caught"),
    };
    let mut evidence =
        vec![fact(format!("it wrote before it ended: {}: {}", words.type_name, words.text), None)];
    evidence.extend(words.place.as_ref().and_then(|place| place.source.as_ref()).map(|(file, line)| {
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        fact(format!("thrown in {file}{line}"), None)
    }));
    evidence.push(at(
        Reference::Thread(thread.tid),
        format!("{} then ended the process with status {status}", thread.label()),
    ));
    evidence.extend(signature(analysis));
    Some(finding(
        format!("The process ended itself with status {status}{place}: {what}"),
        "An exception or a panic left the outermost function, and the runtime ends the process then. By the time it ends nothing of it is on \
         a stack any more: place and text are from what the runtime wrote to its standard error.",
        evidence,
        "Look at the function and line, and at who gave it what it failed at",
    ))
}

/// A process of Go that ends by `exit`: where a signal ends it, that is the finding.
fn of_go(analysis: &DumpAnalysis) -> Option<Finding> {
    if analysis.crash.is_some() {
        return None;
    }
    let (runtime, strand, reason) =
        analysis.strands.iter().find_map(|one| one.panics().map(|(strand, reason)| (one, strand, reason)))?;
    let place = runtime.place(strand).map_or(String::new(), |place| format!(" in {place}"));
    let mut evidence = vec![fact(format!("{} panicked{place}", runtime.label(strand)), None)];
    evidence.extend(strand.panics_with.as_ref().map(|text| fact(format!("it panicked: {text}"), None)));
    evidence.extend(signature(analysis));
    Some(finding(
        format!("The process ended itself{place}: {reason}"),
        "A goroutine panicked, and nobody recovered: Go ends the whole process then.",
        evidence,
        "Look at the function and line, and at who gave it what it panicked at",
    ))
}

fn finding(title: String, explanation: &str, evidence: Vec<Evidence>, next: &str) -> Finding {
    Finding {
        id: FindingId::UnhandledException,
        severity: Severity::Critical,
        impact: 1.0,
        title,
        explanation: explanation.to_owned(),
        evidence,
        next_steps: steps(&[next]),
    }
}

fn of_dotnet(analysis: &DumpAnalysis) -> Option<Finding> {
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
    let overflown = exception.type_name == OVERFLOW;
    if overflown {
        evidence.extend(recursion(analysis, thread.tid));
    }
    // What the runtime made an exception of, where a fault of the processor was it.
    if let Some(kind) = crash.address_kind.as_ref().filter(|_| crash.ended_by.is_some()) {
        let access = crash.access.map_or("accessed", Access::word);
        let text =
            format!("it began as {}: an address was {access}; it is {}", crash.signal_name, kind.words());
        evidence.push(fact(text, None));
    }
    evidence.extend(exception.inner.iter().map(|inner| {
        let place = inner.thrown_in.first().map_or(String::new(), |place| format!(", thrown in `{place}`"));
        fact(format!("because of {}{place}", inner.words()), None)
    }));
    evidence.extend(signature(analysis));
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
    if overflown {
        return Some(finding(
            format!("{title}: the stack overflowed"),
            "Recursion without end, or deeper than the stack has room for: methods that call each other again and again used the thread's \
             stack up. Nobody can catch that; the runtime ends the process.",
            evidence,
            "See which methods repeat in the stack of the thread, and what should have ended it: a cycle in the data, input that nests too deep",
        ));
    }
    Some(finding(
        title,
        "The runtime ends a process when an exception leaves a thread's outermost method, or when the process asks for it. \
         The stack of the thread shows who threw it.",
        evidence,
        "Look at the method that threw it, and at the inner exceptions, which came first",
    ))
}

/// What the runtime calls a stack that is used up.
const OVERFLOW: &str = "System.StackOverflowException";

fn what(exception: &ExceptionRow) -> String {
    match exception.inner.last() {
        Some(inner) => format!("{}, caused by {},", exception.type_name, inner.type_name),
        None => exception.type_name.clone(),
    }
}
