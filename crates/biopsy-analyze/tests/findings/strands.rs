//! What tasks, threads and the event loop of a language wait for at one moment: places where somebody waits for an answer, and those that only
//! look like it.

use biopsy_analyze::Severity::{self, Info, Notice, Warning};
use biopsy_analyze::dump::strands::{
    Holder, Owner, RuntimeKind, RuntimeStrands, Strand, StrandFrame, StrandId, StrandKind, StrandState,
    StrandWait, WaitKind,
};
use biopsy_analyze::dump::{DumpAnalysis, DumpFacts};
use biopsy_analyze::{Finding, FindingId, analyze_dump};
use biopsy_model::Confidence;
use biopsy_runtimes::fuzz::go_image;
use biopsy_stacks::image::ImageStacks;

const APP: &str = "/srv/app.py";
const SCRIPT: &str = "/srv/app.js";

fn frame(function: &str, file: &str, line: u32) -> StrandFrame {
    StrandFrame {
        function: function.into(),
        file: Some(file.into()),
        line: Some(line),
        ..StrandFrame::default()
    }
}

/// One that waits, its frames innermost first.
fn strand(id: u64, kind: StrandKind, wait: StrandWait, frames: &[(&str, &str)]) -> Strand {
    let frames = frames.iter().map(|(function, file)| frame(function, file, 7)).collect();
    Strand { state: StrandState::Waiting, wait: Some(wait), frames, ..Strand::new(StrandId(id), kind) }
}

fn analysis(kind: RuntimeKind, strands: Vec<Strand>) -> DumpAnalysis {
    let mut runtime = RuntimeStrands::new(kind, b"/usr/bin/it", 0);
    runtime.total = strands.len() as u64;
    runtime.strands = strands;
    let keep = |text: &str| text.to_owned();
    let runtimes = [runtime];
    let facts = DumpFacts { strands: &runtimes, redact: Some(&keep), ..DumpFacts::default() };
    analyze_dump(&go_image(24), &ImageStacks::default(), &facts)
}

fn found(analysis: &DumpAnalysis, id: FindingId) -> Option<&Finding> {
    analysis.findings.iter().find(|finding| finding.id == id)
}

fn stuck(analysis: &DumpAnalysis) -> Option<(Severity, &str)> {
    found(analysis, FindingId::StuckWait).map(|found| (found.severity, found.title.as_str()))
}

fn texts(finding: &Finding) -> Vec<&str> {
    finding.evidence.iter().map(|one| one.text.as_str()).collect()
}

/// The rule of the event loop: nobody is answered while its thread waits for another one.
#[test]
fn an_event_loop_that_waits_for_a_notification_stands_still() {
    const LOOP: &str = "and its event loop stands still meanwhile";
    let at = |runtime, name: &str, reason: &str, ends_by_itself| {
        let wait = StrandWait { ends_by_itself, ..StrandWait::of(WaitKind::Condition, reason) };
        let one = strand(1, StrandKind::Thread, wait, &[("waitForWorker", SCRIPT), ("main", SCRIPT)]);
        analysis(runtime, vec![Strand { name: Some(name.to_owned()), ..one }])
    };
    let found = at(RuntimeKind::Node, "main", "Atomics.wait", false);
    let (severity, title) = stuck(&found).expect("it stands still");
    assert_eq!(severity, Info, "at one moment it may have begun just now");
    assert_eq!(
        title,
        format!(
            "thread `main` waits in waitForWorker (app.js:7) for `Atomics.notify`, {LOOP}, without a limit; who would end that is not \
             determined"
        )
    );
    // A worker waits there for work; with a limit it goes on; another reason, another language.
    for (runtime, name, reason, ends_by_itself) in [
        (RuntimeKind::Node, "worker 1", "Atomics.wait", false),
        (RuntimeKind::Node, "main", "Atomics.wait", true),
        (RuntimeKind::Node, "main", "Atomics.waitAsync", false),
        (RuntimeKind::Python, "main", "Atomics.wait", false),
    ] {
        let other = at(runtime, name, reason, ends_by_itself);
        let title = stuck(&other).map(|(_, title)| title).unwrap_or_default();
        assert!(!title.contains(LOOP), "{runtime:?} {name} {reason} {ends_by_itself}: {title}");
    }
}

#[test]
fn an_event_loop_that_stands_still_is_told_before_many_that_wait() {
    let wait = StrandWait::of(WaitKind::Condition, "Atomics.wait");
    let main = strand(1, StrandKind::Thread, wait, &[("waitForWorker", SCRIPT)]);
    let mut strands = vec![Strand { name: Some("main".to_owned()), ..main }];
    strands.extend((2..9).map(|id| {
        let wait = StrandWait::of(WaitKind::Future, "await");
        strand(id, StrandKind::Task, wait, &[("pay", SCRIPT)])
    }));
    let analysis = analysis(RuntimeKind::Node, strands);
    let found = found(&analysis, FindingId::StuckWait).expect("both wait");
    assert!(found.title.starts_with("thread `main` waits in waitForWorker"), "{}", found.title);
    let texts = texts(found);
    assert!(
        texts[0].contains("waitForWorker") && texts[1].contains(" and 2 more in pay (app.js:7)"),
        "{texts:?}"
    );
}

/// Tasks at an `await`: of the program itself they wait for an answer, in the library for work, input or time.
#[test]
fn what_a_task_awaits_is_told_by_the_place_where_it_stands() {
    const ASYNCIO: &str = "/usr/lib/python3.12/asyncio/locks.py";
    const PACKAGE: &str = "/usr/lib/python3/site-packages/shop/queue.py";
    let awaits = |awaited: Option<&str>| StrandWait {
        awaited: awaited.map(str::to_owned),
        ..StrandWait::of(WaitKind::Future, "await")
    };
    /// What is awaited, the frames, and for what two of them are said to wait.
    type Case = (Option<&'static str>, &'static [(&'static str, &'static str)], Option<&'static str>);
    let table: [Case; 9] = [
        (Some("self.gate.opened"), &[("serve", APP)], Some("what `await self.gate.opened` gives")),
        (Some("Promise"), &[("serve", APP)], Some("what it awaits")),
        (None, &[("serve", APP), ("main", APP)], Some("what it awaits")),
        // Of the library, by what its functions are known for.
        (Some("fut"), &[("Event.wait", ASYNCIO), ("serve", APP)], Some("an event")),
        (Some("fut"), &[("Barrier.wait", ASYNCIO), ("serve", APP)], Some("a barrier")),
        (Some("fut"), &[("Queue.put", ASYNCIO), ("serve", APP)], Some("room in a queue")),
        // Work, and what no table knows.
        (Some("getter"), &[("Queue.get", ASYNCIO), ("serve", APP)], None),
        (Some("waiter"), &[("StreamReader.read", ASYNCIO), ("serve", APP)], None),
        (Some("job"), &[("Consumer.next", PACKAGE), ("serve", APP)], None),
    ];
    for (awaited, frames, expected) in table {
        let two = (1..3).map(|id| strand(id, StrandKind::Task, awaits(awaited), frames)).collect();
        let analysis = analysis(RuntimeKind::Python, two);
        let title = expected.map(|what| {
            (Notice, format!("2 tasks wait in serve (app.py:7) for {what}, without a limit; who would end that is not determined"))
        });
        let found = stuck(&analysis).map(|(severity, title)| (severity, title.to_owned()));
        assert_eq!(found, title, "{awaited:?} {frames:?}");
    }
}

#[test]
fn one_that_waits_alone_is_most_often_just_served() {
    for (count, expected) in [(0, None), (1, Some(Info)), (2, Some(Notice)), (19, Some(Notice))] {
        let wait = || StrandWait::of(WaitKind::Future, "await");
        let tasks = (0..count).map(|id| strand(id + 5, StrandKind::Task, wait(), &[("pay", APP)])).collect();
        let analysis = analysis(RuntimeKind::Python, tasks);
        assert_eq!(stuck(&analysis).map(|found| found.0), expected, "{count}");
        // Twenty in one place are a finding of their own.
        assert!(found(&analysis, FindingId::WaitingOperations).is_none(), "{count}");
    }
}

/// Where memory says who would end it, or that it ends, other rules speak, or none.
#[test]
fn who_is_known_to_be_answered_is_not_stuck() {
    let wait = || StrandWait::of(WaitKind::Future, "await");
    let owner = |confidence| {
        let (holder, proof) = (Holder::Strand(StrandId(1)), "by hand".to_owned());
        vec![Owner { holder, confidence, frame: None, proof }]
    };
    type Change = fn(Strand) -> Strand;
    let plain: Change = |strand| strand;
    for (name, wait, change, stuck_there) in [
        ("nothing is known", wait(), plain, true),
        ("somebody gives it", StrandWait { owners: owner(Confidence::VeryLikely), ..wait() }, plain, false),
        ("somebody may give it", StrandWait { owners: owner(Confidence::Possible), ..wait() }, plain, true),
        ("a limit", StrandWait { ends_by_itself: true, ..wait() }, plain, false),
        ("in the queue of a pool", StrandWait { queued_in: Some(0x7f00), ..wait() }, plain, false),
        ("nobody is left", StrandWait { nobody: Some("by hand".to_owned()), ..wait() }, plain, false),
        ("of the runtime", wait(), |strand| Strand { of_runtime: true, ..strand }, false),
        ("it runs", wait(), |strand| Strand { state: StrandState::Running, ..strand }, false),
        ("nothing to wait for", wait(), |strand| Strand { wait: None, ..strand }, false),
        ("a thread", wait(), |strand| Strand { kind: StrandKind::Thread, ..strand }, false),
    ] {
        let helper = Strand { state: StrandState::Running, ..Strand::new(StrandId(1), StrandKind::Task) };
        let two = [2, 3].map(|id| change(strand(id, StrandKind::Task, wait.clone(), &[("pay", APP)])));
        let analysis = analysis(RuntimeKind::Python, vec![helper, two[0].clone(), two[1].clone()]);
        assert_eq!(stuck(&analysis).is_some(), stuck_there, "{name}: {:?}", stuck(&analysis));
    }
}

/// So many tasks of `pay`, and others.
fn tasks(count: u64, others: &[(&str, u64)]) -> DumpAnalysis {
    let wait = StrandWait {
        awaited: Some("answers[id]".to_owned()),
        object: Some("Future".to_owned()),
        ..StrandWait::of(WaitKind::Future, "await")
    };
    let mut all: Vec<Strand> = Vec::new();
    for (name, count) in [("pay", count)].iter().chain(others) {
        for _ in 0..*count {
            let id = all.len() as u64 + 1;
            all.push(strand(
                id,
                StrandKind::Task,
                wait.clone(),
                &[(name, APP), ("handle", APP), ("main", APP)],
            ));
        }
    }
    analysis(RuntimeKind::Python, all)
}

#[test]
fn many_tasks_in_one_place_are_operations_that_wait() {
    let id = FindingId::WaitingOperations;
    for (count, expected) in
        [(19, None), (20, Some(Notice)), (199, Some(Notice)), (200, Some(Warning)), (5_000, Some(Warning))]
    {
        let analysis = tasks(count, &[]);
        assert_eq!(found(&analysis, id).map(|found| found.severity), expected, "{count}");
        assert_eq!(stuck(&analysis).is_some(), expected.is_none(), "{count}: it is said once");
    }
    let analysis = tasks(40, &[("ship", 3), ("refund", 30), ("mail", 1), ("bill", 2), ("stock", 4)]);
    let found = found(&analysis, id).expect("forty wait");
    assert_eq!(found.title, "40 tasks await what `answers[id]` gives, a `Future` each, in pay (app.py:7)");
    let texts = texts(found);
    assert_eq!(texts[0], "awaited by `handle`, `main`");
    assert!(texts.contains(&"40 of 80 that are under way"), "{texts:?}");
    let fewest = "others await something too, the fewest first: 1 in mail (app.py:7), 2 in bill (app.py:7), 3 in ship (app.py:7), 4 in stock \
                  (app.py:7)";
    assert!(texts.contains(&fewest), "{texts:?}");
    assert!((found.impact - 0.5).abs() < 1e-9, "{}", found.impact);
}

/// Workers, connections and timers of a healthy server: hundreds of them wait, all in the library.
#[test]
fn a_healthy_server_of_many_tasks_is_silent() {
    const STREAMS: &str = "/usr/lib/python3.12/asyncio/streams.py";
    let mut all: Vec<Strand> = Vec::new();
    for (function, wait) in [
        ("StreamReader.readline", StrandWait::of(WaitKind::Future, "await")),
        ("Queue.get", StrandWait::of(WaitKind::Future, "await")),
        ("sleep", StrandWait::of(WaitKind::Timer, "sleep")),
        ("_read_ready", StrandWait::of(WaitKind::Io, "read")),
    ] {
        for _ in 0..300 {
            let id = all.len() as u64 + 1;
            all.push(strand(id, StrandKind::Task, wait.clone(), &[(function, STREAMS), ("serve", APP)]));
        }
    }
    let analysis = analysis(RuntimeKind::Python, all);
    for id in
        [FindingId::StuckWait, FindingId::WaitingOperations, FindingId::StrandsWait, FindingId::NeverWoken]
    {
        assert!(found(&analysis, id).is_none(), "{id}: {:?}", found(&analysis, id));
    }
}
