//! Columns are there where a row has something for them, and rows as far as they were asked for.

use super::*;
use biopsy_analyze::heap::questions::AnswerRow;
use biopsy_model::Avma;

const PLAIN: TextOptions = TextOptions { width: None, color: false };

fn row(objects: Option<u64>, retained: Option<u64>, text: &str) -> AnswerRow {
    AnswerRow { objects, retained, text: text.to_owned(), ..AnswerRow::default() }
}

fn answer(rows: Vec<AnswerRow>) -> Answer {
    Answer { about: "who holds `App.Entry`".to_owned(), rows, notes: Vec::new() }
}

#[test]
fn a_column_that_no_row_has_is_left_out_and_a_cell_that_is_not_known_is_a_dash() {
    let rows = vec![row(Some(12_000), Some(5), "App.Cache"), row(None, Some(1_234_567), "App.Log")];
    assert_eq!(
        render_heap_answer_text(&answer(rows), 0, PLAIN),
        "heap        who holds `App.Entry`\n\n        \
         OBJECTS         RETAINED\n         \
         12,000                5  App.Cache\n              \
         –        1,234,567  App.Log\n"
    );
    // Ways have no numbers at all.
    assert_eq!(
        render_heap_answer_text(&answer(vec![row(None, None, "static App.Cache.All")]), 0, PLAIN),
        "heap        who holds `App.Entry`\n\n\nstatic App.Cache.All\n"
    );
    assert_eq!(render_heap_answer_text(&answer(Vec::new()), 0, PLAIN), "heap        who holds `App.Entry`\n");
}

#[test]
fn what_is_left_out_is_counted() {
    let rows = || (0..5).map(|number| row(Some(number), None, &format!("row {number}"))).collect();
    let shown = |top| {
        let text = render_heap_answer_text(&answer(rows()), top, PLAIN);
        (text.lines().filter(|line| line.contains("  row ")).count(), text.contains(" more: `--top 0`"))
    };
    assert_eq!([0, 2, 4, 5, 9].map(shown), [(5, false), (2, true), (4, true), (5, false), (5, false)]);
    assert!(
        render_heap_answer_text(&answer(rows()), 4, PLAIN)
            .ends_with("\n1 more: `--top 0` or `--json` has them\n")
    );
}

#[test]
fn names_command_nothing_and_an_example_can_be_asked_for() {
    let mut answer =
        answer(vec![AnswerRow { example: Some(Avma(0x7f10)), ..row(Some(1), None, "a\u{1b}[2J\nb") }]);
    answer.notes.push("\u{202e}note".to_owned());
    let text = render_heap_answer_text(&answer, 0, PLAIN);
    assert!(text.ends_with("  a\\u{1b}[2J b · one at 0x7f10\n"), "{text}");
    assert!(text.contains("note        \\u{202e}note"), "{text}");
    let json = render_heap_answer_json(&answer);
    assert!(!json.contains(['\u{1b}', '\u{202e}']), "{json}");
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        document["rows"][0],
        serde_json::json!({ "objects": 1, "example": "0x7f10", "text": "a\u{1b}[2J\nb" }),
        "what was not asked for is absent"
    );
    assert_eq!(
        (&document["schema"], &document["notes"][0]),
        (&"biopsy-heap-answer".into(), &"\u{202e}note".into())
    );
}
