//! What a request asks for: a few kinds of evidence with numbers, and never a command.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest recording that may be asked for.
pub const MOST_SECONDS: u64 = 3600;

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// What kind of evidence.
    pub kind: Kind,
    /// How long to record; for kinds that record over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Of which process, as `biopsy capture` takes it; the customer may name another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// Kinds of evidence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Something is slow: a recording over time. No memory leaves the process.
    Slow,
    /// Something hangs: stacks, locks and operations of all threads, with a short recording. No memory leaves the process.
    Hang,
    /// A file that the customer has: what is in it is his to know.
    File,
    /// The report on a file that the customer has; the file stays.
    Report,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Slow, Self::Hang, Self::File, Self::Report];

    /// As it is typed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Hang => "hang",
            Self::File => "file",
            Self::Report => "report",
        }
    }

    /// It is captured now, or else a file that is there.
    #[must_use]
    pub fn is_captured(self) -> bool {
        matches!(self, Self::Slow | Self::Hang)
    }
}

impl FromStr for Kind {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("a recipe is one of {}", names.join(", "))
        })
    }
}

impl Recipe {
    /// How long it records, within what may be asked for.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        let usual = match self.kind {
            Kind::Slow => 180,
            Kind::Hang => 10,
            Kind::File | Kind::Report => 0,
        };
        self.seconds.unwrap_or(usual).min(MOST_SECONDS)
    }
}

impl fmt::Display for Recipe {
    /// In words, for whoever is to consent. Without the target, which the program shows when it has found it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.seconds();
        match self.kind {
            Kind::Slow => write!(
                f,
                "a recording of {seconds} s: where time goes, metrics, context; texts with secrets masked; no memory"
            ),
            Kind::Hang => write!(
                f,
                "who waits for whom: stacks and locks of all threads, and a recording of {seconds} s; texts with secrets masked; \
                 no memory"
            ),
            Kind::File => {
                f.write_str("a file of yours, whole; a dump in it holds whatever was in the process's memory")
            }
            Kind::Report => f.write_str("the report on a file of yours; the file itself stays with you"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_has_limits_and_no_place_for_commands() {
        let recipe: Recipe = serde_json::from_str(r#"{"kind":"slow","seconds":999999}"#).unwrap();
        assert_eq!(recipe.seconds(), MOST_SECONDS);
        assert!(recipe.to_string().contains("3600 s"));
        for refused in [
            r#"{"kind":"shell"}"#,
            r#"{"kind":"slow","command":"id"}"#,
            r#"{"kind":"slow","seconds":-1}"#,
            r#"{"kind":"file","path":"/etc/shadow"}"#,
        ] {
            assert!(serde_json::from_str::<Recipe>(refused).is_err(), "{refused}");
        }
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert!("dump".parse::<Kind>().unwrap_err().contains("slow, hang, file, report"));
    }
}
