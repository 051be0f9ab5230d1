//! Holds a tree against the table of what may stand where.

use std::ops::Range;

use crate::quantity;
use crate::text::{Node, Value};

use super::shape::{Field, Shape};

/// Something about settings that is wrong, or looks so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Bytes of the text that it is about.
    pub span: Range<usize>,
    /// Where: `watch.rules.slow.perDay`.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What may stand there, or was meant.
    pub allowed: Option<String>,
    /// The settings are not used with it; else it is only said.
    pub is_error: bool,
}

/// All that is wrong, in the order of the text. The tree is as deep as its parser lets it be.
#[must_use]
pub(super) fn check(node: &Node, shape: &Shape) -> Vec<Problem> {
    let mut problems = Vec::new();
    walk(node, shape, "", &mut problems);
    problems
}

fn walk(node: &Node, shape: &Shape, path: &str, problems: &mut Vec<Problem>) {
    match (shape, &node.value) {
        (Shape::OrNull(_), Value::Null) => {}
        (Shape::OrNull(of), _) => walk(node, of, path, problems),
        (Shape::Object(fields) | Shape::TextOr(fields), Value::Map(_)) => {
            members(node, fields, path, problems)
        }
        (Shape::Map(of), Value::Map(members)) => {
            for member in members {
                walk(&member.node, of, &below(path, &member.key), problems);
            }
        }
        _ if fits(node, shape) => {}
        _ => problems.push(Problem {
            span: node.span.clone(),
            path: path.to_owned(),
            message: format!("{} is not what stands here", shown(node)),
            allowed: Some(format!("allowed: {}", shape.allowed())),
            is_error: true,
        }),
    }
    if let Value::Map(members) = &node.value {
        for (index, member) in members.iter().enumerate() {
            if members[..index].iter().any(|before| before.key.eq_ignore_ascii_case(&member.key)) {
                problems.push(Problem {
                    span: member.key_span.clone(),
                    path: below(path, &member.key),
                    message: format!("`{}` stands here twice", member.key),
                    allowed: None,
                    is_error: true,
                });
            }
        }
    }
}

fn members(node: &Node, fields: &[Field], path: &str, problems: &mut Vec<Problem>) {
    for member in node.members() {
        let below = below(path, &member.key);
        match fields.iter().find(|field| field.name.eq_ignore_ascii_case(&member.key)) {
            Some(field) => walk(&member.node, &field.shape, &below, problems),
            None => {
                let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
                problems.push(Problem {
                    span: member.key_span.clone(),
                    path: below,
                    message: format!("`{}` is not known here, and has no effect", member.key),
                    allowed: Some(meant(&member.key, &names)),
                    is_error: false,
                });
            }
        }
    }
}

fn fits(node: &Node, shape: &Shape) -> bool {
    match (shape, &node.value) {
        (Shape::Switch, Value::Switch(_))
        | (Shape::Text | Shape::TextOr(_) | Shape::Texts, Value::Text(_)) => true,
        (Shape::Number, Value::Number(number)) => *number >= 0.0,
        (Shape::Count, Value::Number(number)) => *number >= 0.0 && number.fract() == 0.0 && *number <= 1e9,
        (Shape::Duration, Value::Text(text)) => quantity::duration(text).is_some(),
        (Shape::Size, Value::Text(text)) => quantity::size(text).is_some(),
        (Shape::Size, Value::Number(number)) => *number >= 0.0,
        (Shape::Choice(words), Value::Text(text)) => words.iter().any(|word| word.eq_ignore_ascii_case(text)),
        (Shape::Texts, Value::List(nodes)) => nodes.iter().all(|node| node.text().is_some()),
        _ => false,
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn shown(node: &Node) -> String {
    match &node.value {
        Value::Text(text) => {
            let short: String = text.chars().take(60).collect();
            format!("\"{short}\"")
        }
        Value::Number(number) => format!("`{number}`"),
        Value::Switch(switch) => format!("`{switch}`"),
        other @ (Value::Null | Value::List(_) | Value::Map(_)) => other.kind().to_owned(),
    }
}

/// The name that was meant, or all names.
#[must_use]
pub fn meant(word: &str, names: &[&str]) -> String {
    let near = names.iter().map(|name| (distance(word, name), name)).min();
    match near {
        Some((distance, name)) if distance <= 1 + word.len() / 4 => format!("did you mean `{name}`?"),
        _ => format!(
            "allowed: {}",
            names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        ),
    }
}

/// Letters to insert, remove or replace, case aside.
fn distance(a: &str, b: &str) -> usize {
    let lower = |text: &str| text.chars().take(64).flat_map(char::to_lowercase).collect::<Vec<_>>();
    let (a, b) = (lower(a), lower(b));
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, &letter) in a.iter().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, &other) in b.iter().enumerate() {
            let replaced = corner + usize::from(letter != other);
            corner = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(corner + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::shape::SETTINGS;
    use super::*;
    use crate::text::{Place, parse_json};

    #[track_caller]
    fn problems(text: &str) -> Vec<(usize, usize, bool, String)> {
        let node = parse_json(text).unwrap();
        let said = |problem: &Problem| {
            let place = Place::of(text, problem.span.start);
            let allowed = problem.allowed.clone().unwrap_or_default();
            (
                place.line,
                place.column,
                problem.is_error,
                format!("{}: {}; {allowed}", problem.path, problem.message),
            )
        };
        check(&node, &SETTINGS).iter().map(said).collect()
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place_and_what_is_allowed() {
        for (text, line, column, is_error, says) in [
            ("{\"profiling\": {\"process\": {}}}", 1, 16, false, "did you mean `processes`?"),
            (
                "{\"profiling\": {\"processes\": {\"Compiler\": 1}}}",
                1,
                42,
                true,
                "allowed: `true` or `false`",
            ),
            ("{\"profiling\": {\n \"kind\": \"cpu\"}}", 2, 10, true, "`performance-timeline`"),
            ("{\"watch\": {\"for\": \"soon\"}}", 1, 19, true, "a time like"),
            (
                "{\"watch\": {\"rules\": {\"x\": {\"perDay\": 1.5}}}}",
                1,
                38,
                true,
                "watch.rules.x.perDay: `1.5`",
            ),
            ("{\"watch\": {\"rules\": {\"x\": {\"do\": [1]}}}}", 1, 34, true, "a list of texts"),
            ("{\"watch\": {\"rules\": []}}", 1, 21, true, "an object whose values"),
            ("{\"version\": 1, \"VERSION\": 2}", 1, 16, true, "twice"),
            ("{\"fancy\": 1}", 1, 2, false, "`crashDumps`"),
            ("[]", 1, 1, true, "an object with"),
        ] {
            let found = problems(text);
            let [(at_line, at_column, error, said)] = found.as_slice() else { panic!("{text}: {found:?}") };
            assert_eq!((*at_line, *at_column, *error), (line, column, is_error), "{text}: {said}");
            assert!(said.contains(says), "{text}: {said}");
        }
        assert_eq!(problems("{\"profiling\": {\"kind\": null, \"processes\": {\"compiler\": true}}}"), []);
    }
}
