//! JSON as people write it: with comments and commas behind the last value (what editors call JSONC).

use std::ops::Range;

use super::node::{DEEPEST, Member, Node, SyntaxError, Value};

/// Parses a text. No recursion: a list inside of a list is one more frame on a stack of at most [`DEEPEST`].
///
/// # Errors
/// Where it stops making sense.
pub fn parse(text: &str) -> Result<Node, SyntaxError> {
    let mut reader = Reader { text, at: 0 };
    let mut open: Vec<Frame> = Vec::new();
    reader.skip()?;
    let mut value = reader.value(&mut open)?;
    loop {
        // A value is whole: it goes into what is open, which may be whole by that.
        let Some(whole) = value.take() else {
            value = reader.next_member(&mut open)?;
            continue;
        };
        let Some(frame) = open.last_mut() else {
            reader.skip()?;
            return match reader.peek() {
                None => Ok(whole),
                Some(_) => Err(reader.error("something stands behind the end of the settings")),
            };
        };
        frame.add(whole);
        reader.skip()?;
        match (reader.peek(), frame.closer()) {
            (Some(','), _) => {
                reader.at += 1;
            }
            (Some(character), closer) if character == closer => {}
            (_, closer) => return Err(reader.error(&format!("`,` or `{closer}` is missing here"))),
        }
    }
}

/// How many bytes of white space and comments a text starts with.
///
/// # Errors
/// A comment without an end.
pub(super) fn blank(text: &str) -> Result<usize, SyntaxError> {
    let mut at = 0;
    loop {
        let rest = text[at..].trim_start_matches([' ', '\t', '\n', '\r', '\u{feff}']);
        at = text.len() - rest.len();
        at += if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            match comment.find("*/") {
                Some(end) => end + 4,
                None => return Err(SyntaxError { at, message: "this comment has no end".to_owned() }),
            }
        } else {
            return Ok(at);
        };
    }
}

struct Frame {
    start: usize,
    inside: Inside,
}

enum Inside {
    List(Vec<Node>),
    Map(Vec<Member>, Option<(String, Range<usize>)>),
}

impl Frame {
    fn add(&mut self, node: Node) {
        match &mut self.inside {
            Inside::List(nodes) => nodes.push(node),
            Inside::Map(members, name) => {
                // Whoever reads a value of a map has read its name.
                let (key, key_span) = name.take().unwrap_or_default();
                members.push(Member { key, key_span, node });
            }
        }
    }

    fn closer(&self) -> char {
        match self.inside {
            Inside::List(_) => ']',
            Inside::Map(..) => '}',
        }
    }

    fn close(self, end: usize) -> Node {
        let value = match self.inside {
            Inside::List(nodes) => Value::List(nodes),
            Inside::Map(members, _) => Value::Map(members),
        };
        Node { span: self.start..end, value }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn error(&self, message: &str) -> SyntaxError {
        SyntaxError { at: self.at, message: message.to_owned() }
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Skips white space and comments.
    fn skip(&mut self) -> Result<(), SyntaxError> {
        let skipped = blank(self.rest()).map_err(|error| SyntaxError { at: self.at + error.at, ..error })?;
        self.at += skipped;
        Ok(())
    }

    /// A value that is whole; or `None`, and what it opens is on the stack.
    fn value(&mut self, open: &mut Vec<Frame>) -> Result<Option<Node>, SyntaxError> {
        let start = self.at;
        let value = match self.peek() {
            None => return Err(self.error("a value is missing: the text ends here")),
            Some(opener @ ('{' | '[')) => {
                if open.len() >= DEEPEST {
                    return Err(self.error(&format!("nested deeper than {DEEPEST}")));
                }
                let inside =
                    if opener == '[' { Inside::List(Vec::new()) } else { Inside::Map(Vec::new(), None) };
                open.push(Frame { start, inside });
                self.at += 1;
                return Ok(None);
            }
            Some('"') => Value::Text(self.string()?),
            Some(_) => self.word()?,
        };
        Ok(Some(Node { span: start..self.at, value }))
    }

    /// What comes next in what is open: its end, or a value.
    fn next_member(&mut self, open: &mut Vec<Frame>) -> Result<Option<Node>, SyntaxError> {
        self.skip()?;
        let closer = open.last().map(Frame::closer);
        if self.peek() == closer {
            self.at += 1;
            return Ok(open.pop().map(|frame| frame.close(self.at)));
        }
        if let Some(Frame { inside: Inside::Map(_, name), .. }) = open.last_mut() {
            let start = self.at;
            if self.peek() != Some('"') {
                return Err(self.error("a name in double quotes is missing here"));
            }
            let key = self.string()?;
            *name = Some((key, start..self.at));
            self.skip()?;
            if self.peek() != Some(':') {
                return Err(self.error("`:` is missing here"));
            }
            self.at += 1;
            self.skip()?;
        }
        self.value(open)
    }

    fn word(&mut self) -> Result<Value, SyntaxError> {
        let rest = self.rest();
        let end = rest
            .find(|character: char| !(character.is_ascii_alphanumeric() || "+-._".contains(character)))
            .unwrap_or(rest.len());
        let word = &rest[..end];
        let value = match word {
            "true" => Value::Switch(true),
            "false" => Value::Switch(false),
            "null" => Value::Null,
            _ if word.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) => {
                match word.parse::<f64>() {
                    Ok(number) if number.is_finite() => Value::Number(number),
                    _ => return Err(self.error("this is no number")),
                }
            }
            "" => return Err(self.error("a value is missing here")),
            _ => {
                return Err(self
                    .error("texts stand in double quotes; without are `true`, `false`, `null` and numbers"));
            }
        };
        self.at += end;
        Ok(value)
    }

    fn string(&mut self) -> Result<String, SyntaxError> {
        let start = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            let Some(character) = self.peek() else {
                self.at = start;
                return Err(self.error("this text has no end: `\"` is missing"));
            };
            match character {
                '"' => {
                    self.at += 1;
                    return Ok(out);
                }
                '\n' => {
                    self.at = start;
                    return Err(self.error("this text has no end on its line: `\"` is missing"));
                }
                '\\' => out.push(self.escape()?),
                character => {
                    out.push(character);
                    self.at += character.len_utf8();
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, SyntaxError> {
        let bytes = self.text.as_bytes();
        let letter = bytes.get(self.at + 1).copied();
        let simple = match letter {
            Some(letter @ (b'"' | b'\\' | b'/')) => char::from(letter),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => return Err(self.error("this is no escape of JSON; a backslash is written `\\\\`")),
        };
        self.at += 2;
        Ok(simple)
    }

    /// `\u1234`, and two of them where one is not enough.
    fn unicode(&mut self) -> Result<char, SyntaxError> {
        let unit = |at: usize| {
            let digits = self.text.get(at..at + 6)?.strip_prefix("\\u")?;
            u16::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
        };
        let first = unit(self.at);
        let units: Vec<u16> = first.into_iter().chain(unit(self.at + 6)).collect();
        let decoded = char::decode_utf16(units).next().and_then(Result::ok);
        match decoded.filter(|_| first.is_some()) {
            Some(character) => {
                self.at += 6 * character.len_utf16();
                Ok(character)
            }
            None => Err(self.error("this is no character: `\\u` has four hexadecimal digits")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Place;
    use super::*;

    #[test]
    fn what_people_write() {
        let text = "// why\n{\n  \"a\": [1, -2.5e1, /* two */ true,],\n  \"b\": {\"c\": null, \"d\": \"x\\n\\u00e9\\ud83d\\ude00\"},\n}\n";
        let node = parse(text).unwrap();
        let a = node.get("A").unwrap();
        assert_eq!(&text[a.span.clone()], "[1, -2.5e1, /* two */ true,]");
        assert_eq!(node.at(&["b", "d"]).unwrap().text(), Some("x\né😀"));
        assert!(
            matches!(&a.value, Value::List(nodes) if nodes[1].number() == Some(-25.0) && nodes[2].is_on())
        );
        assert_eq!(&text[node.members()[1].key_span.clone()], "\"b\"");
        assert_eq!(parse("{}").unwrap().value, Value::Map(Vec::new()));
        assert_eq!(parse(" [] ").unwrap().span, 1..3);
    }

    #[test]
    fn mistakes_have_a_place() {
        for (text, line, column, says) in [
            ("", 1, 1, "ends here"),
            ("{\"a\": 1\n \"b\": 2}", 2, 2, "`,` or `}`"),
            ("{\n  a: 1}", 2, 3, "double quotes"),
            ("{\"a\" 1}", 1, 6, "`:`"),
            ("{\"a\": }", 1, 7, "missing"),
            ("{\"a\": yes}", 1, 7, "double quotes"),
            ("{\"a\": \"x\n\"}", 1, 7, "no end"),
            ("{\"a\": \"C:\\dir\"}", 1, 10, "backslash"),
            ("{\"a\": \"\\uZZZZ\"}", 1, 8, "hexadecimal"),
            ("{\"a\": 1} x", 1, 10, "behind"),
            ("{ /* x", 1, 3, "comment"),
            ("{ /*/ }", 1, 3, "comment"),
            ("[1 2]", 1, 4, "`,` or `]`"),
            ("1e999", 1, 1, "no number"),
            ("{\"a\": [}", 1, 8, "missing"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(Place::of(text, error.at), Place { line, column }, "{text}: {error}");
            assert!(error.message.contains(says), "{text}: {error}");
        }
        let deep = "[".repeat(100_000);
        assert!(parse(&deep).unwrap_err().message.contains("deeper"));
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i32>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                prop::collection::btree_map(any::<String>(), inner, 0..5)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn same(node: &Node, value: &serde_json::Value) -> bool {
        match (&node.value, value) {
            (Value::Null, serde_json::Value::Null) => true,
            (Value::Switch(a), serde_json::Value::Bool(b)) => a == b,
            (Value::Number(a), b) => b.as_f64() == Some(*a),
            (Value::Text(a), serde_json::Value::String(b)) => a == b,
            (Value::List(a), serde_json::Value::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
            }
            (Value::Map(a), serde_json::Value::Object(b)) => {
                a.len() == b.len()
                    && a.iter().all(|member| b.get(&member.key).is_some_and(|b| same(&member.node, b)))
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn what_others_write_is_read(value in json()) {
            let text = serde_json::to_string_pretty(&value).unwrap();
            prop_assert!(same(&parse(&text).unwrap(), &value), "{}", text);
        }

        #[test]
        fn any_text_gives_an_answer(text in "[\\[\\]{}\",:/*\\\\u0-9a-f\n é-]{0,60}") {
            if let Err(error) = parse(&text) {
                prop_assert!(error.at <= text.len());
            }
        }
    }
}
