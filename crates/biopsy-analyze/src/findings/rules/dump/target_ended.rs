//! The process ends itself: by `exit`, by `_exit`, or because its runtime does.

use crate::dump::{DumpAnalysis, DumpThread, by_functions};
use crate::findings::dump::{at, place};
use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Severity, Value};
use biopsy_model::Tid;

/// Functions of the stack that are asked for the reason.
const FRAMES: usize = 64;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    if analysis.crash.is_some() {
        return None;
    }
    let (thread, status) = analysis.threads.iter().find_map(|thread| Some((thread, thread.ends_with?)))?;
    let asks = asks(analysis, thread.tid);
    let inside = asks.as_ref().map(|asks| asks.place.clone()).or_else(|| place(analysis, thread.tid));
    let inside = inside.map_or(String::new(), |place| format!(", in {place}"));
    let reason = reason(analysis, thread);
    let by = asks.as_ref().map_or(String::new(), |asks| format!(", by `{}`", asks.function));
    let because = reason.map_or(by, |reason| format!(": {reason}"));
    let mut evidence: Vec<_> = asks.iter().map(|asks| at(asks.reference.clone(), asks.words())).collect();
    let own = if asks.is_some() { "" } else { inside.as_str() };
    evidence.push(at(
        Reference::Thread(thread.tid),
        format!("{} ends the process with status {status}{own}", thread.label()),
    ));
    evidence.extend(reason.map(|reason| {
        fact(format!("by the functions on its stack: {reason}"), Some(Value::Count(f64::from(status))))
    }));
    if status != 0 {
        evidence.extend(
            analysis
                .last_line
                .as_ref()
                .map(|line| fact(format!("the last line that it wrote: {line}"), None)),
        );
    }
    Some(Finding {
        id: FindingId::TargetEnded,
        severity: if status == 0 { Severity::Info } else { Severity::Warning },
        impact: if status == 0 { 0.1 } else { 0.9 },
        title: format!("The process ends itself with status {status}{inside}{because}"),
        explanation: "No signal ends it: its own code, or its runtime, calls `exit`. What led to that is on the stack of that thread, and in what the \
                      program wrote before."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Look at the stack of that thread: who decided to end, and on which condition?",
            "Look at the last lines of its log before this moment",
        ]),
    })
}

/// What a program asks its runtime by for the end of the process, which a thread of the runtime then does. The first that is on a stack
/// decides.
const ASK: &[&str] = &[
    "java.lang.Shutdown.halt",
    "java.lang.Runtime.halt",
    "java.lang.Shutdown.exit",
    "java.lang.Runtime.exit",
];

/// Who asked for the end of the process.
struct Asks {
    who: String,
    function: String,
    place: String,
    reference: Reference,
}

impl Asks {
    fn words(&self) -> String {
        format!("{} asked for the end of the process by `{}`, in {}", self.who, self.function, self.place)
    }
}

/// The thread of a language that asked for it, where that is another one than the one that does it.
fn asks(analysis: &DumpAnalysis, ends: Tid) -> Option<Asks> {
    let found = analysis
        .strands
        .iter()
        .flat_map(|runtime| runtime.runtime.strands.iter().map(move |strand| (runtime, strand)));
    let found = found.filter_map(|(runtime, strand)| {
        let known = |function: &str| ASK.iter().position(|known| function.starts_with(known));
        let first = strand.frames.iter().filter_map(|frame| known(&frame.function)).min()?;
        // What the program itself called is the outermost of them.
        let called =
            strand.frames.iter().rev().find(|frame| {
                known(&frame.function).is_some() || &*frame.function == "java.lang.System.exit"
            })?;
        let function = called.function.trim_start_matches("java.lang.").to_owned();
        Some((first, runtime, strand, function))
    });
    let (_, runtime, strand, function) =
        found.filter(|(.., strand, _)| strand.tid != Some(ends)).min_by_key(|(first, ..)| *first)?;
    Some(Asks {
        who: runtime.label(strand),
        function,
        place: runtime.place(strand)?,
        reference: strand.tid.map_or(Reference::Recording, Reference::Thread),
    })
}

fn reason(analysis: &DumpAnalysis, thread: &DumpThread) -> Option<&'static str> {
    let rows = analysis.groups.get(thread.group)?.frames.iter().take(FRAMES);
    by_functions(rows.filter_map(|row| row.function.as_deref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::DumpFacts;
    use biopsy_runtimes::{RuntimeKind, RuntimeStrands, Strand, StrandFrame, StrandId, StrandKind};

    #[test]
    fn who_asked_a_virtual_machine_for_the_end_is_named() {
        let said = |frames: &[&str]| {
            let frame =
                |function: &&str| StrandFrame { function: (*function).into(), ..StrandFrame::default() };
            let asks = Strand {
                tid: Some(Tid(9)),
                name: Some("watch".to_owned()),
                frames: frames.iter().map(frame).collect(),
                ..Strand::new(StrandId(9), StrandKind::Thread)
            };
            let mut runtime = RuntimeStrands::new(RuntimeKind::Java, b"java", 0);
            runtime.strands = vec![Strand::new(StrandId(1), StrandKind::Thread), asks];
            let facts = [runtime];
            let facts = DumpFacts { strands: &facts, ..DumpFacts::default() };
            let ends = DumpThread { tid: Tid(3), ends_with: Some(70), ..DumpThread::default() };
            let strands = crate::dump::strands::analyze(&facts);
            find(&DumpAnalysis { threads: vec![ends], strands, ..DumpAnalysis::default() }).unwrap().title
        };
        let halt =
            ["java.lang.Shutdown.halt0", "java.lang.Shutdown.halt", "java.lang.Runtime.halt", "Night.check"];
        assert_eq!(said(&halt), "The process ends itself with status 70, in Night.check, by `Runtime.halt`");
        let exit = [
            "java.lang.Shutdown.halt0",
            "java.lang.Shutdown.exit",
            "java.lang.Runtime.exit",
            "java.lang.System.exit",
            "Night.check",
        ];
        assert_eq!(said(&exit), "The process ends itself with status 70, in Night.check, by `System.exit`");
        assert_eq!(said(&["Night.check"]), "The process ends itself with status 70");
    }
}
