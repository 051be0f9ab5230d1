//! Goroutines in the text of `stacks` and in JSON.

use biopsy_analyze::dump::{DumpFacts, DumpThread, FrameRow, StackGroup};
use biopsy_analyze::{Diagnosis, Whose, analyze_image};
use biopsy_model::stack::StackEnd;
use biopsy_model::{Avma, Svma, Tid};
use biopsy_report::{StacksOptions, render_json, render_stacks};
use biopsy_stacks::unwind::FoundBy;

#[test]
fn goroutines_are_shown_with_what_they_wait_for_and_who_has_it() {
    let analysis =
        analyze_image(&biopsy_runtimes::fuzz::go_image(24), &Default::default(), &DumpFacts::default());
    let options = StacksOptions { width: Some(160), color: false, all: false, native: false, frames: 20 };
    let text = render_stacks(&analysis, options);
    for part in [
        "Go 1.24.3 · 4 goroutines in 3 different stacks",
        "1 ×  goroutine 2 · waiting",
        "1 ×  goroutine 3 · waiting",
        "waits for a mutex at 0xc000007100 (sync.Mutex.Lock), which goroutine 3 very likely has in main.transfer (made.go:13)",
        "       main.transfer                                             made.go:13",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let diagnosis = Diagnosis::new(None, vec![analysis], Vec::new());
    let json: serde_json::Value = serde_json::from_str(&render_json(&diagnosis, None)).expect("it is JSON");
    let runtime = &json["dumps"][0]["runtimes"][0];
    assert_eq!(runtime["name"], "Go 1.24.3");
    assert_eq!(runtime["cycles"][0], serde_json::json!(["2", "3"]));
    // Two that wait for each other stand in one place, and are two rows all the same.
    let of = |id: &str| {
        let groups = runtime["groups"].as_array().expect("a list");
        groups.iter().find(|group| group["ids"] == serde_json::json!([id])).expect("alone").clone()
    };
    for (id, owner) in [("2", "3"), ("3", "2")] {
        assert_eq!(of(id)["wait"]["owners"][0]["strand"], owner);
        assert_eq!(of(id)["wait"]["owners"][0]["confidence"], "very likely");
        assert_eq!(of(id)["frames"][2]["function"], "main.transfer");
    }
}

#[test]
fn native_frames_of_a_language_are_shown_where_they_are_asked_for() {
    let mut analysis =
        analyze_image(&biopsy_runtimes::fuzz::go_image(24), &Default::default(), &DumpFacts::default());
    // A thread of the scheduler, which is on no goroutine.
    analysis.threads.push(DumpThread {
        tid: Tid(77),
        name: "idle".to_owned(),
        named: true,
        ..DumpThread::default()
    });
    analysis.groups.push(StackGroup {
        members: vec![0],
        frames: Vec::new(),
        depth: 0,
        end: StackEnd::Root,
        cut: false,
        crashed: false,
        in_cycle: false,
        running: 0,
        doing: "waits for a futex".to_owned(),
    });
    let text = |native, all| {
        let options = StacksOptions { width: Some(160), color: false, all, native, frames: 20 };
        render_stacks(&analysis, options)
    };
    let left_out = "are those of the language alone: see `--native`";
    assert!(text(false, false).contains(left_out), "{}", text(false, false));
    for shown in [text(true, false), text(false, true)] {
        assert!(!shown.contains(left_out), "{shown}");
        let strands = shown.find("4 goroutines in").expect("they are there");
        assert!(shown.find("idle (77)").expect("the thread is there") > strands, "{shown}");
    }
    // An extension, or C that Go called, is nowhere else.
    let frame = |function: &str, module: &str, whose| FrameRow {
        function: Some(function.to_owned()),
        inlined: false,
        managed: false,
        whose,
        module: module.to_owned(),
        offset: Svma(0),
        start: None,
        address: Avma(0),
        source: None,
        found: FoundBy::UnwindInfo,
        repeats: (1, 1),
        skipped: 0,
    };
    let server = String::from_utf8(analysis.strands[0].runtime.path.clone()).expect("a name");
    let server = server.rsplit('/').next().expect("a name");
    for (frames, hidden) in [
        (
            vec![frame("poll", "libc.so.6", Whose::Plumbing), frame("runtime.mcall", server, Whose::Library)],
            true,
        ),
        (
            vec![
                frame("poll", "libc.so.6", Whose::Plumbing),
                frame("PQgetResult", "libpq.so.5", Whose::Library),
            ],
            false,
        ),
        (
            vec![
                frame("wait_in_c", server, Whose::Library),
                frame("runtime.asmcgocall.abi0", server, Whose::Library),
            ],
            false,
        ),
    ] {
        analysis.groups[0].frames = frames;
        let options = StacksOptions { width: Some(160), color: false, all: false, native: false, frames: 20 };
        let text = render_stacks(&analysis, options);
        assert_eq!(text.contains(left_out), hidden, "{text}");
    }
}
