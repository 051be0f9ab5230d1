//! How a program is looked at, as a truth file says it: `stacks`, `dump --tree`, `capture 5s`, `dump --on crash`.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;

/// A verb of biopsy with what is asked of it.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(try_from = "String")]
pub(crate) enum Observation {
    /// Stacks now.
    Stacks(Vec<String>),
    /// A dump now.
    Dump(Vec<String>),
    /// A dump when something happens, which happens only once it is watched.
    DumpOn(Vec<String>),
    /// A recording of a length in the words of the command line.
    Capture(String, Vec<String>),
}

impl TryFrom<String> for Observation {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut words = text.split_ascii_whitespace().map(str::to_owned);
        let verb = words.next().unwrap_or_default();
        match verb.as_str() {
            "stacks" => Ok(Self::Stacks(words.collect())),
            "dump" => {
                let words: Vec<String> = words.collect();
                let waits = words.iter().any(|word| word == "--on");
                Ok(if waits { Self::DumpOn(words) } else { Self::Dump(words) })
            }
            "capture" => match words.next() {
                Some(length) if length.starts_with(|first: char| first.is_ascii_digit()) => {
                    Ok(Self::Capture(length, words.collect()))
                }
                _ => Err("`capture` needs a length, such as `capture 5s`".to_owned()),
            },
            _ => Err(format!("`{text}` is none of `stacks`, `dump`, `dump --on` and `capture LENGTH`")),
        }
    }
}

impl Observation {
    /// The program waits for a line on its standard input before it does what ends it.
    pub(crate) fn is_triggered(&self) -> bool {
        matches!(self, Self::DumpOn(_))
    }

    /// The command beside a process, and where its result will be; `None`: on its standard output.
    pub(crate) fn command<'a>(
        &self,
        program: &Path,
        pid: u32,
        result: &'a Path,
    ) -> (Command, Option<&'a Path>) {
        let mut command = Command::new(program);
        let pid = pid.to_string();
        match self {
            Self::Stacks(words) => {
                command.arg("stacks").arg(pid).args(words).arg("--json");
                return (command, None);
            }
            Self::Dump(words) | Self::DumpOn(words) => {
                command.arg("dump").arg(pid).args(words);
            }
            Self::Capture(length, words) => {
                command.arg("capture").arg(pid).args(["--for", length, "--folder"]).args(words);
            }
        };
        command.args(["--quiet", "--output"]).arg(result);
        (command, Some(result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let observation = Observation::try_from(text.to_owned()).unwrap();
        let (command, _) = observation.command(Path::new("biopsy"), 7, Path::new("result"));
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn verbs_become_commands() {
        assert_eq!(words("stacks"), ["stacks", "7", "--json"]);
        assert_eq!(words("dump --tree"), ["dump", "7", "--tree", "--quiet", "--output", "result"]);
        let capture =
            ["capture", "7", "--for", "5s", "--folder", "--requests", "--quiet", "--output", "result"];
        assert_eq!(words("capture 5s --requests"), capture);
    }

    #[test]
    fn only_what_waits_for_something_is_triggered() {
        let is_triggered = |text: &str| Observation::try_from(text.to_owned()).unwrap().is_triggered();
        assert!(is_triggered("dump --on crash"));
        assert!(!is_triggered("dump --kind full"));
        assert!(!is_triggered("stacks"));
    }

    #[test]
    fn other_words_are_refused() {
        for text in ["", "capture", "capture --stacks", "snapshot"] {
            assert!(Observation::try_from(text.to_owned()).is_err(), "{text:?}");
        }
    }
}
