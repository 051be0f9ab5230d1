//! Enums of the model: one word each, or a word with what belongs to it.

use biopsy_model::log::LogLevel;
use biopsy_model::metric::Unit;
use biopsy_model::process::RuntimeKind;
use biopsy_model::runtime_trace::{CollectionReason, ThreadPoolChange};
use serde::{Deserialize, Serialize};

use super::mirror::Mirror;
use crate::documents::processes::{runtime_kind, runtime_text};
use crate::documents::spellings;

spellings!(level_text, level, LogLevel, unknown = LogLevel::Unknown, {
    "unknown" = LogLevel::Unknown,
    "debug" = LogLevel::Debug,
    "info" = LogLevel::Info,
    "warning" = LogLevel::Warning,
    "error" = LogLevel::Error,
});

spellings!(unit_text, unit, Unit, unknown = Unit::Count, {
    "count" = Unit::Count,
    "per-second" = Unit::PerSecond,
    "cores" = Unit::Cores,
    "ratio" = Unit::Ratio,
    "bytes" = Unit::Bytes,
    "bytes-per-second" = Unit::BytesPerSecond,
    "milliseconds" = Unit::Milliseconds,
});

macro_rules! word {
    ($type:ty, $encode:ident, $decode:ident) => {
        impl Mirror for $type {
            type Json = String;

            fn into_json(self) -> String {
                $encode(self).to_owned()
            }

            fn from_json(json: String) -> Self {
                $decode(&json)
            }
        }
    };
}
word!(RuntimeKind, runtime_text, runtime_kind);
word!(LogLevel, level_text, level);
word!(Unit, unit_text, unit);

const SMALL_OBJECTS: &str = "small-objects";
const INDUCED: &str = "induced";
const LOW_MEMORY: &str = "low-memory";
const LARGE_OBJECTS: &str = "large-objects";

impl Mirror for CollectionReason {
    /// One of four words, or what the runtime calls it.
    type Json = String;

    fn into_json(self) -> String {
        match self {
            Self::SmallObjects => SMALL_OBJECTS.to_owned(),
            Self::Induced => INDUCED.to_owned(),
            Self::LowMemory => LOW_MEMORY.to_owned(),
            Self::LargeObjects => LARGE_OBJECTS.to_owned(),
            Self::Other(words) => words,
        }
    }

    fn from_json(json: String) -> Self {
        match json.as_str() {
            SMALL_OBJECTS => Self::SmallObjects,
            INDUCED => Self::Induced,
            LOW_MEMORY => Self::LowMemory,
            LARGE_OBJECTS => Self::LargeObjects,
            _ => Self::Other(json),
        }
    }
}

/// `{"change": "adjusted", "reason": ..., "throughput": ...}`, or `{"change": "workers"}`.
#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(crate) struct ChangeJson {
    change: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throughput: Option<f64>,
}

impl Mirror for ThreadPoolChange {
    type Json = ChangeJson;

    fn into_json(self) -> ChangeJson {
        let change = |word: &str| ChangeJson { change: word.to_owned(), ..ChangeJson::default() };
        match self {
            Self::Adjusted { reason, throughput } => {
                ChangeJson { reason: Some(reason), throughput, ..change("adjusted") }
            }
            Self::Workers => change("workers"),
            Self::Minimum => change("minimum"),
        }
    }

    fn from_json(json: ChangeJson) -> Self {
        match json.change.as_str() {
            "adjusted" => {
                Self::Adjusted { reason: json.reason.unwrap_or_default(), throughput: json.throughput }
            }
            "minimum" => Self::Minimum,
            _ => Self::Workers,
        }
    }
}
