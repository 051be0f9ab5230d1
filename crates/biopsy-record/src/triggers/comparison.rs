//! What is compared with a bound, and how.

use super::quantity::bytes_text;

/// What is compared with a bound.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Quantity {
    /// CPU time of all threads between two readings, in per cent of one core; 800 with eight cores fully used.
    Cpu,
    /// Resident memory, bytes.
    Memory,
    /// Bytes of resident memory more than at the first reading.
    Growth,
    /// Threads.
    Threads,
    /// Open file descriptors.
    Descriptors,
    /// The share of the time in which some task of the process's control group, or of the machine, stands still for want of this; per cent.
    Pressure(Resource),
}

/// What tasks may stand still for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Resource {
    /// A processor.
    Cpu,
    /// Memory: reclaim, refaults, swapping.
    Memory,
    /// Reads and writes.
    Io,
}

impl Resource {
    /// All, in their order.
    pub(super) const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Io];

    /// The kernel's word for it, which is the name of its file below `/proc/pressure`.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
        }
    }
}

impl Quantity {
    /// The word for it in a trigger.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Growth => "growth",
            Self::Threads => "threads",
            Self::Descriptors => "fds",
            Self::Pressure(Resource::Cpu) => "pressure-cpu",
            Self::Pressure(Resource::Memory) => "pressure-memory",
            Self::Pressure(Resource::Io) => "pressure-io",
        }
    }

    /// A value of it for people.
    #[must_use]
    pub fn value_text(self, value: f64) -> String {
        match self {
            Self::Cpu | Self::Pressure(_) => format!("{}%", (value * 10.0).round() / 10.0),
            Self::Memory | Self::Growth => bytes_text(value),
            Self::Threads | Self::Descriptors => format!("{value:.0}"),
        }
    }
}

/// How a quantity is compared with its bound.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Comparison {
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `<`
    Below,
    /// `<=`
    AtMost,
}

impl Comparison {
    /// Whether it is true of a value.
    #[must_use]
    pub fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Above => value > bound,
            Self::AtLeast => value >= bound,
            Self::Below => value < bound,
            Self::AtMost => value <= bound,
        }
    }

    /// Longer signs first: `>=` begins like `>`.
    const SIGNS: [(&str, Self); 4] =
        [(">=", Self::AtLeast), ("<=", Self::AtMost), (">", Self::Above), ("<", Self::Below)];

    /// The comparison that a text begins with, and what is behind its sign.
    pub(super) fn parse_start(text: &str) -> Option<(Self, &str)> {
        Self::SIGNS.iter().find_map(|(sign, comparison)| Some((*comparison, text.strip_prefix(sign)?)))
    }

    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::Above => ">",
            Self::AtLeast => ">=",
            Self::Below => "<",
            Self::AtMost => "<=",
        }
    }
}
