//! What is known of a program of `fixtures/sick/`: its cause, how it is built and started, how it is observed.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use super::observation::Observation;
use crate::run::Outcome;

/// A truth file; `fixtures/sick/README.md` explains each field to those who write one.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Truth {
    pub(crate) language: Language,
    pub(crate) class: Class,
    /// For people: what is wrong, and how one knows.
    pub(crate) cause: String,
    /// Beside the truth file.
    pub(crate) source: String,
    /// The look-alike: a truth file of the same folder without `.toml`.
    #[serde(default)]
    pub(crate) twin: Option<String>,
    /// Of a leak: what kind it is, `static list`. Its `place` is the holder, its `reason` the type.
    #[serde(default)]
    pub(crate) form: Option<String>,
    /// Of a leak: the function that allocates.
    #[serde(default)]
    pub(crate) allocator: Patterns,
    /// C#: run once on each of these, `net8.0`; the newest, where there are none.
    #[serde(default)]
    pub(crate) frameworks: Vec<String>,
    /// For the compiler.
    #[serde(default)]
    pub(crate) flags: Vec<String>,
    /// Without symbols.
    #[serde(default)]
    pub(crate) strip: bool,
    /// For the interpreter or the virtual machine.
    #[serde(default)]
    pub(crate) runtime: Vec<String>,
    #[serde(default)]
    pub(crate) arguments: Vec<String>,
    #[serde(default)]
    pub(crate) environment: BTreeMap<String, String>,
    /// Begins the line that says that it runs.
    #[serde(default = "default_ready")]
    pub(crate) ready: String,
    /// Between that line and the observation.
    #[serde(default = "default_settle")]
    pub(crate) settle_ms: u64,
    pub(crate) observe: Observation,
    /// Ids of findings, any of them.
    #[serde(default)]
    pub(crate) kind: Vec<String>,
    #[serde(default)]
    pub(crate) place: Patterns,
    /// What has to be named besides, all of it: the second site of a deadlock.
    #[serde(default)]
    pub(crate) every: Patterns,
    #[serde(default)]
    pub(crate) reason: Patterns,
}

/// In what a program is written.
#[derive(Deserialize, Serialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Language {
    C,
    Cpp,
    Rust,
    Go,
    Python,
    Java,
    JavaScript,
    CSharp,
}

/// What happens to it.
#[derive(Deserialize, Serialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Class {
    Crashes,
    Hangs,
    Slow,
    Grows,
    Healthy,
}

/// Regular expressions, without regard to case.
#[derive(Deserialize, Clone, Default, Debug)]
#[serde(try_from = "Vec<String>")]
pub(crate) struct Patterns(Vec<Regex>);

impl TryFrom<Vec<String>> for Patterns {
    type Error = regex::Error;

    fn try_from(texts: Vec<String>) -> Result<Self, regex::Error> {
        let compile = |text: &String| RegexBuilder::new(text).case_insensitive(true).build();
        texts.iter().map(compile).collect::<Result<_, _>>().map(Self)
    }
}

impl Patterns {
    pub(crate) fn any_in(&self, text: &str) -> bool {
        self.0.iter().any(|pattern| pattern.is_match(text))
    }

    pub(crate) fn all_in(&self, text: &str) -> bool {
        self.0.iter().all(|pattern| pattern.is_match(text))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As they were written.
    pub(crate) fn texts(&self) -> Vec<&str> {
        self.0.iter().map(Regex::as_str).collect()
    }
}

fn default_ready() -> String {
    "READY".to_owned()
}

fn default_settle() -> u64 {
    1500
}

/// A truth file's text; an error says what contradicts itself.
pub(crate) fn parse_truth(text: &str) -> Outcome<Truth> {
    let truth: Truth = toml::from_str(text).map_err(|error| error.to_string())?;
    let is_healthy = truth.class == Class::Healthy;
    let says_nothing = [truth.kind.is_empty(), truth.place.is_empty(), truth.reason.is_empty()];
    if is_healthy && (says_nothing.contains(&false) || !truth.every.is_empty()) {
        return Err("of a healthy program there is no finding to expect".to_owned());
    }
    if truth.form.is_some() {
        let is_vague = says_nothing == [false, true, true] && truth.allocator.is_empty();
        if !is_healthy && (says_nothing[0] || is_vague) {
            return Err(
                "`kind` and one of `place`, `reason` and `allocator` say what the first finding has to"
                    .to_owned(),
            );
        }
    } else if !is_healthy && says_nothing.contains(&true) {
        return Err("`kind`, `place` and `reason` say what the first finding has to".to_owned());
    }
    if truth.source.contains('/') {
        return Err(format!("`{}` is not beside the truth file", truth.source));
    }
    Ok(truth)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SICK: &str = r#"
        language = "cpp"
        class = "hangs"
        cause = "two workers take two locks in different order"
        source = "ledger.cpp"
        observe = "stacks"
        kind = ["deadlock"]
        place = ["move_stock"]
        every = ["count_stock"]
        reason = ["mutex"]
    "#;

    #[test]
    fn what_is_not_said_is_usual() {
        let truth = parse_truth(SICK).unwrap();
        assert_eq!((truth.language, truth.class), (Language::Cpp, Class::Hangs));
        assert_eq!((truth.ready.as_str(), truth.settle_ms, truth.strip), ("READY", 1500, false));
    }

    #[test]
    fn case_does_not_matter_in_patterns() {
        let truth = parse_truth(SICK).unwrap();
        assert!(truth.place.any_in("waits in `Depot::Move_Stock`"));
        assert!(!truth.place.any_in("waits in `count_stock`"));
    }

    #[test]
    fn a_sick_program_without_a_place_is_refused() {
        let text = SICK.replace("place = [\"move_stock\"]", "");
        assert!(parse_truth(&text).unwrap_err().contains("`place`"));
    }

    #[test]
    fn a_healthy_program_with_a_kind_is_refused() {
        let text = SICK.replace("hangs", "healthy");
        assert!(parse_truth(&text).unwrap_err().contains("healthy"));
    }

    #[test]
    fn a_misspelt_field_is_refused() {
        let text = format!("{SICK}\nreasons = []");
        assert!(parse_truth(&text).unwrap_err().contains("reasons"));
    }

    #[test]
    fn a_pattern_that_is_none_is_refused() {
        let text = SICK.replace("\"mutex\"", "\"(mutex\"");
        assert!(parse_truth(&text).is_err());
    }

    #[test]
    fn a_source_elsewhere_is_refused() {
        let text = SICK.replace("ledger.cpp", "../ledger.cpp");
        assert!(parse_truth(&text).unwrap_err().contains("beside"));
    }
}
