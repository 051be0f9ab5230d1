//! A spot of memory: what stands there beside a secret, and what told of the secret before.

use super::super::case::Class;
use super::super::encode::{Encoding, wide};

/// Whether what a process was started with holds the secret too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Taught {
    Nothing,
    /// `NAME=value` in its environment.
    Variable,
    /// `--name=value` among its arguments.
    Argument,
    /// `--name value`.
    ArgumentApart,
    /// `-name value`.
    ArgumentOneDash,
}

/// What stands there, made of the name and the value.
#[derive(Clone, Copy)]
enum Planted {
    /// As a text, in the encoding of the spot.
    Text(fn(&str, &str) -> String),
    /// As it is.
    Bytes(fn(&str, &str) -> Vec<u8>),
}

/// Where a secret stands.
#[derive(Clone, Copy)]
pub(super) struct Spot {
    pub(super) name: &'static str,
    pub(super) taught: Taught,
    /// A copy without a name, of what was told before: not of what is a common word.
    pub(super) class: Class,
    /// Neither a name nor what was told before: only the shape gives it away.
    pub(super) is_alone: bool,
    pub(super) encoding: Encoding,
    planted: Planted,
    /// Where the whole of what is encoded is more than the value.
    encoded: Option<fn(&str) -> String>,
}

impl Spot {
    const fn new(name: &'static str, planted: Planted) -> Self {
        let (taught, class, encoding) = (Taught::Nothing, Class::Memory, Encoding::Plain);
        Self { name, taught, class, is_alone: false, encoding, planted, encoded: None }
    }

    /// A text of a heap, or of what the process was started with.
    pub(super) const fn text(name: &'static str, text: fn(&str, &str) -> String) -> Self {
        Self::new(name, Planted::Text(text))
    }

    /// Something of a heap that is not text alone.
    pub(super) const fn bytes(name: &'static str, bytes: fn(&str, &str) -> Vec<u8>) -> Self {
        Self::new(name, Planted::Bytes(bytes))
    }

    /// As UTF-16.
    pub(super) const fn wide(self) -> Self {
        Self { encoding: Encoding::Utf16Le, ..self }
    }

    pub(super) const fn encoded(self, encoding: Encoding) -> Self {
        Self { encoding, ..self }
    }

    /// In Base64, with what else is in it.
    pub(super) const fn within(self, encoded: fn(&str) -> String) -> Self {
        Self { encoding: Encoding::Base64, encoded: Some(encoded), ..self }
    }

    pub(super) const fn alone(self) -> Self {
        Self { is_alone: true, ..self }
    }

    /// What the process was started with has the secret as well, and nothing else tells of it here.
    pub(super) const fn copy_of(self, taught: Taught) -> Self {
        Self { taught, class: Class::MemoryRepeated, ..self }
    }

    /// This is what the process was started with.
    pub(super) const fn is_of(self, taught: Taught) -> Self {
        Self { taught, ..self }
    }

    /// What stands there.
    pub(super) fn plant(&self, name: &str, value: &str) -> Vec<u8> {
        match (self.planted, self.encoding) {
            (Planted::Bytes(bytes), _) => bytes(name, value),
            (Planted::Text(text), Encoding::Utf16Le) => wide(&text(name, value), false),
            (Planted::Text(text), _) => text(name, value).into_bytes(),
        }
    }

    /// The value as it stands there, with what is encoded with it.
    pub(super) fn written(&self, value: &str) -> Vec<u8> {
        match self.encoded {
            Some(encoded) => encoded(value).into_bytes(),
            None => self.encoding.encode(value),
        }
    }
}
