//! Where a value begins and ends.

use super::*;

/// The value that begins at `at` behind the name `k`, which is attached with a sign.
fn value(text: &str, at: usize, query: bool) -> Option<String> {
    let how = How::Assigned { prose: false, percent: false, query, compared: false };
    let key = text.find('k').expect("it has a name");
    let place = Place { key, at, how, key_quote: None, whole_line: false };
    single(text.as_bytes(), place).map(|value| text[value.range].to_owned())
}

#[test]
fn a_value_without_quotes_ends_where_what_is_around_goes_on() {
    for (text, wanted) in [
        ("k=x1 y", "x1"),
        ("k=x1\ny", "x1"),
        ("k=x1;y=2", "x1"),
        ("k=x1;y", "x1;y"),
        ("k=x1,y=2", "x1"),
        ("k=x1, y", "x1"),
        ("k=x1,y", "x1,y"),
        ("(k=x1)", "x1"),
        ("k=x1)", "x1)"),
        ("[k=x1]", "x1"),
        ("{k=x1}", "x1"),
        ("<k=x1>", "x1"),
        ("\"k=x1\"", "x1"),
        ("'k=x1'", "x1"),
        ("'k=x\"1'", "x\"1"),
        ("`k=x1`", "x1"),
        ("\\\"k=x1\\\"", "x1"),
        ("k=x1&y=2", "x1"),
        ("k=x1&y", "x1&y"),
        ("k=x1</p>", "x1"),
        ("k=x1<br>", "x1"),
        ("k=x1<2", "x1<2"),
        ("<!-- k=x1-->", "x1"),
        ("<? k=x1?>", "x1"),
        ("k=x1|y", "x1|y"),
        ("k=x#1", "x#1"),
        ("k=\u{e9}1 y", "\u{e9}1"),
    ] {
        let at = text.find('=').expect("it has a sign") + 1;
        assert_eq!(value(text, at, false).as_deref(), Some(wanted), "{text}");
    }
}

#[test]
fn in_a_query_it_ends_at_each_and_and_in_front_of_a_fragment() {
    for (text, wanted) in
        [("?k=x1&y", "x1"), ("?k=x1#top", "x1"), ("?k=x1#y&z=2", "x1#y"), ("?k=x1 HTTP/1.1", "x1")]
    {
        let at = text.find('=').expect("it has a sign") + 1;
        assert_eq!(value(text, at, true).as_deref(), Some(wanted), "{text}");
    }
}

#[test]
fn quotes_are_closed_as_they_were_opened() {
    for (text, wanted) in [
        ("\"x1\" y", "x1"),
        ("'x\"1' y", "x\"1"),
        ("\\\"x1\\\" y", "x1"),
        ("&quot;x1&quot; y", "x1"),
        ("%22x1%22 y", "x1"),
        ("\"x\\\"1\" y", "x\\\"1"),
        ("\"\"\"x1\"\"\" y", "x1"),
        ("\"\" y", ""),
        ("\"x1", "x1"),
        ("\"x1\ny\"", "x1"),
    ] {
        let read = quoted(text.as_bytes(), 0).map(|value| &text[value.range]);
        assert_eq!(read, Some(wanted), "{text}");
    }
    assert_eq!(quoted(b"x1", 0), None);
    assert_eq!(quoted(b"", 0), None);
}

#[test]
fn an_element_ends_with_its_tag_and_a_line_that_is_cut_short_with_the_line() {
    for (text, wanted) in [
        ("x1</k>", Some("x1")),
        ("<Value>x1</Value></k>", Some("x1")),
        ("<![CDATA[x<1]]></k>", Some("x<1")),
        ("x1\n<b>", Some("x1")),
        ("x1", Some("x1")),
        ("x1<b>", None),
        (" x1", None),
        ("@host", None),
        ("", None),
    ] {
        let read = element(text.as_bytes(), 0).map(|value| &text[value.range]);
        assert_eq!(read, wanted, "{text}");
    }
}

#[test]
fn connection_strings_have_blanks_in_their_values() {
    for (text, wanted) in [
        ("a=b;k=x 1;c=d", "x 1"),
        ("a=b;k=x 1;", "x 1"),
        ("a=b; k=x 1;c=d", "x 1"),
        ("\"a=b;k=x 1\" y", "x 1"),
        ("a=b;k=x 1\ny;c=d", "x"),
        ("a=b k=x 1;c=d", "x"),
    ] {
        let at = text.find("k=").expect("it has a name") + 2;
        assert_eq!(value(text, at, false).as_deref(), Some(wanted), "{text}");
    }
}

#[test]
fn colours_of_terminals_and_blanks_are_skipped_in_front_of_a_value() {
    for (text, wanted) in [
        ("  x1", 2),
        ("\t x1", 2),
        ("\x1b[1;31mx1", 7),
        ("\\u001b[0m x1", 10),
        ("#033[0mx1", 7),
        ("\x1b[x1", 3),
        ("\nx1", 0),
        ("", 0),
    ] {
        assert_eq!(skip_blank(text.as_bytes(), 0), wanted, "{text:?}");
    }
}

#[test]
fn the_rest_of_a_line_is_taken_unless_another_pair_follows() {
    for (text, wanted) in [
        ("x1 y z", "x1 y z"),
        ("x1 y # why", "x1 y"),
        ("x1 y ; why", "x1 y"),
        ("x1 a=b", "x1"),
        ("x1 a: b", "x1"),
        ("x1 \"a\"", "x1"),
        ("x1 y\nz", "x1 y"),
        ("x1 y  ", "x1 y"),
    ] {
        let mut value = Value { range: 0..2, quoted: false, open: false, wrap: None };
        extend_to_line(text.as_bytes(), &mut value);
        assert_eq!(&text[value.range], wanted, "{text}");
    }
}
