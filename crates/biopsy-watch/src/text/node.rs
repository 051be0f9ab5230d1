//! A value of a text, and where it stands there.

use std::ops::Range;

/// Longest text of settings.
pub const LONGEST: usize = 1 << 20;
/// Deepest nesting; the settings that exist have six.
pub const DEEPEST: usize = 32;

/// A value with its place.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Bytes of the text that are it.
    pub span: Range<usize>,
    /// What it is.
    pub value: Value,
}

/// What a node is.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// `null`.
    Null,
    /// `true`, `false`.
    Switch(bool),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Named values, in the order of the text.
    Map(Vec<Member>),
}

/// A named value.
#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    /// Its name.
    pub key: String,
    /// Where the name stands.
    pub key_span: Range<usize>,
    /// The value.
    pub node: Node,
}

/// Where a text stops making sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// Offset in bytes.
    pub at: usize,
    /// What is wrong there.
    pub message: String,
}

/// Line and column, from 1, as editors count them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// Line.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

impl Place {
    /// Of an offset in a text.
    #[must_use]
    pub fn of(text: &str, at: usize) -> Self {
        let mut at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &text[..at];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        Self { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
    }
}

impl Value {
    /// What it is called in messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Switch(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "an object",
        }
    }
}

impl Node {
    /// The member of this name; of several the last, as readers of JSON have it. Names are compared without case, as the vendor's own
    /// reader does.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.members()
            .iter()
            .rev()
            .find(|member| member.key.eq_ignore_ascii_case(key))
            .map(|member| &member.node)
    }

    /// The value at the end of a path of names.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// Its members; none, if it has no names.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        match &self.value {
            Value::Map(members) => members,
            Value::Null | Value::Switch(_) | Value::Number(_) | Value::Text(_) | Value::List(_) => &[],
        }
    }

    /// The text that it is.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            Value::Null | Value::Switch(_) | Value::Number(_) | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// The number that it is.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self.value {
            Value::Number(number) => Some(number),
            Value::Null | Value::Switch(_) | Value::Text(_) | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// Whether it is `true`.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.value == Value::Switch(true)
    }

    /// The texts of a list, or the one text that stands for a list of one.
    #[must_use]
    pub fn texts(&self) -> Vec<&str> {
        match &self.value {
            Value::Text(text) => vec![text],
            Value::List(nodes) => nodes.iter().filter_map(Node::text).collect(),
            Value::Null | Value::Switch(_) | Value::Number(_) | Value::Map(_) => Vec::new(),
        }
    }
}
