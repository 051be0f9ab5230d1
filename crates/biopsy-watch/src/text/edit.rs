//! Changes one value in the text of settings, and leaves everything else as it stands: comments, order, blanks.

use super::json;
use super::node::{Node, SyntaxError, Value};

/// Why a value cannot be changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EditError {
    /// The text makes no sense.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// A part of the path is no object.
    #[error("`{path}` is {kind}, and has no keys")]
    NoObject {
        /// The path so far.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// A path has no names, or empty ones.
    #[error("a key looks like `profiling.processes.Compiler`")]
    NoKey,
}

/// The text with the value at a path of names replaced, or added. `value` is JSON. The names that are there keep their spelling.
///
/// # Errors
/// [`EditError`].
pub fn set(text: &str, path: &[String], value: &str) -> Result<String, EditError> {
    if path.is_empty() || path.iter().any(String::is_empty) {
        return Err(EditError::NoKey);
    }
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let root = json::parse(text)?;
    let mut node = &root;
    let mut missing = path;
    while let Some((name, rest)) = missing.split_first() {
        if !matches!(node.value, Value::Map(_)) {
            let at = path.len() - missing.len();
            return Err(EditError::NoObject { path: path[..at].join("."), kind: node.value.kind() });
        }
        let Some(next) = node.get(name) else { break };
        node = next;
        missing = rest;
    }
    let span = node.span.clone();
    if missing.is_empty() {
        return Ok(format!("{}{value}{}", &text[..span.start], &text[span.end..]));
    }
    let depth = path.len() - missing.len() + 1;
    Ok(added(text, node, &member(missing, value, depth), depth))
}

/// `"a": {"b": value}`, each level on its own line.
fn member(names: &[String], value: &str, depth: usize) -> String {
    let mut out = String::new();
    for (level, name) in names.iter().enumerate() {
        if level > 0 {
            out.push_str(&format!("{{\n{}", indent(depth + level)));
        }
        out.push_str(&format!("{}: ", serde_json::Value::from(name.as_str())));
    }
    out.push_str(value);
    for level in (1..names.len()).rev() {
        out.push_str(&format!("\n{}}}", indent(depth + level - 1)));
    }
    out
}

/// Behind the last member of an object, or inside of an empty one.
fn added(text: &str, object: &Node, member: &str, depth: usize) -> String {
    let close = object.span.end - 1;
    let gap = indent(depth);
    match object.members().last() {
        Some(last) => {
            let at = last.node.span.end;
            let Some(comma) = after_comma(text, at) else {
                return format!("{},\n{gap}{member}{}", &text[..at], &text[at..]);
            };
            // What stands behind the comma on its line is a comment of that value, unless it goes on in the next line.
            let line = text[comma..close].find('\n').map_or(close, |line| comma + line);
            let is_whole = json::blank(&text[comma..line]).is_ok_and(|blank| blank == line - comma);
            let at = if is_whole { line } else { comma };
            format!("{}\n{gap}{member}{}", &text[..at], &text[at..])
        }
        None => {
            let inside = text[object.span.start + 1..close].trim_end();
            let outer = indent(depth - 1);
            format!("{}{inside}\n{gap}{member}\n{outer}{}", &text[..=object.span.start], &text[close..])
        }
    }
}

/// Where the text goes on behind the comma that follows, if one does.
fn after_comma(text: &str, at: usize) -> Option<usize> {
    let comma = at + json::blank(&text[at..]).ok()?;
    text[comma..].starts_with(',').then_some(comma + 1)
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn one_value_changes_and_nothing_else() {
        for (text, key, value, expected) in [
            ("", "a", "1", "{\n  \"a\": 1\n}\n"),
            ("{\"A\": 1} // mine\n", "a", "2", "{\"A\": 2} // mine\n"),
            ("{\n  \"a\": 1\n}", "b", "true", "{\n  \"a\": 1,\n  \"b\": true\n}"),
            ("{\n  \"a\": 1, // why\n}", "b", "2", "{\n  \"a\": 1, // why\n  \"b\": 2\n}"),
            ("{\"a\": 1,}", "b", "2", "{\"a\": 1,\n  \"b\": 2}"),
            ("{\"a\": 1\n, // why\n}", "b", "2", "{\"a\": 1\n, // why\n  \"b\": 2\n}"),
            ("{\"a\": 1, /* x\ny */}", "b", "2", "{\"a\": 1,\n  \"b\": 2 /* x\ny */}"),
            ("{\"a\": 1\u{feff},}", "b", "2", "{\"a\": 1\u{feff},\n  \"b\": 2}"),
            ("{\n  // nothing yet\n}", "b", "2", "{\n  // nothing yet\n  \"b\": 2\n}"),
            (
                "{\n  \"p\": {\n    \"x\": false // x, y\n  }\n}",
                "p.y",
                "true",
                "{\n  \"p\": {\n    \"x\": false,\n    \"y\": true // x, y\n  }\n}",
            ),
            ("{}", "a.b.c", "1", "{\n  \"a\": {\n    \"b\": {\n      \"c\": 1\n    }\n  }\n}"),
        ] {
            let changed = set(text, &path(key), value).unwrap();
            assert_eq!(changed, expected, "{text} {key}");
        }
        assert!(matches!(set("{\"a\": 1}", &path("a.b"), "1"), Err(EditError::NoObject { .. })));
        assert!(matches!(set("{", &path("a"), "1"), Err(EditError::Syntax(_))));
        assert_eq!(set("{}", &path("a..b"), "1"), Err(EditError::NoKey));
    }

    proptest! {
        #[test]
        fn what_is_set_is_there_and_all_else_too(
            start in prop::sample::select(vec!["{}", "{\"a\": 1}", "{\"a\": {\"b\": [1, 2,],}, /* x */ \"c\": 1, // d\n}", ""]),
            keys in prop::collection::vec("[a-d](\\.[a-d]){0,2}", 1..6),
        ) {
            let mut text = start.to_owned();
            for (number, key) in keys.iter().enumerate() {
                let key = path(key);
                let names: Vec<&str> = key.iter().map(String::as_str).collect();
                let Ok(changed) = set(&text, &key, &number.to_string()) else { continue };
                let node = json::parse(&changed).unwrap();
                #[expect(clippy::cast_precision_loss, reason = "small")]
                let expected = number as f64;
                prop_assert_eq!(node.at(&names).and_then(Node::number), Some(expected), "{}", changed);
                prop_assert_eq!(changed.matches("/*").count(), start.matches("/*").count());
                text = changed;
            }
        }
    }
}
