//! Goroutines in the text of `stacks` and in JSON.

use biopsy_analyze::dump::DumpFacts;
use biopsy_analyze::{Diagnosis, analyze_image};
use biopsy_report::{StacksOptions, render_json, render_stacks};

#[test]
fn goroutines_are_shown_with_what_they_wait_for_and_who_has_it() {
    let analysis = analyze_image(&biopsy_runtimes::fuzz::go_image(24), vec![], &DumpFacts::default());
    let options = StacksOptions { width: Some(160), color: false, all: false, native: false, frames: 20 };
    let text = render_stacks(&analysis, options);
    for part in [
        "Go 1.24.3 · 4 goroutines in 3 different stacks",
        "2 ×  goroutine 2, 3 · waiting",
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
    assert_eq!(runtime["groups"][0]["wait"]["owners"][0]["confidence"], "very likely");
    assert_eq!(runtime["groups"][0]["frames"][2]["function"], "main.transfer");
}
