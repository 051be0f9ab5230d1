//! What may be typed after `biopsy logs`.

use std::path::PathBuf;
use std::time::Duration;

use biopsy_analyze::FindingId;
use biopsy_model::log::LogLevel;
use clap::{Args, ValueEnum};
use jiff::civil::Time;
use regex::Regex;

use crate::symbols::SymbolArgs;
use crate::typed::duration;

/// Show the log lines of a recording, those of all logs in the order of time, on its clock: all, or those around a finding or a moment.
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// A bundle, or a recording's folder.
    pub file: PathBuf,
    /// Only lines with a match.
    #[arg(long, value_name = "REGEX")]
    pub grep: Option<Regex>,
    /// Only lines that are at least as severe. [default: all, those whose severity is not known, too]
    #[arg(long, value_enum)]
    pub level: Option<Level>,
    /// Only lines around this: a finding whose evidence is in a log or at a time (`log-errors`), a time since the beginning (`90s`), or a time
    /// of day on the recorded machine (`10:27:03`).
    #[arg(long, value_name = "FINDING|TIME", value_parser = around)]
    pub around: Option<Around>,
    /// How much before and after.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5s", requires = "around")]
    pub within: Duration,
    /// For programs: print them as one JSON document.
    #[arg(long)]
    pub json: bool,
    /// What is needed to read it.
    #[command(flatten)]
    pub symbols: SymbolArgs,
}

/// How severe lines are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Level {
    /// Trace, verbose, debug.
    Debug,
    /// Informational.
    Info,
    /// Warning.
    Warning,
    /// Error, and worse.
    Error,
}

impl From<Level> for LogLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Debug => Self::Debug,
            Level::Info => Self::Info,
            Level::Warning => Self::Warning,
            Level::Error => Self::Error,
        }
    }
}

/// A moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Around {
    /// That of the evidence of a finding.
    Finding(FindingId),
    /// So long after the beginning.
    After(Duration),
    /// At this time of day.
    Clock(Time),
}

fn around(text: &str) -> Result<Around, String> {
    let id = FindingId::parse(text).map(Around::Finding);
    // With colons it would be a duration, too.
    let moment = || match text.contains(':') {
        true => text.parse().ok().map(Around::Clock),
        false => duration(text).ok().map(Around::After),
    };
    id.or_else(moment).ok_or_else(|| {
        "it is a finding (`log-errors`; `biopsy explain` lists them), a time since the beginning (`90s`), or a time of day (`10:27:03`)"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_finding_a_duration_or_a_time_of_day() {
        assert_eq!(around("log-errors"), Ok(Around::Finding(FindingId::parse("log-errors").unwrap())));
        assert_eq!(around("1m30s"), Ok(Around::After(Duration::from_secs(90))));
        assert_eq!(around("10:27:03"), Ok(Around::Clock(Time::constant(10, 27, 3, 0))));
        assert_eq!(around("10:27:03.25"), Ok(Around::Clock(Time::constant(10, 27, 3, 250_000_000))));
        for wrong in ["log-error", "10", "25:00:00", "soon", "-5s"] {
            assert!(around(wrong).unwrap_err().contains("10:27:03"), "{wrong}");
        }
    }
}
