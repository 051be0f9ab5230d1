//! One planted secret: what a redactor is given, and what must not be left.

use std::fmt;
use std::ops::Range;

use super::half::Half;
use super::needle::Needle;
use super::wellformed::Format;

/// What a redactor is given at once: what one bundle consists of.
pub(super) type Bundle = Vec<Input>;

/// A piece of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Input {
    /// A file or stream.
    Text(Vec<u8>),
    /// The command line of a process.
    Arguments(Vec<String>),
    /// A variable of its environment.
    Variable { name: String, value: String },
    /// A block of its memory, with what is known of it.
    Memory { environment: Vec<(String, String)>, arguments: Vec<String>, bytes: Vec<u8> },
}

/// Rows of the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Class {
    /// Beside its name in a text.
    Key,
    /// A credential with a shape and no name.
    Shape,
    /// In a text of its own form: URLs, headers, SQL, tables, keys of several lines.
    Structure,
    /// In the arguments of a process.
    Arguments,
    /// In its environment.
    Environment,
    /// Encoded together with its name or with its shape.
    Encoded,
    /// Without a name, masked with it elsewhere in the bundle.
    Repeated,
    /// The same, encoded.
    RepeatedEncoded,
    /// In memory with its name or by its shape.
    Memory,
    /// In memory without a name, known from environment or arguments.
    MemoryRepeated,
}

impl Class {
    /// All, in the order of the table.
    pub(super) const ALL: [Self; 10] = [
        Self::Key,
        Self::Shape,
        Self::Structure,
        Self::Arguments,
        Self::Environment,
        Self::Encoded,
        Self::Repeated,
        Self::RepeatedEncoded,
        Self::Memory,
        Self::MemoryRepeated,
    ];

    /// Whether only those are counted whose value was masked beside its name.
    pub(super) fn is_repeated(self) -> bool {
        matches!(self, Self::Repeated | Self::RepeatedEncoded)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Key => "beside a key",
            Self::Shape => "by shape",
            Self::Structure => "in structure",
            Self::Arguments => "arguments",
            Self::Environment => "environment",
            Self::Encoded => "encoded",
            Self::Repeated => "repeated elsewhere, of those masked once",
            Self::RepeatedEncoded => "repeated elsewhere encoded, of those masked once",
            Self::Memory => "memory",
            Self::MemoryRepeated => "memory, copies of environment and arguments",
        })
    }
}

/// One planted secret.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// Name of the kind.
    pub(super) kind: String,
    /// Name of the place.
    pub(super) place: String,
    pub(super) half: Half,
    pub(super) class: Class,
    pub(super) bundle: Bundle,
    /// Index in `bundle` of what is looked at.
    pub(super) scored: usize,
    /// What is looked at, without the secret.
    pub(super) background: Vec<u8>,
    pub(super) needle: Needle,
    /// The secret beside its name alone, and the same without it: of repeated ones.
    pub(super) source: Option<(Vec<u8>, Vec<u8>)>,
    pub(super) format: Option<Format>,
    /// Of memory: bytes that may change.
    pub(super) may_change: Vec<Range<usize>>,
}

impl Case {
    /// Name of kind and place.
    pub(super) fn name(&self) -> String {
        format!("{} / {} / {}", self.class, self.kind, self.place)
    }
}

impl Input {
    /// Its bytes as they are searched.
    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(bytes) | Self::Memory { bytes, .. } => bytes.clone(),
            Self::Arguments(words) => words.join("\0").into_bytes(),
            Self::Variable { value, .. } => value.clone().into_bytes(),
        }
    }

    /// The same as a text, for programs that only know texts.
    pub(super) fn as_text(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(bytes) => Some(bytes.clone()),
            Self::Arguments(words) => Some(line(words).into_bytes()),
            Self::Variable { name, value } => Some(format!("{name}={value}\n").into_bytes()),
            Self::Memory { .. } => None,
        }
    }
}

/// Arguments as one would type them.
pub(super) fn line(words: &[String]) -> String {
    let quoted = words.iter().map(|word| {
        let is_plain =
            !word.is_empty() && !word.contains(|letter: char| " \"'$&;|<>(){}*#\\`!".contains(letter));
        match () {
            () if is_plain => word.clone(),
            () if word.contains('\'') => format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")),
            () => format!("'{word}'"),
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}
