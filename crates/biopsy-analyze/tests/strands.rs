//! What goroutines, and threads and tasks of Python wait for, as findings.

use biopsy_analyze::dump::strands::{
    Holder, Owner, RuntimeKind, RuntimeStrands, Strand, StrandFrame, StrandId, StrandKind, StrandState,
    StrandWait, WaitKind,
};
use biopsy_analyze::dump::{DumpAnalysis, DumpFacts};
use biopsy_analyze::{Finding, FindingId, Severity, analyze_dump, analyze_image};
use biopsy_model::{Avma, Confidence, Tid};
use biopsy_runtimes::fuzz::{go_image, python_image, read};
use biopsy_stacks::image::ImageStacks;

fn found(analysis: &DumpAnalysis, id: FindingId) -> Option<&Finding> {
    analysis.findings.iter().find(|finding| finding.id == id)
}

fn evidence(finding: &Finding) -> String {
    finding.evidence.iter().map(|one| one.text.as_str()).collect::<Vec<_>>().join("\n")
}

#[test]
fn two_goroutines_that_wait_for_each_other_are_named_with_both_sites() {
    let analysis = analyze_image(&go_image(24), &Default::default(), &DumpFacts::default());
    let finding = analysis.findings.first().expect("there is one");
    assert_eq!((finding.id, finding.severity), (FindingId::StrandDeadlock, Severity::Critical));
    assert_eq!(
        finding.title,
        "Deadlock: goroutine 2 and goroutine 3 wait for each other, in main.transfer (made.go:13)"
    );
    let evidence = evidence(finding);
    for text in [
        "goroutine 2 waits for a mutex at 0xc000007100, which goroutine 3 very likely holds, in main.transfer (made.go:13)",
        "goroutine 3 waits for a mutex at 0xc000007000, which goroutine 2 very likely holds, in main.transfer (made.go:13)",
    ] {
        assert!(evidence.contains(text), "{evidence}");
    }
}

/// A goroutine at a channel or wait group, and who would end that.
fn at(id: u64, kind: WaitKind, helpers: &[(u64, Confidence)]) -> Strand {
    let mut strand = Strand::new(StrandId(id), StrandKind::Goroutine);
    strand.state = StrandState::Waiting;
    let mut wait = StrandWait::of(kind, "chan send");
    wait.address = Some(Avma(0xc000 + id));
    wait.owners = helpers
        .iter()
        .map(|(other, confidence)| Owner {
            holder: Holder::Strand(StrandId(*other)),
            confidence: *confidence,
            frame: None,
            proof: "the code ahead of it takes from the channel".to_owned(),
        })
        .collect();
    strand.wait = Some(wait);
    strand.frames = vec![StrandFrame { function: format!("main.f{id}").into(), ..StrandFrame::default() }];
    strand
}

fn of_go(strands: Vec<Strand>) -> DumpAnalysis {
    let mut runtime = RuntimeStrands::new(RuntimeKind::Go, b"/bin/hub", 0);
    let mut sleeper = Strand::new(StrandId(1), StrandKind::Goroutine);
    sleeper.state = StrandState::Waiting;
    sleeper.wait = Some(StrandWait::of(WaitKind::Timer, "sleep"));
    runtime.strands = [vec![sleeper], strands].concat();
    runtime.total = runtime.strands.len() as u64;
    let facts = DumpFacts { strands: &[runtime], ..DumpFacts::default() };
    analyze_dump(&go_image(24), &ImageStacks::default(), &facts)
}

#[test]
fn goroutines_that_send_to_each_other_are_a_deadlock_unless_somebody_may_take() {
    let (likely, perhaps) = (Confidence::VeryLikely, Confidence::Possible);
    let circle = |of_3: &[(u64, Confidence)]| {
        of_go(vec![at(2, WaitKind::ChannelSend, &[(3, likely)]), at(3, WaitKind::ChannelSend, of_3)])
    };
    let analysis = circle(&[(2, likely)]);
    let finding = found(&analysis, FindingId::StrandDeadlock).expect("a circle");
    assert_eq!(
        finding.title,
        "Deadlock: goroutine 2 and goroutine 3 wait for each other, in main.f2 and main.f3"
    );
    let text = "goroutine 2 waits for a channel, to send at 0xc002, from which goroutine 3 very likely takes, in main.f2";
    assert!(evidence(finding).contains(text), "{}", evidence(finding));
    assert!(
        found(&circle(&[(2, likely), (1, perhaps)]), FindingId::StrandDeadlock).is_none(),
        "1 may take, too"
    );
    assert!(found(&circle(&[(1, likely)]), FindingId::StrandDeadlock).is_none(), "1 goes on");
    assert!(found(&circle(&[]), FindingId::StrandDeadlock).is_none(), "not known");
}

#[test]
fn a_wait_group_that_nobody_counts_down_is_named_with_its_place() {
    let alone = |kind| {
        let mut strand = at(2, kind, &[]);
        strand.wait.as_mut().unwrap().nobody = Some("no goroutine that is left comes to it".to_owned());
        of_go(vec![strand])
    };
    let analysis = alone(WaitKind::WaitGroup);
    let finding = found(&analysis, FindingId::NeverWoken).expect("nobody is left");
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(
        finding.title,
        "1 goroutine waits for a wait group in main.f2, and nobody is left who would end that"
    );
    let sends = alone(WaitKind::ChannelSend);
    let finding = found(&sends, FindingId::NeverWoken).expect("nobody takes");
    assert_eq!(finding.severity, Severity::Notice, "somebody may come later");
    let waits = of_go(vec![at(2, WaitKind::WaitGroup, &[(1, Confidence::VeryLikely)])]);
    assert!(found(&waits, FindingId::NeverWoken).is_none(), "1 counts it down");
}

#[test]
fn threads_of_python_wait_in_the_graph_of_threads() {
    for minor in 8..=13 {
        let image = python_image(minor);
        let strands = read(&image);
        let facts = DumpFacts { strands: &strands, ..DumpFacts::default() };
        let analysis = analyze_dump(&image, &ImageStacks::default(), &facts);
        assert_eq!(analysis.waits.edges, [(Tid(12), Tid(11))], "3.{minor}");
        assert_eq!(found(&analysis, FindingId::Deadlock), None);
    }
}

/// Threads that each wait for the next one's lock.
#[test]
fn two_threads_of_python_that_wait_for_each_other_are_named() {
    let image = python_image(12);
    let mut strands = read(&image);
    let runtime = strands.first_mut().expect("there is one");
    let ids: Vec<StrandId> = runtime.strands.iter().map(|strand| strand.id).collect();
    for (strand, other) in runtime.strands.iter_mut().zip([ids[1], ids[0]]) {
        strand.wait = Some(waits(WaitKind::Mutex, Some((other, Confidence::AlmostCertain))));
    }
    let facts = DumpFacts { strands: &strands, ..DumpFacts::default() };
    let analysis = analyze_dump(&image, &ImageStacks::default(), &facts);
    let finding = found(&analysis, FindingId::Deadlock).expect("it is found");
    let evidence = evidence(finding);
    assert!(
        evidence.contains("in hold (made.py:10)") && evidence.contains("in want (made.py:20)"),
        "{evidence}"
    );
}

fn waits(kind: WaitKind, owner: Option<(StrandId, Confidence)>) -> StrandWait {
    let mut wait = StrandWait::of(kind, "chan send");
    wait.address = Some(Avma(0x1000));
    wait.owners.extend(owner.map(|(id, confidence)| Owner {
        holder: Holder::Strand(id),
        confidence,
        frame: None,
        proof: "by hand".to_owned(),
    }));
    wait
}

fn goroutine(id: u64, kind: WaitKind, function: &str) -> Strand {
    let mut strand = Strand::new(StrandId(id), StrandKind::Goroutine);
    strand.state = StrandState::Waiting;
    strand.wait = Some(waits(kind, None));
    strand.frames = vec![StrandFrame { function: function.into(), ..StrandFrame::default() }];
    strand
}

fn analysis_of(strands: Vec<Strand>) -> DumpAnalysis {
    let mut runtime = RuntimeStrands::new(RuntimeKind::Go, b"/bin/a", 0);
    runtime.total = strands.len() as u64;
    runtime.strands = strands;
    let facts = DumpFacts { strands: &[runtime], ..DumpFacts::default() };
    analyze_dump(&go_image(22), &ImageStacks::default(), &facts)
}

#[test]
fn goroutines_that_all_wait_for_each_other_are_a_deadlock_and_a_way_out_is_none() {
    let stuck = || {
        vec![goroutine(1, WaitKind::WaitGroup, "main.main"), goroutine(5, WaitKind::ChannelSend, "main.work")]
    };
    let analysis = analysis_of(stuck());
    let finding = found(&analysis, FindingId::StrandDeadlock).expect("it is found");
    assert_eq!(
        finding.title,
        "Deadlock: all 2 goroutines of the program wait for each other; `main` in main.main"
    );
    for healthy in [
        goroutine(6, WaitKind::Io, "net.accept"),
        goroutine(6, WaitKind::Timer, "main.tick"),
        goroutine(6, WaitKind::Other, "os/signal.loop"),
        Strand { state: StrandState::Running, wait: None, ..goroutine(6, WaitKind::Other, "main.compute") },
    ] {
        let mut strands = stuck();
        strands.push(healthy);
        assert_eq!(found(&analysis_of(strands), FindingId::StrandDeadlock), None);
    }
    // A program that leaves the work to C.
    let mut strands = stuck();
    strands[0].wait.as_mut().expect("it waits").never_ends = true;
    assert_eq!(found(&analysis_of(strands), FindingId::StrandDeadlock), None);
}

/// Both sides of what makes a deadlock of goroutines: how many wait, how sure it is for whom, how many are named.
#[test]
fn thresholds_of_a_deadlock_of_goroutines() {
    let is_said = |analysis: &DumpAnalysis| found(analysis, FindingId::StrandDeadlock).is_some();
    // One goroutine that waits alone may be served from where nobody looks.
    for (others, said) in [(0, false), (1, true), (50, true)] {
        let mut strands = vec![goroutine(1, WaitKind::WaitGroup, "main.main")];
        strands.extend((0..others).map(|one| goroutine(10 + one, WaitKind::Mutex, "main.work")));
        assert_eq!(is_said(&analysis_of(strands)), said, "{others} besides `main`");
    }
    use Confidence::{AlmostCertain, Certain, Possible, VeryLikely};
    for (weakest, said) in [(Certain, true), (AlmostCertain, true), (VeryLikely, true), (Possible, false)] {
        let ring = vec![at(2, WaitKind::Mutex, &[(3, Certain)]), at(3, WaitKind::Mutex, &[(2, weakest)])];
        assert_eq!(is_said(&of_go(ring)), said, "{weakest:?}");
    }
    for (members, lines) in [(2, 2), (12, 12), (13, 13), (40, 13)] {
        let ring =
            (0..members).map(|one| at(2 + one, WaitKind::Mutex, &[(2 + (one + 1) % members, Certain)]));
        let analysis = of_go(ring.collect());
        let finding = found(&analysis, FindingId::StrandDeadlock).expect("a ring");
        let named = finding.evidence.iter().filter(|one| !one.text.starts_with("how the owner")).count();
        assert_eq!(named, lines, "{members}: {}", evidence(finding));
    }
}

#[test]
fn many_senders_are_said_and_as_many_receivers_are_not() {
    let of = |kind, count: u64| {
        let mut strands = vec![goroutine(1, WaitKind::Io, "main.main")];
        strands.extend((2..count + 2).map(|id| goroutine(id, kind, "main.leak")));
        analysis_of(strands)
    };
    let analysis = of(WaitKind::ChannelSend, 100);
    let finding = found(&analysis, FindingId::StrandsWait).expect("it is found");
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(finding.title, "100 goroutines wait for a channel, to send in main.leak");
    assert_eq!(found(&of(WaitKind::ChannelSend, 99), FindingId::StrandsWait), None);
    assert_eq!(found(&of(WaitKind::ChannelReceive, 9_999), FindingId::StrandsWait), None);
    assert!(found(&of(WaitKind::ChannelReceive, 10_000), FindingId::StrandsWait).is_some());
    assert_eq!(found(&of(WaitKind::Idle, 20_000), FindingId::StrandsWait), None);
}

/// All connections are in use, and nobody gives one back.
#[test]
fn goroutines_that_wait_for_a_connection_of_a_pool_are_told() {
    let at_pool = |count: u64, function: &str| {
        let waiting = (0..count).map(|one| {
            let mut strand = goroutine(10 + one, WaitKind::Select, "runtime.selectgo");
            for name in [function, "main.fetchProfile"] {
                strand.frames.push(StrandFrame { function: name.into(), ..StrandFrame::default() });
            }
            strand
        });
        of_go(waiting.collect())
    };
    for (count, function, said) in [
        (4, "net/http.(*Transport).getConn", false),
        (5, "net/http.(*Transport).getConn", true),
        (5, "database/sql.(*DB).conn", true),
        (500, "main.(*hub).run", false),
    ] {
        let analysis = at_pool(count, function);
        let finding = found(&analysis, FindingId::StrandsWait);
        assert_eq!(finding.is_some(), said, "{count} in {function}");
        if let Some(finding) = finding {
            assert_eq!(finding.severity, biopsy_analyze::Severity::Notice);
            assert!(
                finding.title.contains(function) && finding.title.ends_with("main.fetchProfile"),
                "{}",
                finding.title
            );
        }
    }
}

#[test]
fn a_queue_behind_a_lock_names_who_sleeps_with_it() {
    let of = |count: u64, state| {
        let mut holder = goroutine(1, WaitKind::Timer, "main.hold");
        holder.state = state;
        let mut strands = vec![holder];
        strands.extend((2..count + 2).map(|id| {
            let mut strand = goroutine(id, WaitKind::Mutex, "main.want");
            strand.wait = Some(waits(WaitKind::Mutex, Some((StrandId(1), Confidence::VeryLikely))));
            strand
        }));
        analysis_of(strands)
    };
    let analysis = of(5, StrandState::Waiting);
    let finding = found(&analysis, FindingId::StrandsWait).expect("it is found");
    assert_eq!(finding.title, "5 goroutines wait for a mutex in main.want");
    assert!(evidence(finding).contains("goroutine 1 has it (very likely)"), "{}", evidence(finding));
    assert_eq!(found(&of(4, StrandState::Waiting), FindingId::StrandsWait), None);
    assert_eq!(found(&of(50, StrandState::Running), FindingId::StrandsWait), None);
}

#[test]
fn names_are_shown_only_where_somebody_redacts_them() {
    let image = python_image(11);
    let mut strands = read(&image);
    strands[0].strands[0].name = Some("fetch https://user:secret@host".to_owned());
    let facts = DumpFacts { strands: &strands, ..DumpFacts::default() };
    let analysis = analyze_dump(&image, &ImageStacks::default(), &facts);
    assert_eq!(analysis.strands[0].runtime.strands[0].name, None);
    let redact = |_: &str| "***".to_owned();
    let facts = DumpFacts { redact: Some(&redact), ..facts };
    let analysis = analyze_dump(&image, &ImageStacks::default(), &facts);
    assert_eq!(analysis.strands[0].runtime.strands[0].name.as_deref(), Some("***"));
    assert_eq!(analysis.threads[0].name, "***");
}
