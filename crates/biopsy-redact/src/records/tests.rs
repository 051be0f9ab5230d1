//! A mask keeps within its cell.

use super::*;

fn kept(text: &str, part: &str, named: bool) -> String {
    let start = text.find(part).expect("it is there");
    let span = Span {
        range: start..start + part.len(),
        rule: Some(0),
        pseudonym: None,
        open: false,
        learn: named,
        wide: None,
        wrap: None,
    };
    let kept = within_cells(text.as_bytes(), vec![span]);
    let parts: Vec<&str> = kept.into_iter().map(|span| &text[span.range]).collect();
    parts.join("|")
}

const TABLE: &str = "id,name,password\n1,ann,x1\n2,\"bo,b\",\"y\"\"1\"\n";

#[test]
fn a_value_behind_a_name_ends_with_its_cell() {
    for (text, part, wanted) in [
        (TABLE, "x1\n2,\"bo", "x1"),
        (TABLE, "ann,x1", "ann"),
        (TABLE, "o,b\",\"y", "o,b"),
        // No quote is cut in two.
        (TABLE, "y\"", "y\"\""),
        ("id;password\n1;x1\n", "x1\n", "x1"),
        // A tab ends it, table or not.
        ("password: x1\ty1", "x1\ty1", "x1"),
    ] {
        assert_eq!(kept(text, part, true), wanted, "{text}");
    }
}

#[test]
fn what_is_found_without_a_name_may_fill_several_cells() {
    assert_eq!(kept(TABLE, "ann,x1", false), "ann|x1");
    assert_eq!(kept(TABLE, "x1\n2,\"bo", false), "x1|2|bo");
}

#[test]
fn commas_of_a_sentence_and_of_a_password_are_no_cells() {
    for (text, part) in [
        ("he said, x1,y1 is it", "x1,y1"),
        ("password: x1,y1\n", "x1,y1"),
        ("10:01 got x1,y1\n10:02 nothing\n", "x1,y1"),
    ] {
        assert_eq!(kept(text, part, true), part, "{text}");
    }
}

#[test]
fn a_line_with_quotes_around_each_cell_is_a_record() {
    let record = |line: &str| quoted_record(line.as_bytes(), 0..line.len()).map(|record| record.cells.len());
    for (line, wanted) in [
        ("\"a\",\"b\"", Some(2)),
        ("\"a\";\"b\";\"c\"", Some(3)),
        ("1,\"a,b\",2", Some(3)),
        ("1,\"a\"\"b\",2", Some(3)),
        ("1,\"a\",2", None),
        ("a,b", None),
        ("\"a\"", None),
        ("say \"a\", \"b\"", None),
    ] {
        assert_eq!(record(line), wanted, "{line}");
    }
}
