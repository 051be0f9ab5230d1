//! A mask keeps within its element, attribute and comment.

use super::*;

/// A span on `part` of `text`, as a rule finds it behind a name or, where not `named`, alone.
fn span(text: &str, part: &str, named: bool) -> Span {
    let start = text.find(part).expect("it is there");
    Span {
        range: start..start + part.len(),
        rule: Some(0),
        pseudonym: None,
        open: false,
        learn: named,
        wide: None,
        wrap: None,
    }
}

/// What is left of it, with `|` between the pieces.
fn kept(text: &str, part: &str, named: bool) -> String {
    let kept = between_tags(text.as_bytes(), vec![span(text, part, named)]);
    let parts: Vec<&str> = kept.into_iter().map(|span| &text[span.range]).collect();
    parts.join("|")
}

#[test]
fn a_value_behind_a_name_ends_with_its_element() {
    for (text, part, wanted) in [
        ("<a><p>x1</p></a>", "x1</p></a>", "x1"),
        ("<a><p>x1</p><q>y1</q></a>", "x1</p><q>y1", "x1"),
        ("<a p=\"x1\" q=\"y1\"/>", "x1\" q=\"y1", "x1"),
        ("<a>\n<!-- p=x1 --></a>", "x1 -->", "x1 "),
        ("<a><![CDATA[x1]]></a>", "x1]]></a>", "x1"),
        // An entity is one character.
        ("<a><p>x&amp;1</p></a>", "x&am", "x&amp;"),
        ("<a><p>x&amp;1</p></a>", "mp;1", "&amp;1"),
    ] {
        assert_eq!(kept(text, part, true), wanted, "{text}");
    }
}

#[test]
fn what_is_found_without_a_name_may_fill_several_elements() {
    let text = "<key><l>MIIEvQ</l><l>IBADAN</l></key>";
    assert_eq!(kept(text, "MIIEvQ</l><l>IBADAN", false), "MIIEvQ|IBADAN");
}

#[test]
fn a_password_with_a_sign_of_markup_is_one_value() {
    for (text, part) in [
        ("p = x<y1 and more", "x<y1"),
        ("p = a<b>c1", "a<b>c1"),
        ("<a>p = 3<4</a>", "3<4"),
        ("p=<x y=z>", "<x y=z>"),
        ("no markup: x1", "x1"),
    ] {
        assert_eq!(kept(text, part, true), part, "{text}");
    }
}

#[test]
fn a_secret_that_is_a_name_of_an_element_is_masked_all_the_same() {
    assert_eq!(kept("<a><x1>b</x1></a>", "x1", true), "x1");
}

#[test]
fn tags_are_read_as_xml_writes_them() {
    for (text, wanted) in [
        ("<a>", Some((3, 0, false, false))),
        ("</a>", Some((4, 0, true, false))),
        ("<a/>", Some((4, 0, false, true))),
        ("<a b=\"c\" d='e' />x", Some((17, 2, false, true))),
        ("<a:b-c.d>", Some((9, 0, false, false))),
        ("<\u{e9}>", Some((4, 0, false, false))),
        ("<a b=c>", None),
        ("<a b>", None),
        ("<a b=\"c>", None),
        ("<a b=\"c\"d=\"e\">", None),
        ("</a b=\"c\">", None),
        ("<1>", None),
        ("< a>", None),
        ("<a", None),
        ("<", None),
    ] {
        let tag = read_tag(text.as_bytes(), 0);
        let read = tag.map(|tag| (tag.end, tag.values.len(), tag.closes, tag.is_empty));
        assert_eq!(read, wanted, "{text}");
    }
}

#[test]
fn entities_are_told_by_their_end() {
    for (text, wanted) in [
        ("&amp;x", Some(5)),
        ("&#38;", Some(5)),
        ("&#x1f980;", Some(9)),
        ("&;", None),
        ("&#;", None),
        ("&amp", None),
        ("&a b;", None),
        ("&muchtoolongforone;", None),
    ] {
        assert_eq!(entity_at(text.as_bytes(), 0), wanted, "{text}");
    }
}

#[test]
fn elements_that_are_open_at_once_have_a_limit() {
    // Far more than are remembered: nothing is lost of what is closed within the limit, and nothing recurses.
    let text = format!("{}x1{}", "<a>".repeat(10_000), "</a>".repeat(10_000));
    assert_eq!(kept(&text, "x1</a></a>", true), "x1");
}
