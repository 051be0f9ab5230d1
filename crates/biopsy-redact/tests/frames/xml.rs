//! Documents of XML.

use proptest::prelude::*;

use crate::content::{content, name};
use crate::{masked, outline, streamed};

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn in_quotes(text: &str) -> String {
    escaped(text).replace('"', "&quot;").replace('\'', "&apos;").replace('\n', "&#10;")
}

fn element() -> impl Strategy<Value = String> {
    (name(), content(), name(), content(), 0..9_u8).prop_map(|(n, c, m, d, kind)| {
        let (n, m) = (n.replace(' ', "_"), m.replace(' ', "-"));
        match kind {
            0 => format!("<{n}>{}</{n}>", escaped(&c)),
            1 => format!("<{n} {m}=\"{}\">{}</{n}>", in_quotes(&c), escaped(&d)),
            2 => format!("<add key=\"{n}\" value=\"{}\"/>", in_quotes(&c)),
            3 => format!("<{n}><![CDATA[{}]]></{n}>", c.replace("]]>", "]] >")),
            4 => format!("<!-- {} -->", c.replace("--", "- -")),
            5 => format!("<{n} {m}='{}' />", in_quotes(&c)),
            6 => format!("<item><name>{n}</name><value>{}</value></item>", escaped(&c)),
            7 => format!("<log><m>{}</m><m>{}</m></log>", escaped(&c), escaped(&d)),
            _ => format!("<{n}/>{}<br/>", escaped(&c)),
        }
    })
}

fn document() -> impl Strategy<Value = String> {
    (prop::collection::vec(element(), 1..5), prop::sample::select(vec!["", "\n", "\n  "]))
        .prop_map(|(elements, between)| format!("<all>{between}{}{between}</all>\n", elements.join(between)))
}

/// Elements, attributes and the like in their order, of what is well-formed.
fn parts(text: &str) -> Result<Vec<String>, String> {
    let (mut parts, mut open) = (Vec::new(), Vec::new());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let framed =
            [("<!--", "-->"), ("<![CDATA[", "]]>")].into_iter().find(|(begin, _)| rest.starts_with(begin));
        if let Some((begin, end)) = framed {
            rest = rest.split_once(end).ok_or(format!("`{begin}` without its end"))?.1;
            parts.push(begin.to_owned());
        } else if let Some(behind) = rest.strip_prefix("</") {
            let (name, behind) = behind.split_once('>').ok_or("a tag without its end")?;
            if open.pop() != Some(name) {
                return Err(format!("`{name}` ends and has not begun"));
            }
            parts.push(format!("/{name}"));
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix('<') {
            rest = tag(behind, &mut parts, &mut open)?;
        } else {
            rest = character(rest, letter)?;
        }
    }
    if open.is_empty() { Ok(parts) } else { Err(format!("{open:?} are open")) }
}

/// Behind a character of a text, or an entity.
fn character(rest: &str, letter: char) -> Result<&str, String> {
    if letter != '&' {
        return Ok(&rest[letter.len_utf8()..]);
    }
    let (entity, behind) = rest.split_once(';').ok_or("an entity without its end")?;
    let is_whole = entity.len() <= 8
        && entity[1..].chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '#');
    is_whole.then_some(behind).ok_or(format!("`{entity}` is no entity"))
}

/// Behind the tag that goes on here.
fn tag<'t>(text: &'t str, parts: &mut Vec<String>, open: &mut Vec<&'t str>) -> Result<&'t str, String> {
    let is_of_name = |letter: char| letter.is_alphanumeric() || "-_".contains(letter);
    let end = text.find(|letter| !is_of_name(letter)).unwrap_or(text.len());
    let (name, mut rest) = text.split_at(end);
    parts.push(name.to_owned());
    loop {
        rest = rest.trim_start();
        if let Some(behind) = rest.strip_prefix("/>") {
            return Ok(behind);
        }
        if let Some(behind) = rest.strip_prefix('>') {
            open.push(name);
            return Ok(behind);
        }
        let (attribute, value) = rest.split_once('=').ok_or(format!("`{name}` goes on without end"))?;
        if attribute.is_empty() || !attribute.chars().all(is_of_name) {
            return Err(format!("`{attribute}` is no attribute"));
        }
        parts.push(format!("@{attribute}"));
        let quote =
            value.chars().next().filter(|quote| "\"'".contains(*quote)).ok_or("a value without quotes")?;
        rest = &value[1..];
        loop {
            match rest.chars().next().ok_or("a value without its end")? {
                letter if letter == quote => break,
                '<' => return Err("a tag in a value".to_owned()),
                letter => rest = character(rest, letter)?,
            }
        }
        rest = &rest[1..];
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn documents_keep_their_elements_attributes_and_entities(text in document()) {
        let before = parts(&text).map_err(TestCaseError::fail)?;
        let after = masked(&text);
        prop_assert_eq!(parts(&after), Ok(before), "{} became {}", text, after);
        prop_assert_eq!(streamed(text.as_bytes(), 7), after.as_bytes());
    }
}

/// Damage that was seen, of one kind each.
#[test]
fn a_value_takes_no_tag_with_it() {
    for (text, wanted) in [
        ("<a><!-- Cookie: sid=Blau77kern9; u=Rot88kern7 --></a>", "<a><!-- Cookie: sid=M; u=M--></a>"),
        ("<a><b/>Cookie: sid=Blau77kern9; u=Rot88kern7<br/></a>", "<a><b/>Cookie: sid=M; u=M<br/></a>"),
        ("<a b='x &apos;' password='Blau77kern9'/>", "<a b='x &apos;' password='M'/>"),
        ("<a><b/>--secret='Blau77kern9<br/></a>", "<a><b/>--secret='M<br/></a>"),
        ("<a><m>password=Blau77kern9 &amp; x</m><b>y</b></a>", "<a><m>password=M &amp; x</m><b>y</b></a>"),
        ("<a><password><![CDATA[Blau77kern9]]></password></a>", "<a><password><![CDATA[M]]></password></a>"),
        // No tag: a password may have such signs.
        ("password=Blau<77>kern9x\n", "password=M\n"),
        ("password=\"Blau<b>kern9x\"\n", "password=\"M\"\n"),
    ] {
        assert_eq!(outline(&masked(text)), wanted, "{text}");
    }
}

#[test]
fn this_reader_sees_what_is_broken() {
    for broken in [
        "<a>",
        "</a>",
        "<a></b>",
        "<a b=\"x/>",
        "<a b=x/>",
        "<a>&lt</a>",
        "<a>&l t;</a>",
        "<a><!-- x</a>",
        "<a b=\"<\"/>",
        "<a",
    ] {
        assert!(parts(broken).is_err(), "{broken}");
    }
    assert_eq!(parts("<a b='x>'>&lt;<c/></a>"), Ok(["a", "@b", "c", "/a"].map(str::to_owned).to_vec()));
}
