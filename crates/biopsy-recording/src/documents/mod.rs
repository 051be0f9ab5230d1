//! The JSON members: how values of the model look on disk. Every field may be absent; unknown ones are ignored.
//!
//! Each document has types of its own, with a conversion each way, so that a name of the model can change and files do not.
//! `tests/documents` holds them to recorded files.

pub(crate) mod dump;
pub(crate) mod footprint;
pub(crate) mod header;
pub(crate) mod heap;
pub(crate) mod last_words;
pub(crate) mod look;
pub(crate) mod peers;
pub(crate) mod processes;
pub(crate) mod redaction;
pub(crate) mod runtime;
pub(crate) mod warnings;

use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

/// Most elements of a list in a JSON member. `{}` is three bytes in a file and hundreds in memory.
const MAX_LIST: usize = 100_000;

/// A list of at most [`MAX_LIST`] elements.
#[derive(Serialize, Deserialize, Debug)]
#[serde(transparent, bound(deserialize = "T: Deserialize<'de>"))]
pub(crate) struct List<T>(#[serde(deserialize_with = "at_most")] Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> List<T> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<M, T: From<M>> From<Vec<M>> for List<T> {
    fn from(elements: Vec<M>) -> Self {
        Self(elements.into_iter().map(T::from).collect())
    }
}

impl<T, M: From<T>> From<List<T>> for Vec<M> {
    fn from(list: List<T>) -> Self {
        list.0.into_iter().map(M::from).collect()
    }
}

/// An array of the model is a list; what is too long or too short is cut or filled with zeros.
fn array<T: Copy + Default, const N: usize>(list: List<T>) -> [T; N] {
    std::array::from_fn(|at| list.0.get(at).copied().unwrap_or_default())
}

/// Reads a list of at most [`MAX_LIST`] elements.
pub(crate) fn at_most<'de, D: Deserializer<'de>, T: Deserialize<'de>>(input: D) -> Result<Vec<T>, D::Error> {
    struct Bounded<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Bounded<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MAX_LIST} elements")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut elements = Vec::new();
            while let Some(element) = list.next_element()? {
                if elements.len() == MAX_LIST {
                    return Err(de::Error::invalid_length(MAX_LIST + 1, &self));
                }
                elements.push(element);
            }
            Ok(elements)
        }
    }

    input.deserialize_seq(Bounded(PhantomData))
}

/// Defines the two directions of an enum's spelling. Unknown spellings become `$unknown`.
macro_rules! spellings {
    ($encode:ident, $decode:ident, $type:ty, unknown = $unknown:path, { $($text:literal = $variant:path),+ $(,)? }) => {
        pub(crate) fn $encode(value: $type) -> &'static str {
            match value { $($variant => $text),+ }
        }

        pub(crate) fn $decode(text: &str) -> $type {
            match text { $($text => $variant,)+ _ => $unknown }
        }
    };
}
pub(crate) use spellings;

/// A [`biopsy_model::ClockPair`].
#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(crate) struct ClockPair {
    mono_ns: u64,
    wall_unix_ns: i128,
    utc_offset_seconds: i32,
    zone: String,
}

impl From<&biopsy_model::ClockPair> for ClockPair {
    fn from(pair: &biopsy_model::ClockPair) -> Self {
        Self {
            mono_ns: pair.mono.0,
            wall_unix_ns: pair.wall_unix_nanos,
            utc_offset_seconds: pair.utc_offset_seconds,
            zone: pair.zone.clone(),
        }
    }
}

impl From<ClockPair> for biopsy_model::ClockPair {
    fn from(pair: ClockPair) -> Self {
        Self {
            mono: biopsy_model::MonoNanos(pair.mono_ns),
            wall_unix_nanos: pair.wall_unix_ns,
            utc_offset_seconds: pair.utc_offset_seconds,
            zone: pair.zone,
        }
    }
}

/// A [`biopsy_model::ProcessKey`].
#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(crate) struct ProcessKey {
    boot_id: String,
    pid: u32,
    start_ticks: u64,
}

impl From<&biopsy_model::ProcessKey> for ProcessKey {
    fn from(key: &biopsy_model::ProcessKey) -> Self {
        Self { boot_id: key.boot_id.0.clone(), pid: key.pid.0, start_ticks: key.start_ticks }
    }
}

impl From<ProcessKey> for biopsy_model::ProcessKey {
    fn from(key: ProcessKey) -> Self {
        Self {
            boot_id: biopsy_model::BootId(key.boot_id),
            pid: biopsy_model::Pid(key.pid),
            start_ticks: key.start_ticks,
        }
    }
}
