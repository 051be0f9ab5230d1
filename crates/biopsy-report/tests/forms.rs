//! What the forms of the report leave out is counted, one is one, and what is not there is not spoken of.

mod synthetic;

use biopsy_analyze::Diagnosis;
use biopsy_analyze::dump::{DumpAnalysis, DumpThread, FrameRow, StackGroup};
use biopsy_model::Tid;
use biopsy_report::{TextOptions, render_markdown, render_text};
use biopsy_stacks::unwind::FoundBy;
use synthetic::named;

fn plain(name: &str) -> String {
    name.to_owned()
}

fn dump() -> DumpAnalysis {
    named::dump(&plain)
}

fn text(dumps: Vec<DumpAnalysis>) -> String {
    let options = TextOptions { width: Some(200), color: false };
    render_text(&Diagnosis::new(None, dumps, Vec::new()), 0, options)
}

fn markdown(dumps: Vec<DumpAnalysis>) -> String {
    render_markdown(&Diagnosis::new(None, dumps, Vec::new()), None)
}

/// A dump with so many groups of one thread, each with so many frames, some of them notes.
fn with_groups(groups: usize, frames: usize, notes: usize) -> DumpAnalysis {
    let mut analysis = dump();
    let row = |number: usize| {
        let mut row = analysis.groups[0].frames[0].clone();
        row.function = Some(format!("step{number}"));
        row
    };
    let note = || FrameRow {
        function: Some("[InlinedCallFrame]".to_owned()),
        managed: false,
        found: FoundBy::ExplicitFrame,
        ..row(0)
    };
    let rows: Vec<FrameRow> = (0..frames).map(row).chain((0..notes).map(|_| note())).collect();
    let group = |index| StackGroup {
        members: vec![index],
        frames: rows.clone(),
        crashed: false,
        in_cycle: false,
        ..analysis.groups[0].clone()
    };
    let made: Vec<StackGroup> = (0..groups).map(group).collect();
    analysis.threads = (0..groups)
        .map(|index| DumpThread { tid: Tid(index as u32 + 1), group: index, ..DumpThread::default() })
        .collect();
    analysis.groups = made;
    analysis
}

fn counts(text: &str, what: &str) -> Vec<String> {
    text.lines().map(str::trim).filter(|line| line.contains(what)).map(str::to_owned).collect()
}

#[test]
fn groups_that_are_not_shown_are_counted() {
    for (groups, in_text, in_markdown) in [
        (6, None, None),
        (7, None, Some("1 more group is in the page.")),
        (12, None, Some("6 more groups are in the page.")),
        (13, Some("and 1 more group in the report"), Some("7 more groups are in the page.")),
        (40, Some("and 28 more groups in the report"), Some("34 more groups are in the page.")),
    ] {
        let analysis = with_groups(groups, 1, 0);
        let expected = |one: Option<&str>| one.map(str::to_owned).into_iter().collect::<Vec<_>>();
        assert_eq!(counts(&text(vec![analysis.clone()]), "more group"), expected(in_text), "{groups}");
        assert_eq!(counts(&markdown(vec![analysis]), "more group"), expected(in_markdown), "{groups}");
    }
}

#[test]
fn frames_that_are_not_shown_are_counted_without_notes_of_a_runtime() {
    for (frames, notes, left) in [
        (24, 0, None),
        (24, 9, None),
        (20, 5, None),
        (25, 0, Some("… 1 more")),
        (25, 3, Some("… 1 more")),
        (90, 0, Some("… 66 more")),
    ] {
        let said = text(vec![with_groups(1, frames, notes)]);
        assert_eq!(counts(&said, "… ").first().map(String::as_str), left, "{frames} {notes}: {said}");
        assert_eq!(counts(&said, "  server.dll").len(), frames.min(24), "{said}");
    }
}

#[test]
fn frames_that_the_analysis_left_out_are_one_or_more() {
    for (skipped, said) in [(1, "… 1 more frame"), (2, "… 2 more frames")] {
        let mut analysis = with_groups(1, 3, 0);
        analysis.groups[0].frames[1].skipped = skipped;
        for form in [text(vec![analysis.clone()]), markdown(vec![analysis])] {
            assert_eq!(counts(&form, "more frame"), [said]);
        }
    }
}

#[test]
fn dumps_that_are_not_shown_are_counted() {
    let said = |dumps: usize| {
        let all = || (0..dumps).map(|_| dump()).collect();
        let find = |form: String| counts(&form, "more dump").pop();
        (find(text(all())), find(markdown(all())))
    };
    assert_eq!(said(3), (None, None));
    let own = |one: &str| Some(one.to_owned());
    assert_eq!(said(4), (own("and 1 more dump in the report"), None));
    assert_eq!(said(6), (own("and 3 more dumps in the report"), own("1 more dump is in the page.")));
    assert_eq!(said(7), (own("and 4 more dumps in the report"), own("2 more dumps are in the page.")));
}

#[test]
fn a_chain_of_methods_that_is_cut_says_so() {
    let methods = |count: usize| {
        let mut analysis = dump();
        let managed = analysis.managed.as_mut().expect("it is managed");
        let groups = &mut managed.operations.as_mut().expect("operations").groups;
        groups.truncate(1);
        groups[0].methods = (0..count).map(|number| format!("F{number}")).collect();
        groups[0].object = None;
        groups[0].awaits = "a timer".to_owned();
        counts(&text(vec![analysis]), "awaits a timer").pop().expect("a chain")
    };
    assert!(methods(1).ends_with("F0 awaits a timer"), "{}", methods(1));
    assert!(methods(4).ends_with("F0 ← F1 ← F2 ← F3 awaits a timer"), "{}", methods(4));
    assert!(methods(5).ends_with("F3 ← 1 more awaits a timer"), "{}", methods(5));
    assert!(methods(9).ends_with("F3 ← 5 more awaits a timer"), "{}", methods(9));
}

#[test]
fn one_is_one_in_the_summary_of_a_heap() {
    let heap = |objects, problems, dangling, types| {
        let mut summary = named::heap(&plain, 1);
        (summary.facts.references, summary.facts.problems, summary.facts.dangling) =
            (objects, problems, dangling);
        summary.types.truncate(types);
        let options = TextOptions { width: Some(200), color: false };
        render_text(&Diagnosis::new(None, Vec::new(), vec![summary]), 1, options)
    };
    let one = heap(1, 1, 1, 1);
    assert!(one.contains("1 reference, 1 type;"), "{one}");
    assert!(one.contains("1 place could not be read, 0 B skipped, 1 reference leads nowhere"), "{one}");
    assert!(!one.contains("more type"), "{one}");
    let many = heap(2, 0, 3, 3);
    assert!(many.contains("2 references, 3 types;"), "{many}");
    assert!(many.contains("0 places could not be read, 0 B skipped, 3 references lead nowhere"), "{many}");
    assert!(many.contains("2 more types: `--json` has them"), "{many}");
    assert!(heap(2, 0, 3, 2).contains("1 more type: `--json` has them"));
}
