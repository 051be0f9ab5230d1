//! One rule.

use std::time::Duration;

use crate::quantity::duration_text;

use super::when::When;
use super::who::Who;

/// One rule.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// Its name: in tables and in names of results.
    pub name: String,
    /// Where it comes from.
    pub source: Source,
    /// Which processes.
    pub who: Who,
    /// Who, as it was written, for people.
    pub who_text: String,
    /// When: any of these.
    pub when: Vec<When>,
    /// What is done.
    pub what: What,
    /// How much.
    pub limits: Limits,
}

/// Which section a rule comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// `watch.rules`.
    Rules,
    /// The vendor's `profiling`.
    Profiling,
    /// The vendor's `crashDumps`.
    CrashDumps,
}

/// What is done: a command of biopsy, with its options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct What {
    /// The command.
    pub verb: Verb,
    /// Its options, as they are typed.
    pub options: Vec<String>,
}

/// Commands that can stand by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// The timeline alone.
    Trace,
    /// Trace, metrics, logs, context.
    Capture,
    /// A dump.
    Dump,
    /// A snapshot.
    Snapshot,
    /// The last minutes, kept in memory until somebody wants them.
    Recent,
}

/// How much. All limits are of one rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most results in 24 hours.
    pub per_day: u32,
    /// Shortest time between the beginnings of two.
    pub cool_down: Duration,
    /// Most of its processes that are recorded at once.
    pub at_once: u32,
    /// Only every Nth process that matches.
    pub every: u32,
    /// Most CPU time that one recording may take while it goes on, in per cent of a core.
    pub budget: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { per_day: 20, cool_down: Duration::ZERO, at_once: 4, every: 1, budget: 30 }
    }
}

impl std::fmt::Display for Limits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} a day, {} at once", self.per_day, self.at_once)?;
        if !self.cool_down.is_zero() {
            write!(f, ", {} apart", duration_text(self.cool_down))?;
        }
        if self.every > 1 {
            write!(f, ", one process in {}", self.every)?;
        }
        if self.budget != Self::default().budget {
            write!(f, ", {} % of a core", self.budget)?;
        }
        Ok(())
    }
}

/// It is no command that can stand by.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WhatError {
    /// No command.
    #[error("a command is missing: `trace`, `capture`, `dump`, `snapshot` or `recent`, with its options")]
    Empty,
    /// Another one.
    #[error("`{0}` is none of `trace`, `capture`, `dump`, `snapshot` and `recent`")]
    Verb(String),
    /// A quote without its end.
    #[error("a quote has no end")]
    Quote,
    /// An option that the watcher sets itself.
    #[error("`{0}` is set by the watcher")]
    Option(String),
}

impl Verb {
    /// As it is typed.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Capture => "capture",
            Self::Dump => "dump",
            Self::Snapshot => "snapshot",
            Self::Recent => "recent",
        }
    }
}

/// Options that say where results go, or how they are shown: those are the watcher's.
const OWN: [&str; 15] = [
    "-o",
    "--output",
    "--folder",
    "--into",
    "--json",
    "-q",
    "--quiet",
    "--dry-run",
    "--launch",
    "--wait",
    "--wait-for",
    "--count",
    "--recent-if-kept",
    "--at-gate",
    "--",
];

impl What {
    /// Of one text as it would be typed, or of its words.
    ///
    /// # Errors
    /// [`WhatError`]. Whether the options make sense is for the command to say.
    pub fn parse(texts: &[&str]) -> Result<Self, WhatError> {
        let words = match texts {
            [one] => split(one)?,
            words => words.iter().map(|&word| word.to_owned()).collect(),
        };
        let mut words = words.into_iter().skip_while(|word| word == "biopsy");
        let verb = match words.next().as_deref() {
            Some("trace") => Verb::Trace,
            Some("capture") => Verb::Capture,
            Some("dump") => Verb::Dump,
            Some("snapshot") => Verb::Snapshot,
            Some("recent") => Verb::Recent,
            Some(other) => return Err(WhatError::Verb(other.to_owned())),
            None => return Err(WhatError::Empty),
        };
        let options: Vec<String> = words.collect();
        let is_own = |word: &&String| OWN.contains(&word.split('=').next().unwrap_or_default());
        match options.iter().find(is_own) {
            Some(own) => Err(WhatError::Option(own.clone())),
            None => Ok(Self { verb, options }),
        }
    }
}

impl Rule {
    /// When, for people.
    #[must_use]
    pub fn when_text(&self) -> String {
        let when: Vec<String> = self.when.iter().map(ToString::to_string).collect();
        when.join(" or ")
    }

    /// Whether it records processes from their first instruction.
    #[must_use]
    pub fn records_starts(&self) -> bool {
        matches!(self.what.verb, Verb::Trace | Verb::Capture) && self.when.contains(&When::Start)
    }

    /// The rule that keeps the last minutes of the same processes.
    #[must_use]
    pub fn keeping_recent(&self, length: &str) -> Self {
        Self {
            name: format!("{}-recent", self.name),
            when: vec![When::Start],
            what: What { verb: Verb::Recent, options: vec![length.to_owned()] },
            limits: Limits { per_day: self.limits.per_day, budget: self.limits.budget, ..Limits::default() },
            ..self.clone()
        }
    }
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.verb.word())?;
        self.options.iter().try_for_each(|option| write!(f, " {option}"))
    }
}

/// Words of a command line, with quotes of both kinds; nothing else means anything.
fn split(text: &str) -> Result<Vec<String>, WhatError> {
    let mut words = Vec::new();
    let (mut word, mut quote): (Option<String>, Option<char>) = (None, None);
    for character in text.chars() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(character),
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    if quote.is_some() { Err(WhatError::Quote) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_in_words_leave_out_what_is_usual() {
        assert_eq!(Limits::default().to_string(), "20 a day, 4 at once");
        let limits =
            Limits { per_day: 3, cool_down: Duration::from_secs(300), at_once: 1, every: 10, budget: 5 };
        assert_eq!(limits.to_string(), "3 a day, 1 at once, 5m apart, one process in 10, 5 % of a core");
    }

    #[test]
    fn commands() {
        let parsed = What::parse(&["biopsy capture --for 60s --logs '/var/log/my app/*.log'"]).unwrap();
        assert_eq!((parsed.verb, parsed.options.len()), (Verb::Capture, 4));
        assert_eq!(parsed.options[3], "/var/log/my app/*.log");
        assert_eq!(What::parse(&["dump", "--kind", "stacks"]).unwrap().to_string(), "dump --kind stacks");
        assert_eq!(What::parse(&["trace \"\""]).unwrap().options, [""]);
        for (texts, error) in [
            (&[""][..], WhatError::Empty),
            (&[], WhatError::Empty),
            (&["send x"], WhatError::Verb("send".to_owned())),
            (&["trace 'x"], WhatError::Quote),
            (&["trace --output=/etc/x"], WhatError::Option("--output=/etc/x".to_owned())),
            (&["trace", "--", "sh"], WhatError::Option("--".to_owned())),
        ] {
            assert_eq!(What::parse(texts).unwrap_err(), error, "{texts:?}");
        }
    }
}
