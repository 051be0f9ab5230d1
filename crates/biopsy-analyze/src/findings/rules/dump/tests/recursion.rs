//! What recursed in a stack that overflowed is said, and nothing where the stack is not deep.

use super::*;

fn overflowed(frames: Vec<FrameRow>) -> Finding {
    let place = AddressKind::StackOverflow { stack: 8 << 20 };
    let groups = vec![StackGroup { frames, crashed: true, ..group(0..1, 30_000) }];
    let analysis =
        DumpAnalysis { crash: Some(crash(11, Some(place), None)), groups, ..dump(vec![thread(1)]) };
    finding(&analysis, FindingId::StackOverflow).expect("the stack overflowed")
}

fn repeats(name: &str, repeats: (u32, u32)) -> FrameRow {
    FrameRow { repeats, ..frame(name, false) }
}

fn says(finding: &Finding) -> Option<&str> {
    finding.evidence.iter().map(|one| one.text.as_str()).find(|text| text.starts_with("recursion"))
}

#[test]
fn what_calls_itself_is_named() {
    let deep = overflowed(vec![frame("leaf", false), repeats("way_to", (9_000, 1)), frame("main", false)]);
    assert_eq!(says(&deep), Some("recursion: `way_to` calls itself, 9,000 times on this stack"));
    let circle = overflowed(vec![repeats("value", (700, 2)), frame("list", false), frame("main", false)]);
    assert_eq!(
        says(&circle),
        Some("recursion: `value` → `list` call each other in a circle, 700 times on this stack")
    );
    let flat = overflowed(vec![frame("leaf", false), repeats("way_to", (4, 1)), frame("main", false)]);
    assert_eq!(says(&flat), None, "a large variable");
}

/// The name of what a library makes for a type says whose type it is.
#[test]
fn of_a_library_the_type_is_named() {
    let mut row = repeats("core::ptr::drop_in_place<drawing::Stroke>", (9_000, 1));
    row.whose = crate::whose::Whose::Library;
    let dropped = overflowed(vec![row, frame("clear", false)]);
    assert!(
        says(&dropped).is_some_and(|text| text.contains("drop_in_place<drawing::Stroke>")),
        "{dropped:?}"
    );
}

#[test]
fn a_runtime_that_names_the_overflow_an_exception_says_the_same() {
    let exception = ExceptionRow {
        type_name: "System.StackOverflowException".to_owned(),
        thrown_in: vec!["Shop.Catalog.WayTo".to_owned()],
        ..ExceptionRow::default()
    };
    let managed = ManagedThreadFacts { exception: Some(exception), ..ManagedThreadFacts::default() };
    let one = DumpThread { managed: Some(managed), ..thread(1) };
    let frames = vec![FrameRow { repeats: (5_000, 1), ..frame("Shop.Catalog.WayTo", true) }];
    let groups = vec![StackGroup { frames, crashed: true, ..group(0..1, 5_000) }];
    let analysis = DumpAnalysis { crash: Some(crash(6, None, None)), groups, ..dump(vec![one]) };
    let found = finding(&analysis, FindingId::UnhandledException).expect("it ended the process");
    assert!(found.title.ends_with("the stack overflowed"), "{}", found.title);
    assert!(says(&found).is_some_and(|text| text.contains("WayTo` calls itself")), "{found:?}");
}
