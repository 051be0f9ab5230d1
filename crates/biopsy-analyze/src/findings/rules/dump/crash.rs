//! The process died.

use crate::dump::{ALL_ASLEEP, Access, AddressKind, Crash, DumpAnalysis, OVERFLOWED, StackPlace};
use crate::findings::dump::{at, signature};
use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity};
use crate::findings::recursion::recursion;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let crash = analysis.crash.as_ref()?;
    let place = match crash.reason == Some(ALL_ASLEEP) {
        // The thread that found it out is the runtime's.
        true => asleep(analysis),
        false => crash.place.as_ref().map(StackPlace::name),
    };
    let place = place.map_or(String::new(), |place| format!(" in {place}"));
    let title = format!("The process died of {}{place}: {}", crash.signal_name, what(crash));
    Some(Finding {
        id: id(crash),
        // Nothing is wrong with a process that somebody ended.
        severity: if crash.from_outside { Severity::Warning } else { Severity::Critical },
        impact: 1.0,
        title,
        explanation: explanation(crash),
        evidence: evidence(analysis, crash),
        next_steps: next(crash),
    })
}

/// Where goroutines wait that nobody wakes.
fn asleep(analysis: &DumpAnalysis) -> Option<String> {
    analysis.strands.iter().find_map(|runtime| {
        let mut waiting =
            runtime.runtime.strands.iter().filter(|strand| strand.wait.is_some() && !strand.of_runtime);
        waiting.find_map(|strand| runtime.place(strand))
    })
}

fn id(crash: &Crash) -> FindingId {
    match crash.address_kind {
        Some(AddressKind::StackOverflow { .. }) => FindingId::StackOverflow,
        Some(AddressKind::Null { .. }) => FindingId::NullPointer,
        Some(_) => FindingId::BadPointer,
        None if crash.reason == Some(OVERFLOWED) => FindingId::StackOverflow,
        None if crash.signal == 6 => FindingId::Abort,
        None => FindingId::FatalSignal,
    }
}

/// The end of the sentence.
fn what(crash: &Crash) -> String {
    match (&crash.address_kind, crash.access) {
        (Some(AddressKind::StackOverflow { .. }), _) => "the stack overflowed".to_owned(),
        (Some(AddressKind::Null { offset: 0 }), Some(Access::Execute)) => {
            "a null pointer was called".to_owned()
        }
        (Some(AddressKind::Null { .. }), Some(Access::Execute)) => {
            "a small number was called as a function".to_owned()
        }
        (Some(AddressKind::Null { offset: 0 }), _) => "a null pointer was used".to_owned(),
        (Some(AddressKind::Null { .. }), _) => "a field of a null pointer was used".to_owned(),
        (Some(AddressKind::NotExecutable), _) => "data was executed".to_owned(),
        (Some(AddressKind::ReadOnly), _) => "memory that may only be read was written".to_owned(),
        (Some(AddressKind::Protected), _) => "memory that may not be written was written".to_owned(),
        (Some(AddressKind::Poison { .. }), _) => {
            "memory that was freed, or never filled, was used as a pointer".to_owned()
        }
        (Some(AddressKind::Text), Some(Access::Execute)) => {
            "a return address was overwritten with text: a buffer on the stack overflowed".to_owned()
        }
        (Some(AddressKind::NonCanonical), Some(Access::Execute)) => {
            "a return address was overwritten: the stack is damaged".to_owned()
        }
        (Some(AddressKind::Text), _) => "a pointer had been overwritten with text".to_owned(),
        (Some(AddressKind::NonCanonical), _) => "a pointer was no address at all".to_owned(),
        (Some(AddressKind::Unmapped), Some(Access::Execute)) => {
            "code that is not there was called".to_owned()
        }
        (Some(AddressKind::Unmapped), _) => "memory that is not mapped was used".to_owned(),
        (Some(AddressKind::Guard), _) => "a guard page was hit".to_owned(),
        (Some(AddressKind::BehindFile), _) => "a mapped file is shorter than its mapping".to_owned(),
        (Some(AddressKind::Kernel), _) => "an address of the kernel was used".to_owned(),
        // How a program ends itself: by `abort`, or by an instruction that is there for it.
        (None, _) if ends_itself(crash) && crash.reason.is_some() => {
            let reason = crash.reason.unwrap_or_default();
            match crash.thrown.as_ref().and_then(|thrown| thrown.type_name.as_ref()) {
                Some(name) => format!("{reason}: `{name}`"),
                None => reason.to_owned(),
            }
        }
        (Some(AddressKind::Accessible | AddressKind::NotReported) | None, _) => match &crash.code {
            _ if crash.filtered.is_some() => {
                let call = crash.filtered.and_then(|number| crate::syscalls::name("x86_64", number));
                let call =
                    call.map_or("a system call".to_owned(), |name| format!("the system call `{name}`"));
                format!("{call} is not allowed by a filter (seccomp)")
            }
            Some((_, Some(words))) if crash.signal != 6 && !is_quiet(crash) => (*words).to_owned(),
            _ => crash.meaning.to_owned(),
        },
    }
}

/// A signal that leaves no core: what it means says more than how it was sent.
fn is_quiet(crash: &Crash) -> bool {
    !matches!(crash.signal, 0 | 3..=8 | 11 | 31)
}

/// SIGILL, SIGTRAP, SIGABRT.
fn ends_itself(crash: &Crash) -> bool {
    matches!(crash.signal, 4..=6)
}

fn explanation(crash: &Crash) -> String {
    match &crash.address_kind {
        Some(AddressKind::StackOverflow { .. }) => {
            "Recursion without end, or deeper than the stack has room for, or a very large local variable: the access went below the \
             thread's stack. The repeating functions in the stack of the thread say what recurses."
        }
        Some(AddressKind::Null { .. }) if crash.access == Some(Access::Execute) => {
            "A pointer to a function, or a return address, was null or overwritten, and was jumped to. The caller in the stack is \
             where it was used."
        }
        Some(AddressKind::Null { .. }) => {
            "A pointer that should lead to an object was null; the small address is the offset of the field that was used. The \
             function where it happened uses the pointer; who did not set it may be further out in the stack."
        }
        Some(AddressKind::Poison { .. }) => {
            "The value is one that allocators write over memory that is freed or not yet filled. Most likely an object was used \
             after it was freed."
        }
        Some(AddressKind::Text | AddressKind::NonCanonical) => {
            "The value in the pointer cannot be an address. Something wrote over it before: the place of the crash is where it was \
             noticed, not where it was done."
        }
        Some(AddressKind::Unmapped) => {
            "Nothing is mapped at the address. It was given back before (use after `munmap` or `free` of a large block), or the \
             pointer was wrong."
        }
        Some(AddressKind::BehindFile) => {
            "The file behind a mapping was made shorter while it was mapped (a log rotation, an upgrade in place), or its file \
             system is full or gone."
        }
        Some(AddressKind::NotReported) => {
            "The access was not allowed. The dump does not tell what was mapped, so whether anything was there is not known."
        }
        Some(_) => "The mapping does not allow this kind of access.",
        None if crash.signal == 6 => {
            "The process ended itself: a check in the program or in the C library failed. The message, where there is one, says \
             which."
        }
        None if crash.signal == 0 => "The exception ended the process.",
        None => by_signal(crash.signal),
    }
    .to_owned()
}

fn by_signal(number: i32) -> &'static str {
    match number {
        13 => {
            "Who reads from the other end has closed it, or has ended. Unless a program ignores SIGPIPE, or asks for an error instead \
             (`MSG_NOSIGNAL`), the next write ends it, without a core and without a word."
        }
        14 | 26 | 27 => {
            "A timer that the process itself has set ran out, and by default its signal ends the process: the function for it was not \
             set, or not yet, or a program that was started inherited the timer."
        }
        24 => "It used more CPU time than `RLIMIT_CPU` (`ulimit -t`, `LimitCPU=`) allows.",
        25 => {
            "A file would have become larger than `RLIMIT_FSIZE` (`ulimit -f`, `LimitFSIZE=`) allows. The write where it happened is in the \
             stack."
        }
        31 => {
            "A filter of system calls (seccomp: of a container, a sandbox, `SystemCallFilter=`) does not allow the call that the thread is in."
        }
        1 | 2 | 9 | 15 => {
            "Nothing went wrong in the process itself: another one ended it. A service manager or a container runtime asks by SIGTERM and \
             kills after a while; the kernel kills by SIGKILL where memory is at its limit (`dmesg`, `memory.events` of its cgroup); \
             `timeout` and health checks do either. The stacks say what it did meanwhile."
        }
        _ => "The signal ended the process: no function for it was set, and it is not ignored.",
    }
}

fn evidence(analysis: &DumpAnalysis, crash: &Crash) -> Vec<Evidence> {
    let mut list = Vec::new();
    let thread = analysis.thread(crash.thread);
    let label = thread.map_or_else(|| format!("thread {}", crash.thread), |thread| thread.label());
    let place = crash.place.as_ref();
    let inside = place.map_or(String::new(), |place| format!(", in {}", place.words()));
    list.push(at(Reference::Thread(crash.thread), format!("it happened in {label}{inside}")));
    if id(crash) == FindingId::StackOverflow {
        list.extend(recursion(analysis, crash.thread));
    }
    if let Some(message) = &crash.message {
        list.push(fact(format!("the C library said: {message}"), None));
    }
    if let Some(thrown) = &crash.thrown {
        let text = match (&thrown.type_name, &thrown.message) {
            (Some(name), Some(message)) => format!("`{name}` was thrown: {message}"),
            (Some(name), None) => format!("`{name}` was thrown"),
            (None, message) => format!("it panicked: {}", message.as_deref().unwrap_or_default()),
        };
        list.push(fact(text, None));
    }
    // A runtime that aborts has said why.
    let words = analysis.last_words.as_ref().filter(|_| ends_itself(crash) && crash.thrown.is_none());
    if let Some(words) = words {
        let inside = words.place.as_ref().map_or(String::new(), |place| format!(", in {}", place.name()));
        list.push(fact(format!("it wrote before it ended: {}{inside}", words.wrote()), None));
    }
    if let Some(reason) = crash.reason.filter(|_| !ends_itself(crash)) {
        list.push(fact(format!("the functions on the way say: {reason}"), None));
    }
    if let Some((code, words)) = crash.code {
        let words = words.map_or(String::new(), |words| format!(": {words}"));
        list.push(fact(format!("{} with code {code}{words}", crash.signal_name), None));
    }
    if let Some(name) = &crash.ended_by {
        let text = format!(
            "a handler of {} was called for it, which then ended the process by {name}",
            crash.signal_name
        );
        list.push(fact(text, None));
    }
    if let Some(pid) = crash.sender {
        list.push(fact(format!("sent by process {pid}{}", sender_name(analysis, pid)), None));
    }
    if let (Some(address), Some(kind)) = (crash.address, &crash.address_kind) {
        let shown = if kind.may_be_shown() { format!("{address:#x} ") } else { String::new() };
        let access = crash.access.map_or("accessed", Access::word);
        let words = match (kind, crash.access) {
            (AddressKind::Null { offset: 1.. }, Some(Access::Execute)) => {
                "a small number, not a function".to_owned()
            }
            _ => kind.words(),
        };
        list.push(fact(format!("address {shown}was {access}; it is {words}"), None));
    }
    // What is executed where no code should be is no instruction.
    if let Some(instruction) = crash.instruction.as_ref().filter(|_| crash.access != Some(Access::Execute)) {
        let registers = instruction.operands.iter().find_map(|operand| {
            let (name, value) = operand.base.as_ref()?;
            // What is not an address may be contents of memory.
            let shown = crash.address_kind.as_ref().is_none_or(AddressKind::may_be_shown);
            Some(if shown { format!(", where `{name}` is {value:#x}") } else { String::new() })
        });
        list.push(fact(
            format!("the instruction is `{}`{}", instruction.text, registers.unwrap_or_default()),
            None,
        ));
    }
    if let Some((file, line)) = place.and_then(|place| place.source.as_ref()) {
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        list.push(fact(format!("in {file}{line}"), None));
    }
    list.extend(signature(analysis));
    list
}

/// ` (its parent)`, where that is known.
fn sender_name(analysis: &DumpAnalysis, pid: u32) -> &'static str {
    match analysis.identity.parent {
        Some(parent) if parent.0 == pid => ", its parent",
        _ => "",
    }
}

fn next(crash: &Crash) -> Vec<String> {
    match crash.address_kind {
        None if crash.signal == 13 => steps(&[
            "Ignore SIGPIPE (`signal(SIGPIPE, SIG_IGN)`), or send with `MSG_NOSIGNAL`, and handle EPIPE where it writes",
            "Look at the other end: why did it close the connection before everything was written?",
        ]),
        None if crash.from_outside => steps(&[
            "Look who ended it: the log of the service manager or container runtime, `dmesg`, `journalctl -k`, limits of memory and time",
            "Handle SIGTERM if it needs time to end in order",
        ]),
        None if matches!(crash.signal, 24 | 25) => {
            steps(&["Raise the limit (`ulimit -a`, `/proc/PID/limits`), or find out why so much is used"])
        }
        None if crash.signal == 31 => {
            steps(&["Allow this system call in the filter, or find out which library began to use it"])
        }
        None if is_quiet(crash) => steps(&[
            "Set a function for the signal, or ignore it, before anything can send it; look who does",
        ]),
        Some(AddressKind::StackOverflow { .. }) => steps(&[
            "See which functions repeat in the stack of the thread",
            "Look for input that nests without a limit",
        ]),
        Some(AddressKind::Poison { .. } | AddressKind::Text | AddressKind::NonCanonical) => steps(&[
            "Run the program with AddressSanitizer, or with `MALLOC_PERTURB_` set, to see where the memory was freed or overwritten",
            "See in the stack whose object the pointer belongs to",
        ]),
        None if crash.signal == 6 => {
            steps(&["Read the message, and the first function of the program below `abort`"])
        }
        _ => steps(&["Look at the function and line, and at who gave it the pointer"]),
    }
}
