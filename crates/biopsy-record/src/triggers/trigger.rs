//! What a recording may be started by.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use regex::bytes::Regex;

use super::comparison::{Comparison, Quantity};
use super::dotnet::DotNetCondition;
use super::quantity::{bytes_exactly, duration_text};

/// What a recording may be started by. [`Trigger::parse`] reads it, `Display` writes it in the same form.
#[derive(Clone, Debug)]
pub enum Trigger {
    /// `exit`: the process ends, however.
    Exit,
    /// `exit!=0`: it ends with another exit code than 0, or by a signal.
    Failure,
    /// `crash`: a signal is about to end it.
    Crash,
    /// `cpu>90%:30s`, `memory>2G`, `growth>200M`, `threads>500`, `fds>1000`, `pressure-io>30%`: true at every reading for so long.
    Bound {
        /// Of what.
        quantity: Quantity,
        /// How.
        comparison: Comparison,
        /// Per cent of a core, bytes, or a number.
        bound: f64,
        /// For how long; zero: one reading is enough.
        lasting: Duration,
    },
    /// `hang:10s`: see `triggers/hang.rs`.
    Hang {
        /// For how long nothing moves.
        lasting: Duration,
    },
    /// `log:REGEX`, `log:PATH:REGEX`: a new line of a file matches.
    Log {
        /// Which file; `None`: what the process has as its stdout and stderr.
        path: Option<PathBuf>,
        /// What a line must match. On bytes: log files need not be UTF-8.
        pattern: Regex,
    },
    /// `exception:TYPE`, `gc-heap>2G`, `request>10s` ...: what a .NET process says of itself.
    DotNet(DotNetCondition),
    /// `after:10m`: so long after the watch began.
    After {
        /// How long.
        duration: Duration,
    },
}

impl Trigger {
    /// Whether it needs the process to be traced: its end can be seen afterwards, but not held.
    #[must_use]
    pub fn needs_tracing(&self) -> bool {
        matches!(self, Self::Exit | Self::Failure | Self::Crash | Self::DotNet(DotNetCondition::Unhandled))
    }

    /// Whether it can only come true once in the life of a process.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.needs_tracing()
    }
}

impl PartialEq for Trigger {
    /// Equal when written equally.
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit => f.write_str("exit"),
            Self::Failure => f.write_str("exit!=0"),
            Self::Crash => f.write_str("crash"),
            Self::Bound { quantity, comparison, bound, lasting } => {
                write!(f, "{}{}", quantity.word(), comparison.sign())?;
                match quantity {
                    Quantity::Cpu | Quantity::Pressure(_) => write!(f, "{bound}%")?,
                    Quantity::Memory | Quantity::Growth => f.write_str(&bytes_exactly(*bound))?,
                    Quantity::Threads | Quantity::Descriptors => write!(f, "{bound}")?,
                }
                if lasting.is_zero() { Ok(()) } else { write!(f, ":{}", duration_text(*lasting)) }
            }
            Self::Hang { lasting } => write!(f, "hang:{}", duration_text(*lasting)),
            Self::Log { path: None, pattern } => write!(f, "log:{pattern}"),
            Self::Log { path: Some(path), pattern } => {
                write!(f, "log:{}:{pattern}", path.display().to_string().replace(':', "\\:"))
            }
            Self::DotNet(condition) => condition.fmt(f),
            Self::After { duration } => write!(f, "after:{}", duration_text(*duration)),
        }
    }
}
