//! Threads wait for data of a connection without a limit that could be seen, and nothing else was found.
//!
//! Servers rest in the same way at connections of their clients. So it is the last thing that is said, and no more than an information: the
//! place, how many stand there, and at what.

use crate::dump::{DumpAnalysis, DumpThread, Movement, ThreadState};
use crate::findings::dump::{NAMED, label};
use crate::findings::evidence::{at, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity};
use std::collections::BTreeMap;

/// Before what all threads do.
const IMPACT: f64 = 0.51;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    if analysis.crash.is_some() {
        return None;
    }
    let mut places: BTreeMap<String, Vec<&DumpThread>> = BTreeMap::new();
    for thread in analysis.threads.iter().filter(|thread| receives(thread)) {
        if let Some(place) = analysis.place(thread.tid).filter(|place| place.own) {
            places.entry(place.words()).or_default().push(thread);
        }
    }
    let (place, threads) = places.iter().max_by_key(|(_, threads)| threads.len())?;
    let first = threads.first()?;
    let who = match threads.len() {
        1 => format!("{} waits", label(analysis, first.tid)),
        count => format!("{count} threads wait"),
    };
    let evidence: Vec<Evidence> = places
        .iter()
        .flat_map(|(place, threads)| threads.iter().map(move |thread| (place, thread)))
        .take(NAMED)
        .map(|(place, thread)| {
            let text = format!("{} {}, in {place}", thread.label(), thread.words());
            at(Reference::Thread(thread.tid), text, None)
        })
        .collect();
    Some(Finding {
        id: FindingId::StuckWait,
        severity: Severity::Info,
        impact: IMPACT,
        title: format!("{who} for data of a connection, in {place}; whether and when the other end sends is not determined"),
        explanation: "Nothing else was found. Who waits for a request is at rest; who waits for an answer waits for the other end, which may be slow, \
                      gone without a word (a machine that was switched off, a firewall that forgot the connection), or waiting as well. A limit that \
                      the socket itself has (`SO_RCVTIMEO`) cannot be seen."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            &format!("`ss -tnpo | grep pid={}` shows the other ends, and since when nothing came", analysis.identity.pid),
            "Give the wait a limit (`SO_RCVTIMEO`, a time-out of the client library), and switch keep-alive on",
        ]),
    })
}

/// It is in `recvfrom` or `recvmsg`, which sockets alone have.
fn receives(thread: &DumpThread) -> bool {
    matches!(thread.state, ThreadState::InSystemCall { number: Some(45 | 47), .. })
        && thread.movement != Some(Movement::Moved)
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{frame, group};
    use super::*;
    use crate::dump::{FrameRow, StackGroup, WaitKind};
    use crate::whose::Whose;
    use biopsy_model::Tid;

    #[test]
    fn threads_that_receive_are_an_information_where_the_program_stands_there() {
        let said = |call: u32, whose: Whose| {
            let state = ThreadState::InSystemCall {
                number: Some(call),
                name: "recvfrom".into(),
                wait: WaitKind::Input,
                words: "receives from descriptor 4".into(),
            };
            let one = |tid| DumpThread { tid: Tid(tid), state: state.clone(), ..DumpThread::default() };
            let row = FrameRow { whose, ..frame("ask", false) };
            let groups = vec![StackGroup { frames: vec![row], ..group(0..2, 1) }];
            find(&DumpAnalysis { threads: vec![one(1), one(2)], groups, ..DumpAnalysis::default() })
        };
        let found = said(45, Whose::Program).expect("two that receive");
        assert_eq!(found.severity, Severity::Info);
        assert!(
            found.title.starts_with("2 threads wait for data of a connection, in `ask`"),
            "{}",
            found.title
        );
        assert!(said(47, Whose::Program).is_some());
        assert_eq!(said(232, Whose::Program), None, "an event loop");
        assert_eq!(said(45, Whose::Library), None);
    }
}
