//! An exception that nobody caught, or that ended the process.

use crate::dump::managed::ExceptionRow;
use crate::dump::{Access, DumpAnalysis, DumpThread, LastWords, LastWordsKind, Writer};
use crate::findings::dump::{at, own, signature};
use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity};
use crate::findings::recursion::recursion;
use crate::whose::dotnet::is_application;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    of_dotnet(analysis).or_else(|| of_go(analysis)).or_else(|| of_words(analysis))
}

/// Calls of the program that a line of evidence names.
const CALLS: usize = 12;

/// A process that ended itself, and wrote what for.
fn of_words(analysis: &DumpAnalysis) -> Option<Finding> {
    let words = analysis.last_words.as_ref().filter(|_| analysis.crash.is_none())?;
    let (thread, status) = analysis.threads.iter().find_map(|thread| Some((thread, thread.ends_with?)))?;
    if status == 0 {
        return None;
    }
    let by = writer(words, status);
    let words = &LastWords { by, ..words.clone() };
    let place = words.place.as_ref().map_or(String::new(), |place| format!(" in {}", place.name()));
    let mut evidence = vec![fact(format!("it wrote before it ended: {}", words.wrote()), None)];
    evidence.extend(words.place.as_ref().and_then(|place| place.source.as_ref()).map(|(file, line)| {
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        fact(format!("thrown in {file}{line}"), None)
    }));
    evidence.extend(words.recurses().map(|(call, count)| {
        fact(format!("{call} calls itself: it is {count} of the {} calls it wrote", words.calls.len()), None)
    }));
    evidence.extend(words.became.iter().map(|became| fact(became.clone(), None)));
    evidence.push(at(
        Reference::Thread(thread.tid),
        format!("{} then ended the process with status {status}", thread.label()),
    ));
    if words.calls.len() > 1 {
        evidence.push(fact(format!("its calls, from inside: {}", calls(&words.calls)), None));
    }
    evidence.extend(signature(analysis));
    let explanation = match by {
        Writer::Runtime => {
            "An exception or a panic left the outermost function, and the runtime ends the process then. By the time it ends nothing of it is on \
             a stack any more: place and text are from what the runtime wrote to its standard error."
        }
        Writer::Program => {
            "The program caught an exception, or was told of one that nobody caught, wrote it, and ended itself. By then nothing of it is on a \
             stack any more: place and text are from what it wrote to its standard error last."
        }
    };
    let next = match words.kind {
        LastWordsKind::Rejection => {
            "Look for the text in the program: who rejects a promise with it, or throws it in an `async` function? Reject with an `Error`, \
             which says where"
        }
        _ => "Look at the function and line, and at who gave it what it failed at",
    };
    Some(finding(
        format!("The process ended itself with status {status}{place}: {}", words.what()),
        explanation,
        evidence,
        next,
    ))
}

/// `deep (a.py:5) 38 times ← serve (a.py:9)`
fn calls(all: &[String]) -> String {
    let mut shown: Vec<(&str, usize)> = Vec::new();
    let mut rest = all.iter();
    while let Some(call) = rest.next() {
        if let Some((last, times)) = shown.last_mut()
            && last == call
        {
            *times += 1;
        } else if shown.len() == CALLS {
            return format!("{} ← {} more", words_of(&shown), rest.len() + 1);
        } else {
            shown.push((call, 1));
        }
    }
    words_of(&shown)
}

fn words_of(calls: &[(&str, usize)]) -> String {
    let one = |(call, times): &(&str, usize)| match times {
        1 => (*call).to_owned(),
        times => format!("{call} {times} times"),
    };
    calls.iter().map(one).collect::<Vec<_>>().join(" ← ")
}

/// Python ends by status 1 behind an exception that nobody caught: where it is another one, somebody decided so.
fn writer(words: &LastWords, status: u8) -> Writer {
    let of_python = words
        .place
        .as_ref()
        .and_then(|place| place.source.as_ref())
        .is_some_and(|(file, _)| file.ends_with(".py") || file.starts_with('<'));
    if of_python && status != 1 { Writer::Program } else { words.by }
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
    evidence.extend(by_address(analysis, thread, exception).map(|function| {
        let text = format!(
            "the fault (SIGSEGV) was in `{function}`, which reads and writes by address: most likely the address that it was given is wrong, \
             and no object is null"
        );
        fact(text, None)
    }));
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

/// Functions of .NET that read and write by address, whatever is there.
const BY_ADDRESS: &[&str] = &[
    "System.Buffer.Memmove",
    "System.Buffer.MemoryCopy",
    "System.Runtime.CompilerServices.Unsafe.",
    "System.Runtime.InteropServices.Marshal.",
    "System.Runtime.InteropServices.NativeMemory.",
    "System.SpanHelpers.",
];

/// The function that faulted, where it was the one of the class library that the program called, and works on addresses. The processor
/// does not report an address that cannot be one, so that the runtime takes it for null.
fn by_address(analysis: &DumpAnalysis, thread: &DumpThread, exception: &ExceptionRow) -> Option<String> {
    const FAULTS: [&str; 2] = ["System.NullReferenceException", "System.AccessViolationException"];
    if !FAULTS.contains(&exception.type_name.as_str()) {
        return None;
    }
    let rows = analysis.groups.get(thread.group)?.frames.iter().filter(|row| row.managed);
    let names: Vec<&str> = rows.filter_map(|row| row.function.as_deref()).collect();
    // Who threw it is on the stack still, below what the runtime does of it.
    let own = names.iter().position(|name| is_application(name))?;
    let called = names.get(own.checked_sub(1)?)?;
    BY_ADDRESS.iter().any(|known| called.starts_with(known)).then(|| (*called).to_owned())
}

/// What the runtime calls a stack that is used up.
const OVERFLOW: &str = "System.StackOverflowException";

fn what(exception: &ExceptionRow) -> String {
    match exception.inner.last() {
        Some(inner) => format!("{}, caused by {},", exception.type_name, inner.type_name),
        None => exception.type_name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::StackPlace;
    use biopsy_model::Tid;

    fn words() -> LastWords {
        let place = StackPlace {
            function: "price".to_owned(),
            source: Some(("/srv/Menu.java".to_owned(), Some(7))),
            own: true,
            shown: Some("price (Menu.java:7)".to_owned()),
            ..StackPlace::default()
        };
        LastWords {
            kind: LastWordsKind::Exception,
            type_name: "NoPrice".to_owned(),
            text: "soup".to_owned(),
            place: Some(place),
            calls: Vec::new(),
            by: Writer::Runtime,
            became: Vec::new(),
        }
    }

    fn said(words: LastWords, status: Option<u8>) -> Option<Finding> {
        let thread = DumpThread { tid: Tid(3), ends_with: status, ..DumpThread::default() };
        find(&DumpAnalysis { threads: vec![thread], last_words: Some(words), ..DumpAnalysis::default() })
    }

    fn title(words: LastWords, status: u8) -> String {
        said(words, Some(status)).expect("it ends itself").title
    }

    #[test]
    fn what_a_process_wrote_is_why_it_ended_itself() {
        let place = "The process ended itself with status 1 in price (Menu.java:7)";
        assert_eq!(title(words(), 1), format!("{place}: `NoPrice` was not caught"));
        let by = |kind, by| LastWords { kind, by, ..words() };
        let own = by(LastWordsKind::Exception, Writer::Program);
        assert_eq!(title(own, 1), format!("{place}: the program itself wrote `NoPrice`, and ended"));
        for (kind, what) in [
            (LastWordsKind::RustPanic, "a Rust panic"),
            (LastWordsKind::GoPanic, "a panic that nobody recovered"),
            (LastWordsKind::GoFatal, "a fatal error of the runtime of Go: soup"),
            (LastWordsKind::Value, "a value was thrown that is no error, and not caught"),
        ] {
            assert_eq!(title(by(kind, Writer::Runtime), 1), format!("{place}: {what}"));
        }
        // Of a rejected promise nobody knows where.
        let rejected = LastWords { place: None, ..by(LastWordsKind::Rejection, Writer::Runtime) };
        let found = said(rejected, Some(1)).expect("it ends itself");
        let text = "The process ended itself with status 1: a promise was rejected, with a reason that is no error, and nobody handled it";
        assert_eq!(found.title, text);
        assert_eq!(found.evidence[0].text, "it wrote before it ended: rejected with the reason: soup");
        assert!(found.next_steps[0].contains("who rejects"));
    }

    #[test]
    fn python_that_ends_with_another_status_was_asked_to() {
        let python = |status| {
            let mut words = words();
            words.place.as_mut().expect("a place").source = Some(("/srv/menu.py".to_owned(), None));
            title(words, status)
        };
        assert!(python(1).ends_with("`NoPrice` was not caught"));
        assert!(python(70).ends_with("the program itself wrote `NoPrice`, and ended"));
    }

    #[test]
    fn nothing_is_said_of_a_process_that_ends_well_or_goes_on() {
        assert_eq!(said(words(), Some(0)), None);
        assert_eq!(said(words(), None), None, "it goes on");
    }

    #[test]
    fn evidence_has_the_calls_and_what_became_of_it() {
        let mut deep = words();
        deep.became = vec!["passed on as Closed: today, in serve (Menu.java:9)".to_owned()];
        deep.calls = (0..40)
            .map(|at| if at < 20 { "deep (Menu.java:5)".to_owned() } else { format!("c{at}") })
            .collect();
        let found = said(deep, Some(1)).expect("it ends itself");
        let evidence: Vec<&str> = found.evidence.iter().map(|evidence| evidence.text.as_str()).collect();
        assert_eq!(
            evidence[..4],
            [
                "it wrote before it ended: NoPrice: soup",
                "thrown in /srv/Menu.java:7",
                "deep (Menu.java:5) calls itself: it is 20 of the 40 calls it wrote",
                "passed on as Closed: today, in serve (Menu.java:9)",
            ]
        );
        assert!(
            evidence[5].starts_with("its calls, from inside: deep (Menu.java:5) 20 times ← c20 ← ")
                && evidence[5].ends_with(" ← c30 ← 9 more"),
            "{}",
            evidence[5]
        );
    }
}
