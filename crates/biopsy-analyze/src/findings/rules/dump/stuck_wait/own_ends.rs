//! Threads wait at a pipe or a connection whose other end only their own process has.

use crate::dump::{DumpAnalysis, OwnEnd};
use crate::findings::dump::{NAMED, label};
use crate::findings::evidence::{at, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity};
use biopsy_model::order::Order as _;
use biopsy_model::peers::PeerObject;
use std::collections::BTreeMap;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let ends = &analysis.across.as_ref()?.own_ends;
    if analysis.crash.is_some() {
        return None;
    }
    // Room is waited for in the middle of work; for data clients wait, and servers too.
    let room = |end: &&OwnEnd| matches!(end.object, PeerObject::PipeRoom | PeerObject::SocketRoom);
    let sends: Vec<&OwnEnd> = ends.iter().filter(room).collect();
    let reads: Vec<&OwnEnd> = ends.iter().filter(|end| end.object == PeerObject::Socket).collect();
    let (all, sends) = if sends.is_empty() { (reads, false) } else { (sends, true) };
    let mut places: BTreeMap<String, Vec<&OwnEnd>> = BTreeMap::new();
    for end in all {
        if let Some(place) = analysis.place(end.tid).filter(|place| place.own) {
            places.entry(place.words()).or_default().push(end);
        }
    }
    let mut named: Vec<(&String, &Vec<&OwnEnd>)> = places.iter().collect();
    named.order_by_key(|(_, ends)| std::cmp::Reverse(ends.len()));
    let (place, first) = named.first()?;
    let one = first.first()?;
    let who = match first.len() {
        1 => format!("{} waits", label(analysis, one.tid)),
        count => format!("{count} threads wait"),
    };
    let evidence: Vec<Evidence> = named
        .iter()
        .flat_map(|(place, ends)| ends.iter().map(move |end| (place, end)))
        .take(NAMED)
        .map(|(place, end)| {
            let text = format!("{} waits for {}, in {place}", label(analysis, end.tid), end.what);
            at(Reference::Thread(end.tid), text, None)
        })
        .collect();
    let (title, explanation, advice) = if sends {
        (
            format!("{who} for {}, in {place}; nobody but its own process takes from there", one.what),
            "What was written is not read, and there is no more room. The other end is in this process alone: the thread that would read has ended, \
             does something else, or is the one that writes.",
            "Read while writing (`poll`, or a thread of its own for the reading), or write no more than there is room for",
        )
    } else {
        (
            format!(
                "{who} for data of connections whose other ends only their own process has, in {place}; nothing that was sent lies there"
            ),
            "Whoever should send is a thread of this process. It may be at work on the answer; if all stays as it is, it has given it up, waits itself, \
             or reads too because it was never told that all was sent (`shutdown(SHUT_WR)`, or a length before the data).",
            "Look at the threads at the other ends: do they read as well, or wait? Who sends next, and who is told the end of what is sent?",
        )
    };
    Some(Finding {
        id: FindingId::StuckWait,
        severity: if sends { Severity::Notice } else { Severity::Info },
        impact: if sends { 0.3 } else { 0.54 },
        title,
        explanation: explanation.to_owned(),
        evidence,
        next_steps: steps(&[
            advice,
            &format!(
                "`biopsy stacks {} --looks 3 --every 2s` determines whether they still stand there",
                analysis.identity.pid
            ),
        ]),
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{frame, group};
    use super::*;
    use crate::dump::{Across, DumpThread, FrameRow, StackGroup};
    use crate::whose::Whose;
    use biopsy_model::Tid;

    fn said(ends: &[(u32, PeerObject)], whose: Whose) -> Option<(Severity, String)> {
        let end =
            |(tid, object): &(u32, PeerObject)| OwnEnd { tid: Tid(*tid), object: *object, what: "it".into() };
        let across = Across { own_ends: ends.iter().map(end).collect(), ..Across::default() };
        let row = FrameRow { whose, ..frame("relay", false) };
        let groups = vec![StackGroup { frames: vec![row], ..group(0..1, 1) }];
        let threads = (1..4).map(|tid| DumpThread { tid: Tid(tid), ..DumpThread::default() }).collect();
        let found = find(&DumpAnalysis { threads, groups, across: Some(across), ..DumpAnalysis::default() })?;
        Some((found.severity, found.title))
    }

    #[test]
    fn room_that_only_its_own_process_makes_is_a_notice_and_data_an_information() {
        use PeerObject::{PipeData, PipeRoom, Socket};
        let (severity, title) = said(&[(1, PipeRoom), (2, Socket)], Whose::Program).unwrap();
        assert_eq!(severity, Severity::Notice);
        assert!(title.starts_with("thread 1 waits for it, in `relay`"), "{title}");
        let (severity, title) = said(&[(1, Socket), (2, Socket)], Whose::Program).unwrap();
        assert_eq!(severity, Severity::Info);
        assert!(title.starts_with("2 threads wait for data of connections"), "{title}");
        assert_eq!(said(&[(1, PipeData)], Whose::Program), None, "another rule's");
        assert_eq!(said(&[(1, Socket)], Whose::Library), None, "threads of runtimes rest so");
        assert_eq!(said(&[], Whose::Program), None);
    }
}
