//! What of a .NET process may be waited for.

use std::fmt;
use std::time::Duration;

use regex::bytes::Regex;

use super::super::comparison::Comparison;
use super::super::quantity::{bytes_exactly, bytes_text, duration_text};

/// A quantity that the runtime or the application tells.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum DotNetQuantity {
    /// Bytes of the managed heap after a collection.
    Heap,
    /// Bytes of one generation: 0, 1, 2, 3 large objects, 4 pinned objects.
    Generation(u8),
    /// Work items in the queue of the thread pool.
    PoolQueue,
    /// Seconds that a request has taken.
    Request,
    /// Status of an answer.
    Status,
    /// A counter or instrument.
    Counter {
        /// EventSource or Meter; `None`: whichever has it.
        source: Option<String>,
        /// Its name.
        name: String,
    },
}

impl DotNetQuantity {
    pub(crate) fn word(&self) -> String {
        match self {
            Self::Heap => "gc-heap".to_owned(),
            Self::Generation(3) => "gc-loh".to_owned(),
            Self::Generation(4) => "gc-poh".to_owned(),
            Self::Generation(number) => format!("gc-gen{number}"),
            Self::PoolQueue => "threadpool-queue".to_owned(),
            Self::Request => "request".to_owned(),
            Self::Status => "request-status".to_owned(),
            Self::Counter { source: None, name } => format!("counter:{name}"),
            Self::Counter { source: Some(source), name } => format!("counter:{source}/{name}"),
        }
    }

    /// A value of it for people.
    pub(crate) fn value_text(&self, value: f64) -> String {
        match self {
            Self::Heap | Self::Generation(_) => bytes_text(value),
            Self::Request => format!("{value:.1} s"),
            Self::PoolQueue | Self::Status => format!("{value:.0}"),
            Self::Counter { .. } => format!("{}", (value * 1000.0).round() / 1000.0),
        }
    }

    pub(crate) fn noun(&self) -> String {
        match self {
            Self::Heap => "managed heap".to_owned(),
            Self::Generation(3) => "large object heap".to_owned(),
            Self::Generation(4) => "pinned object heap".to_owned(),
            Self::Generation(number) => format!("generation {number}"),
            Self::PoolQueue => "thread pool queue".to_owned(),
            Self::Request => "a request".to_owned(),
            Self::Status => "status of a request".to_owned(),
            Self::Counter { name, .. } => format!("`{name}`"),
        }
    }

    /// Each event is looked at by itself, and no state lasts.
    pub(crate) fn is_event(&self) -> bool {
        matches!(self, Self::Request | Self::Status)
    }
}

/// What of a .NET process may be waited for. `Display` writes what the parser reads.
#[derive(Clone, Debug)]
pub enum DotNetCondition {
    /// An exception is thrown.
    Exception {
        /// Full name of its type, or the last parts of it.
        type_name: String,
        /// What its message must match. On bytes, as in logs.
        message: Option<Regex>,
    },
    /// Nobody catches one.
    Unhandled,
    /// A quantity compared with a bound.
    Bound {
        /// Of what.
        quantity: DotNetQuantity,
        /// How.
        comparison: Comparison,
        /// Bytes, seconds or a number.
        bound: f64,
        /// True for so long; zero: once is enough.
        lasting: Duration,
    },
}

impl DotNetCondition {
    /// Whether an exception is meant.
    pub(crate) fn is_exception(&self, type_name: &str, message: &str) -> bool {
        let Self::Exception { type_name: wanted, message: pattern } = self else { return false };
        let by_name = type_name == wanted
            || type_name.strip_suffix(wanted.as_str()).is_some_and(|front| front.ends_with(['.', '+']));
        by_name && pattern.as_ref().is_none_or(|pattern| pattern.is_match(message.as_bytes()))
    }
}

impl fmt::Display for DotNetCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exception { type_name, message: None } => write!(f, "exception:{type_name}"),
            Self::Exception { type_name, message: Some(message) } => {
                write!(f, "exception:{type_name}~{message}")
            }
            Self::Unhandled => f.write_str("unhandled-exception"),
            Self::Bound { quantity, comparison, bound, lasting } => {
                write!(f, "{}{}", quantity.word(), comparison.sign())?;
                match quantity {
                    DotNetQuantity::Heap | DotNetQuantity::Generation(_) => {
                        f.write_str(&bytes_exactly(*bound))?
                    }
                    DotNetQuantity::Request => {
                        f.write_str(&duration_text(Duration::try_from_secs_f64(*bound).unwrap_or_default()))?;
                    }
                    _ => write!(f, "{bound}")?,
                }
                if lasting.is_zero() { Ok(()) } else { write!(f, ":{}", duration_text(*lasting)) }
            }
        }
    }
}
