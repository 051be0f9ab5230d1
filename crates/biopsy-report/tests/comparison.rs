//! Comparisons in words: signs and edges of changes, names of others, nothing at all; each form of them.

mod synthetic;

use biopsy_analyze::compare::{
    Comparison, Difference, DifferenceNode, DifferenceTree, Quantity, Side, Unit, compare,
};
use biopsy_analyze::{Diagnosis, FunctionKind, Recorded, WaitReason};
use biopsy_model::capture::Capture;
use biopsy_model::printable::is_harmful;
use biopsy_report::schema::comparison as schema;
use biopsy_report::{
    TextOptions, render_comparison_html, render_comparison_json, render_comparison_markdown,
    render_comparison_text, render_heap_growth_json, render_heap_growth_markdown, render_heap_growth_text,
};
use synthetic::commonmark::{Block, blocks, outside_code};
use synthetic::named;

const FILES: [&str; 2] = ["before.zip", "after.zip"];

fn function(name: &str) -> Quantity {
    Quantity::Function { kind: FunctionKind::Native, module: "server".to_owned(), name: name.to_owned() }
}

fn difference(quantity: Quantity, before: f64, after: f64) -> Difference {
    Difference { quantity, before, after, noise: 0.001 }
}

/// A comparison in which somebody else names everything.
fn comparison(name: &dyn Fn(&str) -> String) -> Comparison {
    let side = |seconds: f64| Side {
        name: name("server"),
        seconds,
        start_unix_nanos: 1_763_720_823_000_000_000,
        cores: 1.5,
        samples: 4_200,
        requests: Some(1_200),
        ..Side::default()
    };
    let wait = |reason, function: Option<&str>| Quantity::Wait { reason, function: function.map(name) };
    Comparison {
        before: side(60.0),
        after: side(61.0),
        unit: Unit::Request,
        differences: vec![
            difference(function(&name("parse")), 0.010, 0.015),
            difference(function(&name("gone")), 0.010, 0.0),
            difference(function(&name("new")), 0.0, 0.010),
            difference(wait(WaitReason::Lock, Some("append")), 0.2, 0.1),
            difference(wait(WaitReason::Disk, None), 0.1, 0.3),
            difference(Quantity::Request { route: name("GET /orders/{id}") }, 0.1, 0.2),
        ],
        unchanged: vec![difference(function(&name("same")), 0.010, 0.010)],
        compared: 7,
        cpu: DifferenceTree {
            nodes: vec![DifferenceNode {
                parent: 0,
                name: name("main"),
                module: name("server"),
                before: 1.0,
                after: 2.0,
            }],
        },
        remarks: vec![format!("{} ran on another machine", name("the second"))],
        refused: None,
    }
}

fn text(comparison: &Comparison, width: usize) -> String {
    render_comparison_text(comparison, FILES, TextOptions { width: Some(width), color: false })
}

#[test]
fn a_change_has_its_sign_and_its_words() {
    let text = text(&comparison(&str::to_owned), 160);
    for (word, change, what) in [
        ("slower", "+50.0 %", "CPU in `parse` (server)"),
        ("faster", "gone", "CPU in `gone` (server)"),
        ("slower", "new", "CPU in `new` (server)"),
        ("faster", "−50.0 %", "waiting for"),
        ("slower", "+200 %", "a place that is not known"),
        ("slower", "+100 %", "answering `GET /orders/{id}`"),
        ("same", "0.0 %", "CPU in `same` (server)"),
    ] {
        let line = text.lines().find(|line| line.contains(what) && line.contains(change));
        assert!(line.is_some_and(|line| line.starts_with(word)), "{word} {change} {what}\n{text}");
    }
    assert!(!text.contains("−0.0 %") && !text.contains("+0.0 %"), "nothing has no sign: {text}");
}

#[test]
fn what_is_compared_is_what_is_written() {
    let comparison = comparison(&str::to_owned);
    let document: schema::Comparison =
        serde_json::from_str(&render_comparison_json(&comparison, FILES)).expect("the schema");
    assert_eq!((document.before.file.as_str(), document.after.file.as_str()), ("before.zip", "after.zip"));
    let percent = |change: f64| (change * 100.0).round();
    let found: Vec<_> = document
        .differences
        .iter()
        .map(|one| (one.kind.as_str(), one.became.as_deref(), one.change.map(percent)))
        .collect();
    assert_eq!(
        found,
        [
            ("function", Some("slower"), Some(50.0)),
            ("function", Some("faster"), Some(-100.0)),
            ("function", Some("slower"), None),
            ("lock", Some("faster"), Some(-50.0)),
            ("wait", Some("slower"), Some(200.0)),
            ("request", Some("slower"), Some(100.0)),
        ]
    );
    assert_eq!(document.unchanged.len() + document.differences.len(), comparison.compared);
}

#[test]
fn much_is_cut_and_said_to_be() {
    let mut much = comparison(&str::to_owned);
    much.differences = (0..60).map(|number| difference(function(&format!("f{number}")), 1.0, 2.0)).collect();
    assert!(text(&much, 120).contains("and 35 more: see `--json`"));
    assert!(render_comparison_markdown(&much, FILES).contains("\nand 20 more.\n"));
    let document: schema::Comparison =
        serde_json::from_str(&render_comparison_json(&much, FILES)).expect("the schema");
    assert_eq!(document.differences.len(), 60);
}

#[test]
fn nothing_is_claimed_where_it_is_refused_or_there_is_nothing() {
    let nothing = Comparison { compared: 12, ..Comparison::default() };
    let refused = Comparison { refused: Some("they are of two programs".to_owned()), ..nothing.clone() };
    for (comparison, words) in [
        (nothing, "no difference above the noise, of 12 quantities compared"),
        (refused, "nothing is claimed: they are of two programs"),
    ] {
        assert!(text(&comparison, 120).contains(words), "{}", text(&comparison, 120));
        assert!(render_comparison_markdown(&comparison, FILES).contains(words));
    }
}

const HOSTILE: [(&str, &str); 9] = [
    ("", "|b|"),
    ("`", ""),
    ("", "\\"),
    ("</script><script>", "<img src=x>"),
    ("\n# ", "\n| a |\n"),
    ("\u{1b}[2J", "\u{9b}m"),
    ("\u{202e}", "\u{200b}"),
    ("[", "](javascript:x)"),
    ("\0", "\t\r"),
];

#[test]
fn names_of_others_stay_names() {
    let plain = render_comparison_markdown(&comparison(&str::to_owned), FILES);
    let page = render_comparison_html(&comparison(&str::to_owned), FILES);
    for (before, after) in HOSTILE {
        let hostile = comparison(&|hint| format!("{before}{hint}{after}"));
        let markdown = render_comparison_markdown(&hostile, FILES);
        assert_eq!(blocks(&markdown), blocks(&plain), "{markdown}");
        assert!(!markdown.lines().any(|line| outside_code(line).contains(['<', '['])), "{markdown}");
        let html = render_comparison_html(&hostile, FILES);
        assert_eq!(html.matches('<').count(), page.matches('<').count());
        let json = render_comparison_json(&hostile, FILES);
        let document: schema::Comparison = serde_json::from_str(&json).expect("the schema");
        assert_eq!(document.differences[0].name, format!("{before}parse{after}"));
        for form in [markdown, html.replace('\t', ""), json, text(&hostile, 100)] {
            assert!(!form.chars().any(|char| is_harmful(char) && char != '\n'), "{before:?} {after:?}");
        }
    }
}

#[test]
fn lines_fit_the_terminal() {
    let long = comparison(&|hint| format!("{hint}::{}", "Inner<T>::".repeat(30)));
    for width in [60, 80, 120, 160] {
        for line in text(&long, width).lines() {
            let fits = line.chars().count() <= width || line.split_whitespace().count() <= 2;
            assert!(fits, "{width}: {line}");
        }
    }
    let whole = render_comparison_text(&long, FILES, TextOptions::default());
    assert!(
        whole.matches("Inner<T>::".repeat(30).as_str()).count() >= 6,
        "without a terminal nothing is cut: {whole}"
    );
}

/// Recordings of no length, without a trace, or without anything.
#[test]
fn whatever_is_compared_reads_back() {
    let recorded = |capture: Capture| Recorded::new(capture);
    let mut moment = synthetic::capture();
    moment.header.end = Some(moment.header.start.clone());
    moment.timeline.as_mut().expect("a trace").span = Some((synthetic::at(0.0), synthetic::at(0.0)));
    let some = [
        recorded(synthetic::capture()),
        recorded(synthetic::empty()),
        recorded(Capture::default()),
        recorded(moment),
    ];
    for before in &some {
        for after in &some {
            let comparison = compare(before, after);
            let json = render_comparison_json(&comparison, FILES);
            let read: Result<schema::Comparison, _> = serde_json::from_str(&json);
            assert!(read.is_ok(), "{read:?}\n{json}");
            for side in [&comparison.before, &comparison.after] {
                assert!(side.cores.is_finite() && side.cores < 1e6, "{} cores", side.cores);
            }
            let text = text(&comparison, 100);
            assert!(!text.contains("NaN") && !text.contains("inf") && !text.contains('?'), "{text}");
        }
    }
}

#[test]
fn a_recording_does_not_differ_from_itself() {
    let recorded = Recorded::new(synthetic::capture());
    let comparison = compare(&recorded, &recorded);
    assert!(comparison.differences.is_empty(), "{:?}", comparison.differences);
    assert!(comparison.unchanged.iter().all(|one| one.before == one.after));
}

#[test]
fn growth_of_heaps_in_all_forms() {
    let plain = named::growing(&str::to_owned);
    let markdown = render_heap_growth_markdown(&plain);
    for part in ["- alive: 977 KiB → 1.91 MiB → 2.86 MiB", "in every interval", "`App.Entry`"] {
        assert!(markdown.contains(part), "{part}\n{markdown}");
    }
    assert!(markdown.contains("15 more"), "the table of types is cut, and says so:\n{markdown}");
    for (before, after) in HOSTILE {
        let hostile = named::growing(&|hint| format!("{before}{hint}{after}"));
        assert_eq!(blocks(&render_heap_growth_markdown(&hostile)), blocks(&markdown));
        let json = render_heap_growth_json(&hostile, &["a", "b", "c"]);
        let document: schema::HeapComparison = serde_json::from_str(&json).expect("the schema");
        assert_eq!(document.growth.types.len(), 40);
        let mut diagnosis = Diagnosis::default();
        diagnosis.growth = Some(hostile);
        let text = render_heap_growth_text(&diagnosis, TextOptions { width: Some(80), color: false });
        assert!(
            text.lines().all(|line| line.chars().count() <= 80 || line.split_whitespace().count() <= 2),
            "{text}"
        );
        assert!(text.contains("15 more types: `--json` has them"), "{text}");
    }
    assert_eq!(blocks(&markdown).iter().filter(|block| matches!(block, Block::Row(3))).count(), 27);
}
